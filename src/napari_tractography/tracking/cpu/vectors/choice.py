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
from ..draw import philox_block
from .eigenvectors import main_eigenvector
from .field import BLOCK_MISSING, ROW_MISSING, SLOT_MISSING
from .following import begin_to_follow, follow

THREE_HALVES, THIRD = np.float32(1.5), np.float32(1 / 3)
BITS_8 = np.uint64(8)
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


def arrive_by(field, settings, scratch, state, n_corners, bit):
    """Find the voxels around the last point of lane 0; return whether it stops, with a reason."""
    x, y, z = to_voxel(field.to_voxel, state.x[0], state.y[0], state.z[0])
    half = HALF if n_corners == 1 else ZERO
    floor_x, floor_y, floor_z = np.floor(x + half), np.floor(y + half), np.floor(z + half)
    fx, fy, fz = x - floor_x, y - floor_y, z - floor_z
    ix, iy, iz = np.int64(floor_x), np.int64(floor_y), np.int64(floor_z)
    nx, ny, nz = field.voxel_rows.shape
    nearest = (4 if fx >= HALF else 0) | (2 if fy >= HALF else 0) | (1 if fz >= HALF else 0)
    has_any, has_nearest, is_missing = False, False, False
    for k in range(n_corners):
        cx, cy, cz = ix + (k >> 2), iy + ((k >> 1) & 1), iz + (k & 1)
        row = np.int64(-1)
        if 0 <= cx < nx and 0 <= cy < ny and 0 <= cz < nz:
            row = row_of(field, cx, cy, cz)
        if row == ROW_MISSING:
            state.reason[0] = BLOCK_MISSING
            is_missing = True
        state.lane_rows[0, k] = row
        state.corner_weights[k, 0] = corner_weight(k, fx, fy, fz) if n_corners > 1 else ONE
        if row >= 0:
            has_any = True
            if n_corners == 1 or k == nearest:
                has_nearest = True
    if is_missing:
        return True
    if not has_any or (settings.edge == EDGE_VOXEL and not has_nearest):
        state.reason[0] = NO_FOD
        return True
    return False


arrive = inlined(arrive_by)
arrive_in_blocks = inlined(bound(arrive_by, row_of=row_in_blocks))


@inlined
def next_vector(field, settings, state, n_corners):
    """Choose the next direction of lane 0; return the reason to stop, or 0."""
    if settings.among_vectors == AMONG_FOLLOWED:
        is_little = False
        if settings.min_probability > ZERO:
            total, ahead, _ = masses(field, state, n_corners, settings.cone_cosine)
            is_little = not ahead > settings.min_probability * total
        reason = follow(field, settings, state, n_corners)
        return LOW_PROBABILITY if is_little and not reason else reason
    word = random_word(settings, state)
    return choose(
        field, settings, state, n_corners, settings.among_vectors, settings.cone_cosine, word
    )


@inlined
def random_word(settings, state):
    """Return the random number of the next step, 24 bits as a float32 from 0 to 1."""
    word, _, _, _ = philox_block(
        np.uint64(state.stream[0]),
        np.uint64(state.steps[0]),
        np.uint64(0),
        np.uint64(state.purpose[0]),
        settings.key_0,
        settings.key_1,
    )
    return np.float32(np.int64(word >> BITS_8)) * UNIT_24


@compiled
def choose(field, settings, state, n_corners, among, cosine, word):
    """Turn lane 0 to the next direction; return the reason to stop, or 0."""
    if field.is_tensor:
        return turn_to_eigenvector(field, settings, state, n_corners, cosine)
    total, ahead, amplitude = masses(field, state, n_corners, cosine)
    if not total > ZERO:
        return NO_FOD
    if among == AMONG_DRAWN:
        if not ahead > settings.min_probability * total:
            return LOW_PROBABILITY
        if amplitude < settings.min_amplitude:
            return LOW_AMPLITUDE
        turn_to_drawn(field, state, n_corners, cosine, word * ahead)
        return 0
    ux, uy, uz = state.ux[0], state.uy[0], state.uz[0]
    if among == AMONG_NEAREST:
        x, y, z = sum_along(field, state, n_corners, cosine, ux, uy, uz)
        return turn_to(settings, state, x, y, z, cosine, total)
    sx, sy, sz, most = ZERO, ZERO, ZERO, ZERO
    aligned = min(cosine, ALIGNED)
    for k in range(n_corners):
        row = state.lane_rows[0, k]
        for j in range(0, field.vectors.shape[1] if row >= 0 else 0, 3):
            x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
            size = np.sqrt(x * x + y * y + z * z)
            along = ux * x + uy * y + uz * z
            if not size > ZERO or abs(along) < aligned * size:
                continue
            scale = (-ONE if along < ZERO else ONE) / size
            x, y, z = sum_along(field, state, n_corners, cosine, scale * x, scale * y, scale * z)
            size = np.sqrt(x * x + y * y + z * z)
            if size > most and ux * x + uy * y + uz * z >= cosine * size:
                sx, sy, sz, most = x, y, z, size
    return turn_to(settings, state, sx, sy, sz, cosine, total)


