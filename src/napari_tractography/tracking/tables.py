"""What a backend reads: the FOD tabulated over directions, ready for drawing in O(1).

Built once on the CPU and uploaded to devices as it is, so that every backend reads the same bits.
All sums run in a fixed order without fused multiply-add, so that machines agree too.
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

from ..directions import angle_cone, direction_set
from ..fod import SOFTPLUS_SHARPNESS, Fod

ROWS_A_BLOCK = 2048


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class FodTable:
    """The FOD of every non-empty voxel over the half set of directions.

    Attributes
    ----------
    voxel_rows : (x, y, z) int32
        Row of each voxel in the arrays below, -1 where it is empty.
    amplitudes : (n_rows, n_half) float32
        Non-negative FOD amplitudes.
    alias : (n_rows, n_half) uint32
        Walker's alias tables (Walker 1977; built by Vose, IEEE Trans. Softw. Eng. 17, 1991):
        the alias in the low `alias_bits`, the threshold in the others.
    totals : (n_rows,) float32
        Sum of the amplitudes over the full set, twice that over the half.
    directions : (n_directions, 3) float32
        Unit vectors, RAS+.
    to_voxel : (3, 4) float32
        RAS+ mm to voxel coordinates.
    alias_bits : int
        Number of bits that hold an alias.
    """

    voxel_rows: NDArray[np.int32]
    amplitudes: NDArray[np.float32]
    alias: NDArray[np.uint32]
    totals: NDArray[np.float32]
    directions: NDArray[np.float32]
    to_voxel: NDArray[np.float32]
    alias_bits: int

    @property
    def n_directions(self) -> int:
        """Size of the full set."""
        return len(self.directions)

    @property
    def n_half(self) -> int:
        """Size of the half set."""
        return len(self.directions) // 2

    @property
    def n_bytes(self) -> int:
        """Memory of the table in bytes."""
        arrays = (self.voxel_rows, self.amplitudes, self.alias, self.totals)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, slots=True, eq=False)
class ConeTable:
    """Which directions may follow which, and what is known of the FOD's mass in each cone.

    `cone_mass` and `best` start as zeros, which the operating system hands out without touching
    memory, and are filled where streamlines pass. Threads may fill the same entry: each writes
    the same value.

    Attributes
    ----------
    cone : (n_directions, n_half) uint8
        See :func:`napari_tractography.directions.angle_cone`.
    two_sided : bool
        Whether some cone holds a direction together with its antipode.
    n_mass : int
        Columns of the tables below: n_half where the cones of antipodes are antipodes, else
        n_directions.
    cone_mass : (n_rows, n_mass) float32
        Sum of the amplitudes in the cone; 0 where unknown, -1 where it is zero.
    best : (n_rows, n_mass) uint16
        One plus the direction of the largest amplitude in the cone; 0 where unknown.
    """

    cone: NDArray[np.uint8]
    two_sided: bool
    n_mass: int
    cone_mass: NDArray[np.float32]
    best: NDArray[np.uint16]


@njit(nogil=True, cache=True, error_model="numpy")
def build_rows(  # type: ignore[no-untyped-def]
    first, last, values, matrix, sharpness, alias_bits, amplitudes, alias, totals
):
    """Fill rows `first` to `last`; `matrix` is (n_coefficients, n_half); sharpness 0 clips."""
    n_half = matrix.shape[1]
    scaled = np.empty(n_half, np.float64)
    small = np.empty(n_half, np.int64)
    large = np.empty(n_half, np.int64)
    levels = np.float64(1 << (32 - alias_bits))
    for row in range(first, last):
        target = amplitudes[row]
        target[:] = np.float32(0)
        for k in range(values.shape[1]):
            coefficient = values[row, k]
            weights = matrix[k]
            for j in range(n_half):
                target[j] += coefficient * weights[j]
        total = 0.0
        for j in range(n_half):
            amplitude = target[j]
            if sharpness > 0:
                x = sharpness * np.float64(amplitude)
                soft = (max(x, 0.0) + np.log1p(np.exp(-abs(x)))) / sharpness
                amplitude = np.float32(soft)
            elif not amplitude > 0:
                amplitude = np.float32(0)
            target[j] = amplitude
            total += np.float64(amplitude)
        totals[row] = np.float32(2.0 * total)
        if not total > 0:
            for j in range(n_half):
                alias[row, j] = np.uint32(j)
            continue
        n_small = 0
        n_large = 0
        for j in range(n_half):
            scaled[j] = target[j] * n_half / total
            if scaled[j] < 1.0:
                small[n_small] = j
                n_small += 1
            else:
                large[n_large] = j
                n_large += 1
        while n_small and n_large:
            n_small -= 1
            j = small[n_small]
            other = large[n_large - 1]
            threshold = np.uint32(min(scaled[j] * levels, levels - 1.0))
            alias[row, j] = (threshold << np.uint32(alias_bits)) | np.uint32(other)
            scaled[other] = (scaled[other] + scaled[j]) - 1.0
            if scaled[other] < 1.0:
                n_large -= 1
                small[n_small] = other
                n_small += 1
        for n in range(n_small):  # left over by rounding: as good as one
            alias[row, small[n]] = np.uint32(small[n])
        for n in range(n_large):
            alias[row, large[n]] = np.uint32(large[n])


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    """
    directions = direction_set(n_directions)
    half = n_directions // 2
    matrix = np.ascontiguousarray(fod.sample_matrix(directions[:half]).T, dtype=np.float32)
    n_rows = fod.n_voxels
    amplitudes = np.empty((n_rows, half), np.float32)
    alias = np.empty((n_rows, half), np.uint32)
    totals = np.empty(n_rows, np.float32)
    alias_bits = max(1, (half - 1).bit_length())
    sharpness = SOFTPLUS_SHARPNESS if positivity == "softplus" else 0.0

    def build(first: int) -> int:
        last = min(first + ROWS_A_BLOCK, n_rows)
        build_rows(
            first, last, fod.values, matrix, sharpness, alias_bits, amplitudes, alias, totals
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
        amplitudes=amplitudes,
        alias=alias,
        totals=totals,
        directions=directions,
        to_voxel=np.ascontiguousarray(fod.grid.inverse[:3], dtype=np.float32),
        alias_bits=alias_bits,
    )


def build_cone(table: FodTable, cone: NDArray[np.uint8]) -> ConeTable:
    """Set up the tables that depend on the cone; they fill up as streamlines pass."""
    half = table.n_half
    flipped = np.array([0, 2, 1, 3], np.uint8)[cone[:half]]
    n_mass = half if np.array_equal(flipped, cone[half:]) else table.n_directions
    shape = (len(table.totals), n_mass)
    return ConeTable(
        cone=cone,
        two_sided=bool((cone == 3).any()),
        n_mass=n_mass,
        cone_mass=np.zeros(shape, np.float32),
        best=np.zeros(shape, np.uint16),
    )


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
) -> FodTable:
    """Return the table of an FOD: the one kept from the last call where it fits, else a new one."""

    def make() -> FodTable:
        return build_table(fod, n_directions=n_directions, positivity=positivity, progress=progress)

    table: FodTable = _tables.get(fod, (n_directions, positivity), make)
    return table


def cone_table(table: FodTable, max_angle_deg: float) -> ConeTable:
    """Return the cone tables of an angle: those kept from the last call where they fit."""

    def make() -> ConeTable:
        return build_cone(table, angle_cone(table.n_directions, max_angle_deg))

    cones: ConeTable = _cones.get(table, max_angle_deg, make)
    return cones
