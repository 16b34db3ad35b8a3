"""Undo and redo of seeds and regions: two small buttons, and the keys in panel and viewer.

Used by the panel and its sections.
"""

from __future__ import annotations

from typing import Any

from app_model.types import KeyCode, KeyMod
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QHBoxLayout, QShortcut, QWidget

from ...session.history import History
from .sections import button, keys_here

UNDO_HELP = "Undo what was done last to seeds or regions. Ctrl+Z, unless another layer's own undo."
REDO_HELP = "Do again what was undone. Ctrl+Shift+Z."
BUTTON_WIDTH = 30  # pixels
KEYS = {
    "undo": (KeyMod.CtrlCmd | KeyCode.KeyZ, QKeySequence.StandardKey.Undo),
    # Ctrl+Y is napari's, for 2-D and 3-D.
    "redo": (KeyMod.CtrlCmd | KeyMod.Shift | KeyCode.KeyZ, QKeySequence("Ctrl+Shift+Z")),
}


class UndoButtons(QWidget):  # type: ignore[misc]
    """Undo and Redo, side by side.

    Parameters
    ----------
    history : History

    Attributes
    ----------
    undo, redo : QPushButton
    """

    def __init__(self, history: History, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._history = history
        self.undo = button("↶", keys_here(UNDO_HELP))
        self.redo = button("↷", keys_here(REDO_HELP))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        actions = ((self.undo, "Undo", history.undo), (self.redo, "Redo", history.redo))
        for made, name, act in actions:
            made.setFixedWidth(BUTTON_WIDTH)
            made.setAccessibleName(f"{name} seeds and regions")
            made.clicked.connect(lambda _checked=False, a=act: a())
            layout.addWidget(made)
        history.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Enable what is possible."""
        self.undo.setEnabled(self._history.can_undo)
        self.redo.setEnabled(self._history.can_redo)


class UndoKeys:
    """Ctrl+Z and Ctrl+Shift+Z in a panel, and in its viewer where no layer takes them.

    Parameters
    ----------
    panel : QWidget
    viewer : napari.viewer.ViewerModel
    history : History
    """

    def __init__(self, panel: QWidget, viewer: Any, history: History) -> None:
        self._viewer = viewer
        self._acts = {"undo": history.undo, "redo": history.redo}
        for name, (_, keys) in KEYS.items():
            shortcut = QShortcut(QKeySequence(keys), panel)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(self._acts[name])

    def open(self) -> None:
        """Take the keys in the viewer."""
        for name, (keys, _) in KEYS.items():
            act = self._acts[name]
            self._viewer.bind_key(keys, lambda _viewer, a=act: a(), overwrite=True)

    def close(self) -> None:
        """Give the keys back."""
        for keys, _ in KEYS.values():
            self._viewer.bind_key(keys, None)
