"""Pieces that the panel is laid out with: sections that fold, buttons, rows, columns, menus."""

from __future__ import annotations

import sys
from collections.abc import Callable

from qtpy.QtGui import QAction
from qtpy.QtWidgets import QHBoxLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

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
        inside = QVBoxLayout(self.content)
        inside.setContentsMargins(4, 0, 0, 4)
        for part in parts:
            inside.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.header)
        layout.addWidget(self.content)
        self.header.toggled.connect(self._fold)
        self.header.setChecked(is_open)
        self._fold(is_open)

    def _fold(self, is_open: bool) -> None:
        self.content.setVisible(is_open)
        self.header.setText(f"{'▾' if is_open else '▸'}  {self.title}")


def keys_here(text: str) -> str:
    """Return a text with keys as they are called here: what Qt calls Ctrl is Cmd on a Mac."""
    return text.replace("Ctrl", "Cmd") if sys.platform == "darwin" else text


def button(text: str, tooltip: str) -> QPushButton:
    """Return a button."""
    created = QPushButton(text)
    created.setToolTip(tooltip)
    return created


def row(*parts: QWidget, stretch_first: bool = False) -> QWidget:
    """Return widgets side by side; the first takes what room is left, or all the same."""
    created = QWidget()
    layout = QHBoxLayout(created)
    layout.setContentsMargins(0, 0, 0, 0)
    for number, part in enumerate(parts):
        layout.addWidget(part, int(stretch_first and number == 0))
    return created


def stack(whole: QWidget, *parts: QWidget, spacing: int | None = None) -> None:
    """Lay widgets below each other in another one, from edge to edge."""
    layout = QVBoxLayout(whole)
    layout.setContentsMargins(0, 0, 0, 0)
    if spacing is not None:
        layout.setSpacing(spacing)
    for part in parts:
        layout.addWidget(part)


def wrapped(text: str = "", tooltip: str = "") -> QLabel:
    """Return a text that takes as many lines as it needs."""
    created = QLabel(text)
    created.setWordWrap(True)
    created.setToolTip(tooltip)
    return created


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
