"""Drawing directions: random numbers, where a point lies, and the exact draw.

The interpolated FOD at a point is a mixture of the FODs of the voxels around it, voxel k having
the weight w_k T_k (trilinear weight times total mass). So a direction is drawn by picking a voxel
with that weight and then a direction from the voxel's own FOD, and it is accepted when it lies in
the cone and its interpolated amplitude reaches the floor: accepted draws have exactly the
distribution of the FOD restricted to those directions. After `TRIES` without success, and in narrow
cones at once, the cone is scanned, which draws from the same distribution.

A direction of a voxel is drawn by an alias table over patches of neighbouring directions and by
inverting a running sum within the patch, both of whole numbers. An alias table over all directions
would need no running sum, but it is larger than all the rest (1.4 beside 0.8 kB), and a look-up in
it may be anywhere, so that with it a step mostly waited for memory.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from .codes import (
    LANES,
    LEFT_IMAGE,
    LEFT_MASK,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    PURPOSE_START,
    START_SAMPLED,
    TRIES,
    WORDS_MIXED,
    WORDS_NEAR,
    compiled,
    inlined,
)
from .lanes import (
    TOGETHER,
    draw_tries_mixed,
    draw_tries_near,
    draw_weighed_mixed,
    draw_weighed_near,
    lanes_at_least_mixed,
    lanes_at_least_near,
    largest_lane_mixed,
    largest_lane_near,
    levels_in_patch,
    lowest_bit,
    mass_in_patch_mixed,
    mass_in_patch_near,
    philox_lanes,
    weigh_corners,
    weigh_lane,
)
from .philox import MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1

MUL_0 = np.uint64(MULTIPLIER_0)
MUL_1 = np.uint64(MULTIPLIER_1)
BUMP_0 = np.uint64(WEYL_0)
BUMP_1 = np.uint64(WEYL_1)
LOW_32 = np.uint64(0xFFFFFFFF)
BITS_32 = np.uint64(32)
BITS_8 = np.uint32(8)
ONE = np.uint64(1)
ZERO = np.float32(0)
HALF = np.float32(0.5)
MARGIN = np.float32(1.0001)  # far above the rounding of a sum of eight
BIT = np.uint32(1)
PAIR = np.uint32(LANES)
LAST_LANE = LANES - 1
LANE_BITS = LAST_LANE.bit_length()
TRIED = np.uint32((1 << TOGETHER) - 1)
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
def locate(field, n, scratch, vx, vy, vz):
    """Find the n voxels whose FODs mix at a position, with weights; tell whether there are any."""
    cell = scratch.cell
    if n == 1:
        ix, iy, iz = nearest_voxel(vx), nearest_voxel(vy), nearest_voxel(vz)
        if ix != cell[0] or iy != cell[1] or iz != cell[2]:  # small steps stay for long
            cell[0], cell[1], cell[2] = ix, iy, iz
            row = np.int64(field.voxel_rows[ix, iy, iz])
            scratch.rows[0] = max(row, 0)
            scratch.total[0] = field.totals[row] if row >= 0 else ZERO
            scratch.scales[0] = field.scales[row] if row >= 0 else ZERO
            scratch.weights[0] = np.float32(1)
        return scratch.total[0] > ZERO
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
    total = weigh_corners(
        vx - fx,
        vy - fy,
        vz - fz,
        scratch.corner_totals,
        scratch.corner_scales,
        scratch.weights,
        scratch.scales,
        scratch.running,
    )
    scratch.total[0] = total
    return total > ZERO


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


@inlined
def mass_in_patch(field, scratch, n, patch, bits, floor):
    """Return the mass of a patch in a cone, from `floor` on, twice what is on both sides."""
    if n == 1:
        return mass_in_patch_near(field.levels, scratch.rows, scratch.scales, patch, bits, floor)
    return mass_in_patch_mixed(field.levels, scratch.rows, scratch.scales, patch, bits, floor)


@compiled
def is_cone_poor(field, scratch, n, i, limit):
    """Tell whether the mass of the cone around direction i is at most `limit`."""
    mass = ZERO
    for patch in range(field.cone.shape[1]):
        bits = field.cone[i, patch]
        if bits:
            mass += mass_in_patch(field, scratch, n, patch, bits, ZERO)
            if mass > limit:
                return False
    return True


@inlined
def sides_of(cone, j):
    """Return bit 0 where half-set direction j lies in a cone, bit 1 where its antipode does."""
    pair = cone[j >> LANE_BITS] >> np.uint32(j & LAST_LANE)
    return np.int64((pair & BIT) | ((pair >> (PAIR - BIT)) & np.uint32(2)))


@compiled
def scan_draw(field, scratch, n, i, floor, limit, word_0, word_1):
    """Draw from the interpolated FOD within a cone by its cumulative sum; minus a stop reason."""
    cone, masses = field.cone[i], scratch.masses
    n_half = field.directions.shape[0] // 2
    total = ZERO
    for patch in range(cone.shape[0]):
        masses[patch] = ZERO
        if cone[patch]:
            masses[patch] = mass_in_patch(field, scratch, n, patch, cone[patch], floor)
            total += masses[patch]
    if not total > ZERO:
        return -LOW_AMPLITUDE
    if total <= MARGIN * limit and is_cone_poor(field, scratch, n, i, limit):
        return -LOW_PROBABILITY
    left = np.float32(word_0 >> BITS_8) * UNIT_24 * total
    drawn, goal = 0, ZERO
    for patch in range(cone.shape[0]):
        if masses[patch] > ZERO:
            drawn, goal = patch, left
            if left < masses[patch]:
                break
            left -= masses[patch]
    bits = cone[drawn]
    if n == 1:
        lane = draw_weighed_near(
            field.levels, scratch.rows, scratch.scales, drawn, bits, floor, goal
        )
    else:
        lane = draw_weighed_mixed(
            field.levels, scratch.rows, scratch.scales, drawn, bits, floor, goal
        )
    j = np.int64(drawn) * LANES + np.int64(lane)
    sides = sides_of(cone, j)
    if sides == 2 or (sides == 3 and word_1 & BIT):
        return j + n_half
    return j


@inlined
def random_words(settings, scratch, n, stream, step, purpose):
    """Make the random numbers of a step, and of those that follow it; return its column."""
    steps = (((np.int64(stream) << 2) + purpose) << 28) + (step >> LANE_BITS)
    if steps != scratch.ahead[0]:
        scratch.ahead[0] = steps
        first = np.uint32(step & ~LAST_LANE)
        for block in range(TRIES * (WORDS_NEAR if n == 1 else WORDS_MIXED) // 4):
            philox_lanes(
                np.uint32(stream),
                first,
                np.uint32(block),
                np.uint32(purpose),
                np.uint32(settings.key_0),
                np.uint32(settings.key_1),
                scratch.words,
                4 * block,
            )
    return step & LAST_LANE


@inlined
def draw_tries(field, scratch, n, column, first_try, i, two_sided):
    """Draw several directions: a bit for each that lies in the cone, see lanes.py.

    At once and without a branch, because which of them succeeds cannot be foreseen, and a wrong
    guess takes longer than what is not needed.
    """
    if n == 1:
        return draw_tries_near(
            field.alias,
            field.levels,
            field.cone,
            scratch.rows,
            scratch.scales,
            scratch.running,
            scratch.words,
            column,
            first_try,
            i,
            two_sided,
            scratch.drawn,
        )
    return draw_tries_mixed(
        field.alias,
        field.levels,
        field.cone,
        scratch.rows,
        scratch.scales,
        scratch.running,
        scratch.words,
        column,
        first_try,
        i,
        two_sided,
        scratch.drawn,
    )


@inlined
def weigh_draw(field, scratch, n, i, j):
    """Return the amplitude of direction j of the half set and its patch's mass in the cone."""
    patch, lane = j >> LANE_BITS, np.int32(j & LAST_LANE)
    bits = field.cone[i, patch]
    bits |= bits >> PAIR
    if n == 1:
        row, scale = scratch.rows[0], scratch.scales[0]
        amplitude = scale * np.float32(np.int32(field.levels[row, patch, lane]))
        return amplitude, scale * np.float32(levels_in_patch(field.levels, row, patch, bits))
    return weigh_lane(field.levels, scratch.rows, scratch.scales, patch, lane, bits)


