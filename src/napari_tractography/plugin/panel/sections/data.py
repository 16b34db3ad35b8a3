"""The Data section of the panel: the FOD to track in and the mask to stay in, from layers or files.

Called by the panel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from magicgui import widgets
from napari.layers import Layer
from napari.utils.notifications import show_error, show_info
from qtpy.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from ....errors import TractographyError
from ....files.fods import load_fod, load_mask
from ....files.paths import GivenUpError
from ...export.scripts import PATH_KEY
from ...layers.volumes import fod_layer_data, fod_layers, fod_of, mask_layer_data, mask_layers
from ...session.session import Session
from ..widgets.busy_dialog import wait_for
from ..widgets.controls import form
from ..widgets.sections import button

FOD_FILTER = "FOD (*.nii *.nii.gz *.mif *.mif.gz *.mih)"
MASK_FILTER = "Mask (*.nii *.nii.gz *.mif *.mif.gz *.mih)"
VOLUME_OPACITY = 0.3


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
        self.fod_choice.changed.connect(self._on_fod)
        self.mask_choice.changed.connect(self._on_mask)
        self.open_fod.clicked.connect(self._open_fod)
        self.open_mask.clicked.connect(self._open_mask)

    def open(self) -> None:
        """Listen to the viewer."""
        self.session.viewer.dims.events.ndisplay.connect(self._on_ndisplay)

    def close_section(self) -> None:
        """Stop listening to the viewer."""
        self.session.viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)

    def refresh_layers(self) -> None:
        """Offer the layers that there are; without an FOD take the newest."""
        known = fod_of(self.fod_choice.value) is not None
        self.fod_choice.reset_choices()
        self.mask_choice.reset_choices()
        fods = fod_layers(self.session.viewer.layers)
        if not known and fods:
            self.fod_choice.value = fods[-1]
        self._on_fod(self.fod_choice.value)
        self._on_mask(self.mask_choice.value)

    def add_fod(self, path: str | Path) -> None:
        """Open an FOD volume as a layer and choose it."""
        try:
            fod = wait_for(lambda: load_fod(path), f"Opening {Path(path).name}", self)
        except TractographyError as error:
            show_error(str(error))
            return
        except GivenUpError:
            return
        self.fod_choice.value = self._add(fod_layer_data(fod), path)
        if fod.n_invalid_voxels:
            show_info(fod.invalid_voxels_message)

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
        self._fod_changed()
        if layer is not None and self.session.viewer.dims.ndisplay == 3:
            layer.opacity = self._opacity[3]

    def _on_mask(self, layer: Layer | None) -> None:
        self.session.mask_layer = layer

    def _on_ndisplay(self, _event: Any) -> None:
        """Make the volume translucent in 3-D; slices and 3-D each keep their own opacity."""
        layer, now = self.session.fod_layer, self.session.viewer.dims.ndisplay
        if layer is not None:
            self._opacity[5 - now] = layer.opacity
            layer.opacity = self._opacity[now]
