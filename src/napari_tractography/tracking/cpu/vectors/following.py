"""Peaks followed up the gradient of an FOD that they make: diffusion's dynamics without noise.

Along u it is the weighted sum, over the voxels around a point, of a c^8: in each voxel a is the
length of the peak nearest to u, and c the cosine of their angle, of 60 degrees at most. So one peak
of each voxel turns a line, and those of a bundle that crosses at a small angle do not draw it
aside, as they do in the sum of all lobes.

Twin of ``cuda/following.h``: the same order of float32 operations. Called by :mod:`.choice`.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import compiled, inlined
from ...codes import ALIGNED, LONGEST_PART, LOW_AMPLITUDE, START_MAX
from ..cells import ONE, ZERO, to_voxel
from ..drift import adaptive_step, along_axes, growth, turned
from ..lanes import N_LANES, booleans_of, filled, load, load_from
from ..llvm import bits_of, floors, lowest_bit, select
from ..memory import store
from ..sphere.tangents import onto_border, tangents

BIT = np.uint32(1)
EIGHT, FIFTY_SIX = np.float32(8), np.float32(56)


@inlined
def nearest_peak(field, row, ux, uy, uz):
    """Return the peak of a voxel that is nearest to a direction.

    Returns
    -------
    x, y, z : float32
        Its direction, turned to that side.
    size : float32
        Its length, 0 where none is near enough.
    cosine : float32
    """
    px, py, pz, nearest_size, nearest = ZERO, ZERO, ZERO, ZERO, ALIGNED
    for j in range(0, field.vectors.shape[1], 3):
        x, y, z = field.vectors[row, j], field.vectors[row, j + 1], field.vectors[row, j + 2]
        size = np.sqrt(x * x + y * y + z * z)
        along = ux * x + uy * y + uz * z
        if size > ZERO and abs(along) > nearest * size:
            nearest, nearest_size = abs(along) / size, size
            scale = (-ONE if along < ZERO else ONE) / size
            px, py, pz = scale * x, scale * y, scale * z
    return px, py, pz, nearest_size, nearest


@inlined
def to_the_eighth(cosine):
    """Return a number to the power of eight."""
    square = cosine * cosine
    fourth = square * square
    return fourth * fourth


@compiled
def amplitude_along(field, state, n_corners, lane, ux, uy, uz):
    """Return the FOD along a direction, at the last point of a lane."""
    value = ZERO
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        if row < 0:
            continue
        _, _, _, size, cosine = nearest_peak(field, row, ux, uy, uz)
        value += state.corner_weights[k, lane] * (size * to_the_eighth(cosine))
    return value


@compiled
def sum_of_peaks(field, state, n_corners, lane, ahead):
    """Write the FOD along the direction of a lane and its derivatives to ``state.coefficients``.

    In rows: the sum of the lobes, their sums with the factors of first and second derivatives, and,
    where it is not 0, what is seen so many mm `ahead`: that times the gradient of the FOD in space.
    """
    numbers, ux, uy, uz = state.coefficients, state.ux[lane], state.uy[lane], state.uz[lane]
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    value, ga, gb, haa, hab, hbb = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    gx, gy, gz = ZERO, ZERO, ZERO  # per voxel; of eight voxels
    vx, vy, vz = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
    fx, fy, fz = vx - np.floor(vx), vy - np.floor(vy), vz - np.floor(vz)
    for k in range(n_corners):
        row = state.lane_rows[lane, k]
        if row < 0:
            continue
        weight = state.corner_weights[k, lane]
        x, y, z, size, cosine = nearest_peak(field, row, ux, uy, uz)
        square = cosine * cosine
        sixth = square * square * square
        along = size * to_the_eighth(cosine)
        value += weight * along
        first, second = weight * size * (sixth * cosine), weight * size * sixth
        pa, pb = x * ax + y * ay + z * az, x * bx + y * by + z * bz
        ga += first * pa
        gb += first * pb
        haa += second * pa * pa
        hab += second * pa * pb
        hbb += second * pb * pb
        if ahead > ZERO:
            wx = fx if k >> 2 else ONE - fx
            wy = fy if (k >> 1) & 1 else ONE - fy
            wz = fz if k & 1 else ONE - fz
            gx += (along if k >> 2 else -along) * wy * wz
            gy += (along if (k >> 1) & 1 else -along) * wx * wz
            gz += (along if k & 1 else -along) * wx * wy
    numbers[0, lane], numbers[1, lane], numbers[2, lane] = value, ga, gb
    numbers[3, lane], numbers[4, lane], numbers[5, lane] = haa, hab, hbb
    if ahead > ZERO:
        matrix = field.to_voxel
        for axis in range(3):
            slope = matrix[0, axis] * gx + matrix[1, axis] * gy + matrix[2, axis] * gz
            numbers[6 + axis, lane] = ahead * slope


@inlined
def log_of_peaks(field, state, n_corners, lanes, ahead, ux, uy, uz, sx, sy, sz):
    """Return the FOD along the directions of lanes, and derivatives of its logarithm.

    See `along_axes`. A vector is added to its gradient: what is seen so many mm `ahead`, or s where
    that is 0. It comes last.
    """
    left = lanes
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        sum_of_peaks(field, state, n_corners, lane, ahead)
    numbers = state.coefficients
    if ahead > ZERO:
        sx, sy = load_from(numbers, 6 * N_LANES), load_from(numbers, 7 * N_LANES)
        sz = load_from(numbers, 8 * N_LANES)
    value = load_from(numbers, 0)
    ga, gb = load_from(numbers, N_LANES), load_from(numbers, 2 * N_LANES)
    haa, hab = load_from(numbers, 3 * N_LANES), load_from(numbers, 4 * N_LANES)
    hbb = load_from(numbers, 5 * N_LANES)
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    down = EIGHT * value  # the sphere bends away from its tangents
    sa, sb = sx * ax + sy * ay + sz * az, sx * bx + sy * by + sz * bz
    found = along_axes(
        value, EIGHT * ga, EIGHT * gb, FIFTY_SIX * haa - down, FIFTY_SIX * hab,
        FIFTY_SIX * hbb - down, sa, sb, ax, ay, az, bx, by, bz,
    )  # fmt: skip
    return found, (sx, sy, sz)


@inlined
def face(state, lanes, ux, uy, uz):
    """Turn a set of lanes."""
    where = booleans_of(lanes)
    store(state.ux, select(where, ux, load(state.ux)))
    store(state.uy, select(where, uy, load(state.uy)))
    store(state.uz, select(where, uz, load(state.uz)))


@compiled
def follow(field, settings, state, n_corners, lanes):
    """Turn a set of lanes by one step of the dynamics, of a length for ``state.step``.

    Returns those that stop, with a reason.
    """
    first_x, first_y, first_z = load(state.ux), load(state.uy), load(state.uz)
    ux, uy, uz, none = first_x, first_y, first_z, filled(ZERO)
    ahead = settings.look_ahead if n_corners > 1 else ZERO
    found, seen = log_of_peaks(field, state, n_corners, lanes, ahead, ux, uy, uz, none, none, none)
    value, ax, ay, az, bx, by, bz, ga, gb, ha, hb, _, _ = found
    low = lanes & ~bits_of((value >= settings.min_amplitude) & (value > ZERO))
    store(state.reason, select(booleans_of(low), np.int32(LOW_AMPLITUDE), load(state.reason)))
    lanes &= ~low
    step = filled(settings.step)
    if settings.adaptive:
        step = adaptive_step(settings, ga, gb)
        store(state.step, select(booleans_of(lanes), step, load(state.step)))
    left = settings.gamma * step
    n_parts = ZERO - floors(ZERO - left / LONGEST_PART)
    time = left / select(n_parts > ONE, n_parts, ONE)
    part, going = ZERO, lanes
    while True:
        going &= bits_of(n_parts > part)
        if not going:
            break
        if part > ZERO:
            face(state, going, ux, uy, uz)
            found, _ = log_of_peaks(field, state, n_corners, going, ZERO, ux, uy, uz, *seen)
            value, ax, ay, az, bx, by, bz, ga, gb, ha, hb, _, _ = found
            going &= bits_of(value > ZERO)
        a, b = ga * growth(ha, time), gb * growth(hb, time)
        tx, ty, tz = a * ax + b * bx, a * ay + b * by, a * az + b * bz
        x, y, z, angle = turned(ux, uy, uz, tx, ty, tz)
        where = booleans_of(going) & (angle > ZERO)
        ux, uy, uz = select(where, x, ux), select(where, y, uy), select(where, z, uz)
        part += ONE
    cosine, sine = settings.cone_cosine, settings.cone_sine
    outside = first_x * ux + first_y * uy + first_z * uz < cosine
    x, y, z = onto_border(first_x, first_y, first_z, cosine, sine, ux, uy, uz)
    face(state, lanes, select(outside, x, ux), select(outside, y, uy), select(outside, z, uz))
    return low


@compiled
def begin_to_follow(field, settings, state, n_corners, lane, word):
    """Turn a lane to a peak around it along which the FOD is large enough; return whether one is.

    It is drawn in proportion to its amplitude times the weight of its voxel, or that along which
    the FOD is largest. The others are noise mostly: no peaks of the other voxels go on along them.
    """
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    total, most, until, found = ZERO, ZERO, ZERO, False
    for again in range(2):
        so_far = ZERO
        for k in range(n_corners):
            row = state.lane_rows[lane, k]
            if row < 0:
                continue
            weight = state.corner_weights[k, lane]
            for j in range(0, field.vectors.shape[1], 3):
                x, y, z = (
                    field.vectors[row, j],
                    field.vectors[row, j + 1],
                    field.vectors[row, j + 2],
                )
                size = np.sqrt(x * x + y * y + z * z)
                if found or not weight * size > ZERO:
                    continue
                scale = (-ONE if ux * x + uy * y + uz * z < ZERO else ONE) / size
                x, y, z = scale * x, scale * y, scale * z
                value = amplitude_along(field, state, n_corners, lane, x, y, z)
                if value < settings.min_amplitude or not value > ZERO:
                    continue
                so_far += weight * size
                if settings.start == START_MAX:
                    if value > most:
                        state.ux[lane], state.uy[lane], state.uz[lane], most = x, y, z, value
                elif again:
                    state.ux[lane], state.uy[lane], state.uz[lane] = x, y, z
                    found = so_far > until
        total = so_far if not again else total
        until = word * total
        if settings.start == START_MAX:
            return most > ZERO
    return total > ZERO
