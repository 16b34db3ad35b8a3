"""The rules by which a streamline goes on, turns and ends, against the same rules by hand."""

from __future__ import annotations

import numpy as np
import pytest
from toys import (
    POLE,
    SKEWED,
    BruteForce,
    arc_fod,
    cone_points,
    polyline_angles_deg,
    random_fod,
    straight_fod,
    unit_steps,
)

from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom, phantom_lines_mm
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.engine import track

BOTH_ALGORITHMS = pytest.mark.parametrize("algorithm", ["deterministic", "probabilistic"])
BOTH_INTERPOLATIONS = pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])

OBLIQUE = np.eye(4)
OBLIQUE[:3, :3] = np.linalg.qr(np.array([[2.0, 1, 0], [0.3, 2, 1], [-1, 0.2, 2]]))[0] * 2.0
AFFINES = [
    pytest.param(np.diag([1.0, 1, 1, 1]), id="unit"),
    pytest.param(np.diag([3.0, 1, 0.5, 1]), id="anisotropic"),
    pytest.param(np.diag([-2.0, 2, 2, 1]), id="left-handed"),
    pytest.param(OBLIQUE, id="oblique"),
    pytest.param(SKEWED, id="sheared, left-handed, oblique, anisotropic"),
]


def one_step(fod, position_mm, current, n=20, cone=None, **parameters):
    """Track one step from direction `current`; return the tractogram."""
    unit = direction_set(724)[current]
    settings = {
        "step_mm": 0.25,
        "max_length_mm": 0.25,
        "start": "given",
        "direction": "forward",
        "min_probability": 0.0,
        "min_amplitude": 0.0,
    } | parameters
    seeds = Seeds.at(np.tile(position_mm, (n, 1)), np.tile(unit, (n, 1)))
    return track(fod, seeds, TrackingParameters(**settings), cone=cone)


def mass_fraction(truth, axis, angle_deg):
    """How much of the FOD lies in a cone, in 64 bits."""
    height = 1 - np.cos(np.deg2rad(angle_deg))
    inside = truth.amplitudes(cone_points(axis, angle_deg, 5000)).mean() * height / 2
    return inside / truth.amplitudes(cone_points(axis, 180.0, 5000)).mean()


@BOTH_ALGORITHMS
@pytest.mark.parametrize("min_amplitude", [0.0, 0.1])
def test_a_streamline_stops_where_too_little_of_the_fod_is_in_the_cone(algorithm, min_amplitude):
    """The mass fraction counts the whole cone, also what lies below the amplitude floor.

    The cone's mean is that of some forty directions, the whole FOD's of hundreds.
    """
    fod = random_fod(8, affine=SKEWED, seed=12)
    position = fod.grid.to_mm((1.3, 1.85, 2.4))
    truth = BruteForce.at(fod, position, interpolation="nearest")
    n_judged = 0
    for current in range(0, 724, 61):
        unit = direction_set(724)[current].astype(float)
        inside = truth.amplitudes(cone_points(unit, 40.0, 2000))
        fraction = mass_fraction(truth, unit, 40.0)
        if inside.max() < 0.15 or fraction < 0.02:
            continue
        n_judged += 1
        for threshold, reason in (
            (fraction * 0.75, StopReason.MAX_LENGTH),
            (fraction * 1.33, StopReason.LOW_PROBABILITY),
        ):
            tally = one_step(
                fod,
                position,
                current,
                algorithm=algorithm,
                interpolation="nearest",
                max_angle_deg=40.0,
                min_probability=threshold,
                min_amplitude=min_amplitude,
            ).tally
            assert tally[reason] == 20
            assert set(tally) <= {reason, StopReason.SEED}
    assert n_judged > 5


@BOTH_INTERPOLATIONS
def test_it_stops_so_even_where_all_tries_are_in_vain(interpolation):
    """Where the cone reaches the floor only in a speck, its largest amplitude is taken, or not."""
    fod = random_fod(8, affine=SKEWED, seed=12)
    position = fod.grid.to_mm((1.3, 1.85, 2.4))
    truth = BruteForce.at(fod, position, interpolation=interpolation)
    current = int(np.argmax(truth.amplitudes(direction_set(724))))
    unit = direction_set(724)[current].astype(float)
    largest = truth.amplitudes(cone_points(unit, 40.0, 20000)).max()
    fraction = mass_fraction(truth, unit, 40.0)
    for threshold, reason in (
        (fraction * 0.75, StopReason.MAX_LENGTH),
        (fraction * 1.33, StopReason.LOW_PROBABILITY),
    ):
        tally = one_step(
            fod,
            position,
            current,
            algorithm="probabilistic",
            interpolation=interpolation,
            max_angle_deg=40.0,
            min_probability=threshold,
            min_amplitude=float(largest) * 0.999,  # half floats are rounded
        ).tally
        assert tally[reason] == 20
        assert set(tally) <= {reason, StopReason.SEED}


