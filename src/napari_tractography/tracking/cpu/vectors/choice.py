"""The next direction among the peaks, or by the tensors, of the voxels around a point.

Peaks are followed as they are. With trilinear interpolation the FOD is that of the eight voxels'
peaks, each weighing by its voxel: "drawn" takes one of those in the cone in proportion to weight
times amplitude. The others turn to the weighted sum of one peak of each voxel, that nearest to a
direction, and stop where it leaves the cone: "nearest" sums along the current direction (as EuDX
does, Garyfallidis, PhD thesis, Cambridge 2012; in the nearest voxel alone it is FACT, Mori et al.,
Ann. Neurol. 45, 1999), "largest" along each peak, and takes the largest sum in the cone. For
"followed" see :mod:`.following`. Tensors are interpolated, and the main eigenvector of that is
followed (Basser et al., MRM 44, 2000).

Twin of ``cuda/vectors.h``: the same order of float32 operations. Called by :mod:`.kernel`.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import bound, compiled, inlined
from ...codes import (
    ALIGNED,
    AMONG_DRAWN,
    AMONG_FOLLOWED,
    AMONG_LARGEST,
    AMONG_NEAREST,
    EDGE_VOXEL,
    LOW_AMPLITUDE,
    LOW_PROBABILITY,
    NO_FOD,
    SHARP_TURN,
    START_MAX,
    UNIT_24,
)
from ..cells import HALF, ONE, ZERO, corner_weight, to_voxel
from ..draw import NONE, philox_block
from ..lanes import N_LANES, booleans_of, filled, load, load_from
from ..llvm import bits_of, lowest_bit, select
from ..memory import store, store_to
from .eigenvectors import main_eigenvector
from .field import BLOCK_MISSING, ROW_MISSING, SLOT_MISSING
from .following import begin_to_follow, follow

THREE_HALVES, THIRD = np.float32(1.5), np.float32(1 / 3)
BITS_8 = np.uint64(8)
BIT = np.uint32(1)
ALL_AROUND = np.float32(-1)  # in place of the cosine of a cone


@inlined
def row_of(field, x, y, z):
    """Return the row of a voxel of the image, -1 where it is empty."""
    return np.int64(field.voxel_rows[x, y, z])


@inlined
def row_in_blocks(field, x, y, z):
    """Return the row of a voxel, -1 where it is empty, ROW_MISSING without its block."""
    bits = field.block_bits
    bx, by, bz = x >> bits, y >> bits, z >> bits
    if not field.touched[bx, by, bz]:  # not written again and again: threads share it
        field.touched[bx, by, bz] = 1
    slot = np.int64(field.slots[bx, by, bz])
    if slot < 0:
        return np.int64(ROW_MISSING if slot == SLOT_MISSING else -1)
    low = (np.int64(1) << bits) - 1
    row = (((slot << bits | (x & low)) << bits | (y & low)) << bits) | (z & low)
    if (
        field.vectors[row, 0] == ZERO
        and field.vectors[row, 1] == ZERO
        and field.vectors[row, 2] == ZERO
    ):
        return np.int64(-1)
    return row


def arrive_by(field, settings, state, n_corners, lane):
    """Find the voxels around the last point of a lane; return whether it stops, with a reason."""
    x, y, z = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
    half = HALF if n_corners == 1 else ZERO
    floor_x, floor_y, floor_z = np.floor(x + half), np.floor(y + half), np.floor(z + half)
    fx, fy, fz = x - floor_x, y - floor_y, z - floor_z
    ix, iy, iz = np.int64(floor_x), np.int64(floor_y), np.int64(floor_z)
    nx, ny, nz = field.voxel_rows.shape
    nearest = (4 if fx >= HALF else 0) | (2 if fy >= HALF else 0) | (1 if fz >= HALF else 0)
    has_any, has_nearest, is_missing = False, False, False
    cells = state.cells_ahead  # of the rows; no lane looks ahead here
    is_other = cells[0, lane] != ix or cells[1, lane] != iy or cells[2, lane] != iz
    cells[0, lane], cells[1, lane], cells[2, lane] = ix, iy, iz
    for k in range(n_corners):
        if is_other:
            cx, cy, cz = ix + (k >> 2), iy + ((k >> 1) & 1), iz + (k & 1)
            is_inside = 0 <= cx < nx and 0 <= cy < ny and 0 <= cz < nz
            state.lane_rows[lane, k] = row_of(field, cx, cy, cz) if is_inside else np.int64(-1)
        row = state.lane_rows[lane, k]
        if row == ROW_MISSING:
            state.reason[lane] = BLOCK_MISSING
            is_missing = True
        state.corner_weights[k, lane] = corner_weight(k, fx, fy, fz) if n_corners > 1 else ONE
        if row >= 0:
            has_any = True
            if n_corners == 1 or k == nearest:
                has_nearest = True
    if is_missing:
        return True
    if not has_any or (settings.edge == EDGE_VOXEL and not has_nearest):
        state.reason[lane] = NO_FOD
        return True
    return False


arrive = inlined(arrive_by)
arrive_in_blocks = inlined(bound(arrive_by, row_of=row_in_blocks))


@inlined
def next_vectors(field, settings, state, n_corners, lanes):
    """Turn a set of lanes to their next directions; return those that stop, with a reason."""
    if field.is_tensor:
        return turn_to_eigenvectors(field, settings, state, n_corners, lanes)
    among, cosine = settings.among_vectors, settings.cone_cosine
    followed = among == AMONG_FOLLOWED
    ended, left = NONE, lanes
    while left and (not followed or settings.min_probability > ZERO):
        lane = lowest_bit(left)
        left &= left - BIT
        reason = 0
        if followed:
            total, ahead, _ = masses(field, state, n_corners, lane, cosine)
            if not ahead > settings.min_probability * total:
                reason = LOW_PROBABILITY
        else:
            word = random_word(settings, state, lane)
            reason = choose(field, settings, state, n_corners, lane, among, cosine, word)
        if reason:
            state.reason[lane] = reason
            ended |= BIT << np.uint32(lane)
    if followed:  # of what has too little of its FOD ahead, too: where it is low, that is why
        ended |= follow(field, settings, state, n_corners, lanes)
    return ended


@inlined
def random_word(settings, state, lane):
    """Return the random number of the next step of a lane, 24 bits as a float32 from 0 to 1."""
    word, _, _, _ = philox_block(
        np.uint64(state.stream[lane]),
        np.uint64(state.steps[lane]),
        np.uint64(0),
        np.uint64(state.purpose[lane]),
        settings.key_0,
        settings.key_1,
    )
    return np.float32(np.int64(word >> BITS_8)) * UNIT_24


@compiled
def choose(field, settings, state, n_corners, lane, among, cosine, word):
    """Turn a lane to the next direction; return the reason to stop, or 0."""
    if field.is_tensor:
        return turn_to_eigenvector(field, settings, state, n_corners, lane, cosine)
    total, ahead, amplitude = masses(field, state, n_corners, lane, cosine)
    if not total > ZERO:
        return NO_FOD
    if among == AMONG_DRAWN:
        if not ahead > settings.min_probability * total:
            return LOW_PROBABILITY
        if amplitude < settings.min_amplitude:
            return LOW_AMPLITUDE
        turn_to_drawn(field, state, n_corners, lane, cosine, word * ahead)
        return 0
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    if among == AMONG_NEAREST:
        x, y, z = sum_along(field, state, n_corners, lane, cosine, ux, uy, uz)
        return turn_to(settings, state, lane, x, y, z, cosine, total)
    x, y, z = largest_sum(field, state, n_corners, lane, cosine)
    return turn_to(settings, state, lane, x, y, z, cosine, total)


@compiled
def largest_sum(field, state, n_corners, lane, cosine):
    """Return the largest of the sums along peaks that lies in the cone of a lane.

    Of peaks in the cone, or within 60 degrees where that is more.
    """
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    numbers, n, aligned = state.coefficients, 0, min(cosine, ALIGNED)
    found = ZERO, ZERO, ZERO, ZERO
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        for j in range(0, field.vectors.shape[1] if row >= 0 else 0, 3):
            x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
            size = np.sqrt(x * x + y * y + z * z)
            along = ux * x + uy * y + uz * z
            if not size > ZERO or abs(along) < aligned * size:
                continue
            scale = (-ONE if along < ZERO else ONE) / size
            numbers[0, n], numbers[1, n], numbers[2, n] = scale * x, scale * y, scale * z
            n += 1
            if n == N_LANES:
                found = larger_sum(field, state, n_corners, lane, cosine, n, found)
                n = 0
    if n:
        found = larger_sum(field, state, n_corners, lane, cosine, n, found)
    return found[0], found[1], found[2]


@compiled
def larger_sum(field, state, n_corners, lane, cosine, n, found):
    """Return a sum and its length, or that along one of n peaks if it is longer; of a lane.

    The peaks are in the first three rows of ``state.coefficients``, and summed along side by side;
    see `sum_along`.
    """
    numbers, aligned = state.coefficients, min(cosine, ALIGNED)
    rx, ry, rz = (
        load_from(numbers, 0),
        load_from(numbers, N_LANES),
        load_from(numbers, 2 * N_LANES),
    )
    sx, sy, sz = filled(ZERO), filled(ZERO), filled(ZERO)
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        if row < 0:
            continue
        weight, nearest = state.corner_weights[k, lane], filled(aligned)
        px, py, pz = filled(ZERO), filled(ZERO), filled(ZERO)
        for j in range(0, field.vectors.shape[1], 3):
            x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
            size = np.sqrt(x * x + y * y + z * z)
            if not size > ZERO:
                continue
            along = rx * x + ry * y + rz * z
            far = select(along < ZERO, ZERO - along, along)
            is_near = far > nearest * size
            nearest = select(is_near, far / size, nearest)
            scale = select(along < ZERO, filled(-weight), weight)
            px = select(is_near, scale * x, px)
            py = select(is_near, scale * y, py)
            pz = select(is_near, scale * z, pz)
        sx, sy, sz = sx + px, sy + py, sz + pz
    store_to(numbers, 3 * N_LANES, sx)
    store_to(numbers, 4 * N_LANES, sy)
    store_to(numbers, 5 * N_LANES, sz)
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    for i in range(n):
        x, y, z = numbers[3, i], numbers[4, i], numbers[5, i]
        size = np.sqrt(x * x + y * y + z * z)
        if size > found[3] and ux * x + uy * y + uz * z >= cosine * size:
            found = x, y, z, size
    return found


@inlined
def masses(field, state, n_corners, lane, cosine):
    """Return what all peaks weigh, what those in the cone of a lane do, and their amplitude.

    That is the mean over the voxels of the largest in each.
    """
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    total, ahead, amplitude = ZERO, ZERO, ZERO
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        if row < 0:
            continue
        weight, largest = state.corner_weights[k, lane], ZERO
        for j in range(0, field.vectors.shape[1], 3):
            x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
            size = np.sqrt(x * x + y * y + z * z)
            total += weight * size
            if not size > ZERO or abs(ux * x + uy * y + uz * z) < cosine * size:
                continue
            ahead += weight * size
            if size > largest:
                largest = size
        amplitude += weight * largest
    return total, ahead, amplitude


@inlined
def turn_to_drawn(field, state, n_corners, lane, cosine, until):
    """Turn a lane to the peak in its cone at which the sum of the weights exceeds a number."""
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    so_far, found = ZERO, False
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        if row < 0:
            continue
        weight = state.corner_weights[k, lane]
        for j in range(0, field.vectors.shape[1], 3):
            x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
            size = np.sqrt(x * x + y * y + z * z)
            along = ux * x + uy * y + uz * z
            if found or not weight * size > ZERO or abs(along) < cosine * size:
                continue
            so_far += weight * size
            scale = (-ONE if along < ZERO else ONE) / size
            state.ux[lane], state.uy[lane], state.uz[lane] = scale * x, scale * y, scale * z
            found = so_far > until


@compiled
def sum_along(field, state, n_corners, lane, cosine, rx, ry, rz):
    """Return the weighted sum of the peaks nearest to a direction, one of each voxel.

    Peaks further from it than the cone is wide, or than 60 degrees where that is more, are left
    out.
    """
    sx, sy, sz = ZERO, ZERO, ZERO
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        if row < 0:
            continue
        weight, nearest = state.corner_weights[k, lane], min(cosine, ALIGNED)
        px, py, pz = ZERO, ZERO, ZERO
        for j in range(0, field.vectors.shape[1], 3):
            x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
            size = np.sqrt(x * x + y * y + z * z)
            along = rx * x + ry * y + rz * z
            if size > ZERO and abs(along) > nearest * size:
                nearest = abs(along) / size
                scale = -weight if along < ZERO else weight
                px, py, pz = scale * x, scale * y, scale * z
        sx, sy, sz = sx + px, sy + py, sz + pz
    return sx, sy, sz


@inlined
def turn_to(settings, state, lane, x, y, z, cosine, total):
    """Turn a lane along a sum of peaks, whose length is the amplitude.

    `total` is what all peaks weigh. Returns the reason to stop, or 0.
    """
    size = np.sqrt(x * x + y * y + z * z)
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    if not size > ZERO or ux * x + uy * y + uz * z < cosine * size:
        return SHARP_TURN
    if size < settings.min_amplitude:
        return LOW_AMPLITUDE
    if not size > settings.min_probability * total:
        return LOW_PROBABILITY
    state.ux[lane], state.uy[lane], state.uz[lane] = x / size, y / size, z / size
    return 0


@inlined
def mixed_tensor(field, settings, state, n_corners, lane):
    """Return the interpolated tensor, of trace 1, after the reason to stop there, or 0."""
    xx, yy, zz, xy, xz, yz = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        if row < 0:
            continue
        weight = state.corner_weights[k, lane]
        xx += weight * field.vectors[row, 0]
        yy += weight * field.vectors[row, 1]
        zz += weight * field.vectors[row, 2]
        xy += weight * field.vectors[row, 3]
        xz += weight * field.vectors[row, 4]
        yz += weight * field.vectors[row, 5]
    trace = xx + yy + zz
    if not trace > ZERO:
        return NO_FOD, xx, yy, zz, xy, xz, yz
    xx, yy, zz = xx / trace, yy / trace, zz / trace
    xy, xz, yz = xy / trace, xz / trace, yz / trace
    squares = xx * xx + yy * yy + zz * zz
    squares = squares + (xy * xy + xz * xz + yz * yz) + (xy * xy + xz * xz + yz * yz)
    anisotropy = THREE_HALVES * (ONE - THIRD / squares)  # the square of the FA
    if not anisotropy > ZERO or np.sqrt(anisotropy) < settings.min_amplitude:
        return LOW_AMPLITUDE, xx, yy, zz, xy, xz, yz
    return 0, xx, yy, zz, xy, xz, yz


@compiled
def turn_to_eigenvectors(field, settings, state, n_corners, lanes):
    """Turn a set of lanes to the main eigenvectors of their tensors, whose amplitude is the FA.

    Returns those that stop, with a reason.
    """
    numbers, ended, left = state.coefficients, NONE, lanes
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        reason, xx, yy, zz, xy, xz, yz = mixed_tensor(field, settings, state, n_corners, lane)
        numbers[0, lane], numbers[1, lane], numbers[2, lane] = xx, yy, zz
        numbers[3, lane], numbers[4, lane], numbers[5, lane] = xy, xz, yz
        if reason:
            state.reason[lane] = reason
            ended |= BIT << np.uint32(lane)
    x, y, z = main_eigenvector(
        load_from(numbers, 0),
        load_from(numbers, N_LANES),
        load_from(numbers, 2 * N_LANES),
        load_from(numbers, 3 * N_LANES),
        load_from(numbers, 4 * N_LANES),
        load_from(numbers, 5 * N_LANES),
    )
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    along = ux * x + uy * y + uz * z
    sign = select(along < ZERO, filled(-ONE), ONE)
    sharp = lanes & ~ended & bits_of(sign * along < settings.cone_cosine)
    store(state.reason, select(booleans_of(sharp), np.int32(SHARP_TURN), load(state.reason)))
    ended |= sharp
    where = booleans_of(lanes & ~ended)
    store(state.ux, select(where, sign * x, ux))
    store(state.uy, select(where, sign * y, uy))
    store(state.uz, select(where, sign * z, uz))
    return ended


@compiled
def turn_to_eigenvector(field, settings, state, n_corners, lane, cosine):
    """Turn a lane to the main eigenvector; return the reason to stop, or 0."""
    reason, xx, yy, zz, xy, xz, yz = mixed_tensor(field, settings, state, n_corners, lane)
    if reason:
        return reason
    x, y, z = main_eigenvector(xx, yy, zz, xy, xz, yz)
    along = state.ux[lane] * x + state.uy[lane] * y + state.uz[lane] * z
    if abs(along) < cosine:
        return SHARP_TURN
    sign = -ONE if along < ZERO else ONE
    state.ux[lane], state.uy[lane], state.uz[lane] = sign * x, sign * y, sign * z
    return 0


@inlined
def begin_along(field, settings, state, n_corners, lane):
    """Find the start direction of a lane, where seeds have none; return whether there is one.

    It is drawn from all peaks, or that of the largest; its sign is drawn, too. For "nearest" it is
    then the sum of the peaks nearest to it; of "followed" peaks some are left out.
    """
    word, _, _, _ = philox_block(
        np.uint64(state.stream[lane]),
        np.uint64(0),
        np.uint64(1),
        np.uint64(state.purpose[lane]),
        settings.key_0,
        settings.key_1,
    )
    drawn = random_word(settings, state, lane)
    among = AMONG_LARGEST if settings.start == START_MAX else AMONG_DRAWN
    if settings.among_vectors == AMONG_FOLLOWED:
        if not begin_to_follow(field, settings, state, n_corners, lane, drawn):
            return False
    elif choose(field, settings, state, n_corners, lane, among, ALL_AROUND, drawn):
        return False
    if word & np.uint64(1):
        ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
        state.ux[lane], state.uy[lane], state.uz[lane] = -ux, -uy, -uz
    if not field.is_tensor and settings.among_vectors == AMONG_NEAREST:
        among = AMONG_NEAREST
        return not choose(field, settings, state, n_corners, lane, among, ALL_AROUND, ZERO)
    return True
