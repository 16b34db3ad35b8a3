"""Deterministic tracking: the largest amplitude in the cone, or the peak nearest to the direction.

A direction next to the current one counts as the current one, so that small steps within a voxel
need not search again.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compiling import inlined, kept
from ..codes import EVERYWHERE, LOW_AMPLITUDE, LOW_PROBABILITY, PURPOSE_START, SAME, SHARP_TURN
from .cells import find_rows_of, mean_amplitude
from .draw import arrive, draw_starts, find_peak, lanes_below_cone_mass, lanes_in_doubt
from .lanes import AWAY, CLIMBING, EXPECTED, N_LANES, SETTLED, booleans_of, load, load_from
from .llvm import bits_of, by_length, count_bits, lowest_bit, select
from .memory import store
from .sphere.ascent import AMPLITUDE, X, Y, Z, climb_side_by_side
from .sphere.cones import positive
from .sphere.evaluation import value_at, values_of_lanes
from .sphere.peaks import climb
from .sphere.search import begin_climbs_of, largest_in_cones, mean_in_cones, sample_cones

BIT, NONE = np.uint32(1), np.uint32(0)
ZERO, HALF = np.float32(0), np.float32(0.5)
# Lanes that wait until their cones are searched together, while other lanes take their steps.
ENOUGH = 3 * N_LANES // 4
STEPS_AT_ONCE = 3  # of a climb, before lanes that are done step on


@kept
def largest_directions(field, settings, scratch, state, n_corners, drawing):
    """Turn a set of lanes to the largest amplitude in their cones; see `draw_directions`."""
    chosen, ended, work = prepare(field, settings, scratch, state, n_corners, drawing)
    if not work:
        return chosen, ended
    if field.allowed.size:
        x, y, z, amplitude, little = find_peaks(field, settings, scratch, state, n_corners, work)
    else:
        x, y, z, amplitude, little = search_cones(
            field.shifts, field, settings, scratch, state, n_corners, work
        )
    return turn(settings, state, chosen, ended, work, x, y, z, amplitude, NONE, little)


@inlined
def find_peaks(field, settings, scratch, state, n_corners, lanes):
    """Find the largest amplitude in the cone of each of a set of lanes, one after the other.

    Returns
    -------
    x, y, z, amplitude
        Vectors: the direction of the largest amplitude, and it.
    little : uint32
        The lanes in whose cones there is too small a fraction of the FOD.
    """
    left, little = lanes, NONE
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        scratch.tried[3, lane] = find_peak(field, settings, scratch, state, lane)
        for axis in range(3):
            scratch.tried[axis, lane] = scratch.peak[axis]
    x, y, z = load(scratch.tried[0]), load(scratch.tried[1]), load(scratch.tried[2])
    amplitude = load(scratch.tried[3])
    if settings.min_probability > ZERO:
        little = lanes_below_cone_mass(field, settings, scratch, state, n_corners, lanes)
    return x, y, z, amplitude, little


def _search_cones(shifts, field, settings, scratch, state, n_corners, lanes):
    """Return what :func:`find_peaks` does, found side by side: in rings, of even degrees alone."""
    ux, uy, uz, little = load(state.ux), load(state.uy), load(state.uz), NONE
    x, y, z, amplitude = largest_in_cones(field, settings, scratch, state, ux, uy, uz, lanes)
    amplitude = positive(settings, amplitude)
    if settings.min_probability > ZERO:
        little = little_of(field, settings, scratch, state, n_corners, lanes)
    return x, y, z, amplitude, little


def _search_cones_one_by_one(shifts, field, settings, scratch, state, n_corners, lanes):
    return find_peaks(field, settings, scratch, state, n_corners, lanes)


def _weigh_cones(shifts, field, settings, scratch, state, n_corners, lanes):
    """Return those of a set of lanes in whose cones there is too small a fraction of the FOD."""
    lanes, little = lanes_in_doubt(
        field, settings, scratch, state, n_corners, lanes, field.quadrature_mass
    )
    if lanes:
        ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
        sample_cones(field, settings, state.coefficients, scratch, ux, uy, uz)
        little |= little_of(field, settings, scratch, state, n_corners, lanes)
    return little


def _weigh_cones_one_by_one(shifts, field, settings, scratch, state, n_corners, lanes):
    return lanes_below_cone_mass(field, settings, scratch, state, n_corners, lanes)


# Rings are of even degrees: by the length of `shifts`, which is even for asymmetric FODs.
search_cones = by_length(
    _search_cones, lambda length: _search_cones if length & 1 else _search_cones_one_by_one
)
weigh_cones = by_length(
    _weigh_cones, lambda length: _weigh_cones if length & 1 else _weigh_cones_one_by_one
)


@kept
def nearest_peak_directions(field, settings, scratch, state, n_corners, drawing):
    """Turn a set of lanes to the peaks nearest to their directions; see `draw_directions`.

    As MRtrix3's SD_STREAM does (Tournier, Calamante & Connelly, 2012). Start directions, too, are
    those of the peaks that they lead up to.
    """
    climbing = np.uint32(state.progress[CLIMBING])
    starting = drawing & bits_of(load(state.purpose) == np.uint32(PURPOSE_START))
    under_way = starting & climbing
    chosen, ended, work = prepare(field, settings, scratch, state, n_corners, drawing & ~under_way)
    drawn = chosen & starting
    chosen &= ~drawn
    new, work = (work & ~climbing) | drawn, work | drawn | under_way
    if not work:
        return chosen, ended
    ux, uy, uz, climbs = load(state.ux), load(state.uy), load(state.uz), scratch.climbs
    if new:
        value = values_of_lanes(field.shifts, state.coefficients, ux, uy, uz)
        begin_climbs_of(climbs, new, ux, uy, uz, value)
    done = climb_side_by_side(
        field.shifts, state.coefficients, climbs, EVERYWHERE, ZERO, work, STEPS_AT_ONCE
    )
    state.progress[CLIMBING] = np.int64((climbing | work) & ~done)
    if not done:
        return chosen, ended
    x, y, z = load_from(climbs, X), load_from(climbs, Y), load_from(climbs, Z)
    begun = done & starting
    where = booleans_of(begun)
    store(state.ux, select(where, x, ux))
    store(state.uy, select(where, y, uy))
    store(state.uz, select(where, z, uz))
    chosen |= begun
    done &= ~starting
    little = NONE
    if settings.min_probability > ZERO and field.allowed.size:
        little = lanes_below_cone_mass(field, settings, scratch, state, n_corners, done)
    elif settings.min_probability > ZERO:
        little = weigh_cones(field.shifts, field, settings, scratch, state, n_corners, done)
    sharp = done & bits_of(ux * x + uy * y + uz * z < settings.cone_cosine)
    amplitude = positive(settings, load_from(climbs, AMPLITUDE))
    return turn(settings, state, chosen, ended, done, x, y, z, amplitude, sharp, little)


@kept
def prepare(field, settings, scratch, state, n_corners, drawing):
    """Find the FOD where lanes are, and sort them.

    Returns three sets: lanes that have their next direction, lanes that stop, and those for which
    to search; the others are to come again.
    """
    progress = state.progress
    starting = drawing & bits_of(load(state.purpose) == np.uint32(PURPOSE_START))
    chosen, ended = NONE, NONE
    if starting:  # start directions are drawn
        chosen, ended = draw_starts(field, settings, scratch, state, n_corners, starting)
    drawing &= ~starting
    progress[SETTLED] &= ~(progress[EXPECTED] | progress[AWAY])
    expected = drawing & np.uint32(progress[AWAY])
    stopped = arrive(field, settings, scratch, state, n_corners, drawing & ~expected)
    find_rows_of(field, state, n_corners, expected)
    work = drawing & ~(stopped | expected)
    still = NONE
    if n_corners == 1:
        still = work & np.uint32(progress[SETTLED])
        work &= ~still
        chosen |= still
    if (still | expected | starting) and count_bits(work) < ENOUGH:
        work = NONE
    return chosen, ended | stopped, work


@inlined
def little_of(field, settings, scratch, state, n_corners, lanes):
    """Return those of a set of lanes in whose cones there is too small a fraction of the FOD.

    The cones are those that were sampled last.
    """
    mean, left = mean_in_cones(field, scratch), lanes
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        scratch.tried[0, lane] = mean_amplitude(field, state, n_corners, lane)
    mass = mean * (HALF * settings.cone_height)
    return lanes & bits_of(mass <= settings.min_probability * load(scratch.tried[0]))


@inlined
def turn(settings, state, chosen, ended, work, x, y, z, amplitude, sharp, little):
    """Turn lanes to their next directions, or stop them; return both sets."""
    low = work & ~bits_of((amplitude > ZERO) & (amplitude >= settings.min_amplitude))
    reason = select(booleans_of(little), np.int32(LOW_PROBABILITY), load(state.reason))
    reason = select(booleans_of(sharp), np.int32(SHARP_TURN), reason)
    store(state.reason, select(booleans_of(low), np.int32(LOW_AMPLITUDE), reason))
    turned = work & ~(low | sharp | little)
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    dx, dy, dz = x - ux, y - uy, z - uz
    same = dx * dx + dy * dy + dz * dz < SAME
    where = booleans_of(turned) & ~same
    store(state.ux, select(where, x, ux))
    store(state.uy, select(where, y, uy))
    store(state.uz, select(where, z, uz))
    settled = np.int64(turned & bits_of(same))
    state.progress[SETTLED] = (state.progress[SETTLED] & ~np.int64(turned)) | settled
    return chosen | turned, ended | (work & ~turned)


@inlined
def climb_from(field, state, lane):
    """Return the peak that the direction of a lane leads up to, and its amplitude."""
    mixed = state.lane_coefficients[lane]
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    value = value_at(field.shifts, mixed, ux, uy, uz)
    return climb(field.shifts, mixed, ux, uy, uz, EVERYWHERE, ZERO, ux, uy, uz, value)