def test_the_mass_of_a_cone_given_as_a_function_is_that_of_what_it_allows():
    """All of the FOD is in a cone that allows everything, half of it in one that allows z > 0."""
    fod = random_fod(8, affine=SKEWED, seed=18)
    position = fod.grid.to_mm((1.3, 1.85, 2.4))
    truth = BruteForce.at(fod, position, interpolation="nearest")
    current = int(np.argmax(truth.amplitudes(direction_set(724))))
    for cone, fraction in (
        (lambda c, units: np.ones(len(units), bool), 1.0),
        (lambda c, units: units[:, 2] > 0, 0.5),
    ):
        for threshold, reason in (
            (fraction * 0.93, StopReason.MAX_LENGTH),
            (min(fraction * 1.07, 1.0), StopReason.LOW_PROBABILITY),
        ):
            if threshold == 1.0:
                continue
            found = one_step(
                fod,
                position,
                current,
                cone=cone,
                interpolation="nearest",
                min_probability=threshold,
            )
            assert found.tally[reason] == 20


@BOTH_ALGORITHMS
@BOTH_INTERPOLATIONS
def test_a_streamline_stops_where_the_cone_holds_only_small_amplitudes(algorithm, interpolation):
    """Where the largest amplitude is hardly above the floor, it is its direction that is taken."""
    fod = random_fod(8, affine=SKEWED, seed=13)
    position = fod.grid.to_mm((1.3, 1.85, 2.4))
    truth = BruteForce.at(fod, position, interpolation=interpolation)
    rounding = 1e-3 * truth.amplitudes(direction_set(4096)).max()
    n_judged = 0
    for current in range(3, 724, 97):
        unit = direction_set(724)[current].astype(float)
        _, largest = truth.peak(unit, 40.0)
        if largest < 10 * rounding:
            continue
        n_judged += 1
        arguments = {
            "algorithm": algorithm,
            "interpolation": interpolation,
            "max_angle_deg": 40.0,
        }
        above = one_step(fod, position, current, min_amplitude=largest + rounding, **arguments)
        assert above.tally[StopReason.LOW_AMPLITUDE] == 20
        assert not len(above)
        below = one_step(fod, position, current, min_amplitude=largest - rounding, **arguments)
        lines = below.points.reshape(-1, 2, 3)
        assert len(lines) == 20
        steps = unit_steps(lines[:, 0], lines[:, 1])
        assert truth.raw(steps).min() > largest - 2 * rounding
    assert n_judged > 4


@pytest.mark.parametrize("affine", AFFINES)
@BOTH_ALGORITHMS
def test_steps_have_their_length_in_mm_in_any_grid(affine, algorithm):
    fod = random_fod(8, shape=(8, 8, 8), affine=affine, seed=16)
    seeds = Seeds.in_mask(fod.support, fod.grid, 50)
    tractogram = track(
        fod,
        seeds,
        TrackingParameters(algorithm=algorithm, step_mm=0.2, max_angle_deg=60, max_length_mm=20),
    )
    steps = [np.linalg.norm(np.diff(line.astype(float), axis=0), axis=1) for line in tractogram]
    assert sum(map(len, steps)) > 500
    np.testing.assert_allclose(np.concatenate(steps), 0.2, atol=1e-5)
    np.testing.assert_allclose(tractogram.lengths_mm, [s.sum() for s in steps], rtol=1e-4)


@pytest.mark.parametrize("start", ["sampled", "max"])
@pytest.mark.parametrize("angle", [12.0, 45.0, 80.0])
@BOTH_INTERPOLATIONS
def test_no_turn_exceeds_the_cone_angle_also_not_at_the_seed(start, angle, interpolation):
    fod = random_fod(8, shape=(6, 6, 6), affine=SKEWED, seed=17)
    tractogram = track(
        fod,
        Seeds.in_mask(fod.support, fod.grid, 200),
        TrackingParameters(
            start=start,
            max_angle_deg=angle,
            interpolation=interpolation,
            step_mm=0.3,
            min_probability=0.0,
            max_length_mm=30.0,
        ),
    )
    turns = np.concatenate([polyline_angles_deg(line) for line in tractogram if len(line) > 2])
    assert len(turns) > 500
    assert turns.max() <= angle + 0.02
    assert turns.max() > 0.6 * angle


