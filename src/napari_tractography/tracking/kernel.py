"""The Numba kernel: one streamline after the other.

Its twin is ``kernels/track.cu``: same names, same order of float32 operations, no fused
multiply-add, hence the same bits. Called by :mod:`napari_tractography.tracking.cpu` from several
threads at once, without the GIL.
"""
# mypy: ignore-errors

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numba import njit

from .borders import includes_met, visit_regions
from .codes import (
    BACKWARD,
    DETERMINISTIC,
    DIFFUSION,
    END_REGION,
    EXCLUDED,
    FORWARD,
    LEFT_IMAGE,
    MAX_LENGTH,
    NEAREST,
    NO_FOD,
    NOT_ENDED,
    NOT_INCLUDED,
    OPTIONS,
    PROBABILISTIC,
    PURPOSE_BACKWARD,
    PURPOSE_FORWARD,
    SEED,
    SEED_OUTSIDE_IMAGE,
    SEED_OUTSIDE_MASK,
    SEED_WITHOUT_FOD,
    START_GIVEN,
    TOO_SHORT,
    inlined,
)
from .draw import (
    ZERO,
    best_direction,
    draw_direction,
    locate,
    place,
    start_direction,
    to_voxel,
)
from .langevin import turn_direction

# All that is compiled into the kernel.
SOURCES = (
    "borders.py",
    "codes.py",
    "draw.py",
    "kernel.py",
    "lanes.py",
    "langevin.py",
    "philox.py",
)


@inlined
def walk(
    field,
    settings,
    regions,
    scratch,
    algorithm,
    n,
    out,
    x,
    y,
    z,
    i,
    forced,
    half,
    max_steps,
    max_length,
    stream,
):
    """Track one half of a streamline from its seed; the seed itself is not written.

    `forced` makes the first step along direction i; `max_steps` and `max_length` are what the
    streamline may still grow.

    Returns the number of points written to `out`, the number of steps, their length and the
    reason to stop.
    """
    purpose = PURPOSE_FORWARD if half == 0 else PURPOSE_BACKWARD
    n_points = 0
    steps = 0
    length = ZERO
    every = settings.max_steps + 1 if settings.endpoints else settings.record_every
    vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
    n_regions = regions.roles.shape[0]
    if n_regions:
        visit_regions(regions, scratch, half, True, x, y, z)
    ux, uy, uz = field.directions[i, 0], field.directions[i, 1], field.directions[i, 2]
    step = settings.step
    reason = MAX_LENGTH
    while steps < max_steps:
        if not (forced and steps == 0):
            if not locate(field, n, scratch, vx, vy, vz):
                reason = NO_FOD
                break
            limit = settings.min_probability * scratch.total[0]
            if algorithm > DETERMINISTIC:
                i, ux, uy, uz, step = turn_direction(
                    field, settings, scratch, n, i, ux, uy, uz, limit, stream, steps, purpose
                )
            elif algorithm == PROBABILISTIC:
                i = draw_direction(
                    field, settings, scratch, n, i, field.two_sided, limit, stream, steps, purpose
                )
            else:
                i = best_direction(field, settings, scratch, n, i, limit)
            if i < 0:
                reason = -i
                break
            if algorithm <= DETERMINISTIC:
                ux, uy, uz = field.directions[i, 0], field.directions[i, 1], field.directions[i, 2]
        if settings.adaptive and length + step > max_length:
            break
        new_x = x + step * ux
        new_y = y + step * uy
        new_z = z + step * uz
        vx, vy, vz = to_voxel(field.to_voxel, new_x, new_y, new_z)
        left = place(field, vx, vy, vz)
        if left:
            reason = left
            break
        x, y, z = new_x, new_y, new_z
        steps += 1
        length += step
        if steps % every == 0:
            out[n_points, 0], out[n_points, 1], out[n_points, 2] = x, y, z
            n_points += 1
        if n_regions:
            left = visit_regions(regions, scratch, half, False, x, y, z)
            if left:
                reason = left
                break
    if steps % every:
        out[n_points, 0], out[n_points, 1], out[n_points, 2] = x, y, z
        n_points += 1
    if not settings.adaptive:
        length = np.float32(steps) * settings.step
    return n_points, steps, length, reason


