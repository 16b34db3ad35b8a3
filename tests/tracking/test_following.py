"""Peaks followed up the gradient: beside the same law in float64, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.model.defaults import has_effect
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.engine import track

X = np.array([1.0, 0.0, 0.0])
VOXELS = np.diag([2.0, 1.0, 0.5, 1.0])  # mm
PARTS = 400  # of a step, in the law


def parameters(**changes) -> TrackingParameters:
    given = {"algorithm": "transport", "step_mm": 0.2, "max_angle_deg": 90.0, "gamma": 1.0}
    return TrackingParameters(**{**given, "min_length_mm": 0.0, "min_amplitude": 0.0, **changes})


def turned(degrees: float) -> np.ndarray:
    """A direction in the plane of x and y."""
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), 0.0])


def uniform(*peaks, shape=(21, 21, 5)) -> Fod:
    """The same peaks in every voxel of 1 mm."""
    return Fod.from_peaks(np.broadcast_to(np.array(peaks), (*shape, len(peaks), 3)), np.eye(4))


class Law:
    """The FOD of peaks around a place in float64, and the dynamics there."""

    def __init__(self, peaks: np.ndarray, place: np.ndarray, interpolation: str) -> None:
        """Of (2, 2, 2, k, 3) peaks, RAS+; the place is in voxels."""
        self.lengths = np.linalg.norm(peaks, axis=4)
        self.units = peaks / self.lengths[..., None]
        sides = np.stack([1 - place, place])
        slopes = np.stack([-np.ones(3), np.ones(3)])
        if interpolation == "nearest":
            sides = np.stack([place < 0.5, place >= 0.5]).astype(float)
        x, y, z = sides.T
        self.weights = np.einsum("i,j,k->ijk", x, y, z)
        self.slopes = [
            np.einsum("i,j,k->ijk", slopes[:, 0], y, z),
            np.einsum("i,j,k->ijk", x, slopes[:, 1], z),
            np.einsum("i,j,k->ijk", x, y, slopes[:, 2]),
        ]

    def nearest(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lengths, cosines and directions of the peak nearest to u in each voxel."""
        cosines = self.units @ u
        best = np.abs(cosines).argmax(axis=3)[..., None]
        along = np.take_along_axis(cosines, best, 3)[..., 0]
        units = np.take_along_axis(self.units, best[..., None], 3)[..., 0, :]
        lengths = np.take_along_axis(self.lengths, best, 3)[..., 0] * (np.abs(along) >= 0.5)
        return lengths, np.abs(along), units * np.sign(along)[..., None]

    def after(self, u: np.ndarray, time: float, ahead: float, sizes: np.ndarray) -> np.ndarray:
        """The direction after so much gamma times mm, by small steps of Euler's."""
        lengths, cosines, _ = self.nearest(u)
        values = lengths * cosines**8
        slope = ahead * np.array([(w * values).sum() for w in self.slopes]) / sizes
        for _ in range(PARTS):
            lengths, cosines, units = self.nearest(u)
            value = (self.weights * lengths * cosines**8).sum()
            each = self.weights * 8 * lengths * cosines**7
            gradient = np.einsum("ijk,ijkd->d", each, units) + slope
            tangent = gradient - (gradient @ u) * u
            u = u + time / PARTS * tangent / value
            u = u / np.linalg.norm(u)
        return u


