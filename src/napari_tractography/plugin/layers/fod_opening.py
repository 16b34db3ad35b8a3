"""Opening an FOD volume: its map is shown at once, its coefficients are read in a thread.

Started by :func:`.volume_layers.open_fod`; the session waits for the end, the panel shows how far
it is.
"""

from __future__ import annotations

import io
import logging
import time
from concurrent.futures import Future, wait
from os import PathLike
from typing import Any, Unpack
from weakref import WeakValueDictionary

import numpy as np
from napari.layers import Layer
from napari.utils import progress
from napari.utils.notifications import show_info
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QThread, QTimer
from qtpy.QtWidgets import QApplication

from ...errors import AmbiguousKindError, TractographyError
from ...files.fods import FodKeywords, fod_reader
from ...files.paths import GivenUpError
from ...geometry.grid import Grid
from ...model.fod import Fod
from ..background import begun
from ..flag import Flag
from ..notices import show_error
from ..timers import repeated

logger = logging.getLogger(__name__)

FOD_KEY = "fod"  # layer.metadata[FOD_KEY]: the Fod that an image layer shows, or its FodOpening
# A small file is read in this time, and then opens as if there were no thread.
WAIT_SECONDS = 0.15
POLL_MS = 50
REDRAW_SECONDS = 0.25  # between two redraws of a map that fills voxel by voxel
THREAD_NAME = "tractography-opening"
STEPS = 100  # of the progress bar
BRIGHT_PERCENTILE = 99.5
BRIGHT_SAMPLE = 1_000_000  # of more voxels an even part decides how bright the map is
# FODs of files that something holds, by the SHA-256 of the file and how it was read.
_held: WeakValueDictionary[tuple[str, ...], Fod] = WeakValueDictionary()
HEADROOM = 1.5  # the volume stays grey, so that streamlines of any colour stand out on it


