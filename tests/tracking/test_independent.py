"""The engine's streamlines, step by step, against a tracker that shares nothing with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from dipy.reconst.shm import real_sh_tournier
from independent import Reference, harmonics, spread
from scipy.stats import ks_2samp, kstest
from toys import SKEWED, lobes

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.engine import track

PARAMETERS = TrackingParameters(
    step_mm=0.7, max_angle_deg=35.0, min_amplitude=0.1, min_probability=0.02, max_length_mm=30.0
)
SURE = 0.1  # less clear ends are not judged: half floats, forty directions a cone
LOWEST_P = 1e-3  # of a test on fixed random numbers


def bent_fod() -> Fod:
    """Fibres on arcs, others across them in a part, noise in all; one side is empty.

    ::

        | / - . .
        | + + . .      three of ten columns hold nothing
        | + + . .
    """
    i, j, _ = np.indices((10, 9, 8))
    around = np.stack([-j - 1.0, i + 1.0, 0 * i], axis=-1) / np.hypot(i + 1, j + 1)[..., None]
    across = np.broadcast_to([0.6, 0.0, 0.8], around.shape)
    values = lobes(around, 4) + np.where((j > 3)[..., None], 0.7 * lobes(across, 4), 0)
    values += np.random.default_rng(3).normal(0, 0.02, values.shape)
    values[7:] = 0
    return Fod(values, SKEWED, name="bent")


@dataclass(frozen=True)
class Stepped:
    """A step of the engine: where, along what before, along what then."""

    position: np.ndarray
    before: np.ndarray
    after: np.ndarray


Density = Callable[[Stepped, np.ndarray], np.ndarray]


def units(points: np.ndarray) -> np.ndarray:
    moved = np.diff(np.asarray(points, np.float64), axis=0)
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def halves(tractogram: Tractogram, seeds: Seeds) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """The points of each half from its seed on, the direction that it began with, its end."""
    for number, line in enumerate(tractogram):
        seed = seeds.positions_mm[tractogram.seed_index[number]]
        (at,) = np.flatnonzero((line == seed).all(axis=1))
        first, last = tractogram.stop_reasons[number]
        ahead, back = line[at:], line[at::-1]
        if len(ahead) > 1:  # its first step gives the direction that both began with
            start = units(ahead[:2])[0]
            yield ahead, start, last
            yield back, -start, first


def reference(fod: Fod, parameters: TrackingParameters = PARAMETERS) -> Reference:
    return Reference(
        np.array(fod.coefficients, np.float64),
        np.array(fod.grid.affine),
        parameters.step_mm,
        parameters.max_angle_deg,
        parameters.min_amplitude,
        parameters.min_probability,
        parameters.max_length_mm,
    )


def tracked(n: int, **changes: object) -> tuple[Reference, Seeds, Tractogram]:
    fod = bent_fod()
    seeds = Seeds.in_sphere(fod.grid.to_mm((3.4, 3.6, 3.7)), 5.0, n, random_seed=4)
    parameters = PARAMETERS.replace(**changes)
    return reference(fod, parameters), seeds, track(fod, seeds, parameters)


def steps_of(tractogram: Tractogram, seeds: Seeds) -> list[Stepped]:
    """All steps but those along a start direction."""
    steps = []
    for number, (points, start, _) in enumerate(halves(tractogram, seeds)):
        along = units(points)
        before = np.concatenate([start[None], along])
        first = 1 if number % 2 == 0 else 0  # the forward half begins along the start itself
        steps += [Stepped(points[k], before[k], along[k]) for k in range(first, len(along))]
    return steps


@pytest.mark.parametrize("lmax", [2, 4, 8])
def test_its_harmonics_are_those_of_dipy(lmax: int) -> None:
    directions = spread(np.array([0.0, 0, 1]), -1.0, 200)
    polar, azimuth = np.arccos(directions[:, 2]), np.arctan2(directions[:, 1], directions[:, 0])
    wanted, _, _ = real_sh_tournier(lmax, polar, azimuth, legacy=False)
    np.testing.assert_allclose(harmonics(directions, lmax), wanted, atol=1e-9)


@pytest.fixture(scope="module")
def run() -> tuple[Reference, Seeds, Tractogram]:
    return tracked(60)


def places_of(steps: list[Stepped], truth: Reference, density_of: Density) -> np.ndarray:
    """(2, n): where each step is in a distribution: how far off the one before, to which side.

    Uniform from 0 to 1 where steps are draws from it.
    """
    places = []
    for step in steps:
        cone = spread(step.before, truth.cosine, truth.n_points)
        density = density_of(step, cone)
        side = np.cross(step.before, [0.3, 0.5, 0.8])
        side /= np.linalg.norm(side)
        other = np.cross(step.before, side)
        angles = np.arctan2(cone @ other, cone @ side)
        mine = np.arctan2(step.after @ other, step.after @ side)
        farther, before = cone @ step.before > step.after @ step.before, angles < mine
        places.append([density[farther].sum(), density[before].sum()] / density.sum())
    return np.array(places).T


def test_each_step_is_a_draw_from_the_density_in_its_cone(run) -> None:
    truth, seeds, tractogram = run
    steps = steps_of(tractogram, seeds)
    assert len(steps) > 1200

    def density_of(step: Stepped, cone: np.ndarray) -> np.ndarray:
        fod = truth.at(step.position)
        assert fod is not None
        assert step.after @ step.before > truth.cosine - 1e-4  # float32 points
        assert truth.amplitudes(fod, step.after) > truth.min_amplitude * 0.99  # half floats
        return truth.density(fod, cone)

    inward, around = places_of(steps, truth, density_of)
    assert kstest(inward, "uniform").pvalue > LOWEST_P
    assert kstest(around, "uniform").pvalue > LOWEST_P
    assert abs(np.corrcoef(inward[:-1], inward[1:])[0, 1]) < 0.1  # no step knows of the one before
    inward, _ = places_of(steps, truth, lambda step, cone: np.ones(len(cone)))
    assert kstest(inward, "uniform").pvalue < 1e-6  # another distribution would be noticed


def test_each_streamline_ends_where_it_must_and_nowhere_before(run) -> None:
    truth, seeds, tractogram = run
    judged, found = 0, set()
    for points, start, reason in halves(tractogram, seeds):
        along = np.concatenate([start[None], units(points)])
        for position, axis in zip(points[1:-1], along[1:], strict=False):
            why, clear = truth.end(truth.at(position), axis)
            assert not why or clear < SURE, (why, clear)
        if len(points) == 1 or reason == StopReason.MAX_LENGTH:
            continue
        if reason == StopReason.LEFT_IMAGE:  # the step that left it is not known
            cone = points[-1] + truth.step_mm * spread(along[-1], truth.cosine, truth.n_points)
            assert any(truth.at(place) is None for place in cone)
        else:
            why, clear = truth.end(truth.at(points[-1]), along[-1])
            assert clear < SURE or why == StopReason(reason).name
        judged += 1
        found.add(StopReason(reason).name)
    assert judged > 60
    assert {"LEFT_IMAGE", "NO_FOD"} <= found
    assert found & {"LOW_AMPLITUDE", "LOW_PROBABILITY"}


def test_the_deterministic_line_takes_the_largest_amplitude_of_each_cone() -> None:
    truth, seeds, tractogram = tracked(15, algorithm="deterministic", start="max")
    n_steps = 0
    for step in steps_of(tractogram, seeds):
        fod = truth.at(step.position)
        assert fod is not None
        largest = truth.amplitudes(fod, spread(step.before, truth.cosine, 2000)).max()
        assert truth.amplitudes(fod, step.after) > 0.995 * largest
        assert step.after @ step.before > truth.cosine - 1e-4
        n_steps += 1
    assert n_steps > 300


def test_bundles_of_both_are_alike() -> None:
    """Thirty lines of the slow one and two thousand of the engine, from one seed and direction."""
    fod = bent_fod()
    parameters = PARAMETERS.replace(start="given", direction="forward", min_probability=0.0)
    truth = reference(fod, parameters)
    seed = fod.grid.to_mm((2.0, 3.0, 3.5)).astype(np.float32).astype(np.float64)
    start = np.array([-0.8, 0.6, 0.0])  # along the arc there
    rng = np.random.default_rng(8)
    slow = [truth.track(seed, start, rng) for _ in range(30)]
    seeds = Seeds.at(np.tile(seed, (2000, 1)), np.tile(start, (2000, 1)))
    fast = list(track(fod, seeds, parameters))
    assert len(fast) == 2000
    for number_of in (len, lambda line: line[-1][0], lambda line: line[len(line) // 2][2]):
        mine, theirs = ([number_of(line) for line in lines] for lines in (slow, fast))
        assert ks_2samp(mine, theirs).pvalue > LOWEST_P
