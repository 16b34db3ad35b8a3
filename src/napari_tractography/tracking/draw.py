"""Drawing directions: random numbers, where a point lies, and the exact draw in O(1).

The interpolated FOD at a point is a mixture of the FODs of the voxels around it, voxel k having
the weight w_k T_k (trilinear weight times total mass). So a direction is drawn by picking a voxel
with that weight and then a direction from the voxel's alias table, and it is accepted when it lies
in the cone and its interpolated amplitude reaches the floor: accepted draws have exactly the
distribution of the FOD restricted to those directions. After `DRAW_BLOCKS` random blocks without
success the cone is scanned, which draws from the same distribution.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from .codes import (
    DRAW_BLOCKS,
    LANES,
    LEFT_IMAGE,
    LEFT_MASK,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    NEAREST,
    PURPOSE_START,
    START_SAMPLED,
    compiled,
    inlined,
)
from .philox import MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1

MUL_0 = np.uint64(MULTIPLIER_0)
MUL_1 = np.uint64(MULTIPLIER_1)
BUMP_0 = np.uint64(WEYL_0)
BUMP_1 = np.uint64(WEYL_1)
LOW_32 = np.uint64(0xFFFFFFFF)
BITS_32 = np.uint64(32)
BITS_8 = np.uint64(8)
ONE = np.uint64(1)
ZERO = np.float32(0)
HALF = np.float32(0.5)
UNIT_24 = np.float32(2.0**-24)


@inlined
def philox_block(c0, c1, c2, c3, k0, k1):
    """Return four 32-bit numbers, as uint64; see philox.py for the specification."""
    for _ in range(ROUNDS):
        p0 = MUL_0 * c0
        p1 = MUL_1 * c2
        c0 = (p1 >> BITS_32) ^ c1 ^ k0
        c2 = (p0 >> BITS_32) ^ c3 ^ k1
        c1 = p1 & LOW_32
        c3 = p0 & LOW_32
        k0 = (k0 + BUMP_0) & LOW_32
        k1 = (k1 + BUMP_1) & LOW_32
    return c0, c1, c2, c3


@inlined
def draw_alias(field, row, word):
    """Draw a direction of the half set from the FOD of one voxel with one random word."""
    product = word * np.uint64(field.alias.shape[1])
    cell = np.int64(product >> BITS_32)
    entry = np.uint64(field.alias[row, cell])
    if ((product & LOW_32) >> field.alias_bits) < (entry >> field.alias_bits):
        return cell
    return np.int64(entry & ((ONE << field.alias_bits) - ONE))


@inlined
def to_voxel(matrix, x, y, z):
    """Map RAS+ mm to the voxel coordinates of a (3, 4) float32 matrix."""
    vx = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]
    vy = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]
    vz = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3]
    return vx, vy, vz


@inlined
def nearest_voxel(v):
    """Return the voxel that a voxel coordinate belongs to."""
    return np.int64(np.floor(v + HALF))


@inlined
def place(field, vx, vy, vz):
    """Tell whether a voxel position may be on a streamline: 0, LEFT_IMAGE or LEFT_MASK."""
    nx, ny, nz = field.voxel_rows.shape
    ix, iy, iz = nearest_voxel(vx), nearest_voxel(vy), nearest_voxel(vz)
    if ix < 0 or iy < 0 or iz < 0 or ix >= nx or iy >= ny or iz >= nz:
        return LEFT_IMAGE
    if field.mask.size and not field.mask[ix, iy, iz]:
        return LEFT_MASK
    return 0


@inlined
def locate(field, interpolation, scratch, vx, vy, vz):
    """List the voxels whose FODs mix at a position, with weights; return how many."""
    if interpolation == NEAREST:
        row = np.int64(field.voxel_rows[nearest_voxel(vx), nearest_voxel(vy), nearest_voxel(vz)])
        if row < 0 or not field.totals[row] > ZERO:
            return 0
        scratch.rows[0] = row
        scratch.weights[0] = np.float32(1)
        scratch.cumulative[0] = field.totals[row]
        scratch.total[0] = field.totals[row]
        return 1
    fx, fy, fz = np.floor(vx), np.floor(vy), np.floor(vz)
    ix, iy, iz = np.int64(fx), np.int64(fy), np.int64(fz)
    cell = scratch.cell
    if ix != cell[0] or iy != cell[1] or iz != cell[2]:  # small steps stay in a cell for long
        cell[0], cell[1], cell[2] = ix, iy, iz
        nx, ny, nz = field.voxel_rows.shape
        for k in range(8):
            cx, cy, cz = ix + (k >> 2), iy + ((k >> 1) & 1), iz + (k & 1)
            row = np.int64(-1)
            if 0 <= cx < nx and 0 <= cy < ny and 0 <= cz < nz:
                row = np.int64(field.voxel_rows[cx, cy, cz])
            scratch.corner_rows[k] = row
            scratch.corner_totals[k] = field.totals[row] if row >= 0 else ZERO
    one = np.float32(1)
    wx, wy, wz = vx - fx, vy - fy, vz - fz
    n = 0
    total = ZERO
    for k in range(8):
        weight = wx if k >> 2 else one - wx
        weight = weight * (wy if (k >> 1) & 1 else one - wy)
        weight = weight * (wz if k & 1 else one - wz)
        mass = weight * scratch.corner_totals[k]
        if mass > ZERO:
            total = total + mass
            scratch.rows[n] = scratch.corner_rows[k]
            scratch.weights[n] = weight
            scratch.cumulative[n] = total
            n += 1
    scratch.total[0] = total
    return n


@compiled
def cone_mass_of(field, row, i):
    """Return the mass of the cone around direction i in one voxel, computing it once."""
    n_half = field.amplitudes.shape[1]
    column = i if field.n_mass > n_half or i < n_half else i - n_half
    known = field.cone_mass[row, column]
    if known == ZERO:
        for j in range(n_half):
            side = field.cone[i, j]
            if side:
                known += field.amplitudes[row, j]
                if side == 3:
                    known += field.amplitudes[row, j]
        if known == ZERO:
            known = np.float32(-1)
        field.cone_mass[row, column] = known
    return max(known, ZERO)


@compiled
def mixed_cone_mass(field, scratch, n, i):
    """Return the mass of the cone around direction i at a position."""
    mass = ZERO
    for k in range(n):
        mass += scratch.weights[k] * cone_mass_of(field, scratch.rows[k], i)
    return mass


@inlined
def mix(field, scratch, n):
    """Interpolate the amplitudes of all directions into scratch.mixed."""
    # All eight in one pass over the row: vectors stay in registers. Absent corners get the weight
    # zero, which changes no bit.
    for k in range(n, 8):
        scratch.rows[k] = scratch.rows[0]
        scratch.weights[k] = ZERO
    w0, w1, w2, w3 = scratch.weights[0], scratch.weights[1], scratch.weights[2], scratch.weights[3]
    w4, w5, w6, w7 = scratch.weights[4], scratch.weights[5], scratch.weights[6], scratch.weights[7]
    a0, a1 = field.amplitudes[scratch.rows[0]], field.amplitudes[scratch.rows[1]]
    a2, a3 = field.amplitudes[scratch.rows[2]], field.amplitudes[scratch.rows[3]]
    a4, a5 = field.amplitudes[scratch.rows[4]], field.amplitudes[scratch.rows[5]]
    a6, a7 = field.amplitudes[scratch.rows[6]], field.amplitudes[scratch.rows[7]]
    mixed = scratch.mixed
    for j in range(mixed.shape[0]):
        amplitude = w0 * a0[j] + w1 * a1[j]
        amplitude = amplitude + w2 * a2[j]
        amplitude = amplitude + w3 * a3[j]
        amplitude = amplitude + w4 * a4[j]
        amplitude = amplitude + w5 * a5[j]
        amplitude = amplitude + w6 * a6[j]
        mixed[j] = amplitude + w7 * a7[j]


@compiled
def scan_draw(scratch, cone_row, min_amplitude, word_0, word_1):
    """Draw from the interpolated FOD within a cone by its cumulative sum; -1 where it is empty."""
    mixed = scratch.mixed
    n_half = mixed.shape[0]
    mass = ZERO
    for j in range(n_half):
        if cone_row[j] and mixed[j] >= min_amplitude:
            mass += mixed[j]
            if cone_row[j] == 3:
                mass += mixed[j]
    if not mass > ZERO:
        return -1
    target = np.float32(word_0 >> BITS_8) * UNIT_24 * mass
    mass = ZERO
    last = -1
    for j in range(n_half):
        if cone_row[j] and mixed[j] >= min_amplitude and mixed[j] > ZERO:
            last = j
            mass += mixed[j]
            if cone_row[j] == 3:
                mass += mixed[j]
            if mass > target:
                break
    if cone_row[last] == 2 or (cone_row[last] == 3 and word_1 & ONE):
        return last + n_half
    return last


@inlined
def draw_direction(
    field, settings, scratch, n, i, cone_row, two_sided, limit, stream, step, purpose
):
    """Draw the next direction; minus a stop reason where there is none.

    `i` is the current direction, `limit` the cone mass at or below which to stop.
    """
    n_half = field.alias.shape[1]
    floor = settings.min_amplitude
    need = max(floor, limit)
    total = scratch.total[0]
    for block in range(DRAW_BLOCKS):
        r0, r1, r2, r3 = philox_block(
            np.uint64(stream),
            np.uint64(step),
            np.uint64(block),
            np.uint64(purpose),
            settings.key_0,
            settings.key_1,
        )
        for attempt in range(2):
            where, which = (r0, r1) if attempt == 0 else (r2, r3)
            k = 0
            if n > 1:
                target = np.float32(where >> BITS_8) * UNIT_24 * total
                while k < n - 1 and scratch.cumulative[k] <= target:
                    k += 1
            j = draw_alias(field, scratch.rows[k], which)
            side = cone_row[j]
            if side == 0:
                continue
            flip = side == 2
            if two_sided:
                # Draw from the full sphere: a random sign first, then the cone.
                flip = (where & ONE) == ONE
                if not side & (2 if flip else 1):
                    continue
            amplitude = ZERO
            for q in range(n):
                amplitude += scratch.weights[q] * field.amplitudes[scratch.rows[q], j]
                if amplitude > need:
                    break
            if amplitude < floor:
                continue
            # The amplitude is part of the cone's mass: only a small one needs the whole mass.
            if amplitude <= limit and mixed_cone_mass(field, scratch, n, i) <= limit:
                return -LOW_PROBABILITY
            return j + n_half if flip else j
    mix(field, scratch, n)
    r0, r1, r2, r3 = philox_block(
        np.uint64(stream),
        np.uint64(step),
        np.uint64(DRAW_BLOCKS),
        np.uint64(purpose),
        settings.key_0,
        settings.key_1,
    )
    j = scan_draw(scratch, cone_row, floor, r0, r1)
    if j < 0:
        return -LOW_AMPLITUDE
    if limit >= ZERO and mixed_cone_mass(field, scratch, n, i) <= limit:
        return -LOW_PROBABILITY
    return j


@compiled
def largest_mixed(scratch, cone_row):
    """Return the half-set direction of the largest interpolated amplitude in a cone, or -1.

    Of equal amplitudes the first counts.
    """
    mixed, lane_value, lane_index = scratch.mixed, scratch.lane_value, scratch.lane_index
    # A maximum a lane, which compilers turn into vectors, where one maximum in all they do not.
    for lane in range(LANES):
        lane_value[lane] = np.float32(-1)
        lane_index[lane] = np.int32(-1)
    whole = mixed.shape[0] // LANES * LANES
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            amplitude = mixed[first + lane]
            value = lane_value[lane]
            index = lane_index[lane]
            larger = (cone_row[first + lane] != 0) & (amplitude > value)
            lane_value[lane] = amplitude if larger else value
            lane_index[lane] = np.int32(first + lane) if larger else index
    best = -1
    largest = np.float32(-1)
    for lane in range(LANES):
        value, index = lane_value[lane], np.int64(lane_index[lane])
        if index >= 0 and (value > largest or (value == largest and index < best)):
            largest = value
            best = index
    for j in range(whole, mixed.shape[0]):
        if cone_row[j] and mixed[j] > largest:
            largest = mixed[j]
            best = j
    return best


@inlined
def in_cone(field, i, j):
    """Return which of half-set direction j and its antipode lies in the cone around i.

    Of two that do, the one on the side of i.
    """
    side = field.cone[i, j]
    if side == 3:
        a, b = field.directions[i], field.directions[j]
        side = 1 if a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= ZERO else 2
    return j + field.alias.shape[1] if side == 2 else j


@inlined
def largest_in_voxel(field, row, i):
    """Return the direction of the largest amplitude in the cone around i, computing it once."""
    n_half = field.amplitudes.shape[1]
    folded = field.n_mass == n_half and i >= n_half
    column = i - n_half if folded else i
    known = np.int64(field.best[row, column])
    if known == 0:
        best = -1
        largest = np.float32(-1)
        for j in range(n_half):
            if field.cone[column, j] and field.amplitudes[row, j] > largest:
                largest = field.amplitudes[row, j]
                best = j
        if best < 0:
            return -1
        known = np.int64(in_cone(field, column, best) + 1)
        field.best[row, column] = known
    j = known - 1
    if folded:
        j = j - n_half if j >= n_half else j + n_half
    return j


@inlined
def best_direction(field, settings, scratch, n, i, limit):
    """Return the direction of the largest amplitude in the cone; minus a stop reason without."""
    n_half = field.alias.shape[1]
    if settings.interpolation == NEAREST:
        j = largest_in_voxel(field, scratch.rows[0], i)
        if j < 0:
            return -LOW_AMPLITUDE
        amplitude = field.amplitudes[scratch.rows[0], j % n_half]
    else:
        mix(field, scratch, n)
        half = largest_mixed(scratch, field.cone[i])
        if half < 0:
            return -LOW_AMPLITUDE
        amplitude = scratch.mixed[half]
        j = in_cone(field, i, half)
    if amplitude < settings.min_amplitude or not amplitude > ZERO:
        return -LOW_AMPLITUDE
    if amplitude <= limit and mixed_cone_mass(field, scratch, n, i) <= limit:
        return -LOW_PROBABILITY
    return j


@compiled
def start_direction(field, settings, scratch, n, stream):
    """Return a first direction at the seed, or -1."""
    n_half = field.alias.shape[1]
    if settings.start == START_SAMPLED:
        return draw_direction(
            field,
            settings,
            scratch,
            n,
            0,
            field.everywhere,
            True,
            np.float32(-1),
            stream,
            0,
            PURPOSE_START,
        )
    mix(field, scratch, n)
    j = largest_mixed(scratch, field.everywhere)
    if scratch.mixed[j] < settings.min_amplitude or not scratch.mixed[j] > ZERO:
        return -1
    r0, _, _, _ = philox_block(
        np.uint64(stream),
        np.uint64(0),
        np.uint64(0),
        np.uint64(PURPOSE_START),
        settings.key_0,
        settings.key_1,
    )
    return j + n_half if r0 & ONE else j
