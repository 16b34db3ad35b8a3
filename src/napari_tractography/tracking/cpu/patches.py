"""Patches: sixteen neighbouring directions at a time, as one vector.

A table of quantised amplitudes is (n_rows, n_patches, PATCH_SIZE) uint16, that of patch maxima
(n_rows, n_groups, PATCH_SIZE) uint16; PATCH_SIZE numbers, a patch or a group, are loaded at once.
The slot of a direction is its place in its patch. As loops over slots these functions were not
turned into vector instructions, and a deterministic trilinear step took three times as long.

Parameters of the functions in here:

table
    One of the two tables above.
rows, quanta : (n,) int64, (n,) float32
    The rows of the voxels that are interpolated, and the amplitude that one unit of each adds:
    its quantum times its weight.
n : int
    1 (nearest) or 8 (trilinear).
patch : int
    Which patch of the table.
cone_bits : uint32
    Bit k is set where the direction in slot k lies in the cone, bit PATCH_SIZE + k where its
    antipode does.
cutoff : float32
    Amplitudes below it count as zero.
"""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...compiling import inlined
from ..codes import PATCH_SIZE
from .llvm import (
    bits_of,
    booleans_reader,
    count_bits,
    largest_of,
    leading_zeros,
    loader,
    lowest_bit,
    running_sum,
    select,
    sum_of,
    to_floats,
)

ANTIPODES = np.uint32(PATCH_SIZE)
ZERO = np.float32(0)

load_patch = loader(PATCH_SIZE)
slots_of = booleans_reader(PATCH_SIZE)


@inlined
def weighted_patch(table, rows, quanta, patch, k):
    """Return the amplitudes of a patch in the k-th row, weighted."""
    return quanta[k] * to_floats(load_patch(table[np.uint64(rows[k]), np.uint64(patch)]))


@inlined
def pair_of(table, rows, quanta, patch, k):
    """Return the sum of the amplitudes of a patch in the k-th row and the next, weighted."""
    one = weighted_patch(table, rows, quanta, patch, k)
    return one + weighted_patch(table, rows, quanta, patch, k + 1)


@inlined
def interpolated_patch(table, rows, quanta, n, patch):
    """Return the interpolated amplitudes of a patch, added in pairs and pairs of pairs."""
    if n == 1:
        return weighted_patch(table, rows, quanta, patch, 0)
    low = pair_of(table, rows, quanta, patch, 0) + pair_of(table, rows, quanta, patch, 2)
    high = pair_of(table, rows, quanta, patch, 4) + pair_of(table, rows, quanta, patch, 6)
    return low + high


@inlined
def patch_in_cone(table, rows, quanta, n, patch, cone_bits, cutoff):
    """Return the interpolated amplitudes within the cone: twice where both signs lie in it."""
    amplitudes = interpolated_patch(table, rows, quanta, n, patch)
    amplitudes = select(amplitudes >= cutoff, amplitudes, ZERO)
    return select(slots_of(cone_bits), amplitudes, ZERO) + select(
        slots_of(cone_bits >> ANTIPODES), amplitudes, ZERO
    )


@inlined
def mass_in_patch(table, rows, quanta, n, patch, cone_bits, cutoff):
    """Return the sum of the amplitudes within the cone."""
    return sum_of(patch_in_cone(table, rows, quanta, n, patch, cone_bits, cutoff))


@inlined
def draw_slot(table, rows, quanta, n, patch, cone_bits, cutoff, goal):
    """Draw a slot within the cone by its amplitude.

    `goal` is a random number below `mass_in_patch`. Where rounding leads beyond the last slot that
    has an amplitude, it is that one.
    """
    weights = patch_in_cone(table, rows, quanta, n, patch, cone_bits, cutoff)
    slot = count_bits(bits_of(running_sum(weights) <= goal))
    last = 31 - leading_zeros(bits_of(weights > ZERO))
    return min(slot, last)


@inlined
def largest_slot(table, rows, quanta, n, patch, bits):
    """Return the largest interpolated amplitude where bits are set, and the first slot of it."""
    amplitudes = interpolated_patch(table, rows, quanta, n, patch)
    amplitudes = select(slots_of(bits), amplitudes, np.float32(-1))
    largest = largest_of(amplitudes)
    return largest, lowest_bit(bits_of(amplitudes == largest))


@inlined
def slots_at_least(table, rows, quanta, n, patch, smallest):
    """Return a bit for each slot whose interpolated number is at least `smallest`."""
    return bits_of(interpolated_patch(table, rows, quanta, n, patch) >= smallest)
