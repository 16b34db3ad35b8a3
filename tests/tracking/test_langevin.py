"""Diffusion and transport: harmonics, gradients, the stationary law, and what they stop at."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from napari_tractography.directions import N_NEIGHBOURS, direction_set, neighbour_table
from napari_tractography.errors import InvalidParameterError
from napari_tractography.fields.polynomials import polynomial_coefficients
from napari_tractography.fields.sh import BASES, sh_matrix
from napari_tractography.fod import Fod
from napari_tractography.parameters import TrackingParameters
from napari_tractography.seeds import Seeds
from napari_tractography.stop import StopReason
from napari_tractography.tracking.cpu.langevin import evaluate_harmonics
from napari_tractography.tracking.engine import track

UP = np.array([0.0, 0.0, 1.0])


def homogeneous(function, *, lmax=12, side=41, frame=None, affine=None, basis="tournier07"):
    """A cube of `side` voxels of 1 mm, each with the FOD `function` of (n, 3) unit vectors."""
    units = direction_set(2048).astype(float)
    matrix = sh_matrix(units, lmax, basis)
    coefficients = np.linalg.lstsq(matrix, function(units), rcond=None)[0]
    volume = np.broadcast_to(coefficients, (side, side, side, len(coefficients)))
    return Fod(volume, np.eye(4) if affine is None else affine, basis=basis, frame=frame)


def mises_fisher(concentration, axis=UP):
    """The even von Mises-Fisher-like FOD cosh(k u.axis), one at its peak."""
    return lambda u: np.cosh(concentration * (u @ axis)) / np.cosh(concentration)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("lmax", [0, 2, 8, 16])
def test_kernel_harmonics_and_gradients_agree_with_dipy(basis, lmax):
    """Values against DIPY's matrix, gradients against central differences of it."""
    rng = np.random.default_rng(3)
    coefficients = rng.normal(size=(lmax + 1) * (lmax + 2) // 2)
    fod = Fod(np.broadcast_to(coefficients, (1, 1, 1, len(coefficients))), np.eye(4), basis=basis)
    mine = polynomial_coefficients(fod.values, fod.lmax, fod.basis)[0]
    units = rng.normal(size=(40, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    units[0], units[1] = UP, -UP  # the poles
    legendre = np.zeros((2, lmax + 2), np.float32)
    evaluate = njit(evaluate_harmonics.py_func)
    size = np.abs(coefficients).sum()
    for unit in units:
        value, *gradient = evaluate(mine, lmax, legendre, *unit.astype(np.float32))
        assert value == pytest.approx(
            float(sh_matrix(unit[None], lmax, basis)[0] @ coefficients),
            abs=2e-6 * size * max(lmax, 1),
        )
        for tangent in np.linalg.svd(unit[None])[2][1:]:
            ahead, behind = (
                (np.cos(1e-4) * unit + sign * np.sin(1e-4) * tangent)[None] for sign in (1, -1)
            )
            slope = (sh_matrix(ahead, lmax, basis) - sh_matrix(behind, lmax, basis))[0]
            expected = float(slope @ coefficients) / 2e-4
            assert np.dot(gradient, tangent) == pytest.approx(
                expected, abs=1e-5 * size * max(lmax, 1) ** 2
            )


def test_neighbours_continue_a_quadratic_exactly():
    """A quadratic of the tangent coordinates comes back with its derivatives."""
    n = 724
    units = direction_set(n).astype(float)
    neighbours, slopes, tangents = neighbour_table(n)
    assert neighbours.shape == (n, N_NEIGHBOURS)
    np.testing.assert_allclose(np.einsum("nij,nj->ni", tangents, units), 0, atol=1e-6)
    derivatives = np.array([0.3, -0.5, 0.8, 0.2, -0.7])
    a, b = np.einsum("nmj,nij->inm", units[neighbours], tangents)
    fa, fb, faa, fab, fbb = derivatives
    differences = fa * a + fb * b + faa * a * a / 2 + fab * a * b + fbb * b * b / 2
    found = np.einsum("nmd,nm->nd", slopes, differences)
    np.testing.assert_allclose(found, np.broadcast_to(derivatives, (n, 5)), atol=2e-4)


@pytest.mark.parametrize("evaluation", ["precomputed", "direct"])
@pytest.mark.parametrize("noise", [1.0, 0.7])
def test_diffusion_reaches_its_stationary_law(evaluation, noise):
    """Its density is f^(1/noise^2); for cosh(k t) the second moment is known in closed form.

    For noise 1 the law is the even von Mises-Fisher one, E[t^2] = 1 - 2 coth(k)/k + 2/k^2; else it
    is integrated numerically. Streamlines of 40 time constants, only their last step counted.
    """
    concentration = 2.0
    fod = homogeneous(mises_fisher(concentration), lmax=8, side=31)
    parameters = TrackingParameters(
        algorithm="diffusion",
        evaluation=evaluation,
        interpolation="nearest",
        step_mm=0.02,
        max_angle_deg=90.0,
        gamma=2.0,
        gamma_noise=noise,
        min_probability=0.0,
        min_amplitude=0.0,
        direction="forward",
        max_length_mm=4.0,
        random_seed=5,
    )
    seeds = Seeds.at(np.full((6000, 3), 15.0))
    tractogram = track(fod, seeds, parameters)
    assert len(tractogram) == 6000
    last = tractogram.offsets[1:] - 1
    units = (tractogram.points[last] - tractogram.points[last - 1]).astype(float)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    t = np.linspace(-1, 1, 20001)
    density = np.cosh(concentration * t) ** (1 / noise**2)
    expected = (t**2 * density).sum() / density.sum()
    if noise == 1.0:
        k = concentration
        assert expected == pytest.approx(1 - 2 / np.tanh(k) / k + 2 / k**2, abs=1e-3)
    found = (units @ UP) ** 2
    error = found.std() / np.sqrt(len(found))
    bias = 0.01  # of a step of 0.04 in time, to first order
    assert abs(found.mean() - expected) < 4 * error + bias


@pytest.mark.parametrize("evaluation", ["precomputed", "direct"])
def test_transport_turns_to_the_peak(evaluation):
    fod = homogeneous(mises_fisher(4.0), side=21)
    start = np.array([[np.sin(0.6), 0.0, np.cos(0.6)]])
    parameters = TrackingParameters(
        algorithm="transport",
        evaluation=evaluation,
        step_mm=0.1,
        start="given",
        direction="forward",
        max_length_mm=6.0,
        gamma=0.5,
    )
    tractogram = track(fod, Seeds.at([[10, 10, 10]], start), parameters)
    steps = np.diff(tractogram.points.astype(float), axis=0) / 0.1
    angles = np.degrees(np.arccos(np.clip(steps @ UP, -1, 1)))
    assert angles[0] > 20
    assert angles[-1] < 2
    assert (np.diff(angles) < 0.5).all()


def test_transport_follows_the_equation_of_motion():
    """For f = exp(k t)-like, theta obeys dtheta/ds = -gamma k tanh(k cos theta) sin theta."""
    k, gamma, step = 3.0, 0.3, 0.02
    fod = homogeneous(mises_fisher(k), side=21)
    start = direction_set(724)[np.argmin(np.abs(direction_set(724) @ UP - np.cos(0.8)))]
    parameters = TrackingParameters(
        algorithm="transport",
        evaluation="direct",
        step_mm=step,
        start="given",
        direction="forward",
        max_length_mm=3.0,
        gamma=gamma,
    )
    tractogram = track(fod, Seeds.at([[10, 10, 10]], [start]), parameters)
    theta = float(np.arccos(start @ UP))
    expected = []
    for _ in range(len(tractogram.points) - 1):
        theta -= step * gamma * k * np.tanh(k * np.cos(theta)) * np.sin(theta)
        expected.append(theta)
    steps = np.diff(tractogram.points.astype(float), axis=0) / step
    found = np.arccos(np.clip(steps @ UP, -1, 1))
    # The first step is turned before it is taken.
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_voxel_frame_evaluates_directly_in_the_axes_of_the_image():
    """A FOD along the image's third axis, which an affine turns to RAS x."""
    turned = np.array([[0, 0, 1.0, 0], [1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 0, 1]])
    for frame, axis in (("voxel", [1.0, 0, 0]), ("scanner", [0, 0, 1.0])):
        fod = homogeneous(mises_fisher(6.0), side=21, frame=frame, affine=turned)
        parameters = TrackingParameters(
            algorithm="transport",
            evaluation="direct",
            step_mm=0.2,
            direction="forward",
            max_length_mm=8.0,
        )
        tractogram = track(fod, Seeds.at(np.full((20, 3), 10.0)), parameters)
        last = tractogram.offsets[1:] - 1
        steps = (tractogram.points[last] - tractogram.points[last - 1]) / 0.2
        assert np.abs(steps @ axis).min() > 0.99


def test_no_turn_exceeds_the_cone_angle():
    fod = homogeneous(mises_fisher(3.0), side=21)
    parameters = TrackingParameters(
        algorithm="diffusion",
        step_mm=0.5,
        max_angle_deg=20.0,
        gamma=3.0,
        max_length_mm=15.0,
        min_amplitude=0.0,
    )
    tractogram = track(fod, Seeds.at(np.full((50, 3), 10.0)), parameters)
    assert len(tractogram) == 50
    assert tractogram.n_points > 1000
    for line in tractogram:
        steps = np.diff(line.astype(float), axis=0)
        steps /= np.linalg.norm(steps, axis=1, keepdims=True)
        turns = np.degrees(np.arccos(np.clip((steps[1:] * steps[:-1]).sum(axis=1), -1, 1)))
        assert turns.max() < 20.01


def test_adaptive_steps_vary_and_lengths_are_those_of_the_path():
    fod = homogeneous(mises_fisher(3.0), side=41)
    parameters = TrackingParameters(
        algorithm="diffusion",
        adaptive=True,
        step_mm=0.5,
        max_length_mm=12.0,
        min_amplitude=0.0,
        gamma=0.2,
    )
    tractogram = track(fod, Seeds.at(np.full((40, 3), 20.0)), parameters)
    sizes = np.concatenate([np.linalg.norm(np.diff(x, axis=0), axis=1) for x in tractogram])
    assert sizes.min() >= 0.1 - 1e-4
    assert sizes.max() <= 1.0 + 1e-4
    assert sizes.max() > 2 * sizes.min()
    assert tractogram.lengths_mm.max() <= 12.0 + 1e-3
    for line, length in zip(tractogram, tractogram.lengths_mm, strict=True):
        path = np.linalg.norm(np.diff(line.astype(float), axis=0), axis=1).sum()
        assert path == pytest.approx(length, abs=1e-3)
    assert StopReason.MAX_LENGTH in tractogram.tally


def test_result_does_not_depend_on_threads_and_blocks():
    fod = homogeneous(mises_fisher(4.0), side=21)
    seeds = Seeds.in_sphere([10, 10, 10], 4.0, 60)
    parameters = TrackingParameters(algorithm="diffusion", step_mm=0.25)
    digests = {
        track(fod, seeds, parameters, n_threads=threads, block=block).digest()
        for threads, block in ((1, 60), (2, 1), (2, 7))
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"gamma": -1.0}, id="negative drift"),
        pytest.param({"gamma_noise": -0.1}, id="negative noise"),
        pytest.param({"evaluation": "direct"}, id="direct probabilistic"),
        pytest.param({"evaluation": "exact"}, id="no such evaluation"),
    ],
)
def test_wrong_parameters_are_refused(change):
    with pytest.raises(InvalidParameterError, match=next(iter(change))):
        TrackingParameters(**change)
