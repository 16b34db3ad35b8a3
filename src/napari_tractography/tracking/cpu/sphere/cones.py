"""Cones that are functions, and positivity."""

from __future__ import annotations

import numpy as np

from ....geometry.directions import CANDIDATES
from ....runtime.compiling import compiled, inlined
from ...codes import EXP, LIMIT, LOG, N_NEIGHBOURS, NOWHERE, SIXTEENTH, SOFTPLUS
from ..lanes import N_LANES, booleans_of, filled, load_from
from ..llvm import as_words, bits_of, count_bits, largest_of, lowest_bit, select, to_ints
from ..memory import loader_from, number_at, store_to
from .peaks import has_odd_degrees
from .tangents import tangents

BIT, NONE, EVERY = np.uint32(1), np.uint32(0), np.uint32((1 << N_LANES) - 1)
ZERO, HALF = np.float32(0), np.float32(0.5)
ALIKE = np.float32(1e-6)  # cosines; several times the rounding of each
load_candidates = loader_from(CANDIDATES)


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


@inlined
def locate(field, scratch, x, y, z):
    """Find the cells in which unit vectors lie, one of each lane, for :func:`nearest_of`."""
    store_to(scratch.located, 0, x)
    store_to(scratch.located, N_LANES, y)
    store_to(scratch.located, 2 * N_LANES, z)
    side = np.uint32(field.cells.shape[1])
    middle = HALF * np.float32(side)
    size = select(x < ZERO, ZERO - x, x) + select(y < ZERO, ZERO - y, y)
    scale = filled(middle) / (size + select(z < ZERO, ZERO - z, z))
    row = as_words(to_ints((x + y) * scale + middle))
    column = as_words(to_ints((x - y) * scale + middle))
    row = select(row < side, row, side - BIT)
    column = select(column < side, column, side - BIT)
    store_to(scratch.cells, 0, select(z < ZERO, np.uint32(side * side), NONE) + row * side + column)


@inlined
def nearest_of(field, scratch, lane):
    """Return what :func:`nearest_index` does for the unit vector of a lane that was located.

    Two paths uphill end at different directions only where those are as near as rounding can tell;
    then the path that everyone takes decides.
    """
    at = np.int64(scratch.cells[lane]) * (4 * CANDIDATES)
    x, y, z = scratch.located[0, lane], scratch.located[1, lane], scratch.located[2, lane]
    cosines = load_candidates(field.cells, at) * x
    cosines = cosines + load_candidates(field.cells, at + CANDIDATES) * y
    cosines = cosines + load_candidates(field.cells, at + 2 * CANDIDATES) * z
    nearest = bits_of(cosines >= largest_of(cosines) - ALIKE)
    if count_bits(nearest) != 1:
        return nearest_index(field.directions, field.neighbours, x, y, z)
    return np.int64(number_at(field.cells, at + 3 * CANDIDATES + lowest_bit(nearest)))


@inlined
def may_follow(field, i, j):
    """Return 1 where direction j of the set may follow direction i, else 0."""
    pair = i * field.directions.shape[0] + j
    return np.uint32(number_at(field.allowed_words, pair >> 6) >> np.uint64(pair & 63)) & BIT


@inlined
def face(field, scratch, state, lanes, x, y, z):
    """Find the directions of the set nearest to those of a set of lanes, for `allowed_lanes`."""
    if lanes:
        locate(field, scratch, x, y, z)
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - BIT
        state.facing[lane] = nearest_of(field, scratch, lane)


@inlined
def allowed_lanes(field, scratch, state, lanes, x, y, z):
    """Return those of a set of lanes that may turn to the directions of all lanes."""
    allowed = NONE
    if lanes:
        locate(field, scratch, x, y, z)
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - BIT
        j = nearest_of(field, scratch, lane)
        allowed |= may_follow(field, np.int64(state.facing[lane]), j) << np.uint32(lane)
    return allowed


@inlined
def allowed_of(field, scratch, i, which, x, y, z):
    """Return those of a set of N_LANES directions that may follow direction i of the set."""
    allowed = NONE
    locate(field, scratch, x, y, z)
    while which:
        k = lowest_bit(which)
        which &= which - BIT
        allowed |= may_follow(field, i, nearest_of(field, scratch, k)) << np.uint32(k)
    return allowed


@inlined
def keep_allowed(field, scratch, ux, uy, uz):
    """Strike out the amplitudes at those of ``field.cone_points`` around u that may not follow."""
    i = nearest_index(field.directions, field.neighbours, ux, uy, uz)
    points, n_points = field.cone_points, field.cone_points.shape[1]
    ax, ay, az, bx, by, bz = tangents(ux, uy, uz)
    for k in range(0, n_points, N_LANES):
        a, b = load_from(points, k), load_from(points, n_points + k)
        c = load_from(points, 2 * n_points + k)
        x, y, z = a * ax + b * bx + c * ux, a * ay + b * by + c * uy, a * az + b * bz + c * uz
        allowed = booleans_of(allowed_of(field, scratch, i, EVERY, x, y, z))
        store_to(scratch.amplitudes, k, select(allowed, load_from(scratch.amplitudes, k), NOWHERE))


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
        if may_follow(field, i, nearest_index(field.directions, field.neighbours, x, y, z)):
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
