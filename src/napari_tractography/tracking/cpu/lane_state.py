"""The state of the streamlines that a thread of the CPU backend tracks side by side.

Allocated by :mod:`.run`, one for each thread; read and written by the kernel.
"""
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .vectors import N_LANES


class LaneState(NamedTuple):
    """The state of N_LANES SIMD lanes, each of which tracks one streamline at a time.

    Directions are indices into the full set. The half-streamlines are 0, forward, and 1, backward.
    """

    # The half-streamline that is being tracked.
    x: np.ndarray  # (N_LANES,) float32: its last point, RAS+ mm, like y and z
    y: np.ndarray
    z: np.ndarray
    length: np.ndarray  # (N_LANES,) float32: so far, mm; written where it ends
    max_length: np.ndarray  # (N_LANES,) float32: that it may have, mm
    current: np.ndarray  # (N_LANES,) int32: direction; n_directions where any may follow
    voxel: np.ndarray  # (N_LANES,) int32: nearest voxel, in C order
    row: np.ndarray  # (N_LANES,) int32: of that voxel in the tables, -1 where it has no FOD
    quantum: np.ndarray  # (N_LANES,) float32: of that row
    steps: np.ndarray  # (N_LANES,) int32: so far
    max_steps: np.ndarray  # (N_LANES,) int32: that it may have
    stream: np.ndarray  # (N_LANES,) uint32: streamline id, in the counter of random numbers
    purpose: np.ndarray  # (N_LANES,) uint32: of the random numbers
    n_rejected: np.ndarray  # (N_LANES,) uint32: proposals for the next step that were rejected
    cursor: np.ndarray  # (N_LANES,) int32: index of the last point in `points`
    cursor_step: np.ndarray  # (N_LANES,) int32: 1 or -1, to the index of the next point
    since_recorded: np.ndarray  # (N_LANES,) int32: steps that have the same cursor, 0 when it moves
    reason: np.ndarray  # (N_LANES,) int32: why it ends
    next_voxel: np.ndarray  # (N_LANES,) int32: that the step leads to, -1 outside the image
    next_direction: np.ndarray  # (N_LANES,) int32: that was drawn
    # The cell of eight voxels around its last point.
    cells: np.ndarray  # (3, N_LANES) int32: the voxel of corner 0
    corner_rows: np.ndarray  # (8, N_LANES) int32
    corner_totals: np.ndarray  # (8, N_LANES) float32: mass, 0 where there is no FOD
    corner_quanta: np.ndarray  # (8, N_LANES) float32, 0 where there is no FOD
    corner_weighted_quanta: np.ndarray  # (8, N_LANES) float32: trilinear weights times quanta
    # The same, with the corners of a lane side by side.
    lane_rows: np.ndarray  # (N_LANES, 8) int64
    lane_totals: np.ndarray  # (N_LANES, 8) float32
    lane_quanta: np.ndarray  # (N_LANES, 8) float32
    # The streamline.
    seed: np.ndarray  # (N_LANES,) int64: index of its seed in the block
    half: np.ndarray  # (N_LANES,) int64: which half is being tracked
    start_direction: np.ndarray  # (N_LANES,) int64: of the forward half
    half_n_points: np.ndarray  # (N_LANES, 2) int64: of each half that has ended, but for the seed
    half_steps: np.ndarray  # (N_LANES, 2) int64
    half_lengths: np.ndarray  # (N_LANES, 2) float32: mm
    half_reasons: np.ndarray  # (N_LANES, 2) int64: why each ended
    inside: np.ndarray  # (N_LANES, n_regions) uint8: whether the last point is in each region
    visited: np.ndarray  # (N_LANES,) int64: bits of the include regions
    # The number of the include region that each half is to visit next: in rising order from q on,
    # in falling order from q - 1 on, for each q.
    next_up: np.ndarray  # (N_LANES, 2, n_includes + 1) int64
    next_down: np.ndarray  # (N_LANES, 2, n_includes + 1) int64
    # (N_LANES, 2 * n_points + 1, 3) float32: backward half, seed in the middle, forward half; mm
    points: np.ndarray
    progress: np.ndarray  # (4,) int64: see BUSY and the others


# Indices of `LaneState.progress`: the lanes that track a streamline and those whose next step has
# its direction already, as bits; the number of seeds begun and of points of streamlines that are
# done.
BUSY, FORCED, N_BEGUN, N_POINTS = range(4)

FLOATS = ("x", "y", "z", "length", "max_length", "quantum")
INTS = ("current", "voxel", "row", "steps", "max_steps", "cursor", "cursor_step")
INTS += ("since_recorded", "reason", "next_voxel", "next_direction")
WORDS = ("stream", "purpose", "n_rejected")
LONGS = ("seed", "half", "start_direction", "visited")
NOWHERE = np.int32(-(2**31))  # the cell of no point


def new_lane_state(n_regions: int, n_includes: int, n_points: int) -> LaneState:
    """Allocate the state of one thread.

    Parameters
    ----------
    n_regions, n_includes : int
        How many regions there are, and how many of them are include regions.
    n_points : int
        The most points that half a streamline has, but for the seed.
    """
    arrays = {
        name: np.zeros(N_LANES, dtype)
        for names, dtype in (
            (FLOATS, np.float32),
            (INTS, np.int32),
            (WORDS, np.uint32),
            (LONGS, np.int64),
        )
        for name in names
    }
    return LaneState(
        **arrays,
        cells=np.full((3, N_LANES), NOWHERE),
        corner_rows=np.zeros((8, N_LANES), np.int32),
        corner_totals=np.zeros((8, N_LANES), np.float32),
        corner_quanta=np.zeros((8, N_LANES), np.float32),
        corner_weighted_quanta=np.zeros((8, N_LANES), np.float32),
        lane_rows=np.zeros((N_LANES, 8), np.int64),
        lane_totals=np.zeros((N_LANES, 8), np.float32),
        lane_quanta=np.zeros((N_LANES, 8), np.float32),
        half_n_points=np.zeros((N_LANES, 2), np.int64),
        half_steps=np.zeros((N_LANES, 2), np.int64),
        half_lengths=np.zeros((N_LANES, 2), np.float32),
        half_reasons=np.zeros((N_LANES, 2), np.int64),
        inside=np.zeros((N_LANES, n_regions), np.uint8),
        next_up=np.zeros((N_LANES, 2, n_includes + 1), np.int64),
        next_down=np.zeros((N_LANES, 2, n_includes + 1), np.int64),
        points=np.empty((N_LANES, 2 * n_points + 1, 3), np.float32),
        progress=np.zeros(4, np.int64),
    )
