"""Patches of directions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from napari_tractography.tracking.codes import PATCH_SIZE
from napari_tractography.tracking.cpu import patches

N_ROWS, N_PATCHES = 9, 5
EVERY_SLOT = np.arange(PATCH_SIZE)


class World:
    """A table of quantised amplitudes, and rows of it to be interpolated."""

    def __init__(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)
        self.quantised = rng.integers(0, 2**16, (N_ROWS, N_PATCHES, PATCH_SIZE)).astype(np.uint16)
        self.quantised[rng.random(self.quantised.shape) < 0.3] = 0
        self.rows = rng.integers(0, N_ROWS, 8)
        self.quanta = rng.random(8, np.float32) * 1e-5
        self.bits = np.uint32(rng.integers(0, 2**32))
        self.patch = int(rng.integers(N_PATCHES))
        self.n = n

    def mixed(self, table: np.ndarray) -> np.ndarray:
        """(PATCH_SIZE,) float32: the patch interpolated, in pairs and pairs of pairs."""
        terms = [
            self.quanta[k] * table[self.rows[k], self.patch].astype(np.float32)
            for k in range(self.n)
        ]
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
        return terms[0]

    def call(self, name: str, table: np.ndarray, *more):
        return CALLS[name](table, self.rows, self.quanta, self.n, self.patch, *more)


def running_sum(values: np.ndarray) -> np.ndarray:
    """After Hillis and Steele."""
    values = values.copy()
    for by in (1, 2, 4, 8)[: len(values).bit_length() - 1]:
        values[by:] = values[by:] + values[:-by].copy()
    return values


def set_slots(bits: np.uint32) -> np.ndarray:
    return (int(bits) >> EVERY_SLOT & 1).astype(bool)


def compiled(function, n_more):
    """A compiled function that calls one of patches.py."""
    more = "".join(f", {name}" for name in "abc"[:n_more])
    space = {"called": function}
    exec(f"def call(t, r, q, n, p{more}): return called(t, r, q, n, p{more})", space)
    return njit(space["call"])


CALLS = {
    "draw_slot": compiled(patches.draw_slot, 3),
    "mass_in_patch": compiled(patches.mass_in_patch, 2),
    "largest_slot": compiled(patches.largest_slot, 1),
    "slots_at_least": compiled(patches.slots_at_least, 1),
}

worlds = pytest.mark.parametrize(
    ("seed", "n"), [(seed, n) for seed in range(12) for n in (1, 8)], ids=str
)


def sides_in(bits: np.uint32) -> np.ndarray:
    """(PATCH_SIZE,): how many signs of each direction are in the cone."""
    return set_slots(bits).astype(int) + set_slots(bits >> np.uint32(PATCH_SIZE))


@worlds
def test_the_mass_counts_both_sides_from_the_cutoff_on(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.quantised)
    for cutoff in (np.float32(0), np.median(mixed)):
        mass = world.call("mass_in_patch", world.quantised, world.bits, cutoff)
        wanted = (mixed * sides_in(world.bits))[mixed >= cutoff].sum(dtype=float)
        assert mass == pytest.approx(wanted, rel=1e-5, abs=1e-9)


@worlds
def test_a_slot_of_the_cone_is_drawn_by_the_running_sum(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.quantised)
    cutoff = np.median(mixed)
    weights = np.where(mixed >= cutoff, mixed, np.float32(0)) * sides_in(world.bits)
    running = running_sum(weights.astype(np.float32))
    (some,) = np.nonzero(weights)
    for goal in (np.float32(0), running[3], np.nextafter(running[9], np.float32(0))):
        slot = world.call("draw_slot", world.quantised, world.bits, cutoff, goal)
        assert slot == min((running <= goal).sum(), some[-1])
    beyond = world.call("draw_slot", world.quantised, world.bits, cutoff, running[-1])
    assert beyond == some[-1]


@worlds
def test_the_largest_slot_is_the_first_of_equal_ones(seed, n):
    world = World(seed, n)
    world.quantised[:, :, 5] = world.quantised[:, :, 11] = 65535
    allowed = np.where(set_slots(world.bits), world.mixed(world.quantised), np.float32(-1))
    value, slot = world.call("largest_slot", world.quantised, world.bits)
    assert (value, slot) == (allowed.max(), allowed.argmax())
    value, _ = world.call("largest_slot", world.quantised, np.uint32(0))
    assert value == -1


@worlds
def test_slots_with_at_least_an_amplitude_are_found(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.quantised)
    for least in (np.float32(-1), np.sort(mixed)[8], np.float32(1e9)):
        found = world.call("slots_at_least", world.quantised, least)
        np.testing.assert_array_equal(set_slots(found), mixed >= least)