@pytest.mark.parametrize("affine", AFFINES)
def test_the_image_ends_half_a_voxel_beyond_the_outer_centres(affine):
    """A streamline goes straight along direction 40 until the next point would be outside."""
    fod = straight_fod(direction=40, affine=affine)
    unit = direction_set(724)[40].astype(float)
    rng = np.random.default_rng(1)
    starts = rng.uniform(-0.5, np.array(fod.grid.shape) - 0.5, (40, 3))
    tractogram = track(
        fod,
        Seeds.at(fod.grid.to_mm(starts)),
        TrackingParameters(
            algorithm="deterministic",
            interpolation="nearest",
            start="max",
            step_mm=0.13,
            min_probability=0.0,
        ),
    )
    assert tractogram.n_points > 1000
    assert set(tractogram.stop_reasons.ravel()) == {StopReason.LEFT_IMAGE}
    shape = np.array(fod.grid.shape)
    decided = 0
    for start, line in zip(starts[tractogram.seed_index], tractogram, strict=True):
        steps = np.arange(-len(line) - 1, len(line) + 2)
        path = fod.grid.to_voxel(fod.grid.to_mm(start) + 0.13 * steps[:, None] * unit)
        outside_by = np.maximum(-0.5 - path, path - (shape - 0.5)).max(axis=1)
        if np.abs(outside_by).min() < 1e-4:
            continue  # rounding of float32 points decides
        decided += 1
        wanted = fod.grid.to_mm(path[outside_by < 0])
        assert len(line) == len(wanted)
        assert min(np.abs(line - wanted).max(), np.abs(line[::-1] - wanted).max()) < 1e-3
    assert decided > 30


def test_a_seed_on_the_lower_border_is_inside_and_on_the_upper_outside():
    fod = straight_fod(shape=(4, 4, 4))
    seeds = Seeds.at([[-0.5, 1, 1], [3.4999, 1, 1], [3.5, 1, 1], [-0.5001, 1, 1], [1, 3.5, 1]])
    tractogram = track(fod, seeds, TrackingParameters(interpolation="nearest", step_mm=0.1))
    assert tractogram.tally[StopReason.SEED_OUTSIDE_IMAGE] == 3
    assert tractogram.seed_index.tolist() == [0, 1]


def test_a_streamline_stays_in_the_mask():
    """Of the arc's voxels the mask takes those with x + y < 18 and even z."""
    fod = arc_fod()
    i, j, k = np.indices(fod.grid.shape)
    mask = (i + j < 18) & (k % 2 == 0)
    tractogram = track(fod, Seeds.in_mask(fod.support, fod.grid, 400), mask=mask)
    voxels = np.floor(tractogram.points.astype(float) + 0.5).astype(int)
    assert mask[tuple(voxels.T)].all()
    reasons = tractogram.tally
    assert reasons[StopReason.SEED_OUTSIDE_MASK] > 0
    assert reasons[StopReason.LEFT_MASK] > 0
    seeds = Seeds.in_mask(fod.support, fod.grid, 400).positions_mm
    outside = ~mask[tuple(np.floor(seeds + 0.5).astype(int).T)]
    assert reasons[StopReason.SEED_OUTSIDE_MASK] == outside.sum()


@pytest.mark.parametrize(
    ("interpolation", "edge", "end"),
    [("nearest", "voxel", 5.5), ("trilinear", "voxel", 5.5), ("trilinear", "interpolated", 6.0)],
)
def test_a_streamline_ends_at_its_first_point_without_fibres(interpolation, edge, end):
    """Fibres along z, empty from voxel 6 on; between 5 and 6 the interpolated FOD fades out.

    ::

        | | | | | | . . . .    z -->
    """
    full = straight_fod(shape=(3, 3, 10), direction=POLE)
    up = direction_set(724)[POLE]
    assert up[2] > 0.99
    values = full.coefficients
    values[:, :, 6:] = 0
    line = track(
        Fod(values, np.eye(4)),
        Seeds.at([[1, 1, 2.0]], [up]),
        TrackingParameters(
            interpolation=interpolation,
            edge=edge,
            algorithm="deterministic",
            start="given",
            direction="forward",
            min_amplitude=0.0,
            min_probability=0.0,
            step_mm=0.07,
        ),
    )
    assert line.stop_reasons[0].tolist() == [StopReason.SEED, StopReason.NO_FOD]
    before, last = line.points[-2:, 2]
    assert before < end <= last


