"""Draws of single steps against the conditional distribution worked out by brute force.

Fixed seeds: a test either always passes or always fails. Bins with fewer than five expected draws
are merged, and a draw of probability zero fails at once.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare
from toys import SKEWED, BruteForce, directions_between, random_fod

from napari_tractography.fod import Fod
from napari_tractography.parameters import TrackingParameters
from napari_tractography.seeds import Seeds
from napari_tractography.stop import StopReason
from napari_tractography.tracking import codes
from napari_tractography.tracking.engine import track

N_DRAWS = 100_000
POSITION_VOX = (1.3, 1.85, 2.4)  # all eight corners count, each with a weight of its own
# 724 directions lie about 8 degrees apart: a narrow cone needs more to hold several.
DIRECTIONS_BY_ANGLE = {5.0: 2048, 15.0: 2048, 30.0: 724, 45.0: 724, 90.0: 724}


def draw_steps(fod, position_mm, current, *, n_directions, cone=None, **parameters):
    """Indices of the directions of one step, from N_DRAWS streamlines, and the tractogram."""
    settings = {
        "step_mm": 0.25,
        "max_length_mm": 0.25,
        "start": "given",
        "direction": "forward",
        "min_probability": 0.0,
        "min_amplitude": 0.0,
        "n_directions": n_directions,
        "random_seed": 11,
    } | parameters
    given = None
    if current is not None:
        unit = BruteForce.at(
            fod, position_mm, interpolation="nearest", n_directions=n_directions
        ).units[current]
        given = np.tile(unit, (N_DRAWS, 1))
    seeds = Seeds.at(np.tile(position_mm, (N_DRAWS, 1)), given)
    tractogram = track(fod, seeds, TrackingParameters(**settings), cone=cone)
    lines = tractogram.points.reshape(-1, 2, 3)
    return directions_between(lines[:, 0], lines[:, 1], n_directions), tractogram


def p_value(drawn, probabilities):
    """p of Pearson's chi-square."""
    counts = np.bincount(drawn, minlength=len(probabilities))
    assert not counts[probabilities == 0].any(), "a direction of probability zero was drawn"
    expected = probabilities * len(drawn)
    rare = expected < 5
    observed, expected = (
        np.append(values[~rare], values[rare].sum()) for values in (counts, expected)
    )
    if expected[-1] < 5:  # too little even together: into the smallest of the others
        smallest = np.argmin(expected[:-1])
        expected[smallest] += expected[-1]
        observed[smallest] += observed[-1]
        observed, expected = observed[:-1], expected[:-1]
    assert len(expected) > 1, "one bin proves nothing"
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def between(amplitudes, quantile):
    """A floor near a quantile but between two amplitudes: rounding cannot decide; 0 at 0."""
    ordered = np.sort(amplitudes)
    k = int(quantile * (len(ordered) - 1))
    return float(ordered[k : k + 2].mean()) if quantile else 0.0


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("angle", [5.0, 15.0, 30.0, 45.0, 90.0])
@pytest.mark.parametrize("lmax", [2, 4, 8, 12])
def test_steps_have_the_distribution_of_the_fod_in_the_cone(interpolation, angle, lmax):
    n_directions = DIRECTIONS_BY_ANGLE[angle]
    fod = random_fod(lmax, affine=SKEWED, seed=lmax)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation, n_directions=n_directions)
    current = int(np.argsort(truth.amplitudes)[-20])
    drawn, tractogram = draw_steps(
        fod,
        position,
        current,
        n_directions=n_directions,
        interpolation=interpolation,
        max_angle_deg=angle,
    )
    assert len(drawn) == N_DRAWS
    assert tractogram.tally[StopReason.MAX_LENGTH] == N_DRAWS
    assert p_value(drawn, truth.probabilities(truth.cone(current, angle))) > 1e-3


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("angle", [15.0, 45.0, 90.0])
def test_a_floor_takes_small_amplitudes_out_of_the_draw(interpolation, angle):
    n_directions = DIRECTIONS_BY_ANGLE[angle]
    fod = random_fod(8, affine=SKEWED, seed=3)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation, n_directions=n_directions)
    current = int(np.argmax(truth.amplitudes))
    inside = truth.cone(current, angle)
    floor = between(truth.amplitudes[inside], 0.5)
    wanted = truth.probabilities(inside, floor)
    assert (wanted[inside] == 0).any()
    drawn, _ = draw_steps(
        fod,
        position,
        current,
        n_directions=n_directions,
        interpolation=interpolation,
        max_angle_deg=angle,
        min_amplitude=floor,
    )
    assert p_value(drawn, wanted) > 1e-3


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("floor_quantile", [0.0, 0.5])
@pytest.mark.parametrize(
    ("angle", "n_directions", "max_proposals"),
    [
        pytest.param(8.0, 2048, 0, id="at once"),
        pytest.param(30.0, 724, codes.MAX_PROPOSALS, id="after misses"),
    ],
)
def test_the_scan_draws_from_the_same_distribution(
    interpolation, floor_quantile, angle, n_directions, max_proposals
):
    """Around a direction of little mass nearly every proposal misses the cone: the scan decides."""
    fod = random_fod(8, affine=SKEWED, seed=5)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation, n_directions=n_directions)
    cones = truth.units @ truth.units.T >= np.cos(np.deg2rad(angle))
    several = np.flatnonzero((cones & (truth.amplitudes > 0.02)).sum(axis=1) >= 6)
    mass_fractions = np.array([truth.mass_fraction(cones[i]) for i in several])
    current = int(several[np.argmin(mass_fractions)])
    inside = truth.cone(current, angle)
    floor = between(truth.amplitudes[inside], floor_quantile)
    # A draw covers both signs: the chance of a miss is 1 - 2 * mass_fraction.
    assert (1 - 2 * mass_fractions.min()) ** max_proposals > 0.3
    drawn, _ = draw_steps(
        fod,
        position,
        current,
        n_directions=n_directions,
        interpolation=interpolation,
        max_angle_deg=angle,
        min_amplitude=floor,
    )
    assert p_value(drawn, truth.probabilities(inside, floor)) > 1e-3


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_a_sampled_start_is_drawn_from_the_whole_fod(interpolation, floor):
    fod = random_fod(8, affine=SKEWED, seed=1)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation)
    drawn, _ = draw_steps(
        fod,
        position,
        None,
        n_directions=724,
        interpolation=interpolation,
        start="sampled",
        min_amplitude=floor,
    )
    everywhere = np.ones(724, bool)
    assert p_value(drawn, truth.probabilities(everywhere, floor)) > 1e-3
    assert p_value(drawn // 362, np.array([0.5, 0.5])) > 1e-3


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_a_start_at_the_maximum_has_both_signs_equally_often(interpolation):
    fod = random_fod(8, affine=SKEWED, seed=2)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation)
    drawn, _ = draw_steps(
        fod, position, None, n_directions=724, interpolation=interpolation, start="max"
    )
    assert set(drawn % 362) == {int(np.argmax(truth.amplitudes[:362]))}
    assert p_value(drawn // 362, np.array([0.5, 0.5])) > 1e-3


def band(width):
    """A cone that is no cone: all directions nearly perpendicular to one of the axes or ahead."""

    def allowed(current, candidates):
        along = candidates @ current
        return (np.abs(candidates[:, 2]) < width) | (along > 0.9)

    return allowed


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize(
    ("width", "n_directions"),
    [pytest.param(0.5, 724, id="wide"), pytest.param(0.004, 2048, id="narrow: mostly scanned")],
)
def test_a_two_sided_cone_function_is_sampled_exactly(interpolation, width, n_directions):
    fod = random_fod(8, affine=SKEWED, seed=7)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation, n_directions=n_directions)
    cone = band(width) if width > 0.1 else (lambda c, u: np.abs(u[:, 2]) < width)
    current = int(np.argmax(truth.amplitudes))
    inside = cone(truth.units[current], truth.units)
    half = n_directions // 2
    assert (inside[:half] & inside[half:]).any()  # some axis is allowed both ways
    if width < 0.1:
        assert (1 - truth.mass_fraction(inside)) ** codes.MAX_PROPOSALS > 0.3
    else:
        assert (inside[:half] != inside[half:]).any()  # and some only one way
    drawn, _ = draw_steps(
        fod,
        position,
        current,
        n_directions=n_directions,
        interpolation=interpolation,
        cone=cone,
    )
    assert p_value(drawn, truth.probabilities(inside)) > 1e-3