@inlined
def draw_direction(field, settings, scratch, n, i, two_sided, limit, stream, step, purpose):
    """Draw the next direction; minus a stop reason where there is none.

    `i` is the current direction, or n_directions where any may follow; `limit` the cone mass at or
    below which to stop.
    """
    n_half = field.directions.shape[0] // 2
    floor = settings.min_amplitude
    # At a start all directions are allowed, whatever the cone.
    tries = TRIES if i == field.directions.shape[0] else field.tries
    column = 0
    if tries:
        column = random_words(settings, scratch, n, stream, step, purpose)
    for first_try in range(0, tries, TOGETHER):
        left = draw_tries(field, scratch, n, column, first_try, i, two_sided)
        behind = left >> np.uint32(TOGETHER)
        left &= TRIED
        while left:
            attempt = lowest_bit(left)
            left &= left - BIT
            j = np.int64(scratch.drawn[attempt])
            amplitude, mass = weigh_draw(field, scratch, n, i, j)
            if not ((amplitude >= floor) & (amplitude > ZERO)):
                continue
            # Mostly what the cone holds of one patch is more than enough.
            if mass <= MARGIN * limit and is_cone_poor(field, scratch, n, i, limit):
                return -LOW_PROBABILITY
            return j + n_half if (behind >> np.uint32(attempt)) & BIT else j
    r0, r1, _, _ = philox_block(
        np.uint64(stream),
        np.uint64(step),
        np.uint64(TRIES),
        np.uint64(purpose),
        settings.key_0,
        settings.key_1,
    )
    return scan_draw(field, scratch, n, i, floor, limit, np.uint32(r0), np.uint32(r1))


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
