"""Peaks and tensors, followed as they are: laws, and the same bits from the CUDA source."""

from __future__ import annotations

import numpy as np
import pytest
from plans import plan_of
from toys import random_tensors, random_vectors

from napari_tractography.errors import InvalidParameterError
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.engine import track
from napari_tractography.tracking.tables.vectors import VectorTable

AXES = np.eye(3)
ALGORITHMS = ("probabilistic", "deterministic", "sd_stream", "transport")


def crossing(first=(1.0, 0.0, 0.0), second=(0.0, 1.0, 0.0), shape=(9, 9, 9)) -> Fod:
    """Two fibres in every voxel of 1 mm."""
    peaks = np.broadcast_to(np.array([first, second], float), (*shape, 2, 3))
    return Fod.from_peaks(peaks, np.eye(4))


def parameters(**changes) -> TrackingParameters:
    given = {"step_mm": 0.5, "max_angle_deg": 30.0, "min_amplitude": 0.1, "min_length_mm": 0.0}
    return TrackingParameters(**{**given, **changes})


def directions_of(tractogram) -> np.ndarray:
    steps = np.concatenate([np.diff(line, axis=0) for line in tractogram])
    return steps / np.linalg.norm(steps, axis=1, keepdims=True)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_streamlines_run_along_the_peak_itself(algorithm, interpolation):
    along = np.array([1.0, 2.0, 2.0]) / 3.0
    fod = crossing(along, (0.0, 0.0, 0.0))
    seeds = Seeds.in_sphere((4, 4, 4), 0.5, 20)
    lines = track(fod, seeds, parameters(algorithm=algorithm, interpolation=interpolation))
    assert len(lines) == 20
    np.testing.assert_allclose(np.abs(directions_of(lines) @ along), 1.0, atol=2e-6)


def test_of_two_peaks_each_is_drawn_as_often_as_its_amplitude_says():
    fod = crossing((0.6, 0.0, 0.0), (0.0, 0.2, 0.0))
    seeds = Seeds.at(np.tile([[4.2, 4.3, 4.1]], (4000, 1)))
    lines = track(fod, seeds, parameters(max_length_mm=1.0))
    along_x = np.abs([line[1, 0] - line[0, 0] for line in lines]) > 0.4
    assert abs(along_x.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)
    forward = np.array([line[-1, 0] - line[0, 0] for line in lines])[along_x] > 0
    assert abs(forward.mean() - 0.5) < 4 * np.sqrt(0.25 / along_x.sum())


def test_deterministic_takes_the_largest_peak_and_sd_stream_the_nearest():
    small = np.array([np.cos(0.1), np.sin(0.1), 0.0])
    large = np.array([np.cos(0.4), -np.sin(0.4), 0.0])
    fod = crossing(0.3 * small, large)
    seeds = Seeds.at([[4.0, 4.0, 4.0]], [[1.0, 0.0, 0.0]])
    for algorithm, expected in (("deterministic", large), ("sd_stream", small)):
        given = parameters(algorithm=algorithm, start="given", direction="forward")
        lines = track(fod, seeds, given)
        found = directions_of(lines)
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=2e-6)


def test_trilinear_directions_are_weighted_means_of_aligned_peaks():
    """Peaks turn by 20 degrees from one voxel to the next; signs are turned round at random."""
    angles = np.radians([0.0, 20.0])
    peaks = np.zeros((2, 1, 1, 1, 3))
    peaks[:, 0, 0, 0, 0], peaks[:, 0, 0, 0, 1] = np.cos(angles), np.sin(angles)
    peaks[1] *= -1.0
    fod = Fod.from_peaks(np.tile(peaks, (1, 3, 3, 1, 1)), np.eye(4))
    seeds = Seeds.at([[0.25, 1.0, 1.0]], [[1.0, 0.0, 0.0]])
    given = parameters(algorithm="sd_stream", start="given", direction="forward", step_mm=0.1)
    first = directions_of(track(fod, seeds, given.replace(max_length_mm=0.1)))[0]
    mean = 0.75 * peaks[0, 0, 0, 0] - 0.25 * peaks[1, 0, 0, 0]
    np.testing.assert_allclose(first, mean / np.linalg.norm(mean), atol=3e-6)


