"""Trilinear interpolation in a field of positions, compiled; called by :mod:`.warps`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..runtime.compiling import cached


@cached(nogil=True, error_model="numpy")
def interpolate(
    positions: NDArray[np.float32], voxels: NDArray[np.float64], found: NDArray[np.float64]
) -> None:
    """Write the positions at (n, 3) voxel coordinates into (n, 3) `found`; NaN outside of the grid.

    In the outer half of the outermost voxels what is within goes on. A voxel without a position
    counts where its weight is not zero.
    """
    shape = positions.shape
    for row in range(voxels.shape[0]):
        x, y, z = voxels[row, 0], voxels[row, 1], voxels[row, 2]
        inside = (
            x >= -0.5 and x < shape[0] - 0.5
            and y >= -0.5 and y < shape[1] - 0.5
            and z >= -0.5 and z < shape[2] - 0.5
        )  # fmt: skip
        if not inside:  # of NaN as well
            for axis in range(3):
                found[row, axis] = np.nan
            continue
        i = max(min(math.floor(x), shape[0] - 2), 0)
        j = max(min(math.floor(y), shape[1] - 2), 0)
        k = max(min(math.floor(z), shape[2] - 2), 0)
        for axis in range(3):
            total = 0.0
            for a in range(2):
                for b in range(2):
                    for c in range(2):
                        weight = (
                            (x - i if a else 1.0 - (x - i))
                            * (y - j if b else 1.0 - (y - j))
                            * (z - k if c else 1.0 - (z - k))
                        )
                        if weight != 0.0:  # beside a voxel without a position
                            total += (
                                weight
                                * positions[
                                    min(i + a, shape[0] - 1),
                                    min(j + b, shape[1] - 1),
                                    min(k + c, shape[2] - 1),
                                    axis,
                                ]
                            )
            found[row, axis] = total
