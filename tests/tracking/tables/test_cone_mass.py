"""The lower bound of the mass in a cone, against the sums that it is a bound of, in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from covering import covering_params
from scipy.optimize import linprog
from toys import convolved, crossing_fod, random_fod

from napari_tractography.fields.polynomials import change_of_basis, polynomial_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.tracking.tables.builders import cone_points
from napari_tractography.tracking.tables.cone_mass import ROUNDING, cone_mass, quadrature_mass
from napari_tractography.tracking.tables.cone_quadrature import cone_quadrature

SPHERE = direction_set(4000).astype(np.float64)
MIRRORED = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]])


def sums_of(points, weights, coefficients, units, lmax, is_asymmetric=False):
    """Weighted sums of what is positive in the cone around each unit vector, (n_fods, n)."""
    found = []
    for unit in units:
        across = np.linalg.svd(unit[None])[2][1:]
        there = points.T @ np.concatenate([across, unit[None]])
        values = coefficients @ polynomial_matrix(there, lmax, is_asymmetric).T
        found.append(np.maximum(values, 0.0) @ weights)
    return np.transpose(found)


def fods(lmax, is_asymmetric=False):
    """Coefficients of polynomials: of noise, of lobes, and of lobes upside down."""
    kind = {"is_asymmetric": is_asymmetric}
    some = random_fod(lmax, **kind), crossing_fod(lmax=lmax, **kind)
    noise, lobes = (
        f.values[:20].astype(float) @ change_of_basis(f.sample_matrix, lmax, is_asymmetric).T
        for f in some
    )
    return np.concatenate([noise, lobes, -lobes])


@pytest.mark.parametrize(
    ("angle", "lmax", "rings"),
    covering_params(
        {
            "angle": {f"{angle:g} degrees": angle for angle in (1.0, 10.0, 25.0, 45.0, 90.0)},
            "lmax": {f"lmax {lmax}": lmax for lmax in (0, 4, 8, 12)},
            "rings": {"points": False, "rings": True, "asymmetric": None},
        }
    ),
)
def test_no_sum_over_a_cone_is_less(angle, lmax, rings):
    is_asymmetric = rings is None and lmax > 0
    coefficients = fods(lmax, is_asymmetric)
    units = np.random.default_rng(lmax).normal(size=(20, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    if rings:
        numbers, quarter = quadrature_mass(angle, lmax), cone_quadrature(angle, lmax).points
        quarter = quarter.astype(np.float64)
        points = (quarter[:3, :, None] * MIRRORED.T[:, None]).reshape(3, -1)
        points = np.concatenate([points, [[0.0], [0.0], [1.0]]], axis=1)
        weights = np.append(np.repeat(quarter[3], 4), 1.0 - 4.0 * quarter[3].sum())
    else:
        numbers = cone_mass(angle, lmax, is_asymmetric)
        points = cone_points(angle, lmax).astype(np.float64)
        weights = np.full(points.shape[1], 1.0 / points.shape[1])
    values = coefficients @ polynomial_matrix(SPHERE, lmax, is_asymmetric).T
    mean = np.maximum(values, 0.0).mean(1)[:, None]

    def bound_of(fods, along, means):
        found = convolved(numbers.astype(np.float64), fods, along, lmax, is_asymmetric)
        return found - numbers[0] * means

    bound = bound_of(coefficients, units, mean)
    sums = sums_of(points, weights, coefficients, units, lmax, is_asymmetric)
    assert (bound <= sums - 0.9 * ROUNDING * np.abs(values).mean(1)[:, None]).all()
    # And of lobes ahead, which is what streamlines follow, no more than half is missed.
    largest = SPHERE[values.argmax(1)]
    ahead = [
        bound_of(fod, u, m)[0, 0] / sums_of(points, weights, fod, u, lmax, is_asymmetric)[0, 0]
        for fod, u, m in zip(
            coefficients[20:40, None], largest[20:40, None], mean[20:40], strict=True
        )
    ]
    assert min(ahead) > 0.5


@pytest.mark.parametrize(
    ("angle", "lmax", "is_asymmetric"),
    [(10.0, 4, False), (45.0, 4, False), (20.0, 8, False), (45.0, 8, False), (45.0, 4, True)],
)
def test_there_is_no_fod_of_which_the_bound_is_above_the_sum(angle, lmax, is_asymmetric):
    """The FOD that comes closest, by linear programming: that of the coefficients, and of what is
    positive along directions in the cone and on the sphere."""
    numbers = cone_mass(angle, lmax, is_asymmetric).astype(np.float64)
    sphere = polynomial_matrix(direction_set(600), lmax, is_asymmetric)
    cone = polynomial_matrix(cone_points(angle, lmax).T, lmax, is_asymmetric)
    n, n_sphere, n_cone = sphere.shape[1], len(sphere), len(cone)
    up = np.array([[0.0, 0.0, 1.0]])
    along_axis = convolved(numbers, np.eye(n), up, lmax, is_asymmetric)[:, 0]
    costs = [-along_axis, np.full(n_sphere, numbers[0] / n_sphere), np.full(n_cone, 1.0 / n_cone)]
    every = np.concatenate([sphere, cone])
    above = np.hstack([every, -np.eye(n_sphere + n_cone)])  # what is positive is no less than it is
    within = np.hstack([-sphere, np.zeros((n_sphere, n_sphere + n_cone))])
    found = linprog(
        np.concatenate(costs),
        np.concatenate([above, within]),
        np.concatenate([np.zeros(len(above)), np.ones(n_sphere)]),
        bounds=[(None, None)] * n + [(0.0, 1.0)] * (n_sphere + n_cone),
    )
    assert found.status == 0
    assert -found.fun < 1e-9


def test_the_numbers_are_known_by_their_angle_and_degree():
    assert cone_mass(30.0, 8) is cone_mass(30.0, 8)
    assert len(cone_mass(30.0, 8)) == 1 + 55
    assert not cone_mass(30.0, 8).flags.writeable
