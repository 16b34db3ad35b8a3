"""How near streamlines come to a region, mm: exact, of segments and of whole voxels.

A mask is the voxels of it, each a parallelepiped in space, whatever its grid. Called by
:mod:`.resection`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from ..geometry.grid import Grid
from ..model.regions import Region
from ..streamlines.segments import blocks, last_points
from ..streamlines.tractogram import Tractogram

HALVINGS = 40  # of a segment, until its nearest point is found
PAIRS = 1 << 18  # of segments and voxels at a time
NEIGHBOURS = 1 << 10  # segments, or points, whose voxels are sought at once


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The shortest way from streamlines to a region."""

    mm: float  # its length; infinite without streamlines
    # (2, 3) float64: its ends, RAS+ mm: on the streamlines, and on the region.
    line_mm: NDArray[np.float64]

    @classmethod
    def none(cls) -> Nearest:
        """Return the way where there is none."""
        return cls(math.inf, np.full((2, 3), np.nan))


def nearest(tractogram: Tractogram, region: Region, before: Nearest | None = None) -> Nearest:
    """Return the shortest way from any streamline to a region; `before`, where that is shorter."""
    found = Nearest.none() if before is None else before
    voxels = None if region.grid is None else _Voxels.of(region)
    points, offsets = tractogram.points, tractogram.offsets
    for block in blocks(offsets, np.flatnonzero(np.diff(offsets) > 0)):
        start = points[block.numbers].astype(np.float64)
        step = points[last_points(offsets, block)] - start
        if voxels is not None:
            found = voxels.nearest(start, step, found)
            continue
        centre = region.center_mm
        assert centre is not None
        square = (step**2).sum(axis=1)
        along = np.einsum("ij,ij->i", centre - start, step)
        at = np.clip(np.divide(along, square, where=square > 0, out=np.zeros_like(along)), 0, 1)
        on_lines = start + at[:, None] * step
        gaps = np.linalg.norm(on_lines - centre, axis=1)
        best = int(np.argmin(gaps))
        mm = max(float(gaps[best]) - region.radius_mm, 0.0)
        if mm < found.mm:
            one = on_lines[best]
            other = centre + (one - centre) * min(region.radius_mm / max(gaps[best], 1e-30), 1.0)
            found = Nearest(mm, np.stack([one, other]))
    return found


def distances_mm(points_mm: NDArray[np.float64], region: Region) -> NDArray[np.float64]:
    """Return how far (n, 3) RAS+ mm points lie from a region, (n,) float64 mm; 0 inside."""
    if region.grid is None:
        assert region.center_mm is not None
        gaps = np.linalg.norm(points_mm - region.center_mm, axis=1)
        return np.asarray(np.maximum(gaps - region.radius_mm, 0.0))
    found = _Voxels.of(region).distances_mm(points_mm)
    found[region.contains(points_mm)] = 0.0
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Voxels:
    """The voxels at the rim of a mask: from outside, one of them is the nearest."""

    grid: Grid
    voxels: NDArray[np.float64]  # (n, 3) voxel coordinates of their centres
    tree: cKDTree  # of their centres, mm
    inner_mm: float  # radii of the balls inside and around a voxel
    outer_mm: float

    @classmethod
    def of(cls, region: Region) -> _Voxels:
        assert region.grid is not None
        assert region.voxels is not None
        inside = region.voxels != 0
        rim = np.argwhere(inside & ~ndimage.binary_erosion(inside)).astype(np.float64)
        axes = region.grid.affine[:3, :3]
        corners = np.array(np.meshgrid(*[(-0.5, 0.5)] * 3)).reshape(3, -1)
        return cls(
            region.grid,
            rim,
            cKDTree(region.grid.to_mm(rim)),
            float(0.5 / np.linalg.norm(np.linalg.inv(axes), axis=1).max()),
            float(np.linalg.norm(axes @ corners, axis=0).max()),
        )

    def nearest(
        self, start: NDArray[np.float64], step: NDArray[np.float64], before: Nearest
    ) -> Nearest:
        """Return the shortest way from (n, 3) segments, mm, to these voxels, or `before`."""
        middle, half = start + step / 2, np.linalg.norm(step, axis=1) / 2
        # No segment is farther than the middle of it from a ball in the voxel.
        gaps = self.tree.query(middle)[0]
        most = min(before.mm, float((gaps - self.inner_mm).min()))
        near = np.flatnonzero(gaps - half - self.outer_mm <= most)
        found = before
        for owners, voxels in self._pairs(middle[near], half[near] + self.outer_mm + most):
            rows = near[owners]
            mm, one, other = self._ways(start[rows], step[rows], voxels)
            best = int(np.argmin(mm))
            if mm[best] < found.mm:
                found = Nearest(float(mm[best]), np.stack([one[best], other[best]]))
        return found

    def distances_mm(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distances of (n, 3) points, mm, to these voxels."""
        found = np.full(len(points), np.inf)
        reach = self.tree.query(points)[0] - self.inner_mm + self.outer_mm
        for owners, voxels in self._pairs(points, reach):
            mm, _, _ = self._ways(points[owners], np.zeros((len(owners), 3)), voxels)
            np.minimum.at(found, owners, mm)
        return found

    def _pairs(
        self, middles: NDArray[np.float64], reach: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield, some at a time, the numbers of points and of voxels within their reach."""
        for first in range(0, len(middles), NEIGHBOURS):
            here = slice(first, first + NEIGHBOURS)
            # A hair more: what lies at the very border counts.
            lists = self.tree.query_ball_point(middles[here], reach[here] + 1e-6)
            voxels = np.concatenate([np.asarray(each, np.int64) for each in lists])
            owners = first + np.repeat(np.arange(len(lists)), [len(each) for each in lists])
            for at in range(0, len(owners), PAIRS):
                yield owners[at : at + PAIRS], voxels[at : at + PAIRS]

    def _ways(
        self, start: NDArray[np.float64], step: NDArray[np.float64], voxels: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the shortest ways from segments to a voxel each: lengths mm and both ends.

        The distance to a voxel is convex along the segment: halving by the sign of its slope.
        """
        low, high = np.zeros(len(start)), np.ones(len(start))
        for _ in range(HALVINGS if step.any() else 0):
            at = (low + high) / 2
            one = start + at[:, None] * step
            slope = np.einsum("ij,ij->i", one - self._in_voxel(one, voxels), step)
            low, high = np.where(slope < 0, at, low), np.where(slope < 0, high, at)
        one = start + high[:, None] * step
        other = self._in_voxel(one, voxels)
        return np.linalg.norm(one - other, axis=1), one, other

    def _in_voxel(
        self, points: NDArray[np.float64], voxels: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the nearest point of a voxel for each of (n, 3) points, mm."""
        centres = self.voxels[voxels]
        return self.grid.nearest_in_boxes(points, centres - 0.5, centres + 0.5)
