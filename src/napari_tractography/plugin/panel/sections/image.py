"""What the Data section says of an image that is tracked in: scales, and what is worked out.

Called by the Data section, which hides it for all other kinds of input.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np
from napari.layers import Layer
from napari.utils.notifications import show_info
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QLineEdit, QWidget

from ....errors import TractographyError
from ....fields.structure_tensors import SMALLEST_RHO, SMALLEST_SIGMA
from ....files.image_files import is_zarr, ome_voxel_size
from ....geometry.units import symbol
from ....model.fod import Fod
from ...background import Background
from ...export.layer_files import note_odfs, path_of
from ...flag import Flag
from ...layers.layer_watch import LayerWatch
from ...layers.sources.image_layers import (
    IMAGE_SPECS,
    ODF_SPEC,
    OF_IMAGE_KEY,
    SCALE_UNITS,
    ImageSettings,
    WorkedOut,
    has_scale,
    is_image_source,
    set_scale,
    settings_of,
    show_worked_out,
    take_image,
    worked_out_layer,
    zoom_to,
)
from ...layers.volume_layers import fod_layer_data, mask_layers, place
from ...notices import show_error
from ...session.session import Session
from ...space.display import set_units
from ...space.layer_list import insert_beside, take_out
from ...timers import delayed, repeated
from ..widgets.controls import (
    form,
    layer_choice,
    offer_layers,
    on_change,
    parameter_control,
    parameter_controls,
    set_values,
    values_of,
)
from ..widgets.layout import button, row, stack, wrapped
from ..widgets.progress_row import ProgressRow

REFRESH_MS = 500  # between two refreshes of what has been computed
WAIT_MS = 150  # after the last move of a slider, before orientations are computed again
NO_SCALE = "This image has no physical scale: a voxel counts as 1. How large is it?"
SIZE_LIMITS = 1e-6, 1e6
NO_SIZE = "{!r} is no voxel size; give one number above zero, or three, along x, y and z."


class OdfRow(QWidget):  # type: ignore[misc]
    """The size of a block, a button, and how far the work is."""

    created = Signal(object)  # Layer that shows the ODFs

    def __init__(self, make: Callable[[], None]) -> None:
        super().__init__()
        self.size = parameter_control(ODF_SPEC)
        self.make = button(
            "Make ODFs",
            "Work out the whole image, and how orientations are distributed in each block: an FOD "
            "for the probabilistic algorithms.",
            make,
        )
        self.progress = ProgressRow("How much of the image has been worked out.", "Make no ODFs.")
        stack(self, form([self.size], extra=[self.make]), self.progress)
        self.work = Background()
        self.progress.follow(self.work)
        self.work.ended.connect(lambda: self.make.setEnabled(True))
        self.work.failed.connect(show_error)

    @property
    def is_busy(self) -> bool:
        return self.work.is_busy

    def start(self, layer: Layer, fod: Fod) -> None:
        """Begin to make the ODFs of an image; `made` follows."""
        if not self.is_busy:
            n_voxels = int(self.size.value)
            self.make.setEnabled(False)
            self.work.begin(
                "ODFs",
                lambda advance: fod.odfs(n_voxels, progress=advance),
                partial(self._take, layer, fod, n_voxels),
            )

    def _take(self, layer: Layer, fod: Fod, n_voxels: int, created: Fod) -> None:
        data, attributes, kind = fod_layer_data(created)
        name = f"{layer.name}, ODFs of {n_voxels}³ voxels"
        shown = Layer.create(data, {**attributes, "name": name}, kind)
        note_odfs(shown, layer, fod, n_voxels)
        shown.metadata[OF_IMAGE_KEY] = layer
        self.created.emit(shown)


class ImageSection(QWidget):  # type: ignore[misc]
    """Controls of the image that a session tracks in; hidden where it tracks in something else."""

    scaled = Signal()  # it is known now how large the voxels are

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._layer: Layer | None = None
        self.controls = parameter_controls(IMAGE_SPECS)
        self.ask = wrapped(NO_SCALE)
        self.size = QLineEdit("1")
        self.size.setToolTip(
            "Edge length of a voxel; the shortest, where it is not a cube. Or three numbers, along "
            "x, y and z: 0.5 0.5 2."
        )
        self.size.returnPressed.connect(self._set_size)
        self.unit = QComboBox()
        for unit in SCALE_UNITS:
            self.unit.addItem(symbol(unit), unit)
        self.unit.setCurrentIndex(SCALE_UNITS.index("um"))
        self.unit.setToolTip("The unit of the edge length, and of all lengths from then on.")
        set_help = "Give the layer this voxel size and this unit."
        self.set_size = button("Set", set_help, self._set_size)
        self.scale_row = row(self.size, self.unit, self.set_size, stretch_first=True)
        self.show_blocks = QCheckBox("Show what has been worked out")
        self.show_blocks.setToolTip(
            "Orientations are worked out where streamlines go: a layer of the blocks where they "
            "have been."
        )
        self.tissue = layer_choice(
            "tissue",
            "Fibres within",
            lambda: [x for x in mask_layers(session.viewer.layers) if x is not self._layer],
            "Only where this layer is not zero there are fibres; none seeks them everywhere.",
        )
        self.odfs = OdfRow(self._make_odfs)
        self.form = form([*self.controls, self.tissue])
        stack(self, self.ask, self.scale_row, self.form, self.show_blocks, self.odfs)
        self._blocks: WorkedOut | None = None
        self._asked: WeakSet[Layer] = WeakSet()  # whose files were asked for their voxel size
        self._is_showing = Flag()
        self._wait = delayed(self, WAIT_MS, self._take)
        self._watched = LayerWatch(self._on_control)
        self._refresh = repeated(self, REFRESH_MS, self._refresh_if_more)
        self._n_shown = -1  # blocks made in all, when the layer of them was shown last
        on_change([*self.controls, self.tissue], self._on_control)
        self.show_blocks.toggled.connect(self.refresh_blocks)
        session.result_changed.connect(self.refresh_blocks)
        self.follow()

    def follow(self) -> None:
        """Show what the session tracks in, if that is an image."""
        layer = self.session.fod_layer
        if layer is not self._layer:
            self._wait.stop()
        self._layer = layer if is_image_source(layer) else None
        self.setVisible(self._layer is not None)
        if self._layer is not None:
            self._show_settings(self._layer)
            if self._take_own_size(self._layer):
                return
            asks = not has_scale(self._layer)
            self.ask.setVisible(asks)
            self.scale_row.setVisible(asks)
        self.refresh_blocks()

    def close_section(self) -> None:
        self._wait.stop()
        self._refresh.stop()
        self._watched.layer = None
        self.odfs.work.cancel()

    def _show_settings(self, layer: Layer) -> None:
        settings = settings_of(layer)
        with self._is_showing:
            set_values(self.controls, {c.name: getattr(settings, c.name) for c in self.controls})
            self.tissue.reset_choices()
            self.tissue.value = settings.tissue if settings.tissue in self.tissue.choices else None
            self._watched.layer = self.tissue.value

    def _on_control(self) -> None:
        if not self._is_showing:
            self._wait.start()

    def _take(self) -> bool:
        """Find fibres as the controls say, and track again where Live is on; False if refused."""
        layer = self._layer
        if layer is None:
            return False
        place(self.tissue.value, self.session.space)
        wanted = ImageSettings(**values_of(self.controls), tissue=self.tissue.value)
        try:
            take_image(layer, wanted)
        except TractographyError as error:
            self._show_settings(layer)
            show_error(str(error))
            return False
        self._watched.layer = wanted.tissue
        self.session.retake_fod()
        self.refresh_blocks()
        return True

    def _make_odfs(self) -> None:
        fod = self.session.fod
        if self._layer is not None and fod is not None:
            self.odfs.start(self._layer, fod)

    def refresh_layers(self) -> None:
        """Offer the layers that there are; a tissue that was removed is none."""
        before = self.tissue.value
        with self._is_showing:
            offer_layers(self.tissue, before)
        if self.tissue.value is not before:
            self._on_control()

    def _take_own_size(self, layer: Layer) -> bool:
        """Give an image the size that its OME-Zarr says, where what opened it did not; say so."""
        path = path_of(layer)
        if layer in self._asked or has_scale(layer) or path is None or not is_zarr(path):
            return False
        self._asked.add(layer)
        found = ome_voxel_size(path, (layer.data[0] if layer.multiscale else layer.data).shape)
        if found is None or found[1] not in SCALE_UNITS or (layer.scale != 1).any():
            return False
        sizes, unit = found
        if not self._give_size(layer, sizes, unit):
            return False
        size = " x ".join(f"{length:g}" for length in sizes)
        show_info(f"{layer.name} has voxels of {size} {symbol(unit)}, as its file says.")
        return True

    def _set_size(self) -> None:
        text = self.size.text()
        try:
            sizes = [float(word) for word in re.split(r"[\s,;x×]+", text.strip())]
        except ValueError:
            sizes = []
        low, high = SIZE_LIMITS
        if len(sizes) not in (1, 3) or not all(low <= size <= high for size in sizes):
            show_error(NO_SIZE.format(text))
        elif self._layer is not None:
            self._give_size(self._layer, sizes, self.unit.currentData())

    def _give_size(self, layer: Layer, sizes: Sequence[float], unit: str) -> bool:
        """Show an image in voxels of some size; where no fibres can be sought so, as it was."""
        viewer, zoom = self.session.viewer, zoom_to(layer, sizes)
        point = np.asarray(viewer.dims.point) * zoom
        beside = [other for other in mask_layers(viewer.layers) if _covers(other, layer)]
        before = [(each, each.scale, each.translate, each.units) for each in (layer, *beside)]
        for each in (layer, *beside):
            set_scale(each, zoom, unit)
        edges = np.abs(layer.scale)
        longest = edges.max() / np.prod(edges) ** (1 / 3)  # in voxels, as scales are
        with self._is_showing:
            for control, least in zip(self.controls, (SMALLEST_SIGMA, SMALLEST_RHO), strict=False):
                control.value = max(control.value, math.ceil(10 * least * longest) / 10)
        if not self._take():
            for each, scale, translate, units in before:
                each.scale, each.translate = scale, translate
                set_units(each, units)
            return False
        self.follow()
        self.scaled.emit()
        viewer.dims.set_point(range(viewer.dims.ndim), point)  # the same slices
        # Where the numbers stay and the unit alone is another, napari takes no new slice: what it
        # took while only the layer had the unit lies outside.
        viewer.dims.events.point(value=viewer.dims.point)
        for each in (layer, *beside):
            each.refresh()
        viewer.reset_view()
        return True

    def _refresh_if_more(self) -> None:
        fod = self.session.fod
        if fod is not None and fod.blocks is not None and fod.blocks.n_made != self._n_shown:
            self.refresh_blocks()

    def refresh_blocks(self, _event: Any = None) -> None:
        """Update the layer of what has been computed, or take it away."""
        viewer = self.session.viewer
        fod = None if self._layer is None else self.session.fod
        if fod is None or fod.blocks is None or not self.show_blocks.isChecked():
            self._refresh.stop()
            take_out(viewer, self._blocks)
            self._blocks = None
            return
        self._n_shown = fod.blocks.n_made
        self._refresh.start()
        if self._blocks is None or self._blocks not in viewer.layers:
            self._blocks = worked_out_layer(fod)
            insert_beside(viewer, self._blocks)
        else:
            show_worked_out(self._blocks, fod)


def _covers(mask: Layer, image: Layer) -> bool:
    """Return whether a layer without a scale of its own lies on the voxels of an image."""
    shape = image.data[0].shape if image.multiscale else image.data.shape
    if mask is image or has_scale(mask) or mask.data.shape != shape:
        return False
    one, other = ([each.scale, each.translate] for each in (mask, image))
    return bool(np.allclose(one, other))
