"""Orientations that are worked out by blocks, as kernels that follow them read them.

Apart from :mod:`napari_tractography.tracking.codes`, on which the machine code of all kernels
depends. Made by :mod:`napari_tractography.tracking.plan`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK_MISSING = 255  # beside the stop reasons: the streamline is to be tracked again
SLOT_MISSING = -1  # of a block that is not worked out
ROW_MISSING = -2  # of a voxel in such a block
UNFINISHED = -1  # in place of the number of points of a streamline


class BlockField(NamedTuple):
    """The blocks that are there, and the mask."""

    voxel_rows: np.ndarray  # (x, y, z) int32: for its shape alone, nothing else of it is there
    words: np.ndarray  # (0, 2) uint64: FODs alone have them
    slots: np.ndarray  # (x, y, z) int32: where blocks lie in `vectors`; see fields/block_store.py
    touched: np.ndarray  # (x, y, z) uint8: 1 for blocks that were asked for
    vectors: np.ndarray  # (n_rows, 3) float32: of all voxels of a block, zero where there is none
    to_voxel: np.ndarray  # (3, 4) float32
    mask: np.ndarray  # (x, y, z) uint8, or (0, 0, 0) without a mask
    mask_words: np.ndarray  # (n,) uint64: the same, a bit a voxel
    block_bits: int  # a block has 2^block_bits voxels along each axis
    is_tensor: bool
