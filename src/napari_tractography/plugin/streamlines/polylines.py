"""Geometry of drawn polylines: which to draw, how they meet a slice, which lies under the cursor.

Arrays only, no napari; called by the streamlines layer. Points are display mm, axes x, y, z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
BLOCK_POINTS = 16


def joined_to_next(offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each point, (n_points,) bool, whether a line leads on to the next point."""
    joined = np.ones(int(offsets[-1]), dtype=bool)
    last = offsets[1:][offsets[1:] > offsets[:-1]] - 1
    joined[last] = False
    return joined


SPARE = 1.2  # times as many ranks as a budget takes on average
MOST = 2.0**64  # above all ranks
RANKED = 1 << 15  # streamlines at once


def even_subset(offsets: NDArray[np.int64], max_points: int) -> NDArray[np.int64]:
    """Return the numbers of streamlines, evenly chosen, at random but always the same, rising.

    As many as have no more than `max_points` together; at least one. Each streamline has a fixed
    random rank, so that a larger budget only adds streamlines.
    """
    n = len(offsets) - 1
    # Ranks are even: those beyond what the budget takes, with some to spare, need no sorting.
    fraction = SPARE * max_points / max(int(offsets[-1]), 1)
    low, rank = _lowest(n, fraction)
    if fraction < 1 and _counts(offsets, low).sum() <= max_points:
        low, rank = _lowest(n, 1.0)
    order = low[np.argsort(rank, kind="stable")]
    fit = int(np.searchsorted(np.cumsum(_counts(offsets, order)), max_points, side="right"))
    return np.asarray(np.sort(order[: max(fit, 1)]))


