"""The Numba kernel that follows peaks and tensors: one streamline after the other.

It has the arguments of ``track_block`` of the other kernel, :mod:`..kernel`, and shares regions,
lengths, stop reasons and recording with it; of the state of the lanes it uses the first. There is
one for all algorithms and interpolations, half as long to compile as one of those. Its twin is the
CUDA source with VECTORS defined. Called by :mod:`napari_tractography.tracking.cpu.cpu_backend`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....runtime.compiling import OPTIONS, bound, cached, compiled
from ...codes import MAX_LENGTH, NEAREST, SEED_WITHOUT_FOD, START_GIVEN
from ..cells import ONE, ZERO, to_voxel
from ..constraints.regions import visit_regions
from ..lanes import FORCED, N_BEGUN, N_POINTS
from ..streamline import (
    begin_halves,
    begin_streamline,
    end_half,
    enter_voxel,
    keep_points,
    nearest_voxel,
)
from .choice import arrive, arrive_in_blocks, begin_along, next_vector
from .field import BLOCK_MISSING, UNFINISHED

NOTHING_FORCED = np.int64(0)


def track_half_by(field, settings, regions, scratch, state, n_corners):
    """Track one half of lane 0 from beginning to end; return the reason why it ends."""
    step, reason = settings.step, MAX_LENGTH
    steps, since = np.int64(state.steps[0]), np.int64(state.since_recorded[0])
    slot, heading = np.int64(state.cursor[0]), np.int64(state.cursor_step[0])
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    forced = state.progress[FORCED] != NOTHING_FORCED
    while steps < state.max_steps[0]:
        if steps or not forced:
            if arrive(field, settings, scratch, state, n_corners, ONE):
                reason = np.int64(state.reason[0])  # type: ignore[assignment]
                break
            state.steps[0] = steps
            why = next_vector(field, settings, state, n_corners)
            if why:
                reason = why
                break
        if settings.adaptive:
            step = state.step[0]
            if state.length[0] + step > state.max_length[0]:
                break
        x = state.x[0] + step * state.ux[0]
        y = state.y[0] + step * state.uy[0]
        z = state.z[0] + step * state.uz[0]
        vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
        voxel = nearest_voxel(field, vx, vy, vz)
        if voxel != state.voxel[0] and not enter_voxel(field, state, 0, voxel):
            reason = np.int64(state.reason[0])  # type: ignore[assignment]
            break
        state.x[0], state.y[0], state.z[0] = x, y, z
        state.length[0] += step
        steps += 1
        if since == 0:
            slot += heading
        since = 0 if since + 1 == every else since + 1  # type: ignore[assignment]
        point = state.points[0, slot]
        point[0], point[1], point[2] = x, y, z
        if regions.roles.shape[0]:
            why = visit_regions(regions, state, 0, state.half[0], False, x, y, z)
            if why:
                reason = why
                break
    state.cursor[0] = slot
    state.steps[0] = steps
    return reason


track_half = compiled(track_half_by)
track_half_in_blocks = compiled(bound(track_half_by, arrive=arrive_in_blocks))


def find_start_by(field, settings, scratch, state, n_corners, seed_directions):
    """Find the start direction of lane 0, which is at its seed; return whether there is one."""
    if arrive(field, settings, scratch, state, n_corners, ONE):
        return False
    if settings.start == START_GIVEN:
        seed = state.seed[0]
        state.ux[0], state.uy[0], state.uz[0] = (
            seed_directions[seed, 0],
            seed_directions[seed, 1],
            seed_directions[seed, 2],
        )
    elif not begin_along(field, settings, state, n_corners):
        return False
    start = state.start_direction[0]
    start[0], start[1], start[2] = state.ux[0], state.uy[0], state.uz[0]
    return True


find_start = compiled(find_start_by)
find_start_in_blocks = compiled(bound(find_start_by, arrive=arrive_in_blocks))


def track_block(
    field,
    settings,
    regions,
    scratch,
    state,
    positions,
    seed_directions,
    order,
    streams,
    cancelled,
    points,
    firsts,
    counts,
    lengths,
    reasons,
    tally,
):
    """Track seeds, as the other kernel does; return whether all are done.

    Streamlines that came to a block that is not worked out are to be tracked again; their `counts`
    are UNFINISHED, and nothing else is noted of them.
    """
    common = state.progress
    n_begun, n_points = common[N_BEGUN], common[N_POINTS]
    room = points.shape[0] - state.points.shape[1]
    n_corners = 1 if settings.interpolation == NEAREST else 8
    while n_begun < order.shape[0] and n_points <= room and not cancelled[0]:
        this = order[n_begun]
        n_begun += 1
        state.seed[0] = this
        x, y, z = positions[this, 0], positions[this, 1], positions[this, 2]
        reason = begin_streamline(
            field, settings, regions, scratch, state, n_corners, 0, x, y, z, streams[this]
        )
        state.reason[0] = 0
        if not reason and not find_start(
            field, settings, scratch, state, n_corners, seed_directions
        ):
            reason = SEED_WITHOUT_FOD
            if state.reason[0] == BLOCK_MISSING:
                counts[this] = UNFINISHED
                continue
        if reason:
            tally[reason] += 1
            continue
        common[FORCED] = NOTHING_FORCED
        reason = begin_halves(field, settings, regions, state, n_corners, 0, x, y, z)
        under_way, rejected, length = True, 0, ZERO
        while under_way:
            if not reason:
                reason = track_half(field, settings, regions, scratch, state, n_corners)
            common[FORCED] = NOTHING_FORCED
            under_way, rejected, length = end_half(
                field, settings, regions, state, n_corners, 0, reason, x, y, z
            )
            reason = 0
        forward, backward = state.half_reasons[0, 0], state.half_reasons[0, 1]
        if forward == BLOCK_MISSING or backward == BLOCK_MISSING:
            counts[this] = UNFINISHED
            continue
        if rejected:
            tally[rejected] += 1
            continue
        count = 0
        if state.half_steps[0, 0] + state.half_steps[0, 1]:
            count = keep_points(settings, state, 0, points, n_points)
        tally[forward] += 1
        if count or backward != forward:
            tally[backward] += 1
        firsts[this] = n_points
        counts[this] = count
        lengths[this] = length
        reasons[this, 0] = backward
        reasons[this, 1] = forward
        n_points += count
    common[N_BEGUN], common[N_POINTS] = n_begun, n_points
    return n_begun == order.shape[0]


@cache
def vector_kernel(in_blocks=False):
    """Return `track_block`, compiled when it first runs, for a VectorField or a BlockField."""
    kernel = bound(track_block)
    if in_blocks:
        kernel = bound(
            track_block, track_half=track_half_in_blocks, find_start=find_start_in_blocks
        )
    kernel.__qualname__ += "_blocks" if in_blocks else "_vectors"
    return cached(**OPTIONS)(kernel)
