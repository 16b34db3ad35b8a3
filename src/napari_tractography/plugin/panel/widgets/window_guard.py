"""Asks before a window closes in which something is unsaved, in place of napari's question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QEvent, QObject
from qtpy.QtGui import QCloseEvent
from qtpy.QtWidgets import QApplication, QWidget

from ...flag import Flag
from ...main_window import canvas_of


class WindowGuard(QObject):  # type: ignore[misc]
    """Stands before the closing of a window by a person.

    napari asks whether to close before it does so from a menu or by a key, and while it does so
    where the window system closes it. Where something `is_unsaved` our question comes first, by
    `may_close`, and napari's is left out.
    """

    def __init__(
        self, parent: QObject, is_unsaved: Callable[[], bool], may_close: Callable[[], bool]
    ) -> None:
        super().__init__(parent)
        self._is_unsaved, self._may_close = is_unsaved, may_close
        self._window: Any = None
        self._is_answered = Flag()  # whether the window closes after the question was answered

    def watch(self, window: QWidget | None) -> None:
        """Guard a window, and no other; None guards none."""
        if window is self._window:
            return
        if self._window is not None:
            self._window.removeEventFilter(self)
            vars(self._window).pop("close", None)
        self._window = window
        if window is not None:
            window.installEventFilter(self)
            if hasattr(window, "_quit_app"):  # napari's, not a dock that floats
                window.close = self._close

    def _close(self, quit_app: bool = False, confirm_need: bool = False) -> Any:
        """Close napari's window as its own method does, which asks where there is need to."""
        window = self._window
        close = type(window).close
        if not (confirm_need and self._is_unsaved()):
            return close(window, quit_app=quit_app, confirm_need=confirm_need)
        if not self._may_close():
            return None
        with self._is_answered:
            return close(window, quit_app=quit_app)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Let a person keep the window open, or save first."""
        window = self._window
        if window is None or watched is not window or event.type() != QEvent.Type.Close:
            return False
        # viewer.close() of a script takes napari's inside away first; a menu or a key does not.
        inside = canvas_of(window)
        is_by_person = event.spontaneous() or (inside is not None and inside.isVisible())
        if self._is_answered or not is_by_person or not self._is_unsaved():
            return False
        if not self._may_close():
            if hasattr(window, "_quit_app"):
                window._quit_app = False  # Ctrl+Q has set it, for the next closing too
            event.ignore()
            return True
        if not event.spontaneous() or _has_tasks(window):
            return False
        # Of an event that is not the window system's napari asks nothing.
        answered = QCloseEvent()
        with self._is_answered:
            QApplication.sendEvent(window, answered)
        event.setAccepted(answered.isAccepted())
        return True


def _has_tasks(window: Any) -> bool:
    """Return whether napari asks about work in the background, which is another question."""
    tasks = getattr(getattr(window, "_window", None), "_task_status_manager", None)
    return tasks is not None and bool(tasks.get_status())
