"""Rejection sampling of directions, for all lanes at once: see draw.py for the distribution.

Masked SIMD with lane refill: a lane whose proposal is rejected proposes again in the next pass,
while others step on. Each pass proposes twice for each lane, since a second proposal costs less
than another pass. Called by :mod:`.stepping`.

Parameters that recur: `state` is a LaneState; `current` is the directions that the lanes have,
int32; `one_sided` holds where a cone has one sign of each direction only. Where it does not hold,
a random bit decides for one of the two cones. Vectors are of N_LANES numbers.
"""
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
from .draw import MARGIN, UNIT_24, ZERO, corner_weight, philox_block, to_voxel
from .llvm import (
    as_ints,
    as_words,
    bits_of,
    floors,
    gather,
    narrowed,
    select,
    store,
    to_floats,
    widened,
)
from .vectors import load, scaled

PROPOSALS_PER_PASS = 2
assert MAX_PROPOSALS % PROPOSALS_PER_PASS == 0
PATCH_MASK = (1 << ALIAS_BITS) - 1
THRESHOLD_MASK = (1 << THRESHOLD_BITS) - 1
WHOLE_MASS = np.float32(MASS_UNITS)


@inlined
def random_words(settings, state, block):
    """Return four random words (uint32) for the next step of every lane; `block` counts draws."""
    w0, w1, w2, w3 = philox_block(
        widened(load(state.stream)),
        widened(as_words(load(state.steps))),
        widened(block),
        widened(load(state.purpose)),
        settings.key_0,
        settings.key_1,
    )
    return narrowed(w0), narrowed(w1), narrowed(w2), narrowed(w3)


@inlined
def propose_direction(field, first, cone, of_patch, of_slot, one_sided):
    """Draw a direction of a voxel for every lane, and tell whether it lies in the cone.

    Parameters
    ----------
    first, cone : int32
        Index of the first patch of the voxel, and of the cone, among those of all.
    of_patch, of_slot : uint32
        Random words.

    Returns
    -------
    j : int32
        Direction of the half set.
    place : int32
        Its index among all quantised amplitudes.
    accepted, antipode : bool
        Whether it or its antipode is in the cone, and whether it is the antipode.
    """
    n_patches = field.alias.shape[1]
    column, rest = scaled(of_patch, n_patches)
    entry = gather(field.alias, first + as_ints(column))
    own = (rest >> ALIAS_BITS) < (entry >> ALIAS_BITS)
    patch = as_ints(select(own, column, entry & PATCH_MASK))
    slot = as_ints(of_slot >> (32 - SLOT_BITS))
    at = (first + patch) << SLOT_BITS
    rest = as_ints((of_slot >> (32 - SLOT_BITS - THRESHOLD_BITS)) & THRESHOLD_MASK)
    entry = gather(field.slot_alias, at + slot)
    slot = select(rest < (entry >> SLOT_BITS), slot, entry & (PATCH_SIZE - 1))
    # Draw from the full sphere: a random sign, then the cone.
    pair = gather(field.cone, cone + patch) >> as_words(slot)
    odd = (of_slot & 1) != 0
    itself = ((pair & 1) != 0) & (one_sided | ~odd)
    antipode = (((pair >> PATCH_SIZE) & 1) != 0) & (one_sided | odd)
    return (patch << SLOT_BITS) + slot, at + slot, itself | antipode, antipode


@inlined
def quantised_at(field, place):
    """Return the quantised amplitudes at indices among all, as float32."""
    return to_floats(gather(field.quantised, place))


@inlined
def draw_nearest(field, settings, state, current, one_sided):
    """Propose two directions for every lane in the voxel of ``state.row``.

    Returns
    -------
    drawn : int32
        Directions of the full set.
    accepted : bool
        Whether one is in the cone and reaches the cutoff.
    doubtful_mass : bool
        Whether the cone mass may be below its limit.
    has_fod : bool
        Whether the voxel has an FOD.
    """
    cutoff, n_half = settings.min_amplitude, field.directions.shape[0] // 2
    n_patches = field.alias.shape[1]
    row = load(state.row)
    has_fod = row >= 0
    row = select(has_fod, row, 0)
    first, cone = row * n_patches, current * n_patches
    w0, w1, w2, w3 = random_words(settings, state, load(state.n_rejected) >> 1)
    j, place, accepted, antipode = propose_direction(field, first, cone, w0, w1, one_sided)
    other_j, other_place, other_accepted, other_antipode = propose_direction(
        field, first, cone, w2, w3, one_sided
    )
    if cutoff > ZERO:
        quantum = load(state.quantum)
        high = quantum * quantised_at(field, select(accepted, place, other_place)) >= cutoff
        if bits_of(accepted & other_accepted & ~high):
            other_accepted &= quantum * quantised_at(field, other_place) >= cutoff
        other_accepted &= accepted | high
        accepted &= high
    j = select(accepted, j, other_j)
    antipode = select(accepted, antipode, other_antipode)
    contained = gather(field.contained_patches, current)
    mass_fraction = gather(field.mass_fractions, first + select(contained >= 0, contained, 0))
    needed = settings.min_probability * MARGIN * WHOLE_MASS
    doubtful_mass = (contained < 0) | (to_floats(mass_fraction) <= needed)
    return select(antipode, j + n_half, j), accepted | other_accepted, doubtful_mass, has_fod


