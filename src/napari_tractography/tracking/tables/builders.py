"""Tables made on the CPU: alias tables, the table of an FOD, and cones.

They are uploaded to devices as they are, so that every backend reads the same bits. Where the
coefficients lie on a GPU, :mod:`napari_tractography.tracking.cuda.tables` makes the table of the
FOD there.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...compiling import cached
from ...directions import direction_set
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
from ..devices import cpu_count
from .data import ConeTable, FodTable

ROWS_A_BLOCK = 2048  # voxels that a thread tabulates at a time
MAX_AMPLITUDES = 1 << 32  # of all voxels: the kernels count them in 32 bits
UNITS = PATCH_SIZE << THRESHOLD_BITS  # that the mass of a patch is cut into, in its alias table
# Fraction of the axes (directions of either sign) in a cone from which on rejection sampling pays:
# at 15 degrees scanning at once is 1.1 times (nearest) to 1.5 times (trilinear) as fast, at 25
# degrees, a tenth of the axes, it is no faster.
REJECTION_FROM = 0.08


@njit(nogil=True, error_model="numpy")
def fill_alias(masses, total, alias):  # type: ignore[no-untyped-def]
    """Make an alias table from whole numbers, after Walker, in one sweep.

    To draw from it, choose a column uniformly; with the probability in the high bits of its entry,
    the threshold, it is the result, else the column in the low ALIAS_BITS bits is. Each column is
    to be filled with `total`, of `n` times its own mass; light columns, whose own is less, are
    filled up by the next heavy one (the sweep of Huebschle-Schneider and Sanders, "Parallel
    weighted random sampling", 2019).

    Parameters
    ----------
    masses : (n,) int64
        Below 2^20.
    total : int
        Their sum.
    alias : (n,) uint32
        The result, written.
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
        if left > total:  # the heavy column fills up a light one
            own = masses[light] * n
            if own < total:
                alias[light] = threshold_of(own, total) | heavy
            left -= total - own
            light += 1
            while light < n and masses[light] * n > total:
                light += 1
        else:  # the heavy column is light itself by now
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
    """Return `own` over `total` as the high bits of an entry of an alias table, the others zero."""
    most = (1 << (32 - ALIAS_BITS)) - 1
    return min(((own << (32 - ALIAS_BITS)) + total // 2) // total, most) << ALIAS_BITS


@njit(nogil=True, error_model="numpy")
def fill_slot_alias(quantised, mass, units, entries, slot_alias):  # type: ignore[no-untyped-def]
    """Make the alias table of the slots of a patch.

    The probability of a slot is a whole number of 65536ths, rounded in the running sum, so that it
    is off by less than one of them; a slot of amplitude zero is never drawn. The threshold of a
    slot, in 4096ths, is in the high bits of its entry, the slot's alias in the low SLOT_BITS.

    Parameters
    ----------
    quantised : (PATCH_SIZE,) uint16
        Quantised amplitudes.
    mass : int
        Their sum.
    units : (PATCH_SIZE,) int64
    entries : (PATCH_SIZE,) uint32
        Both scratch.
    slot_alias : (PATCH_SIZE,) uint16
        The result, written.
    """
    running, below = 0, 0
    for slot in range(PATCH_SIZE):
        running += int(quantised[slot])
        upto = (2 * UNITS * running + mass) // (2 * mass) if mass else 0
        units[slot] = upto - below
        below = upto
    fill_alias(units, UNITS if mass else 0, entries)
    for slot in range(PATCH_SIZE):
        threshold = entries[slot] >> np.uint32(32 - THRESHOLD_BITS)
        other = entries[slot] & np.uint32(PATCH_SIZE - 1)
        slot_alias[slot] = np.uint16((threshold << np.uint32(SLOT_BITS)) | other)


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
    """Fill rows `first` to `last` of a table.

    Parameters
    ----------
    first, last : int
    values : (n_rows, n_coefficients) float32
        Coefficients of the FOD.
    matrix : (n_coefficients, n_half) float32
        What gives amplitudes over the half set, see :func:`sampling_matrix`.
    sharpness : float
        Of softplus; 0 clips negative amplitudes at zero.
    quantised, alias, slot_alias, mass_fractions, patch_maxima, quanta, totals
        The results, written: as in :class:`.data.FodTable`, but with patches side by side, as
        (n_rows, n_patches * PATCH_SIZE) and (n_rows, n_groups * PATCH_SIZE).
    """
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
                amplitude_in_quanta = int(quantised[row, j])
                mass += amplitude_in_quanta
                maximum = max(maximum, amplitude_in_quanta)
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


def sampling_matrix(fod: Fod, n_directions: int) -> NDArray[np.float32]:
    """Return what gives amplitudes over the half set, (n_coefficients, n_half) float32."""
    half = direction_set(n_directions)[: n_directions // 2]
    return np.ascontiguousarray(fod.sample_matrix(half).T, dtype=np.float32)


def sharpness_of(positivity: str) -> float:
    """Return the sharpness of "softplus", 0 for "clip"."""
    return SOFTPLUS_SHARPNESS if positivity == "softplus" else 0.0


def to_voxel_matrix(fod: Fod) -> NDArray[np.float32]:
    """Return the (3, 4) float32 matrix from RAS+ mm to voxel coordinates."""
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
        Called with (rows done, rows in all) in the thread of the caller; may raise to give up.

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
    """Pack a cone matrix for the kernels.

    Parameters
    ----------
    table : FodTable
        Whose directions they are.
    cone : (n_directions, n_half) uint8
        See :func:`napari_tractography.directions.angle_cone`.
    """
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
    """Return a patch within each cone, that of the current direction itself where it is one."""
    n_directions, n_half = cone.shape
    first = np.arange(0, n_half, PATCH_SIZE)
    common = np.bitwise_and.reduceat(cone, first, axis=1)
    whole = common > 0  # all directions of the patch, or all their antipodes
    own = np.arange(n_directions) % n_half // PATCH_SIZE
    own_is_whole = whole[np.arange(n_directions), own]
    contained_patches = np.where(
        own_is_whole, own, np.where(whole.any(axis=1), whole.argmax(axis=1), -1)
    )
    return np.append(contained_patches, 0).astype(np.int32)


def _packed(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """Return (m, n) zeros and ones as (m, n_patches) numbers, PATCH_SIZE bits each."""
    filled = np.zeros((len(bits), -(-bits.shape[1] // PATCH_SIZE) * PATCH_SIZE), bool)
    filled[:, : bits.shape[1]] = bits
    packed = np.packbits(filled, axis=1, bitorder="little")
    return packed.view("<u2").astype(np.uint32)
