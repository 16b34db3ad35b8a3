"""Streamlines and their halves, one by one: how they begin and end.

A streamline has two halves, from its seed forward and from there backward, of which the parameters
may ask for one alone. Called by :mod:`.kernel`.
"""

from __future__ import annotations

import numpy as np

from ...runtime.compiling import inlined, kept
from ..codes import (
    BACKWARD,
    END_REGION,
    EXCLUDED,
    FORWARD,
    LEFT_IMAGE,
    LEFT_MASK,
    MAX_LENGTH,
    NO_WHITE,
    NOT_ENDED,
    NOT_INCLUDED,
    PURPOSE_BACKWARD,
    PURPOSE_FORWARD,
    PURPOSE_START,
    REFUSED,
    SEED,
    SEED_IN_WRONG_TISSUE,
    SEED_OUTSIDE_IMAGE,
    SEED_OUTSIDE_MASK,
    START_GIVEN,
    TOO_SHORT,
    TRACKED_AGAIN,
)
from .cells import ONE, ZERO, find_rows_of, leave_cell, nearest, to_voxel
from .constraints.regions import includes_met, visit_regions
from .constraints.tissues import (
    begin_half_in_tissues,
    begin_in_tissues,
    end_in_tissues,
    face_white,
)
from .deterministic import climb_from
from .draw import arrive, find_peak, philox_block
from .lanes import AWAY, FORCED, MOVED, SETTLED, copy_points
from .lobes import begin_lobe
from .memory import number_at
from .sphere.headings import head_on
from .sphere.peaks import has_odd_degrees


@inlined
def nearest_voxel(field, vx, vy, vz):
    """Return the voxel nearest to voxel coordinates, in C order, or -1 outside the image."""
    nx, ny, nz = field.voxel_rows.shape
    ix, iy, iz = nearest(vx), nearest(vy), nearest(vz)
    if ix < 0 or iy < 0 or iz < 0 or ix >= nx or iy >= ny or iz >= nz:
        return -1
    return (ix * ny + iy) * nz + iz


@inlined
def is_in_mask(field, voxel):
    """Tell whether a voxel, numbered in C order, lies in the mask."""
    word = number_at(field.mask_words, voxel >> 6)
    return (word >> np.uint64(voxel & 63)) & np.uint64(1) != np.uint64(0)


@inlined
def enter_voxel(field, state, lane, voxel):
    """Move a lane into a voxel; return False, with a reason, where it may not go there."""
    if voxel < 0:
        state.reason[lane] = LEFT_IMAGE
        return False
    if field.mask_words.size and not is_in_mask(field, voxel):
        state.reason[lane] = LEFT_MASK
        return False
    state.voxel[lane] = voxel
    return True


@kept
def begin_streamline(field, settings, regions, scratch, state, n_corners, lane, x, y, z, stream):
    """Put a lane at a seed, where it is to draw its start direction.

    Returns 0, or the reason why there is no streamline.
    """
    state.x[lane], state.y[lane], state.z[lane] = x, y, z
    state.ux[lane], state.uy[lane], state.uz[lane] = ZERO, ZERO, ONE
    vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
    if not enter_voxel(field, state, lane, nearest_voxel(field, vx, vy, vz)):
        outside = state.reason[lane] == LEFT_IMAGE
        return SEED_OUTSIDE_IMAGE if outside else SEED_OUTSIDE_MASK
    if regions.tissues.fractions.size and not begin_in_tissues(
        regions.tissues, state, lane, x, y, z
    ):
        return SEED_IN_WRONG_TISSUE
    state.progress[MOVED] |= np.int64(1) << lane
    leave_cell(field, state, n_corners, lane)
    state.stream[lane] = stream
    state.purpose[lane] = PURPOSE_START
    state.steps[lane] = 0
    state.n_proposals[lane] = 0
    middle = state.points.shape[1] // 2
    state.cursor[lane] = middle
    point = state.points[lane, middle]
    point[0], point[1], point[2] = x, y, z
    return 0


