"""The vector instructions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from napari_tractography.tracking.codes import PATCH_SIZE
from napari_tractography.tracking.cpu import patches

N_ROWS, N_PATCHES = 9, 5
EVERY_LANE = np.arange(PATCH_SIZE)


class World:
    """A table of quantised, and what one thread knows of a place among its rows."""

    def __init__(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)
        self.quantised = rng.integers(0, 2**16, (N_ROWS, N_PATCHES, PATCH_SIZE)).astype(np.uint16)
        self.quantised[rng.random(self.quantised.shape) < 0.3] = 0
        self.rows = rng.integers(0, N_ROWS, 8)
        self.quanta = rng.random(8, np.float32) * 1e-5
        self.bits = np.uint32(rng.integers(0, 2**32))
        self.patch = int(rng.integers(N_PATCHES))
        self.n = n
        self.near = n == 1

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
        return CALLS[name, self.near](table, self.rows, self.quanta, self.patch, *more)


def running_sum(values: np.ndarray) -> np.ndarray:
    """After Hillis and Steele."""
    values = values.copy()
    for by in (1, 2, 4, 8)[: len(values).bit_length() - 1]:
        values[by:] = values[by:] + values[:-by].copy()
    return values


def set_lanes(bits: np.uint32) -> np.ndarray:
    return (int(bits) >> EVERY_LANE & 1).astype(bool)


def caller(function, n_more):
    """A compiled function that calls an intrinsic."""
    more = "".join(f", {name}" for name in "abcdefgh"[:n_more])
    space = {"called": function}
    exec(f"def call(t, r, s, p{more}): return called(t, r, s, p{more})", space)
    return njit(space["call"])


CALLS = {
    (name, near): caller(getattr(patches, f"{name}_{'nearest' if near else 'trilinear'}"), n_more)
    for name, n_more in {
        "draw_weighed": 3,
        "mass_in_patch": 2,
        "largest_slot": 1,
        "slots_at_least": 1,
    }.items()
    for near in (True, False)
}

worlds = pytest.mark.parametrize(
    ("seed", "n"), [(seed, n) for seed in range(12) for n in (1, 8)], ids=str
)


def sides_in(bits: np.uint32) -> np.ndarray:
    """(PATCH_SIZE,): in how many ways a lane is in the cone."""
    return set_lanes(bits).astype(int) + set_lanes(bits >> np.uint32(PATCH_SIZE))


@worlds
def test_the_mass_counts_both_sides_from_a_floor_on(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.quantised)
    for floor in (np.float32(0), np.median(mixed)):
        mass = world.call("mass_in_patch", world.quantised, world.bits, floor)
        wanted = (mixed * sides_in(world.bits))[mixed >= floor].sum(dtype=float)
        assert mass == pytest.approx(wanted, rel=1e-5, abs=1e-9)


@worlds
def test_a_lane_of_the_cone_is_drawn_by_the_running_sum(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.quantised)
    floor = np.median(mixed)
    weights = np.where(mixed >= floor, mixed, np.float32(0)) * sides_in(world.bits)
    running = running_sum(weights.astype(np.float32))
    (some,) = np.nonzero(weights)
    for goal in (np.float32(0), running[3], np.nextafter(running[9], np.float32(0))):
        lane = world.call("draw_weighed", world.quantised, world.bits, floor, goal)
        assert lane == min((running <= goal).sum(), some[-1])
    beyond = world.call("draw_weighed", world.quantised, world.bits, floor, running[-1])
    assert beyond == some[-1]


@njit
def corners_weighed(wx, wy, wz, totals, quanta, weights, weighed):
    return patches.weigh_corners(wx, wy, wz, totals, quanta, weights, weighed)


@pytest.mark.parametrize("seed", range(8))
def test_corners_have_trilinear_weights(seed):
    rng = np.random.default_rng(seed)
    totals, quanta = rng.random((2, 8), np.float32)
    totals[rng.integers(8)] = 0
    weights, weighed = np.zeros((2, 8), np.float32)
    along = rng.random(3, np.float32)
    total = corners_weighed(*along, totals, quanta, weights, weighed)
    one = np.float32(1)
    x, y, z = ([one - a, a] for a in along)
    wanted = np.array([x[k >> 2] * y[k >> 1 & 1] * z[k & 1] for k in range(8)], np.float32)
    assert wanted.sum() == pytest.approx(1)
    np.testing.assert_array_equal(weights, np.where(totals > 0, wanted, 0))
    np.testing.assert_array_equal(weighed, wanted * quanta)
    assert total == np.cumsum(wanted * totals)[-1]  # one after the other


@worlds
def test_the_largest_lane_is_the_first_of_equal_ones(seed, n):
    world = World(seed, n)
    world.quantised[:, :, 5] = world.quantised[:, :, 11] = 65535
    allowed = np.where(set_lanes(world.bits), world.mixed(world.quantised), np.float32(-1))
    value, lane = world.call("largest_slot", world.quantised, world.bits)
    assert (value, lane) == (allowed.max(), allowed.argmax())
    value, _ = world.call("largest_slot", world.quantised, np.uint32(0))
    assert value == -1


@worlds
def test_lanes_that_may_hold_a_larger_one_are_found(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.quantised)
    for least in (np.float32(-1), np.sort(mixed)[8], np.float32(1e9)):
        found = world.call("slots_at_least", world.quantised, least)
        np.testing.assert_array_equal(set_lanes(found), mixed >= least)
        if found:
            assert first_bit(np.uint32(found)) == np.flatnonzero(mixed >= least)[0]


@njit
def first_bit(bits):
    return patches.lowest_bit(bits)
