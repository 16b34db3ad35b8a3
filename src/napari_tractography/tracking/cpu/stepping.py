"""Streamlines side by side: drawing their next directions exactly, and stepping along them."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...compiling import inlined
from ..codes import (
    LOW_PROBABILITY,
    MAX_LENGTH,
    MAX_PROPOSALS,
    NO_FOD,
    PATCH_SIZE,
    SLOT_BITS,
)
from .draw import (
    HALF,
    MARGIN,
    PAIR,
    ZERO,
    enter_cell,
    interpolated_amplitude,
    is_cone_mass_below,
    locate,
    mass_in_patch,
    philox_block,
    scan_draw,
    to_voxel,
)
from .patches import lowest_bit
from .regions import visit_regions
from .rejection import TOGETHER, draw_nearest, draw_trilinear
from .streamline import enter_voxel
from .vectors import (
    N_LANES,
    bits_of,
    floors,
    gather,
    load,
    put_points,
    select,
    store,
    to_ints,
    truths_of,
)

BIT = np.uint32(1)
NONE = np.uint32(0)
EVERY = np.uint32((1 << N_LANES) - 1)


@inlined
def scan_cone(field, settings, scratch, state, n, lane):
    """Draw the next direction of one lane by a scan of its cone; minus a stop reason."""
    vx, vy, vz = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
    if not locate(field, n, scratch, state, lane, vx, vy, vz):
        return -NO_FOD
    i = np.int64(state.current[lane])
    starts = i == field.directions.shape[0]
    limit = np.float32(-1) if starts else settings.min_probability * scratch.total[0]
    r0, r1, _, _ = philox_block(
        np.uint64(state.stream[lane]),
        np.uint64(state.steps[lane]),
        np.uint64(MAX_PROPOSALS),
        np.uint64(state.purpose[lane]),
        settings.key_0,
        settings.key_1,
    )
    floor = settings.min_amplitude
    return scan_draw(
        field,
        scratch.masses,
        state.own_rows[lane],
        scratch.quanta,
        n,
        i,
        floor,
        limit,
        np.uint32(r0),
        np.uint32(r1),
    )


@inlined
def below_cone_mass(field, settings, scratch, state, n, lane):
    """Tell whether the cone of one lane that has drawn a direction holds too little."""
    vx, vy, vz = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
    locate(field, n, scratch, state, lane, vx, vy, vz)
    limit = settings.min_probability * scratch.total[0]
    i = np.int64(state.current[lane])
    n_half = field.directions.shape[0] // 2
    j = np.int64(state.drawn[lane])
    patch = (j - n_half if j >= n_half else j) >> SLOT_BITS
    bits = field.cone[i, patch]
    bits = (bits | (bits >> PAIR)) & np.uint32((1 << PATCH_SIZE) - 1)
    # Mostly what it holds of this patch is more than enough.
    rows, quanta = state.own_rows[lane], scratch.quanta
    if mass_in_patch(field, rows, quanta, n, patch, bits, ZERO) > MARGIN * limit:
        return False
    return is_cone_mass_below(field, rows, quanta, n, i, limit)


@inlined
def below_cutoff(field, settings, state, lane):
    """Tell whether the amplitude of the direction that one lane has drawn is below the floor."""
    j = np.int64(state.drawn[lane])
    n_half = field.directions.shape[0] // 2
    j = j - n_half if j >= n_half else j
    rows, quanta = state.own_rows[lane], state.corner_weighed[:, lane]
    return not interpolated_amplitude(field, rows, quanta, 8, j) >= settings.min_amplitude


@inlined
def draw_directions(field, settings, scratch, state, n, drawing):
    """Draw the next directions of state, given as bits.

    Returns those who have one now, in `state.current`, and those who stop, for `state.reason`;
    the others go on trying.
    """
    current, n_rejected = load(state.current), load(state.n_rejected)
    starting = current == field.directions.shape[0]  # there all directions are allowed
    one_sided = ~starting & truths_of(NONE if field.two_sided else EVERY)
    may_try = EVERY if field.max_proposals else bits_of(starting)
    trying = drawing & may_try & bits_of(n_rejected < np.uint32(MAX_PROPOSALS))
    drawn, ended = NONE, NONE
    if trying:
        if n == 1:
            j, found, doubtful_mass, there = draw_nearest(
                field, settings, state, current, one_sided
            )
        else:
            enter_cells(field, state, trying)
            j, found, second, doubtful_cutoff, doubtful_mass, there = draw_trilinear(
                field, settings, state, current, one_sided
            )
        store(state.drawn, j)
        drawn = trying & bits_of(found & there)
        n_rejected = select(truths_of(trying), n_rejected + np.uint32(TOGETHER), n_rejected)
        store(state.n_rejected, n_rejected)
        if n > 1:
            left, first = drawn & bits_of(doubtful_cutoff), ~bits_of(second)
            while left:
                lane = lowest_bit(left)
                left &= left - BIT
                if below_cutoff(field, settings, state, lane):
                    drawn &= ~(BIT << np.uint32(lane))
                    if (first >> np.uint32(lane)) & BIT:
                        state.n_rejected[lane] -= np.uint32(1)  # the second draw is yet to count
        ended = trying & ~bits_of(there)
        store(state.reason, select(truths_of(ended), np.int32(NO_FOD), load(state.reason)))
        left = drawn & bits_of(doubtful_mass & ~starting)
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            if below_cone_mass(field, settings, scratch, state, n, lane):
                state.reason[lane] = LOW_PROBABILITY
                drawn &= ~(BIT << np.uint32(lane))
                ended |= BIT << np.uint32(lane)
    missed = bits_of(load(state.n_rejected) >= np.uint32(MAX_PROPOSALS)) | ~may_try
    left = drawing & missed & ~(drawn | ended)
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        j = scan_cone(field, settings, scratch, state, n, lane)
        if j < 0:
            state.reason[lane] = -j
            ended |= BIT << np.uint32(lane)
        else:
            state.drawn[lane] = j
            drawn |= BIT << np.uint32(lane)
    store(state.current, select(truths_of(drawn), load(state.drawn), current))
    return drawn, ended


@inlined
def enter_cells(field, state, trying):
    """Find the corners around state that have come into another cell."""
    vx, vy, vz = to_voxel(field.to_voxel, load(state.x), load(state.y), load(state.z))
    ix, iy, iz = to_ints(floors(vx)), to_ints(floors(vy)), to_ints(floors(vz))
    elsewhere = (ix != load(state.cells[0])) | (iy != load(state.cells[1]))
    left = trying & bits_of(elsewhere | (iz != load(state.cells[2])))
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        x, y, z = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
        enter_cell(field, state, lane, x, y, z)


@inlined
def step_on(field, settings, regions, state, going):
    """Let state take a step; return those for whom it was the last, for `state.reason`."""
    at = select(truths_of(going), load(state.current), 0) * 3
    ux, uy, uz = (
        gather(field.directions, at),
        gather(field.directions, at + 1),
        gather(field.directions, at + 2),
    )
    step = settings.step
    x, y, z = load(state.x), load(state.y), load(state.z)
    new_x, new_y, new_z = x + step * ux, y + step * uy, z + step * uz
    vx, vy, vz = to_voxel(field.to_voxel, new_x, new_y, new_z)
    fx, fy, fz = floors(vx + HALF), floors(vy + HALF), floors(vz + HALF)
    nx, ny, nz = field.voxel_rows.shape
    inside = (fx >= ZERO) & (fy >= ZERO) & (fz >= ZERO) & (fx < nx) & (fy < ny) & (fz < nz)
    fx, fy, fz = select(inside, fx, ZERO), select(inside, fy, ZERO), select(inside, fz, ZERO)
    ahead = (to_ints(fx) * ny + to_ints(fy)) * nz + to_ints(fz)
    ahead = select(inside, ahead, np.int32(-1))
    store(state.ahead, ahead)
    left = going & bits_of(ahead != load(state.voxel))  # small steps stay for long
    ended = NONE
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        if not enter_voxel(field, state, lane, np.int64(state.ahead[lane])):
            ended |= BIT << np.uint32(lane)
    moved = going & ~ended
    go = truths_of(moved)
    steps, n_rejected = load(state.steps), load(state.n_rejected)
    steps = select(go, steps + 1, steps)
    store(state.x, select(go, new_x, x))
    store(state.y, select(go, new_y, y))
    store(state.z, select(go, new_z, z))
    store(state.steps, steps)
    store(state.n_rejected, select(go, np.uint32(0), n_rejected))
    keep_last_points(settings, state, go)
    done = moved & bits_of(steps >= load(state.most))
    if done:
        reason = select(truths_of(done), np.int32(MAX_LENGTH), load(state.reason))
        store(state.reason, reason)
        ended |= done
    if regions.roles.shape[0]:
        left = moved
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            reason_here = visit_regions(
                regions,
                state,
                lane,
                state.half[lane],
                False,
                state.x[lane],
                state.y[lane],
                state.z[lane],
            )
            if reason_here:
                state.reason[lane] = reason_here
                ended |= BIT << np.uint32(lane)
    return ended


@inlined
def keep_last_points(settings, state, moved):
    """Write where the state are; a point stays unless a later step has the same slot."""
    slot, since = load(state.slot), load(state.since)
    slot = select(moved & (since == 0), slot + load(state.heading), slot)
    since = select(moved, since + 1, since)
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    store(state.since, select(since == every, np.int32(0), since))
    store(state.slot, slot)
    put_points(state.points, state.slot, state.x, state.y, state.z)
