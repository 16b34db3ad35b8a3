"""The next directions of all lanes, and the step along them.

What all lanes do is done by vector instructions. What happens seldom, such as entering a voxel or
scanning a cone, is done for one lane after the other. Sets of lanes are the bits of a uint32.
Called by :mod:`.kernel`.
"""
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
    philox_block,
    scan_draw,
    to_voxel,
)
from .llvm import bits_of, floors, gather, lowest_bit, select, store, to_ints
from .patches import mass_in_patch
from .regions import visit_regions
from .rejection import PROPOSALS_PER_PASS, draw_nearest, draw_trilinear
from .streamline import enter_voxel
from .vectors import N_LANES, booleans_of, load, put_points

BIT = np.uint32(1)
NONE = np.uint32(0)
EVERY = np.uint32((1 << N_LANES) - 1)


@inlined
def scan_cone(field, settings, scratch, state, n, lane):
    """Draw the next direction of one lane by a scan of its cone; minus a reason where it stops."""
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
    return scan_draw(
        field,
        scratch.masses,
        state.lane_rows[lane],
        scratch.quanta,
        n,
        i,
        settings.min_amplitude,
        limit,
        np.uint32(r0),
        np.uint32(r1),
    )


@inlined
def below_cone_mass(field, settings, scratch, state, n, lane):
    """Tell whether the cone mass of one lane, which has a next direction, is below its limit."""
    vx, vy, vz = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
    locate(field, n, scratch, state, lane, vx, vy, vz)
    limit = settings.min_probability * scratch.total[0]
    i = np.int64(state.current[lane])
    n_half = field.directions.shape[0] // 2
    j = np.int64(state.next_direction[lane])
    patch = (j - n_half if j >= n_half else j) >> SLOT_BITS
    bits = field.cone[i, patch]
    bits = (bits | (bits >> PAIR)) & np.uint32((1 << PATCH_SIZE) - 1)
    # The mass of the patch of that direction is mostly above the limit by itself.
    rows, quanta = state.lane_rows[lane], scratch.quanta
    if mass_in_patch(field.quantised, rows, quanta, n, patch, bits, ZERO) > MARGIN * limit:
        return False
    return is_cone_mass_below(field, rows, quanta, n, i, limit)


@inlined
def below_cutoff(field, settings, state, lane):
    """Tell whether the amplitude of the next direction of one lane is below the cutoff."""
    j = np.int64(state.next_direction[lane])
    n_half = field.directions.shape[0] // 2
    j = j - n_half if j >= n_half else j
    rows, quanta = state.lane_rows[lane], state.corner_weighted_quanta[:, lane]
    return not interpolated_amplitude(field, rows, quanta, 8, j) >= settings.min_amplitude


