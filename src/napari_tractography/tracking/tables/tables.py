"""What a backend reads: the FOD tabulated over directions, ready for drawing in O(1).

Built once on the CPU and uploaded to devices as it is, so that every backend reads the same bits.
Where the coefficients lie on a GPU, it is built there by
:mod:`napari_tractography.tracking.cuda.tables`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...compiling import cached
from ...directions import angle_cone, direction_set
from ...errors import InvalidParameterError
from ...fod import Fod
from ...parameters import SOFTPLUS_SHARPNESS
from ..codes import (
    ALIAS_BITS,
    FULL_SCALE,
    MASS_UNITS,
    MAX_PROPOSALS,
    PATCH_SIZE,
    SLOT_BITS,
    THRESHOLD_BITS,
)

ROWS_A_BLOCK = 2048
MAX_AMPLITUDES = 1 << 32  # of all voxels: numbers of them have 32 bits
UNITS = PATCH_SIZE << THRESHOLD_BITS  # that the mass of a patch is cut into, in its alias table
# Share of the axes in a cone from which on max_proposals pay: at 15 degrees scanning at once is 1.1 times
# (nearest) to 1.5 times (trilinear) as fast, at 25 degrees, a tenth of the axes, it is no faster.
REJECTION_FROM = 0.08


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FodTable:
    """The FOD of every non-empty voxel over the half set of directions.

    Small, because reading it is what tracking waits for: amplitudes are whole numbers of quantised,
    the largest of a voxel having ``FULL_SCALE``, so that they are off by 1/131070 of it at most. A
    direction is drawn by an alias table over patches of `PATCH_SIZE` neighbouring directions and a
    running sum within one.

    Attributes
    ----------
    voxel_rows : (x, y, z) int32
        Row of each voxel in the arrays below, -1 where it is empty.
    quantised : (n_rows, n_patches, PATCH_SIZE) uint16
        Non-negative FOD amplitudes over `quanta`; the last patch is filled up with zeros.
    alias : (n_rows, n_patches) uint32
        Patches to be drawn by their mass, see :func:`fill_alias`.
    slot_alias : (n_rows, n_patches, PATCH_SIZE) uint16
        Directions of a patch to be drawn by their quantised_value, see :func:`fill_slot_alias`.
    mass_fractions : (n_rows, n_patches) uint16
        Mass of each patch over that of the voxel, of both signs, in 65536ths, rounded down.
    patch_maxima : (n_rows, n_groups, PATCH_SIZE) uint16
        Largest quantised_value of each patch, filled up with zeros.
    quanta : (n_rows,) float32
        Amplitude of one quantised_value.
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
        """Return the (n_rows, n_half) amplitudes that are tracked in."""
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
        For each current direction, two bits for each direction of a patch: bit k where direction k
        lies in the cone, bit PATCH_SIZE + k where its antipode does. The last row has all set.
    contained_patches : (n_directions + 1,) int32
        A patch that lies in the cone as a whole, on either side, -1 where there is none: mostly
        its mass_fraction is more than enough for the cone to hold what it must.
    two_sided : bool
        Whether some cone holds a direction together with its antipode.
    max_proposals : int
        How often to draw from the whole FOD before the cone is scanned: not at all where cones are
        so narrow that most draws would miss them.
    """

    cone: NDArray[np.uint32]
    contained_patches: NDArray[np.int32]
    two_sided: bool
    max_proposals: int


@njit(nogil=True, error_model="numpy")
def fill_alias(masses, total, alias):  # type: ignore[no-untyped-def]
    """Make an alias table of whole numbers, after Walker, in one sweep.

    Column c has `total` to give: the mass_fraction in the high bits of entry c is that of c itself, the
    rest belongs to the column in its low ALIAS_BITS bits. Columns are worth `n` times their mass;
    those that have less than a column's worth are filled up by the next that has more (the sweep of
    Huebschle-Schneider and Sanders, "Parallel weighted random sampling", 2019).

    Parameters
    ----------
    masses : (n,) int64
        Below 2^20.
    total : int
        Their sum.
    alias : (n,) uint32
        What is written.
    """
    n = len(masses)
    for column in range(n):
        alias[column] = column
    if total == 0:
        return
    light, heavy = 0, 0
    while light < n and masses[light] * n > total:
        light += 1
    while heavy < n and masses[heavy] * n <= total:
        heavy += 1
    left = masses[heavy] * n if heavy < n else 0
    while heavy < n:
        if left > total:  # fills up a light one
            own = masses[light] * n
            if own < total:
                alias[light] = threshold_of(own, total) | heavy
            left -= total - own
            light += 1
            while light < n and masses[light] * n > total:
                light += 1
        else:  # is light itself by now
            following = heavy + 1
            while following < n and masses[following] * n <= total:
                following += 1
            if following < n:
                if left < total:
                    alias[heavy] = threshold_of(left, total) | following
                left += masses[following] * n - total
            heavy = following


@njit(nogil=True, error_model="numpy")
def threshold_of(own, total):  # type: ignore[no-untyped-def]
    """Return a mass_fraction of a column in the high bits of a 32-bit number, the low ones being zero."""
    most = (1 << (32 - ALIAS_BITS)) - 1
    return min(((own << (32 - ALIAS_BITS)) + total // 2) // total, most) << ALIAS_BITS


@njit(nogil=True, error_model="numpy")
def fill_slot_alias(quantised, mass, units, entries, slot_alias):  # type: ignore[no-untyped-def]
    """Make the alias table of the directions of a patch.

    A direction counts a whole number of 65536ths of the patch, rounded in the running sum, so that
    it is off by less than one of them; what is zero stays zero. The mass_fraction of a column, in 4096ths,
    is in the high bits of its entry.

    Parameters
    ----------
    quantised : (PATCH_SIZE,) uint16
    mass : int
        Their sum.
    units : (PATCH_SIZE,) int64
    entries : (PATCH_SIZE,) uint32
        Both scratch.
    slot_alias : (PATCH_SIZE,) uint16
        What is written.
    """
    running, below = 0, 0
    for lane in range(PATCH_SIZE):
        running += int(quantised[lane])
        upto = (2 * UNITS * running + mass) // (2 * mass) if mass else 0
        units[lane] = upto - below
        below = upto
    fill_alias(units, UNITS if mass else 0, entries)
    for lane in range(PATCH_SIZE):
        mass_fraction = entries[lane] >> np.uint32(32 - THRESHOLD_BITS)
        other = entries[lane] & np.uint32(PATCH_SIZE - 1)
        slot_alias[lane] = np.uint16((mass_fraction << np.uint32(SLOT_BITS)) | other)


@cached(nogil=True, error_model="numpy")
def build_rows(  # type: ignore[no-untyped-def]
    first,
    last,
    values,
    matrix,
    sharpness,
    quantised,
    alias,
    slot_alias,
    mass_fractions,
    patch_maxima,
    quanta,
    totals,
):
    """Fill rows `first` to `last`; `matrix` is (n_coefficients, n_half); sharpness 0 clips."""
    n_half = matrix.shape[1]
    n_patches = quantised.shape[1] // PATCH_SIZE
    target = np.empty(n_half, np.float32)
    masses = np.empty(n_patches, np.int64)
    units, entries = np.empty(PATCH_SIZE, np.int64), np.empty(PATCH_SIZE, np.uint32)
    for row in range(first, last):
        target[:] = np.float32(0)
        for k in range(values.shape[1]):
            coefficient = values[row, k]
            weights = matrix[k]
            for j in range(n_half):
                target[j] += coefficient * weights[j]
        largest = np.float32(0)
        for j in range(n_half):
            amplitude = target[j]
            if sharpness > 0:
                x = sharpness * np.float64(amplitude)
                soft = (max(x, 0.0) + np.log1p(np.exp(-abs(x)))) / sharpness
                amplitude = np.float32(soft)
            elif not amplitude > 0:
                amplitude = np.float32(0)
            target[j] = amplitude
            largest = max(largest, amplitude)
        factor = FULL_SCALE / np.float64(largest) if largest > 0 else 0.0
        for j in range(quantised.shape[1]):
            quantised[row, j] = np.uint16(target[j] * factor + 0.5) if j < n_half else np.uint16(0)
        total = 0
        for patch in range(n_patches):
            mass, maximum = 0, 0
            for j in range(patch * PATCH_SIZE, (patch + 1) * PATCH_SIZE):
                quantised_value = int(quantised[row, j])
                mass += quantised_value
                maximum = max(maximum, quantised_value)
            masses[patch] = mass
            patch_maxima[row, patch] = np.uint16(maximum)
            total += mass
            inside = slice(patch * PATCH_SIZE, (patch + 1) * PATCH_SIZE)
            fill_slot_alias(quantised[row, inside], mass, units, entries, slot_alias[row, inside])
        fill_alias(masses, total, alias[row])
        for patch in range(n_patches):
            mass_fractions[row, patch] = np.uint16(
                masses[patch] * MASS_UNITS // (2 * total) if total else 0
            )
        quantum = np.float32(np.float64(largest) / FULL_SCALE)
        quanta[row] = quantum
        totals[row] = np.float32(2.0 * np.float64(total) * np.float64(quantum))


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def sampling_matrix(fod: Fod, n_directions: int) -> NDArray[np.float32]:
    """Return the (n_coefficients, n_half) matrix that gives amplitudes over the half set."""
    half = direction_set(n_directions)[: n_directions // 2]
    return np.ascontiguousarray(fod.sample_matrix(half).T, dtype=np.float32)


def sharpness_of(positivity: str) -> float:
    """Return the sharpness of "softplus", 0 for "clip"."""
    return SOFTPLUS_SHARPNESS if positivity == "softplus" else 0.0


def to_voxel_matrix(fod: Fod) -> NDArray[np.float32]:
    """Return the (3, 4) matrix from RAS+ mm to voxels."""
    return np.ascontiguousarray(fod.grid.inverse[:3], dtype=np.float32)


def build_table(
    fod: Fod,
    *,
    n_directions: int = 724,
    positivity: str = "clip",
    progress: Callable[[int, int], None] | None = None,
) -> FodTable:
    """Tabulate an FOD.

    Parameters
    ----------
    fod : Fod
    n_directions : int
        Size of the full set, even.
    positivity : str
        "clip" or "softplus".
    progress : callable, optional
        Called with (rows done, rows in all) from this thread; it may raise to give up.

    Raises
    ------
    InvalidParameterError
        When there are too many voxels for so many directions.
    """
    half = n_directions // 2
    matrix = sampling_matrix(fod, n_directions)
    n_rows = fod.n_voxels
    n_patches = -(-half // PATCH_SIZE)
    if n_rows * n_patches * PATCH_SIZE > MAX_AMPLITUDES:
        raise InvalidParameterError(
            f"n_directions = {n_directions} for {n_rows} voxels makes tables of more than "
            f"{MAX_AMPLITUDES:.1g} amplitudes; lower n_directions or crop the FOD."
        )
    quantised = np.empty((n_rows, n_patches * PATCH_SIZE), np.uint16)
    alias = np.empty((n_rows, n_patches), np.uint32)
    slot_alias = np.empty_like(quantised)
    mass_fractions = np.empty((n_rows, n_patches), np.uint16)
    patch_maxima = np.zeros((n_rows, -(-n_patches // PATCH_SIZE) * PATCH_SIZE), np.uint16)
    quanta, totals = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    values, sharpness = fod.values, sharpness_of(positivity)

    def build(first: int) -> int:
        last = min(first + ROWS_A_BLOCK, n_rows)
        build_rows(
            first,
            last,
            values,
            matrix,
            sharpness,
            quantised,
            alias,
            slot_alias,
            mass_fractions,
            patch_maxima,
            quanta,
            totals,
        )
        return last - first

    done = 0
    pool = ThreadPoolExecutor(cpu_count(), thread_name_prefix="tractography-table")
    try:
        for n in pool.map(build, range(0, n_rows, ROWS_A_BLOCK)):
            done += n
            if progress is not None:
                progress(done, n_rows)
    finally:
        pool.shutdown(cancel_futures=True)
    return FodTable(
        voxel_rows=fod.voxel_rows,
        quantised=quantised.reshape(n_rows, n_patches, PATCH_SIZE),
        alias=alias,
        slot_alias=slot_alias.reshape(n_rows, n_patches, PATCH_SIZE),
        mass_fractions=mass_fractions,
        patch_maxima=patch_maxima.reshape(n_rows, -1, PATCH_SIZE),
        quanta=quanta,
        totals=totals,
        directions=direction_set(n_directions),
        to_voxel=to_voxel_matrix(fod),
    )


def build_cone(table: FodTable, cone: NDArray[np.uint8]) -> ConeTable:
    """Pack a cone matrix, see :func:`napari_tractography.directions.angle_cone`."""
    sides = np.full((table.n_directions + 1, table.n_half), 3, np.uint8)
    sides[:-1] = cone
    packed = _packed(sides & 1) | _packed(sides >> 1) << np.uint32(PATCH_SIZE)
    max_proposals = MAX_PROPOSALS if np.count_nonzero(cone) >= REJECTION_FROM * cone.size else 0
    return ConeTable(
        cone=packed,
        contained_patches=_contained_patches(cone),
        two_sided=bool((cone == 3).any()),
        max_proposals=max_proposals,
    )


def _contained_patches(cone: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return a patch within each cone, that of the direction itself where it is one."""
    n_directions, n_half = cone.shape
    first = np.arange(0, n_half, PATCH_SIZE)
    ahead = np.bitwise_and.reduceat(cone, first, axis=1)
    whole = ahead > 0  # all on one side, or all on the other
    own = np.arange(n_directions) % n_half // PATCH_SIZE
    own_is_whole = whole[np.arange(n_directions), own]
    contained_patches = np.where(
        own_is_whole, own, np.where(whole.any(axis=1), whole.argmax(axis=1), -1)
    )
    return np.append(contained_patches, 0).astype(np.int32)


