"""The FOD and its derivatives as kernels evaluate them, against DIPY in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from kept_code import kept
from toys import tangents

from napari_tractography.fields.polynomials import change_of_basis, shifts
from napari_tractography.fields.sh import n_coefficients_of, sh_matrix
from napari_tractography.tracking.cpu import lanes, memory
from napari_tractography.tracking.cpu.lanes import N_LANES
from napari_tractography.tracking.cpu.sphere import evaluation

STEP = 1e-4  # of finite differences, radians


@kept(evaluation, lanes, memory)
def evaluate(shifts, coefficients, units, out):
    for i in range(len(units)):
        x, y, z = units[i]
        out[i, 0] = evaluation.value_at(shifts, coefficients, x, y, z)
        (
            out[i, 1], out[i, 2], out[i, 3], out[i, 4],
            out[i, 5], out[i, 6], out[i, 7], out[i, 8], out[i, 9],
        ) = evaluation.derivatives_at(shifts, coefficients, x, y, z)  # fmt: skip


@kept(evaluation, lanes, memory)
def evaluate_lanes(shifts, coefficients, all_coefficients, units, one, many):
    x, y, z = lanes.load(units[0]), lanes.load(units[1]), lanes.load(units[2])
    memory.store(one, evaluation.values_at(shifts, coefficients, x, y, z))
    memory.store(many, evaluation.values_of_lanes(shifts, all_coefficients, x, y, z))


def situation(lmax, is_asymmetric=False):
    """Random coefficients in DIPY's basis and as kernels read them, and unit vectors."""
    rng = np.random.default_rng(lmax)
    coefficients = rng.normal(size=n_coefficients_of(lmax, is_asymmetric))

    def harmonics(u):
        return sh_matrix(u, lmax, "tournier07", is_asymmetric)

    change = change_of_basis(harmonics, lmax, is_asymmetric)
    units = rng.normal(size=(N_LANES, 3))
    units[:6] = np.concatenate([np.eye(3), -np.eye(3)])  # the poles among them
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return coefficients, (change @ coefficients).astype(np.float32), units


def kernel_shifts(lmax, is_asymmetric=False):
    return tuple(shifts(lmax, is_asymmetric))


OF_ALL_DEGREES = [pytest.param(lmax, True, id=f"{lmax}, odd ones too") for lmax in (2, 4, 8, 16)]


@pytest.mark.parametrize(
    ("lmax", "is_asymmetric"),
    [*((lmax, False) for lmax in (0, 2, 4, 8, 12, 16)), *OF_ALL_DEGREES],
)
def test_values_and_derivatives_agree_with_dipy(lmax, is_asymmetric):
    """Along the sphere, where alone the polynomials equal the harmonics."""
    coefficients, mine, units = situation(lmax, is_asymmetric)
    out = np.zeros((len(units), 10), np.float32)
    evaluate(kernel_shifts(lmax, is_asymmetric), mine, units.astype(np.float32), out)

    def truth(u):
        return sh_matrix(np.atleast_2d(u), lmax, "tournier07", is_asymmetric) @ coefficients

    size = np.abs(coefficients).sum()
    rounding = 2e-6 if lmax < 10 else 1e-5
    for column in (0, 1):
        np.testing.assert_allclose(out[:, column], truth(units), atol=rounding * size)
    for unit, row in zip(units, out.astype(float), strict=True):
        gradient = row[2:5]
        hxx, hxy, hxz, hyz, hzz = row[5:]
        hessian = np.array([[hxx, hxy, hxz], [hxy, -hxx, hyz], [hxz, hyz, hzz]])
        a, b = tangents(unit)

        def along(first, second, unit=unit, a=a, b=b):
            t = np.hypot(first, second)
            if t == 0:
                return unit
            return np.cos(t) * unit + np.sin(t) / t * (first * a + second * b)

        h = STEP
        middle, *around = truth(
            [along(*h_) for h_ in ((0, 0), (h, 0), (-h, 0), (0, h), (0, -h), (h, h), (-h, -h))]
        )
        slopes = [(around[0] - around[1]) / (2 * h), (around[2] - around[3]) / (2 * h)]
        bends = [(around[2 * k] + around[2 * k + 1] - 2 * middle) / h**2 for k in range(3)]
        tolerance = rounding * size * max(lmax, 1)
        np.testing.assert_allclose([gradient @ a, gradient @ b], slopes, atol=tolerance)
        down = gradient @ unit  # the sphere bends away from the tangents
        haa, hbb, hab = (p @ hessian @ q for p, q in ((a, a), (b, b), (a, b)))
        tolerance *= max(lmax, 1)
        found = [haa - down, hbb - down, haa + hbb - 2 * down + 2 * hab]
        np.testing.assert_allclose(found, bends, atol=4 * tolerance + 1e-6 * size)


@pytest.mark.parametrize(("lmax", "is_asymmetric"), [(0, False), (4, False), (8, False), (4, True)])
def test_vectors_have_the_bits_of_numbers(lmax, is_asymmetric):
    _, mine, units = situation(lmax, is_asymmetric)
    units, mine_shifts = units.astype(np.float32), kernel_shifts(lmax, is_asymmetric)
    numbers = np.zeros((len(units), 10), np.float32)
    evaluate(mine_shifts, mine, units, numbers)
    one, many = np.zeros((2, N_LANES), np.float32)
    every = np.repeat(mine[:, None], N_LANES, axis=1)
    evaluate_lanes(mine_shifts, mine, every, np.ascontiguousarray(units.T), one, many)
    np.testing.assert_array_equal(one, numbers[:, 0])
    np.testing.assert_array_equal(many, numbers[:, 0])


def test_each_lane_is_evaluated_by_its_own_coefficients():
    lmax = 4
    coefficients = np.random.default_rng(0).normal(size=(15, N_LANES)).astype(np.float32)
    unit = np.array([[0.36, 0.48, 0.8]], np.float32)
    one, many = np.zeros((2, N_LANES), np.float32)
    units = np.ascontiguousarray(np.repeat(unit, N_LANES, axis=0).T)
    evaluate_lanes(kernel_shifts(lmax), coefficients[:, 0].copy(), coefficients, units, one, many)
    for lane in range(N_LANES):
        numbers = np.zeros((1, 10), np.float32)
        evaluate(kernel_shifts(lmax), coefficients[:, lane].copy(), unit, numbers)
        assert many[lane] == numbers[0, 0]
