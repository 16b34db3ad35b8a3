"""Which voxels of a grid lie near which, in voxels and in millimetres.

Called by :mod:`.coherence` and :mod:`.lobes`.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from ..geometry.grid import Grid
from ..model.fod import Fod

BLOCKS_PER_AXIS = 8


def half_offsets(grid: Grid, reach_voxels: float) -> NDArray[np.int64]:
    """Return the (n, 3) int64 steps to a voxel's neighbours, one of each pair of opposite steps.

    Neighbours lie within `reach_voxels` cube roots of a voxel's volume, in mm. The 26 that touch
    the voxel belong to them in any case, unless the image is too thin.
    """
    linear = grid.affine[:3, :3]
    reach_mm = reach_voxels * float(np.cbrt(abs(np.linalg.det(linear))))
    # Steps within a distance lie within this box: the rows of the inverse bound each coordinate.
    box = np.ceil(reach_mm * np.linalg.norm(grid.inverse[:3, :3], axis=1)).astype(int)
    extent = np.minimum(np.maximum(box, 1), np.array(grid.shape) - 1)
    steps = np.array(list(itertools.product(*(range(-n, n + 1) for n in extent))))
    near = np.linalg.norm(steps @ linear.T, axis=1) <= reach_mm * (1 + 1e-9)
    touching = np.abs(steps).max(axis=1) == 1
    positive = [tuple(step) > (0, 0, 0) for step in steps.tolist()]
    return np.asarray(steps[(near | touching) & positive], dtype=np.int64)


def voxel_blocks(fod: Fod) -> NDArray[np.int64]:
    """Return which of 8 x 8 x 8 equal boxes each voxel with an FOD lies in, (n_voxels,) int64.

    The boxes divide the smallest box around those voxels.
    """
    voxels = np.argwhere(fod.support)
    low = voxels.min(axis=0)
    extent = voxels.max(axis=0) - low + 1
    boxes = (voxels - low) * BLOCKS_PER_AXIS // extent
    return np.asarray(boxes @ (BLOCKS_PER_AXIS ** np.arange(3)), dtype=np.int64)


def neighbour_rows(
    fod: Fod, voxels: NDArray[np.int64], offset: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find the neighbour of each of (n, 3) voxels at one offset.

    Returned are its row in `fod.values`, (n,) int64, -1 where there is no FOD, and whether it lies
    in the image, (n,) bool.
    """
    ends = voxels + offset
    inside = np.asarray(((ends >= 0) & (ends < fod.grid.shape)).all(axis=1))
    rows = np.full(len(voxels), -1, dtype=np.int64)
    rows[inside] = fod.voxel_rows[tuple(ends[inside].T)]
    return rows, inside


def checkerboard_halves(fod: Fod, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Sum the coefficients around each voxel twice, over different voxels around the same place.

    The 27 voxels around and with each are divided like the squares of a checkerboard: the voxel and
    the 12 across an edge make one half, the 6 across a face and the 8 across a corner the other.
    Both show the same fibres, and each has noise of its own. Of (n,) int64 rows of `fod.values`
    they are (2, n, n_coefficients) float32.
    """
    voxels = np.argwhere(fod.support)[rows]
    halves = np.zeros((2, len(rows), fod.values.shape[1]), np.float32)
    for offset in np.array(list(itertools.product((-1, 0, 1), repeat=3))):
        found, _ = neighbour_rows(fod, voxels, offset)
        used = found >= 0
        halves[np.abs(offset).sum() % 2, used] += fod.values[found[used]]
    return halves
