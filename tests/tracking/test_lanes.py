"""The vector instructions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from napari_tractography.tracking import lanes
from napari_tractography.tracking.codes import (
    ALIAS_BITS,
    LANES,
    TRIES,
    WORDS_MIXED,
    WORDS_NEAR,
)
from napari_tractography.tracking.philox import philox4x32
from napari_tractography.tracking.tables import fill_alias

N_ROWS, N_PATCHES = 9, 5
EVERY_LANE = np.arange(LANES)


class World:
    """A table of levels, and what one thread knows of a place among its rows."""

    def __init__(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)
        self.levels = rng.integers(0, 2**16, (N_ROWS, N_PATCHES, LANES)).astype(np.uint16)
        self.levels[rng.random(self.levels.shape) < 0.3] = 0
        self.alias = np.empty((N_ROWS, N_PATCHES), np.uint32)
        for levels, alias in zip(self.levels, self.alias, strict=True):
            masses = levels.astype(np.int64).sum(axis=1)
            fill_alias(masses, masses.sum(), alias)
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
    (name, near): caller(getattr(lanes, f"{name}_{'near' if near else 'mixed'}"), n_more)
    for name, n_more in {
        "draw_weighed": 3,
        "mass_in_patch": 2,
        "largest_lane": 1,
        "lanes_at_least": 1,
        "draw_tries": 8,
    }.items()
    for near in (True, False)
}

worlds = pytest.mark.parametrize(
    ("seed", "n"), [(seed, n) for seed in range(12) for n in (1, 8)], ids=str
)


def sides_in(bits: np.uint32) -> np.ndarray:
    """(LANES,): in how many ways a lane is in the cone."""
    return set_lanes(bits).astype(int) + set_lanes(bits >> np.uint32(LANES))


@worlds
def test_the_mass_counts_both_sides_from_a_floor_on(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.levels)
    for floor in (np.float32(0), np.median(mixed)):
        mass = world.call("mass_in_patch", world.levels, world.bits, floor)
        wanted = (mixed * sides_in(world.bits))[mixed >= floor].sum(dtype=float)
        assert mass == pytest.approx(wanted, rel=1e-5, abs=1e-9)


@worlds
def test_a_lane_of_the_cone_is_drawn_by_the_running_sum(seed, n):
    world = World(seed, n)
    mixed = world.mixed(world.levels)
    floor = np.median(mixed)
    weights = np.where(mixed >= floor, mixed, np.float32(0)) * sides_in(world.bits)
    running = running_sum(weights.astype(np.float32))
    (some,) = np.nonzero(weights)
    for goal in (np.float32(0), running[3], np.nextafter(running[9], np.float32(0))):
        lane = world.call("draw_weighed", world.levels, world.bits, floor, goal)
        assert lane == min((running <= goal).sum(), some[-1])
    beyond = world.call("draw_weighed", world.levels, world.bits, floor, running[-1])
    assert beyond == some[-1]


@njit
def words_of_steps(stream, first, block, purpose, key_0, key_1, words, row):
    lanes.philox_lanes(stream, first, block, purpose, key_0, key_1, words, row)


@pytest.mark.parametrize("key", [0, 0xFFFFFFFF_FFFFFFFF, 0x299F31D0_A4093822])
def test_random_numbers_of_many_steps_are_those_of_each(key):
    rng = np.random.default_rng(key & 0xFF)
    for stream, first, block, purpose in rng.integers(0, 2**32 - LANES, (20, 4)):
        words = np.zeros((6, LANES), np.uint32)
        given = (stream, first, block, purpose, key & 0xFFFFFFFF, key >> 32)
        words_of_steps(*(np.uint32(value) for value in given), words, 1)
        counters = [[stream, first + lane, block, purpose] for lane in range(LANES)]
        np.testing.assert_array_equal(words[1:5], philox4x32(counters, key).T)
        assert not words[[0, 5]].any()


class Draws:
    """What the tries of a step have to give, try by try."""

    def __init__(self, world: World, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.world = world
        self.cone = rng.integers(0, 2**32, (7, N_PATCHES), dtype=np.uint32)
        self.cone[rng.random(self.cone.shape) < 0.3] = 0
        self.i = int(rng.integers(len(self.cone)))
        self.n_words = WORDS_NEAR if world.near else WORDS_MIXED
        self.words = rng.integers(0, 2**32, (self.n_words * TRIES, LANES), dtype=np.uint32)
        edges = np.array([0, 1, 2**31, 2**32 - 1], np.uint32)
        self.words[:, ::3] = rng.choice(edges, self.words[:, ::3].shape)
        if not world.near:
            world.scales[rng.integers(8)] = 0
        totals = world.levels.sum(axis=(1, 2))[world.rows] * world.scales
        self.running = running_sum(totals.astype(np.float32))

    def wanted(self, attempt: int, column: int, two_sided: bool) -> tuple[int, int, int]:
        """Half-set direction, and whether it is in the cone, and whether as its antipode."""
        world = self.world
        words = [int(word) for word in self.words[attempt * self.n_words :, column]]
        corner = 0
        if not world.near:
            goal = np.float32(words[2] >> 8) * np.float32(2.0**-24) * self.running[-1]
            corner = int((self.running <= goal).sum()) % 8
        row = world.rows[corner]
        column_of, rest = divmod(words[0] * N_PATCHES, 2**32)
        entry = int(world.alias[row, column_of])
        own = rest >> ALIAS_BITS < entry >> ALIAS_BITS
        patch = column_of if own else entry & ((1 << ALIAS_BITS) - 1)
        levels = world.levels[row, patch].astype(int)
        lane = int((np.cumsum(levels) <= words[1] * levels.sum() >> 32).sum())
        assert levels[lane] > 0  # a direction without amplitude is never drawn
        bits = int(self.cone[self.i, patch]) >> lane
        ahead, back = bits & 1, bits >> LANES & 1
        if two_sided:
            ahead, back = (0, back) if words[1] & 1 else (ahead, 0)
        possible = world.near or world.scales[corner] > 0
        return patch * LANES + lane, int(possible and (ahead or back)), back


@worlds
@pytest.mark.parametrize("two_sided", [False, True])
def test_tries_draw_a_patch_and_a_lane_and_look_whether_it_is_in_the_cone(seed, n, two_sided):
    world = World(seed, n)
    draws = Draws(world, seed)
    found_some = 0
    for column in range(LANES):
        for first in range(0, TRIES, lanes.TOGETHER):
            drawn = np.full(TRIES, -1, np.int32)
            found = CALLS["draw_tries", world.near](
                world.alias,
                world.levels,
                draws.cone,
                world.rows,
                world.scales,
                draws.running,
                draws.words,
                column,
                first,
                draws.i,
                two_sided,
                drawn,
            )
            for k in range(lanes.TOGETHER):
                j, inside, behind = draws.wanted(first + k, column, two_sided)
                assert drawn[k] == j
                assert found >> k & 1 == inside
                assert found >> (lanes.TOGETHER + k) & 1 == behind
                found_some += inside
            assert (drawn[lanes.TOGETHER :] == -1).all()
    assert 0 < found_some < LANES * TRIES


@njit
def sum_of_levels(levels, row, patch, bits):
    return lanes.levels_in_patch(levels, row, patch, bits)


@njit
def weighed_lane(levels, rows, scales, patch, lane, bits):
    return lanes.weigh_lane(levels, rows, scales, patch, lane, bits)


@pytest.mark.parametrize("seed", range(12))
def test_a_drawn_lane_is_weighed(seed):
    world = World(seed, 8)
    inside = set_lanes(world.bits)
    row = int(world.rows[0])
    total = sum_of_levels(world.levels, row, world.patch, world.bits)
    assert total == world.levels[row, world.patch][inside].astype(int).sum()
    mixed = world.mixed(world.levels)
    for lane in range(LANES):
        amplitude, mass = weighed_lane(
            world.levels, world.rows, world.scales, world.patch, np.int32(lane), world.bits
        )
        assert amplitude == mixed[lane]
        assert mass == pytest.approx(mixed[inside].sum(dtype=float), rel=1e-5)


@njit
def corners_weighed(wx, wy, wz, totals, scales, weights, weighed, running):
    return lanes.weigh_corners(wx, wy, wz, totals, scales, weights, weighed, running)


@pytest.mark.parametrize("seed", range(8))
def test_corners_have_trilinear_weights(seed):
    rng = np.random.default_rng(seed)
    totals, scales = rng.random((2, 8), np.float32)
    totals[rng.integers(8)] = 0
    weights, weighed, running = np.zeros((3, 8), np.float32)
    along = rng.random(3, np.float32)
    total = corners_weighed(*along, totals, scales, weights, weighed, running)
    one = np.float32(1)
    x, y, z = ([one - a, a] for a in along)
    wanted = np.array([x[k >> 2] * y[k >> 1 & 1] * z[k & 1] for k in range(8)], np.float32)
    assert wanted.sum() == pytest.approx(1)
    np.testing.assert_array_equal(weights, np.where(totals > 0, wanted, 0))
    np.testing.assert_array_equal(weighed, wanted * scales)
    np.testing.assert_array_equal(running, running_sum(wanted * totals))
    assert total == running[-1]


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
