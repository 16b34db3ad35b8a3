"""Orientations that are worked out by blocks of voxels, where and when they are asked for.

A volume may be larger than memory, and streamlines see little of it. A :class:`BlockStore` keeps
the blocks that were worked out, under a limit, and drops those that were used least recently. Made
by :mod:`napari_tractography.model.fod`; asked by
:mod:`napari_tractography.tracking.cpu.vectors.rounds`.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidFodError, InvalidParameterError
from ..geometry.grid import Grid
from ..runtime.buffers import memory_bytes

MISSING, EMPTY = -1, -2  # in place of a slot: not worked out; without any orientation
BLOCK_BITS = 5  # blocks of 32 x 32 x 32 voxels
MEMORY_FRACTION = 0.25  # of the machine's, by default
UNKNOWN_MEMORY = 8 << 30  # bytes, where the system does not tell how much there is
# Dropped at once when there is no room: so much of the limit, so that there is room for a while.
DROPPED_FRACTION = 1 / 8
MOST_VOXELS = 1 << 26  # of a volume that is worked out as a whole: 0.8 GB
WAIT_SECONDS = 0.05  # after which a waiting thread tests whether it was cancelled


class Source(Protocol):
    """What works out a box of voxels, such as an image."""

    @property
    def grid(self) -> Grid:
        """The voxels."""

    @property
    def name(self) -> str:
        """What to call it in messages."""

    def vectors(self, first: Sequence[int], last: Sequence[int]) -> NDArray[np.float32]:
        """Return the (x, y, z, 3) vectors, RAS+, of a box; of the same bits in any box."""


class _Request:
    """Blocks that one thread waits for; the newest request is served first, by all threads."""

    def __init__(self, blocks: Iterable[int]) -> None:
        self.unclaimed = list(blocks)
        self.left = set(self.unclaimed)
        self.error: Exception | None = None
        self.has_room = True


class BlockStore:
    """The blocks of a source that have been worked out.

    Threads that read it are within :meth:`reading`, during which nothing is dropped; what drops is
    within :meth:`alone`. Raises InvalidParameterError when there is no room for a single block.

    Parameters
    ----------
    memory_limit : float, optional
        In bytes; by default a quarter of the machine's memory.
    block_bits : int
        A block has 2^block_bits voxels along each axis.
    """

    def __init__(
        self, source: Source, memory_limit: float | None = None, *, block_bits: int = BLOCK_BITS
    ) -> None:
        self.source, self.block_bits, self._memory_limit = source, block_bits, memory_limit
        self.shape = tuple(-(-n >> block_bits) for n in source.grid.shape)
        self.rows_a_block = 1 << 3 * block_bits
        if memory_limit is None:
            memory_limit = MEMORY_FRACTION * (memory_bytes() or UNKNOWN_MEMORY)
        if not memory_limit >= 12 * self.rows_a_block:
            raise InvalidParameterError(
                f"memory_limit = {memory_limit:g} bytes is no room for a block of "
                f"{1 << block_bits}^3 voxels; give {12 * self.rows_a_block:,} or more."
            )
        n_slots = int(min(memory_limit / (12 * self.rows_a_block), math.prod(self.shape)))
        self.slots: NDArray[np.int32] = np.full(self.shape, MISSING, np.int32)
        # Memory is taken page by page, as slots are filled.
        self.vectors: NDArray[np.float32] = np.empty((n_slots * self.rows_a_block, 3), np.float32)
        self.n_made = 0  # blocks in all, those that were dropped since counted
        self._free = list(range(n_slots))[::-1]
        self._used = np.zeros(self.shape, np.int64)  # when each was used last
        self._clock = 0
        self._requests: list[_Request] = []
        self._in_progress: set[int] = set()
        self._condition = threading.Condition()
        self._n_readers = 0
        self._n_alone = 0  # that are alone, or wait to be
        self._is_alone = False

    def __reduce__(self) -> tuple[object, ...]:
        return _empty_store, (self.source, self._memory_limit, self.block_bits)

    @property
    def n_slots(self) -> int:
        """How many blocks there is room for."""
        return len(self.vectors) // self.rows_a_block

    @property
    def n_kept(self) -> int:
        """How many blocks are there, those without any orientation not counted."""
        return int((self.slots >= 0).sum())

    @property
    def is_made(self) -> NDArray[np.bool_]:
        """(x, y, z) bool: which blocks have been worked out, and are there."""
        return np.asarray(self.slots != MISSING)

    @property
    def block_grid(self) -> Grid:
        """The grid whose voxels are the blocks."""
        size = 1 << self.block_bits
        to_voxel = np.diag([size, size, size, 1.0])
        to_voxel[:3, 3] = (size - 1) / 2
        grid = self.source.grid
        return grid.beside(self.shape, grid.affine @ to_voxel)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Keep blocks from being dropped."""
        with self._condition:
            self._condition.wait_for(lambda: not self._n_alone)
            self._n_readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._n_readers -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no thread reads, and keep all from it."""
        with self._condition:
            self._n_alone += 1
            self._condition.wait_for(lambda: not self._n_readers and not self._is_alone)
            self._is_alone = True
        try:
            yield
        finally:
            with self._condition:
                self._n_alone -= 1
                self._is_alone = False
                self._condition.notify_all()

    def note_use(self, blocks: NDArray[np.int64]) -> None:
        """Note that blocks, as flat indices, were used."""
        with self._condition:
            self._clock += 1
            self._used.ravel()[blocks] = self._clock

    def missing(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some blocks that are not there."""
        return np.asarray(blocks[self.slots.ravel()[blocks] == MISSING])

    def make_room(self, n: int, keep: NDArray[np.int64]) -> bool:
        """Drop the blocks used least recently until there is room for `n` more; see :meth:`alone`.

        Blocks to `keep`, as flat indices, are not dropped. Returns whether there is room.
        """
        flat = self.slots.ravel()
        with self._condition:
            if n <= len(self._free):
                return True
            may_go = flat >= 0
            may_go[keep] = False
            others = np.flatnonzero(may_go)
            n_dropped = max(n - len(self._free), int(DROPPED_FRACTION * self.n_slots))
            oldest = others[np.argsort(self._used.ravel()[others], kind="stable")][:n_dropped]
            self._free += flat[oldest].tolist()
            flat[oldest] = MISSING
            return n <= len(self._free)

    def make(self, blocks: NDArray[np.int64], cancelled: NDArray[np.uint8]) -> bool:
        """Work out blocks, as flat indices; threads that call this help each other.

        `cancelled`, (1,) uint8, is set to 1 by another thread to end early. Returns False where
        there was no room for all. Raises FileError when the source cannot be read somewhere; all
        other blocks are there then.
        """
        request = _Request(self.missing(blocks).tolist())
        with self._condition:
            self._requests.append(request)
        try:
            while not cancelled[0]:
                with self._condition:
                    if not request.left or not request.has_room:
                        break
                    block = self._claim()
                    if block is None:
                        self._condition.wait(WAIT_SECONDS)
                        continue
                self._work_out(block)
        finally:
            with self._condition:
                self._requests.remove(request)
        if request.error is not None:
            raise request.error
        return request.has_room

    def _claim(self) -> int | None:
        """Return a block of the newest request that has one which no thread works out."""
        for request in reversed(self._requests):
            while request.unclaimed:
                block = request.unclaimed.pop()
                if block in self._in_progress:
                    continue
                if self.slots.ravel()[block] != MISSING:
                    request.left.discard(block)
                    continue
                self._in_progress.add(block)
                return block
        return None

    def _work_out(self, block: int) -> None:
        found: NDArray[np.float32] | None = None
        error: Exception | None = None
        try:
            found = self._block(block)
        except Exception as problem:  # raised again by all who wait for the block
            error = problem
        with self._condition:
            has_room = error is not None or self._keep(block, found)
            self._in_progress.discard(block)
            for request in self._requests:
                if block in request.left:
                    request.left.discard(block)
                    request.error = request.error or error
                    request.has_room &= has_room
            self._condition.notify_all()

    def _block(self, block: int) -> NDArray[np.float32] | None:
        """Work out a block: (rows_a_block, 3) float32, or None without any orientation."""
        size = 1 << self.block_bits
        first = [int(i) * size for i in np.unravel_index(block, self.shape)]
        last = [min(a + size, n) for a, n in zip(first, self.source.grid.shape, strict=True)]
        found = self.source.vectors(first, last)
        if not found.any():
            return None
        x, y, z, _ = found.shape
        whole = np.zeros((size, size, size, 3), np.float32)
        whole[:x, :y, :z] = found
        return whole.reshape(-1, 3)

    def _keep(self, block: int, found: NDArray[np.float32] | None) -> bool:
        """Put a block that was worked out into a slot; return whether there was room."""
        slot = EMPTY
        if found is not None:
            if not self._free:
                return False
            slot = self._free.pop()
            self.vectors[slot * self.rows_a_block : (slot + 1) * self.rows_a_block] = found
        self.n_made += 1
        self._used.ravel()[block] = self._clock
        self.slots.ravel()[block] = slot  # last: kernels may be reading
        return True

    def whole(self) -> NDArray[np.float32]:
        """Work out all of the volume: (x, y, z, 3) float32; none of it is kept here.

        Raises InvalidFodError when it is too large; FileError when the source cannot be read.
        """
        shape = self.source.grid.shape
        if np.prod(shape, dtype=float) > MOST_VOXELS:
            raise InvalidFodError(
                f"{self.source.name} has {shape[0]} x {shape[1]} x {shape[2]} voxels, too many to "
                f"work out all of them; crop it to {MOST_VOXELS:,} voxels, or only track in it."
            )
        whole = np.zeros((*shape, 3), np.float32)
        size = 2 << self.block_bits
        for x in range(0, shape[0], size):
            for y in range(0, shape[1], size):
                for z in range(0, shape[2], size):
                    first = (x, y, z)
                    last = [min(a + size, n) for a, n in zip(first, shape, strict=True)]
                    box = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
                    whole[box] = self.source.vectors(first, last)
        return whole


def _empty_store(source: Source, memory_limit: float | None, block_bits: int) -> BlockStore:
    return BlockStore(source, memory_limit, block_bits=block_bits)
