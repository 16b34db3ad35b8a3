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

from ...directions import angle_cone, direction_set
from ...errors import InvalidParameterError
from ...fod import SOFTPLUS_SHARPNESS, Fod
from ..codes import ALIAS_BITS, LANE_BITS, LANES, SHARE_BITS, SHARES, TRIES

ROWS_A_BLOCK = 2048
MOST_LEVELS = 1 << 32  # of all voxels: numbers of them have 32 bits
LEVELS = 65535.0  # of the largest amplitude in a voxel
UNITS = LANES << SHARE_BITS  # that the mass of a patch is cut into, in its alias table
# Share of the axes in a cone from which on tries pay: at 15 degrees scanning at once is 1.1 times
# (nearest) to 1.5 times (trilinear) as fast, at 25 degrees, a tenth of the axes, it is no faster.
TRIED_FROM = 0.08


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FodTable:
    """The FOD of every non-empty voxel over the half set of directions.

    Small, because reading it is what tracking waits for: amplitudes are whole numbers of levels,
    the largest of a voxel having ``LEVELS``, so that they are off by 1/131070 of it at most. A
    direction is drawn by an alias table over patches of `LANES` neighbouring directions and a
    running sum within one.

    Attributes
    ----------
    voxel_rows : (x, y, z) int32
        Row of each voxel in the arrays below, -1 where it is empty.
    levels : (n_rows, n_patches, LANES) uint16
        Non-negative FOD amplitudes over `scales`; the last patch is filled up with zeros.
    alias : (n_rows, n_patches) uint32
        Patches to be drawn by their mass, see :func:`fill_alias`.
    lane_alias : (n_rows, n_patches, LANES) uint16
        Directions of a patch to be drawn by their level, see :func:`fill_lane_alias`.
    shares : (n_rows, n_patches) uint16
        Mass of each patch over that of the voxel, of both signs, in 65536ths, rounded down.
    tops : (n_rows, n_groups, LANES) uint16
        Largest level of each patch, filled up with zeros.
    scales : (n_rows,) float32
        Amplitude of one level.
    totals : (n_rows,) float32
        Sum of the amplitudes over the full set, twice that over the half.
    directions : (n_directions, 3) float32
        Unit vectors, RAS+.
    to_voxel : (3, 4) float32
        RAS+ mm to voxel coordinates.
    """

    voxel_rows: NDArray[np.int32]
    levels: NDArray[np.uint16]
    alias: NDArray[np.uint32]
    lane_alias: NDArray[np.uint16]
    shares: NDArray[np.uint16]
    tops: NDArray[np.uint16]
    scales: NDArray[np.float32]
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
        return int(self.levels.shape[1])

    def amplitudes(self) -> NDArray[np.float32]:
        """Return the (n_rows, n_half) amplitudes that are tracked in."""
        levels = self.levels.reshape(len(self.levels), -1)[:, : self.n_half]
        return levels * self.scales[:, None]

    @property
    def n_bytes(self) -> int:
        """Memory of the table in bytes."""
        arrays = (
            self.voxel_rows,
            self.levels,
            self.alias,
            self.lane_alias,
            self.shares,
            self.tops,
            self.scales,
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
        lies in the cone, bit LANES + k where its antipode does. The last row has all set.
    cores : (n_directions + 1,) int32
        A patch that lies in the cone as a whole, on either side, -1 where there is none: mostly
        its share is more than enough for the cone to hold what it must.
    two_sided : bool
        Whether some cone holds a direction together with its antipode.
    tries : int
        How often to draw from the whole FOD before the cone is scanned: not at all where cones are
        so narrow that most draws would miss them.
    """

    cone: NDArray[np.uint32]
    cores: NDArray[np.int32]
    two_sided: bool
    tries: int


@njit(nogil=True, error_model="numpy")
def fill_alias(masses, total, alias):  # type: ignore[no-untyped-def]
    """Make an alias table of whole numbers, after Walker, in one sweep.

    Column c has `total` to give: the share in the high bits of entry c is that of c itself, the
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
                alias[light] = share_of(own, total) | heavy
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
                    alias[heavy] = share_of(left, total) | following
                left += masses[following] * n - total
            heavy = following


@njit(nogil=True, error_model="numpy")
def share_of(own, total):  # type: ignore[no-untyped-def]
    """Return a share of a column in the high bits of a 32-bit number, the low ones being zero."""
    most = (1 << (32 - ALIAS_BITS)) - 1
    return min(((own << (32 - ALIAS_BITS)) + total // 2) // total, most) << ALIAS_BITS


@njit(nogil=True, error_model="numpy")
def fill_lane_alias(levels, mass, units, entries, lane_alias):  # type: ignore[no-untyped-def]
    """Make the alias table of the directions of a patch.

    A direction counts a whole number of 65536ths of the patch, rounded in the running sum, so that
    it is off by less than one of them; what is zero stays zero. The share of a column, in 4096ths,
    is in the high bits of its entry.

    Parameters
    ----------
    levels : (LANES,) uint16
    mass : int
        Their sum.
    units : (LANES,) int64
    entries : (LANES,) uint32
        Both scratch.
    lane_alias : (LANES,) uint16
        What is written.
    """
    running, below = 0, 0
    for lane in range(LANES):
        running += int(levels[lane])
        upto = (2 * UNITS * running + mass) // (2 * mass) if mass else 0
        units[lane] = upto - below
        below = upto
    fill_alias(units, UNITS if mass else 0, entries)
    for lane in range(LANES):
        share = entries[lane] >> np.uint32(32 - SHARE_BITS)
        other = entries[lane] & np.uint32(LANES - 1)
        lane_alias[lane] = np.uint16((share << np.uint32(LANE_BITS)) | other)


@njit(nogil=True, cache=True, error_model="numpy")
def build_rows(  # type: ignore[no-untyped-def]
    first, last, values, matrix, sharpness, levels, alias, lane_alias, shares, tops, scales, totals
):
    """Fill rows `first` to `last`; `matrix` is (n_coefficients, n_half); sharpness 0 clips."""
    n_half = matrix.shape[1]
    n_patches = levels.shape[1] // LANES
    target = np.empty(n_half, np.float32)
    masses = np.empty(n_patches, np.int64)
    units, entries = np.empty(LANES, np.int64), np.empty(LANES, np.uint32)
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
        factor = LEVELS / np.float64(largest) if largest > 0 else 0.0
        for j in range(levels.shape[1]):
            levels[row, j] = np.uint16(target[j] * factor + 0.5) if j < n_half else np.uint16(0)
        total = 0
        for patch in range(n_patches):
            mass, top = 0, 0
            for j in range(patch * LANES, (patch + 1) * LANES):
                level = int(levels[row, j])
                mass += level
                top = max(top, level)
            masses[patch] = mass
            tops[row, patch] = np.uint16(top)
            total += mass
            inside = slice(patch * LANES, (patch + 1) * LANES)
            fill_lane_alias(levels[row, inside], mass, units, entries, lane_alias[row, inside])
        fill_alias(masses, total, alias[row])
        for patch in range(n_patches):
            shares[row, patch] = np.uint16(masses[patch] * SHARES // (2 * total) if total else 0)
        scale = np.float32(np.float64(largest) / LEVELS)
        scales[row] = scale
        totals[row] = np.float32(2.0 * np.float64(total) * np.float64(scale))


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
    n_patches = -(-half // LANES)
    if n_rows * n_patches * LANES > MOST_LEVELS:
        raise InvalidParameterError(
            f"n_directions = {n_directions} for {n_rows} voxels makes tables of more than "
            f"{MOST_LEVELS:.1g} amplitudes; lower n_directions or crop the FOD."
        )
    levels = np.empty((n_rows, n_patches * LANES), np.uint16)
    alias = np.empty((n_rows, n_patches), np.uint32)
    lane_alias = np.empty_like(levels)
    shares = np.empty((n_rows, n_patches), np.uint16)
    tops = np.zeros((n_rows, -(-n_patches // LANES) * LANES), np.uint16)
    scales, totals = np.empty(n_rows, np.float32), np.empty(n_rows, np.float32)
    values, sharpness = fod.values, sharpness_of(positivity)

    def build(first: int) -> int:
        last = min(first + ROWS_A_BLOCK, n_rows)
        build_rows(
            first,
            last,
            values,
            matrix,
            sharpness,
            levels,
            alias,
            lane_alias,
            shares,
            tops,
            scales,
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
        levels=levels.reshape(n_rows, n_patches, LANES),
        alias=alias,
        lane_alias=lane_alias.reshape(n_rows, n_patches, LANES),
        shares=shares,
        tops=tops.reshape(n_rows, -1, LANES),
        scales=scales,
        totals=totals,
        directions=direction_set(n_directions),
        to_voxel=to_voxel_matrix(fod),
    )


def build_cone(table: FodTable, cone: NDArray[np.uint8]) -> ConeTable:
    """Pack a cone matrix, see :func:`napari_tractography.directions.angle_cone`."""
    sides = np.full((table.n_directions + 1, table.n_half), 3, np.uint8)
    sides[:-1] = cone
    packed = _packed(sides & 1) | _packed(sides >> 1) << np.uint32(LANES)
    tries = TRIES if np.count_nonzero(cone) >= TRIED_FROM * cone.size else 0
    return ConeTable(
        cone=packed, cores=_cores(cone), two_sided=bool((cone == 3).any()), tries=tries
    )


def _cores(cone: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return a patch within each cone, that of the direction itself where it is one."""
    n_directions, n_half = cone.shape
    first = np.arange(0, n_half, LANES)
    ahead = np.bitwise_and.reduceat(cone, first, axis=1)
    whole = ahead > 0  # all on one side, or all on the other
    own = np.arange(n_directions) % n_half // LANES
    own_is_whole = whole[np.arange(n_directions), own]
    cores = np.where(own_is_whole, own, np.where(whole.any(axis=1), whole.argmax(axis=1), -1))
    return np.append(cores, 0).astype(np.int32)


def _packed(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """Return zeros and ones of (m, n) as the low LANES bits of (m, whole LANES) numbers."""
    whole = np.zeros((len(bits), -(-bits.shape[1] // LANES) * LANES), bool)
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
