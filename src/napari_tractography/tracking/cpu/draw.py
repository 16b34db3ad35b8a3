"""Where a point lies among voxels, random numbers, and draws from the interpolated FOD in a cone.

The interpolated FOD at a point is a mixture of the FODs of the voxels around it: voxel k has the
weight w_k T_k, trilinear weight times total mass. A direction is drawn by rejection sampling. The
proposal is a voxel drawn by that weight, then a direction drawn from the voxel's own FOD. It is
accepted when it lies in the cone and its interpolated amplitude reaches the cutoff, so accepted
directions have exactly the distribution of the FOD restricted to those. rejection.py proposes for
all lanes at once. After `MAX_PROPOSALS` rejections, and in narrow cones without any proposal, the
cone is scanned by `scan_draw`, which draws from the same distribution.

A direction of a voxel is drawn by one alias table over patches of neighbouring directions and
another over the slots of the patch. A single table over all directions would need one look-up less,
but that could be anywhere in 1.4 kB, while most patches are drawn seldom.

Parameters that recur: `rows`, `quanta` and `n` are those of :mod:`.patches`; i is a direction of
the full set, j one of the half set, ``directions[: n_directions // 2]``, of which the other half
are the antipodes; `limit` is the mass that a cone must exceed.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...compiling import compiled, inlined
from ...philox import MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1
from ..codes import (
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    MARGIN,
    PATCH_SIZE,
    PURPOSE_START,
    SLOT_BITS,
    UNIT_24,
)
from .llvm import lowest_bit
from .patches import draw_slot, largest_slot, mass_in_patch, slots_at_least

MUL_0 = np.uint64(MULTIPLIER_0)
MUL_1 = np.uint64(MULTIPLIER_1)
BUMP_0 = np.uint64(WEYL_0)
BUMP_1 = np.uint64(WEYL_1)
LOW_32 = np.uint64(0xFFFFFFFF)
BITS_32 = np.uint64(32)
BITS_8 = np.uint32(8)
ONE = np.float32(1)
ZERO = np.float32(0)
HALF = np.float32(0.5)
BIT = np.uint32(1)
PAIR = np.uint32(PATCH_SIZE)
LAST_SLOT = PATCH_SIZE - 1


@inlined
def philox_block(c0, c1, c2, c3, k0, k1):
    """Return four random numbers of 32 bits, as uint64; see philox.py for the specification.

    The counter c0 to c3 is of numbers or of vectors, uint64 below 2^32; the key is of numbers. Both
    factors are masked right where they are multiplied, so that LLVM sees that a product of 32 bits
    each is enough for vectors.
    """
    for _ in range(ROUNDS):
        p0 = MUL_0 * (c0 & LOW_32)
        p1 = MUL_1 * (c2 & LOW_32)
        c0 = (p1 >> BITS_32) ^ c1 ^ k0
        c2 = (p0 >> BITS_32) ^ c3 ^ k1
        c1, c3 = p1, p0
        k0 = (k0 + BUMP_0) & LOW_32
        k1 = (k1 + BUMP_1) & LOW_32
    return c0 & LOW_32, c1 & LOW_32, c2 & LOW_32, c3 & LOW_32


@inlined
def to_voxel(matrix, x, y, z):
    """Map RAS+ mm, numbers or vectors, to voxel coordinates by a (3, 4) float32 matrix."""
    vx = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3]
    vy = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3]
    vz = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3]
    return vx, vy, vz


@inlined
def nearest(v):
    """Return the voxel that a voxel coordinate belongs to, along its axis."""
    return np.int64(np.floor(v + HALF))


@inlined
def corner_weight(k, fx, fy, fz):
    """Return the trilinear weight of corner k of a cell at fractions of its edges.

    Bits 2, 1 and 0 of k tell whether the corner is at the far end along x, y and z. The fractions,
    from 0 to 1, are numbers or vectors.
    """
    weight = fx if k >> 2 else ONE - fx
    weight = weight * (fy if (k >> 1) & 1 else ONE - fy)
    return weight * (fz if k & 1 else ONE - fz)


@compiled
def enter_cell(field, state, lane, vx, vy, vz):
    """Find the eight voxels around voxel coordinates, the corners of a lane's cell."""
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
        state.corner_rows[k, lane] = state.lane_rows[lane, k] = row
        state.corner_totals[k, lane] = state.lane_totals[lane, k] = total
        state.corner_quanta[k, lane] = state.lane_quanta[lane, k] = quantum


@inlined
def locate(field, n, scratch, state, lane, vx, vy, vz):
    """Find and weigh the n voxels that a lane interpolates at voxel coordinates.

    Their rows are ``state.lane_rows[lane]``; weights, weighted quanta and the total mass of the
    interpolated FOD are written to `scratch`. Returns whether that mass is above zero.
    """
    if n == 1:
        row = np.int64(state.row[lane])
        state.lane_rows[lane, 0] = max(row, 0)
        scratch.total[0] = field.totals[row] if row >= 0 else ZERO
        scratch.quanta[0] = field.quanta[row] if row >= 0 else ZERO
        scratch.weights[0] = ONE
        return scratch.total[0] > ZERO
    fx, fy, fz = np.floor(vx), np.floor(vy), np.floor(vz)
    ix, iy, iz = np.int64(fx), np.int64(fy), np.int64(fz)
    cells = state.cells
    if ix != cells[0, lane] or iy != cells[1, lane] or iz != cells[2, lane]:
        enter_cell(field, state, lane, vx, vy, vz)
    fx, fy, fz = vx - fx, vy - fy, vz - fz
    total = ZERO
    for k in range(8):  # added in the order of rejection.py
        weight, mass = corner_weight(k, fx, fy, fz), state.lane_totals[lane, k]
        scratch.weights[k] = weight if mass > ZERO else ZERO
        scratch.quanta[k] = weight * state.lane_quanta[lane, k]
        total += weight * mass
    scratch.total[0] = total
    return total > ZERO


