"""Whether a docked widget is in use: napari has no event for a dock or window that closes.

Nor has Qt one for a script that ends with its windows open: its objects are deleted one by one.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from qtpy.QtCore import QEvent, QObject, QTimer
from qtpy.QtWidgets import QWidget


class DockWatch(QObject):  # type: ignore[misc]
    """Watches a widget, its dock and its window.

    `opened` is called when the widget is put into a dock, `closed` when the dock or the window
    closes or the program ends.
    """

    _all: ClassVar[weakref.WeakSet[DockWatch]] = weakref.WeakSet()

    def __init__(
        self, widget: QWidget, *, opened: Callable[[], None], closed: Callable[[], None]
    ) -> None:
        super().__init__(widget)
        self._widget = widget
        self._opened = opened
        self._closed = closed
        self._window_ref: Callable[[], QWidget | None] = lambda: None  # weak
        widget.installEventFilter(self)
        self._all.add(self)

    @classmethod
    def close_all(cls) -> None:
        """Close all widgets, as the program ends, while Qt's objects are still there."""
        for watch in list(cls._all):
            with suppress(RuntimeError):  # of a widget that Qt has deleted before
                watch._closed()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Note events; all of them still reach their target."""
        kind = event.type()
        if watched is self._widget:
            if kind == QEvent.Type.Show:
                self._watch_window()
            elif kind == QEvent.Type.ParentChange:
                # A dock that is closed leaves its content without a parent.
                gone = self._widget.parentWidget() is None
                (self._closed if gone else self._opened)()
        elif watched is self._window and kind == QEvent.Type.Close:
            if event.spontaneous():  # by the person, who may yet be asked and refuse
                QTimer.singleShot(0, self._check_window)
            else:
                self._closed()
        return False

    @property
    def _window(self) -> QWidget | None:
        return self._window_ref()

    def _watch_window(self) -> None:
        window: QWidget = self._widget
        while window.parentWidget() is not None:  # a floating dock is a window of its own
            window = window.parentWidget()
        if window is self._window or window is self._widget:
            return
        if self._window is not None:
            self._window.removeEventFilter(self)
        self._window_ref = weakref.ref(window)
        window.installEventFilter(self)

    def _check_window(self) -> None:
        if self._window is None or not self._window.isVisible():
            self._closed()


atexit.register(DockWatch.close_all)  # after Qt's own, so that it is called before
