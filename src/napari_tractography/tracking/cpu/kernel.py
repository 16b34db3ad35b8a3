"""The Numba kernel: N_LANES streamlines side by side.

Masked SIMD with lane refill: the lanes of a thread draw directions and step at once, by vector
instructions, whatever streamline each is on. A lane whose proposal is rejected proposes again, and
one whose streamline is done begins the next seed. What happens seldom is done for one lane
after the other, and so are draws of algorithms that are not `side_by_side`. A streamline depends on
nothing but its seed and id.

Its twin is ``tracking/cuda/track.cu``, with a thread for each lane: the same order of float32
operations, no fused multiply-add, hence the same bits. Called by
:mod:`napari_tractography.tracking.cpu.cpu_backend` from several threads at once, without the GIL.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

from ...model.algorithms import ALGORITHMS, BY_CODE
from ...runtime.compiling import OPTIONS, bound, cached, compiled, inlined
from ..codes import NEAREST, PURPOSE_START, SEED_WITHOUT_FOD, START_SAMPLED
from .cells import ZERO
from .deterministic import prepare
from .draw import EVERY, NONE, draw_directions
from .lanes import BUSY, FORCED, N_BEGUN, N_LANES, N_POINTS, load
from .llvm import bits_of, lowest_bit
from .memory import align_stack
from .stepping import step_on
from .streamline import (
    begin_at,
    begin_halves,
    begin_streamline,
    end_half,
    keep_streamline,
    start_at_peak,
)

BIT = np.uint32(1)
ROWS = "napari_tractography.model.algorithms"

# What `block_kernel` compiles `track_block` for: the voxels whose FODs mix at a position, how lanes
# draw, and whether start directions are those of peaks.
N_CORNERS, DRAW, AT_PEAK = 8, draw_directions, False
# What `draw_one_by_one` is compiled for: the function of an algorithm that draws for one lane.
NEXT_DIRECTION: Any = None


def block_kernel(algorithm: int, interpolation: int) -> Any:
    """Return `track_block`, compiled for an algorithm and an interpolation, by their codes.

    Each is compiled when it first runs, and holds what it needs and no more; algorithms with the
    same function and traits have one in common.
    """
    return _kernel(_first_alike(BY_CODE[algorithm]), interpolation == NEAREST)


def _first_alike(row):
    """Return the first algorithm for which the same kernel is compiled."""

    def compiled_in(row):
        return row.cpu, row.side_by_side, row.starts_at_peak

    return next(other for other in ALGORITHMS if compiled_in(other) == compiled_in(row))


@cache
def _kernel(row, is_nearest):
    module, _, name = row.cpu.partition(":")
    function = getattr(importlib.import_module(module), name)
    if not hasattr(function, "py_func"):  # not compiled yet
        function = compiled(function)
    if not row.side_by_side:
        function = inlined(bound(draw_one_by_one, NEXT_DIRECTION=function))
    n_corners = np.int64(1 if is_nearest else 8)
    kernel = bound(track_block, N_CORNERS=n_corners, DRAW=function, AT_PEAK=row.starts_at_peak)
    kernel.__qualname__ += f"_{row.name}_{'nearest' if is_nearest else 'trilinear'}"
    return cached(module, f"{ROWS}.{row.name}", **OPTIONS)(kernel)


def draw_one_by_one(field, settings, scratch, state, n_corners, drawing):
    """Draw the next directions of a set of lanes, one after the other; as `draw_directions`."""
    chosen, ended, work = prepare(field, settings, scratch, state, n_corners, drawing)
    left = work
    while left:
        lane = lowest_bit(left)
        left &= left - BIT
        reason = NEXT_DIRECTION(field, settings, scratch, state, n_corners, lane)
        if reason:
            state.reason[lane] = reason
            ended |= BIT << np.uint32(lane)
    return chosen | (work & ~ended), ended


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
    """Track seeds, from the first or from where a call ended; return whether all are done.

    They are not where `points` is full, or where the run is cancelled.

    Parameters
    ----------
    state : LaneState
        Of a thread; ``state.progress`` tells how far it has come.
    positions : (n_seeds, 3) float32
        RAS+ mm.
    seed_directions : (n_seeds, 3) float32
        Start directions that come with the seeds, RAS+; (0, 3) without.
    order : (n_seeds,) int64
        Seeds in the order in which they are begun.
    streams : (n_seeds,) uint32
        Streamline ids, which random numbers depend on.
    cancelled : (1,) uint8
        Set by another thread to end early.
    points : (capacity, 3) float32
        RAS+ mm, filled in the order in which streamlines are done.
    firsts, counts : (n_seeds,) int64
        First point of each seed's streamline, and how many it has: 0 without a streamline.
    lengths : (n_seeds,) float32
        In mm.
    reasons : (n_seeds, 2) uint8
        Why the halves backward and forward ended.
    tally : (N_REASONS,) int64
        Counts of reasons, one for each half and one for what rejects a whole streamline.
    """
    align_stack()
    common = state.progress
    busy, n_begun, n_points = np.uint32(common[BUSY]), common[N_BEGUN], common[N_POINTS]
    room = points.shape[0] - N_LANES * state.points.shape[1]
    while True:
        idle = EVERY & ~busy
        ended = NONE
        while idle and n_begun < order.shape[0]:
            seed = order[n_begun]
            n_begun += 1
            lane = lowest_bit(idle)
            state.seed[lane] = seed
            reason = begin_streamline(
                field,
                settings,
                regions,
                scratch,
                state,
                N_CORNERS,
                lane,
                positions[seed, 0],
                positions[seed, 1],
                positions[seed, 2],
                streams[seed],
            )
            if reason:
                tally[reason] += 1
                continue
            idle &= idle - BIT
            busy |= BIT << np.uint32(lane)
        if not busy or n_points > room or cancelled[0]:
            break
        starting = busy & bits_of(load(state.purpose) == np.uint32(PURPOSE_START))
        forced = np.uint32(common[FORCED])
        drawing, begun = busy & ~forced, NONE
        if settings.start != START_SAMPLED:
            drawing &= ~starting
            left = starting
            while left:
                lane = lowest_bit(left)
                left &= left - BIT
                if begin_at(field, settings, scratch, state, N_CORNERS, lane, seed_directions):
                    begun |= BIT << np.uint32(lane)
                else:
                    ended |= BIT << np.uint32(lane)
        going = forced
        if drawing:
            chosen, stopped = DRAW(field, settings, scratch, state, N_CORNERS, drawing)
            ended |= stopped
            begun |= chosen & starting
            going |= chosen & ~starting
        ended |= step_on(field, settings, regions, state, N_CORNERS, going)
        common[FORCED] = 0
        without_start = ended & starting
        while begun:
            lane = lowest_bit(begun)
            begun &= begun - BIT
            if settings.start == START_SAMPLED:
                start = state.start_direction[lane]
                start[0], start[1], start[2] = state.ux[lane], state.uy[lane], state.uz[lane]
            if AT_PEAK and settings.start != START_SAMPLED:
                start_at_peak(field, state, lane)
            at = positions[state.seed[lane]]
            reason = begin_halves(
                field, settings, regions, state, N_CORNERS, lane, at[0], at[1], at[2]
            )
            if reason:
                state.reason[lane] = reason
                ended |= BIT << np.uint32(lane)
        while ended:
            lane = lowest_bit(ended)
            ended &= ended - BIT
            this = state.seed[lane]
            under_way, rejected, length = False, SEED_WITHOUT_FOD, ZERO
            if not (without_start >> np.uint32(lane)) & BIT:
                at = positions[this]
                under_way, rejected, length = end_half(
                    field,
                    settings,
                    regions,
                    state,
                    N_CORNERS,
                    lane,
                    state.reason[lane],
                    at[0],
                    at[1],
                    at[2],
                )
            if under_way:
                continue
            busy &= ~(BIT << np.uint32(lane))
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
