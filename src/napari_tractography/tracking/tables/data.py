"""What every backend reads: the FOD tabulated over directions, and the cones between them.

Made by :mod:`.builders`, or on a GPU by :mod:`napari_tractography.tracking.cuda.tables`; read by
the plan and through it by the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FodTable:
    """The FOD of every non-empty voxel over the half set of directions, ready for drawing in O(1).

    Small, because reading it is what tracking waits for: amplitudes are quantised to whole numbers
    of a quantum of their voxel, of which the largest has ``codes.FULL_SCALE``, so that they are
    off by 1/131070 of it at most. A direction is drawn by an alias table over patches of
    `PATCH_SIZE` neighbouring directions, and by another one over the slots of the patch.

    Where the FOD lies on a GPU the arrays with a row a voxel do, too.

    Attributes
    ----------
    voxel_rows : (x, y, z) int32
        Row of each voxel in the arrays below, -1 where it is empty.
    quantised : (n_rows, n_patches, PATCH_SIZE) uint16
        Non-negative FOD amplitudes over `quanta`; the last patch is filled up with zeros.
    alias : (n_rows, n_patches) uint32
        Alias table that draws patches by their mass, see :func:`.builders.fill_alias`.
    slot_alias : (n_rows, n_patches, PATCH_SIZE) uint16
        Alias tables that draw the slots of a patch by their quantised amplitudes, see
        :func:`.builders.fill_slot_alias`.
    mass_fractions : (n_rows, n_patches) uint16
        Mass of each patch over that of the voxel, of both signs, in 65536ths, rounded down.
    patch_maxima : (n_rows, n_groups, PATCH_SIZE) uint16
        Largest quantised amplitude of each patch, filled up with zeros.
    quanta : (n_rows,) float32
        Amplitude that a quantised amplitude of 1 stands for.
    totals : (n_rows,) float32
        Sum of the amplitudes over the full set, twice that over the half.
    directions : (n_directions, 3) float32
        Unit vectors, RAS+.
    to_voxel : (3, 4) float32
        RAS+ mm to voxel coordinates.
    """

    voxel_rows: NDArray[np.int32]
    quantised: NDArray[np.uint16]
    alias: NDArray[np.uint32]
    slot_alias: NDArray[np.uint16]
    mass_fractions: NDArray[np.uint16]
    patch_maxima: NDArray[np.uint16]
    quanta: NDArray[np.float32]
    totals: NDArray[np.float32]
    directions: NDArray[np.float32]
    to_voxel: NDArray[np.float32]

    @property
    def n_directions(self) -> int:
        """Size of the full set."""
        return len(self.directions)

    @property
    def n_half(self) -> int:
        """Size of the half set."""
        return len(self.directions) // 2

    @property
    def n_patches(self) -> int:
        """Number of patches of the half set."""
        return int(self.quantised.shape[1])

    def amplitudes(self) -> NDArray[np.float32]:
        """Return the (n_rows, n_half) float32 amplitudes that tracking reads."""
        quantised = self.quantised.reshape(len(self.quantised), -1)[:, : self.n_half]
        return quantised * self.quanta[:, None]

    @property
    def n_bytes(self) -> int:
        """Memory of the table in bytes."""
        arrays = (
            self.voxel_rows,
            self.quantised,
            self.alias,
            self.slot_alias,
            self.mass_fractions,
            self.patch_maxima,
            self.quanta,
            self.totals,
        )
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, slots=True, eq=False)
class ConeTable:
    """Which directions may follow which.

    Attributes
    ----------
    cone : (n_directions + 1, n_patches) uint32
        For each current direction, two bits for each slot of a patch: bit k where the direction in
        slot k lies in the cone, bit PATCH_SIZE + k where its antipode does. The last row has all
        set.
    contained_patches : (n_directions + 1,) int32
        A patch that lies in the cone as a whole, on either side, -1 where there is none: mostly
        its mass alone is the fraction of the FOD that the cone must contain.
    two_sided : bool
        Whether some cone contains a direction together with its antipode.
    max_proposals : int
        How many directions are drawn from the whole FOD, and rejected outside the cone, before the
        cone is scanned: 0 where cones are so narrow that most would be rejected.
    """

    cone: NDArray[np.uint32]
    contained_patches: NDArray[np.int32]
    two_sided: bool
    max_proposals: int
