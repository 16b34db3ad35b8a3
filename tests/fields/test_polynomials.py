"""Spherical harmonics as polynomials, against DIPY's matrices."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.fields.polynomials import change_of_basis, polynomial_matrix, shifts
from napari_tractography.fields.readings import BASES, FRAMES
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.model.fod import Fod

LMAXES = range(0, 17, 2)
OBLIQUE = np.array([[-1.5, 0.4, 0.1, 3], [0.3, 2.0, -0.5, 1], [0.2, 0.6, 1.0, -2], [0, 0, 0, 1]])


def random_units(n: int, seed: int = 3) -> np.ndarray:
    """(n, 3) unit vectors, the poles and the axes among them."""
    units = np.random.default_rng(seed).normal(size=(n, 3))
    units[:6] = np.concatenate([np.eye(3), -np.eye(3)])
    return units / np.linalg.norm(units, axis=1, keepdims=True)


@pytest.mark.parametrize("is_asymmetric", [False, True])
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("lmax", LMAXES)
def test_polynomials_give_the_amplitudes_of_any_basis(basis, lmax, is_asymmetric):
    def harmonics(units):
        return sh_matrix(units, lmax, basis, is_asymmetric)

    change = change_of_basis(harmonics, lmax, is_asymmetric)
    coefficients = np.random.default_rng(lmax).normal(size=change.shape[1])
    units = random_units(300)
    np.testing.assert_allclose(
        polynomial_matrix(units, lmax, is_asymmetric) @ (change @ coefficients),
        harmonics(units) @ coefficients,
        atol=1e-10 * np.abs(coefficients).sum(),
    )


@pytest.mark.parametrize("is_asymmetric", [False, True])
@pytest.mark.parametrize("basis", ["tournier07", "descoteaux07", "descoteaux07_legacy"])
@pytest.mark.parametrize("frame", FRAMES)
def test_polynomials_are_in_ras_axes_whatever_the_frame(basis, frame, is_asymmetric):
    """On a sheared, left-handed grid, where axes of voxels and of space differ in all ways."""
    values = np.random.default_rng(1).normal(size=(1, 1, 1, 81 if is_asymmetric else 45))
    fod = Fod(values, OBLIQUE, basis=basis, frame=frame)
    assert fod.is_asymmetric == is_asymmetric
    units = random_units(200)
    change = change_of_basis(fod.sample_matrix, 8, is_asymmetric)
    found = polynomial_matrix(units, 8, is_asymmetric) @ (change @ values.ravel())
    own = units if frame == "scanner" else units @ fod.grid.axes
    wanted = sh_matrix(own, 8, basis, is_asymmetric) @ values.ravel()
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("lmax", LMAXES)
def test_there_are_as_many_polynomials_as_harmonics(lmax):
    matrix = polynomial_matrix(random_units(400), lmax)
    assert matrix.shape == (400, (lmax + 1) * (lmax + 2) // 2)
    assert np.linalg.matrix_rank(matrix) == matrix.shape[1]
    assert shifts(lmax).shape == (lmax + 1,)


@pytest.mark.parametrize("lmax", LMAXES[1:])
def test_polynomials_of_odd_degrees_come_after_those_of_even_ones(lmax):
    """Kernels tell by the number of shifts that they are there."""
    units = random_units(600)
    matrix = polynomial_matrix(units, lmax, True)
    even = (lmax + 1) * (lmax + 2) // 2
    assert matrix.shape == (600, (lmax + 1) ** 2)
    assert np.linalg.matrix_rank(matrix) == matrix.shape[1]
    np.testing.assert_array_equal(matrix[:, :even], polynomial_matrix(units, lmax))
    opposite = polynomial_matrix(-units, lmax, True)
    np.testing.assert_allclose(opposite[:, even:], -matrix[:, even:], atol=1e-12)
    assert len(shifts(lmax, True)) == lmax + 2


def test_polynomials_are_even():
    units = random_units(100)
    np.testing.assert_allclose(
        polynomial_matrix(units, 8), polynomial_matrix(-units, 8), atol=1e-12
    )
