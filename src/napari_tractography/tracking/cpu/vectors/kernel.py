"""The Numba kernel that follows peaks and tensors: one streamline after the other.

It has the arguments of ``track_block`` of the other kernel, :mod:`..kernel`, and shares regions,
lengths, stop reasons and recording with it; of the state of the lanes it uses the first. There is
one for all algorithms and interpolations, half as long to compile as one of those. Its twin is the
CUDA source with VECTORS defined. Called by :mod:`napari_tractography.tracking.cpu.cpu_backend`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....runtime.compiling import OPTIONS, bound, cached, compiled, inlined
from ...codes import NEAREST, SEED_WITHOUT_FOD, START_GIVEN
from .. import streamline
from ..cells import ONE, ZERO
from ..constraints.regions import visit_regions
from ..lanes import FORCED, N_BEGUN, N_POINTS
from ..streamline import begin_halves, begin_streamline, end_half, keep_points
from .choice import arrive, arrive_in_blocks, begin_along, next_vector
from .field import BLOCK_MISSING, UNFINISHED

NOTHING_FORCED = np.int64(0)


@inlined
def look_for_no_rows(field, state, n_corners, lanes):
    """Do nothing: `arrive` finds the rows."""


@inlined
def visit(field, regions, state, lane, steps, x, y, z):
    """Record in what regions a point lies; tissues ask for amplitudes that are not here."""
    if regions.roles.shape[0]:
        return visit_regions(regions, state, lane, state.half[lane], False, x, y, z)
    return 0


def _track_half_by(arrive):
    return compiled(
        bound(
            streamline.track_half,
            NEXT_DIRECTION=next_vector,
            arrive=arrive,
            find_rows_of=look_for_no_rows,
            visit=visit,
        )
    )


track_half, track_half_in_blocks = _track_half_by(arrive), _track_half_by(arrive_in_blocks)


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
                reason = track_half(field, settings, regions, scratch, state, n_corners, 0)
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
