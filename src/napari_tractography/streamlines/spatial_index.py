"""A spatial index: which streamlines run through which cells of a box around all of them.

A sphere that is moved over a million streamlines is answered by the cells around it: those that
lie inside it are taken as they are, only what is in those at its rim is tested segment by
segment. Made and asked by :class:`~napari_tractography.streamlines.tractogram.Tractogram`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..geometry.grid import Grid
from ..model.regions import Region
from . import compiled_loops
from .segments import Segments, blocks, last_points, meeting

CELL_MM = 4.0
MAX_CELLS = 1 << 24  # of streamlines far apart: cells are larger then
GUARD_MM = 1e-3  # by which a cell must lie inside a sphere: float32 points are not exact
TESTED = 1 << 19  # segments at a time
BLOCK_POINTS = 1 << 21  # that a thread takes at a time
ALONE = 1 << 15  # runs that are not worth a second thread
N_THREADS = min(os.cpu_count() or 1, 4)
SORTING = 0.25  # of the time that an index takes


def may_compile(points: NDArray[np.float32], offsets: NDArray[np.int64]) -> bool:
    """Tell whether numbers of points and streamlines are of the size that compiled loops take."""
    return len(points) < 1 << 32 and len(offsets) < 1 << 31


def in_threads(spans: NDArray[np.int64], *arguments: Any) -> int:
    """Call the loop ``meet_sphere`` on parts of the spans side by side; return the sum."""
    sizes = np.cumsum(spans[:, 1] - spans[:, 0])
    total = int(sizes[-1]) if len(sizes) else 0
    if total < ALONE:
        return int(compiled_loops.meet_sphere(spans, *arguments))
    limits = np.searchsorted(sizes, np.arange(1, N_THREADS) * (total / N_THREADS))
    with ThreadPoolExecutor(N_THREADS) as pool:
        parts = np.split(spans, limits)
        return sum(pool.map(lambda part: int(compiled_loops.meet_sphere(part, *arguments)), parts))


def all_segments_meet(
    points: NDArray[np.float32],
    offsets: NDArray[np.int64],
    centre: NDArray[np.float64],
    radius: float,
    found: NDArray[np.bool_],
) -> None:
    """Mark the streamlines that meet a sphere, by testing every segment, without an index."""
    n_points = np.diff(offsets)
    counts = np.maximum(n_points - 1, np.minimum(n_points, 1)).astype(np.int32)
    limits = np.linspace(0, len(found), 8 * N_THREADS + 1).astype(np.int64)
    spans = np.stack([limits[:-1], limits[1:]], axis=1)
    firsts, streamlines = offsets[:-1].astype(np.uint32), np.arange(len(found), dtype=np.int32)
    in_threads(spans, firsts, counts, streamlines, points, offsets, centre, radius, found)


@dataclass(slots=True)
class Effort:
    """What the last question took: cells that were looked up, segments that were tested one by
    one.
    """

    cells: int = 0
    segments: int = 0


class SpatialIndex:
    """Runs of segments, sorted by the cell in which they lie.

    A segment longer than a cell is divided, so that each piece lies within half a cell of its
    middle; the middle decides the cell. What meets a region therefore has its middle within that
    region, grown by half the longest piece. The edge of a cell is larger where there would be more
    than :data:`MAX_CELLS`. `advance` is told what fraction is done, now and then; an exception that
    it raises ends the work.
    """

    def __init__(
        self,
        points: NDArray[np.float32],
        offsets: NDArray[np.int64],
        *,
        cell_mm: float = CELL_MM,
        advance: Callable[[float], None] = lambda _fraction: None,
    ) -> None:
        self.points, self.offsets = points, offsets
        self._is_compact = may_compile(points, offsets)
        self.effort = Effort()
        # Axis by axis: NumPy takes ten times as long for the three together.
        axes = [points[:, axis] for axis in range(3)] if len(points) else [np.zeros(1)] * 3
        low = np.array([axis.min() for axis in axes], np.float64)
        extent = np.array([axis.max() for axis in axes], np.float64) - low
        self.cell_mm = cell_mm
        while math.prod(n + 1 for n in (extent // self.cell_mm).tolist()) > MAX_CELLS:
            self.cell_mm *= 1.25
        self.low = low
        self.shape = tuple(int(n) + 1 for n in (extent // self.cell_mm).tolist())
        self.reach_mm = 0.0  # half the longest piece
        parts = self._compiled_runs(advance)
        for block in () if parts else blocks(offsets, np.arange(len(offsets) - 1)):
            parts.append(self._runs(block))
            advance((1 - SORTING) * (int(block.numbers.max(initial=0)) + 1) / max(len(points), 1))
        cells, firsts, counts, streamlines = (
            np.concatenate([part[i] for part in parts] or [np.empty(0, np.int64)]) for i in range(4)
        )
        n = len(cells)
        # Counting sort: a row for each run with one entry, in the column of its cell.
        rows = csr_array(
            (np.ones(n, np.uint8), cells, np.arange(n + 1)), shape=(n, math.prod(self.shape))
        ).tocsc()
        order = rows.indices
        self.starts: NDArray[np.int64] = rows.indptr.astype(np.int64)
        self.firsts, self.counts = firsts[order], counts[order]
        self.streamlines = streamlines[order]
        advance(1.0)

    @property
    def n_bytes(self) -> int:
        """Memory that the index takes beside the points."""
        held = (self.starts, self.firsts, self.counts, self.streamlines)
        return sum(array.nbytes for array in held)

    def touched(self, region: Region) -> NDArray[np.bool_]:
        """Tell which streamlines meet a region, as (n_streamlines,) bool."""
        inside, rim = self._cells_near(region)
        found = np.zeros(len(self.offsets) - 1, bool)
        self.effort = Effort(cells=len(inside) + len(rim))
        if region.grid is None and self._is_compact and compiled_loops.are_ready():
            assert region.center_mm is not None
            compiled_loops.mark(self._spans(inside), self.streamlines, found)
            self.effort.segments = in_threads(
                self._spans(rim),
                self.firsts,
                self.counts,
                self.streamlines,
                self.points,
                self.offsets,
                region.center_mm,
                region.radius_mm,
                found,
            )
            return found
        for first, stop in _ranges(inside):
            found[self.streamlines[self.starts[first] : self.starts[stop]]] = True
        spans = [slice(self.starts[first], self.starts[stop]) for first, stop in _ranges(rim)]
        if not spans:
            return found
        firsts = np.concatenate([self.firsts[span] for span in spans])
        counts = np.concatenate([self.counts[span] for span in spans])
        streamlines = np.concatenate([self.streamlines[span] for span in spans])
        unknown = ~found[streamlines]
        firsts, counts, streamlines = firsts[unknown], counts[unknown], streamlines[unknown]
        totals = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        start = 0
        while start < len(firsts):
            stop = max(int(np.searchsorted(totals, totals[start] + TESTED)), start + 1)
            left = np.arange(start, min(stop, len(firsts)))
            left = left[~found[streamlines[left]]]  # what was found since needs no test
            start = stop
            each = counts[left].astype(np.int64)
            shift = firsts[left].astype(np.int64) - (np.cumsum(each) - each)
            segments = Segments(
                np.arange(each.sum()) + np.repeat(shift, each), np.repeat(streamlines[left], each)
            )
            self.effort.segments += len(segments.numbers)
            met = meeting(self.points, self.offsets, segments, region)
            found[segments.streamlines[met]] = True
        return found

    def _spans(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return first and stop of the runs in ranges of consecutive cells, (n, 2) int64."""
        ranges = np.array(_ranges(cells), np.int64).reshape(-1, 2)
        return self.starts[ranges]

    def _compiled_runs(self, advance: Callable[[float], None]) -> list[tuple[NDArray[Any], ...]]:
        """Return what :meth:`_runs` does, block by block; nothing while loops are not compiled."""
        n = len(self.offsets) - 1
        if not (n and self._is_compact and compiled_loops.are_ready()):
            return []
        limits = np.searchsorted(
            self.offsets, np.arange(0, len(self.points) + BLOCK_POINTS, BLOCK_POINTS)
        )
        limits = np.unique(np.concatenate([[0], limits[limits < n], [n]]))
        shape = np.array(self.shape, np.int64)

        def runs(first: int, stop: int) -> tuple[tuple[NDArray[Any], ...], float]:
            size = int(self.offsets[stop] - self.offsets[first]) // 2 + 1
            while True:
                kinds = np.int32, np.uint32, np.int32, np.int32
                arrays = tuple(np.empty(size, kind) for kind in kinds)
                reach = np.zeros(1)
                found = compiled_loops.find_runs(
                    first, stop, self.points, self.offsets, self.low, self.cell_mm, shape, *arrays,
                    reach,
                )  # fmt: skip
                if found <= size:
                    return tuple(array[:found].copy() for array in arrays), float(reach[0])
                size = found

        done = []
        pool = ThreadPoolExecutor(N_THREADS)
        try:
            for each in pool.map(runs, limits[:-1].tolist(), limits[1:].tolist()):
                done.append(each)
                advance((1 - SORTING) * len(done) / (len(limits) - 1))
        finally:
            pool.shutdown(cancel_futures=True)
        self.reach_mm = max((0.5 * longest for _, longest in done), default=0.0)
        return [arrays for arrays, _ in done]

    def _runs(self, block: Segments) -> tuple[NDArray[np.int64], ...]:
        """Return cells, first segments, numbers of segments and streamlines of a block's runs."""
        start = self.points[block.numbers]
        step = self.points[last_points(self.offsets, block)] - start
        lengths = np.sqrt((step.astype(np.float64) ** 2).sum(axis=1))
        segments = np.arange(len(start))
        middles = start + 0.5 * step
        if lengths.size and lengths.max() > self.cell_mm:
            pieces = np.maximum(np.ceil(lengths / self.cell_mm), 1).astype(np.int64)
            segments = np.repeat(segments, pieces)
            piece = np.arange(len(segments)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            fraction = (piece + 0.5) / pieces[segments]
            middles = start[segments] + fraction[:, None] * step[segments]
            lengths = lengths / pieces
        self.reach_mm = max(self.reach_mm, 0.5 * float(lengths.max(initial=0.0)))
        x, y, z = (
            np.clip(((middles[:, axis] - self.low[axis]) / self.cell_mm).astype(np.int32), 0, n - 1)
            for axis, n in enumerate(self.shape)
        )
        cells = (x * self.shape[1] + y) * self.shape[2] + z
        owners = block.streamlines[segments]
        changes = np.flatnonzero((cells[1:] != cells[:-1]) | (owners[1:] != owners[:-1])) + 1
        begins = np.concatenate([[0], changes]) if len(cells) else changes
        ends = np.append(begins[1:], len(cells))[: len(begins)] - 1
        first, last = segments[begins], segments[ends]
        wide = len(self.points) >= 1 << 32
        return (
            cells[begins],
            block.numbers[first].astype(np.int64 if wide else np.uint32),
            (last - first + 1).astype(np.int32),
            owners[begins].astype(np.int32 if len(self.offsets) < 1 << 31 else np.int64),
        )

    def _cells_near(self, region: Region) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cells that lie in a region, and the others that what meets it may lie in."""
        if region.grid is None or region.voxels is None:
            assert region.center_mm is not None
            return self._cells_near_sphere(region.center_mm, region.radius_mm)
        near = self._cells_near_mask(region.grid, region.voxels)
        return np.empty(0, np.int64), np.flatnonzero(near)

    def _cells_near_sphere(
        self, centre: NDArray[np.float64], radius: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        reach = radius + self.reach_mm + GUARD_MM
        nearest, farthest, numbers = [], [], []
        for axis, n in enumerate(self.shape):
            to_low = centre[axis] - self.low[axis]
            first = int(np.clip((to_low - reach) // self.cell_mm, 0, n))
            stop = int(np.clip((to_low + reach) // self.cell_mm + 1, 0, n))
            edges = np.arange(first, stop) * self.cell_mm - to_low
            far = np.maximum(np.abs(edges), np.abs(edges + self.cell_mm))
            near = np.maximum(np.maximum(edges, -(edges + self.cell_mm)), 0.0)
            nearest.append(near**2)
            farthest.append(far**2)
            numbers.append(np.arange(first, stop))
        x, y, z = np.ix_(*numbers)
        cells = (x * self.shape[1] + y) * self.shape[2] + z
        low = nearest[0][:, None, None] + nearest[1][:, None] + nearest[2]
        high = farthest[0][:, None, None] + farthest[1][:, None] + farthest[2]
        inside = high <= max(radius - GUARD_MM, 0.0) ** 2
        return cells[inside], cells[(low <= reach**2) & ~inside]

    def _cells_near_mask(self, grid: Grid, voxels: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Mark the cells that a voxel of the mask comes near to, by a box around each voxel."""
        near = np.zeros(self.shape, bool)
        centres = grid.to_mm(np.argwhere(voxels)) - self.low
        half = 0.5 * np.abs(grid.affine[:3, :3]).sum(axis=1) + self.reach_mm + GUARD_MM
        sizes = np.array(self.shape)
        first = ((centres - half) // self.cell_mm).astype(np.int64)
        last = ((centres + half) // self.cell_mm).astype(np.int64)
        first, last = np.maximum(first, 0), np.minimum(last, sizes - 1)
        extent = (last - first).max(axis=0, initial=-1) + 1
        for steps in np.ndindex(*np.maximum(extent, 0).tolist()):
            cell = first + steps
            cell = cell[(cell <= last).all(axis=1)]
            near[tuple(cell.T)] = True
        return near.ravel()


def _ranges(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return (first, stop) of each range of consecutive numbers; they rise."""
    if not len(numbers):
        return []
    gaps = np.flatnonzero(np.diff(numbers) != 1)
    firsts = numbers[np.concatenate([[0], gaps + 1])]
    stops = numbers[np.concatenate([gaps, [len(numbers) - 1]])] + 1
    return list(zip(firsts.tolist(), stops.tolist(), strict=True))
