"""What a thread of the CPU backend knows of the streamlines that it tracks side by side."""
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .vectors import N_LANES


class LaneState(NamedTuple):
    """The streamlines that a thread tracks side by side, a number of each in every array."""

    x: np.ndarray  # (N_LANES,) float32: RAS+ mm, like y and z
    y: np.ndarray
    z: np.ndarray
    length: np.ndarray  # (N_LANES,) float32: of the half so far, mm
    most_length: np.ndarray  # (N_LANES,) float32: that it may have
    current: np.ndarray  # (N_LANES,) int32: direction, n_directions where any may follow
    voxel: np.ndarray  # (N_LANES,) int32: the nearest, in C order
    row: np.ndarray  # (N_LANES,) int32: of the nearest voxel, -1 where there is no FOD
    quantum: np.ndarray  # (N_LANES,) float32: of that row
    steps: np.ndarray  # (N_LANES,) int32: of the half so far
    most: np.ndarray  # (N_LANES,) int32: that it may have
    stream: np.ndarray  # (N_LANES,) uint32: streamline id
    purpose: np.ndarray  # (N_LANES,) uint32: of the random numbers
    n_rejected: np.ndarray  # (N_LANES,) uint32: draws of the next step that were in vain
    slot: np.ndarray  # (N_LANES,) int32: of the last point, among `points`
    heading: np.ndarray  # (N_LANES,) int32: 1 or -1, where the next slot is
    since: np.ndarray  # (N_LANES,) int32: steps in this slot
    reason: np.ndarray  # (N_LANES,) int32: why a half ends
    ahead: np.ndarray  # (N_LANES,) int32: voxel that a step leads to, -1 outside the image
    drawn: np.ndarray  # (N_LANES,) int32: direction of the next step
    cells: np.ndarray  # (3, N_LANES) int32: the voxels that the corners belong to
    corner_rows: np.ndarray  # (8, N_LANES) int32
    corner_totals: np.ndarray  # (8, N_LANES) float32, 0 where there is no FOD
    corner_quanta: np.ndarray  # (8, N_LANES) float32, 0 where there is no FOD
    corner_weighed: np.ndarray  # (8, N_LANES) float32: weights times quanta
    own_rows: np.ndarray  # (N_LANES, 8) int64: the same once more, each lane's in a row
    own_totals: np.ndarray  # (N_LANES, 8) float32
    own_quanta: np.ndarray  # (N_LANES, 8) float32
    seed: np.ndarray  # (N_LANES,) int64
    half: np.ndarray  # (N_LANES,) int64
    start: np.ndarray  # (N_LANES,) int64: first direction
    ended_kept: np.ndarray  # (N_LANES, 2) int64: points of the halves that have ended
    ended_steps: np.ndarray  # (N_LANES, 2) int64
    ended_lengths: np.ndarray  # (N_LANES, 2) float32
    ended_reasons: np.ndarray  # (N_LANES, 2) int64
    inside: np.ndarray  # (N_LANES, n_regions) uint8: was the last point in the region
    visited: np.ndarray  # (N_LANES,) int64: bits of the include regions
    ups: np.ndarray  # (N_LANES, 2, n_includes + 1) int64: ordered visits going out, a row a half
    downs: np.ndarray  # (N_LANES, 2, n_includes + 1) int64
    points: np.ndarray  # (N_LANES, 2 * n_points + 1, 3) float32: the seed, its halves to both sides
    common: np.ndarray  # (4,) int64: see BUSY and the others


# What `LaneState.common` holds: bits of the state that are on their way, and of those whose next
# step is given; the numbers of seeds that were begun and of points of streamlines that are done.
BUSY, FORCED, N_BEGUN, N_POINTS = range(4)


def new_lane_state(n_regions: int, n_includes: int, n_points: int) -> LaneState:
    """Allocate the state of one thread; `n_points` is what half a streamline has at most."""
    floats = ("x", "y", "z", "length", "most_length", "quantum")
    ints = ("current", "voxel", "row", "steps", "most", "slot", "heading", "since", "reason")
    ints += ("ahead", "drawn")
    arrays = {name: np.zeros(N_LANES, np.float32) for name in floats}
    arrays |= {name: np.zeros(N_LANES, np.int32) for name in ints}
    arrays |= {name: np.zeros(N_LANES, np.uint32) for name in ("stream", "purpose", "n_rejected")}
    arrays |= {name: np.zeros(N_LANES, np.int64) for name in ("seed", "half", "start", "visited")}
    return LaneState(
        **arrays,
        cells=np.full((3, N_LANES), -(2**31), np.int32),
        corner_rows=np.zeros((8, N_LANES), np.int32),
        corner_totals=np.zeros((8, N_LANES), np.float32),
        corner_quanta=np.zeros((8, N_LANES), np.float32),
        corner_weighed=np.zeros((8, N_LANES), np.float32),
        own_rows=np.zeros((N_LANES, 8), np.int64),
        own_totals=np.zeros((N_LANES, 8), np.float32),
        own_quanta=np.zeros((N_LANES, 8), np.float32),
        ended_kept=np.zeros((N_LANES, 2), np.int64),
        ended_steps=np.zeros((N_LANES, 2), np.int64),
        ended_lengths=np.zeros((N_LANES, 2), np.float32),
        ended_reasons=np.zeros((N_LANES, 2), np.int64),
        inside=np.zeros((N_LANES, n_regions), np.uint8),
        ups=np.zeros((N_LANES, 2, n_includes + 1), np.int64),
        downs=np.zeros((N_LANES, 2, n_includes + 1), np.int64),
        points=np.empty((N_LANES, 2 * n_points + 1, 3), np.float32),
        common=np.zeros(4, np.int64),
    )