@inlined
def draw_corner(state, of_corner, fx, fy, fz, total):
    """Draw a corner of every lane's cell by its mass; return its row, mass and weighted quantum.

    `of_corner` is a random word, `total` the sum of the masses. For the fractions see
    `corner_weight`.
    """
    goal = to_floats(as_ints(of_corner >> 8)) * UNIT_24 * total
    row, quantum = load(state.corner_rows[0]), load(state.corner_weighted_quanta[0])
    mass = corner_weight(0, fx, fy, fz) * load(state.corner_totals[0])
    running = mass
    for k in range(1, 8):
        past = running <= goal
        mass_here = corner_weight(k, fx, fy, fz) * load(state.corner_totals[k])
        row = select(past, load(state.corner_rows[k]), row)
        quantum = select(past, load(state.corner_weighted_quanta[k]), quantum)
        mass = select(past, mass_here, mass)
        running = running + mass_here
    return row, mass, quantum


@inlined
def weigh_corners(state, fx, fy, fz):
    """Write ``state.corner_weighted_quanta`` of every lane.

    Returns the sum of the masses of the corners, and of the corner with the largest mass: its mass,
    row and weighted quantum.
    """
    weight = corner_weight(0, fx, fy, fz)
    total = weight * load(state.corner_totals[0])
    quantum = weight * load(state.corner_quanta[0])
    store(state.corner_weighted_quanta[0], quantum)
    largest, row = total, load(state.corner_rows[0])
    for k in range(1, 8):
        weight = corner_weight(k, fx, fy, fz)
        mass = weight * load(state.corner_totals[k])
        store(state.corner_weighted_quanta[k], weight * load(state.corner_quanta[k]))
        total = total + mass
        larger = mass > largest
        row = select(larger, load(state.corner_rows[k]), row)
        quantum = select(larger, load(state.corner_weighted_quanta[k]), quantum)
        largest = select(larger, mass, largest)
    return total, largest, row, quantum


@inlined
def draw_trilinear(field, settings, state, current, one_sided):
    """Propose two directions for every lane in voxels drawn among the corners of its cell.

    Returns
    -------
    drawn : int32
        Directions of the full set.
    accepted : bool
        Whether one is in the cone.
    second : bool
        Whether that is the second proposal.
    doubtful_cutoff : bool
        Whether its interpolated amplitude may be below the cutoff.
    doubtful_mass : bool
        Whether the cone mass may be below its limit.
    has_fod : bool
        Whether any corner with a weight has an FOD.
    """
    cutoff, n_half = settings.min_amplitude, field.directions.shape[0] // 2
    n_patches = field.alias.shape[1]
    vx, vy, vz = to_voxel(field.to_voxel, load(state.x), load(state.y), load(state.z))
    fx, fy, fz = vx - floors(vx), vy - floors(vy), vz - floors(vz)
    total, largest, largest_row, largest_quantum = weigh_corners(state, fx, fy, fz)
    n_rejected, cone = load(state.n_rejected), current * n_patches
    accepted = second = antipode = doubtful_cutoff = total < ZERO  # in no lane
    drawn = cone
    for attempt in range(PROPOSALS_PER_PASS):
        of_patch, of_slot, of_corner, _ = random_words(
            settings, state, n_rejected + np.uint32(attempt)
        )
        row, mass, quantum = draw_corner(state, of_corner, fx, fy, fz, total)
        j, place, hit, is_antipode = propose_direction(
            field, row * n_patches, cone, of_patch, of_slot, one_sided
        )
        hit &= mass > ZERO  # rounding may lead to a corner of weight zero
        hit = hit & ~accepted & (n_rejected < np.uint32(MAX_PROPOSALS - attempt))
        if cutoff > ZERO:
            # Two of the eight corners are mostly enough to reach it: that drawn and the largest.
            amplitude = quantum * quantised_at(field, place)
            place_there = (largest_row * n_patches << SLOT_BITS) + j
            amplitude_there = largest_quantum * quantised_at(field, place_there)
            amplitude = select(amplitude_there == amplitude, amplitude, amplitude + amplitude_there)
            doubtful_cutoff = doubtful_cutoff | (hit & (amplitude < cutoff * MARGIN))
        drawn = select(hit, j, drawn)
        antipode = antipode | (hit & is_antipode)
        second = hit
        accepted = accepted | hit
    contained = gather(field.contained_patches, current)
    mass_fraction = gather(
        field.mass_fractions, largest_row * n_patches + select(contained >= 0, contained, 0)
    )
    needed = settings.min_probability * MARGIN * WHOLE_MASS
    doubtful_mass = (contained < 0) | (largest * to_floats(mass_fraction) <= needed * total)
    return (
        select(antipode, drawn + n_half, drawn),
        accepted,
        second,
        doubtful_cutoff,
        doubtful_mass,
        total > ZERO,
    )
