"""Drawing directions: random numbers, where a point lies, and the exact draw.

The interpolated FOD at a point is a mixture of the FODs of the voxels around it, voxel k having
the weight w_k T_k (trilinear weight times total mass). So a direction is drawn by picking a voxel
with that weight and then a direction from the voxel's own FOD, and it is accepted when it lies in
the cone and its interpolated amplitude reaches the floor: accepted draws have exactly the
distribution of the FOD restricted to those directions. These max_proposals are in max_proposals.py. After `MAX_PROPOSALS`
without success, and in narrow cones at once, the cone is scanned, which draws from the same
distribution.

A direction of a voxel is drawn by an alias table over patches of neighbouring directions and
another over those of the patch. A single one over all directions would need one look-up less, but
that may be anywhere in 1.4 kB, while most patches are drawn seldom.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...compiling import compiled, inlined
from ..codes import (
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    MARGIN,
    PATCH_SIZE,
    PURPOSE_START,
    SLOT_BITS,
    UNIT_24,
)
from .patches import (
    draw_weighed_nearest,
    draw_weighed_trilinear,
    largest_slot_nearest,
    largest_slot_trilinear,
    lowest_bit,
    mass_in_patch_nearest,
    mass_in_patch_trilinear,
    slots_at_least_nearest,
    slots_at_least_trilinear,
    weigh_corners,
)
from .vectors import philox

BITS_8 = np.uint32(8)
ONE = np.uint64(1)
ZERO = np.float32(0)
HALF = np.float32(0.5)
BIT = np.uint32(1)
PAIR = np.uint32(PATCH_SIZE)
LAST_SLOT = PATCH_SIZE - 1


@inlined
def philox_block(c0, c1, c2, c3, k0, k1):
    """Return four 32-bit numbers, as uint64; see philox.py for the specification."""
    r0, r1, r2, r3 = philox(
        np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3), np.uint32(k0), np.uint32(k1)
    )
    return np.uint64(r0), np.uint64(r1), np.uint64(r2), np.uint64(r3)


@inlined
def to_voxel(matrix, x, y, z):
    """Map RAS+ mm to the voxel coordinates of a (3, 4) float32 matrix."""
    vx = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]
    vy = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]
    vz = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3]
    return vx, vy, vz


@inlined
def nearest(v):
    """Return the voxel that a voxel coordinate belongs to, along its axis."""
    return np.int64(np.floor(v + HALF))


@compiled
def enter_cell(field, state, lane, vx, vy, vz):
    """Find the eight voxels whose FODs mix at voxel coordinates where a lane is."""
    ix, iy, iz = np.int64(np.floor(vx)), np.int64(np.floor(vy)), np.int64(np.floor(vz))
    state.cells[0, lane], state.cells[1, lane], state.cells[2, lane] = ix, iy, iz
    nx, ny, nz = field.voxel_rows.shape
    for k in range(8):
        cx, cy, cz = ix + (k >> 2), iy + ((k >> 1) & 1), iz + (k & 1)
        row = np.int64(-1)
        if 0 <= cx < nx and 0 <= cy < ny and 0 <= cz < nz:
            row = np.int64(field.voxel_rows[cx, cy, cz])
        total = field.totals[row] if row >= 0 else ZERO
        quantum = field.quanta[row] if row >= 0 else ZERO
        row = max(row, 0)
        state.corner_rows[k, lane] = state.own_rows[lane, k] = row
        state.corner_totals[k, lane] = state.own_totals[lane, k] = total
        state.corner_quanta[k, lane] = state.own_quanta[lane, k] = quantum


@inlined
def locate(field, n, scratch, state, lane, vx, vy, vz):
    """Weigh the n voxels whose FODs mix where a lane is; tell whether there are any.

    They are `state.own_rows` of it; the rest is in `scratch`.
    """
    if n == 1:
        row = np.int64(state.row[lane])
        state.own_rows[lane, 0] = max(row, 0)
        scratch.total[0] = field.totals[row] if row >= 0 else ZERO
        scratch.quanta[0] = field.quanta[row] if row >= 0 else ZERO
        scratch.weights[0] = np.float32(1)
        return scratch.total[0] > ZERO
    fx, fy, fz = np.floor(vx), np.floor(vy), np.floor(vz)
    ix, iy, iz = np.int64(fx), np.int64(fy), np.int64(fz)
    cells = state.cells
    if ix != cells[0, lane] or iy != cells[1, lane] or iz != cells[2, lane]:
        enter_cell(field, state, lane, vx, vy, vz)
    total = weigh_corners(
        vx - fx,
        vy - fy,
        vz - fz,
        state.own_totals[lane],
        state.own_quanta[lane],
        scratch.weights,
        scratch.quanta,
    )
    scratch.total[0] = total
    return total > ZERO


@inlined
def interpolated_amplitude(field, rows, quanta, n, j):
    """Return the interpolated amplitude of a direction of the half set."""
    patch, lane = j >> SLOT_BITS, j & LAST_SLOT
    amplitude = ZERO
    for k in range(0, n, 4):  # in the order of lanes.py: pairs, then pairs of pairs
        a = quanta[k] * np.float32(np.int32(field.quantised[rows[k], patch, lane]))
        if n == 1:
            return a
        b = quanta[k + 1] * np.float32(np.int32(field.quantised[rows[k + 1], patch, lane]))
        c = quanta[k + 2] * np.float32(np.int32(field.quantised[rows[k + 2], patch, lane]))
        d = quanta[k + 3] * np.float32(np.int32(field.quantised[rows[k + 3], patch, lane]))
        amplitude += (a + b) + (c + d)
    return amplitude


@inlined
def mass_in_patch(field, rows, quanta, n, patch, bits, floor):
    """Return the mass of a patch in a cone, from `floor` on, twice what is on both sides."""
    if n == 1:
        return mass_in_patch_nearest(field.quantised, rows, quanta, patch, bits, floor)
    return mass_in_patch_trilinear(field.quantised, rows, quanta, patch, bits, floor)


@compiled
def is_cone_mass_below(field, rows, quanta, n, i, limit):
    """Tell whether the mass of the cone around direction i is at most `limit`."""
    mass = ZERO
    for patch in range(field.cone.shape[1]):
        bits = field.cone[i, patch]
        if bits:
            mass += mass_in_patch(field, rows, quanta, n, patch, bits, ZERO)
            if mass > limit:
                return False
    return True


@inlined
def sides_of(cone, j):
    """Return bit 0 where half-set direction j lies in a cone, bit 1 where its antipode does."""
    pair = cone[j >> SLOT_BITS] >> np.uint32(j & LAST_SLOT)
    return np.int64((pair & BIT) | ((pair >> (PAIR - BIT)) & np.uint32(2)))


@compiled
def scan_draw(field, masses, rows, quanta, n, i, floor, limit, word_0, word_1):
    """Draw from the interpolated FOD within a cone by its cumulative sum; minus a stop reason."""
    cone = field.cone[i]
    n_half = field.directions.shape[0] // 2
    total = ZERO
    for patch in range(cone.shape[0]):
        masses[patch] = ZERO
        if cone[patch]:
            masses[patch] = mass_in_patch(field, rows, quanta, n, patch, cone[patch], floor)
            total += masses[patch]
    if not total > ZERO:
        return -LOW_AMPLITUDE
    if total <= MARGIN * limit and is_cone_mass_below(field, rows, quanta, n, i, limit):
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
        lane = draw_weighed_nearest(field.quantised, rows, quanta, drawn, bits, floor, goal)
    else:
        lane = draw_weighed_trilinear(field.quantised, rows, quanta, drawn, bits, floor, goal)
    j = np.int64(drawn) * PATCH_SIZE + np.int64(lane)
    sides = sides_of(cone, j)
    if sides == 2 or (sides == 3 and word_1 & BIT):
        return j + n_half
    return j


@inlined
def largest_in_patch(field, rows, quanta, n, patch, bits):
    """Return the largest interpolated amplitude of a patch within a cone and its direction."""
    bits = bits | (bits >> PAIR)
    if n == 1:
        value, lane = largest_slot_nearest(field.quantised, rows, quanta, patch, bits)
    else:
        value, lane = largest_slot_trilinear(field.quantised, rows, quanta, patch, bits)
    return value, patch * PATCH_SIZE + np.int64(lane)


@inlined
def largest_interpolated(field, rows, quanta, n, i):
    """Return the half-set direction of the largest interpolated amplitude in a cone, or -1.

    Of equal amplitudes the first counts. The patch of direction i comes first, because it mostly
    holds the largest; others are passed over where they cannot hold a larger one.
    """
    cone = field.cone[i]
    n_half = field.directions.shape[0] // 2
    own = (i - n_half if i >= n_half else i) >> SLOT_BITS
    best = np.int64(-1)
    largest = np.float32(-1)
    if own < cone.shape[0]:
        largest, best = largest_in_patch(field, rows, quanta, n, own, cone[own])
    for group in range(field.patch_maxima.shape[1]):
        if n == 1:
            left = slots_at_least_nearest(field.patch_maxima, rows, quanta, group, largest)
        else:
            left = slots_at_least_trilinear(field.patch_maxima, rows, quanta, group, largest)
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            patch = group * PATCH_SIZE + lane
            if patch >= cone.shape[0]:
                break
            if patch == own or cone[patch] == 0:
                continue
            value, j = largest_in_patch(field, rows, quanta, n, patch, cone[patch])
            if value > largest or (value == largest and j < best):
                largest, best = value, j
    return best if largest >= ZERO else np.int64(-1)


@inlined
def best_direction(field, settings, rows, quanta, n, i, limit):
    """Return the direction of the largest amplitude in the cone; minus a stop reason without."""
    n_half = field.directions.shape[0] // 2
    j = np.int64(largest_interpolated(field, rows, quanta, n, i))
    if j < 0:
        return -LOW_AMPLITUDE
    amplitude = interpolated_amplitude(field, rows, quanta, n, j)
    if amplitude < settings.min_amplitude or not amplitude > ZERO:
        return -LOW_AMPLITUDE
    if amplitude <= limit and is_cone_mass_below(field, rows, quanta, n, i, limit):
        return -LOW_PROBABILITY
    sides = sides_of(field.cone[i], j)
    if sides == 3:  # of two in the cone the one on the side of i
        a, b = field.directions[i], field.directions[j]
        sides = 1 if a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= ZERO else 2
    return j + n_half if sides == 2 else j


@compiled
def largest_start(field, settings, rows, quanta, n, stream):
    """Return the direction of the largest amplitude at a seed, or a negative number."""
    n_directions = field.directions.shape[0]
    j = largest_interpolated(field, rows, quanta, n, n_directions)
    amplitude = interpolated_amplitude(field, rows, quanta, n, max(j, 0))
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