@inlined
def masses(field, state, n_corners, cosine):
    """Return what all peaks weigh, what those in the cone of lane 0 do, and their amplitude.

    That is the mean over the voxels of the largest in each.
    """
    ux, uy, uz = state.ux[0], state.uy[0], state.uz[0]
    total, ahead, amplitude = ZERO, ZERO, ZERO
    for k in range(n_corners):
        row = state.lane_rows[0, k]
        if row < 0:
            continue
        weight, largest = state.corner_weights[k, 0], ZERO
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
def turn_to_drawn(field, state, n_corners, cosine, until):
    """Turn lane 0 to the peak in its cone at which the sum of the weights exceeds a number."""
    ux, uy, uz = state.ux[0], state.uy[0], state.uz[0]
    so_far, found = ZERO, False
    for k in range(n_corners):
        row = state.lane_rows[0, k]
        if row < 0:
            continue
        weight = state.corner_weights[k, 0]
        for j in range(0, field.vectors.shape[1], 3):
            x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
            size = np.sqrt(x * x + y * y + z * z)
            along = ux * x + uy * y + uz * z
            if found or not weight * size > ZERO or abs(along) < cosine * size:
                continue
            so_far += weight * size
            scale = (-ONE if along < ZERO else ONE) / size
            state.ux[0], state.uy[0], state.uz[0] = scale * x, scale * y, scale * z
            found = so_far > until


@compiled
def sum_along(field, state, n_corners, cosine, rx, ry, rz):
    """Return the weighted sum of the peaks nearest to a direction, one of each voxel.

    Peaks further from it than the cone is wide, or than 60 degrees where that is more, are left
    out.
    """
    sx, sy, sz = ZERO, ZERO, ZERO
    for k in range(n_corners):
        row = state.lane_rows[0, k]
        if row < 0:
            continue
        weight, nearest = state.corner_weights[k, 0], min(cosine, ALIGNED)
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
def turn_to(settings, state, x, y, z, cosine, total):
    """Turn lane 0 along a sum of peaks, whose length is the amplitude.

    `total` is what all peaks weigh. Returns the reason to stop, or 0.
    """
    size = np.sqrt(x * x + y * y + z * z)
    ux, uy, uz = state.ux[0], state.uy[0], state.uz[0]
    if not size > ZERO or ux * x + uy * y + uz * z < cosine * size:
        return SHARP_TURN
    if size < settings.min_amplitude:
        return LOW_AMPLITUDE
    if not size > settings.min_probability * total:
        return LOW_PROBABILITY
    state.ux[0], state.uy[0], state.uz[0] = x / size, y / size, z / size
    return 0


@compiled
def turn_to_eigenvector(field, settings, state, n_corners, cosine):
    """Turn lane 0 to the main eigenvector of the interpolated tensor, whose amplitude is its FA."""
    xx, yy, zz, xy, xz, yz = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    for k in range(n_corners):
        row = state.lane_rows[0, k]
        if row < 0:
            continue
        weight = state.corner_weights[k, 0]
        xx += weight * field.vectors[row, 0]
        yy += weight * field.vectors[row, 1]
        zz += weight * field.vectors[row, 2]
        xy += weight * field.vectors[row, 3]
        xz += weight * field.vectors[row, 4]
        yz += weight * field.vectors[row, 5]
    trace = xx + yy + zz
    if not trace > ZERO:
        return NO_FOD
    xx, yy, zz = xx / trace, yy / trace, zz / trace
    xy, xz, yz = xy / trace, xz / trace, yz / trace
    squares = xx * xx + yy * yy + zz * zz
    squares = squares + (xy * xy + xz * xz + yz * yz) + (xy * xy + xz * xz + yz * yz)
    anisotropy = THREE_HALVES * (ONE - THIRD / squares)  # the square of the FA
    if not anisotropy > ZERO or np.sqrt(anisotropy) < settings.min_amplitude:
        return LOW_AMPLITUDE
    x, y, z = main_eigenvector(xx, yy, zz, xy, xz, yz)
    along = state.ux[0] * x + state.uy[0] * y + state.uz[0] * z
    if abs(along) < cosine:
        return SHARP_TURN
    sign = -ONE if along < ZERO else ONE
    state.ux[0], state.uy[0], state.uz[0] = sign * x, sign * y, sign * z
    return 0


@inlined
def begin_along(field, settings, state, n_corners):
    """Find the start direction of lane 0, where seeds have none; return whether there is one.

    It is drawn from all peaks, or that of the largest; its sign is drawn, too. For "nearest" it is
    then the sum of the peaks nearest to it; of "followed" peaks some are left out.
    """
    word, _, _, _ = philox_block(
        np.uint64(state.stream[0]),
        np.uint64(0),
        np.uint64(1),
        np.uint64(state.purpose[0]),
        settings.key_0,
        settings.key_1,
    )
    drawn = random_word(settings, state)
    among = AMONG_LARGEST if settings.start == START_MAX else AMONG_DRAWN
    if settings.among_vectors == AMONG_FOLLOWED:
        if not begin_to_follow(field, settings, state, n_corners, drawn):
            return False
    elif choose(field, settings, state, n_corners, among, ALL_AROUND, drawn):
        return False
    if word & np.uint64(1):
        state.ux[0], state.uy[0], state.uz[0] = -state.ux[0], -state.uy[0], -state.uz[0]
    if not field.is_tensor and settings.among_vectors == AMONG_NEAREST:
        return not choose(field, settings, state, n_corners, AMONG_NEAREST, ALL_AROUND, ZERO)
    return True