def test_steps_and_halves_of_a_streamline_are_independent():
    """In a uniform FOD without a cone, signs of x and y of different steps are fair coins tossed
    apart; reused random numbers would show."""
    fod = Fod(np.ones((4, 4, 4, 1)), np.eye(4))
    seeds = Seeds.at(np.full((N_DRAWS, 3), 1.5), np.tile((0.0, 0.0, 1.0), (N_DRAWS, 1)))
    halves = [
        track(
            fod,
            Seeds.at(seeds.positions_mm, sign * seeds.directions),
            TrackingParameters(
                step_mm=0.1,
                max_length_mm=0.2,
                start="given",
                direction=direction,
                min_amplitude=0.0,
                random_seed=4,
            ),
            cone=lambda current, candidates: np.ones(len(candidates), bool),
        )
        for direction, sign in (("forward", 1), ("backward", -1))
    ]
    ahead = np.diff(halves[0].points.reshape(N_DRAWS, 3, 3).astype(float), axis=1)
    back = np.diff(halves[1].points.reshape(N_DRAWS, 3, 3)[:, ::-1].astype(float), axis=1)
    steps = [half[:, k] for half in (ahead, back) for k in (0, 1)]
    for first, second in itertools.combinations(steps, 2):
        for a, b in itertools.product((0, 1), repeat=2):
            agree = ((first[:, a] > 0) == (second[:, b] > 0)).astype(int)
            assert p_value(agree, np.array([0.5, 0.5])) > 1e-3
