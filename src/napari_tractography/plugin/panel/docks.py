"""The panel as one dock, or as three that can be dragged apart.

Bundles; tracking, which is the panel itself with its foot; display and measures. The sections are
the same ones wherever they are. Called by the panel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QEvent, QObject, QSize, Qt
from qtpy.QtGui import QAction
from qtpy.QtWidgets import QDockWidget, QMainWindow, QScrollArea, QWidget

from ..timers import delayed
from .widgets.controls import align
from .widgets.dock_watch import DockWatch
from .widgets.layout import FOCUS_STYLE, Section, stack

# Sections beside those of tracking, by the dock that they are in.
DOCKS = {
    "Bundles": ("Bundles", "Selection"),
    "Display and measures": ("Display", "Measure", "View"),
}
HELP = (
    "Have the bundles, and what shows and measures them, in docks of their own, which may be "
    "dragged elsewhere; closing one brings all back."
)
MIN_WIDTH = 360
MOST_OF_SCREEN = 0.4  # that a dock takes by itself
BUNDLES_HEIGHT = 0.35  # of what all have at first


class Scroll(QScrollArea):  # type: ignore[misc]
    """Scrolls up and down, and sideways only where what is inside takes much of the screen."""

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        hint = super().minimumSizeHint()
        beside = self.verticalScrollBar().sizeHint().width() + 2 * self.frameWidth()
        most = round(MOST_OF_SCREEN * self.screen().availableGeometry().width())
        needed = self.widget().minimumSizeHint().width() + beside
        hint.setWidth(max(MIN_WIDTH, min(needed, most)))
        return hint

    def event(self, event: QEvent) -> bool:
        """Be as wide as what is inside needs now, by another font, say."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return bool(super().event(event))


def scrolled(inside: QWidget) -> QScrollArea:
    scroll = Scroll()
    scroll.setWidget(inside)
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QScrollArea.Shape.NoFrame)
    return scroll


def column(sections: list[Section]) -> QWidget:
    inside = QWidget()
    layout = stack(inside, *sections, spacing=2)
    layout.setContentsMargins(8, 0, 8, 4)
    layout.addStretch(1)
    return inside


class _Part(QWidget):  # type: ignore[misc]
    """What is in one of the further docks."""

    def __init__(self, sections: list[Section], forms: list[Any]) -> None:
        super().__init__()
        stack(self, scrolled(column(sections)))
        self.setStyleSheet(FOCUS_STYLE)
        self._forms = forms

    def showEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        align(self._forms)
        super().showEvent(event)


class PanelDocks(QObject):  # type: ignore[misc]
    """Where the sections of a panel are.

    `sections` are all of them, in their order in the column of the panel; `added` is called with
    each widget that some are moved to.
    """

    def __init__(
        self, panel: Any, home: QWidget, sections: list[Section], added: Callable[[QWidget], None]
    ) -> None:
        super().__init__(panel)
        self._panel, self._home, self._sections, self._added = panel, home, sections, added
        self._parts: dict[_Part, Any] = {}  # with their docks
        self.action = QAction("Panel in three docks", panel)
        self.action.setToolTip(HELP)
        self.action.setCheckable(True)
        self.action.toggled.connect(self.follow)
        self._later = delayed(self, 0, self.follow)
        self._sought = sections[0]
        self._scroll_later = delayed(self, 0, self._scroll)
        self._recheck_later = delayed(self, 0, self._recheck)

    @property
    def parts(self) -> list[QWidget]:
        """The widgets, beside the panel itself, in which sections are."""
        return list(self._parts)

    def follow_later(self) -> None:
        """Follow once the panel has its place in the window."""
        if self.action.isChecked() and not self._parts:
            self._later.start()

    def follow(self) -> None:
        """Have as many docks as are wanted, if the panel is in one."""
        if self.action.isChecked():
            self._split()
        else:
            self.join()

    def show(self, title: str) -> None:
        """Bring a section to the front, unfolded."""
        (section,) = (each for each in self._sections if each.title == title)
        section.header.setChecked(True)
        dock = _around(section, QDockWidget)
        if dock is not None:
            dock.show()
            dock.raise_()
        self._sought = section
        self._scroll_later.start()  # once what was unfolded has its place

    def _scroll(self) -> None:
        section, scroll = self._sought, _around(self._sought, QScrollArea)
        if scroll is not None:
            top = section.mapTo(scroll.widget(), section.rect().topLeft())
            scroll.verticalScrollBar().setValue(top.y())

    def _split(self) -> None:
        window, main = (
            getattr(self._panel.viewer, "window", None),
            _around(self._panel, QDockWidget),
        )
        if self._parts or window is None or main is None:
            return
        docks = []
        for title, names in DOCKS.items():
            part = _Part([s for s in self._sections if s.title in names], self._panel.forms)
            dock = window.add_dock_widget(part, name=title, area="right")
            self._parts[part] = dock
            docks.append(dock)
            self._added(part)
            DockWatch(part, opened=lambda: None, closed=self._recheck_later.start)
        inside = main.parentWidget()
        if isinstance(inside, QMainWindow) and not main.isFloating():
            # As the panel looked before: the bundles above, and one of the others in front.
            bundles, display = docks
            height = bundles.height() + main.height() + display.height()
            inside.splitDockWidget(bundles, main, Qt.Orientation.Vertical)
            inside.tabifyDockWidget(main, display)
            main.raise_()
            share = round(BUNDLES_HEIGHT * height)
            inside.resizeDocks([bundles, main], [share, height - share], Qt.Orientation.Vertical)

    def _recheck(self) -> None:
        """Bring all back where a person has closed one of the docks, and not the window."""
        if any(part.parentWidget() is None for part in self._parts):
            self.action.setChecked(False)

    def join(self) -> None:
        self._later.stop()
        self._recheck_later.stop()
        parts, self._parts = self._parts, {}
        if not parts:
            return
        layout = self._home.layout()
        for number, section in enumerate(self._sections):
            layout.insertWidget(number, section)
        for part, dock in parts.items():
            if part.parentWidget() is not None:  # else it was closed
                self._panel.viewer.window.remove_dock_widget(dock)
            part.deleteLater()


def _around(widget: QWidget, kind: type[QWidget]) -> Any:
    """Return the innermost widget of a kind that another is in; None where there is none."""
    parent = widget.parentWidget()
    while parent is not None and not isinstance(parent, kind):
        parent = parent.parentWidget()
    return parent
