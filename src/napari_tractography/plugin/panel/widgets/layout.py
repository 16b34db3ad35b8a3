"""Pieces that the panel is laid out with: sections, buttons, texts, rows, tables, menus."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtGui import QAction
from qtpy.QtWidgets import (
    QAbstractItemView,
    QBoxLayout,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMenu,
    QPushButton,
    QSizePolicy,
    QTableView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

AnyWidget = TypeVar("AnyWidget", bound=QWidget)

HEADER_STYLE = """
QPushButton, QPushButton:checked, QPushButton:hover {
    background: transparent; border: none; text-align: left; font-weight: bold; padding: 5px 0px;
}
QPushButton:focus { text-decoration: underline; }
"""

LINK = "color: #5b8def"  # to be read in a dark and in a light window

# What has the focus, which napari's style does not show; nothing changes its size.
# Entries of boxes are a list below them: Qt's menu hides some behind an arrow where it has no room.
FOCUS_STYLE = """
QComboBox { combobox-popup: 0; }
QPushButton:focus { border: 1px solid #5b8def; padding: 3px; }
QComboBox:focus { border: 1px solid #5b8def; padding: 2px 9px 2px 7px; }
QAbstractSpinBox:focus { border: 1px solid #5b8def; padding: 0px 9px; }
QCheckBox::indicator:focus { border: 1px solid #5b8def; width: 14px; height: 14px; }
QSlider::handle:horizontal:focus { background-color: #5b8def; }
"""


class Section(QWidget):  # type: ignore[misc]
    """A title that shows and hides the parts below it, from top to bottom."""

    def __init__(self, title: str, *parts: QWidget, is_open: bool = True) -> None:
        super().__init__()
        self.title = title
        self.header = QPushButton()
        self.header.setCheckable(True)
        self.header.setStyleSheet(HEADER_STYLE)
        self.header.setToolTip(f"Show or hide: {title}.")
        self.content = QWidget()
        stack(self.content, *parts).setContentsMargins(4, 0, 0, 4)
        stack(self, self.header, self.content, spacing=0)
        self.header.toggled.connect(self._fold)
        self.header.setChecked(is_open)
        self._fold(is_open)

    def _fold(self, is_open: bool) -> None:
        self.content.setVisible(is_open)
        self.header.setText(f"{'▾' if is_open else '▸'}  {self.title}")


def keys_here(text: str) -> str:
    """Return a text with keys as they are called here: what Qt calls Ctrl is Cmd on a Mac."""
    return text.replace("Ctrl", "Cmd") if sys.platform == "darwin" else text


def button(
    text: str, tooltip: str, act: Callable[[], object] | None = None, *, is_checkable: bool = False
) -> QPushButton:
    """Return a button, and what a click on it does."""
    created = QPushButton(text)
    created.setToolTip(tooltip)
    created.setCheckable(is_checkable)
    if act is not None:
        created.clicked.connect(lambda: act())
    return created


def shrinkable(widget: AnyWidget) -> AnyWidget:
    """Return a widget whose text is not to widen the panel."""
    widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return widget


def keep_room(widget: QWidget) -> None:
    """Let a widget keep its place while it is hidden."""
    policy = widget.sizePolicy()
    policy.setRetainSizeWhenHidden(True)
    widget.setSizePolicy(policy)


def row(*parts: QWidget, stretch_first: bool = False) -> QWidget:
    """Return widgets side by side; the first takes what room is left, or all the same."""
    created = QWidget()
    beside(created, *parts, stretch_first=stretch_first)
    return created


def beside(
    whole: QWidget, *parts: QWidget, stretch_first: bool = False, spacing: int | None = None
) -> QBoxLayout:
    """Lay widgets side by side in another one, as :func:`row`."""
    layout = _filled(QHBoxLayout(whole), parts, spacing)
    if stretch_first:
        layout.setStretch(0, 1)
    return layout


class Rows(QWidget):  # type: ignore[misc]
    """Buttons of one width side by side, in as many rows as their texts need."""

    def __init__(self, *parts: QWidget, spacing: int) -> None:
        super().__init__()
        self._parts = [shrinkable(part) for part in parts]
        self._grid = QGridLayout(self)
        self._grid.setSpacing(spacing)
        self._grid.setContentsMargins(spacing, 0, spacing, spacing)
        self._n_columns = 0
        self._fill(len(parts))

    def event(self, event: QEvent) -> bool:
        """Have other rows where there is another width, font or number of buttons."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            shown = [part for part in self._parts if not part.isHidden()]
            spacing = self._grid.spacing()
            widest = max(part.sizeHint().width() for part in shown) + spacing
            most = max((self.width() - spacing) // widest, 1)
            n_rows = -(-len(shown) // most)
            self._fill(-(-len(shown) // n_rows))
        return bool(super().event(event))

    def _fill(self, n_columns: int) -> None:
        if n_columns == self._n_columns:
            return
        self._n_columns = n_columns
        for part in self._parts:
            self._grid.removeWidget(part)
        for number, part in enumerate(self._parts):
            self._grid.addWidget(part, *divmod(number, n_columns))


def stack(whole: QWidget, *parts: QWidget, spacing: int | None = None) -> QBoxLayout:
    """Lay widgets below each other in another one, from edge to edge."""
    return _filled(QVBoxLayout(whole), parts, spacing)


def _filled(layout: QBoxLayout, parts: tuple[QWidget, ...], spacing: int | None) -> QBoxLayout:
    layout.setContentsMargins(0, 0, 0, 0)
    if spacing is not None:
        layout.setSpacing(spacing)
    for part in parts:
        layout.addWidget(part)
    return layout


def wrapped(
    text: str = "", tooltip: str = "", *, is_selectable: bool = False, is_plain: bool = False
) -> QLabel:
    """Return a text that takes as many lines as it needs; a plain one is never taken for HTML."""
    created = QLabel(text)
    created.setWordWrap(True)
    created.setToolTip(tooltip)
    if is_selectable:
        created.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if is_plain:
        created.setTextFormat(Qt.TextFormat.PlainText)
    return created


def linked(act: Callable[[str], object], tooltip: str) -> QLabel:
    """Return a line of rich text, whatever it begins with, and what its links do."""
    created = shrinkable(QLabel())
    created.setTextFormat(Qt.TextFormat.RichText)
    created.setTextInteractionFlags(
        Qt.TextInteractionFlag.LinksAccessibleByMouse
        | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
    )
    created.setToolTip(tooltip)
    created.linkActivated.connect(act)
    return created


def select_rows(table: QTableView, *, stretched: int = 0) -> None:
    """Let a table select whole rows, give one column what room is left, and Tab lead on past it."""
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setTabKeyNavigation(False)
    header = table.horizontalHeader()
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(stretched, QHeaderView.ResizeMode.Stretch)


class _ListFont(QObject):  # type: ignore[misc]
    """Gives a table the letters of napari's lists, for which its style has a size, unlike tables.

    They are a point smaller than those of a label.
    """

    def __init__(self, table: QTableView, fit: Callable[[], object]) -> None:
        super().__init__(table)
        self._fit, self._label = fit, QLabel(table)
        self._label.hide()
        self._room = table.verticalHeader().defaultSectionSize() - table.fontMetrics().lineSpacing()
        table.installEventFilter(self)

    def eventFilter(self, table: QTableView, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() in (QEvent.Type.Polish, QEvent.Type.StyleChange):
            self._label.ensurePolished()
            font, size = table.font(), self._label.font().pointSizeF() - 1
            if font.pointSizeF() != size:
                font.setPointSizeF(size)
                table.setFont(font)
                height = table.fontMetrics().lineSpacing() + self._room
                table.verticalHeader().setDefaultSectionSize(height)
                self._fit()
        return False


def follow_font(table: QTableView, fit: Callable[[], object]) -> None:
    """Let the letters of a table have the size that a person chose; `fit` makes room for them."""
    _ListFont(table, fit)


def show_few_rows(table: QTableWidget, most: int, beside: int = 0) -> None:
    """Make a table as high as its rows, up to so many, and what is beside them."""
    rows = sum(table.rowHeight(number) for number in range(min(table.rowCount(), most)))
    table.setFixedHeight(rows + beside + 4)


def number_item(text: str = "") -> QTableWidgetItem:
    """Return a cell with a number, at the right."""
    item = QTableWidgetItem(text)
    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return item


def show_text(label: QLabel, text: str) -> None:
    """Show a text in a label, which is hidden where there is none."""
    label.setText(text)
    label.setVisible(bool(text))


def add_entry(menu: QMenu, text: str, act: Callable[[], object], tooltip: str = "") -> QAction:
    """Add an entry to a menu."""
    entry = menu.addAction(text)
    if tooltip:
        menu.setToolTipsVisible(True)
        entry.setToolTip(tooltip)
    entry.triggered.connect(lambda _checked=False: act())
    return entry


def give_menu(owner: QPushButton, *entries: tuple[str, str, Callable[[], object]]) -> QMenu:
    """Give a button a menu of entries: text, tooltip, and what it does."""
    menu = QMenu(owner)
    for text, tooltip, act in entries:
        add_entry(menu, text, act, tooltip)
    owner.setMenu(menu)
    return menu
