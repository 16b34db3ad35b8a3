"""Asks what a file is to be read as that does not look like an FOD. Called by the Data section."""

from __future__ import annotations

from qtpy.QtWidgets import QMessageBox, QWidget

from ....errors import AmbiguousKindError
from ....fields.kinds import read_kinds

TITLE = "What does the file hold?"


def ask_kind(error: AmbiguousKindError, parent: QWidget) -> str:
    """Return the kind that the person chooses among those that the error names, or ""."""
    box = QMessageBox(QMessageBox.Icon.Question, TITLE, str(error), parent=parent.window())
    kinds = read_kinds()
    buttons = {
        box.addButton(f"Read as {kinds[name].short}", QMessageBox.ButtonRole.AcceptRole): name
        for name in error.kinds
    }
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    box.exec()
    return buttons.get(box.clickedButton(), "")
