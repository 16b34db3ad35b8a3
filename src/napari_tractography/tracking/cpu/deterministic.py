"""Deterministic tracking: the largest amplitude in the cone, or the peak nearest to the direction.

A direction next to the current one counts as the current one, so that small steps within a voxel
need not search again.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...compiling import inlined
from ..codes import EVERYWHERE, LOW_AMPLITUDE, LOW_PROBABILITY, PURPOSE_START, SAME, SHARP_TURN
from .cells import find_rows_of
from .draw import arrive, draw_directions, find_peak, little_in_cone, positive
from .lanes import AWAY, EXPECTED, SETTLED, booleans_of, load
from .llvm import bits_of, count_bits, lowest_bit, select
from .memory import store
from .sphere.ascent import climb_lanes, largest_in_cones
from .sphere.evaluation import values_of_lanes
from .sphere.peaks import climb, value_at

BIT, NONE = np.uint32(1), np.uint32(0)
ZERO = np.float32(0)
ENOUGH = 12  # lanes that wait until they are searched for together


@inlined
def largest_directions(field, settings, scratch, state, n, drawing):
    """Turn a set of lanes to the largest amplitude in their cones; see `draw_directions`."""
    chosen, ended, work = prepare(field, settings, scratch, state, n, drawing)
    if not work:
        return chosen, ended
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    if field.allowed.size:
        left, x, y, z = work, ux, uy, uz
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            scratch.tried[3, lane] = find_peak(field, settings, scratch, state, lane)
            for axis in range(3):
                scratch.tried[axis, lane] = scratch.peak[axis]
        x, y, z = load(scratch.tried[0]), load(scratch.tried[1]), load(scratch.tried[2])
        amplitude = load(scratch.tried[3])
    else:
        x, y, z, amplitude = largest_in_cones(
            field.shifts,
            state.coefficients,
            scratch.lane_amplitudes,
            field.cone_points,
            ux,
            uy,
            uz,
            settings.cone_cosine,
            settings.cone_sine,
            work,
        )
        amplitude = positive(settings, amplitude)
    return turn(field, settings, scratch, state, n, chosen, ended, work, x, y, z, amplitude, NONE)


@inlined
def nearest_peak_directions(field, settings, scratch, state, n, drawing):
    """Turn a set of lanes to the peaks nearest to their directions; see `draw_directions`.

    As MRtrix3's SD_STREAM does (Tournier, Calamante & Connelly, 2012).
    """
    chosen, ended, work = prepare(field, settings, scratch, state, n, drawing)
    if not work:
        return chosen, ended
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    value = values_of_lanes(field.shifts, state.coefficients, ux, uy, uz)
    x, y, z, amplitude = climb_lanes(
        field.shifts, state.coefficients, ux, uy, uz, EVERYWHERE, ZERO, ux, uy, uz, value, work
    )
    sharp = work & bits_of(ux * x + uy * y + uz * z < settings.cone_cosine)
    amplitude = positive(settings, amplitude)
    return turn(field, settings, scratch, state, n, chosen, ended, work, x, y, z, amplitude, sharp)


@inlined
def prepare(field, settings, scratch, state, n, drawing):
    """Find the FOD where lanes are, and sort them.

    Returns three sets: lanes that have their next direction, lanes that stop, and those for which
    to search; the others are to come again.
    """
    progress = state.progress
    starting = drawing & bits_of(load(state.purpose) == np.uint32(PURPOSE_START))
    chosen, ended = NONE, NONE
    if starting:  # start directions are drawn
        chosen, ended = draw_directions(field, settings, scratch, state, n, starting)
    drawing &= ~starting
    progress[SETTLED] &= ~(progress[EXPECTED] | progress[AWAY])
    expected = drawing & np.uint32(progress[AWAY])
    stopped = arrive(field, settings, scratch, state, n, drawing & ~expected)
    find_rows_of(field, state, n, expected)
    work = drawing & ~(stopped | expected)
    if n == 1:
        still = work & np.uint32(progress[SETTLED])
        work &= ~still
        if still and count_bits(work) < ENOUGH:
            work = NONE
        chosen |= still
    return chosen, ended | stopped, work


@inlined
def turn(field, settings, scratch, state, n, chosen, ended, work, x, y, z, amplitude, sharp):
    """Turn lanes to their next directions, or stop them; return both sets."""
    low = work & ~bits_of((amplitude > ZERO) & (amplitude >= settings.min_amplitude))
    sharp &= ~low
    reason = select(booleans_of(low), np.int32(LOW_AMPLITUDE), load(state.reason))
    store(state.reason, select(booleans_of(sharp), np.int32(SHARP_TURN), reason))
    turned = work & ~(low | sharp)
    if settings.min_probability > ZERO:
        left = turned
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            if little_in_cone(field, settings, scratch, state, n, lane):
                state.reason[lane] = LOW_PROBABILITY
                turned &= ~(BIT << np.uint32(lane))
                sharp |= BIT << np.uint32(lane)
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    dx, dy, dz = x - ux, y - uy, z - uz
    same = dx * dx + dy * dy + dz * dz < SAME
    where = booleans_of(turned) & ~same
    store(state.ux, select(where, x, ux))
    store(state.uy, select(where, y, uy))
    store(state.uz, select(where, z, uz))
    settled = np.int64(turned & bits_of(same))
    state.progress[SETTLED] = (state.progress[SETTLED] & ~np.int64(turned)) | settled
    return chosen | turned, ended | low | sharp


@inlined
def climb_from(field, state, lane):
    """Return the peak that the direction of a lane leads up to, and its amplitude."""
    mixed = state.lane_coefficients[lane]
    ux, uy, uz = state.ux[lane], state.uy[lane], state.uz[lane]
    value = value_at(field.shifts, mixed, ux, uy, uz)
    return climb(field.shifts, mixed, ux, uy, uz, EVERYWHERE, ZERO, ux, uy, uz, value)