@inlined
def draw_directions(field, settings, scratch, state, n, drawing):
    """Draw the next directions of a set of lanes.

    Returns two sets: the lanes that have one now, in ``state.current``, and those that stop, for
    ``state.reason``. The others had their proposals rejected and are to draw again.
    """
    current, n_rejected = load(state.current), load(state.n_rejected)
    starting = current == field.directions.shape[0]  # there all directions are allowed
    one_sided = ~starting & booleans_of(NONE if field.two_sided else EVERY)
    may_propose = EVERY if field.max_proposals else bits_of(starting)
    proposing = drawing & may_propose & bits_of(n_rejected < np.uint32(MAX_PROPOSALS))
    drawn, ended = NONE, NONE
    if proposing:
        if n == 1:
            j, accepted, doubtful_mass, has_fod = draw_nearest(
                field, settings, state, current, one_sided
            )
        else:
            enter_cells(field, state, proposing)
            j, accepted, second, doubtful_cutoff, doubtful_mass, has_fod = draw_trilinear(
                field, settings, state, current, one_sided
            )
        store(state.next_direction, j)
        drawn = proposing & bits_of(accepted & has_fod)
        n_more = n_rejected + np.uint32(PROPOSALS_PER_PASS)
        n_rejected = select(booleans_of(proposing), n_more, n_rejected)
        store(state.n_rejected, n_rejected)
        if n > 1:
            left, first = drawn & bits_of(doubtful_cutoff), ~bits_of(second)
            while left:
                lane = lowest_bit(left)
                left &= left - BIT
                if below_cutoff(field, settings, state, lane):
                    drawn &= ~(BIT << np.uint32(lane))
                    if (first >> np.uint32(lane)) & BIT:
                        state.n_rejected[lane] -= np.uint32(1)  # the second is yet to be tried
        ended = proposing & ~bits_of(has_fod)
        store(state.reason, select(booleans_of(ended), np.int32(NO_FOD), load(state.reason)))
        left = drawn & bits_of(doubtful_mass & ~starting)
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            if below_cone_mass(field, settings, scratch, state, n, lane):
                state.reason[lane] = LOW_PROBABILITY
                drawn &= ~(BIT << np.uint32(lane))
                ended |= BIT << np.uint32(lane)
    to_scan = bits_of(load(state.n_rejected) >= np.uint32(MAX_PROPOSALS)) | ~may_propose
    left = drawing & to_scan & ~(drawn | ended)
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        j = scan_cone(field, settings, scratch, state, n, lane)
        if j < 0:
            state.reason[lane] = -j
            ended |= BIT << np.uint32(lane)
        else:
            state.next_direction[lane] = j
            drawn |= BIT << np.uint32(lane)
    store(state.current, select(booleans_of(drawn), load(state.next_direction), current))
    return drawn, ended


@inlined
def enter_cells(field, state, lanes):
    """Find the corners of the cells of a set of lanes that have left the cell they were in."""
    vx, vy, vz = to_voxel(field.to_voxel, load(state.x), load(state.y), load(state.z))
    ix, iy, iz = to_ints(floors(vx)), to_ints(floors(vy)), to_ints(floors(vz))
    elsewhere = (ix != load(state.cells[0])) | (iy != load(state.cells[1]))
    left = lanes & bits_of(elsewhere | (iz != load(state.cells[2])))
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        x, y, z = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
        enter_cell(field, state, lane, x, y, z)


@inlined
def step_on(field, settings, regions, state, going):
    """Step on with a set of lanes; return those that stop, for ``state.reason``."""
    at = select(booleans_of(going), load(state.current), 0) * 3
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
    next_voxel = (to_ints(fx) * ny + to_ints(fy)) * nz + to_ints(fz)
    next_voxel = select(inside, next_voxel, np.int32(-1))
    store(state.next_voxel, next_voxel)
    left = going & bits_of(next_voxel != load(state.voxel))  # small steps mostly stay inside
    ended = NONE
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        if not enter_voxel(field, state, lane, np.int64(state.next_voxel[lane])):
            ended |= BIT << np.uint32(lane)
    moved = going & ~ended
    where = booleans_of(moved)
    steps, n_rejected = load(state.steps), load(state.n_rejected)
    steps = select(where, steps + 1, steps)
    store(state.x, select(where, new_x, x))
    store(state.y, select(where, new_y, y))
    store(state.z, select(where, new_z, z))
    store(state.steps, steps)
    store(state.n_rejected, select(where, np.uint32(0), n_rejected))
    record_points(settings, state, where)
    done = moved & bits_of(steps >= load(state.max_steps))
    if done:
        reason = select(booleans_of(done), np.int32(MAX_LENGTH), load(state.reason))
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
def record_points(settings, state, moved):
    """Write the points of all lanes; the next step of a lane may overwrite its point.

    Every `record_every` steps of a lane share one place among its points, so that the last point
    of a half-streamline is always kept.
    """
    cursor, since_recorded = load(state.cursor), load(state.since_recorded)
    cursor = select(moved & (since_recorded == 0), cursor + load(state.cursor_step), cursor)
    since_recorded = select(moved, since_recorded + 1, since_recorded)
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    store(state.since_recorded, select(since_recorded == every, np.int32(0), since_recorded))
    store(state.cursor, cursor)
    put_points(state.points, state.cursor, state.x, state.y, state.z)
