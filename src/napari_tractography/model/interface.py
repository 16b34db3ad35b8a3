"""Points on the interface of grey and white matter, for seeds; called by :mod:`.seeds`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidSeedsError
from .philox import Purpose, uniforms
from .tissues import CORTEX, DEEP, FLUID, LESION, WHITE, Tissues

# Points are drawn in a shell of this half-width, in mean edges of a voxel, and moved onto the
# interface: within it the shell is equally thick everywhere, so that points are uniform by area.
HALF_SHELL = 0.25
# In smallest edges: no further do fractions rise beside a sharp interface, across the thinnest way.
MOST_HALF_SHELL = 0.5
MOST_STEPS = 10  # of Newton's method
MOST_DRAWS = 2000  # for a seed, of which one in about ten falls into the shell
NEAR_ENOUGH = 1e-4  # grey less white matter of the points


def interface_points(
    tissues: Tissues, ids: NDArray[np.int64], random_seed: int
) -> NDArray[np.float64]:
    """Return a point on the interface for each of (n,) seed numbers: (n, 3), RAS+ mm.

    There is as much grey matter, cortical and deep, as white matter. Raises InvalidSeedsError when
    grey and white matter do not touch.
    """
    cells = _crossed_cells(tissues)
    result = np.empty((len(ids), 3))
    left = np.arange(len(ids)) if len(cells) else np.zeros(0, np.int64)
    for draw in range(MOST_DRAWS):
        if not len(left):
            break
        pick = uniforms(ids[left], draw, Purpose.SEED_VOXEL, random_seed)[:, 0]
        offsets = uniforms(ids[left], draw, Purpose.SEED_POSITION, random_seed)[:, :3]
        which = np.minimum((pick * len(cells)).astype(np.int64), len(cells) - 1)
        points, is_on = _onto_interface(tissues, cells[which] + offsets)
        result[left[is_on]] = points[is_on]
        left = left[~is_on]
    if len(left) or not len(cells):
        raise InvalidSeedsError(
            f"Grey and white matter do not touch in {tissues.name}, so that there is no interface "
            "to seed on; seed in white matter, or check the order of its volumes."
        )
    return tissues.grid.to_mm(result)


def _crossed_cells(tissues: Tissues) -> NDArray[np.int64]:
    """Return the first corners of cells of eight voxels near which grey equals white: (n, 3)."""
    from scipy.ndimage import binary_dilation  # on use: it takes a while to load

    f = tissues.fractions
    excess = f[..., CORTEX] + f[..., DEEP] - f[..., WHITE]
    shape = np.array(excess.shape) - 1
    if (shape < 1).any():
        return np.zeros((0, 3), np.int64)
    corners = [
        excess[a : a + shape[0], b : b + shape[1], c : c + shape[2]]
        for a, b, c in np.ndindex(2, 2, 2)
    ]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    crossed = (low < 0) & (high > 0)
    return np.argwhere(binary_dilation(crossed, np.ones((3, 3, 3))))


def _excess(
    tissues: Tissues, vox: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return grey less white matter at (n, 3) voxel coordinates, its slope in mm, the fractions."""
    fractions, slopes = tissues.mixed(vox)
    excess = fractions[:, CORTEX] + fractions[:, DEEP] - fractions[:, WHITE]
    slope = slopes[:, CORTEX] + slopes[:, DEEP] - slopes[:, WHITE]
    inverse = tissues.grid.inverse
    in_mm = np.stack(
        [
            slope[:, 0] * inverse[0, k] + slope[:, 1] * inverse[1, k] + slope[:, 2] * inverse[2, k]
            for k in range(3)
        ],
        axis=1,
    )
    return excess, in_mm, fractions


def _onto_interface(
    tissues: Tissues, vox: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Move (n, 3) voxel coordinates onto the interface; tell which were in its shell, and are on.

    Only sums, products and square roots, so that all machines have the same bits.
    """
    edges = tissues.grid.voxel_sizes_mm
    half_mm = min(HALF_SHELL * float(np.mean(edges)), MOST_HALF_SHELL * float(edges.min()))
    inverse = tissues.grid.inverse
    moved = vox.copy()
    excess, slope, fractions = _excess(tissues, moved)
    steepness = slope[:, 0] ** 2 + slope[:, 1] ** 2 + slope[:, 2] ** 2
    is_in = excess * excess <= half_mm * half_mm * steepness
    is_in &= (steepness > 0) & (fractions[:, WHITE] > 0)
    for _ in range(MOST_STEPS):
        off = is_in & (np.abs(excess) > NEAR_ENOUGH)
        if not off.any():
            break
        part = np.flatnonzero(off)
        scale = -excess[part] / np.maximum(steepness[part], 1e-30)
        step = scale[:, None] * slope[part]  # mm
        too_long = step[:, 0] ** 2 + step[:, 1] ** 2 + step[:, 2] ** 2 > 4 * half_mm * half_mm
        is_in[part[too_long]] = False
        part, step = part[~too_long], step[~too_long]
        for axis in range(3):
            row = inverse[axis]
            moved[part, axis] += row[0] * step[:, 0] + row[1] * step[:, 1] + row[2] * step[:, 2]
        excess[part], slope[part], fractions[part] = _excess(tissues, moved[part])
        steepness[part] = slope[part, 0] ** 2 + slope[part, 1] ** 2 + slope[part, 2] ** 2
    grey = fractions[:, CORTEX] + fractions[:, DEEP]
    is_on = is_in & (np.abs(excess) <= NEAR_ENOUGH) & (fractions[:, WHITE] > 0)
    is_on &= (grey > fractions[:, FLUID]) & (grey > fractions[:, LESION])
    return moved, is_on
