"""What the CPU reads of an image: orientations that are worked out by blocks.

Made by :func:`block_table`; read by the plan and through it by the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...fields.block_store import MISSING, BlockStore
from ...fields.input_kind import BLOCKS
from ...model.fod import Fod
from ..codes import OF_VECTORS
from ..cpu.vectors.field import SLOT_MISSING
from .builders import to_voxel_matrix

assert MISSING == SLOT_MISSING


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class BlockTable:
    """The orientations of an image, a vector a voxel, as far as they have been worked out."""

    kernel: ClassVar[str] = BLOCKS
    shared: ClassVar[tuple[str, ...]] = ()
    filled: ClassVar[tuple[str, ...]] = ()
    is_asymmetric: ClassVar[bool] = False

    store: BlockStore
    to_voxel: NDArray[np.float32]  # (3, 4) float32: RAS+ mm to voxel coordinates

    @property
    def values(self) -> NDArray[np.float32]:
        """All that may ever be copied."""
        return self.store.vectors

    @property
    def anchor(self) -> NDArray[np.float32]:
        """The array that tells where the table lies."""
        return self.store.vectors

    @property
    def lmax(self) -> int:
        """In place of a degree: kernels that follow vectors are the same for all."""
        return OF_VECTORS

    @property
    def scale(self) -> np.float32:
        """1: amplitudes are linearities."""
        return np.float32(1)

    @property
    def n_bytes(self) -> int:
        """Memory of the blocks that are there, in bytes."""
        return self.store.n_kept * self.store.rows_a_block * 12

    def unfilled(self) -> BlockTable:
        """Return itself: blocks are worked out for all."""
        return self


def block_table(fod: Fod) -> BlockTable:
    """Make the table of an image; nothing is worked out yet."""
    assert fod.blocks is not None
    return BlockTable(fod.blocks, to_voxel_matrix(fod))