def _packed(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """Return zeros and ones of (m, n) as the low PATCH_SIZE bits of (m, whole PATCH_SIZE) numbers."""
    whole = np.zeros((len(bits), -(-bits.shape[1] // PATCH_SIZE) * PATCH_SIZE), bool)
    whole[:, : bits.shape[1]] = bits
    eights = np.packbits(whole, axis=1, bitorder="little")
    return eights.view("<u2").astype(np.uint32)


class _Newest:
    """Keeps the newest result for each living owner, so that a moved slider starts at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

    def get(self, owner: Any, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            kept = self._kept.get(owner)
            if kept is None or kept[0] != key:
                self._kept.pop(owner, None)  # frees the old one before the new one is made
                del kept
                kept = (key, make())
                self._kept[owner] = kept
            return kept[1]


_tables = _Newest()
_cones = _Newest()


def fod_table(
    fod: Fod,
    n_directions: int,
    positivity: str,
    progress: Callable[[int, int], None] | None = None,
    build: Callable[..., FodTable] = build_table,
) -> FodTable:
    """Return the table of an FOD: the one kept from the last call where it fits, else a new one."""

    def make() -> FodTable:
        return build(fod, n_directions=n_directions, positivity=positivity, progress=progress)

    table: FodTable = _tables.get(fod, (n_directions, positivity, build), make)
    return table


def cone_table(table: FodTable, max_angle_deg: float) -> ConeTable:
    """Return the cone tables of an angle: those kept from the last call where they fit."""

    def make() -> ConeTable:
        return build_cone(table, angle_cone(table.n_directions, max_angle_deg))

    cones: ConeTable = _cones.get(table, max_angle_deg, make)
    return cones
