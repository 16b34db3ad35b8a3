"""Masks that lie on another grid than the FOD; called by the recipes and the benchmark."""

from __future__ import annotations

import logging
import math

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidMaskError
from ..geometry.grid import Grid

logger = logging.getLogger(__name__)

RESAMPLED = (
    "The mask {} lies on another grid than the FOD, and was resampled onto it, voxel by voxel."
)
SLAB_VOXELS = 1 << 22  # that are looked up at once


def mask_on(mask: NDArray[np.bool_], own: Grid, grid: Grid, name: str) -> NDArray[np.bool_]:
    """Return a mask on another grid, by the voxel in which the centre of each voxel lies.

    With a warning, unless both grids are the same; the `name` of the mask is for that. Raises
    InvalidMaskError when no voxel is inside.
    """
    if own.same_space(grid):
        return mask
    found = resampled(mask, own, grid, name)
    logger.warning("%s", RESAMPLED.format(name))
    return found


def resampled(mask: NDArray[np.bool_], own: Grid, grid: Grid, name: str) -> NDArray[np.bool_]:
    """Return the same, without a warning."""
    found = np.zeros(grid.shape, np.bool_)
    thickness = max(1, SLAB_VOXELS // math.prod(grid.shape[1:]))
    for first in range(0, grid.shape[0], thickness):
        slab = found[first : first + thickness]
        voxels = np.moveaxis(np.indices(slab.shape), 0, -1) + np.array([first, 0, 0])
        points = grid.to_mm(voxels)
        inside = own.contains(points)
        slab[inside] = mask[tuple(own.nearest_voxels(points[inside]).T)]
    if not found.any():
        raise InvalidMaskError(
            f"The mask {name}, {own}, has no voxel in common with {grid}; check that both are in "
            "the same space."
        )
    return found
