"""Memory for points, used again once its last array is gone.

A system hands out memory page by page as it is first touched, and takes it back when a large array
is freed. Touching it anew takes longer than filling it, on virtual machines that give what is free
back to their host as long as tracking what is on it: with memory used again, tracking run after run
was a quarter faster (deterministic, nearest voxel).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 1 << 20  # bytes: what is smaller an allocator keeps by itself
POINT = 12  # bytes


def bytes_to_keep() -> int:
    """Return how many bytes may wait to be used again: a tenth of the memory, 0.5 GB at least."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # as on Windows
        whole = 0
    return max(1 << 29, whole // 10)


class _Lease:
    """What an array on a block refers to, and with it all views of it: goes when they have gone."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


class BufferPool:
    """Blocks of memory that wait to be used again.

    Parameters
    ----------
    kept : int, optional
        Bytes that may wait; beyond them those that waited longest are freed. By default
        :func:`bytes_to_keep`.
    """

    def __init__(self, kept: int | None = None) -> None:
        self._kept = bytes_to_keep() if kept is None else kept
        self._lock = threading.Lock()
        # Blocks come back whenever Python lets go of an array, in any thread and even amid
        # `points`, hence without the lock: appending is atomic.
        self._waiting: deque[NDArray[np.float32]] = deque()

    @property
    def n_bytes(self) -> int:
        """Bytes that wait to be used again."""
        return sum(block.nbytes for block in self._waiting.copy())

    def points(self, n: int) -> NDArray[np.float32]:
        """Return an (n, 3) float32 array of any content, which may be kept, viewed and changed."""
        if n * POINT < SMALLEST:
            return np.empty((n, 3), np.float32)
        block = self._block(n)
        lease = _Lease({**block.__array_interface__, "shape": (n, 3)})
        weakref.finalize(lease, self._take_back, block).atexit = False
        return np.asarray(lease)

    def _block(self, n: int) -> NDArray[np.float32]:
        """Return the smallest block that holds n points and is not far too large, or a new one."""
        with self._lock:
            fitting = [one for one in self._waiting.copy() if n <= len(one) <= 2 * n]
            found = min(fitting, key=len, default=None)
            if found is None:
                step = 1 << max(n.bit_length() - 3, 0)  # so that the next run's sizes are the same
                return np.empty((-(-n // step) * step, 3), np.float32)
            for _ in range(len(self._waiting)):
                block = self._oldest()
                if block is None or block is found:
                    break
                self._waiting.append(block)
            return found  # ours alone, also where another thread has just let go of it

    def _oldest(self) -> NDArray[np.float32] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _take_back(self, block: NDArray[np.float32]) -> None:
        """Keep a block, and let go of those that waited longest while all are too much."""
        if block.nbytes > self._kept:
            return
        self._waiting.append(block)
        while self.n_bytes > self._kept:
            self._oldest()


pool = BufferPool()
