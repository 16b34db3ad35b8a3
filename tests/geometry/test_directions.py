"""Direction sets and cones: antipodal, even, and as brute force says."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.geometry.directions import (
    N_NEIGHBOURS,
    direction_set,
    function_cone,
    neighbour_table,
)

sizes = pytest.mark.parametrize("n", [32, 100, 724, 2000])


@sizes
def test_second_half_is_minus_the_first(n):
    units = direction_set(n)
    assert units.shape == (n, 3)
    assert units.dtype == np.float32
    np.testing.assert_array_equal(units[n // 2 :], -units[: n // 2])
    np.testing.assert_allclose(np.linalg.norm(units.astype(float), axis=1), 1, atol=1e-6)
    assert (units[: n // 2, 2] > 0).all()


@sizes
def test_set_is_even(n):
    """No gap wider and no pair closer than 60 % off the mean spacing sqrt(4 pi / n)."""
    units = direction_set(n).astype(np.float64)
    spacing = np.sqrt(4 * np.pi / n)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -1)
    assert np.arccos(cosines.max()) > 0.4 * spacing
    probes = np.random.default_rng(0).normal(size=(5000, 3))
    probes /= np.linalg.norm(probes, axis=1, keepdims=True)
    assert np.arccos((probes @ units.T).max(axis=1).min()) < spacing


def test_sets_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        direction_set(32)[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        function_cone(32, within(45.0))[0][0] = 0


def within(angle_deg):
    """A cone by its angle."""
    limit = np.cos(np.deg2rad(angle_deg))
    return lambda current, candidates: candidates @ current >= limit


@pytest.mark.parametrize("angle", [1.0, 20.0, 45.0, 90.0, 180.0])
def test_a_cone_function_is_tabulated_with_its_reach(angle):
    """Each direction of the set stands for those around it, so the reach is a little larger."""
    n = 100
    units = direction_set(n).astype(np.float64)
    allowed, reach_deg = function_cone(n, within(angle))
    assert allowed.shape == (n, n)
    assert allowed.dtype == np.uint8
    np.testing.assert_array_equal(allowed, units @ units.T >= np.cos(np.deg2rad(angle)))
    spacing = np.degrees(np.sqrt(4 * np.pi / n))
    farthest = np.degrees(np.arccos(np.clip((units @ units.T)[allowed == 1], -1, 1))).max()
    assert reach_deg == pytest.approx(min(farthest + 2 * spacing, 180))


def test_no_direction_beyond_the_reach_stands_for_one_that_is_allowed():
    n = 200
    allowed, reach_deg = function_cone(n, within(30.0))
    probes = np.random.default_rng(1).normal(size=(2000, 3))
    probes /= np.linalg.norm(probes, axis=1, keepdims=True)
    nearest = (probes @ direction_set(n).T).argmax(axis=1)
    between = np.degrees(np.arccos(np.clip(probes @ probes.T, -1, 1)))
    assert between[allowed[np.ix_(nearest, nearest)] == 1].max() < reach_deg


def test_a_function_may_allow_both_a_direction_and_its_antipode():
    allowed, reach_deg = function_cone(32, lambda current, candidates: np.ones(32, bool))
    assert (allowed == 1).all()
    assert reach_deg == 180


@pytest.mark.parametrize("n", [32, 724])
def test_neighbours_are_the_nearest_other_directions(n):
    units = direction_set(n).astype(np.float64)
    neighbours = neighbour_table(n)[0]
    assert neighbours.shape == (n, N_NEIGHBOURS)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -2)
    wanted = np.sort(np.sort(cosines, axis=1)[:, -N_NEIGHBOURS:], axis=1)
    found = np.sort(np.take_along_axis(cosines, neighbours.astype(int), axis=1), axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(lambda i, js: np.ones(5, bool), r"shape \(5,\) for 32", id="shape"),
        pytest.param(lambda i, js: js @ i, "returned float64", id="dtype"),
        pytest.param(lambda i, js: True, r"shape \(\)", id="scalar"),
        pytest.param(lambda i, js: np.zeros(32, bool), "allows no direction", id="nothing"),
    ],
)
def test_bad_cone_functions_are_named(function, message):
    with pytest.raises(InvalidParameterError, match=message):
        function_cone(32, function)