@kept
def begin_at(field, settings, scratch, state, n_corners, lane, seed_directions):
    """Find the start direction of a lane that is not to draw it; return whether there is one.

    It is that of the seed, or that of the largest amplitude there, in a symmetric FOD of random
    sign.
    """
    bit = np.uint32(1) << np.uint32(lane)
    find_rows_of(field, state, n_corners, bit & np.uint32(state.progress[AWAY]))
    if arrive(field, settings, scratch, state, n_corners, bit):
        return False
    start = state.start_direction[lane]
    if settings.start == START_GIVEN:
        seed = state.seed[lane]
        start[0], start[1], start[2] = (
            seed_directions[seed, 0],
            seed_directions[seed, 1],
            seed_directions[seed, 2],
        )
        return True
    amplitude = find_peak(field, settings, scratch, state, lane)
    if not (amplitude > ZERO and amplitude >= settings.min_amplitude):
        return False
    if has_odd_degrees(field.shifts):
        for axis in range(3):
            start[axis] = scratch.peak[axis]
        return True
    word, _, _, _ = philox_block(
        np.uint64(state.stream[lane]),
        np.uint64(0),
        np.uint64(0),
        np.uint64(PURPOSE_START),
        settings.key_0,
        settings.key_1,
    )
    faces_down = scratch.peak[2] < ZERO  # of the two ends of its axis the search finds either
    sign = -ONE if bool(word & np.uint64(1)) != faces_down else ONE
    for axis in range(3):
        start[axis] = sign * scratch.peak[axis]
    return True


@inlined
def start_at_peak(field, state, lane):
    """Turn the start direction of a lane, which is at its seed, to the peak that it leads up to."""
    start = state.start_direction[lane]
    state.ux[lane], state.uy[lane], state.uz[lane] = start[0], start[1], start[2]
    start[0], start[1], start[2], _ = climb_from(field, state, lane)


@inlined
def begin_half(field, settings, regions, state, n_corners, lane, half, x, y, z):
    """Put a lane at its seed to begin a half; return whether it may take a step at all."""
    state.x[lane], state.y[lane], state.z[lane] = x, y, z
    vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
    enter_voxel(field, state, lane, nearest_voxel(field, vx, vy, vz))
    if regions.tissues.fractions.size:
        begin_half_in_tissues(regions.tissues, state, lane, x, y, z)
    if regions.roles.shape[0]:
        visit_regions(regions, state, lane, half, True, x, y, z)
    sign, start = -ONE if half else ONE, state.start_direction[lane]
    state.ux[lane] = sign * start[0]
    state.uy[lane] = sign * start[1]
    state.uz[lane] = sign * start[2]
    state.step[lane] = settings.step
    state.length[lane] = ZERO
    state.max_length[lane] = settings.max_length - state.half_lengths[lane, 0]
    state.steps[lane] = 0
    state.max_steps[lane] = settings.max_steps - state.half_steps[lane, 0]
    state.purpose[lane] = PURPOSE_BACKWARD if half else PURPOSE_FORWARD
    state.n_proposals[lane] = 0
    state.progress[MOVED] |= np.int64(1) << lane
    state.progress[SETTLED] &= ~(np.int64(1) << lane)
    leave_cell(field, state, n_corners, lane)
    state.half[lane] = half
    state.cursor[lane] = state.points.shape[1] // 2
    state.cursor_step[lane] = -1 if half else 1
    state.since_recorded[lane] = 0
    state.arc.part[lane] = 0
    head_on(state, lane)
    begin_lobe(state, lane)
    starts_straight = settings.start != START_GIVEN and not settings.curved
    if starts_straight and (half == 0 or settings.direction == BACKWARD):
        state.progress[FORCED] |= np.int64(1) << lane
    return state.max_steps[lane] > 0


@kept
def begin_halves(field, settings, regions, state, n_corners, lane, x, y, z):
    """Begin the first half of a streamline whose start direction is known.

    Returns 0, or the reason why that half ends at once.
    """
    state.visited[lane] = 0
    for half in range(2):
        state.half_n_points[lane, half] = 0
        state.half_steps[lane, half] = 0
        state.half_lengths[lane, half] = ZERO
        state.half_reasons[lane, half] = SEED
        for q in range(regions.n_includes + 1):
            state.next_up[lane, half, q] = q
            state.next_down[lane, half, q] = q - 1
    n_regions = regions.roles.shape[0]
    if n_regions and visit_regions(regions, state, lane, 0, True, x, y, z) == EXCLUDED:
        return EXCLUDED
    if regions.tissues.fractions.size:
        face_white(settings, regions.tissues, state, lane, x, y, z)
    half = 1 if settings.direction == BACKWARD else 0
    if not begin_half(field, settings, regions, state, n_corners, lane, half, x, y, z):
        return MAX_LENGTH
    return 0


@inlined
def go_on(field, state, n_corners, lane):
    """Make a lane that was taken back ready for its next step."""
    vx, vy, vz = to_voxel(field.to_voxel, state.x[lane], state.y[lane], state.z[lane])
    enter_voxel(field, state, lane, nearest_voxel(field, vx, vy, vz))
    state.n_proposals[lane] = 0
    state.arc.part[lane] = 0
    begin_lobe(state, lane)
    state.progress[MOVED] |= np.int64(1) << lane
    state.progress[SETTLED] &= ~(np.int64(1) << lane)
    leave_cell(field, state, n_corners, lane)