def _counts(offsets: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many points some streamlines have."""
    return np.asarray(offsets[1:][numbers] - offsets[:-1][numbers])


def _lowest(n: int, fraction: float) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return which of n streamlines are in that fraction by rank, rising, and their ranks."""
    numbers, ranks = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for first in range(0, n, RANKED):  # a block stays in the cache
        rank = _rank(np.arange(first, min(first + RANKED, n)))
        low = np.flatnonzero(rank <= np.uint64(fraction * MOST)) if fraction < 1 else slice(None)
        ranks.append(rank[low])
        numbers.append(np.arange(first, first + len(rank))[low])
    return np.concatenate(numbers), np.concatenate(ranks)


def _rank(index: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Mix the bits of an index (the finaliser of SplitMix64, Steele et al. 2014)."""
    z = index.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


@dataclass(frozen=True, slots=True)
class Pieces:
    """Separate straight pieces, two vertices each, to be drawn one after the other."""

    xyz: Floats  # (2 n_pieces, 3) float32: ends of the pieces
    rgba: Floats  # (2 n_pieces, 4) float32: their colours
    distance: Floats  # (2 n_pieces,) float32: distance from the slice, mm
    # (n_pieces,) int64: the point from which the segment of each piece starts.
    start: NDArray[np.int64]


def crop_to_slab(
    xyz: Floats,
    rgba: Floats,
    joined: NDArray[np.bool_],
    *,
    axis: int,
    position: float,
    half_mm: float,
) -> Pieces:
    """Cut polylines to a slab around a slice: `half_mm` to both sides of a position on an axis.

    Segments that pass through the slice are split there, so that colour and distance can be
    interpolated along each piece. The nearest pieces come last: drawn in this order they lie
    on top. `joined` is from :func:`joined_to_next`.
    """
    across = np.ascontiguousarray(xyz[:, axis]) - np.float32(position)
    half = np.float32(half_mm)
    side = (across > half).astype(np.int8) - (across < -half).astype(np.int8)
    start = np.flatnonzero(joined[:-1] & (np.abs(side[:-1] + side[1:]) < 2))
    a, b = across[start], across[start + 1]
    step = b - a
    step[step == 0] = 1  # parallel to the slice: both bounds below fall outside 0..1
    low, high = (-half - a) / step, (half - a) / step
    parallel = a == b
    begin = np.where(parallel, 0, np.clip(np.minimum(low, high), 0, 1))
    end = np.where(parallel, 1, np.clip(np.maximum(low, high), 0, 1))
    middle = np.clip(-a / step, begin, end)
    through = (a < 0) != (b < 0)
    begin_of = np.concatenate([begin, middle[through]])
    end_of = np.concatenate([np.where(through, middle, end), end[through]])
    start = np.concatenate([start, start[through]])

    fraction = np.stack([begin_of, end_of], axis=1).astype(np.float32)
    distance = np.abs(_along(across[:, None], start, fraction)[..., 0])
    order = np.argsort(-distance.min(axis=1), kind="stable")
    start, fraction = start[order], fraction[order]
    return Pieces(
        _along(xyz, start, fraction).reshape(-1, 3),
        _along(rgba, start, fraction).reshape(-1, 4),
        distance[order].reshape(-1),
        start,
    )


def _along(values: Floats, start: NDArray[np.int64], fraction: Floats) -> Floats:
    """Interpolate point data on segments: (n, c) at (k,), (k, 2) to (k, 2, c)."""
    first = values[start][:, None, :]
    return np.asarray(first + fraction[:, :, None] * (values[start + 1][:, None, :] - first))


def nearest_piece(
    pieces: NDArray[np.floating], point: NDArray[np.floating], within: float
) -> int | None:
    """Return which of (n_pieces, 2, 2) pieces lies nearest to a (2,) point, or None if none is
    within the distance. Of equally near ones the last, which is drawn on top."""
    if not len(pieces):
        return None
    distance = _distance_to_origin(pieces[:, 0] - point, pieces[:, 1] - point)
    nearest = len(pieces) - 1 - int(np.argmin(distance[::-1]))
    return nearest if distance[nearest] <= within else None


@dataclass(frozen=True, slots=True)
class Slab:
    """What lies between two parallel planes across an axis."""

    axis: int  # the column of points
    position: float  # the middle, mm
    half_mm: float  # half of the thickness


@dataclass(frozen=True, slots=True)
class Blocks:
    """Spheres around pieces of polylines, of at most :data:`BLOCK_POINTS` segments each."""

    # (n_blocks + 1,) int64: the first point of each block, and the number of points; the last
    # segment of a block ends with the first point of the next.
    starts: NDArray[np.int64]
    centres: Floats  # (n_blocks, 3) float32
    radii: Floats  # (n_blocks,) float32

    @classmethod
    def around(cls, xyz: Floats, joined: NDArray[np.bool_]) -> Blocks:
        """Return the blocks of (n_points, 3) points."""
        first = np.flatnonzero(np.concatenate([[True], ~joined[:-1]]))
        counts = np.diff(np.append(first, len(xyz)))
        n_blocks = -(-counts // BLOCK_POINTS)
        nth = np.arange(n_blocks.sum()) - np.repeat(np.cumsum(n_blocks) - n_blocks, n_blocks)
        starts = np.repeat(first, n_blocks) + BLOCK_POINTS * nth
        bounds = np.append(starts, len(xyz))
        ends = np.where(joined[bounds[1:] - 1], np.minimum(bounds[1:], len(xyz) - 1), starts)
        low, high = np.empty((2, len(starts), 3), dtype=np.float32)
        for axis in range(3):  # column by column: NumPy reduces (n, 3) slowly
            column = np.ascontiguousarray(xyz[:, axis])
            low[:, axis] = np.minimum(np.minimum.reduceat(column, starts), column[ends])
            high[:, axis] = np.maximum(np.maximum.reduceat(column, starts), column[ends])
        radii = np.asarray(np.linalg.norm(high - low, axis=1) / 2, dtype=np.float32)
        return cls(bounds, low + np.float32(0.5) * (high - low), radii)

    def near_ray(
        self, origin: NDArray[np.floating], basis: NDArray[np.floating], within: float
    ) -> NDArray[np.int64]:
        """Return the points of the blocks that come near a ray.

        That goes through `origin`, across which the `basis` has two unit vectors at right angles.
        """
        flat = _across(self.centres - np.asarray(origin, np.float32), basis)
        near = np.flatnonzero(np.einsum("ij,ij->i", flat, flat) <= (self.radii + within) ** 2)
        return self._points_of(near)

    def near_slice(self, axis: int, position: float, within: float) -> NDArray[np.int64]:
        """Return the points of the blocks that come near a slice across an axis, x, y or z."""
        away = np.abs(self.centres[:, axis] - np.float32(position))
        return self._points_of(np.flatnonzero(away <= self.radii + np.float32(within)))

    def _points_of(self, near: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = self.starts[near + 1] - self.starts[near]
        shift = self.starts[near] - (np.cumsum(counts) - counts)
        return np.asarray(np.arange(counts.sum()) + np.repeat(shift, counts))


def first_on_ray(
    xyz: Floats,
    joined: NDArray[np.bool_],
    *,
    origin: NDArray[np.floating],
    direction: NDArray[np.floating],
    within: float,
    blocks: Blocks | None = None,
    slab: Slab | None = None,
) -> int | None:
    """Return the point from which the foremost segment near a ray starts, or None.

    The ray is the line of sight, away from the eye, and `within` the largest distance from it, mm.
    `joined` is from :func:`joined_to_next`; blocks around the points are computed where they are
    not known; only what lies in the slab counts.
    """
    if len(xyz) < 2:
        return None
    sight = np.asarray(direction, dtype=np.float64) / np.linalg.norm(direction)
    basis = np.linalg.svd(sight[None])[2][1:]  # two directions across the line of sight
    blocks = Blocks.around(xyz, joined) if blocks is None else blocks
    start = blocks.near_ray(origin, basis, within)
    start = start[start < len(xyz) - 1]
    start = start[joined[start]]
    ends = np.stack([xyz[start], xyz[start + 1]])
    if slab is not None:
        away = np.abs(ends.mean(axis=0)[:, slab.axis] - np.float32(slab.position))
        start, ends = start[away <= slab.half_mm], ends[:, away <= slab.half_mm]
    flat = _across(ends, basis) - (basis @ origin).astype(np.float32)
    hit = _distance_to_origin(flat[0], flat[1]) <= within
    if not hit.any():
        return None
    depth = (ends[0] + ends[1])[hit] @ sight
    return int(start[hit][np.argmin(depth)])


def _across(xyz: Floats, basis: NDArray[np.floating]) -> Floats:
    """Coordinates of (..., 3) points along two directions, (..., 2).

    Not a matrix product: that wakes the threads of BLAS, which spin on.
    """
    return np.asarray(np.einsum("...j,kj->...k", xyz, basis.astype(np.float32)))


def _distance_to_origin(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """Distance of the pieces from a to b, (n, 2) each, from the origin, (n,)."""
    step = b - a
    square = np.einsum("ij,ij->i", step, step)
    t = -np.einsum("ij,ij->i", a, step) / np.where(square > 0, square, 1)
    return np.asarray(np.linalg.norm(a + np.clip(t, 0, 1)[:, None] * step, axis=1))
