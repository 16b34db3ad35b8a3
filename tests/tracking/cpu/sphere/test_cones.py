"""Cones given as functions, and softplus."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from napari_tractography.geometry.directions import (
    CANDIDATES,
    direction_set,
    nearest_cells,
    neighbour_table,
)
from napari_tractography.tracking.codes import new_scratch
from napari_tractography.tracking.cpu import lanes, memory
from napari_tractography.tracking.cpu.lanes import N_LANES
from napari_tractography.tracking.cpu.sphere import cones


class Field(NamedTuple):
    """What of a plan's field is read here."""

    directions: np.ndarray
    neighbours: np.ndarray
    cells: np.ndarray


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
def nearest_by_cells(field, scratch, units, found):
    for first in range(0, len(found), N_LANES):
        x = lanes.load_from(units, first)
        y = lanes.load_from(units, len(found) + first)
        z = lanes.load_from(units, 2 * len(found) + first)
        cones.locate(field, scratch, x, y, z)
        for lane in range(N_LANES):
            found[first + lane] = cones.nearest_of(field, scratch, lane)


@pytest.mark.parametrize("n", [32, 100, 724, 4096])
def test_the_nearest_direction_is_the_same_among_the_candidates_of_a_cell(n):
    """Ones that are as near to two or three directions are among them, and borders of cells."""
    rng = np.random.default_rng(n)
    directions, neighbours = direction_set(n), neighbour_table(n)[0]
    units = rng.normal(size=(200_000, 3))
    first = rng.integers(0, n, 20_000)
    second, third = neighbours[first, 0], neighbours[first, 1]
    between = directions[first] + directions[second]
    side = nearest_cells(n).shape[1]
    across, along = np.linspace(-1, 1, side + 1)[rng.integers(0, side + 1, (2, 20_000))]
    x, y = (across + along) / 2, (across - along) / 2
    corners = np.stack([x, y, 1 - np.abs(x) - np.abs(y)], axis=1)
    axes = np.concatenate([np.eye(3), -np.eye(3)])
    units = np.concatenate([units, between, between + directions[third], directions, axes])
    units = np.concatenate([units, corners, corners * [1, 1, -1]])
    units = (units / np.linalg.norm(units, axis=1, keepdims=True)).astype(np.float32)
    units = units[: len(units) // N_LANES * N_LANES]
    usual, found = np.zeros(len(units), np.int64), np.zeros(len(units), np.int64)
    nearest_of(directions, neighbours, units, usual)
    field = Field(directions, neighbours, nearest_cells(n))
    scratch = new_scratch(0, 0, N_LANES)
    nearest_by_cells(field, scratch, np.ascontiguousarray(units.T), found)
    np.testing.assert_array_equal(found, usual)


@pytest.mark.parametrize("n", [32, 724, 4096])
def test_few_cells_have_more_candidates_than_there_is_room_for(n):
    numbers = nearest_cells(n)[..., 3, :].reshape(-1, CANDIDATES)
    assert ((numbers >= 0) & (numbers < n)).all()
    assert (numbers == numbers[:, :1]).all(axis=1).mean() < 0.03


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
