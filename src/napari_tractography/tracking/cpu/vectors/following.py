"""Peaks followed up the gradient of an FOD that they make: diffusion's dynamics without noise.

Along u it is the weighted sum, over the voxels around a point, of a c^8: in each voxel a is the
length of the peak nearest to u, and c the cosine of their angle, of 60 degrees at most. So one peak
of each voxel turns a line, and those of a bundle that crosses at a small angle do not draw it
aside, as they do in the sum of all lobes.

Twin of ``cuda/following.h``: the same order of float32 operations. Called by :mod:`.choice`.
"""

from __future__ import annotations

import math

import numpy as np

from ....runtime.compiling import compiled, inlined
from ...codes import ALIGNED, LONGEST_PART, LOW_AMPLITUDE, START_MAX
from ..cells import ONE, ZERO, to_voxel
from ..drift import adaptive_step, along_axes, growth, turned
from ..sphere.tangents import onto_border, tangents

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
def amplitude_along(field, state, n_corners, ux, uy, uz):
    """Return the FOD along a direction, at the last point of lane 0."""
    value = ZERO
    for k in range(n_corners):
        row = state.lane_rows[0, k]
        if row < 0:
            continue
        _, _, _, size, cosine = nearest_peak(field, row, ux, uy, uz)
        value += state.corner_weights[k, 0] * (size * to_the_eighth(cosine))
    return value


@compiled
def log_of_peaks(field, state, n_corners, ux, uy, uz, ahead, sx, sy, sz):
    """Return the FOD along a direction, and derivatives of its logarithm; see `along_axes`.

    A vector is added to its gradient: what is seen so many mm `ahead`, by the gradient of the FOD
    in space, or s where that is 0. It comes last.
    """
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    value, ga, gb, haa, hab, hbb = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    gx, gy, gz = ZERO, ZERO, ZERO  # per voxel; of eight voxels
    vx, vy, vz = to_voxel(field.to_voxel, state.x[0], state.y[0], state.z[0])
    fx, fy, fz = vx - np.floor(vx), vy - np.floor(vy), vz - np.floor(vz)
    for k in range(n_corners):
        row = state.lane_rows[0, k]
        if row < 0:
            continue
        weight = state.corner_weights[k, 0]
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
    if ahead > ZERO:
        matrix = field.to_voxel
        sx = ahead * (matrix[0, 0] * gx + matrix[1, 0] * gy + matrix[2, 0] * gz)
        sy = ahead * (matrix[0, 1] * gx + matrix[1, 1] * gy + matrix[2, 1] * gz)
        sz = ahead * (matrix[0, 2] * gx + matrix[1, 2] * gy + matrix[2, 2] * gz)
    down = EIGHT * value  # the sphere bends away from its tangents
    sa, sb = sx * ax + sy * ay + sz * az, sx * bx + sy * by + sz * bz
    found = along_axes(
        value, EIGHT * ga, EIGHT * gb, FIFTY_SIX * haa - down, FIFTY_SIX * hab,
        FIFTY_SIX * hbb - down, sa, sb, ax, ay, az, bx, by, bz,
    )  # fmt: skip
    return found, (sx, sy, sz)


@compiled
def follow(field, settings, state, n_corners):
    """Turn lane 0 by one step of the dynamics, of a length for ``state.step``.

    Returns the reason to stop, or 0.
    """
    first_x, first_y, first_z = state.ux[0], state.uy[0], state.uz[0]
    ux, uy, uz = first_x, first_y, first_z
    ahead = settings.look_ahead if n_corners > 1 else ZERO
    found, seen = log_of_peaks(field, state, n_corners, ux, uy, uz, ahead, ZERO, ZERO, ZERO)
    value, ax, ay, az, bx, by, bz, ga, gb, ha, hb = found
    if value < settings.min_amplitude or not value > ZERO:
        return LOW_AMPLITUDE
    step = adaptive_step(settings, ga, gb) if settings.adaptive else settings.step
    state.step[0] = step
    left = settings.gamma * step
    n_parts = np.int64(math.ceil(left / LONGEST_PART))
    time = left / np.float32(max(n_parts, 1))  # type: ignore[arg-type]
    for part in range(n_parts):
        if part:
            found, _ = log_of_peaks(field, state, n_corners, ux, uy, uz, ZERO, *seen)
            value, ax, ay, az, bx, by, bz, ga, gb, ha, hb = found
            if not value > ZERO:
                break
        a, b = ga * growth(ha, time), gb * growth(hb, time)
        tx, ty, tz = a * ax + b * bx, a * ay + b * by, a * az + b * bz
        x, y, z, angle = turned(ux, uy, uz, tx, ty, tz)
        if angle > ZERO:
            ux, uy, uz = x, y, z
    if first_x * ux + first_y * uy + first_z * uz < settings.cone_cosine:
        ux, uy, uz = onto_border(
            first_x, first_y, first_z, settings.cone_cosine, settings.cone_sine, ux, uy, uz
        )
    state.ux[0], state.uy[0], state.uz[0] = ux, uy, uz
    return 0


@compiled
def begin_to_follow(field, settings, state, n_corners, word):
    """Turn lane 0 to a peak around it along which the FOD is large enough; return whether one is.

    It is drawn in proportion to its amplitude times the weight of its voxel, or that along which
    the FOD is largest. The others are noise mostly: no peaks of the other voxels go on along them.
    """
    ux, uy, uz = state.ux[0], state.uy[0], state.uz[0]
    total, most, until, found = ZERO, ZERO, ZERO, False
    for again in range(2):
        so_far = ZERO
        for k in range(n_corners):
            row = state.lane_rows[0, k]
            if row < 0:
                continue
            weight = state.corner_weights[k, 0]
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
                value = amplitude_along(field, state, n_corners, x, y, z)
                if value < settings.min_amplitude or not value > ZERO:
                    continue
                so_far += weight * size
                if settings.start == START_MAX:
                    if value > most:
                        state.ux[0], state.uy[0], state.uz[0], most = x, y, z, value
                elif again:
                    state.ux[0], state.uy[0], state.uz[0] = x, y, z
                    found = so_far > until
        total = so_far if not again else total
        until = word * total
        if settings.start == START_MAX:
            return most > ZERO
    return total > ZERO