@inlined
def track_streamline(field, settings, regions, scratch, algorithm, n, out, x, y, z, given, stream):
    """Track one streamline into `out`.

    Returns the number of points (0 where there is no streamline), its length, and the reasons of
    its first and last point; a streamline that is rejected has the reason twice.
    """
    vx, vy, vz = to_voxel(field.to_voxel, x, y, z)
    left = place(field, vx, vy, vz)
    if left:
        reason = SEED_OUTSIDE_IMAGE if left == LEFT_IMAGE else SEED_OUTSIDE_MASK
        return 0, ZERO, reason, reason
    if not locate(field, n, scratch, vx, vy, vz):
        return 0, ZERO, SEED_WITHOUT_FOD, SEED_WITHOUT_FOD
    i = given
    if settings.start != START_GIVEN:
        i = start_direction(field, settings, scratch, n, stream)
        if i < 0:
            return 0, ZERO, SEED_WITHOUT_FOD, SEED_WITHOUT_FOD
    scratch.visited[0] = 0
    for half in range(2):
        for q in range(regions.n_includes + 1):
            scratch.ups[half, q] = q
            scratch.downs[half, q] = q - 1
    if regions.roles.shape[0] and visit_regions(regions, scratch, 0, True, x, y, z) == EXCLUDED:
        return 0, ZERO, EXCLUDED, EXCLUDED
    n_half = field.directions.shape[0] // 2
    opposite = i - n_half if i >= n_half else i + n_half
    forced = settings.start != START_GIVEN
    ahead, ahead_steps, ahead_length, ahead_reason = 0, 0, ZERO, SEED
    back, back_steps, back_length, back_reason = 0, 0, ZERO, SEED
    for half in range(2):  # in one place, since all of the draw is compiled into it
        if settings.direction == (BACKWARD if half == 0 else FORWARD):
            continue
        points, steps, length, reason = walk(
            field,
            settings,
            regions,
            scratch,
            algorithm,
            n,
            scratch.forward if half == 0 else out,
            x,
            y,
            z,
            i if half == 0 else opposite,
            forced and (half == 0 or settings.direction == BACKWARD),
            half,
            settings.max_steps - ahead_steps,
            settings.max_length - ahead_length,
            stream,
        )
        if reason == EXCLUDED:
            return 0, ZERO, EXCLUDED, EXCLUDED
        if half == 0:
            ahead, ahead_steps, ahead_length, ahead_reason = points, steps, length, reason
        else:
            back, back_steps, back_length, back_reason = points, steps, length, reason
    steps = ahead_steps + back_steps
    length = ahead_length + back_length if settings.adaptive else np.float32(steps) * settings.step
    if steps == 0:
        return 0, ZERO, back_reason, ahead_reason
    if (length < settings.min_length) if settings.adaptive else (steps < settings.min_steps):
        return 0, ZERO, TOO_SHORT, TOO_SHORT
    if not includes_met(regions, scratch):
        return 0, ZERO, NOT_INCLUDED, NOT_INCLUDED
    if regions.n_ends and (
        (settings.direction != BACKWARD and ahead_reason != END_REGION)
        or (settings.direction != FORWARD and back_reason != END_REGION)
    ):
        return 0, ZERO, NOT_ENDED, NOT_ENDED
    for a in range(back // 2):
        b = back - 1 - a
        for axis in range(3):
            out[a, axis], out[b, axis] = out[b, axis], out[a, axis]
    count = back
    if not settings.endpoints or back == 0 or ahead == 0:
        out[count, 0], out[count, 1], out[count, 2] = x, y, z
        count += 1
    for a in range(ahead):
        for axis in range(3):
            out[count, axis] = scratch.forward[a, axis]
        count += 1
    return count, length, back_reason, ahead_reason


def _content_of(sources):
    folder = Path(__file__).parent
    return zlib.crc32(b"".join((folder / name).read_bytes() for name in sources))


@cache
def block_kernel(algorithm, interpolation):
    """Return the kernel of an algorithm and an interpolation: see `track_block` in here.

    Each is compiled when it is first asked for, since without the others' code in its loop a
    deterministic step takes two thirds of the time.
    """
    n = 1 if interpolation == NEAREST else 8
    return _cached(_content_of(SOURCES), min(algorithm, DIFFUSION), n)


@cache
def _cached(content, algorithm, n):
    """Compile the outermost function, and keep the code on disk for as long as it is valid.

    Numba drops cached code when the function's own file changes, but not when another file does
    that is compiled into it. What a function encloses is part of its key, so it encloses a checksum
    of all of them.
    """

    @njit(cache=True, **OPTIONS)
    def track_block(
        field,
        settings,
        regions,
        scratch,
        positions,
        given,
        first,
        last,
        first_stream,
        cancelled,
        points,
        counts,
        lengths,
        reasons,
        sources,
        tally,
    ):
        """Track seeds `first` to `last` until the points do not fit; return where it stopped.

        Parameters
        ----------
        positions : (n_seeds, 3) float32
        given : (n_seeds,) int32
            Start directions, read when they are given.
        first_stream : int
            Streamline id of seed 0.
        cancelled : (1,) uint8
            Set by another thread to end early.
        points : (capacity, 3) float32
        counts : (last - first,) int64
        lengths : (last - first,) float32
        reasons : (last - first, 2) uint8
        sources : (last - first,) int64
            Seed of each streamline.
        tally : (N_REASONS,) int64
            Counts of reasons: both ends of each half-streamline, once for what rejects a whole.

        Returns
        -------
        next_seed, n_streamlines, n_points : int
        """
        n_points = 0
        n_lines = 0
        room = settings.max_steps + 2
        if content < 0:  # never; see above
            room = 0
        for seed in range(first, last):
            if n_points + room > points.shape[0] or cancelled[0]:
                return seed, n_lines, n_points
            count, length, back, ahead = track_streamline(
                field,
                settings,
                regions,
                scratch,
                algorithm,
                n,
                points[n_points:],
                positions[seed, 0],
                positions[seed, 1],
                positions[seed, 2],
                given[seed],
                first_stream + seed,
            )
            tally[ahead] += 1
            if count or back != ahead:
                tally[back] += 1
            if count:
                counts[n_lines] = count
                lengths[n_lines] = length
                reasons[n_lines, 0] = back
                reasons[n_lines, 1] = ahead
                sources[n_lines] = seed
                n_lines += 1
                n_points += count
        return last, n_lines, n_points

    return track_block
