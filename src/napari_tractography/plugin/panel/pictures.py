"""The options of screenshots: scale, background and letters. Called by the panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.utils.notifications import show_error, show_info
from qtpy.QtWidgets import QFileDialog, QHBoxLayout, QLabel, QWidget

from ...errors import TractographyError
from ...parameters import ParameterSpec
from ..export.screenshots import save_screenshot
from .widgets.controls import parameter_controls, values_of

PICTURE_SPECS = (
    ParameterSpec(
        name="picture_scale",
        label="Scale",
        default=1.0,
        unit="x",
        minimum=1.0,
        maximum=8.0,
        increment=1.0,
        help="Pixels of a screenshot for each pixel of the canvas, along each side; lines get as "
        "much wider.",
    ),
    ParameterSpec(
        name="transparent",
        label="Transparent",
        default=False,
        help="Leave the background of a screenshot out.",
    ),
    ParameterSpec(
        name="picture_letters",
        label="Letters",
        default=True,
        help="Write R, L, A, P, S, I at the edges of a screenshot.",
    ),
)
SCALE_WIDTH = 72  # pixels


class Pictures(QWidget):  # type: ignore[misc]
    """The options of screenshots, and saving one.

    Parameters
    ----------
    viewer : napari.Viewer
    """

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        self.controls = parameter_controls(PICTURE_SPECS)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        scale, *switches = self.controls
        text = QLabel(scale.label)
        text.setToolTip(scale.tooltip)
        text.setBuddy(scale.box)
        scale.box.setFixedWidth(SCALE_WIDTH)
        layout.addWidget(text)
        layout.addWidget(scale.native)
        for switch in switches:  # each says itself what it is
            switch.native.setText(switch.label)
            layout.addWidget(switch.native)
        layout.addStretch(1)

    def ask(self) -> None:
        """Ask where to, and save a picture of the canvas."""
        path, _ = QFileDialog.getSaveFileName(
            self, "Save a picture", "tractography.png", "PNG (*.png)"
        )
        if path:
            self.save(path)

    def save(self, path: str | Path) -> None:
        """Save a picture of the canvas."""
        chosen = values_of(self.controls)
        try:
            save_screenshot(
                self.viewer,
                path,
                scale=chosen["picture_scale"],
                transparent=chosen["transparent"],
                letters=chosen["picture_letters"],
            )
        except TractographyError as error:
            show_error(str(error))
            return
        show_info(f"Saved the picture to {path}.")
