"""A person's desk: a window with the panel docked, hands, and a camera.

Everything is done as a person does it: buttons are clicked, keys go to the canvas, clicks to the
pixel at which a position is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hands import Mouse, fod_layer, lie_still
from numpy.typing import NDArray
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QWidget

from napari_tractography.model.fod import Fod
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.widgets.layout import Section

SHIFT, CONTROL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier
NOTHING = Qt.KeyboardModifier.NoModifier
WAIT_MS = 20


class Desk:
    """What a person has in front of them.

    Parameters
    ----------
    viewer : napari.Viewer
        That is shown.
    fod : Fod
        Opened, and chosen.
    pictures : Path
        The folder that pictures are taken into.
    """

    def __init__(self, viewer: Any, fod: Fod, pictures: Path) -> None:
        self.viewer, self.pictures = viewer, pictures
        self.panel = TractographyPanel(viewer, remember=False)
        self.session = self.panel.session
        viewer.window.add_dock_widget(self.panel, name="Tractography", area="right")
        viewer.add_layer(fod_layer(fod))
        self.settle()
        viewer.reset_view()

    def click(self, widget: QWidget) -> None:
        """Click a button in its middle, in a section that is opened for it."""
        for section in self.panel.findChildren(Section):
            if section.isAncestorOf(widget):
                section.header.setChecked(True)
        self.settle()
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton)
        self.settle()

    def press(self, key: Qt.Key, keys: Qt.KeyboardModifier = NOTHING) -> None:
        """Press a key over the canvas."""
        QTest.keyClick(self.viewer.window._qt_viewer.canvas.native, key, keys)
        self.settle()

    def point(self, zyx: Any, keys: Qt.KeyboardModifier = NOTHING) -> None:
        """Click a position of the image."""
        Mouse(self.viewer).click(zyx, keys)
        self.settle()

    def choose(self, menu: Any, *texts: str) -> None:
        """Choose an entry of a menu, or of one below it."""
        for text in texts:
            (entry,) = (action for action in menu.actions() if action.text() == text)
            menu = entry.menu()
        entry.trigger()
        self.settle()

    def run(self) -> None:
        """Track, by the key."""
        self.press(Qt.Key.Key_Return, CONTROL)

    def settle(self) -> None:
        """Let runs end and everything find its place."""
        while self.panel.runs.is_busy:
            QTest.qWait(WAIT_MS)
        lie_still(self.panel)

    def picture(self, name: str) -> None:
        """Take a picture of the screen, with what is open above the window."""
        self.viewer.screenshot(flash=False)  # the canvas has been drawn
        QTest.qWait(10 * WAIT_MS)
        picture = QApplication.primaryScreen().grabWindow(0)
        assert picture.save(str(self.pictures / f"{name}.png"))

    def canvas(self) -> NDArray[np.int64]:
        """Return what the canvas shows, (height, width, 3)."""
        return np.asarray(self.viewer.screenshot(flash=False)[..., :3], dtype=int)
