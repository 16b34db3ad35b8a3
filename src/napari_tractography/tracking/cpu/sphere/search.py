"""The largest amplitude in the cone of each lane: sampled side by side, then climbed to.

A cone is sampled in axes of which its own is the z axis: then the FOD on a ring around it is a
short sum. From the largest sample a climb leads to a peak; where that is the amplitude on
the axis, its first step is known without the derivatives. More climbs begin where samples
are no less than PROMISING of the peak, neither near it nor on the slope of a neighbour; they are
few, so those of all lanes are climbed together.
"""

from __future__ import annotations

import numpy as np

from ....runtime.compiling import compiled, inlined, kept
from ...codes import (
    ABREAST,
    BESIDE,
    CLIMB_PARTS,
    CLIMBS,
    N_AROUND,
    NOWHERE,
    ON_AXIS,
    PROMISING,
)
from ..lanes import N_LANES, TILE, booleans_of, filled, load_from, side_by_side, transpose
from ..llvm import bits_of, lowest_bit, roots, select
from ..memory import copy_numbers, store_to
from .ascent import (
    AMPLITUDE,
    BORDER,
    N_STEPS,
    NOW_X,
    NOW_Y,
    NOW_Z,
    PEAK,
    PEAK_X,
    PEAK_Y,
    PEAK_Z,
    UX,
    UY,
    UZ,
    X,
    Y,
    Z,
    climb_side_by_side,
)
from .peaks import cosine_of
from .rings import sample_rings

NONE, BIT, EVERY = np.uint32(0), np.uint32(1), np.uint32((1 << N_LANES) - 1)
ZERO, ONE, FOUR, WIDTH = np.float32(0), np.float32(1), np.float32(4), np.uint64(N_LANES)
TWO_ROWS, THREE_ROWS = 2 * N_LANES, 3 * N_LANES


@inlined
def azimuth_of(ux, uy):
    """Return cosine and sine of the azimuth of unit vectors, and their distance from the z axis."""
    radius = roots(ux * ux + uy * uy)
    off_axis = radius > ON_AXIS
    return select(off_axis, ux / radius, ONE), select(off_axis, uy / radius, ZERO), radius


@kept
def sample_cones(field, settings, coefficients, scratch, ux, uy, uz):
    """Sample the cones of all lanes; see :mod:`.rings`.

    Amplitudes are left in ``scratch.lane_amplitudes``.

    Returns
    -------
    ahead : vector
        Whether the largest sample is that of the axis.
    value, x, y, z : vectors
        That amplitude, and where to climb from: its direction, or what a Newton step from the axis
        leads to.
    """
    n_points, tried = field.quadrature_points.shape[1], scratch.tried
    cosine, sine, radius = azimuth_of(ux, uy)
    sample_rings(field, settings, coefficients, scratch, cosine, sine, radius, uz)
    ahead = load_from(tried, N_LANES) == np.float32(4 * n_points)
    for lane in range(N_LANES):
        j = np.int64(tried[1, lane])
        if j == 4 * n_points:
            tried[1, lane], tried[2, lane] = tried[2, lane], tried[4, lane]
        else:
            along, across, up = point_of(field.quadrature_points, n_points, j)
            tried[0, lane], tried[1, lane], tried[2, lane] = along, across, up
    along, across, up = load_from(tried, 0), load_from(tried, N_LANES), load_from(tried, TWO_ROWS)
    x, z = along * uz + up * radius, up * uz - along * radius
    x, y = cosine * x - sine * across, sine * x + cosine * across
    return ahead, load_from(tried, THREE_ROWS), x, y, z


@inlined
def point_of(points, n_points, j):
    """Return number j of the directions of the quadrature, around the z axis."""
    if j == 4 * n_points:
        return ZERO, ZERO, ONE
    along, across, up = points[0, j >> 2], points[1, j >> 2], points[2, j >> 2]
    return -along if j & 2 else along, -across if j & 1 else across, up


@inlined
def mean_in_cones(field, scratch):
    """Return the mean over the cones sampled last of what is not negative; a vector."""
    points, seen = field.quadrature_points, scratch.lane_amplitudes
    n_points = points.shape[1]
    mean, rest = filled(ZERO), ONE
    for k in range(n_points):
        total = filled(ZERO)
        for mirror in range(4):
            value = load_from(seen, (4 * k + mirror) * N_LANES)
            total = total + select(value > ZERO, value, ZERO)
        mean = mean + points[3, k] * total
        rest = rest - FOUR * points[3, k]
    ahead = load_from(seen, 4 * n_points * N_LANES)
    return mean + rest * select(ahead > ZERO, ahead, ZERO)


