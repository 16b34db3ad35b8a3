"""Streamlines cut at a plane; called by the edits of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tractogram import Tractogram


def cut_beyond(
    tractogram: Tractogram, point_mm: Sequence[float], normal: Sequence[float]
) -> Tractogram:
    """Return streamlines without what lies beyond a plane, on the side that its normal points to.

    Cut ends lie on the plane. A streamline that crosses it several times becomes several, one after
    the other, with the same seed and weight; points on the plane itself stay, and what is then a
    single point goes, unless the streamline was one. Stop reasons of cut ends are 0 (unknown);
    lengths of what was cut are those of the polyline. The point is RAS+ mm, the normal of any
    length but zero.
    """
    points, offsets = tractogram.points, tractogram.offsets
    n = len(points)
    height = np.zeros(n)
    for axis in range(3):  # element by element, so that machines agree to the bit
        height += (points[:, axis].astype(np.float64) - point_mm[axis]) * normal[axis]
    stays = height <= 0
    if stays.all():
        return tractogram
    owner = np.repeat(np.arange(len(tractogram)), np.diff(offsets))
    joined = owner[1:] == owner[:-1]
    # Segments, by their first point. One that begins or ends on the plane has its cut end there.
    leaves = np.flatnonzero(joined & (height[:-1] < 0) & ~stays[1:])
    comes_back = joined & ~stays[:-1]
    enters = np.flatnonzero(comes_back & (height[1:] < 0))
    enters_at = np.flatnonzero(comes_back & (height[1:] == 0)) + 1  # points
    # A crossing lies between the points of its segment; a place, times 4, sorts all that stays.
    crossings = np.concatenate([leaves, enters])
    order_keys = np.concatenate([4 * np.flatnonzero(stays), 4 * leaves + 1, 4 * enters + 2])
    order = np.argsort(order_keys, kind="stable")
    order_keys = order_keys[order]
    owners = owner[order_keys // 4]
    # A piece begins with a streamline, and where one comes back through the plane.
    begins = np.concatenate([[True], owners[1:] != owners[:-1]]) if len(order_keys) else stays[:0]
    begins |= (order_keys % 4 == 2) | np.isin(order_keys, 4 * enters_at)
    firsts = np.flatnonzero(begins)
    counts = np.diff(np.append(firsts, len(order_keys)))
    parent = owners[firsts]
    starts_whole = order_keys[firsts] == 4 * offsets[:-1][parent]
    ends_whole = order_keys[firsts + counts - 1] == 4 * (offsets[1:][parent] - 1)
    whole = starts_whole & ends_whole
    kept = (counts > 1) | whole

    def at_points(values: NDArray[Any]) -> NDArray[Any]:
        """Return values at the points that stay and at crossings, of those at all points."""
        new = np.concatenate([values[stays], _crossing(values, height, crossings)])
        return np.asarray(new[order][np.repeat(kept, counts)])

    cut = Tractogram(at_points(points), np.concatenate([[0], np.cumsum(counts[kept])]))
    whole, parent = whole[kept], parent[kept]
    reasons = tractogram.stop_reasons[parent]
    reasons[~starts_whole[kept], 0] = reasons[~ends_whole[kept], 1] = 0
    lengths = np.where(whole, tractogram.lengths_mm[parent], cut.lengths_mm)
    weights = tractogram.weights
    return Tractogram(
        cut.points,
        cut.offsets,
        seed_index=tractogram.seed_index[parent],
        stop_reasons=reasons,
        lengths_mm=lengths,
        weights=None if weights is None else weights[parent],
        data=tractogram.data.picked(parent, at_points),
        grid=tractogram.grid,
    )


def _crossing(
    values: NDArray[Any], height: NDArray[np.float64], segments: NDArray[np.int64]
) -> NDArray[Any]:
    """Return values where segments cross the plane; of whole numbers those of the nearer point."""
    low, high = height[segments], height[segments + 1]
    at = (low / (low - high)).reshape(-1, *[1] * (values.ndim - 1))
    start, end = (values[segments + i] for i in (0, 1))
    if values.dtype.kind != "f":
        return np.where(at < 0.5, start, end)
    start, end = start.astype(np.float64), end.astype(np.float64)
    return np.asarray(start + at * (end - start), dtype=values.dtype)
