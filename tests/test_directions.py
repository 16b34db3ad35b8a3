"""Direction sets and cones: antipodal, even, and as brute force says."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.directions import (
    angle_cone,
    direction_set,
    function_cone,
    nearest_direction,
)
from napari_tractography.errors import InvalidParameterError

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
        angle_cone(32, 45.0)[0] = 0


@pytest.mark.parametrize("angle", [1.0, 20.0, 45.0, 60.0, 90.0])
def test_cone_holds_what_lies_within_the_angle(angle):
    n = 100
    units = direction_set(n).astype(np.float64)
    cone = angle_cone(n, angle)
    assert cone.shape == (n, n // 2)
    between = np.rad2deg(np.arccos(np.clip(units @ units.T, -1, 1)))
    for i in range(n):
        for j in range(n // 2):
            same, opposite = between[i, j], between[i, j + n // 2]
            if min(abs(same - angle), abs(opposite - angle)) < 1e-4:
                continue  # on the rim
            expected = 1 if same < angle else 2 if opposite < angle else 0
            assert cone[i, j] == expected


@pytest.mark.parametrize("angle", [5.0, 45.0, 90.0])
def test_cone_contains_the_direction_itself_and_turns_over_with_it(angle):
    n = 200
    cone = angle_cone(n, angle)
    half = n // 2
    assert (np.diag(cone[:half]) == 1).all()
    assert (np.diag(cone[half:]) == 2).all()
    if angle < 90:
        swapped = np.array([0, 2, 1], np.uint8)[cone[:half]]
        np.testing.assert_array_equal(cone[half:], swapped)


def test_right_angle_takes_every_direction_or_its_antipode():
    assert (angle_cone(200, 90.0) > 0).all()


def test_angle_written_as_a_function_gives_the_same_cone():
    limit = np.cos(np.deg2rad(30.0)) - 1e-7
    cone = function_cone(100, lambda current, candidates: candidates @ current >= limit)
    np.testing.assert_array_equal(cone, angle_cone(100, 30.0))


def test_function_may_allow_both_a_direction_and_its_antipode():
    cone = function_cone(32, lambda current, candidates: np.ones(32, bool))
    assert (cone == 3).all()


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


def test_nearest_direction_is_the_nearest():
    random = np.random.default_rng(5).normal(size=(300, 3))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    units = direction_set(724)
    distances = np.linalg.norm(random[:, None] - units[None], axis=2)
    np.testing.assert_array_equal(nearest_direction(random, 724), distances.argmin(axis=1))
    np.testing.assert_array_equal(nearest_direction(units, 724), np.arange(724))
