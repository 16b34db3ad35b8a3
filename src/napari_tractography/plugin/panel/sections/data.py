"""The Data section of the panel: the FOD to track in and the mask to stay in, from layers or files.

Called by the panel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from magicgui import widgets
from napari.layers import Layer
from napari.utils.notifications import show_error
from qtpy.QtWidgets import QFileDialog, QLabel, QProgressBar, QVBoxLayout, QWidget

from ....errors import TractographyError
from ....fields.kinds import KINDS
from ....files.fods import load_mask
from ....files.paths import GivenUpError
from ....fod import Fod
from ...export.scripts import PATH_KEY
from ...layers.opening import FodOpening
from ...layers.volumes import (
    fod_grid_of,
    fod_layers,
    mask_layer_data,
    mask_layers,
    open_fod,
)
from ...session.session import Session
from ..widgets.busy_dialog import wait_for
from ..widgets.controls import form
from ..widgets.sections import button, row

FOD_FILTER = "FOD (*.nii *.nii.gz *.mif *.mif.gz *.mih)"
MASK_FILTER = "Mask (*.nii *.nii.gz *.mif *.mif.gz *.mih)"
VOLUME_OPACITY = 0.3
PROGRESS_STEPS = 1000


class DataSection(QWidget):  # type: ignore[misc]
    """Chooses the FOD and the mask of a session.

    Parameters
    ----------
    session : Session
    fod_changed : callable
        Called after another FOD was chosen.
    """

    def __init__(
        self, session: Session, fod_changed: Callable[[], None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.session = session
        self._fod_changed = fod_changed
        self._followed: FodOpening | None = None
        self._opacity = {2: 1.0, 3: VOLUME_OPACITY}  # of the volume, {dimensions shown: opacity}
        layers = session.viewer.layers
        self.fod_choice = widgets.ComboBox(
            name="fod",
            label="FOD",
            nullable=True,
            choices=lambda _widget: fod_layers(layers),
            tooltip="The FOD volume to track in, shown as its l = 0 map.",
        )
        self.mask_choice = widgets.ComboBox(
            name="mask",
            label="Mask",
            nullable=True,
            choices=lambda _widget: mask_layers(layers),
            tooltip="Streamlines stay where this layer is not zero; none tracks everywhere.",
        )
        self.open_fod = button("Open...", "Open an FOD volume from a file.")
        self.open_mask = button("Open...", "Open a mask on the FOD's grid from a file.")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        # Not aligned with the other sections: short labels leave room for file names.
        layout.addWidget(
            form([self.fod_choice, self.mask_choice], extra=[self.open_fod, self.open_mask])
        )
        self.kind = QLabel()
        self.kind.setWordWrap(True)
        self.kind.setToolTip(
            "What the volumes were taken for, by header and values. More > Check the FOD tells "
            "whether another basis fits better."
        )
        self.kind.setVisible(False)
        layout.addWidget(self.kind)
        self.reading = QProgressBar()
        self.reading.setRange(0, PROGRESS_STEPS)
        self.reading.setFormat("Reading: %p %")
        self.reading.setToolTip(
            "How much of the FOD file has been read. Seeds may be placed meanwhile."
        )
        self.cancel_reading = button("Cancel", "Read no more and remove the layer.")
        self.cancel_reading.clicked.connect(self._cancel_reading)
        self.reading_row = row(self.reading, self.cancel_reading, stretch_first=True)
        self.reading_row.setVisible(False)
        layout.addWidget(self.reading_row)
        self.fod_choice.changed.connect(self._on_fod)
        self.mask_choice.changed.connect(self._on_mask)
        self.open_fod.clicked.connect(self._open_fod)
        self.open_mask.clicked.connect(self._open_mask)

    def open(self) -> None:
        """Listen to the viewer."""
        self.session.viewer.dims.events.ndisplay.connect(self._on_ndisplay)
        self._follow_opening(self.session.opening)

    def close_section(self) -> None:
        """Stop listening to the viewer."""
        self.session.viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)
        self._follow_opening(None)

    def refresh_layers(self) -> None:
        """Offer the layers that there are; without an FOD take the newest."""
        known = fod_grid_of(self.fod_choice.value) is not None
        self.fod_choice.reset_choices()
        self.mask_choice.reset_choices()
        fods = fod_layers(self.session.viewer.layers)
        if not known and fods:
            self.fod_choice.value = fods[-1]
        self._on_fod(self.fod_choice.value)
        self._on_mask(self.mask_choice.value)

    def add_fod(self, path: str | Path) -> None:
        """Open an FOD volume as a layer and choose it; a large file goes on being read."""
        try:
            data = open_fod(path, self.session.viewer)
        except TractographyError as error:
            show_error(str(error))
            return
        self.fod_choice.value = self._add(data, path)

    def add_mask(self, path: str | Path) -> None:
        """Open a mask as a labels layer and choose it."""
        try:
            mask, grid = wait_for(lambda: load_mask(path), f"Opening {Path(path).name}", self)
        except TractographyError as error:
            show_error(str(error))
            return
        except GivenUpError:
            return
        self.mask_choice.value = self._add(mask_layer_data(mask, grid, Path(path).name), path)

    def _add(self, layer_data: Any, path: str | Path) -> Layer:
        layer = Layer.create(*layer_data)
        layer.metadata[PATH_KEY] = str(path)
        return self.session.viewer.add_layer(layer)

    def _open_fod(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open an FOD volume", "", FOD_FILTER)
        if path:
            self.add_fod(path)

    def _open_mask(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open a mask", "", MASK_FILTER)
        if path:
            self.add_mask(path)

    def _on_fod(self, layer: Layer | None) -> None:
        if layer is self.session.fod_layer:
            return
        self.session.choose_fod(layer)
        self._follow_opening(self.session.opening)
        self._fod_changed()
        if layer is not None and self.session.viewer.dims.ndisplay == 3:
            layer.opacity = self._opacity[3]

    def _follow_opening(self, opening: FodOpening | None) -> None:
        """Show how far the file has been read, and no other file."""
        if self._followed is not None:
            self._followed.progressed.disconnect(self._show_reading)
            self._followed.ended.disconnect(self._show_reading)
        self._followed = opening
        if opening is not None:
            opening.progressed.connect(self._show_reading)
            opening.ended.connect(self._show_reading)
        self._show_reading()

    def _show_reading(self, _event: Any = None) -> None:
        opening, fod = self.session.opening, self.session.fod
        self.kind.setVisible(fod is not None)
        if fod is not None:
            self.kind.setText(_kind_text(fod))
        self.reading_row.setVisible(opening is not None)
        if opening is not None:
            self.reading.setValue(int(PROGRESS_STEPS * opening.progress))

    def _cancel_reading(self) -> None:
        if self.session.opening is not None:
            self.session.opening.cancel()

    def _on_mask(self, layer: Layer | None) -> None:
        self.session.mask_layer = layer

    def _on_ndisplay(self, _event: Any) -> None:
        """Make the volume translucent in 3-D; slices and 3-D each keep their own opacity."""
        layer, now = self.session.fod_layer, self.session.viewer.dims.ndisplay
        if layer is not None:
            self._opacity[5 - now] = layer.opacity
            layer.opacity = self._opacity[now]


def _kind_text(fod: Fod) -> str:
    return f"FOD of {KINDS[fod.kind].text}, lmax {fod.lmax}, {fod.basis}"
