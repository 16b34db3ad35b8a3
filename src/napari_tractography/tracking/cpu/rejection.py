"""Drawing directions for streamlines side by side: the tries of the exact draw, see draw.py."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ..codes import ALIAS_BITS, LANE_BITS, LANES, SHARE_BITS, SHARES, TRIES, inlined
from .draw import MARGIN, UNIT_24, ZERO, to_voxel
from .vectors import (
    as_ints,
    as_words,
    bits_of,
    floors,
    gather,
    load,
    philox,
    scaled,
    select,
    store,
    to_floats,
)

TOGETHER = 2  # draws of a walker: of more, most would be in vain
assert TRIES % TOGETHER == 0
PATCH_MASK = (1 << ALIAS_BITS) - 1
SHARE_MASK = (1 << SHARE_BITS) - 1
ONE = np.float32(1)
ALL = np.float32(SHARES)


@inlined
def words_of(settings, walkers, block):
    """Return four random words of every walker's next step."""
    return philox(
        load(walkers.stream),
        as_words(load(walkers.steps)),
        block,
        load(walkers.purpose),
        np.uint32(settings.key_0),
        np.uint32(settings.key_1),
    )


@inlined
def try_direction(field, first, cone, of_patch, of_lane, one_sided):
    """Draw a direction of voxels, and look whether it lies in the cone.

    `first` and `cone` are where the patches of the voxels and of the cones begin. Returns the
    direction of the half set, its place among all levels, whether it is in the cone, and whether as
    its antipode.
    """
    n_patches = field.alias.shape[1]
    column, rest = scaled(of_patch, n_patches)
    entry = gather(field.alias, first + as_ints(column))
    own = (rest >> ALIAS_BITS) < (entry >> ALIAS_BITS)
    patch = as_ints(select(own, column, entry & PATCH_MASK))
    lane = as_ints(of_lane >> (32 - LANE_BITS))
    at = (first + patch) << LANE_BITS
    rest = as_ints((of_lane >> (32 - LANE_BITS - SHARE_BITS)) & SHARE_MASK)
    entry = gather(field.lane_alias, at + lane)
    lane = select(rest < (entry >> LANE_BITS), lane, entry & (LANES - 1))
    # Draw from the full sphere: a random sign, then the cone.
    pair = gather(field.cone, cone + patch) >> as_words(lane)
    odd = (of_lane & 1) != 0
    ahead = ((pair & 1) != 0) & (one_sided | ~odd)
    behind = (((pair >> LANES) & 1) != 0) & (one_sided | odd)
    return (patch << LANE_BITS) + lane, at + lane, ahead | behind, behind


@inlined
def level_at(field, at):
    """Return the levels of directions, as FLOATS, by their places among all."""
    return to_floats(gather(field.levels, at))


@inlined
def draw_near(field, settings, walkers, current, one_sided):
    """Draw for walkers in the voxels of `walkers.row`, twice.

    Returns
    -------
    j : INTS
        Directions of the full set.
    found : TRUTHS
        Which of them lie in the cone, from the floor on.
    unsure : TRUTHS
        Which walkers' cones may hold too little.
    there : TRUTHS
        Whether there is an FOD where they are.
    """
    floor, n_half = settings.min_amplitude, field.directions.shape[0] // 2
    n_patches = field.alias.shape[1]
    row = load(walkers.row)
    there = row >= 0
    row = select(there, row, 0)
    first, cone = row * n_patches, current * n_patches
    w0, w1, w2, w3 = words_of(settings, walkers, load(walkers.tried) >> 1)
    j, level, found, behind = try_direction(field, first, cone, w0, w1, one_sided)
    other_j, other_level, other, other_behind = try_direction(field, first, cone, w2, w3, one_sided)
    if floor > ZERO:
        scale = load(walkers.scale)
        high = scale * level_at(field, select(found, level, other_level)) >= floor
        if bits_of(found & other & ~high):
            other &= scale * level_at(field, other_level) >= floor
        other &= found | high
        found &= high
    j = select(found, j, other_j)
    behind = select(found, behind, other_behind)
    core = gather(field.cores, current)
    share = gather(field.shares, first + select(core >= 0, core, 0))
    needed = settings.min_probability * MARGIN * ALL
    unsure = (core < 0) | (to_floats(share) <= needed)
    return select(behind, j + n_half, j), found | other, unsure, there


