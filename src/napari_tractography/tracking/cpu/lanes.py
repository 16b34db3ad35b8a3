"""Lanes: the streamlines that a thread of the CPU backend tracks side by side, and their state.

Vectors of N_LANES numbers have one for each; their operators and functions are those of
:mod:`.llvm`, and what is defined here by them. The state is allocated by :mod:`.cpu_backend`, one
for each thread; read and written by the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from ...runtime.buffers import aligned
from ...runtime.compiling import OPTIONS, cached, inlined
from ..codes import PADDING, POINTS_AT_ONCE
from .llvm import booleans_reader, lowest_bit, register_width, select, sum_of
from .memory import copy_numbers, counter, filler, loader, loader_from, transposer

# Streamlines side by side: two registers' worth, so that the operations of one half hide behind
# those of the other.
N_LANES = 2 * register_width()
# Lanes that climb side by side: with more, derivatives do not fit into the registers (they took a
# quarter longer a lane).
CLIMBERS = register_width()
# Rows and columns of a block that is transposed at once; 16 by 16 took a third longer.
TILE = min(PADDING, register_width(), 8)

load = loader(N_LANES)
load_from = loader_from(N_LANES)
load_points = loader_from(POINTS_AT_ONCE)
load_some = loader_from(CLIMBERS)
filled = filler(types.float32, N_LANES)
filled_points = filler(types.float32, POINTS_AT_ONCE)
filled_some = filler(types.float32, CLIMBERS)
filled_int = filler(types.int32, N_LANES)
filled_words = filler(types.uint32, N_LANES)
numbers_of_lanes = counter(types.uint32, N_LANES)
booleans_of = booleans_reader(N_LANES)
some_booleans_of = booleans_reader(CLIMBERS)
transpose, SOME = transposer(TILE), np.uint32((1 << TILE) - 1)
BIT, ZERO = np.uint32(1), np.float32(0)


class TissueState(NamedTuple):
    """What a lane knows of the tissues that its half runs through; see constraints/tissues.py."""

    depth: np.ndarray  # (N_LANES,) int64: points in deep grey matter since it was entered
    least: np.ndarray  # (N_LANES,) float32: smallest amplitude of the FOD along them
    least_at: np.ndarray  # (N_LANES,) int64: steps to that point
    arrival: np.ndarray  # (N_LANES, 3) float32: direction of the step to the last point
    is_in_lesion: np.ndarray  # (N_LANES,) uint8: whether the last point is
    is_from_deep: np.ndarray  # (N_LANES,) uint8: whether the seed is in deep grey matter
    has_reached_white: np.ndarray  # (N_LANES,) uint8: whether such a streamline has left it
    is_one_way: np.ndarray  # (N_LANES,) uint8: whether there is no backward half
    cropped: np.ndarray  # (N_LANES,) float32: that was cut off at both ends, mm
    # Of backtracking: how often the half was taken back, the most steps that it had where it
    # failed, how many before those it is taken back to, how often it was, and the include regions
    # that were met before it.
    n_reverts: np.ndarray  # (N_LANES,) int64
    furthest: np.ndarray  # (N_LANES,) int64
    n_back: np.ndarray  # (N_LANES,) int64
    n_from_there: np.ndarray  # (N_LANES,) int64
    visited_before: np.ndarray  # (N_LANES,) int64
    path: np.ndarray  # (N_LANES, max_steps + 1, 3) float32: all points of the half, RAS+ mm


def new_tissue_state(max_steps: int) -> TissueState:
    """Allocate that of one thread, for halves of so many steps at most."""
    longs = ("depth", "least_at", "n_reverts", "furthest", "n_back", "n_from_there")
    flags = ("is_in_lesion", "is_from_deep", "has_reached_white", "is_one_way")
    return TissueState(
        **{name: np.zeros(N_LANES, np.int64) for name in (*longs, "visited_before")},
        **{name: np.zeros(N_LANES, np.uint8) for name in flags},
        **{name: np.zeros(N_LANES, np.float32) for name in ("least", "cropped")},
        arrival=np.zeros((N_LANES, 3), np.float32),
        path=np.empty((N_LANES, max_steps + 1, 3), np.float32),
    )


class ArcState(NamedTuple):
    """What a lane knows of the arc that it goes along or tries; see arcs.py."""

    # Where it goes along one, less the parts that are left; else the parts whose amplitudes are
    # known to do.
    part: np.ndarray  # (N_LANES,) int32
    density: np.ndarray  # (N_LANES,) float32: of those parts but for the last
    end: np.ndarray  # (N_LANES,) float32: of the last
    # The box of voxels that no arc leaves: first and last along each axis, the largest bound, and
    # of a small box, of SIDE voxels along each axis, where the rows begin.
    box: np.ndarray  # (6, N_LANES) int32
    bound: np.ndarray  # (N_LANES,) float32
    box_rows: np.ndarray  # (N_LANES, SIDE**3) int64
    at: np.ndarray  # (N_LANES,) int32: in that box, of the cell of a point
    rows: np.ndarray  # (N_LANES, 8) int64: of the corners of that cell
    missing: np.ndarray  # (N_LANES,) int32: why there is no FOD at a point, or 0
    sets: np.ndarray  # (4,) uint32: see FULL and the others


# Indices of `ArcState.sets`, as bits: the lanes whose boxes are full of FODs; those whose boxes are
# small, too; those whose full boxes have no bound below the floor; those of which an arc ahead will
# do.
FULL, PLAIN, AMPLE, AHEAD = range(4)
SIDE = 4  # a step of up to a voxel, and corners around


def new_arc_state() -> ArcState:
    """Allocate that of one thread."""
    return ArcState(
        part=aligned(N_LANES, np.int32),
        density=aligned(N_LANES, np.float32),
        end=aligned(N_LANES, np.float32),
        box=aligned((6, N_LANES), np.int32, NOWHERE),
        bound=aligned(N_LANES, np.float32),
        box_rows=aligned((N_LANES, SIDE**3), np.int64),
        at=aligned(N_LANES, np.int32),
        rows=aligned((N_LANES, 8), np.int64),
        missing=aligned(N_LANES, np.int32),
        sets=aligned(4, np.uint32),
    )


class LaneState(NamedTuple):
    """The state of N_LANES SIMD lanes, each of which tracks one streamline at a time.

    The half-streamlines are 0, forward, and 1, backward.
    """

    # The half-streamline that is being tracked.
    x: np.ndarray  # (N_LANES,) float32: its last point, RAS+ mm, like y and z
    y: np.ndarray
    z: np.ndarray
    ux: np.ndarray  # (N_LANES,) float32: its direction, a unit vector, like uy and uz
    uy: np.ndarray
    uz: np.ndarray
    lobe: np.ndarray  # (15, N_LANES) float32: that it follows, see lobes.py
    top: np.ndarray  # (3, N_LANES) float32: of a lobe a step ago; 0 where that is not known
    roundness: np.ndarray  # (N_LANES,) float32: of a lobe that does not count as wide
    plane: np.ndarray  # (3, N_LANES) float32: across the crossings around; zeros elsewhere
    looked_row: np.ndarray  # (N_LANES,) int32: where both were found, -1 before
    heading: np.ndarray  # (3, N_LANES) float32: tangent at its last point, where steps are arcs
    # Where steps are adaptive: the next one and the length so far, mm.
    step: np.ndarray  # (N_LANES,) float32
    length: np.ndarray  # (N_LANES,) float32
    max_length: np.ndarray  # (N_LANES,) float32: that it may have, mm
    voxel: np.ndarray  # (N_LANES,) int32: nearest voxel, in C order
    row: np.ndarray  # (N_LANES,) int32: of that voxel in the tables, -1 where it has no FOD
    steps: np.ndarray  # (N_LANES,) int32: so far
    max_steps: np.ndarray  # (N_LANES,) int32: that it may have
    stream: np.ndarray  # (N_LANES,) uint32: streamline id, in the counter of random numbers
    purpose: np.ndarray  # (N_LANES,) uint32: of the random numbers
    n_proposals: np.ndarray  # (N_LANES,) uint32: directions that were proposed for the next step
    cursor: np.ndarray  # (N_LANES,) int32: index of the last point in `points`
    cursor_step: np.ndarray  # (N_LANES,) int32: 1 or -1, to the index of the next point
    since_recorded: np.ndarray  # (N_LANES,) int32: steps that have the same cursor, 0 when it moves
    reason: np.ndarray  # (N_LANES,) int32: why it ends
    next_voxel: np.ndarray  # (N_LANES,) int32: that the step leads to, -1 outside the image
    facing: np.ndarray  # (N_LANES,) int64: direction of a cone function's set nearest to the lane's
    # The FOD at its last point.
    bound: np.ndarray  # (N_LANES,) float32: no amplitude that may be drawn is larger
    coefficients: np.ndarray  # (n_padded, N_LANES) float32; after them, the bound of the voxels
    lane_coefficients: np.ndarray  # (N_LANES, n_padded) float32: the same
    # The cell of eight voxels around its last point.
    cells: np.ndarray  # (3, N_LANES) int32: the voxel of corner 0
    corner_weights: np.ndarray  # (8, N_LANES) float32: trilinear
    corner: np.ndarray  # (N_LANES,) int32: the corner nearest to the point
    lane_rows: np.ndarray  # (N_LANES, 8) int64
    # The cell that a step straight on leads to, and its row, of nearest voxels.
    cells_ahead: np.ndarray  # (3, N_LANES) int32
    rows_ahead: np.ndarray  # (N_LANES, 1) int64
    # The voxel that is looked at ahead, in C order, -1 outside the image, and its row.
    far_voxels: np.ndarray  # (N_LANES,) int32
    far_rows: np.ndarray  # (N_LANES,) int64
    # The streamline.
    seed: np.ndarray  # (N_LANES,) int64: index of its seed in the block
    half: np.ndarray  # (N_LANES,) int64: which half is being tracked
    start_direction: np.ndarray  # (N_LANES, 3) float32: of the forward half
    half_n_points: np.ndarray  # (N_LANES, 2) int64: of each half that has ended, but for the seed
    half_steps: np.ndarray  # (N_LANES, 2) int64
    half_lengths: np.ndarray  # (N_LANES, 2) float32: mm
    half_reasons: np.ndarray  # (N_LANES, 2) int64: why each ended
    inside: np.ndarray  # (n_regions,) uint32: the lanes whose last points are in each region
    visited: np.ndarray  # (N_LANES,) int64: bits of the include regions
    # The number of the include region that each half is to visit next: in rising order from q on,
    # in falling order from q - 1 on, for each q.
    next_up: np.ndarray  # (N_LANES, 2, n_includes + 1) int64
    next_down: np.ndarray  # (N_LANES, 2, n_includes + 1) int64
    # (N_LANES, 2 * n_points + 1, 3) float32: backward half, seed in the middle, forward half; mm
    points: np.ndarray
    tissue: TissueState
    arc: ArcState
    progress: np.ndarray  # (12,) int64: see BUSY and the others


# Indices of `LaneState.progress`: as bits, the lanes that track a streamline, those whose next step
# has its direction already, those whose `coefficients` are of an earlier point, and of these the
# ones whose `lane_rows` are, and those whose rows are on the way from memory; the number of seeds
# begun and of points of streamlines that are done. SETTLED are lanes whose direction follows itself
# as long as they stay in their voxel, CLIMBING those whose climb to a peak is under way, FADING
# those that draw once more, since the FOD fades ahead, MIRRORED those of them that propose the
# mirror image of what they drew first, and WEIGHED those of whose cone it is known for this step
# that it holds enough.
BUSY, FORCED, MOVED, AWAY, EXPECTED, SETTLED, CLIMBING, FADING, MIRRORED, WEIGHED = range(10)
N_BEGUN, N_POINTS = 10, 11

FLOATS = ("x", "y", "z", "ux", "uy", "uz", "step", "length", "max_length", "bound", "roundness")
INTS: tuple[str, ...] = ("voxel", "row", "steps", "max_steps", "cursor", "cursor_step")
INTS += ("since_recorded", "reason", "next_voxel", "corner")
WORDS = ("stream", "purpose", "n_proposals")
LONGS = ("seed", "half", "visited")
NOWHERE = np.int32(-(2**31))  # the cell of no point


def new_lane_state(
    n_regions: int, n_includes: int, n_points: int, n_padded: int, max_path: int = 0
) -> LaneState:
    """Allocate the state of one thread.

    Parameters
    ----------
    n_regions, n_includes : int
        How many regions there are, and how many of them are include regions.
    n_points : int
        The most points that half a streamline has, but for the seed.
    n_padded : int
        Length of the rows of coefficients.
    max_path : int
        The most steps of half a streamline, with a tissue image.
    """
    arrays = {
        name: aligned(N_LANES, dtype)
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
        coefficients=aligned((n_padded, N_LANES), np.float32),
        lane_coefficients=aligned((N_LANES, n_padded), np.float32),
        cells=aligned((3, N_LANES), np.int32, NOWHERE),
        corner_weights=aligned((8, N_LANES), np.float32),
        lane_rows=aligned((N_LANES, 8), np.int64, -1),
        cells_ahead=aligned((3, N_LANES), np.int32, NOWHERE),
        rows_ahead=aligned((N_LANES, 1), np.int64, -1),
        far_voxels=aligned(N_LANES, np.int32),
        far_rows=aligned((N_LANES,), np.int64),
        facing=aligned((N_LANES,), np.int64),
        start_direction=aligned((N_LANES, 3), np.float32),
        heading=aligned((3, N_LANES), np.float32),
        lobe=aligned((15, N_LANES), np.float32),
        top=aligned((3, N_LANES), np.float32),
        plane=aligned((3, N_LANES), np.float32),
        looked_row=aligned(N_LANES, np.int32, -1),
        half_n_points=aligned((N_LANES, 2), np.int64),
        half_steps=aligned((N_LANES, 2), np.int64),
        half_lengths=aligned((N_LANES, 2), np.float32),
        half_reasons=aligned((N_LANES, 2), np.int64),
        inside=aligned((n_regions,), np.uint32),
        next_up=aligned((N_LANES, 2, n_includes + 1), np.int64),
        next_down=aligned((N_LANES, 2, n_includes + 1), np.int64),
        points=np.empty((N_LANES, 2 * n_points + 1, 3), np.float32),
        tissue=new_tissue_state(max_path),
        arc=new_arc_state(),
        progress=aligned(12, np.int64),
    )


@inlined
def side_by_side(rows, coefficients, lanes):
    """Copy the coefficients of lanes, a row for each, to where those of all lanes are.

    Parameters
    ----------
    rows : (N_LANES, n_padded) float32
    coefficients : (n_padded, N_LANES) float32
    lanes : uint32
        A set of lanes; others are copied as well.
    """
    n_padded = rows.shape[1]
    for first in range(0, N_LANES, TILE):
        if lanes >> np.uint32(first) & SOME:
            for c in range(0, n_padded, TILE):
                transpose(
                    rows, first * n_padded + c, n_padded, coefficients, c * N_LANES + first, N_LANES
                )


@inlined
def few_side_by_side(rows, coefficients, lanes):
    """Copy the coefficients of those lanes alone: faster for one or two than whole blocks."""
    n_padded = np.uint64(rows.shape[1])
    while lanes:
        lane = np.uint64(lowest_bit(lanes))
        lanes &= lanes - BIT
        for c in range(n_padded):
            coefficients[np.uint64(c), lane] = rows[lane, np.uint64(c)]


@inlined
def sum_of_positive(numbers, n):
    """Return the sum of those of the first n numbers of an array that are positive.

    In an order of its own: POINTS_AT_ONCE sums, side by side, of which the halves are added.
    """
    total = filled_points(ZERO)
    for j in range(0, n, POINTS_AT_ONCE):
        some = load_points(numbers, j)
        total = total + select(some > ZERO, some, ZERO)
    return sum_of(total)


@inlined
def copy_points(source, first, target, at, n):
    """Copy n points, from number `first` of an array on to number `at` of another on.

    Both arrays are (..., 3) float32 in C order; points are counted over all leading axes.
    """
    copy_numbers(source, 3 * first, target, 3 * at, 3 * n)


@cached(**OPTIONS)
def in_order(points, firsts, counts, ordered):
    """Copy the points of streamlines from `points` to `ordered`, in the order of their seeds.

    Parameters
    ----------
    points, ordered : (n, 3) float32
    firsts, counts : (n_seeds,) int64
        Where in `points` each streamline begins, and how many points it has.
    """
    at = 0
    for seed in range(len(counts)):
        copy_points(points, firsts[seed], ordered, at, counts[seed])
        at += counts[seed]
