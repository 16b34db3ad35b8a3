"""The Numba kernel: N_LANES streamlines side by side.

A thread's state draw and step at once, by vector instructions, whatever streamline each is on:
one whose draw was in vain draws again while others go on, and one that is done goes on with the
next seed. What happens seldom is done for one after the other, and so are algorithms that do not
draw: a search that is like that of the step before is cheap, for all that branches is foreseen.
A streamline depends on nothing but its seed and id.

Its twin is ``tracking/cuda/track.cu``, with a thread for each lane: the same order of float32
operations, no fused multiply-add, hence the same bits. Called by
:mod:`napari_tractography.tracking.cpu.run` from several threads at once, without the GIL.
"""
# mypy: ignore-errors

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import numpy as np

from ..codes import (
    DIFFUSION,
    NEAREST,
    PROBABILISTIC,
    PURPOSE_START,
    SEED_WITHOUT_FOD,
    START_SAMPLED,
)
from .draw import ZERO
from .lane_state import BUSY, FORCED, N_BEGUN, N_POINTS
from .llvm import OPTIONS, bits_of, cached, lowest_bit
from .stepping import EVERY, NONE, draw_directions, step_on
from .streamline import begin_halves, begin_streamline, end_half, keep_points, walk
from .vectors import N_LANES, load

BIT = np.uint32(1)

# All that is compiled into the kernel.
SOURCES = (
    "directions.py",
    "fod.py",
    "parameters.py",
    "philox.py",
    "stop.py",
    "tracking/codes.py",
    "tracking/cpu/draw.py",
    "tracking/cpu/kernel.py",
    "tracking/cpu/lane_state.py",
    "tracking/cpu/langevin.py",
    "tracking/cpu/llvm.py",
    "tracking/cpu/patches.py",
    "tracking/cpu/regions.py",
    "tracking/cpu/rejection.py",
    "tracking/cpu/stepping.py",
    "tracking/cpu/streamline.py",
    "tracking/cpu/vectors.py",
)


def _content_of(sources):
    folder = Path(__file__).parents[2]
    return zlib.crc32(b"".join((folder / name).read_bytes() for name in sources))


@cache
def block_kernel(algorithm, interpolation):
    """Return the kernel of an algorithm and an interpolation: see `track_block` in here.

    Each is compiled when it is first asked for, and holds what it needs and no more.
    """
    n = 1 if interpolation == NEAREST else 8
    return _cached(_content_of(SOURCES), min(algorithm, DIFFUSION), n)


@cache
def _cached(content, algorithm, n):
    """Compile the outermost function, and keep the code on disk for as long as it is valid.

    Numba drops cached code when the function's own file changes, but not when another file does
    that is compiled into it, and it fails to read code whose argument types are gone. It names the
    files of its cache by the function, so the function's name has a checksum of all sources.
    """

    def track_block(
        field,
        settings,
        regions,
        scratch,
        state,
        positions,
        given,
        order,
        first_stream,
        cancelled,
        points,
        firsts,
        counts,
        lengths,
        reasons,
        tally,
    ):
        """Track seeds, or go on with them; return whether they are all done.

        They are not when there is no room for more points or when they are cancelled.

        Parameters
        ----------
        state : LaneState
            Of a thread; ``state.progress`` says where they are.
        positions : (n_seeds, 3) float32
        given : (n_seeds,) int32
            Start directions, read when they are given.
        order : (n_seeds,) int64
            Which seed after which.
        first_stream : int
            Streamline id of seed 0.
        cancelled : (1,) uint8
            Set by another thread to end early.
        points : (capacity, 3) float32
            Filled in the order in which streamlines are done.
        firsts, counts : (n_seeds,) int64
            Where in `points` the streamline of each seed begins, and how many it has, 0 without.
        lengths : (n_seeds,) float32
        reasons : (n_seeds, 2) uint8
        tally : (N_REASONS,) int64
            Counts of reasons: both ends of each half-streamline, once for what rejects a whole.
        """
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
                    scratch,
                    state,
                    n,
                    lane,
                    positions[seed, 0],
                    positions[seed, 1],
                    positions[seed, 2],
                    given[seed],
                    first_stream + seed,
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
                drawing, begun = drawing & ~starting, starting
            going = forced
            if algorithm != PROBABILISTIC:
                drawing, going = drawing & starting, busy & ~starting
            if drawing:
                chosen, ended = draw_directions(field, settings, scratch, state, n, drawing)
                begun |= chosen & starting
                going |= chosen & ~starting
            if algorithm == PROBABILISTIC:
                ended |= step_on(field, settings, regions, state, going)
            else:
                ended |= going
                while going:
                    lane = lowest_bit(going)
                    going &= going - BIT
                    state.reason[lane] = walk(
                        field, settings, regions, scratch, state, algorithm, n, lane
                    )
            common[FORCED] = 0
            for_nothing = ended & starting  # no direction to start in
            while begun:
                lane = lowest_bit(begun)
                begun &= begun - BIT
                if settings.start == START_SAMPLED:
                    state.start_direction[lane] = state.current[lane]
                at = positions[state.seed[lane]]
                reason = begin_halves(field, settings, regions, state, n, lane, at[0], at[1], at[2])
                if reason:
                    state.reason[lane] = reason
                    ended |= BIT << np.uint32(lane)
            while ended:
                lane = lowest_bit(ended)
                ended &= ended - BIT
                this = state.seed[lane]
                under_way, rejected, length = False, SEED_WITHOUT_FOD, ZERO
                if not (for_nothing >> np.uint32(lane)) & BIT:
                    at = positions[this]
                    under_way, rejected, length = end_half(
                        field,
                        settings,
                        regions,
                        state,
                        n,
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
                ahead, back = state.half_reasons[lane, 0], state.half_reasons[lane, 1]
                count = 0
                if state.half_steps[lane, 0] + state.half_steps[lane, 1]:
                    count = keep_points(settings, state, lane, points, n_points)
                tally[ahead] += 1
                if count or back != ahead:
                    tally[back] += 1
                firsts[this] = n_points
                counts[this] = count
                lengths[this] = length
                reasons[this, 0] = back
                reasons[this, 1] = ahead
                n_points += count
        common[BUSY], common[N_BEGUN], common[N_POINTS] = busy, n_begun, n_points
        return not busy

    return cached(track_block, "track_block", content, **OPTIONS)
