"""Streamlines that a stroke across a view crosses; called by the tools of the panel."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_CORNERS = 64  # of a stroke: of more an even part is taken


def across(sight: ArrayLike) -> NDArray[np.float64]:
    """Return two directions across the line of sight, as (3, 2) float64 of unit columns."""
    ahead = np.asarray(sight, dtype=np.float64)
    ahead = ahead / np.linalg.norm(ahead)
    helper = np.zeros(3)
    helper[np.argmin(np.abs(ahead))] = 1.0
    first = np.cross(ahead, helper)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(ahead, first)], axis=1)


def crossed(
    positions: ArrayLike,
    offsets: NDArray[np.int64],
    stroke: ArrayLike,
    sight: ArrayLike,
    *,
    slab: tuple[int, float, float] | None = None,
) -> NDArray[np.int64]:
    """Return the streamlines that a stroke crosses, by parallel lines of sight: (n,) int64, rising.

    Points of streamlines, as they are shown, and (n, 3) positions along the stroke are in mm, in
    any axes, the same for both and for the direction in which the person looks. With a slab, (axis,
    low, high), segments count whose both ends lie between these positions.
    """
    way = np.asarray(stroke, dtype=np.float64).reshape(-1, 3)
    shown = np.asarray(positions, dtype=np.float64)
    if len(way) < 2 or len(shown) < 2:
        return np.empty(0, np.int64)
    chosen = np.linspace(0, len(way) - 1, min(len(way), MAX_CORNERS)).round().astype(int)
    axes = across(sight)
    corners, flat = way[chosen] @ axes, shown @ axes
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    joined = owner[:-1] == owner[1:]
    if slab is not None:
        axis, low, high = slab
        inside = (shown[:, axis] >= low) & (shown[:, axis] <= high)
        joined &= inside[:-1] & inside[1:]
    least, most = corners.min(axis=0), corners.max(axis=0)
    joined &= (np.minimum(flat[:-1], flat[1:]) <= most).all(axis=1)
    joined &= (np.maximum(flat[:-1], flat[1:]) >= least).all(axis=1)
    starts = np.flatnonzero(joined)
    a, b = flat[starts], flat[starts + 1]
    hit = np.zeros(len(starts), dtype=bool)
    for p, q in pairwise(corners):
        sides_of_stroke = _side(p, q, a) * _side(p, q, b) <= 0
        sides_of_segment = _side(a, b, p) * _side(a, b, q) <= 0
        hit |= sides_of_stroke & sides_of_segment
    return np.unique(owner[starts[hit]])


def _side(
    start: NDArray[np.float64], end: NDArray[np.float64], point: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return on which side of lines points lie: above 0 left, below 0 right."""
    along, beside = end - start, point - start
    return np.asarray(along[..., 0] * beside[..., 1] - along[..., 1] * beside[..., 0])
