"""The places that seeds are drawn in: voxels of masks, and offsets within a voxel or a sphere.

Called by :mod:`.seeds`. Seed i takes the random numbers of number i, whatever else is drawn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidMaskError
from ..geometry.grid import Grid
from ..runtime.arrays import as_native, library_of, may_be_real, on_its_device
from .philox import Purpose, uniforms

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def voxels_of_mask(mask: ArrayLike, affine: ArrayLike | Grid) -> tuple[Any, Grid, Any]:
    """Return where a mask is not zero, its grid, and the flat indices of those voxels.

    Raises InvalidMaskError when the mask is empty, not 3-D, of no real numbers or of another shape
    than its grid.

    Parameters
    ----------
    mask : (x, y, z) array_like
        NaN counts as zero.
    affine : (4, 4) array_like or Grid
        Of the mask, voxel to RAS+ mm.

    Returns
    -------
    held : (x, y, z) bool
        Where the mask lies, a copy: more seeds may be drawn of it, whatever is painted next.
    grid : Grid
    indices : (n_voxels,) int64
        Rising, in C order; where the mask lies.
    """
    array = as_native(mask)
    if array.ndim != 3:
        raise InvalidMaskError(f"A seed mask is 3-D, not of shape {array.shape}.")
    if not may_be_real(array):
        raise InvalidMaskError(f"The seed mask holds {array.dtype} values; give real numbers.")
    grid = affine if isinstance(affine, Grid) else Grid(array.shape, affine)
    if grid.shape != array.shape:
        raise InvalidMaskError(
            f"The seed mask has shape {array.shape} but its grid has {grid.shape}."
        )
    with on_its_device(array):
        held = (array != 0) & (array == array)
        indices = library_of(array).flatnonzero(held)
    if not len(indices):
        raise InvalidMaskError(
            f"The seed mask of shape {array.shape} is empty; paint or choose another."
        )
    return held, grid, indices


def in_turn(ids: NDArray[np.int64], n_voxels: int) -> NDArray[np.int64]:
    """Return which of so many voxels each seed is in: all of them in turn, round after round.

    From one to the next it is some 0.618 of all, the golden section, so that the first seeds are
    spread evenly over the list.
    """
    stride = max(round(n_voxels * GOLDEN), 1)
    while math.gcd(stride, n_voxels) > 1:  # else some voxels would be left out
        stride += 1
    return ids % n_voxels * stride % n_voxels


def in_unit_cube(ids: NDArray[np.int64], random_seed: int) -> NDArray[np.float64]:
    """Return (n, 3) positions in [-0.5, 0.5)."""
    return uniforms(ids, 0, Purpose.SEED_POSITION, random_seed)[:, :3] - 0.5


def in_unit_ball(ids: NDArray[np.int64], random_seed: int) -> NDArray[np.float64]:
    """Return (n, 3) positions uniform in the unit ball, by rejection from the cube around it."""
    result = np.empty((len(ids), 3))
    left = np.arange(len(ids))
    draw = 0
    while len(left):
        offsets = 2.0 * uniforms(ids[left], draw, Purpose.SEED_POSITION, random_seed)[:, :3] - 1.0
        x, y, z = offsets.T
        accepted = x * x + y * y + z * z <= 1.0
        result[left[accepted]] = offsets[accepted]
        left = left[~accepted]
        draw += 1
    return result