@pytest.mark.parametrize("interpolation", ["trilinear", "nearest"])
@pytest.mark.parametrize("ahead", [0.0, 0.4])
@pytest.mark.parametrize(("gamma", "tolerance"), [(0.1, 0.003), (1.0, 0.01), (3.0, 0.002)])
def test_directions_turn_by_the_law(interpolation, ahead, gamma, tolerance):
    """Exactly but for higher derivatives of log f in a part of a step, where there are kinks."""
    rng = np.random.default_rng(7)
    common = rng.normal(size=(3, 3))
    peaks = common + rng.normal(0, 0.2, (2, 2, 2, 3, 3))
    fod = Fod.from_peaks(peaks, VOXELS, axes="scanner")
    n, sizes = 90, np.diag(VOXELS)[:3]
    places = rng.uniform(0.1, 0.9, (n, 3))
    near = common[rng.integers(0, 3, n)] * rng.choice([-1, 1], (n, 1))
    units = near / np.linalg.norm(near, axis=1, keepdims=True) + rng.normal(0, 0.15, (n, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    given = parameters(
        start="given", direction="forward", interpolation=interpolation, gamma=gamma,
        look_ahead_mm=ahead, max_length_mm=0.2, edge="interpolated",
    )  # fmt: skip
    lines = track(fod, Seeds.at(places * sizes, units), given)
    assert len(lines) == n
    errors, turns = np.zeros(n), np.zeros(n)
    for line, seed in zip(lines, lines.seed_index, strict=True):
        law = Law(peaks, places[seed], interpolation)
        seen = 0.0 if interpolation == "nearest" else ahead
        expected = law.after(units[seed], gamma * 0.2, seen, sizes)
        found = (line[1] - line[0]) / np.linalg.norm(line[1] - line[0])
        errors[seed] = np.linalg.norm(found - expected)
        turns[seed] = np.linalg.norm(expected - units[seed])
    of_turns = errors / np.median(turns)
    assert np.median(of_turns) < tolerance
    assert np.quantile(of_turns, 0.9) < 10 * tolerance


@pytest.mark.parametrize("angle", [30, 45])
def test_bundles_that_cross_stay_apart(angle):
    """Lobes of both fuse, those at 30 degrees into one with its peak between them."""
    fod = uniform(0.8 * X, 0.8 * turned(angle))
    seeds = Seeds.at(np.tile([[6.2, 6.3, 2.1]], (2, 1)), [turned(angle / 3), turned(angle / 1.5)])
    given = parameters(start="given", direction="forward", max_length_mm=8.0, max_angle_deg=30.0)

    def ends(algorithm):
        lines = track(fod, seeds, given.replace(algorithm=algorithm, gamma_noise=0.0))
        return [(line[-1] - line[-2]) / np.linalg.norm(line[-1] - line[-2]) for line in lines]

    one, other = ends("transport")
    np.testing.assert_allclose(one, X, atol=0.01)
    np.testing.assert_allclose(other, turned(angle), atol=0.01)
    if angle == 30:
        np.testing.assert_allclose(ends("diffusion"), [turned(15)] * 2, atol=0.02)


def starts(fod: Fod, place, n=400, **changes) -> np.ndarray:
    """The first steps of n streamlines from one place."""
    given = parameters(direction="forward", max_length_mm=0.2, **changes)
    return np.array([line[1] - line[0] for line in track(fod, Seeds.at([place] * n), given)])


def test_lines_start_along_peaks_that_the_fod_around_has_too():
    """A peak of one voxel of eight alone is larger than the others, but by its weight too small."""
    peaks = np.zeros((5, 5, 5, 2, 3))
    peaks[..., 0, 0] = 0.5
    peaks[2, 2, 2, 1, 1] = 0.9
    fod = Fod.from_peaks(peaks, np.eye(4))
    place = (2.3, 2.3, 2.3)  # where that voxel weighs 0.34
    for start in ("sampled", "max"):
        kept = starts(fod, place, min_amplitude=0.4, start=start)
        assert len(kept) == 400
        assert np.abs(kept[:, 0]).min() > 0.19
        assert 0.4 < (kept[:, 0] > 0).mean() < 0.6
    along_y = np.abs(starts(fod, place, min_amplitude=0.2)[:, 1]) > 0.1
    share = 0.9 * 0.343 / (0.9 * 0.343 + 0.5)
    assert abs(along_y.mean() - share) < 4 * np.sqrt(share * (1 - share) / 400)
    assert not len(starts(fod, place, min_amplitude=0.6))
    tally = track(fod, Seeds.at([place]), parameters(min_amplitude=0.6)).tally
    assert tally[StopReason.SEED_WITHOUT_FOD] == 1


def test_the_largest_start_is_that_along_which_the_fod_is_largest():
    """Two peaks of a voxel are smaller than one of another voxel that is far away."""
    peaks = np.zeros((5, 5, 5, 2, 3))
    peaks[..., 0, 0] = 0.5
    peaks[3, 2, 2, 1, 1] = 2.0
    fod = Fod.from_peaks(peaks, np.eye(4))
    assert np.abs(starts(fod, (2.1, 2.0, 2.0), 20, start="max")[:, 0]).min() > 0.19
    assert np.abs(starts(fod, (2.6, 2.0, 2.0), 20, start="max")[:, 1]).min() > 0.19


def test_adaptive_steps_are_long_along_peaks_and_short_where_lines_turn():
    fod = uniform(X)
    seeds = Seeds.at([[6.2, 6.3, 2.1]], [turned(30)])
    given = parameters(start="given", direction="forward", max_length_mm=8.0, adaptive=True)
    (line,) = track(fod, seeds, given)
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    assert lengths[0] < 0.1
    assert lengths[-1] == pytest.approx(0.4, rel=1e-4)


def test_a_small_share_of_the_peaks_in_the_cone_is_a_reason_to_stop():
    fod = uniform(0.3 * X, 0.9 * turned(90))
    seeds = Seeds.at([[6.2, 6.3, 2.1]], [X])
    given = parameters(start="given", direction="forward", max_length_mm=2.0, max_angle_deg=20.0)
    assert len(track(fod, seeds, given.replace(min_probability=0.2))) == 1
    lines = track(fod, seeds, given.replace(min_probability=0.3))
    assert not len(lines)
    assert lines.tally[StopReason.LOW_PROBABILITY] == 1


def test_it_looks_ahead_as_in_fods():
    fod = uniform(X)
    suited = TrackingParameters.for_fod(fod, algorithm="transport")
    assert (suited.look_ahead_mm, suited.gamma) == (0.5, 1.0)
    assert has_effect("look_ahead_mm", suited, fod.input_kind)
    drawn = TrackingParameters.for_fod(fod, algorithm="probabilistic")
    assert not has_effect("look_ahead_mm", drawn, fod.input_kind)
