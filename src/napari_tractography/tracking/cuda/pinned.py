"""Page-locked ("pinned") memory of the host: points arrive in it, and are handed over in it.

To lock memory takes longer than to fill it, and to copy out of it into new pages takes longer than
a GPU takes to fill it. So the caller gets the array that the points came to; its memory is used
again once the last array on it is gone, in the next run, too. Used by :mod:`.slot` and
:mod:`.device`.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from ...runtime import buffers
from ...runtime.arrays import import_cupy
from .scheduler import MAX_POINTS, PLENTY, POINT_BYTES

logger = logging.getLogger(__name__)

UNKNOWN = 1 << 33  # bytes of memory of a system that does not say
BATCHES = 5  # that memory is locked for: one that arrives, one that waits, and three of the caller


def _allocate(n: int) -> NDArray[np.float32]:
    cuda = import_cupy().cuda
    # Not from CuPy's pool, which would keep what ours lets go.
    memory = cuda.PinnedMemory(n * POINT_BYTES, cuda.runtime.hostAllocPortable)
    return np.frombuffer(cuda.PinnedMemoryPointer(memory, 0), np.float32, 3 * n).reshape(n, 3)


pool = buffers.BufferPool(allocate=_allocate)
# Bytes that slots and callers may hold. To lock more would take longer than to copy, by several
# threads; and others need memory, too, which cannot be swapped when it is locked.
limit = min(BATCHES * MAX_POINTS * POINT_BYTES, (buffers.memory_bytes() or UNKNOWN) // 4)


def max_points() -> int:
    """Return how many points a batch may have, so that those of a run may wait for the next."""
    fitting = buffers.bytes_to_keep() // (BATCHES * POINT_BYTES)
    return min(max(fitting, PLENTY), MAX_POINTS)


def points(n: int) -> NDArray[np.float32]:
    """Return an (n, 3) float32 array that a GPU copies to while the host does other work.

    Ordinary memory where none can be locked: the copy is right all the same, but the host waits.
    """
    try:
        return pool.points(n)
    except import_cupy().cuda.runtime.CUDARuntimeError as error:
        logger.info("No memory of the host could be locked (%s): copies are slower", error)
        return buffers.pool.points(n)


def handed_over(arrived: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return points for the caller: as they arrived, or a copy where callers hold too much."""
    if pool.lent_bytes <= limit:
        return arrived
    copied = buffers.pool.points(len(arrived))
    buffers.copy_rows(copied, arrived)
    return copied
