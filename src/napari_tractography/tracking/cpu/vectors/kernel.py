"""The Numba kernel that follows peaks and tensors: N_LANES streamlines side by side.

Voxels are looked up and steps are taken for one lane after the other; what takes long, eigenvectors
and turns up a gradient, is done by vector instructions. It has the arguments of ``track_block`` of
the other kernel, :mod:`..kernel`, and shares lanes, regions, lengths, stop reasons and recording
with it. There is one for all algorithms and interpolations, half as long to compile as one of
those. Its twin is the CUDA source with VECTORS defined. Called by
:mod:`napari_tractography.tracking.cpu.cpu_backend`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....runtime.compiling import OPTIONS, bound, cached, compiled, inlined
from ...codes import MAX_LENGTH, NEAREST, SEED_WITHOUT_FOD, START_GIVEN
from ..cells import to_voxel
from ..constraints.regions import visit_regions
from ..draw import EVERY, NONE
from ..lanes import BUSY, FORCED, N_BEGUN, N_LANES, N_POINTS
from ..llvm import lowest_bit
from ..streamline import (
    begin_halves,
    begin_streamline,
    end_half,
    enter_voxel,
    keep_streamline,
    nearest_voxel,
)
from .choice import arrive, arrive_in_blocks, begin_along, next_vectors
from .field import BLOCK_MISSING, UNFINISHED

BIT = np.uint32(1)


@inlined
def move(field, settings, regions, state, lane):
    """Take the next step of a lane; return the reason to stop there, or 0."""
    step = settings.step
    if settings.adaptive:
        step = state.step[lane]
        if state.length[lane] + step > state.max_length[lane]:
            return MAX_LENGTH
    x = state.x[lane] + step * state.ux[lane]
    y = state.y[lane] + step * state.uy[lane]
    z = state.z[lane] + step * state.uz[lane]
    vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
    voxel = nearest_voxel(field, vx, vy, vz)
    if voxel != state.voxel[lane] and not enter_voxel(field, state, lane, voxel):
        return np.int64(state.reason[lane])
    state.x[lane], state.y[lane], state.z[lane] = x, y, z
    state.length[lane] += step
    state.steps[lane] += 1
    if state.since_recorded[lane] == 0:
        state.cursor[lane] += state.cursor_step[lane]
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    since = state.since_recorded[lane] + 1
    state.since_recorded[lane] = 0 if since == every else since
    point = state.points[lane, state.cursor[lane]]
    point[0], point[1], point[2] = x, y, z
    if regions.roles.shape[0]:
        reason = visit_regions(regions, state, lane, state.half[lane], False, x, y, z)
        if reason:
            return reason
    return MAX_LENGTH if state.steps[lane] >= state.max_steps[lane] else 0


def find_start_by(field, settings, state, n_corners, lane, seed_directions):
    """Find the start direction of a lane, which is at its seed; return whether there is one."""
    if arrive(field, settings, state, n_corners, lane):
        return False
    if settings.start == START_GIVEN:
        seed = state.seed[lane]
        state.ux[lane], state.uy[lane], state.uz[lane] = (
            seed_directions[seed, 0],
            seed_directions[seed, 1],
            seed_directions[seed, 2],
        )
    elif not begin_along(field, settings, state, n_corners, lane):
        return False
    start = state.start_direction[lane]
    start[0], start[1], start[2] = state.ux[lane], state.uy[lane], state.uz[lane]
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
    busy, n_begun, n_points = np.uint32(common[BUSY]), common[N_BEGUN], common[N_POINTS]
    room = points.shape[0] - N_LANES * state.points.shape[1]
    n_corners = 1 if settings.interpolation == NEAREST else 8
    while True:
        idle, ended = EVERY & ~busy, NONE
        while idle and n_begun < order.shape[0]:
            this = order[n_begun]
            n_begun += 1
            lane = lowest_bit(idle)
            state.seed[lane] = this
            x, y, z = positions[this, 0], positions[this, 1], positions[this, 2]
            reason = begin_streamline(
                field, settings, regions, scratch, state, n_corners, lane, x, y, z, streams[this]
            )
            state.reason[lane] = 0
            if not reason and not find_start(
                field, settings, state, n_corners, lane, seed_directions
            ):
                reason = SEED_WITHOUT_FOD
                if state.reason[lane] == BLOCK_MISSING:
                    counts[this] = UNFINISHED
                    continue
            if reason:
                tally[reason] += 1
                continue
            idle &= idle - BIT
            busy |= BIT << np.uint32(lane)
            reason = begin_halves(field, settings, regions, state, n_corners, lane, x, y, z)
            if reason:
                state.reason[lane] = reason
                ended |= BIT << np.uint32(lane)
        if not busy or n_points > room or cancelled[0]:
            break
        turning = busy & ~ended & ~np.uint32(common[FORCED])
        common[FORCED] = 0
        left = turning
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            if arrive(field, settings, state, n_corners, lane):
                ended |= BIT << np.uint32(lane)
        turning &= ~ended
        if turning:
            ended |= next_vectors(field, settings, state, n_corners, turning)
        left = busy & ~ended
        while left:
            lane = lowest_bit(left)
            left &= left - BIT
            reason = move(field, settings, regions, state, lane)
            if reason:
                state.reason[lane] = reason
                ended |= BIT << np.uint32(lane)
        while ended:
            lane = lowest_bit(ended)
            ended &= ended - BIT
            this, why = state.seed[lane], np.int64(state.reason[lane])
            x, y, z = positions[this, 0], positions[this, 1], positions[this, 2]
            under_way, rejected, length = end_half(
                field, settings, regions, state, n_corners, lane, why, x, y, z
            )
            if under_way:
                continue
            busy &= ~(BIT << np.uint32(lane))
            forward, backward = state.half_reasons[lane, 0], state.half_reasons[lane, 1]
            if forward == BLOCK_MISSING or backward == BLOCK_MISSING:
                counts[this] = UNFINISHED
                continue
            if rejected:
                tally[rejected] += 1
                continue
            n_points = keep_streamline(
                settings,
                state,
                lane,
                length,
                points,
                n_points,
                firsts,
                counts,
                lengths,
                reasons,
                tally,
            )
    common[BUSY], common[N_BEGUN], common[N_POINTS] = busy, n_begun, n_points
    return not busy


@cache
def vector_kernel(in_blocks=False):
    """Return `track_block`, compiled when it first runs, for a VectorField or a BlockField."""
    kernel = bound(track_block)
    if in_blocks:
        kernel = bound(track_block, arrive=arrive_in_blocks, find_start=find_start_in_blocks)
    kernel.__qualname__ += "_blocks" if in_blocks else "_vectors"
    return cached(**OPTIONS)(kernel)