@kept
def end_half(field, settings, regions, state, n_corners, lane, reason, x, y, z):
    """Record the end of a half and begin the other, if there is one.

    Returns
    -------
    under_way : bool
        Whether the other half is to be tracked.
    rejected : int
        Else the reason why the streamline is discarded, or 0.
    length : float32
        Length of the streamline in mm.
    """
    if state.since_recorded[lane]:
        keep_last_point(state, lane)
    with_tissues = regions.tissues.fractions.size > 0
    one_way = with_tissues and state.tissue.is_one_way[lane]
    while True:
        if with_tissues:
            reason, outcome = end_in_tissues(settings, regions, state, lane, reason)
            if outcome == TRACKED_AGAIN:
                go_on(field, state, n_corners, lane)
                return True, 0, ZERO
            if outcome == REFUSED:
                return False, reason, ZERO
        half, steps = state.half[lane], state.steps[lane]
        if reason == EXCLUDED:
            return False, EXCLUDED, ZERO
        state.half_n_points[lane, half] = abs(state.cursor[lane] - state.points.shape[1] // 2)
        state.half_steps[lane, half] = steps
        state.half_lengths[lane, half] = (
            state.length[lane] if settings.adaptive else np.float32(steps) * settings.step
        )
        state.half_reasons[lane, half] = reason
        if half or settings.direction == FORWARD or one_way:
            break
        if begin_half(field, settings, regions, state, n_corners, lane, 1, x, y, z):
            return True, 0, ZERO
        reason = MAX_LENGTH
    forward, backward = state.half_reasons[lane, 0], state.half_reasons[lane, 1]
    steps = state.half_steps[lane, 0] + state.half_steps[lane, 1]
    length = np.float32(steps) * settings.step
    if settings.adaptive:
        length = state.half_lengths[lane, 0] + state.half_lengths[lane, 1]
    if steps == 0:
        return False, 0, ZERO
    if (length < settings.min_length) if settings.adaptive else (steps < settings.min_steps):
        return False, TOO_SHORT, ZERO
    if with_tissues:
        if regions.tissues.crop:
            length = length - state.tissue.cropped[lane]
            if length < settings.min_length:
                return False, TOO_SHORT, ZERO
        if state.tissue.is_from_deep[lane] and not state.tissue.has_reached_white[lane]:
            return False, NO_WHITE, ZERO
    if not includes_met(regions, state, lane):
        return False, NOT_INCLUDED, ZERO
    if regions.n_ends and (
        (settings.direction != BACKWARD and forward != END_REGION)
        or (settings.direction != FORWARD and not one_way and backward != END_REGION)
    ):
        return False, NOT_ENDED, ZERO
    return False, 0, length


@inlined
def keep_last_point(state, lane):
    """Write the last point of a lane to its place."""
    point = state.points[lane, state.cursor[lane]]
    point[0], point[1], point[2] = state.x[lane], state.y[lane], state.z[lane]


@kept
def keep_points(settings, state, lane, points, n_points):
    """Append the points of a streamline to `points`, after the first n_points; return how many."""
    forward, backward = state.half_n_points[lane, 0], state.half_n_points[lane, 1]
    n_slots = state.points.shape[1]
    seed = lane * n_slots + n_slots // 2
    if settings.endpoints and forward and backward:
        copy_points(state.points, seed - 1, points, n_points, 1)
        copy_points(state.points, seed + 1, points, n_points + 1, 1)
        return 2
    copy_points(state.points, seed - backward, points, n_points, backward + 1 + forward)
    return backward + 1 + forward


@inlined
def keep_streamline(
    settings, state, lane, length, points, n_points, firsts, counts, lengths, reasons, tally
):
    """Note the streamline of a lane, after the first n_points; return how many points there are.

    For the arrays see `track_block` of :mod:`.kernel`.
    """
    forward, backward = state.half_reasons[lane, 0], state.half_reasons[lane, 1]
    count = 0
    if state.half_steps[lane, 0] + state.half_steps[lane, 1]:
        count = keep_points(settings, state, lane, points, n_points)
    tally[forward] += 1
    if count or backward != forward:
        tally[backward] += 1
    this = state.seed[lane]
    firsts[this] = n_points
    counts[this] = count
    lengths[this] = length
    reasons[this, 0] = backward
    reasons[this, 1] = forward
    return n_points + count
