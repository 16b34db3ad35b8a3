"""Streamlines side by side: drawing their next directions exactly, and stepping along them."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ..codes import LANE_BITS, LANES, LOW_PROBABILITY, MAX_LENGTH, NO_FOD, TRIES, inlined
from .draw import (
    HALF,
    MARGIN,
    PAIR,
    ZERO,
    enter_cell,
    is_cone_poor,
    locate,
    mass_in_patch,
    mixed_amplitude,
    philox_block,
    scan_draw,
    to_voxel,
)
from .patches import lowest_bit
from .regions import visit_regions
from .rejection import TOGETHER, draw_mixed, draw_near
from .streamline import enter_voxel
from .vectors import (
    WALKERS,
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
EVERY = np.uint32((1 << WALKERS) - 1)


@inlined
def scan_cone(field, settings, scratch, walkers, n, lane):
    """Draw the next direction of one walker by a scan of its cone; minus a stop reason."""
    vx, vy, vz = to_voxel(field.to_voxel, walkers.x[lane], walkers.y[lane], walkers.z[lane])
    if not locate(field, n, scratch, walkers, lane, vx, vy, vz):
        return -NO_FOD
    i = np.int64(walkers.current[lane])
    starts = i == field.directions.shape[0]
    limit = np.float32(-1) if starts else settings.min_probability * scratch.total[0]
    r0, r1, _, _ = philox_block(
        np.uint64(walkers.stream[lane]),
        np.uint64(walkers.steps[lane]),
        np.uint64(TRIES),
        np.uint64(walkers.purpose[lane]),
        settings.key_0,
        settings.key_1,
    )
    floor = settings.min_amplitude
    return scan_draw(
        field,
        scratch.masses,
        walkers.own_rows[lane],
        scratch.scales,
        n,
        i,
        floor,
        limit,
        np.uint32(r0),
        np.uint32(r1),
    )


@inlined
def is_poor(field, settings, scratch, walkers, n, lane):
    """Tell whether the cone of one walker that has drawn a direction holds too little."""
    vx, vy, vz = to_voxel(field.to_voxel, walkers.x[lane], walkers.y[lane], walkers.z[lane])
    locate(field, n, scratch, walkers, lane, vx, vy, vz)
    limit = settings.min_probability * scratch.total[0]
    i = np.int64(walkers.current[lane])
    n_half = field.directions.shape[0] // 2
    j = np.int64(walkers.drawn[lane])
    patch = (j - n_half if j >= n_half else j) >> LANE_BITS
    bits = field.cone[i, patch]
    bits = (bits | (bits >> PAIR)) & np.uint32((1 << LANES) - 1)
    # Mostly what it holds of this patch is more than enough.
    rows, scales = walkers.own_rows[lane], scratch.scales
    if mass_in_patch(field, rows, scales, n, patch, bits, ZERO) > MARGIN * limit:
        return False
    return is_cone_poor(field, rows, scales, n, i, limit)


@inlined
def is_faint(field, settings, walkers, lane):
    """Tell whether the amplitude of the direction that one walker has drawn is below the floor."""
    j = np.int64(walkers.drawn[lane])
    n_half = field.directions.shape[0] // 2
    j = j - n_half if j >= n_half else j
    rows, scales = walkers.own_rows[lane], walkers.corner_weighed[:, lane]
    return not mixed_amplitude(field, rows, scales, 8, j) >= settings.min_amplitude


@inlined
def draw_directions(field, settings, scratch, walkers, n, drawing):
    """Draw the next directions of walkers, given as bits.

    Returns those who have one now, in `walkers.current`, and those who stop, for `walkers.reason`;
    the others go on trying.
    """
    current, tried = load(walkers.current), load(walkers.tried)
    starting = current == field.directions.shape[0]  # there all directions are allowed
    one_sided = ~starting & truths_of(NONE if field.two_sided else EVERY)
    may_try = EVERY if field.tries else bits_of(starting)
    trying = drawing & may_try & bits_of(tried < np.uint32(TRIES))
    drawn, ended = NONE, NONE
    if trying:
        if n == 1:
            j, found, unsure, there = draw_near(field, settings, walkers, current, one_sided)
        else:
            enter_cells(field, walkers, trying)
            j, found, second, faint, unsure, there = draw_mixed(
                field, settings, walkers, current, one_sided
            )
        store(walkers.drawn, j)
        drawn = trying & bits_of(found & there)
        tried = select(truths_of(trying), tried + np.uint32(TOGETHER), tried)
        store(walkers.tried, tried)
        if n > 1:
            left, first = drawn & bits_of(faint), ~bits_of(second)
            while left:
                lane = lowest_bit(left)
                left &= left - BIT
                if is_faint(field, settings, walkers, lane):
                    drawn &= ~(BIT << np.uint32(lane))
                    if (first >> np.uint32(lane)) & BIT:
                        walkers.tried[lane] -= np.uint32(1)  # the second draw is yet to count
        ended = trying & ~bits_of(there)
        store(walkers.reason, select(truths_of(ended), np.int32(NO_FOD), load(walkers.reason)))
        left = drawn & bits_of(unsure & ~starting)
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            if is_poor(field, settings, scratch, walkers, n, lane):
                walkers.reason[lane] = LOW_PROBABILITY
                drawn &= ~(BIT << np.uint32(lane))
                ended |= BIT << np.uint32(lane)
    missed = bits_of(load(walkers.tried) >= np.uint32(TRIES)) | ~may_try
    left = drawing & missed & ~(drawn | ended)
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        j = scan_cone(field, settings, scratch, walkers, n, lane)
        if j < 0:
            walkers.reason[lane] = -j
            ended |= BIT << np.uint32(lane)
        else:
            walkers.drawn[lane] = j
            drawn |= BIT << np.uint32(lane)
    store(walkers.current, select(truths_of(drawn), load(walkers.drawn), current))
    return drawn, ended


@inlined
def enter_cells(field, walkers, trying):
    """Find the corners around walkers that have come into another cell."""
    vx, vy, vz = to_voxel(field.to_voxel, load(walkers.x), load(walkers.y), load(walkers.z))
    ix, iy, iz = to_ints(floors(vx)), to_ints(floors(vy)), to_ints(floors(vz))
    elsewhere = (ix != load(walkers.cells[0])) | (iy != load(walkers.cells[1]))
    left = trying & bits_of(elsewhere | (iz != load(walkers.cells[2])))
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        x, y, z = to_voxel(field.to_voxel, walkers.x[lane], walkers.y[lane], walkers.z[lane])
        enter_cell(field, walkers, lane, x, y, z)


@inlined
def step_on(field, settings, regions, walkers, going):
    """Let walkers take a step; return those for whom it was the last, for `walkers.reason`."""
    at = select(truths_of(going), load(walkers.current), 0) * 3
    ux, uy, uz = (
        gather(field.directions, at),
        gather(field.directions, at + 1),
        gather(field.directions, at + 2),
    )
    step = settings.step
    x, y, z = load(walkers.x), load(walkers.y), load(walkers.z)
    new_x, new_y, new_z = x + step * ux, y + step * uy, z + step * uz
    vx, vy, vz = to_voxel(field.to_voxel, new_x, new_y, new_z)
    fx, fy, fz = floors(vx + HALF), floors(vy + HALF), floors(vz + HALF)
    nx, ny, nz = field.voxel_rows.shape
    inside = (fx >= ZERO) & (fy >= ZERO) & (fz >= ZERO) & (fx < nx) & (fy < ny) & (fz < nz)
    fx, fy, fz = select(inside, fx, ZERO), select(inside, fy, ZERO), select(inside, fz, ZERO)
    ahead = (to_ints(fx) * ny + to_ints(fy)) * nz + to_ints(fz)
    ahead = select(inside, ahead, np.int32(-1))
    store(walkers.ahead, ahead)
    left = going & bits_of(ahead != load(walkers.voxel))  # small steps stay for long
    ended = NONE
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        if not enter_voxel(field, walkers, lane, np.int64(walkers.ahead[lane])):
            ended |= BIT << np.uint32(lane)
    moved = going & ~ended
    go = truths_of(moved)
    steps, tried = load(walkers.steps), load(walkers.tried)
    steps = select(go, steps + 1, steps)
    store(walkers.x, select(go, new_x, x))
    store(walkers.y, select(go, new_y, y))
    store(walkers.z, select(go, new_z, z))
    store(walkers.steps, steps)
    store(walkers.tried, select(go, np.uint32(0), tried))
    keep_last_points(settings, walkers, go)
    done = moved & bits_of(steps >= load(walkers.most))
    if done:
        reason = select(truths_of(done), np.int32(MAX_LENGTH), load(walkers.reason))
        store(walkers.reason, reason)
        ended |= done
    if regions.roles.shape[0]:
        left = moved
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            reason_here = visit_regions(
                regions,
                walkers,
                lane,
                walkers.half[lane],
                False,
                walkers.x[lane],
                walkers.y[lane],
                walkers.z[lane],
            )
            if reason_here:
                walkers.reason[lane] = reason_here
                ended |= BIT << np.uint32(lane)
    return ended


@inlined
def keep_last_points(settings, walkers, moved):
    """Write where the walkers are; a point stays unless a later step has the same slot."""
    slot, since = load(walkers.slot), load(walkers.since)
    slot = select(moved & (since == 0), slot + load(walkers.heading), slot)
    since = select(moved, since + 1, since)
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    store(walkers.since, select(since == every, np.int32(0), since))
    store(walkers.slot, slot)
    put_points(walkers.points, walkers.slot, walkers.x, walkers.y, walkers.z)