@inlined
def largest_in_cones(field, settings, scratch, state, ux, uy, uz, lanes):
    """Find the largest amplitude in the cone of each of a set of lanes.

    Returns
    -------
    x, y, z, value
        Vectors: the direction of the largest amplitude, and it.
    """
    climbs = scratch.climbs
    ahead, value, x, y, z = sample_cones(field, settings, state.coefficients, scratch, ux, uy, uz)
    begin_climbs(climbs, ux, uy, uz, ahead, value, x, y, z)
    cosine, sine = settings.cone_cosine, settings.cone_sine
    climb_side_by_side(field.shifts, state.coefficients, climbs, cosine, sine, lanes, CLIMBS)
    x, y, z = load_from(climbs, X), load_from(climbs, Y), load_from(climbs, Z)
    value = load_from(climbs, AMPLITUDE)
    for part, now in ((PEAK_X, x), (PEAK_Y, y), (PEAK_Z, z), (PEAK, value)):
        store_to(climbs, part, now)
    climb_elsewhere(field, scratch, state, cosine, sine, lanes)
    x, y, z = load_from(climbs, X), load_from(climbs, Y), load_from(climbs, Z)
    return x, y, z, load_from(climbs, AMPLITUDE)


@inlined
def begin_climbs(climbs, ux, uy, uz, ahead, value, x, y, z):
    """Prepare climbs of all lanes, that matter wherever they lead; see `sample_cones`."""
    for part, now in ((AMPLITUDE, value), (UX, ux), (UY, uy), (UZ, uz)):
        store_to(climbs, part, now)
    for part, now, axis in ((X, x, ux), (Y, y, uy), (Z, z, uz)):
        store_to(climbs, part, select(ahead, axis, now))
    for part, now in ((NOW_X, x), (NOW_Y, y), (NOW_Z, z)):
        store_to(climbs, part, now)
    for part in (PEAK_X, PEAK_Y, PEAK_Z, N_STEPS, BORDER):
        store_to(climbs, part, filled(ZERO))
    store_to(climbs, PEAK, filled(NOWHERE))


@inlined
def begin_climbs_of(climbs, lanes, x, y, z, value):
    """Prepare climbs of a set of lanes anywhere on the sphere; those of others are under way."""
    where = booleans_of(lanes)
    for part, now in (
        (X, x),
        (Y, y),
        (Z, z),
        (AMPLITUDE, value),
        (NOW_X, x),
        (NOW_Y, y),
        (NOW_Z, z),
    ):
        store_to(climbs, part, select(where, now, load_from(climbs, part)))
    store_to(climbs, N_STEPS, select(where, ZERO, load_from(climbs, N_STEPS)))
    for part in (UX, UY, UZ, PEAK_X, PEAK_Y, PEAK_Z, BORDER):
        store_to(climbs, part, filled(ZERO))
    store_to(climbs, PEAK, filled(NOWHERE))


@inlined
def climb_elsewhere(field, scratch, state, cosine, sine, lanes):
    """Climb from what else has been seen that may lead higher; keep it where it does."""
    points, n_points, listed = (
        field.quadrature_points,
        field.quadrature_points.shape[1],
        scratch.outstanding,
    )
    seen, climbs, more_rows = scratch.lane_amplitudes, scratch.climbs, scratch.more_climb_rows
    tried, n_waiting = scratch.tried, 0
    uz = load_from(climbs, UZ)
    azimuth, turn, radius = azimuth_of(load_from(climbs, UX), load_from(climbs, UY))
    n_listed = list_outstanding(field, scratch, lanes, azimuth, turn, radius, uz)
    for first in range(0, N_LANES, TILE):  # what a climb needs side by side, to be copied
        for part in range(0, CLIMB_PARTS, TILE):
            transpose(
                climbs,
                part * N_LANES + first,
                N_LANES,
                scratch.climb_rows,
                first * CLIMB_PARTS + part,
                CLIMB_PARTS,
            )
    for number in range(n_listed):
        j, left = listed[0, number], np.uint32(listed[1, number])
        along, across, up = point_of(points, n_points, j)
        x, z = along * uz + up * radius, up * uz - along * radius
        x, y = azimuth * x - turn * across, turn * x + azimuth * across
        for part, now in ((0, x), (1, y), (2, z)):
            store_to(tried, part * N_LANES, now)
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            if n_waiting == N_LANES:
                climb_together(
                    field.shifts, state.lane_coefficients, scratch, cosine, sine, n_waiting
                )
                n_waiting = 0
            scratch.climbers[n_waiting] = lane
            copy_numbers(
                scratch.climb_rows,
                lane * CLIMB_PARTS,
                more_rows,
                n_waiting * CLIMB_PARTS,
                CLIMB_PARTS,
            )
            row = more_rows[n_waiting]
            row[0], row[1], row[2] = tried[0, lane], tried[1, lane], tried[2, lane]
            row[3] = seen[j, lane]
            row[11], row[15] = ZERO, ZERO
            row[12], row[13], row[14] = row[0], row[1], row[2]
            n_waiting += 1
    if n_waiting:
        climb_together(field.shifts, state.lane_coefficients, scratch, cosine, sine, n_waiting)


