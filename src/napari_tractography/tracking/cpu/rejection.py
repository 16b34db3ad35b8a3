"""Drawing directions for streamlines side by side: the max_proposals of the exact draw, see draw.py."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...compiling import inlined
from ..codes import (
    ALIAS_BITS,
    MASS_UNITS,
    MAX_PROPOSALS,
    PATCH_SIZE,
    SLOT_BITS,
    THRESHOLD_BITS,
)
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

TOGETHER = 2  # draws of a lane: of more, most would be in vain
assert MAX_PROPOSALS % TOGETHER == 0
PATCH_MASK = (1 << ALIAS_BITS) - 1
THRESHOLD_MASK = (1 << THRESHOLD_BITS) - 1
ONE = np.float32(1)
ALL = np.float32(MASS_UNITS)


@inlined
def words_of(settings, state, block):
    """Return four random words of every lane's next step."""
    return philox(
        load(state.stream),
        as_words(load(state.steps)),
        block,
        load(state.purpose),
        np.uint32(settings.key_0),
        np.uint32(settings.key_1),
    )


@inlined
def propose_direction(field, first, cone, of_patch, of_slot, one_sided):
    """Draw a direction of voxels, and look whether it lies in the cone.

    `first` and `cone` are where the patches of the voxels and of the cones begin. Returns the
    direction of the half set, its place among all quantised, whether it is in the cone, and whether as
    its antipode.
    """
    n_patches = field.alias.shape[1]
    column, rest = scaled(of_patch, n_patches)
    entry = gather(field.alias, first + as_ints(column))
    own = (rest >> ALIAS_BITS) < (entry >> ALIAS_BITS)
    patch = as_ints(select(own, column, entry & PATCH_MASK))
    lane = as_ints(of_slot >> (32 - SLOT_BITS))
    at = (first + patch) << SLOT_BITS
    rest = as_ints((of_slot >> (32 - SLOT_BITS - THRESHOLD_BITS)) & THRESHOLD_MASK)
    entry = gather(field.slot_alias, at + lane)
    lane = select(rest < (entry >> SLOT_BITS), lane, entry & (PATCH_SIZE - 1))
    # Draw from the full sphere: a random sign, then the cone.
    pair = gather(field.cone, cone + patch) >> as_words(lane)
    odd = (of_slot & 1) != 0
    ahead = ((pair & 1) != 0) & (one_sided | ~odd)
    behind = (((pair >> PATCH_SIZE) & 1) != 0) & (one_sided | odd)
    return (patch << SLOT_BITS) + lane, at + lane, ahead | behind, behind


@inlined
def quantised_at(field, at):
    """Return the quantised of directions, as FLOATS, by their places among all."""
    return to_floats(gather(field.quantised, at))


@inlined
def draw_nearest(field, settings, state, current, one_sided):
    """Draw for state in the voxels of `state.row`, twice.

    Returns
    -------
    j : INTS
        Directions of the full set.
    found : TRUTHS
        Which of them lie in the cone, from the floor on.
    doubtful_mass : TRUTHS
        Which state' cones may hold too little.
    there : TRUTHS
        Whether there is an FOD where they are.
    """
    floor, n_half = settings.min_amplitude, field.directions.shape[0] // 2
    n_patches = field.alias.shape[1]
    row = load(state.row)
    there = row >= 0
    row = select(there, row, 0)
    first, cone = row * n_patches, current * n_patches
    w0, w1, w2, w3 = words_of(settings, state, load(state.n_rejected) >> 1)
    j, quantised_value, found, behind = propose_direction(field, first, cone, w0, w1, one_sided)
    other_j, other_level, other, other_behind = propose_direction(
        field, first, cone, w2, w3, one_sided
    )
    if floor > ZERO:
        quantum = load(state.quantum)
        high = quantum * quantised_at(field, select(found, quantised_value, other_level)) >= floor
        if bits_of(found & other & ~high):
            other &= quantum * quantised_at(field, other_level) >= floor
        other &= found | high
        found &= high
    j = select(found, j, other_j)
    behind = select(found, behind, other_behind)
    contained = gather(field.contained_patches, current)
    mass_fraction = gather(field.mass_fractions, first + select(contained >= 0, contained, 0))
    needed = settings.min_probability * MARGIN * ALL
    doubtful_mass = (contained < 0) | (to_floats(mass_fraction) <= needed)
    return select(behind, j + n_half, j), found | other, doubtful_mass, there


@inlined
def corner_weight(k, wx, wy, wz):
    """Return the trilinear weight of corner k."""
    weight = wx if k >> 2 else ONE - wx
    weight = weight * (wy if (k >> 1) & 1 else ONE - wy)
    return weight * (wz if k & 1 else ONE - wz)


