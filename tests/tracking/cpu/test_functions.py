"""Exponentials, logarithms and normal numbers by multiplication and addition, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from kept_code import kept
from scipy import stats

from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.tracking.codes import FLAT
from napari_tractography.tracking.cpu import langevin
from napari_tractography.tracking.cpu.sphere import cones
from napari_tractography.tracking.plan import kernel_settings

N = 20_000


@kept(langevin, cones)
def growths(curvatures, time, out):
    """The integral of the exponential, for each curvature."""
    for k in range(len(out)):
        out[k] = langevin.growth(curvatures[k], time)


@kept(langevin, cones)
def exponentials(sizes, out):
    """exp(-size), and log(1 + that)."""
    for k in range(len(sizes)):
        out[0, k] = cones.falling(sizes[k])
        out[1, k] = cones.log_of_one_and(out[0, k])


@kept(langevin, cones)
def normal_numbers(settings, out):
    """Two numbers of each of so many steps."""
    for k in range(len(out)):
        out[k, 0], out[k, 1] = langevin.gaussians(settings, 7, k, 0, 0)


def test_growth_is_the_integral_of_an_exponential():
    time = np.float32(0.1)
    curvatures = np.float32(np.concatenate([np.linspace(-150, 9.9, N), [0.0, 1e-4, -1e-4]]))
    found = np.zeros(len(curvatures), np.float32)
    growths(curvatures, time, found)
    product = curvatures.astype(float) * float(time)
    curved = np.where(product == 0, 1.0, curvatures.astype(float))
    wanted = np.where(product == 0, float(time), np.expm1(product) / curved)
    assert np.abs(found / wanted - 1).max() < 1e-6
    assert (np.abs(product) < FLAT).any()


def test_growth_is_bounded():
    """Where a curvature is so large that no step is stable it counts as one that is just so."""
    found = np.zeros(2, np.float32)
    growths(np.float32([100.0, -1e6]), np.float32(0.1), found)
    np.testing.assert_allclose(found, [np.expm1(1.0) / 100.0, 1e-6], rtol=1e-6)


def test_exponentials_and_logarithms():
    sizes = np.linspace(0, 16, N, dtype=np.float32)
    found = np.zeros((2, N), np.float32)
    exponentials(sizes, found)
    np.testing.assert_allclose(found[0], np.exp(-sizes.astype(float)), rtol=1e-5)
    np.testing.assert_allclose(found[1], np.log1p(found[0].astype(float)), rtol=4e-7)


@pytest.mark.parametrize("seed", [0, 1])
def test_normal_numbers_are_distributed_as_such(seed):
    found = np.zeros((N, 2), np.float32)
    normal_numbers(kernel_settings(TrackingParameters(random_seed=seed)), found)
    for column in found.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(found.T)[0, 1]) < 4 / np.sqrt(N)
    assert stats.kstest(np.square(found).sum(axis=1), "chi2", args=(2,)).pvalue > 1e-3
