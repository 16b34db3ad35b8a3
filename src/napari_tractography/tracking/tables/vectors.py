"""What every backend reads of inputs that are followed by the numbers of their voxels, as they are.

Made by :func:`vector_table`; read by the plan and through it by the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...fields.input_kind import EIGENVECTORS, VECTORS
from ...model.fod import Fod
from ..codes import OF_VECTORS
from .builders import to_voxel_matrix


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class VectorTable:
    """The numbers of every voxel that holds some: 12 bytes a vector, 24 a tensor."""

    kernel: ClassVar[str] = VECTORS
    shared: ClassVar[tuple[str, ...]] = ("voxel_rows", "vectors")
    filled: ClassVar[tuple[str, ...]] = ()
    is_asymmetric: ClassVar[bool] = False

    voxel_rows: NDArray[np.int32]  # (x, y, z) int32: row of each voxel, -1 where it is empty
    # (n_rows, n) float32: RAS+: vectors one after the other, or xx, yy, zz, xy, xz and yz of a
    # tensor.
    vectors: NDArray[np.float32]
    to_voxel: NDArray[np.float32]  # (3, 4) float32: RAS+ mm to voxel coordinates
    is_tensor: bool  # whether main eigenvectors are followed

    @property
    def values(self) -> NDArray[np.float32]:
        """What is copied to a GPU."""
        return self.vectors

    @property
    def anchor(self) -> NDArray[np.float32]:
        """The array that tells where the table lies."""
        return self.vectors

    @property
    def lmax(self) -> int:
        """In place of a degree: kernels that follow vectors are the same for all."""
        return OF_VECTORS

    @property
    def scale(self) -> np.float32:
        """1: amplitudes are those of the input."""
        return np.float32(1)

    @property
    def n_bytes(self) -> int:
        """Memory of the table in bytes."""
        return self.vectors.nbytes

    def unfilled(self) -> VectorTable:
        """Return itself: kernels fill nothing of it."""
        return self


def vector_table(fod: Fod) -> VectorTable:
    """Make the table of an input with numbers of its own; nothing is copied."""
    assert fod.vectors is not None
    return VectorTable(
        voxel_rows=fod.voxel_rows,
        vectors=fod.vectors.numbers,
        to_voxel=to_voxel_matrix(fod),
        is_tensor=fod.input_kind.kernel == EIGENVECTORS,
    )
