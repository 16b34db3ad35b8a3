"""What every backend reads: the FOD's coefficients in the form that kernels evaluate.

Made by :mod:`.builders`; read by the plan and through it by the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...fields.input_kind import COEFFICIENTS
from ...runtime.buffers import aligned
from ..codes import NOT_AMONG, UNFILLED_BITS


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FodTable:
    """The FOD of every non-empty voxel, ready for evaluation at any direction.

    Rows of `coefficients`, `masses` and `crossings` are filled when a streamline first comes near,
    or all at once where the FOD lies on a GPU; there the arrays with a row a voxel lie, too.
    """

    kernel: ClassVar[str] = COEFFICIENTS
    shared: ClassVar[tuple[str, ...]] = ("voxel_rows", "words", "values")
    filled: ClassVar[tuple[str, ...]] = ("coefficients", "masses", "crossings")

    # (x, y, z) int32: row of each voxel in the arrays below, -1 where it is empty.
    voxel_rows: NDArray[np.int32]
    # (n, 2) uint64: the same in a twentieth of the memory: of 64 voxels in C order each, which of
    # them have a row, and how many voxels before them do. Empty where the rows lie on a GPU.
    words: NDArray[np.uint64]
    values: NDArray[np.float32]  # (n_rows, n_coefficients) float32: the FOD's own coefficients
    # (n_coefficients, n_padded) float32: `values @ change` are those in the basis of
    # fields.polynomials, RAS+ axes, times `scale`; filled up with zeros.
    change: NDArray[np.float32]
    # (n_rows + 1, n_padded) uint16: the bits of those as half floats, which puts amplitudes off by
    # 1/10000 of the largest up to lmax 8, by 1/500 for lmax 16: it is memory that tracking waits
    # for, and this is half as much. After them a bound: no amplitude of the voxel is larger, in any
    # direction; -1 where the row is not filled yet. The last row, of zeros, stands for empty
    # voxels.
    coefficients: NDArray[np.uint16]
    # (n_rows + 1,) float32: mean over the sphere of the non-negative amplitude.
    masses: NDArray[np.float32]
    # (n_rows + 1,) uint32: whether bundles cross there, see cpu/crossings.py.
    crossings: NDArray[np.uint32]
    to_voxel: NDArray[np.float32]  # (3, 4) float32: RAS+ mm to voxel coordinates
    lmax: int  # largest degree
    is_asymmetric: bool  # whether there are odd degrees, too
    scale: np.float32  # what amplitudes are multiplied by: a power of two

    @property
    def anchor(self) -> NDArray[np.float32]:
        """The array that tells where the table lies, on the host or on a GPU."""
        return self.masses

    @property
    def n_bytes(self) -> int:
        """Memory of the table in bytes, without the FOD's own arrays."""
        filled = sum(getattr(self, name).nbytes for name in self.filled)
        return int(filled + self.words.nbytes)

    def unfilled(self) -> FodTable:
        """Return it with rows of their own that are not filled yet."""
        n_rows, n_coefficients = self.values.shape
        return replace(self, **empty_rows(n_rows, n_coefficients, self.change.shape[1]))


def empty_rows(n_rows: int, n_coefficients: int, n_padded: int) -> dict[str, Any]:
    """Return what is `filled` of a :class:`FodTable`, none of whose rows is."""
    coefficients = aligned((n_rows + 1, n_padded), np.uint16, None)
    coefficients[:, n_coefficients] = UNFILLED_BITS
    masses = np.empty(n_rows + 1, np.float32)
    crossings = np.empty(n_rows + 1, np.uint32)
    coefficients[-1] = masses[-1] = 0
    crossings[-1] = NOT_AMONG
    return {"coefficients": coefficients, "masses": masses, "crossings": crossings}
