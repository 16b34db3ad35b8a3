"""Segments of streamlines, and whether they meet a sphere or a mask on their whole length.

A segment is a straight piece between two points of a streamline and has the number of its first
point; a streamline of one point has one segment, without length. Called by :mod:`.passing` and
:mod:`.spatial_index`. Everything is computed element by element in float64: machines agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..geometry.grid import Grid
from ..model.regions import Region

BLOCK = 1 << 19  # segments at a time: their float64 coordinates take 12 MB


class Segments(NamedTuple):
    """Some segments of a tractogram."""

    numbers: NDArray[np.int64]  # (n,) int64, rising: of their first points
    streamlines: NDArray[Any]  # (n,) integer: to which they belong


def blocks(offsets: NDArray[np.int64], numbers: NDArray[np.int64]) -> Iterator[Segments]:
    """Yield all segments of some streamlines, of rising numbers, a bounded number at a time."""
    firsts, lasts = offsets[numbers], offsets[numbers + 1]
    counts = np.maximum(lasts - firsts - 1, np.minimum(lasts - firsts, 1))
    totals = np.concatenate([[0], np.cumsum(counts)])
    start = 0
    while start < len(numbers):
        stop = int(np.searchsorted(totals, totals[start] + BLOCK, side="right")) - 1
        stop = max(stop, start + 1)  # a streamline longer than a block
        here = slice(start, stop)
        shift = firsts[here] - (totals[start:stop] - totals[start])
        found = np.arange(totals[stop] - totals[start]) + np.repeat(shift, counts[here])
        yield Segments(found, np.repeat(numbers[here], counts[here]))
        start = stop


def last_points(offsets: NDArray[np.int64], segments: Segments) -> NDArray[np.int64]:
    """Return the number of the last point of each segment."""
    last = offsets[segments.streamlines + 1] - 1
    return np.asarray(np.minimum(segments.numbers + 1, last))


def meeting(
    points: NDArray[np.float32], offsets: NDArray[np.int64], segments: Segments, region: Region
) -> NDArray[np.bool_]:
    """Tell which segments meet a region, at an end or between.

    A sphere is met by a segment that comes as near to its centre as its radius, a mask by one that
    passes a voxel of it.
    """
    ends = last_points(offsets, segments)
    if region.grid is None or region.voxels is None:
        assert region.center_mm is not None
        return _meeting_sphere(points, segments.numbers, ends, region.center_mm, region.radius_mm)
    return _meeting_mask(points, segments.numbers, ends, region.grid, region.voxels)


def _meeting_sphere(
    points: NDArray[np.float32],
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
    centre: NDArray[np.float64],
    radius: float,
) -> NDArray[np.bool_]:
    hit = np.zeros(len(firsts), bool)
    near = np.arange(len(firsts))
    start: list[NDArray[np.float64]] = []
    end: list[NDArray[np.float64]] = []
    for axis in range(3):  # most are far away, which one axis tells
        one = points[firsts[near], axis].astype(np.float64) - centre[axis]
        other = points[lasts[near], axis].astype(np.float64) - centre[axis]
        kept = (np.minimum(one, other) <= radius) & (np.maximum(one, other) >= -radius)
        near = near[kept]
        start = [*(v[kept] for v in start), one[kept]]
        end = [*(v[kept] for v in end), other[kept]]
    step = [b - a for a, b in zip(start, end, strict=True)]
    square = step[0] * step[0] + step[1] * step[1] + step[2] * step[2]
    along = -(start[0] * step[0] + start[1] * step[1] + start[2] * step[2])
    with np.errstate(invalid="ignore", divide="ignore"):
        at = np.where(square > 0, np.clip(along / square, 0.0, 1.0), 0.0)
    x, y, z = (a + at * d for a, d in zip(start, step, strict=True))
    hit[near] = x * x + y * y + z * z <= radius * radius
    return hit


def _meeting_mask(
    points: NDArray[np.float32],
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
    grid: Grid,
    voxels: NDArray[np.uint8],
) -> NDArray[np.bool_]:
    start, end = _cornered(points[firsts], grid), _cornered(points[lasts], grid)
    hit = _inside(start, voxels) | _inside(end, voxels)
    crosses = (np.floor(start) != np.floor(end)).any(axis=1)
    low, high = np.minimum(start, end), np.maximum(start, end)
    near = ((high >= 0) & (low <= np.array(grid.shape))).all(axis=1)
    left = np.flatnonzero(~hit & crosses & near)
    hit[left] = _passing(start[left], end[left], voxels)
    return hit


def _cornered(points: NDArray[np.float32], grid: Grid) -> NDArray[np.float64]:
    """Return (n, 3) voxel coordinates in which voxel i is [i, i + 1)."""
    x, y, z = (points[:, axis].astype(np.float64) for axis in range(3))
    rows = grid.inverse[:3]
    return np.stack([a * x + b * y + c * z + d + 0.5 for a, b, c, d in rows.tolist()], axis=1)


def _inside(vox: NDArray[np.float64], voxels: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell which of (n, 3) such coordinates lie in a voxel of the mask."""
    found = np.asarray(((vox >= 0) & (vox < np.array(voxels.shape))).all(axis=1))
    index = np.floor(vox[found]).astype(np.int64)
    found[found] = voxels[tuple(index.T)] != 0
    return found


def _passing(
    start: NDArray[np.float64], end: NDArray[np.float64], voxels: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Tell which segments, of (n, 3) such coordinates, pass a voxel of the mask.

    A segment is divided where it crosses faces of voxels; the middle of each part tells in which
    voxel it lies.
    """
    n = len(start)
    step = end - start
    enters, leaves = np.zeros(n), np.ones(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        for axis, size in enumerate(voxels.shape):  # outside the image there is nothing to cross
            one, other = -start[:, axis] / step[:, axis], (size - start[:, axis]) / step[:, axis]
            moves = step[:, axis] != 0
            enters = np.where(moves, np.maximum(enters, np.minimum(one, other)), enters)
            leaves = np.where(moves, np.minimum(leaves, np.maximum(one, other)), leaves)
    leaves = np.maximum(leaves, enters)
    here, there = start + enters[:, None] * step, start + leaves[:, None] * step
    fractions, owners = [enters, leaves], [np.arange(n), np.arange(n)]
    for axis in range(3):
        low = np.ceil(np.minimum(here[:, axis], there[:, axis])).astype(np.int64)
        high = np.floor(np.maximum(here[:, axis], there[:, axis])).astype(np.int64)
        counts = np.where(step[:, axis] != 0, np.maximum(high - low + 1, 0), 0)
        owner = np.repeat(np.arange(n), counts)
        face = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts - low, counts)
        fractions.append((face - start[owner, axis]) / step[owner, axis])
        owners.append(owner)
    at, owner = np.concatenate(fractions), np.concatenate(owners)
    order = np.lexsort((at, owner))
    at, owner = at[order], owner[order]
    same = owner[1:] == owner[:-1]
    middle, owner = (at[1:] + at[:-1])[same] / 2, owner[1:][same]
    found = np.zeros(n, bool)
    found[owner[_inside(start[owner] + middle[:, None] * step[owner], voxels)]] = True
    return found
