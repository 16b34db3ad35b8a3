"""The row of the Data section that makes ODFs of the blocks of an image, in a thread.

Called by :mod:`.image`.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from napari.layers import Layer
from napari.utils.notifications import show_error
from qtpy.QtCore import QTimer, Signal
from qtpy.QtWidgets import QWidget

from ....errors import TractographyError
from ....files.paths import GivenUpError
from ....model.fod import Fod
from ...export.images import note_odfs
from ...layers.sources.images import ODF_SPEC, OF_IMAGE_KEY
from ...layers.volumes import fod_layer_data
from ..widgets.controls import form, parameter_control
from ..widgets.progress_row import ProgressRow
from ..widgets.sections import button, stack

logger = logging.getLogger(__name__)

POLL_MS = 100
THREAD_NAME = "tractography-odfs"


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
        self._given_up = threading.Event()
        self._fraction = 0.0
        self._answer: list[Any] = []  # of the thread: an Fod, or an error
        self._image: tuple[Layer, Fod, int] | None = None  # of which ODFs are being made
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MS)
        self._poll.timeout.connect(self._look)
        self.progress.cancelled.connect(self.cancel)

    @property
    def is_busy(self) -> bool:
        """Whether ODFs are being made."""
        return self._image is not None

    def start(self, layer: Layer, fod: Fod) -> None:
        """Begin to make the ODFs of an image; `made` follows."""
        if self.is_busy:
            return
        n_voxels = int(self.size.value)
        self._image = layer, fod, n_voxels
        self._fraction = 0.0
        answer: list[Any] = []
        self._answer = answer
        self._given_up = given_up = threading.Event()

        def note(fraction: float) -> None:
            self._fraction = fraction
            if given_up.is_set():
                raise GivenUpError(fod.name)

        def work() -> None:
            try:
                answer.append(fod.odfs(n_voxels, progress=note))
            except (TractographyError, GivenUpError) as error:
                answer.append(error)
            except Exception as error:  # a defect: logged in full, told in a sentence
                logger.exception("ODFs could not be made")
                answer.append(TractographyError(f"ODFs could not be made ({error}); see the log."))

        threading.Thread(target=work, name=THREAD_NAME, daemon=True).start()
        self.make.setEnabled(False)
        self.progress.show_progress("ODFs", 0.0)
        self._poll.start()

    def cancel(self) -> None:
        """Make no ODFs."""
        self._given_up.set()
        self._end()

    def _end(self) -> None:
        self._poll.stop()
        self._image = None
        self.make.setEnabled(True)
        self.progress.finish()

    def _look(self) -> None:
        self.progress.show_progress("ODFs", self._fraction)
        if not self._answer or self._image is None:
            return
        (layer, fod, n_voxels), made = self._image, self._answer.pop()
        self._end()
        if isinstance(made, TractographyError):
            show_error(str(made))
        elif isinstance(made, Fod):
            data, attributes, kind = fod_layer_data(made)
            name = f"{layer.name}, ODFs of {n_voxels}³ voxels"
            shown = Layer.create(data, {**attributes, "name": name}, kind)
            note_odfs(shown, layer, fod, n_voxels)
            shown.metadata[OF_IMAGE_KEY] = layer
            self.made.emit(shown)