@inlined
def draw_corner(state, of_corner, wx, wy, wz, total):
    """Draw a corner by what it adds to the FOD's mass; return its row, its mass and quantum."""
    goal = to_floats(as_ints(of_corner >> 8)) * UNIT_24 * total
    weight = corner_weight(0, wx, wy, wz)
    row, quantum = load(state.corner_rows[0]), load(state.corner_weighed[0])
    mass = weight * load(state.corner_totals[0])
    running = mass
    for k in range(1, 8):
        past = running <= goal
        mass_here = corner_weight(k, wx, wy, wz) * load(state.corner_totals[k])
        row = select(past, load(state.corner_rows[k]), row)
        quantum = select(past, load(state.corner_weighed[k]), quantum)
        mass = select(past, mass_here, mass)
        running = running + mass_here
    return row, mass, quantum


@inlined
def propose_trilinear(field, settings, state, n_rejected, cone, one_sided, wx, wy, wz, total):
    """Draw a corner and a direction there; see `draw_trilinear`."""
    of_patch, of_slot, of_corner, _ = words_of(settings, state, n_rejected)
    row, mass, quantum = draw_corner(state, of_corner, wx, wy, wz, total)
    first = row * field.alias.shape[1]
    j, quantised_value, found, behind = propose_direction(
        field, first, cone, of_patch, of_slot, one_sided
    )
    found &= mass > ZERO  # rounding may lead to a corner of weight zero
    return j, quantised_value, found, behind, quantum


@inlined
def draw_trilinear(field, settings, state, current, one_sided):
    """Draw for state amid the corners of their cells, twice.

    Returns
    -------
    j : INTS
        Directions of the full set.
    found : TRUTHS
        Which of them lie in the cone.
    second : TRUTHS
        Which of them are of the second draw.
    doubtful_cutoff : TRUTHS
        Which of them may be below the floor.
    doubtful_mass : TRUTHS
        Which state' cones may hold too little.
    there : TRUTHS
        Whether there is an FOD where they are.
    """
    floor, n_half = settings.min_amplitude, field.directions.shape[0] // 2
    n_patches = field.alias.shape[1]
    vx, vy, vz = to_voxel(field.to_voxel, load(state.x), load(state.y), load(state.z))
    wx, wy, wz = vx - floors(vx), vy - floors(vy), vz - floors(vz)
    weight = corner_weight(0, wx, wy, wz)
    total = weight * load(state.corner_totals[0])
    store(state.corner_weighed[0], weight * load(state.corner_quanta[0]))
    largest, largest_row = total, load(state.corner_rows[0])
    largest_quantum = load(state.corner_weighed[0])
    for k in range(1, 8):
        weight = corner_weight(k, wx, wy, wz)
        mass = weight * load(state.corner_totals[k])
        store(state.corner_weighed[k], weight * load(state.corner_quanta[k]))
        total = total + mass
        larger = mass > largest
        largest_row = select(larger, load(state.corner_rows[k]), largest_row)
        largest_quantum = select(larger, load(state.corner_weighed[k]), largest_quantum)
        largest = select(larger, mass, largest)
    n_rejected, cone = load(state.n_rejected), current * n_patches
    found = second = behind = doubtful_cutoff = total < ZERO  # nowhere
    j = cone
    for attempt in range(TOGETHER):
        this, quantised_value, hit, back, quantum = propose_trilinear(
            field,
            settings,
            state,
            n_rejected + np.uint32(attempt),
            cone,
            one_sided,
            wx,
            wy,
            wz,
            total,
        )
        hit = hit & ~found & (n_rejected < np.uint32(MAX_PROPOSALS - attempt))
        if floor > ZERO:
            # Mostly two of the eight corners are enough.
            amplitude = quantum * quantised_at(field, quantised_value)
            beside = (largest_row * n_patches << SLOT_BITS) + this
            beside = largest_quantum * quantised_at(field, beside)
            amplitude = select(beside == amplitude, amplitude, amplitude + beside)
            doubtful_cutoff = doubtful_cutoff | (hit & (amplitude < floor * MARGIN))
        j = select(hit, this, j)
        behind = behind | (hit & back)
        second = hit
        found = found | hit
    contained = gather(field.contained_patches, current)
    mass_fraction = gather(
        field.mass_fractions, largest_row * n_patches + select(contained >= 0, contained, 0)
    )
    needed = settings.min_probability * MARGIN * ALL
    doubtful_mass = (contained < 0) | (largest * to_floats(mass_fraction) <= needed * total)
    return (
        select(behind, j + n_half, j),
        found,
        second,
        doubtful_cutoff,
        doubtful_mass,
        total > ZERO,
    )