def test_a_seed_without_fibres_starts_nothing():
    fod = arc_fod()
    tractogram = track(
        fod, Seeds.at([[0.2, 0.3, 2.0]] * 4), TrackingParameters(interpolation="nearest")
    )
    assert tractogram.tally == {StopReason.SEED_WITHOUT_FOD: 4}
    assert "no fibre orientation at the seed" in tractogram.why_empty()


@pytest.mark.parametrize("start", ["sampled", "max"])
def test_a_floor_above_all_amplitudes_starts_nothing(start):
    fod = random_fod(4)
    high = float(fod.amplitudes(direction_set(724)).max()) + 0.1
    tractogram = track(
        fod, Seeds.at([[1.5, 1.5, 1.5]]), TrackingParameters(start=start, min_amplitude=high)
    )
    assert tractogram.tally == {StopReason.SEED_WITHOUT_FOD: 1}


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_the_maximum_length_holds_for_the_joined_line(direction):
    fod = straight_fod(shape=(40, 40, 40), direction=100)
    seeds = Seeds.in_sphere([20, 20, 20], 3, 30)
    tractogram = track(
        fod,
        seeds,
        TrackingParameters(
            algorithm="deterministic", step_mm=0.3, max_length_mm=6.1, direction=direction
        ),
    )
    assert len(tractogram) == 30  # cut and kept
    np.testing.assert_allclose(tractogram.lengths_mm, 6.0, rtol=1e-6)  # 20 steps fit in 6.1 mm
    assert (np.diff(tractogram.offsets) == 21).all()
    assert tractogram.tally[StopReason.MAX_LENGTH] >= 30


def test_what_one_half_leaves_of_the_maximum_length_is_for_the_other():
    """Ahead 3 mm to the image's end, so 3 mm of 6 are left for going back."""
    fod = straight_fod(shape=(3, 3, 24), direction=POLE)
    up = direction_set(724)[POLE]
    assert up[2] > 0.99
    line = track(
        fod,
        Seeds.at([[1, 1, 20.5]], [up]),
        TrackingParameters(
            algorithm="deterministic",
            interpolation="nearest",
            start="given",
            step_mm=0.1,
            max_length_mm=6,
        ),
    )
    ahead = int(np.floor((23.5 - 20.5 - 1e-6) / (0.1 * float(up[2]))))
    assert line.stop_reasons[0].tolist() == [StopReason.MAX_LENGTH, StopReason.LEFT_IMAGE]
    assert line.n_points == 61
    np.testing.assert_allclose(line.points[-1 - ahead], [1, 1, 20.5], atol=1e-6)


def test_shorter_lines_than_the_minimum_are_discarded_by_the_joined_length():
    fod = arc_fod()
    seeds = Seeds.in_mask(fod.support, fod.grid, 300)
    parameters = TrackingParameters(step_mm=0.25, max_length_mm=40)
    every = track(fod, seeds, parameters)
    limit = float(np.median(every.lengths_mm))
    kept = track(fod, seeds, parameters.replace(min_length_mm=limit))
    wanted = every[every.lengths_mm >= limit - 1e-4]
    assert 0 < len(wanted) < len(every)
    assert kept.digest() == wanted.digest()
    assert kept.tally[StopReason.TOO_SHORT] == len(every) - len(kept)


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_of_two_opposite_directions_the_deterministic_line_takes_the_one_ahead(interpolation):
    """A cone that allows everything: straight on along the bundle, whichever way it started."""
    fod = make_phantom("cross")
    for sign in (1.0, -1.0):
        towards = phantom_lines_mm("cross")[0][0]
        middle, along = towards[len(towards) // 4], sign * (towards[-1] - towards[0])
        parameters = TrackingParameters(
            algorithm="deterministic",
            interpolation=interpolation,
            start="given",
            direction="forward",
            max_length_mm=8.0,
        )
        seeds = Seeds.at([middle], [along])
        line = track(fod, seeds, parameters, cone=lambda i, n: np.ones(len(n), bool)).points
        assert len(line) == 17
        assert (np.diff(line, axis=0) @ along > 0).all()
