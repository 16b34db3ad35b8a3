"""The compiled traversal of the voxels along each segment; called by :mod:`.density`.

Amanatides & Woo, A fast voxel traversal algorithm for ray tracing, Eurographics 1987.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..runtime.compiling import cached

Point = NDArray[np.float64]  # (3,), in voxels
Voxel = NDArray[np.int64]  # (3,)


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _enter(
    cell: Voxel, streamline: int, worth: float, counts: NDArray[Any], last: NDArray[np.int64]
) -> None:
    """Count a streamline in a voxel, if it lies in the image and was not entered before."""
    x, y, z = cell[0], cell[1], cell[2]
    nx, ny, nz = counts.shape
    inside = 0 <= x < nx and 0 <= y < ny and 0 <= z < nz
    if inside and last[x, y, z] != streamline:
        last[x, y, z] = streamline
        counts[x, y, z] += worth


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _clip(start: Point, end: Point, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return the fractions of a segment at which it enters and leaves the image, a voxel wider.

    Far points would otherwise cost a step for each voxel on the way to them.
    """
    enters, leaves = 0.0, 1.0
    for a in range(3):
        low, high = -1.0, shape[a] + 1.0
        difference = end[a] - start[a]
        if difference == 0.0:
            if not low <= start[a] <= high:
                return 1.0, 0.0
            continue
        one, other = (low - start[a]) / difference, (high - start[a]) / difference
        enters = max(enters, min(one, other))
        leaves = min(leaves, max(one, other))
    return enters, leaves


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _traverse(
    start: Point,
    end: Point,
    streamline: int,
    worth: float,
    counts: NDArray[Any],
    last: NDArray[np.int64],
    cell: Voxel,
    last_cell: Voxel,
    sign: Voxel,
    face_at: Point,
    spacing: Point,
) -> None:
    """Enter all voxels between two points; voxel i is [i, i + 1). The last five are work space."""
    enters, leaves = _clip(start, end, counts.shape)
    if enters > leaves:
        return
    faces = 0
    for a in range(3):
        difference = end[a] - start[a]
        here = start[a] + enters * difference if enters > 0.0 else start[a]
        there = start[a] + leaves * difference if leaves < 1.0 else end[a]
        cell[a], last_cell[a] = np.int64(np.floor(here)), np.int64(np.floor(there))
        faces += abs(last_cell[a] - cell[a])
        sign[a] = 1 if last_cell[a] > cell[a] else -1
        face_at[a] = spacing[a] = np.inf
        if last_cell[a] != cell[a]:
            face = cell[a] + (1 if sign[a] > 0 else 0)
            face_at[a] = (face - start[a]) / difference  # as a fraction of the segment
            spacing[a] = 1.0 / abs(difference)
    _enter(cell, streamline, worth, counts, last)
    for _ in range(faces):
        a = 0 if face_at[0] <= face_at[1] else 1
        if face_at[2] < face_at[a]:
            a = 2
        cell[a] += sign[a]
        # Rounding must not carry the traversal past the last voxel along an axis.
        face_at[a] = np.inf if cell[a] == last_cell[a] else face_at[a] + spacing[a]
        _enter(cell, streamline, worth, counts, last)


@cached(nogil=True)
def count_passes(
    points: NDArray[np.float32],
    offsets: NDArray[np.int64],
    weights: NDArray[Any],
    to_voxel: NDArray[np.float64],
    ends_only: bool,
    counts: NDArray[Any],
    last: NDArray[np.int64],
) -> None:
    """Add each streamline to `counts`, (x, y, z) int32 or float64, in every voxel in which it lies.

    Points are (n_points, 3) float32, RAS+ mm, which the (3, 4) float64 matrix leads to voxel
    coordinates; weights are of the counts' type. With `ends_only` the voxels of first and last
    points count alone. `last`, (x, y, z) int64, is the last streamline that entered each voxel, -1
    at first.
    """
    start, end = np.empty(3), np.empty(3)
    face_at, spacing = np.empty(3), np.empty(3)
    cell, last_cell, sign = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3, np.int64)
    for streamline in range(len(offsets) - 1):
        first, stop = offsets[streamline], offsets[streamline + 1]
        for p in range(first, stop):
            alone = ends_only or stop - first == 1
            if ends_only and p != first and p != stop - 1:
                continue
            for a in range(3):
                end[a] = to_voxel[a, 3] + 0.5
                for b in range(3):
                    end[a] += to_voxel[a, b] * points[p, b]
            if alone or p > first:
                _traverse(
                    end if alone else start,
                    end,
                    streamline,
                    weights[streamline],
                    counts,
                    last,
                    cell,
                    last_cell,
                    sign,
                    face_at,
                    spacing,
                )
            start[:] = end
