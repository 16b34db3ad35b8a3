"""Track density: how many streamlines pass each voxel, on any grid.

Densities of chunks add up, so that a large run needs no more memory than its map. Called by the
command, the plugin and the cluster's workers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..grid import Grid
from ..tractogram import Tractogram
from .traversal import count_passes

if TYPE_CHECKING:
    from ..fod import Fod

logger = logging.getLogger(__name__)


def density(
    tractogram: Tractogram, grid: Grid | Fod, *, ends_only: bool = False
) -> NDArray[np.int32]:
    """Count the streamlines that pass each voxel.

    A streamline counts once in every voxel that it enters, however long it stays and however
    often it comes back. Segments are followed from voxel to voxel exactly (Amanatides & Woo,
    Eurographics 1987), so the map does not depend on how densely points were recorded; only a
    line that runs exactly through an edge or a corner enters one of the voxels that meet there.
    MRtrix3's ``tckmap -template`` does the same by sampling, and misses corners that are cut.

    Parameters
    ----------
    tractogram : Tractogram
        RAS+ mm.
    grid : Grid or Fod
        The grid of the map; streamlines outside it do not count.
    ends_only : bool
        Count the voxels of the first and the last point only. Needed for tractograms of
        endpoints, between which there is no path.

    Returns
    -------
    (x, y, z) int32
    """
    target = grid if isinstance(grid, Grid) else grid.grid
    counts = np.zeros(target.shape, np.int32)
    last = np.full(target.shape, -1, np.int64)
    count_passes(tractogram.points, tractogram.offsets, target.inverse[:3], ends_only, counts, last)
    if len(tractogram) and not counts.any():
        low, high = (corner.round(1).tolist() for corner in target.bounds_mm())
        logger.warning(
            "None of the %d streamlines passes the image, which spans %s to %s mm; "
            "check that both are in the same space.",
            len(tractogram), low, high,
        )  # fmt: skip
    return counts
