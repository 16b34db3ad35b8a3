"""What one batch needs on a GPU: a stream, and memory on both sides, kept from batch to batch.

Used by :mod:`.device`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import pinned

NO_POINTS = np.empty((0, 3), np.float32)


class Slot:
    """The stream, events and memory of a batch.

    Attributes
    ----------
    stream : cupy.cuda.Stream
    counting : list of two cupy.cuda.Event
        When the tracking began and ended.
    writing : list of three cupy.cuda.Event
        When gathering began, when it ended, and when its results were on the host. Apart from
        `counting`, since the tracking of the next batch may be queued before these are collected.
    arrays : dict of str to cupy.ndarray
        Of the batch; at least as long as it needs.
    pinned : dict of str to numpy.ndarray
        Page-locked memory of the host that seeds are copied from, and results other than points to.
    arriving : (n_points, 3) float32 array
        Points that were gathered last, on their way to the host.
    seconds : float
        Of the tracking.
    first, n_seeds : int
        Number of the first seed of the batch, and how many it has.
    n_points, n_lines : int
        Of its streamlines, known after the tracking.
    written : tuple of int
        Seeds and streamlines that were gathered last.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.counting = self.events(2)
        self.writing = self.events(3)
        self.arrays: dict[str, Any] = {}
        self.pinned: dict[str, NDArray[Any]] = {}
        self.arriving = NO_POINTS
        self.seconds = 0.0
        self.first = self.n_seeds = self.n_blocks = self.n_points = self.n_lines = 0
        self.written = (0, 0)

    def events(self, n: int) -> list[Any]:
        """Return new events."""
        return [self._cupy.cuda.Event() for _ in range(n)]

    def reserve(self, name: str, shape: tuple[int, ...], kind: str) -> Any:
        """Return an array of this shape on the device, the old one where it is long enough."""
        array = self.arrays.get(name)
        if array is None or len(array) < shape[0]:
            self.arrays.pop(name, None)
            array = self.arrays[name] = self._cupy.empty(shape, kind)
        return array[: shape[0]]

    def upload(self, name: str, source: NDArray[Any]) -> None:
        """Queue a copy to an array: by pinned memory, or it would wait for what is queued."""
        if source.size:
            staged = self._locked(name, source)
            staged[...] = source
            self.arrays[name][: len(source)].set(staged, stream=self.stream)

    def download(self, name: str, source: Any) -> None:
        """Queue a copy to pinned memory, where it can be read after the last event."""
        target = self._locked(name, source)
        if len(source):
            source.get(stream=self.stream, out=target, blocking=False)

    def _locked(self, name: str, like: Any) -> NDArray[Any]:
        """Return pinned memory for an array, that of before where it is long enough."""
        found = self.pinned.get(name)
        if found is None or len(found) < len(like):
            self.pinned.pop(name, None)
            memory = self._cupy.cuda.alloc_pinned_memory(max(like.nbytes, 1))
            flat = np.frombuffer(memory, like.dtype, like.size)
            found = self.pinned[name] = flat.reshape(like.shape)
        return found[: len(like)]

    def download_points(self, source: Any) -> None:
        """Queue a copy of points to memory that may be handed over, as `arriving`."""
        self.arriving = pinned.points(len(source))
        if len(source):
            source.get(stream=self.stream, out=self.arriving, blocking=False)

    def clear(self) -> None:
        """Give the memory back to the pools, when all that is queued is done."""
        self.stream.synchronize()
        self.arrays.clear()
        self.pinned.clear()
        self.arriving = NO_POINTS
