"""Memory for points, used again once its last array is gone.

A system hands out memory page by page as it is first touched, and takes it back when a large array
is freed. The first touch takes longer than filling it; on virtual machines that return free memory
to their host it takes as long as tracking what is stored there. With memory used again, tracking
run after run was a quarter faster (deterministic, nearest voxel).
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 1 << 20  # bytes: an allocator keeps smaller blocks by itself
POINT = 12  # bytes
LARGE = 1 << 24  # bytes: to copy less, threads take longer to start than they save
COPY_THREADS = 4  # at most: more do not fill a processor's memory channels faster
CACHE_LINE = 64  # bytes, of most processors
# Of control groups, by version: where the groups are, and the file with a group's memory limit.
CGROUPS_2 = ("sys/fs/cgroup", "memory.max")
CGROUPS_1 = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")


def aligned(shape: int | tuple[int, ...], dtype: Any, value: Any = 0) -> NDArray[Any]:
    """Return an array that begins where a cache line does; `value` None leaves it as it is.

    A vector of 64 bytes that lies across two lines takes two loads.
    """
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    n_bytes = size * np.dtype(dtype).itemsize
    memory = np.empty(n_bytes + CACHE_LINE, np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    array: NDArray[Any] = memory[first : first + n_bytes].view(dtype).reshape(shape)
    if value is not None:
        array[...] = value
    return array


def bytes_to_keep(root: Path = Path("/")) -> int:
    """Return how many bytes may wait to be used again.

    A tenth of the memory that this process may use, 0.5 GB at least, but a quarter at most. In
    `root` are the system's folders `proc` and `sys`.
    """
    whole, few = memory_bytes(root), 1 << 29
    return max(whole // 10, min(few, whole // 4)) if whole else few


def memory_bytes(root: Path = Path("/")) -> int:
    """Return how many bytes of memory this process may use; 0 where the system does not tell."""
    try:
        physical = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):  # as on Windows
        physical = []
    return min([*physical, *_cgroup_limits(root)], default=0)


def _cgroup_limits(root: Path) -> Iterator[int]:
    """Yield the memory limits in bytes of this process's control groups and of those around them.

    A container sees its own group at the top of the folder, whatever the path that /proc tells.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except (OSError, ValueError):  # not Linux
        return
    for line in lines:  # "0::/path" of version 2, "number:controllers:/path" of version 1
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            folder, file = CGROUPS_2
        elif "memory" in controllers.split(","):
            folder, file = CGROUPS_1
        else:
            continue
        group = PurePosixPath("/", path)
        for part in (group, *group.parents):
            limit = _number_in(root / folder / str(part).lstrip("/") / file)
            if limit:
                yield limit


def _number_in(path: Path) -> int:
    """Return the number in a file; 0 where there is none, as of "max"."""
    try:
        return int(path.read_text("utf-8"))
    except (OSError, ValueError):
        return 0


def copy_rows(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy an array into another of its shape, by several threads where that pays.

    One thread alone neither fills new pages nor the memory's channels as fast as they allow.
    """
    n_threads = min(COPY_THREADS, os.cpu_count() or 1) if source.nbytes >= LARGE else 1
    if n_threads == 1:
        target[...] = source
        return
    bounds = [len(source) * k // n_threads for k in range(n_threads + 1)]

    def copy(first: int, last: int) -> None:
        target[first:last] = source[first:last]

    with ThreadPoolExecutor(n_threads) as threads:
        list(threads.map(copy, bounds[:-1], bounds[1:]))


class _Lease:
    """What an array on a block and all its views refer to; it is freed with the last of them."""

    __slots__ = ("__array_interface__", "__weakref__")

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


class BufferPool:
    """Blocks of memory that wait to be used again.

    Beyond a limit, in bytes and by default :func:`bytes_to_keep`, those that waited longest are
    freed. `allocate` returns a new block: an (n, 3) float32 array, by default an ordinary one,
    where small arrays are left to the allocator.
    """

    def __init__(
        self, limit: int | None = None, allocate: Callable[[int], NDArray[np.float32]] | None = None
    ) -> None:
        self._limit = bytes_to_keep() if limit is None else limit
        self._allocate = allocate
        self._lock = threading.Lock()
        # Python frees arrays at any moment and in any thread, even amid `points`; hence blocks are
        # added without the lock: appending is atomic, and so is what is done to the dict.
        self._waiting: deque[NDArray[np.float32]] = deque()
        self._lent: dict[int, int] = {}  # bytes of blocks that are in use, by their id

    @property
    def n_bytes(self) -> int:
        """Bytes that wait to be used again."""
        return sum(block.nbytes for block in self._waiting.copy())

    @property
    def lent_bytes(self) -> int:
        """Bytes of the blocks that are in use."""
        return sum(self._lent.copy().values())

    def points(self, n: int) -> NDArray[np.float32]:
        """Return an (n, 3) float32 array of any content, which may be kept, viewed and changed."""
        if self._allocate is None and n * POINT < SMALLEST:
            return np.empty((n, 3), np.float32)
        block = self._block(max(n, SMALLEST // POINT))
        self._lent[id(block)] = block.nbytes
        lease = _Lease({**block.__array_interface__, "shape": (n, 3)})
        weakref.finalize(lease, self._add, block).atexit = False
        return np.asarray(lease)

    def _block(self, n: int) -> NDArray[np.float32]:
        """Return the smallest block of n to 2 n points, or a new one."""
        block = self._waiting_block(n)
        if block is not None:
            return block
        step = 1 << max(n.bit_length() - 3, 0)  # so that the next run's sizes are the same
        n_rounded = -(-n // step) * step
        if self._allocate is not None:
            return self._allocate(n_rounded)
        return np.empty((n_rounded, 3), np.float32)

    def _waiting_block(self, n: int) -> NDArray[np.float32] | None:
        with self._lock:
            fitting = [one for one in self._waiting.copy() if n <= len(one) <= 2 * n]
            found = min(fitting, key=len, default=None)
            for _ in range(len(self._waiting) if found is not None else 0):
                block = self._oldest()
                if block is None or block is found:
                    break
                self._waiting.append(block)
            # In no other hands, even if another thread freed it to make room meanwhile.
            return found

    def _oldest(self) -> NDArray[np.float32] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _add(self, block: NDArray[np.float32]) -> None:
        """Let a block wait, and free those that waited longest while all are too much."""
        self._lent.pop(id(block), None)
        if block.nbytes > self._limit:
            return
        self._waiting.append(block)
        while self.n_bytes > self._limit:
            self._oldest()


pool = BufferPool()