class FodOpening:
    """An FOD volume that is being read. Made and used in the main thread.

    Its layer is added to the viewer; what cannot be read is removed from it. `reading` is that of
    :func:`~napari_tractography.files.fods.load_fod`. Raises TractographyError when the header tells
    that the file is no FOD that can be read. What its volumes are is looked at in the thread.
    """

    progressed = Signal(float)  # the fraction of the file that has been read
    refused = Signal(object)  # AmbiguousKindError, found late; who listens asks the person
    ended = Signal(object)  # this object: read, failed or cancelled

    def __init__(
        self, path: str | PathLike[str], viewer: Any = None, **reading: Unpack[FodKeywords]
    ) -> None:
        self._reader = fod_reader(path, look_later=True, **reading)
        self.viewer = viewer
        self.name: str = self._reader.name
        self.grid: Grid = self._reader.grid
        # (x, y, z) float32: the l = 0 map, which fills while the file is read.
        self.isotropic: NDArray[np.float32] = self._reader.isotropic
        self.fod: Fod | None = None  # when it has been read
        self.sha256 = ""  # of the file, then
        self.is_under_way = False  # whether the file is being read
        self._reading: Future[tuple[Fod, str]] | None = None
        self._timer: QTimer | None = None
        self._bar: Any = None  # of napari's activity dock
        self._was_added = False  # whether a layer of the viewer has been seen
        self.is_map_shown = False  # whether the layers show the whole map
        self._redrawn = 0.0  # time of the last redraw of a map that is not complete
        self._is_polling = Flag()

    @property
    def progress(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        return self._reader.progress

    @property
    def contrast_limits(self) -> tuple[float, float]:
        """For the part of the map that has been read."""
        return contrast_limits(self.isotropic)

    def start(self) -> None:
        """Start reading and wait a moment for small files; without an event loop, for all files.

        Raises TractographyError when the file turns out in that time to be no FOD that can be read.
        """
        self.is_under_way = True
        self._reading = begun(self._read, THREAD_NAME)
        wait([self._reading], WAIT_SECONDS if _in_event_loop() else None)
        self.is_map_shown = self._reader.map_read.is_set()
        if not self._reading.done():
            self._timer = repeated(None, POLL_MS, self._poll)
            self._timer.start()
            return
        self.is_under_way = False
        self.fod, self.sha256 = self._reading.result()
        self._mention_invalid_voxels()

    def cancel(self) -> None:
        """Read no more, and remove the layer."""
        if self.is_under_way:
            self._end()

    def layers(self) -> list[Layer]:
        """Return the layers of the viewer that show the volume."""
        layers = () if self.viewer is None else self.viewer.layers
        return [layer for layer in layers if layer.metadata.get(FOD_KEY) is self]

    def _read(self) -> tuple[Fod, str]:
        """Read the file, and its SHA-256 in the same pass; in the thread."""
        try:
            fod, sha256 = self._reader.read(hashed=True)
            return as_held(fod, sha256), sha256
        except (TractographyError, GivenUpError):
            raise
        except Exception as error:  # a defect: logged in full, shown as a sentence
            logger.exception("%s could not be read", self.name)
            raise TractographyError(
                f"{self.name} could not be read: {error}; the log has the details."
            ) from error

    def _poll(self) -> None:
        """Show what the thread has read; in the main thread."""
        if self._is_polling:  # napari handles events while it adds a progress bar
            return
        with self._is_polling:
            layers = self.layers()
            if self._was_added and not layers:
                self.cancel()
                return
            self._was_added = bool(layers)
            if not self.is_map_shown:
                self._follow_map(layers)
            if self._reading is not None and self._reading.done():
                self._end()
                return
            self._show_progress()
            self.progressed.emit(self.progress)

    def _follow_map(self, layers: list[Layer]) -> None:
        """Draw what has been read of the map, now and then; and when it is complete."""
        is_read = self._reader.map_read.is_set()
        if is_read or time.monotonic() - self._redrawn > REDRAW_SECONDS:
            self._redraw(layers)
            self.is_map_shown = is_read
            self._redrawn = time.monotonic()

    def _redraw(self, layers: list[Layer]) -> None:
        limits = self.contrast_limits
        for layer in layers:
            layer.contrast_limits_range = layer.contrast_limits = limits
            layer.refresh()

    def _show_progress(self) -> None:
        """Show in napari's activity dock how far it is, where there is a window."""
        if self._bar is None and getattr(self.viewer, "window", None) is not None:
            self._bar = progress(
                total=STEPS,
                desc=f"Reading {self.name}",
                bar_format="{desc}|{bar}|",  # no steps a second
                file=io.StringIO(),  # not in the terminal
            )
        if self._bar is not None and (steps := int(STEPS * self.progress) - self._bar.n):
            self._bar.update(steps)  # draws the window

    def _end(self) -> None:
        assert self._reading is not None
        assert self._timer is not None
        is_read = self._reading.done()
        error = self._reading.exception() if is_read else GivenUpError(self.name)
        is_refused = isinstance(error, AmbiguousKindError) and len(self.refused) > 0
        if is_refused:
            self.refused.emit(error)
        self.is_under_way = False
        self._timer.stop()
        self._reader.cancelled.set()
        if self._bar is not None:
            self._bar.close()
        if error is None:
            self.fod, self.sha256 = self._reading.result()
            self._mention_invalid_voxels()
            if self.fod.n_invalid_voxels:  # they were still in the map
                self._redraw(self.layers())
        else:
            for layer in self.layers():
                self.viewer.layers.remove(layer)
            if isinstance(error, TractographyError) and not is_refused:
                show_error(why_refused(error))
        self.ended.emit(self)

    def _mention_invalid_voxels(self) -> None:
        if self.fod is not None and self.fod.n_invalid_voxels:
            show_info(self.fod.invalid_voxels_message)


def why_refused(error: TractographyError) -> str:
    """Return why a file is not opened by napari, which asks nothing, as a person reads it."""
    question = getattr(error, "question", "")  # of one that could be read all the same
    return f"{question.removesuffix('.')} with Open... in the panel." if question else str(error)


def as_held(fod: Fod, sha256: str) -> Fod:
    """Return the FOD that is held already of a file that was read again, else the one given.

    It was tracked in, and tables were made of it. All numbers are compared, as the SHA-256 may be
    that of a header alone: for a thread.
    """
    key = sha256, fod.name, fod.basis, fod.frame, *fod.vector_reading.values()
    held = _held.get(key)
    if held is not None and held.is_same(fod):
        return held
    _held[key] = fod
    return fod


def contrast_limits(values: NDArray[np.floating]) -> tuple[float, float]:
    """Return contrast limits for the l = 0 map of an FOD, or for its used voxels."""
    positive = values[values > 0]
    if not positive.size:
        return 0.0, HEADROOM
    sample = positive[:: -(-positive.size // BRIGHT_SAMPLE)]
    return 0.0, HEADROOM * float(np.percentile(sample, BRIGHT_PERCENTILE))


def _in_event_loop() -> bool:
    """Return whether timers fire in this thread: it is that of the window."""
    application = QApplication.instance()
    return application is not None and QThread.currentThread() == application.thread()
