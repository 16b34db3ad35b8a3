"""Cones given as functions, and softplus."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from napari_tractography.geometry.directions import direction_set, neighbour_table
from napari_tractography.tracking.cpu import lanes, memory
from napari_tractography.tracking.cpu.lanes import N_LANES
from napari_tractography.tracking.cpu.sphere import cones


@njit
def nearest_of(directions, neighbours, units, found):
    for i in range(len(units)):
        found[i] = cones.nearest_index(
            directions, neighbours, units[i, 0], units[i, 1], units[i, 2]
        )


@pytest.mark.parametrize("n", [32, 100, 724, 4096])
def test_the_nearest_direction_is_found_by_going_uphill(n):
    """From one and the same direction, wherever the unit vector points."""
    rng = np.random.default_rng(n)
    units = rng.normal(size=(20_000, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    units = np.concatenate([units.astype(np.float32), direction_set(n)])
    found = np.zeros(len(units), np.int64)
    nearest_of(direction_set(n), neighbour_table(n)[0], units, found)
    best = np.concatenate(
        [(part @ direction_set(n).T).max(axis=1) for part in np.array_split(units, 20)]
    )
    reached = (units * direction_set(n)[found]).sum(axis=1)
    assert (best - reached).max() < 1e-6
    np.testing.assert_array_equal(found[-n:], np.arange(n))


@njit
def nearest_near(directions, neighbours, near, units, found):
    for i in range(len(units)):
        x, y, z = units[i, 0], units[i, 1], units[i, 2]
        found[i] = cones.nearest_from(directions, neighbours, near[i], x, y, z)


@pytest.mark.parametrize("n", [32, 100, 724, 4096])
def test_the_nearest_direction_is_the_same_wherever_the_search_begins(n):
    """Ones that are as near to two or three directions are among them."""
    rng = np.random.default_rng(n)
    directions, neighbours = direction_set(n), neighbour_table(n)[0]
    units = rng.normal(size=(200_000, 3))
    first = rng.integers(0, n, 20_000)
    second, third = neighbours[first, 0], neighbours[first, 1]
    between = directions[first] + directions[second]
    units = np.concatenate([units, between, between + directions[third], directions])
    units = (units / np.linalg.norm(units, axis=1, keepdims=True)).astype(np.float32)
    usual, found = np.zeros(len(units), np.int64), np.zeros(len(units), np.int64)
    nearest_of(directions, neighbours, units, usual)
    nearest_near(directions, neighbours, rng.integers(0, n, len(units)), units, found)
    np.testing.assert_array_equal(found, usual)


@njit
def softplus_of(sharpness, amplitudes, out):
    memory.store(out, cones.softplus(sharpness, lanes.load(amplitudes)))


@pytest.mark.parametrize("sharpness", [10.0, 10.0 / 2**14, 10.0 * 2**10])
def test_softplus_is_accurate_over_all_amplitudes(sharpness):
    scaled = np.concatenate([np.linspace(-20, 20, 61), [-1e6, -88, 0, 88, 1e6], np.zeros(30)])
    amplitudes = (scaled / sharpness).astype(np.float32)
    for part in np.array_split(amplitudes[: 3 * N_LANES], 3):
        out = np.zeros(N_LANES, np.float32)
        softplus_of(np.float32(sharpness), part, out)
        exact = np.logaddexp(0, sharpness * part.astype(np.float64))
        np.testing.assert_allclose(out * sharpness, exact, rtol=5e-7, atol=5e-7)
        assert (out >= 0).all()
