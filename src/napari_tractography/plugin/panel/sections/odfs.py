"""The row of the Data section that makes ODFs of the blocks of an image, in a thread.

Called by :mod:`.image`.
"""

from __future__ import annotations

from functools import partial

from napari.layers import Layer
from napari.utils.notifications import show_error
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from ....model.fod import Fod
from ...background import Background
from ...export.images import note_odfs
from ...layers.sources.images import ODF_SPEC, OF_IMAGE_KEY
from ...layers.volumes import fod_layer_data
from ..widgets.controls import form, parameter_control
from ..widgets.progress_row import ProgressRow
from ..widgets.sections import button, stack


class OdfRow(QWidget):  # type: ignore[misc]
    """The size of a block, a button, and how far the work is."""

    made = Signal(object)  # Layer that shows the ODFs

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.size = parameter_control(ODF_SPEC)
        self.make = button(
            "Make ODFs",
            "Work out the whole image, and how orientations are distributed in each block: an FOD "
            "for the probabilistic algorithms.",
        )
        self.progress = ProgressRow("How much of the image has been worked out.", "Make no ODFs.")
        stack(self, form([self.size], extra=[self.make]), self.progress)
        self.work = Background()
        self.work.progressed.connect(self.progress.show_progress)
        self.work.ended.connect(self._on_ended)
        self.work.failed.connect(show_error)
        self.progress.cancelled.connect(self.work.cancel)

    @property
    def is_busy(self) -> bool:
        """Whether ODFs are being made."""
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

    def _on_ended(self) -> None:
        self.make.setEnabled(True)
        self.progress.finish()

    def _take(self, layer: Layer, fod: Fod, n_voxels: int, made: Fod) -> None:
        data, attributes, kind = fod_layer_data(made)
        name = f"{layer.name}, ODFs of {n_voxels}³ voxels"
        shown = Layer.create(data, {**attributes, "name": name}, kind)
        note_odfs(shown, layer, fod, n_voxels)
        shown.metadata[OF_IMAGE_KEY] = layer
        self.made.emit(shown)
