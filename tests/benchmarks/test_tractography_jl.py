"""The baseline of the speed comparison does what its description says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from napari_tractography.fields.sh import sh_matrix
from napari_tractography.model.fod import Fod
from peers.tractography_jl import Model

N_DRAWS = 20_000


@pytest.fixture
def fod() -> Fod:
    """Random coefficients in 5 x 5 x 5 voxels of 2 mm: every direction counts."""
    coefficients = np.random.default_rng(3).normal(scale=0.2, size=(5, 5, 5, 15))
    coefficients[..., 0] = 1.0
    return Fod(coefficients, np.diag([2.0, 2.0, 2.0, 1.0]))


def test_steps_are_drawn_from_the_amplitudes_within_the_cone(fod: Fod) -> None:
    model = Model.of(fod, fod.support, step_mm=0.1, max_angle_deg=45, max_steps=2, n_directions=101)
    seeds = np.tile(np.float32([4.0, 4.0, 4.0]), (N_DRAWS, 1))
    paths = model.track(seeds, n_threads=2, endpoints=False)
    assert (paths.n_steps == 2).all()
    steps = np.diff(paths.points_mm, axis=1) / 0.1
    first, second = (
        np.argmax(steps[:, k] @ model.directions.T.astype(np.float64), axis=1) for k in (0, 1)
    )
    amplitudes = sh_matrix(model.directions, 4, "tournier07") @ fod.coefficients[2, 2, 2]
    amplitudes = np.maximum(amplitudes, 0)
    counts = np.bincount(first, minlength=101)
    assert not counts[amplitudes == 0].any()
    used = amplitudes > 0
    expected = amplitudes[used] / amplitudes.sum() * N_DRAWS
    assert chisquare(counts[used], expected).pvalue > 1e-3
    commonest = np.argmax(counts)
    inside = model.directions @ model.directions[commonest] >= np.cos(np.deg2rad(45))
    inside &= used
    after = np.bincount(second[first == commonest], minlength=101)
    assert not after[~inside].any()
    expected = amplitudes[inside] / amplitudes[inside].sum() * after.sum()
    assert chisquare(after[inside], expected).pvalue > 1e-3


def test_endpoints_are_the_ends_of_the_streamlines(fod: Fod) -> None:
    model = Model.of(fod, fod.support, step_mm=0.4, max_angle_deg=60, max_steps=100)
    seeds = np.random.default_rng(0).uniform(0, 8, (300, 3)).astype(np.float32)
    whole = model.track(seeds, n_threads=1, endpoints=False)
    ends = model.track(seeds, n_threads=2, endpoints=True)
    assert 0 < whole.n_steps.min() < whole.n_steps.max()
    np.testing.assert_array_equal(whole.n_steps, ends.n_steps)
    np.testing.assert_array_equal(whole.points_mm[:, 0], ends.points_mm[:, 0])
    last = whole.points_mm[np.arange(300), whole.n_steps]
    np.testing.assert_array_equal(last, ends.points_mm[:, 1])


def test_streamlines_end_outside_the_mask(fod: Fod) -> None:
    mask = fod.support.copy()
    mask[3:] = False
    model = Model.of(fod, mask, step_mm=0.4, max_angle_deg=60, max_steps=100)
    seeds = np.tile(np.float32([4.0, 4.0, 4.0]), (200, 1))
    paths = model.track(seeds, n_threads=1, endpoints=False)
    ended = np.arange(101) >= paths.n_steps[:, None]
    beyond = (paths.points_mm[..., 0] >= 5.0) & ~ended
    assert not beyond.any()
    assert (paths.points_mm[..., 0].max(axis=1) > 5.0).any()  # some left it and stopped there
