"""The step of all lanes along their directions. Sets of lanes are the bits of a uint32."""

from __future__ import annotations

import numpy as np

from ...runtime.compiling import inlined, kept
from ..codes import MAX_LENGTH
from .cells import (
    FEW_ROWS,
    HALF,
    ZERO,
    cells_of,
    find_rows_of,
    lanes_in,
    leave_cells,
    look_ahead,
    to_voxel,
)
from .constraints.regions import crossing_regions
from .constraints.tissues import visit
from .lanes import AWAY, MOVED, booleans_of, filled, load
from .llvm import bits_of, floors, lowest_bit, select, to_ints
from .memory import store
from .streamline import enter_voxel

BIT, NONE = np.uint32(1), np.uint32(0)


@kept
def step_on(field, settings, regions, state, n_corners, going):
    """Step on with a set of lanes; return those that stop, for ``state.reason``."""
    ux, uy, uz = load(state.ux), load(state.uy), load(state.uz)
    step, ended = filled(settings.step), NONE
    if settings.adaptive:
        step = load(state.step)
        ended = going & bits_of(load(state.length) + step > load(state.max_length))
        reason = select(booleans_of(ended), np.int32(MAX_LENGTH), load(state.reason))
        store(state.reason, reason)
        going &= ~ended
    x, y, z = load(state.x), load(state.y), load(state.z)
    new_x, new_y, new_z = x + step * ux, y + step * uy, z + step * uz
    vx, vy, vz = to_voxel(field.to_voxel, new_x, new_y, new_z)
    fx, fy, fz = floors(vx + HALF), floors(vy + HALF), floors(vz + HALF)
    nx, ny, nz = field.voxel_rows.shape
    inside = (fx >= ZERO) & (fy >= ZERO) & (fz >= ZERO) & (fx < nx) & (fy < ny) & (fz < nz)
    fx, fy, fz = select(inside, fx, ZERO), select(inside, fy, ZERO), select(inside, fz, ZERO)
    ix, iy, iz = to_ints(fx), to_ints(fy), to_ints(fz)
    next_voxel = select(inside, (ix * ny + iy) * nz + iz, np.int32(-1))
    store(state.next_voxel, next_voxel)
    elsewhere = going & bits_of(next_voxel != load(state.voxel))  # small steps mostly stay inside
    left = elsewhere
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        if not enter_voxel(field, state, lane, np.int64(state.next_voxel[lane])):
            ended |= BIT << np.uint32(lane)
    moved = going & ~ended
    where = booleans_of(moved)
    steps, n_proposals = load(state.steps), load(state.n_proposals)
    steps = select(where, steps + 1, steps)
    store(state.x, select(where, new_x, x))
    store(state.y, select(where, new_y, y))
    store(state.z, select(where, new_z, z))
    if settings.adaptive:
        length = load(state.length)
        store(state.length, select(where, length + step, length))
    store(state.steps, steps)
    store(state.n_proposals, select(where, np.uint32(0), n_proposals))
    state.progress[MOVED] |= np.int64(moved)
    if n_corners == 1:  # a cell is a voxel
        leave_cells(field, state, n_corners, moved & elsewhere, ix, iy, iz)
    else:
        ix, iy, iz = cells_of(n_corners, vx, vy, vz)
        leave_cells(field, state, n_corners, moved & ~lanes_in(state.cells, ix, iy, iz), ix, iy, iz)
    record_points(settings, state, where)
    find_rows_of(field, state, n_corners, moved & np.uint32(state.progress[AWAY]))
    if n_corners == 1 and field.n_entered > FEW_ROWS:
        look_ahead(field, settings, state, n_corners, moved)
    done = moved & bits_of(steps >= load(state.max_steps))
    if done:
        reason = select(booleans_of(done), np.int32(MAX_LENGTH), load(state.reason))
        store(state.reason, reason)
        ended |= done
    if regions.roles.shape[0] or regions.tissues.fractions.size:
        left = moved
        if not regions.tissues.fractions.size:
            left = crossing_regions(regions, state, moved)
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            reason_here = visit(
                field,
                regions,
                state,
                lane,
                np.int64(state.steps[lane]),
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
    """Write every `record_every`-th point of the lanes that have moved.

    The last point of a half-streamline is always kept, see `end_half`; `cursor` is at its place.
    """
    cursor, since_recorded = load(state.cursor), load(state.since_recorded)
    cursor = select(moved & (since_recorded == 0), cursor + load(state.cursor_step), cursor)
    since_recorded = select(moved, since_recorded + 1, since_recorded)
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    store(state.since_recorded, select(since_recorded == every, np.int32(0), since_recorded))
    store(state.cursor, cursor)
    left = bits_of(moved & (since_recorded == every))
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        point = state.points[lane, np.uint64(state.cursor[lane])]
        point[0], point[1], point[2] = state.x[lane], state.y[lane], state.z[lane]