@inlined
def corner_weight(k, wx, wy, wz):
    """Return the trilinear weight of corner k."""
    weight = wx if k >> 2 else ONE - wx
    weight = weight * (wy if (k >> 1) & 1 else ONE - wy)
    return weight * (wz if k & 1 else ONE - wz)


@inlined
def draw_corner(walkers, of_corner, wx, wy, wz, total):
    """Draw a corner by what it adds to the FOD's mass; return its row, its mass and scale."""
    goal = to_floats(as_ints(of_corner >> 8)) * UNIT_24 * total
    weight = corner_weight(0, wx, wy, wz)
    row, scale = load(walkers.corner_rows[0]), load(walkers.corner_weighed[0])
    mass = weight * load(walkers.corner_totals[0])
    running = mass
    for k in range(1, 8):
        past = running <= goal
        mass_here = corner_weight(k, wx, wy, wz) * load(walkers.corner_totals[k])
        row = select(past, load(walkers.corner_rows[k]), row)
        scale = select(past, load(walkers.corner_weighed[k]), scale)
        mass = select(past, mass_here, mass)
        running = running + mass_here
    return row, mass, scale


@inlined
def try_mixed(field, settings, walkers, tried, cone, one_sided, wx, wy, wz, total):
    """Draw a corner and a direction there; see `draw_mixed`."""
    of_patch, of_lane, of_corner, _ = words_of(settings, walkers, tried)
    row, mass, scale = draw_corner(walkers, of_corner, wx, wy, wz, total)
    first = row * field.alias.shape[1]
    j, level, found, behind = try_direction(field, first, cone, of_patch, of_lane, one_sided)
    found &= mass > ZERO  # rounding may lead to a corner of weight zero
    return j, level, found, behind, scale


@inlined
def draw_mixed(field, settings, walkers, current, one_sided):
    """Draw for walkers amid the corners of their cells, twice.

    Returns
    -------
    j : INTS
        Directions of the full set.
    found : TRUTHS
        Which of them lie in the cone.
    second : TRUTHS
        Which of them are of the second draw.
    faint : TRUTHS
        Which of them may be below the floor.
    unsure : TRUTHS
        Which walkers' cones may hold too little.
    there : TRUTHS
        Whether there is an FOD where they are.
    """
    floor, n_half = settings.min_amplitude, field.directions.shape[0] // 2
    n_patches = field.alias.shape[1]
    vx, vy, vz = to_voxel(field.to_voxel, load(walkers.x), load(walkers.y), load(walkers.z))
    wx, wy, wz = vx - floors(vx), vy - floors(vy), vz - floors(vz)
    weight = corner_weight(0, wx, wy, wz)
    total = weight * load(walkers.corner_totals[0])
    store(walkers.corner_weighed[0], weight * load(walkers.corner_scales[0]))
    largest, largest_row = total, load(walkers.corner_rows[0])
    largest_scale = load(walkers.corner_weighed[0])
    for k in range(1, 8):
        weight = corner_weight(k, wx, wy, wz)
        mass = weight * load(walkers.corner_totals[k])
        store(walkers.corner_weighed[k], weight * load(walkers.corner_scales[k]))
        total = total + mass
        larger = mass > largest
        largest_row = select(larger, load(walkers.corner_rows[k]), largest_row)
        largest_scale = select(larger, load(walkers.corner_weighed[k]), largest_scale)
        largest = select(larger, mass, largest)
    tried, cone = load(walkers.tried), current * n_patches
    found = second = behind = faint = total < ZERO  # nowhere
    j = cone
    for attempt in range(TOGETHER):
        this, level, hit, back, scale = try_mixed(
            field, settings, walkers, tried + np.uint32(attempt), cone, one_sided, wx, wy, wz, total
        )
        hit = hit & ~found & (tried < np.uint32(TRIES - attempt))
        if floor > ZERO:
            # Mostly two of the eight corners are enough.
            amplitude = scale * level_at(field, level)
            beside = (largest_row * n_patches << LANE_BITS) + this
            beside = largest_scale * level_at(field, beside)
            amplitude = select(beside == amplitude, amplitude, amplitude + beside)
            faint = faint | (hit & (amplitude < floor * MARGIN))
        j = select(hit, this, j)
        behind = behind | (hit & back)
        second = hit
        found = found | hit
    core = gather(field.cores, current)
    share = gather(field.shares, largest_row * n_patches + select(core >= 0, core, 0))
    needed = settings.min_probability * MARGIN * ALL
    unsure = (core < 0) | (largest * to_floats(share) <= needed * total)
    return select(behind, j + n_half, j), found, second, faint, unsure, total > ZERO
