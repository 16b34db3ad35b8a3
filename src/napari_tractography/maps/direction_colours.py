"""The direction-encoded colour map of an FOD: where fibres run, as red, green and blue.

Amplitudes over the sphere, each in the colour of its direction, as MRtrix3's fod2dec sums them up
(Dhollander et al., Panchromatic sharpening of FOD-based DEC maps, ISMRM 2015, without the
sharpening). Shown by the plugin as a background.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from ..geometry.directions import direction_set
from ..model.fod import Fod

N_DIRECTIONS = 642
BLOCK = 8192  # voxels at a time
BRIGHT_QUANTILE = 0.98  # of what the map is weighted by: the brightest colours


def direction_colours(fod: Fod, weights: NDArray[np.floating] | None = None) -> NDArray[np.float32]:
    """Return the colour of the mean direction of each voxel, (x, y, z, 3) float32 from 0 to 1.

    Left-right is red, anterior-posterior green, inferior-superior blue, in RAS+ axes; zero outside
    the FOD. Voxels are as bright as the (x, y, z) weights, such as an FA map, by default the
    overview of the FOD, relative to a high quantile of those in the FOD's voxels. Raises
    InvalidParameterError when the weights are not on the grid of the FOD.
    """
    if weights is not None and weights.shape != fod.grid.shape:
        raise InvalidParameterError(
            f"weights has shape {weights.shape}, the FOD {fod.grid.shape}; resample the weights to "
            "the FOD's grid."
        )
    units = direction_set(2 * N_DIRECTIONS)
    if not fod.is_asymmetric:  # one of each two opposite directions is enough
        units = units[:N_DIRECTIONS]
    matrix = fod.sample_matrix(units).T.astype(np.float32)
    colours = np.empty((len(fod.values), 3), np.float32)
    for first in range(0, len(colours), BLOCK):
        amplitudes = np.maximum(fod.values[first : first + BLOCK] @ matrix, 0)
        colours[first : first + BLOCK] = amplitudes @ np.abs(units)
    # By the norm: one direction is brighter than a mixture of all, which is grey.
    colours /= np.maximum(np.linalg.norm(colours, axis=1, keepdims=True), 1e-12)
    brightness = fod.overview_values() if weights is None else weights[fod.support]
    shown = np.maximum(np.nan_to_num(np.asarray(brightness, np.float32)), 0)
    bright = float(np.quantile(shown, BRIGHT_QUANTILE)) if len(shown) else 0.0
    colours *= np.minimum(shown / max(bright, 1e-12), 1.0)[:, None]
    return np.asarray(fod.dense(colours), np.float32)