@inlined
def list_outstanding(field, scratch, lanes, cosine, sine, radius, uz):
    """List in ``scratch.outstanding`` what may lead higher than peaks that are known.

    Directions that are listed are stepped past without a branch, and all neighbours are compared:
    which stand out is not predictable, and to branch was slower.

    Returns
    -------
    int
        How many directions stand out in some lane.
    """
    points, neighbours = field.quadrature_points, field.quadrature_neighbours
    seen, listed, climbs = scratch.lane_amplitudes, scratch.outstanding, scratch.climbs
    enough, close = PROMISING * load_from(climbs, PEAK), cosine_of(field.shifts, BESIDE)
    # The peaks, in axes of which those of the cones are the z axis.
    x, y, z = load_from(climbs, PEAK_X), load_from(climbs, PEAK_Y), load_from(climbs, PEAK_Z)
    x, y = cosine * x + sine * y, cosine * y - sine * x
    x, z = x * uz - z * radius, x * radius + z * uz
    n_points, n_high = points.shape[1], 0
    for k in range(n_points):
        along, across, up = points[0, k] * x, points[1, k] * y, points[2, k] * z
        ahead, behind = up + along, up - along
        cosines = ahead + across, ahead - across, behind + across, behind - across
        for mirror in range(4):
            value = load_from(seen, (4 * k + mirror) * N_LANES)
            high = (value >= enough) & (cosines[mirror] <= close)
            there = lanes & bits_of(high)
            listed[0, n_high], listed[1, n_high] = 4 * k + mirror, np.int64(there)
            n_high += there != NONE
    value = load_from(seen, 4 * n_points * N_LANES)
    there = lanes & bits_of((value >= enough) & (z <= close))
    listed[0, n_high], listed[1, n_high] = 4 * n_points, np.int64(there)
    n_high += there != NONE
    n_listed = 0
    for number in range(n_high):
        j, there = listed[0, number], np.uint32(listed[1, number])
        value = load_from(seen, j * N_LANES)
        most = value + ABREAST * (value - enough)
        stands_out = value <= most
        for i in range(N_AROUND):
            stands_out &= load_from(seen, np.uint64(neighbours[j, i]) * WIDTH) <= most
        there &= bits_of(stands_out)
        listed[0, n_listed], listed[1, n_listed] = j, np.int64(there)
        n_listed += there != NONE
    return n_listed


@compiled
def climb_together(shifts, coefficients, scratch, cosine, sine, n):
    """Climb with ``scratch.climbers``, side by side; keep what is higher than what is known.

    `coefficients` are those of lanes, (N_LANES, n_padded) float32.
    """
    n_padded = coefficients.shape[1]
    climbs, more = scratch.climbs, scratch.more_climbs
    for i in range(n):
        first = scratch.climbers[i] * n_padded
        copy_numbers(coefficients, first, scratch.rows, i * n_padded, n_padded)
    lanes = EVERY >> np.uint32(N_LANES - n)
    side_by_side(scratch.rows, scratch.turned, lanes)
    side_by_side(scratch.more_climb_rows, more, lanes)
    climb_side_by_side(shifts, scratch.turned, more, cosine, sine, lanes, CLIMBS)
    for i in range(n):
        lane = scratch.climbers[i]
        if more[3, i] > climbs[3, lane]:
            for part in range(4):
                climbs[part, lane] = more[part, i]
