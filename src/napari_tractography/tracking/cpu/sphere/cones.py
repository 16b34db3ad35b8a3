"""Cones that are functions, and positivity."""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import compiled, inlined
from ...codes import EXP, LIMIT, LOG, N_NEIGHBOURS, NOWHERE, SIXTEENTH, SOFTPLUS
from ..lanes import N_LANES, filled, load_from
from ..llvm import lowest_bit, select
from ..memory import store_to
from .peaks import has_odd_degrees, point_in_cone

BIT, NONE = np.uint32(1), np.uint32(0)
ZERO, ONE = np.float32(0), np.float32(1)
ALIKE = np.float32(1e-6)  # cosines; several times the rounding of each


@compiled
def nearest_index(directions, neighbours, x, y, z):
    """Return the direction of the set nearest to a unit vector: uphill in cosine."""
    i = np.int64(0)
    best = directions[i, 0] * x + directions[i, 1] * y + directions[i, 2] * z
    while True:
        start = i
        for n in range(N_NEIGHBOURS):
            j = neighbours[start, n]
            cosine = directions[j, 0] * x + directions[j, 1] * y + directions[j, 2] * z
            if cosine > best:
                best = cosine
                i = np.int64(j)
        if i == start:
            return i


@compiled
def nearest_from(directions, neighbours, near, x, y, z):
    """Return what :func:`nearest_index` does, sooner: climb from a direction of the set nearby.

    Two paths end at different directions only where those are as near as rounding can tell; then
    the path that everyone takes decides.
    """
    i = np.uint64(near)
    best = directions[i, 0] * x + directions[i, 1] * y + directions[i, 2] * z
    while True:
        start, second = i, -ONE
        for n in range(N_NEIGHBOURS):  # without a branch: which is the nearest cannot be foretold
            j = np.uint64(neighbours[start, n])
            cosine = directions[j, 0] * x + directions[j, 1] * y + directions[j, 2] * z
            lower = cosine if cosine < best else best
            second = lower if lower > second else second
            i = j if cosine > best else i
            best = cosine if cosine > best else best
        if i == start:
            break
    if best - second > ALIKE:
        return np.int64(i)
    return nearest_index(directions, neighbours, x, y, z)


@inlined
def allowed_lanes(field, scratch, state, lanes, x, y, z):
    """Return those of a set of lanes that may turn to the directions of all lanes."""
    store_to(scratch.tried, 0, x)
    store_to(scratch.tried, N_LANES, y)
    store_to(scratch.tried, 2 * N_LANES, z)
    allowed, tried, sets = lanes, scratch.tried, (field.directions, field.neighbours)
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - BIT
        i, u = state.facing[lane], (state.ux[lane], state.uy[lane], state.uz[lane])
        i = nearest_from(sets[0], sets[1], i, u[0], u[1], u[2])
        j = nearest_from(sets[0], sets[1], i, tried[0, lane], tried[1, lane], tried[2, lane])
        state.facing[lane] = j
        if not field.allowed[i, j]:
            state.facing[lane] = i
            allowed &= ~(BIT << np.uint32(lane))
    return allowed


@inlined
def any_allowed(field, scratch, state, lane, which, x, y, z):
    """Tell whether one lane may turn to any of those of N_LANES directions that are set."""
    store_to(scratch.tried, 0, x)
    store_to(scratch.tried, N_LANES, y)
    store_to(scratch.tried, 2 * N_LANES, z)
    tried, sets = scratch.tried, (field.directions, field.neighbours)
    u = state.ux[lane], state.uy[lane], state.uz[lane]
    i = nearest_from(sets[0], sets[1], state.facing[lane], u[0], u[1], u[2])
    while which:
        k = lowest_bit(which)
        which &= which - BIT
        j = nearest_from(sets[0], sets[1], i, tried[0, k], tried[1, k], tried[2, k])
        if field.allowed[i, j]:
            return True
    return False


@inlined
def keep_allowed(field, amplitudes, ux, uy, uz):
    """Strike out the amplitudes at those of ``field.cone_points`` around u that may not follow."""
    i = nearest_index(field.directions, field.neighbours, ux, uy, uz)
    j = i
    for k in range(field.cone_points.shape[1]):
        x, y, z = point_in_cone(field.cone_points, k, ux, uy, uz)
        j = nearest_from(field.directions, field.neighbours, j, x, y, z)
        if not field.allowed[i, j]:
            amplitudes[k] = NOWHERE


@inlined
def face_ahead(field, peak, ux, uy, uz):
    """Turn a direction that points backward round where that may follow u, too.

    A symmetric FOD is as large along both: a cone that allows both would be followed back and
    forth.
    """
    if has_odd_degrees(field.shifts):
        return
    x, y, z = -peak[0], -peak[1], -peak[2]
    if ux * x + uy * y + uz * z > ZERO:
        i = nearest_index(field.directions, field.neighbours, ux, uy, uz)
        if field.allowed[i, nearest_index(field.directions, field.neighbours, x, y, z)]:
            peak[0], peak[1], peak[2] = x, y, z


@inlined
def falling(size):
    """Return exp(-size), of sizes that are not negative and count up to LIMIT; numbers or vectors.

    By multiplication and addition alone, so that all machines have the same bits.
    """
    t = SIXTEENTH * select(size < LIMIT, size, LIMIT)
    power = EXP[0] * t + EXP[1]
    for k in range(2, len(EXP)):
        power = power * t + EXP[k]
    for _ in range(4):  # to the 16th
        power = power * power
    return power


@inlined
def log_of_one_and(t):
    """Return log(1 + t), for t from 0 to 1; numbers or vectors, in the same way."""
    log = LOG[0] * t + LOG[1]
    for k in range(2, len(LOG)):
        log = log * t + LOG[k]
    return t * log


@inlined
def softplus(sharpness, amplitude):
    """Return log(1 + exp(sharpness * amplitude)) / sharpness of vectors."""
    scaled = sharpness * amplitude
    log = log_of_one_and(falling(select(scaled >= ZERO, scaled, ZERO - scaled)))
    return (select(scaled >= ZERO, scaled, ZERO) + log) / filled(sharpness)


@inlined
def positive(settings, amplitude):
    """Return the amplitudes that count, of vectors; with clipping, negative ones stay."""
    if settings.positivity == SOFTPLUS:
        return softplus(settings.sharpness, amplitude)
    return amplitude


@inlined
def make_positive(settings, amplitudes, n):
    """Do the same to the first n numbers of an array."""
    if settings.positivity == SOFTPLUS:
        for j in range(0, n, N_LANES):
            store_to(amplitudes, j, softplus(settings.sharpness, load_from(amplitudes, j)))