@inlined
def interpolated_amplitude(field, rows, quanta, n, j):
    """Return the interpolated amplitude of direction j."""
    patch, slot = j >> SLOT_BITS, j & LAST_SLOT
    amplitude = ZERO
    for k in range(0, n, 4):  # added in the order of patches.py: pairs, then pairs of pairs
        a = quanta[k] * np.float32(np.int32(field.quantised[rows[k], patch, slot]))
        if n == 1:
            return a
        b = quanta[k + 1] * np.float32(np.int32(field.quantised[rows[k + 1], patch, slot]))
        c = quanta[k + 2] * np.float32(np.int32(field.quantised[rows[k + 2], patch, slot]))
        d = quanta[k + 3] * np.float32(np.int32(field.quantised[rows[k + 3], patch, slot]))
        amplitude += (a + b) + (c + d)
    return amplitude


@compiled
def is_cone_mass_below(field, rows, quanta, n, i, limit):
    """Tell whether the mass of the cone around direction i is at most `limit`."""
    mass = ZERO
    for patch in range(field.cone.shape[1]):
        bits = field.cone[i, patch]
        if bits:
            mass += mass_in_patch(field.quantised, rows, quanta, n, patch, bits, ZERO)
            if mass > limit:
                return False
    return True


@inlined
def sides_of(cone, j):
    """Return bit 0 where direction j lies in a cone, bit 1 where its antipode does."""
    pair = cone[j >> SLOT_BITS] >> np.uint32(j & LAST_SLOT)
    return np.int64((pair & BIT) | ((pair >> (PAIR - BIT)) & np.uint32(2)))


@compiled
def scan_draw(field, masses, rows, quanta, n, i, cutoff, limit, word_0, word_1):
    """Draw a direction from the interpolated FOD within the cone of i by its cumulative sum.

    `masses`, (n_patches,) float32, is overwritten. Amplitudes below `cutoff` count as zero; the
    words are random. Returns a direction of the full set, or minus the reason why the streamline
    stops.
    """
    cone = field.cone[i]
    n_half = field.directions.shape[0] // 2
    total = ZERO
    for patch in range(cone.shape[0]):
        masses[patch] = ZERO
        if cone[patch]:
            masses[patch] = mass_in_patch(
                field.quantised, rows, quanta, n, patch, cone[patch], cutoff
            )
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
    slot = draw_slot(field.quantised, rows, quanta, n, drawn, cone[drawn], cutoff, goal)
    j = np.int64(drawn) * PATCH_SIZE + slot
    sides = sides_of(cone, j)
    if sides == 2 or (sides == 3 and word_1 & BIT):
        return j + n_half
    return j


@inlined
def largest_in_patch(field, rows, quanta, n, patch, cone_bits):
    """Return the largest interpolated amplitude of a patch within a cone, and its direction."""
    bits = cone_bits | (cone_bits >> PAIR)
    value, slot = largest_slot(field.quantised, rows, quanta, n, patch, bits)
    return value, patch * PATCH_SIZE + slot


@inlined
def largest_interpolated(field, rows, quanta, n, i):
    """Return the direction j of the largest interpolated amplitude in the cone of i, or -1.

    Of equal amplitudes the first counts. The patch of i comes first, because it mostly has the
    largest; others are skipped where their maximum, interpolated, is below the largest so far.
    """
    cone = field.cone[i]
    n_half = field.directions.shape[0] // 2
    own = (i - n_half if i >= n_half else i) >> SLOT_BITS
    best = np.int64(-1)
    largest = np.float32(-1)
    if own < cone.shape[0]:
        largest, best = largest_in_patch(field, rows, quanta, n, own, cone[own])
    for group in range(field.patch_maxima.shape[1]):
        left = slots_at_least(field.patch_maxima, rows, quanta, n, group, largest)
        while left:
            patch = group * PATCH_SIZE + lowest_bit(left)
            left &= left - BIT
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
    """Return the direction, of the full set, of the largest amplitude in the cone of i.

    Where there is none, returns minus the reason why the streamline stops.
    """
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
    if sides == 3:  # where both signs lie in the cone, the one nearer to i
        a, b = field.directions[i], field.directions[j]
        sides = 1 if a[0] * b[0] + a[1] * b[1] + a[2] * b[2] >= ZERO else 2
    return j + n_half if sides == 2 else j


@compiled
def largest_start(field, settings, rows, quanta, n, stream):
    """Return the direction of the largest amplitude at a seed, of random sign; -1 without one."""
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
    return j + n_directions // 2 if r0 & np.uint64(1) else j


@inlined
def deterministic_direction(
    field, settings, scratch, rows, n, i, ux, uy, uz, limit, stream, step, purpose
):
    """Choose the direction of the largest amplitude; see the table of algorithms."""
    i = best_direction(field, settings, rows, scratch.quanta, n, i, limit)
    return i, ux, uy, uz, settings.step
