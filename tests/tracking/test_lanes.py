"""The vector instructions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from napari_tractography.tracking import lanes
from napari_tractography.tracking.codes import LANES

N_ROWS, N_PATCHES = 9, 5
EVERY_LANE = np.arange(LANES)


class World:
    """A table of levels, and what one thread knows of a place among its rows."""

    def __init__(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)
        self.levels = rng.integers(0, 2**16, (N_ROWS, N_PATCHES, LANES)).astype(np.uint16)
        self.levels[rng.random(self.levels.shape) < 0.3] = 0
        self.sums = rng.integers(0, 2**20, (N_ROWS, N_PATCHES, LANES)).astype(np.float32)
        self.rows = rng.integers(0, N_ROWS, 8)
        self.scales = rng.random(8, np.float32) * 1e-5
        self.bits = np.uint32(rng.integers(0, 2**32))
        self.patch = int(rng.integers(N_PATCHES))
        self.n = n
        self.near = n == 1

    def mixed(self, table: np.ndarray) -> np.ndarray:
        """(LANES,) float32: the patch interpolated, in pairs and pairs of pairs."""
        terms = [
            self.scales[k] * table[self.rows[k], self.patch].astype(np.float32)
            for k in range(self.n)
        ]
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
        return terms[0]

    def call(self, name: str, table: np.ndarray, *more):
        return CALLS[name, self.near](table, self.rows, self.scales, self.patch, *more)


def running_sum(values: np.ndarray) -> np.ndarray:
    """After Hillis and Steele."""
    values = values.copy()
    for by in (1, 2, 4, 8):
        values[by:] = values[by:] + values[:-by].copy()
    return values


def set_lanes(bits: np.uint32) -> np.ndarray:
    return (int(bits) >> EVERY_LANE & 1).astype(bool)


def caller(function, n_more):
    """A compiled function that calls an intrinsic."""
    more = ", ".join("abcd"[:n_more])
    text = f"def call(t, r, s, p{', ' + more if more else ''}): return f(t, r, s, p, {more})"
    space = {"f": function}
    exec(text, space)
    return njit(space["call"])


CALLS = {
    (name, near): caller(getattr(lanes, f"{name}_{'near' if near else 'mixed'}"), n_more)
    for name, n_more in {
        "sum_patches": 3,
        "draw_lane": 2,
        "mass_in_patch": 1,
        "largest_lane": 1,
        "lanes_at_least": 1,
    }.items()
    for near in (True, False)
}

worlds = pytest.mark.parametrize(
    ("seed", "n"), [(seed, n) for seed in range(12) for n in (1, 8)], ids=str
)


@worlds
def test_patches_are_summed_where_bits_are_set(seed, n):
    world = World(seed, n)
    running = np.full((N_PATCHES, LANES), np.nan, np.float32)
    before = np.float32(0.37)
    last = world.call("sum_patches", world.sums, world.bits, before, running)
    masked = np.where(set_lanes(world.bits), world.mixed(world.sums), np.float32(0))
    wanted = before + running_sum(masked)
    np.testing.assert_array_equal(running[world.patch], wanted)
    assert last == wanted[-1]
    assert np.isnan(np.delete(running, world.patch, axis=0)).all()  # nothing else is written
    for goal in (np.float32(0), wanted[3], np.nextafter(wanted[7], np.float32(0)), wanted[-1]):
        assert count(running, world.patch, goal) == (wanted <= goal).sum()


@njit
def count(running, group, goal):
    return lanes.count_at_most(running, group, goal)


@worlds
def test_a_lane_is_drawn_by_the_running_sum(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.levels)
    running = running_sum(mixed)
    inside = set_lanes(world.bits) | set_lanes(world.bits >> np.uint32(LANES))
    for share in (0.0, 0.2, 0.5, 0.999, float(np.float32(1) - np.float32(2.0**-24))):
        goal = np.float32(share) * running[-1]
        lane, amplitude, mass = world.call("draw_lane", world.levels, np.float32(share), world.bits)
        assert lane == (running <= goal).sum()
        assert lane == LANES or amplitude == mixed[lane]
        assert mass == pytest.approx(mixed[inside].sum(dtype=float), rel=1e-5, abs=1e-9)


@worlds
def test_the_mass_counts_both_sides(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.levels).astype(float)
    sides = set_lanes(world.bits) + 1.0 * set_lanes(world.bits >> np.uint32(LANES))
    mass = world.call("mass_in_patch", world.levels, world.bits)
    assert mass == pytest.approx((mixed * sides).sum(), rel=1e-5, abs=1e-9)


@worlds
def test_the_largest_lane_is_the_first_of_equal_ones(seed, n):
    world = World(seed, n)
    world.levels[:, :, 5] = world.levels[:, :, 11] = 65535
    allowed = np.where(set_lanes(world.bits), world.mixed(world.levels), np.float32(-1))
    value, lane = world.call("largest_lane", world.levels, world.bits)
    assert (value, lane) == (allowed.max(), allowed.argmax())
    value, _ = world.call("largest_lane", world.levels, np.uint32(0))
    assert value == -1


@worlds
def test_lanes_that_may_hold_a_larger_one_are_found(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.levels)
    for least in (np.float32(-1), np.sort(mixed)[8], np.float32(1e9)):
        found = world.call("lanes_at_least", world.levels, least)
        np.testing.assert_array_equal(set_lanes(found), mixed >= least)
        if found:
            assert first_bit(np.uint32(found)) == np.flatnonzero(mixed >= least)[0]


@njit
def first_bit(bits):
    return lanes.lowest_bit(bits)
