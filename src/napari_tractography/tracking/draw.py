"""Drawing directions: random numbers, where a point lies, and the exact draw.

The interpolated FOD at a point is a mixture of the FODs of the voxels around it, voxel k having
the weight w_k T_k (trilinear weight times total mass). So a direction is drawn by picking a voxel
with that weight and then a direction from the voxel's own FOD, and it is accepted when it lies in
the cone and its interpolated amplitude reaches the floor: accepted draws have exactly the
distribution of the FOD restricted to those directions. After `DRAW_BLOCKS` random blocks without
success the cone is scanned, which draws from the same distribution.

A direction of a voxel is drawn by inverting two running sums of whole numbers, over patches of
neighbouring directions and within one. Alias tables need a single look-up, but one that is anywhere
in a table three times as large: where a step waits for memory, that gave half the speed (trilinear)
or two thirds (nearest). Here a draw that leads out of the cone ends with the patch, and those
within it stay with few patches, that is, cache lines.
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
from .lanes import (
    count_at_most,
    draw_lane_mixed,
    draw_lane_near,
    lanes_at_least_mixed,
    lanes_at_least_near,
    largest_lane_mixed,
    largest_lane_near,
    lowest_bit,
    mass_in_patch_mixed,
    mass_in_patch_near,
    sum_patches_mixed,
    sum_patches_near,
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
MARGIN = np.float32(1.0001)  # far above the rounding of a sum of eight
BIT = np.uint32(1)
PAIR = np.uint32(LANES)
LAST_LANE = LANES - 1
LANE_BITS = LAST_LANE.bit_length()
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
    """Find the voxels whose FODs mix at a position, with weights; return how many, 1 or 8, or 0."""
    cell = scratch.cell
    if interpolation == NEAREST:
        ix, iy, iz = nearest_voxel(vx), nearest_voxel(vy), nearest_voxel(vz)
        if ix != cell[0] or iy != cell[1] or iz != cell[2]:  # small steps stay for long
            cell[0], cell[1], cell[2] = ix, iy, iz
            row = np.int64(field.voxel_rows[ix, iy, iz])
            scratch.rows[0] = max(row, 0)
            scratch.total[0] = field.totals[row] if row >= 0 else ZERO
            scratch.scales[0] = field.scales[row] if row >= 0 else ZERO
            scratch.weights[0] = np.float32(1)
        return 1 if scratch.total[0] > ZERO else 0
    fx, fy, fz = np.floor(vx), np.floor(vy), np.floor(vz)
    ix, iy, iz = np.int64(fx), np.int64(fy), np.int64(fz)
    if ix != cell[0] or iy != cell[1] or iz != cell[2]:
        cell[0], cell[1], cell[2] = ix, iy, iz
        nx, ny, nz = field.voxel_rows.shape
        for k in range(8):
            cx, cy, cz = ix + (k >> 2), iy + ((k >> 1) & 1), iz + (k & 1)
            row = np.int64(-1)
            if 0 <= cx < nx and 0 <= cy < ny and 0 <= cz < nz:
                row = np.int64(field.voxel_rows[cx, cy, cz])
            scratch.rows[k] = max(row, 0)
            scratch.corner_totals[k] = field.totals[row] if row >= 0 else ZERO
            scratch.corner_scales[k] = field.scales[row] if row >= 0 else ZERO
    one = np.float32(1)
    wx, wy, wz = vx - fx, vy - fy, vz - fz
    total = ZERO
    for k in range(8):
        weight = wx if k >> 2 else one - wx
        weight = weight * (wy if (k >> 1) & 1 else one - wy)
        weight = weight * (wz if k & 1 else one - wz)
        total = total + weight * scratch.corner_totals[k]
        scratch.weights[k] = weight if scratch.corner_totals[k] > ZERO else ZERO
        scratch.scales[k] = weight * scratch.corner_scales[k]
    scratch.total[0] = total
    return 8 if total > ZERO else 0


@inlined
def mixed_amplitude(field, scratch, n, j):
    """Return the interpolated amplitude of a direction of the half set."""
    patch, lane = j >> LANE_BITS, j & LAST_LANE
    if n == 1:
        level = field.levels[scratch.rows[0], patch, lane]
        return scratch.scales[0] * np.float32(np.int32(level))
    amplitude = ZERO
    for half in range(2):  # in the order of lanes.py: pairs, then pairs of pairs
        q = 4 * half
        a = scratch.scales[q] * np.float32(np.int32(field.levels[scratch.rows[q], patch, lane]))
        b = scratch.scales[q + 1] * np.float32(
            np.int32(field.levels[scratch.rows[q + 1], patch, lane])
        )
        c = scratch.scales[q + 2] * np.float32(
            np.int32(field.levels[scratch.rows[q + 2], patch, lane])
        )
        d = scratch.scales[q + 3] * np.float32(
            np.int32(field.levels[scratch.rows[q + 3], patch, lane])
        )
        amplitude += (a + b) + (c + d)
    return amplitude


@compiled
def is_cone_poor(field, scratch, n, i, limit):
    """Tell whether the mass of the cone around direction i is at most `limit`."""
    mass = ZERO
    for patch in range(field.cone.shape[1]):
        bits = field.cone[i, patch]
        if bits:
            if n == 1:
                mass += mass_in_patch_near(field.levels, scratch.rows, scratch.scales, patch, bits)
            else:
                mass += mass_in_patch_mixed(field.levels, scratch.rows, scratch.scales, patch, bits)
            if mass > limit:
                return False
    return True


@inlined
def sides_of(cone, j):
    """Return bit 0 where half-set direction j lies in a cone, bit 1 where its antipode does."""
    pair = cone[j >> LANE_BITS] >> np.uint32(j & LAST_LANE)
    return np.int64((pair & BIT) | ((pair >> (PAIR - BIT)) & np.uint32(2)))


@compiled
def scan_draw(field, scratch, n, i, min_amplitude, word_0, word_1):
    """Draw from the interpolated FOD within a cone by its cumulative sum; -1 where it is empty."""
    cone, mixed = field.cone[i], scratch.mixed
    n_half = field.directions.shape[0] // 2
    mass = ZERO
    for j in range(n_half):
        sides = sides_of(cone, j)
        if sides:
            mixed[j] = mixed_amplitude(field, scratch, n, j)
            if mixed[j] >= min_amplitude:
                mass += mixed[j]
                if sides == 3:
                    mass += mixed[j]
    if not mass > ZERO:
        return -1
    target = np.float32(word_0 >> BITS_8) * UNIT_24 * mass
    mass = ZERO
    last = -1
    for j in range(n_half):
        sides = sides_of(cone, j)
        if sides and mixed[j] >= min_amplitude and mixed[j] > ZERO:
            last = j
            mass += mixed[j]
            if sides == 3:
                mass += mixed[j]
            if mass > target:
                break
    sides = sides_of(cone, last)
    if sides == 2 or (sides == 3 and word_1 & ONE):
        return last + n_half
    return last


@inlined
def propose(field, scratch, n, i, total, where, which):
    """Draw a direction from the patches that touch the cone around direction i.

    Returns the direction of the half set, its sides in the cone (0 for a miss), its amplitude and
    a lower bound of the cone's mass.
    """
    n_patches = field.cone.shape[1]
    goal = np.float32(where >> BITS_8) * UNIT_24 * total
    patch = np.int64(0)
    for group in range(scratch.running.shape[0]):
        patch += np.int64(count_at_most(scratch.running, group, goal))
    patch = min(patch, n_patches - 1)  # rounded up to the total
    bits = field.cone[i, patch]
    share = np.float32(which >> BITS_8) * UNIT_24
    if n == 1:
        lane, amplitude, mass = draw_lane_near(
            field.levels, scratch.rows, scratch.scales, patch, share, bits
        )
    else:
        lane, amplitude, mass = draw_lane_mixed(
            field.levels, scratch.rows, scratch.scales, patch, share, bits
        )
    pair = bits >> np.uint32(lane & LAST_LANE)
    sides = (pair & BIT) | ((pair >> (PAIR - BIT)) & np.uint32(2))
    if lane == LANES:
        sides = np.uint32(0)
    return patch * LANES + np.int64(lane), sides, amplitude, mass


@inlined
def draw_direction(field, settings, scratch, n, i, two_sided, limit, stream, step, purpose):
    """Draw the next direction; minus a stop reason where there is none.

    `i` is the current direction, or n_directions where any may follow; `limit` the cone mass at or
    below which to stop.
    """
    n_half = field.directions.shape[0] // 2
    floor = settings.min_amplitude
    total = ZERO
    for group in range(scratch.running.shape[0]):
        bits = field.cover[i, group]
        if n == 1:
            total = sum_patches_near(
                field.sums, scratch.rows, scratch.scales, group, bits, total, scratch.running
            )
        else:
            total = sum_patches_mixed(
                field.sums, scratch.rows, scratch.scales, group, bits, total, scratch.running
            )
    c0, c1, c3 = np.uint64(stream), np.uint64(step), np.uint64(purpose)
    k0, k1 = settings.key_0, settings.key_1
    for block in range(DRAW_BLOCKS):
        r0, r1, r2, r3 = philox_block(c0, c1, np.uint64(block), c3, k0, k1)
        for attempt in range(2):
            where, which = (r0, r1) if attempt == 0 else (r2, r3)
            j, sides, amplitude, mass = propose(field, scratch, n, i, total, where, which)
            if two_sided:  # draw from the full sphere: a random sign first, then the cone
                sides = sides & (np.uint32(2) if where & ONE else BIT)
            if not ((sides != 0) & (amplitude >= floor) & (amplitude > ZERO)):
                continue
            # Mostly what the cone holds of one patch is more than enough.
            if mass <= MARGIN * limit and is_cone_poor(field, scratch, n, i, limit):
                return -LOW_PROBABILITY
            return j if sides & BIT else j + n_half
    r0, r1, r2, r3 = philox_block(c0, c1, np.uint64(DRAW_BLOCKS), c3, k0, k1)
    j = scan_draw(field, scratch, n, i, floor, r0, r1)
    if j < 0:
        return -LOW_AMPLITUDE
    if limit >= ZERO and is_cone_poor(field, scratch, n, i, limit):
        return -LOW_PROBABILITY
    return j


@inlined
def largest_in_patch(field, scratch, n, patch, bits):
    """Return the largest interpolated amplitude of a patch within a cone and its direction."""
    bits = bits | (bits >> PAIR)
    if n == 1:
        value, lane = largest_lane_near(field.levels, scratch.rows, scratch.scales, patch, bits)
    else:
        value, lane = largest_lane_mixed(field.levels, scratch.rows, scratch.scales, patch, bits)
    return value, patch * LANES + np.int64(lane)


@compiled
def largest_mixed(field, scratch, n, i):
    """Return the half-set direction of the largest interpolated amplitude in a cone, or -1.

    Of equal amplitudes the first counts. The patch of direction i comes first, because it mostly
    holds the largest; others are passed over where they cannot hold a larger one.
    """
    cone = field.cone[i]
    n_half = field.directions.shape[0] // 2
    own = (i - n_half if i >= n_half else i) >> LANE_BITS
    best = np.int64(-1)
    largest = np.float32(-1)
    if own < cone.shape[0]:
        largest, best = largest_in_patch(field, scratch, n, own, cone[own])
    for group in range(field.tops.shape[1]):
        if n == 1:
            left = lanes_at_least_near(field.tops, scratch.rows, scratch.scales, group, largest)
        else:
            left = lanes_at_least_mixed(field.tops, scratch.rows, scratch.scales, group, largest)
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            patch = group * LANES + lane
            if patch >= cone.shape[0]:
                break
            if patch == own or cone[patch] == 0:
                continue
            value, j = largest_in_patch(field, scratch, n, patch, cone[patch])
            if value > largest or (value == largest and j < best):
                largest, best = value, j
    return best if largest >= ZERO else np.int64(-1)


@inlined
def best_direction(field, settings, scratch, n, i, limit):
    """Return the direction of the largest amplitude in the cone; minus a stop reason without."""
    n_half = field.directions.shape[0] // 2
    known = scratch.known
    if n == 1 and known[0] == scratch.rows[0] and known[1] == i:
        j = known[2]
    else:
        j = np.int64(largest_mixed(field, scratch, n, i))
        known[0], known[1], known[2] = scratch.rows[0] if n == 1 else -1, i, j
    if j < 0:
        return -LOW_AMPLITUDE
    amplitude = mixed_amplitude(field, scratch, n, j)
    if amplitude < settings.min_amplitude or not amplitude > ZERO:
        return -LOW_AMPLITUDE
    if amplitude <= limit and is_cone_poor(field, scratch, n, i, limit):
        return -LOW_PROBABILITY
    sides = sides_of(field.cone[i], j)
    if sides == 3:  # of two in the cone the one on the side of i
        a, b = field.directions[i], field.directions[j]
        sides = 1 if a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= ZERO else 2
    return j + n_half if sides == 2 else j


@compiled
def start_direction(field, settings, scratch, n, stream):
    """Return a first direction at the seed, or a negative number."""
    n_directions = field.directions.shape[0]
    if settings.start == START_SAMPLED:
        return draw_direction(
            field,
            settings,
            scratch,
            n,
            n_directions,
            True,
            np.float32(-1),
            stream,
            0,
            PURPOSE_START,
        )
    j = largest_mixed(field, scratch, n, n_directions)
    amplitude = mixed_amplitude(field, scratch, n, max(j, 0))
    if amplitude < settings.min_amplitude or not amplitude > ZERO:
        return -1
    r0, _, _, _ = philox_block(
        np.uint64(stream),
        np.uint64(0),
        np.uint64(0),
        np.uint64(PURPOSE_START),
        settings.key_0,
        settings.key_1,
    )
    return j + n_directions // 2 if r0 & ONE else j