def test_reasons_to_stop_are_those_that_apply():
    peaks = np.zeros((8, 3, 3, 1, 3))
    peaks[:4, ..., 0] = 1.0
    peaks[4:, ..., 1] = 1.0
    fod = Fod.from_peaks(peaks, np.eye(4))
    seeds = Seeds.at([[1.0, 1.0, 1.0]], [[1.0, 0.0, 0.0]])
    given = parameters(interpolation="nearest", start="given", direction="forward")

    def reason(changed=fod, **changes):
        lines = track(changed, seeds, given.replace(**changes))
        return StopReason(lines.stop_reasons[0, 1])

    assert reason(algorithm="sd_stream") == StopReason.SHARP_TURN
    assert reason(algorithm="deterministic") == StopReason.SHARP_TURN
    assert reason(algorithm="probabilistic") == StopReason.LOW_PROBABILITY
    fading = peaks.copy()
    fading[4:] = [[[[[0.05, 0.0, 0.0]]]]]
    for algorithm in ALGORITHMS:
        assert reason(Fod.from_peaks(fading, np.eye(4)), algorithm=algorithm) == (
            StopReason.LOW_AMPLITUDE
        )
    ending = peaks.copy()
    ending[4:] = np.nan
    for algorithm in ALGORITHMS:
        assert reason(Fod.from_peaks(ending, np.eye(4)), algorithm=algorithm) == StopReason.NO_FOD


def test_tensors_are_interpolated_before_their_eigenvector_is_found():
    rng = np.random.default_rng(3)
    elements, full = random_tensors(rng, (2, 2, 2))
    fod = Fod.from_tensors(elements, np.eye(4))
    point = np.array([0.3, 0.6, 0.4])
    weights = [np.prod(np.where(far, point, 1 - point)) for far in np.ndindex(2, 2, 2)]
    mean = np.einsum("n,nij->ij", weights, full.reshape(-1, 3, 3))
    expected = np.linalg.eigh(mean)[1][:, 2]
    seeds = Seeds.at([point], [expected])
    for algorithm in ("deterministic", "sd_stream"):
        given = parameters(
            algorithm=algorithm, start="given", direction="forward", step_mm=0.01,
            max_length_mm=0.01, min_amplitude=0.0,
        )  # fmt: skip
        lines = track(fod, seeds, given)
        assert abs(directions_of(lines)[0] @ expected) > 1 - 1e-4  # points of float32, 0.01 apart


def test_vectors_take_their_own_place_in_memory_and_no_more():
    fod = crossing()
    plan = plan_of(fod, Seeds.at([[4.0, 4.0, 4.0]]), parameters())
    assert isinstance(plan.table, VectorTable)
    assert plan.table.n_bytes == fod.n_voxels * 2 * 12


def test_a_cone_as_a_function_is_refused():
    with pytest.raises(InvalidParameterError, match="peaks holds peaks; give max_angle_deg"):
        track(crossing(), Seeds.at([[4.0, 4.0, 4.0]]), cone=lambda a, b: a @ b.T > 0.8)


def test_diffusion_gets_lobes_along_the_peaks():
    fod = crossing((1.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    seeds = Seeds.in_sphere((4, 4, 4), 0.5, 10)
    lines = track(fod, seeds, parameters(algorithm="diffusion", gamma_noise=0.0, step_mm=0.1))
    assert np.abs(directions_of(lines) @ AXES[0]).mean() > 0.9


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_streamlines_do_not_depend_on_blocks_and_threads(algorithm):
    fod = random_vectors("peaks")
    seeds = Seeds.in_mask(fod.support, fod.grid, 300)
    given = parameters(algorithm=algorithm, max_angle_deg=60.0)
    once = track(fod, seeds, given, n_threads=1, block=300)
    again = track(fod, seeds, given, n_threads=2, block=17)
    assert len(once) > 100
    assert once.digest() == again.digest()
