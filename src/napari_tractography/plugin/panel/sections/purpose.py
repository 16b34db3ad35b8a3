"""What a person tracks for: the algorithm that suits it, by one click, and what was measured.

Called by :mod:`.tracking`.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDialog, QLabel, QToolButton, QWidget

from ....model import purposes
from ....model.purposes import PURPOSES, Purpose
from ..widgets.layout import button, row, stack, wrapped


class PurposeRow(QWidget):  # type: ignore[misc]
    """A button for each purpose, pressed where its algorithm is chosen, and one for the figures.

    `choose` is called with the name of an algorithm, by which `buttons` has the buttons.
    """

    def __init__(self, choose: Callable[[str], None]) -> None:
        super().__init__()
        self.buttons = {each.algorithm: self._button(each, choose) for each in PURPOSES}
        self.figures = QToolButton()
        self.figures.setText("?")
        self.figures.setToolTip("What was measured of each algorithm, where the truth is known.")
        self.figures.setAccessibleName("What was measured")
        self.figures.clicked.connect(lambda: measured_dialog(self).open())
        stack(self, row(*self.buttons.values(), self.figures))

    def show_algorithm(self, name: str) -> None:
        """Show which algorithm is chosen."""
        for algorithm, each in self.buttons.items():
            each.setChecked(algorithm == name)

    def _button(self, purpose: Purpose, choose: Callable[[str], None]) -> QWidget:
        created = button(purpose.name, f"{purpose.name}: {purpose.help} ({purpose.algorithm}).")
        created.setCheckable(True)
        created.setAutoDefault(False)
        created.clicked.connect(lambda: choose(purpose.algorithm))
        return created


def measured_dialog(parent: QWidget) -> QDialog:
    """Return a dialog with what was measured of each algorithm."""
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle("Which algorithm for what")
    for_what = "".join(
        f"<li><b>{each.name}</b>, {each.help}: {each.algorithm}</li>" for each in PURPOSES
    )
    own = {each.algorithm for each in PURPOSES}
    lines = [
        _line("th", "valid / invalid, %", purposes.MEASURED_COLUMNS),
        *(_line("th" if n in own else "td", n, cells) for n, *cells in purposes.MEASURED),
    ]
    table = QLabel(f"<table cellpadding=4>{''.join(lines)}</table>")
    where = purposes.MEASURED_WHERE.replace("`", "")
    stack(
        dialog,
        wrapped(f"<ul>{for_what}</ul>"),
        table,
        wrapped(f"{purposes.READING}<br><br>{purposes.MEASURED_HOW} ({where})"),
        spacing=8,
    )
    dialog.layout().setContentsMargins(12, 12, 12, 12)
    return dialog


def _line(tag: str, name: str, cells: Iterable[str]) -> str:
    """Return a row of a table in HTML."""
    of_cells = "".join(f"<{tag} align=center>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr><{tag} align=left>{html.escape(name)}</{tag}>{of_cells}</tr>"
