"""Draws of single steps against the FOD in the cone, in 64 bits by DIPY's spherical harmonics."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chi_square import ConeBins, p_value
from scipy.spatial import cKDTree
from toys import SKEWED, BruteForce, crossing_fod, lobes, random_fod, tangents, unit_steps

from napari_tractography.fields.polynomials import polynomial_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import SOFTPLUS_SHARPNESS, TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking import codes
from napari_tractography.tracking.engine import track
from napari_tractography.tracking.tables.cache import fod_table

N_DRAWS = 100_000
N_CONES = 100
POSITION_VOX = (1.3, 1.85, 2.4)  # all eight corners count, each with a weight of its own
BOTH_INTERPOLATIONS = pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
EVERYWHERE = 180.0


def draw_steps(fod, position_mm, axis=None, *, n=N_DRAWS, cone=None, **parameters):
    """(n, 3) unit vectors of the first steps of n streamlines, and the tractogram."""
    settings = {
        "step_mm": 0.25,
        "max_length_mm": 0.25,
        "start": "sampled" if axis is None else "given",
        "direction": "forward",
        "min_probability": 0.0,
        "min_amplitude": 0.0,
        "random_seed": 11,
    } | parameters
    given = None if axis is None else np.tile(axis, (n, 1))
    seeds = Seeds.at(np.tile(position_mm, (n, 1)), given)
    tractogram = track(fod, seeds, TrackingParameters(**settings), cone=cone)
    lines = tractogram.points.reshape(-1, 2, 3)
    return unit_steps(lines[:, 0], lines[:, 1]), tractogram


def situation(interpolation, seed=8, lmax=8):
    """A random FOD, a position in it, the FOD there and a direction somewhat off its peak."""
    fod = random_fod(lmax, affine=SKEWED, seed=seed)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation)
    units = direction_set(724).astype(np.float64)
    axis = units[np.argsort(truth.amplitudes(units))[-20]]
    return fod, position, truth, axis / np.linalg.norm(axis)


def above(density, floor):
    """A density without what lies below the floor."""

    def cut(units):
        values = density(units)
        return np.where(values >= floor, values, 0.0)

    return cut


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize("angle", [5.0, 10.0, 15.0, 30.0, 60.0, 90.0])
def test_steps_have_the_distribution_of_the_fod_in_the_cone(interpolation, angle):
    fod, position, truth, axis = situation(interpolation)
    drawn, tractogram = draw_steps(
        fod, position, axis, interpolation=interpolation, max_angle_deg=angle
    )
    assert len(drawn) == N_DRAWS
    assert tractogram.tally[StopReason.MAX_LENGTH] == N_DRAWS
    assert ConeBins(axis, angle).p_value(drawn, truth.amplitudes) > 1e-3


def test_another_distribution_would_be_noticed():
    """Draws of a cone against the FOD of the voxel beside."""
    fod, position, _, axis = situation("trilinear")
    drawn, _ = draw_steps(fod, position, axis, max_angle_deg=30.0)
    beside = BruteForce.at(fod, position, interpolation="nearest")
    assert ConeBins(axis, 30.0).p_value(drawn, lambda u: beside.amplitudes(u) + 0.1) < 1e-9


@pytest.mark.parametrize("angle", [10.0, 45.0])
def test_streamlines_stop_where_nothing_in_the_cone_reaches_the_floor_and_nowhere_else(angle):
    fod = crossing_fod(seed=4)
    rng = np.random.default_rng(int(angle))
    voxels = rng.integers(0, fod.grid.shape, size=(N_CONES, 3))
    axes = rng.normal(size=(N_CONES, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    positions = fod.grid.to_mm(voxels)
    largest = np.empty(N_CONES)
    for k, (position, axis) in enumerate(zip(positions, axes, strict=True)):
        truth = BruteForce.at(fod, position, interpolation="nearest")
        _, largest[k] = truth.peak(axis, angle)
    floor = float(np.median(largest))
    parameters = TrackingParameters(
        step_mm=0.25,
        max_length_mm=0.25,
        start="given",
        direction="forward",
        interpolation="nearest",
        min_probability=0.0,
        min_amplitude=floor,
        max_angle_deg=angle,
    )
    tractogram = track(fod, Seeds.at(positions, axes), parameters)
    goes_on = np.isin(np.arange(N_CONES), tractogram.seed_index)
    clear = np.abs(largest / floor - 1) > 0.005
    assert clear.mean() > 0.95
    np.testing.assert_array_equal(goes_on[clear], (largest > floor)[clear])


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize("angle", [10.0, 60.0, 90.0])
def test_a_floor_takes_small_amplitudes_out_of_the_draw(interpolation, angle):
    fod, position, truth, axis = situation(interpolation, seed=3)
    bins = ConeBins(axis, angle)
    inside = []
    bins.masses(lambda units: inside.append(truth.amplitudes(units)) or inside[0])
    floor = float(np.median(inside[0]))
    drawn, _ = draw_steps(
        fod,
        position,
        axis,
        interpolation=interpolation,
        max_angle_deg=angle,
        min_amplitude=floor,
    )
    assert truth.amplitudes(drawn).min() > floor - 1e-3
    assert bins.p_value(drawn, above(truth.amplitudes, floor)) > 1e-3


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize("angle", [30.0, 90.0])
def test_softplus_lets_small_and_negative_amplitudes_be_drawn_too(interpolation, angle):
    fod, position, truth, axis = situation(interpolation, seed=4)

    def softplus(units):
        return np.log1p(np.exp(SOFTPLUS_SHARPNESS * truth.raw(units))) / SOFTPLUS_SHARPNESS

    drawn, _ = draw_steps(
        fod,
        position,
        axis,
        interpolation=interpolation,
        max_angle_deg=angle,
        positivity="softplus",
    )
    assert ConeBins(axis, angle).p_value(drawn, softplus) > 1e-3


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_a_sampled_start_is_drawn_from_the_whole_fod(interpolation, floor):
    fod, position, truth, _ = situation(interpolation, seed=1)
    drawn, _ = draw_steps(fod, position, interpolation=interpolation, min_amplitude=floor)
    bins = ConeBins(np.array([0.0, 0.0, 1.0]), EVERYWHERE)
    assert bins.p_value(drawn, above(truth.amplitudes, floor)) > 1e-3


@BOTH_INTERPOLATIONS
def test_a_start_at_the_maximum_has_both_signs_equally_often(interpolation):
    fod, position, truth, _ = situation(interpolation, seed=2)
    drawn, _ = draw_steps(fod, position, interpolation=interpolation, start="max", n=10_000)
    peak, _ = truth.peak(np.array([0.0, 0.0, 1.0]), EVERYWHERE)
    along = drawn @ peak
    assert np.degrees(np.arccos(np.minimum(np.abs(along), 1.0))).max() < 0.1
    assert p_value(np.bincount((along > 0).astype(int)), np.array([0.5, 0.5])) > 1e-3


@pytest.mark.parametrize(
    "background",
    [
        pytest.param(0.4, id="few tries"),
        pytest.param(0.08, id="after the first look at the cone"),
        pytest.param(0.01, id="with the largest of the cone as the bound"),
    ],
)
def test_draws_do_not_depend_on_how_many_tries_they_take(background):
    """A cone far from a sharp lobe, with some and with hardly any of the FOD in it.

    The truth is the row of the table, which half floats are, in 64 bits: their rounding is small
    beside the lobe and not beside the background.
    """
    lobe = lobes(np.array([1.0, 0.0, 0.0]), 8, sharpness=0.05)
    fod = Fod(np.zeros((3, 3, 3, 45)) + lobe, np.eye(4))
    units = direction_set(4096).astype(float)
    weak = np.zeros(45)
    weak[:6] = (1.0, 0.1, 0.3, 0.1, -0.2, 0.1)
    there = fod.amplitudes(units)[1, 1, 1].max()
    values = lobe + background * there * weak
    fod = Fod(np.zeros((3, 3, 3, 45)) + values, np.eye(4))
    axis = np.array([0.0, 0.6, 0.8])
    bins = ConeBins(axis, 15.0)
    drawn, _ = draw_steps(fod, (1, 1, 1), axis, interpolation="nearest", max_angle_deg=15.0)
    table = fod_table(fod)
    row = table.coefficients[table.voxel_rows[1, 1, 1]].view(np.float16).astype(np.float64)

    def density(units):
        return np.maximum(polynomial_matrix(units, 8) @ row[:45], 0.0)

    masses = bins.masses(density)
    share = masses.mean() / (24 * 24) / row[45]  # of tries that are taken
    n_proposals = 1 / share
    wanted = {0.4: (1, 32), 0.08: (32, 128), 0.01: (128, 2000)}[background]
    assert wanted[0] < n_proposals < wanted[1]
    assert p_value(bins.counts(drawn), masses) > 1e-3


def test_the_number_of_directions_has_no_influence():
    """Tracking is continuous: the set is for cones that are given as functions alone."""
    fod = random_fod(8, shape=(6, 6, 6), affine=SKEWED, seed=5)
    seeds = Seeds.in_mask(fod.support, fod.grid, 200)
    for algorithm in ("probabilistic", "deterministic"):
        digests = {
            track(
                fod,
                seeds,
                TrackingParameters(algorithm=algorithm, n_directions=n, max_length_mm=30),
            ).digest()
            for n in (64, 724, 4096)
        }
        assert len(digests) == 1


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize("angle", [20.0, 60.0])
def test_a_cone_function_is_sampled_as_it_is_tabulated(interpolation, angle):
    """The angle, written as a function: directions count by the nearest of the set."""
    n_directions = 724
    fod, position, truth, axis = situation(interpolation, seed=7)
    units = direction_set(n_directions).astype(np.float64)
    limit = np.cos(np.deg2rad(angle))
    tree = cKDTree(units)
    allowed = units @ units[tree.query(axis)[1]] >= limit
    drawn, _ = draw_steps(
        fod,
        position,
        axis,
        interpolation=interpolation,
        n_directions=n_directions,
        cone=lambda current, candidates: candidates @ current >= limit,
    )
    assert allowed[tree.query(drawn)[1]].mean() > 0.9999  # rounding decides on a border
    bins = ConeBins(axis, angle + 15.0, n_rings=10)
    assert (
        bins.p_value(drawn, lambda u: truth.amplitudes(u) * allowed[tree.query(u)[1]] + 1e-9) > 1e-3
    )


def test_an_angle_as_a_function_gives_the_draws_of_the_angle_where_the_set_is_fine():
    """All but the rim of the cone, where the nearest direction of the set decides."""
    fod, position, truth, axis = situation("trilinear", seed=7)
    limit = np.cos(np.deg2rad(40.0))
    drawn, _ = draw_steps(
        fod,
        position,
        axis,
        n_directions=4096,
        cone=lambda current, candidates: candidates @ current >= limit,
    )
    within = drawn[drawn @ axis > np.cos(np.deg2rad(35.0))]
    assert ConeBins(axis, 35.0).p_value(within, truth.amplitudes) > 1e-3


@BOTH_INTERPOLATIONS
def test_a_cone_function_may_allow_directions_to_both_sides(interpolation):
    """All directions near the equator, and those ahead."""
    fod, position, truth, axis = situation(interpolation, seed=7)
    units = direction_set(724).astype(np.float64)

    def band(current, candidates):
        return (np.abs(candidates[:, 2]) < 0.3) | (candidates @ current > 0.9)

    tree = cKDTree(units)
    allowed = band(units[tree.query(axis)[1]], units)
    drawn, _ = draw_steps(fod, position, axis, interpolation=interpolation, cone=band)
    bins = ConeBins(axis, EVERYWHERE, n_rings=10)
    assert (
        bins.p_value(drawn, lambda u: truth.amplitudes(u) * allowed[tree.query(u)[1]] + 1e-9) > 1e-3
    )
    assert (drawn @ axis < -0.5).any()


def test_steps_and_halves_of_a_streamline_are_independent():
    """In a uniform FOD without a cone, signs of x and y of different steps are fair coins tossed
    apart; reused random numbers would show."""
    fod = Fod(np.eye(1, 45) + np.zeros((4, 4, 4, 1)), np.eye(4))
    positions = np.full((N_DRAWS, 3), 1.5)
    up = np.tile((0.0, 0.0, 1.0), (N_DRAWS, 1))
    halves = [
        track(
            fod,
            Seeds.at(positions, sign * up),
            TrackingParameters(
                step_mm=0.1,
                max_length_mm=0.2,
                start="given",
                direction=direction,
                min_amplitude=0.0,
                max_angle_deg=90.0,
                random_seed=4,
            ),
        )
        for direction, sign in (("forward", 1), ("backward", -1))
    ]
    ahead = np.diff(halves[0].points.reshape(N_DRAWS, 3, 3).astype(float), axis=1)
    back = np.diff(halves[1].points.reshape(N_DRAWS, 3, 3)[:, ::-1].astype(float), axis=1)
    # The second step is judged in axes of the first, so that it leans to no side.
    turned = []
    for half in (ahead, back):
        first = half[:, 0] / np.linalg.norm(half[:, 0], axis=1, keepdims=True)
        across = np.cross(first, (1.0, 0.0, 0.0))
        turned.append(half[:, 0, :2])
        turned.append(
            np.stack([(half[:, 1] * w).sum(1) for w in (across, np.cross(first, across))], 1)
        )
    for first, second in itertools.combinations(turned, 2):
        for a, b in itertools.product((0, 1), repeat=2):
            agree = ((first[:, a] > 0) == (second[:, b] > 0)).astype(int)
            assert p_value(np.bincount(agree, minlength=2), np.array([0.5, 0.5])) > 1e-3


def test_limits_of_tries_are_what_the_tests_above_assume():
    assert (codes.FIRST_PROPOSALS, codes.SECOND_PROPOSALS) == (32, 128)
    assert np.allclose(tangents(np.array([0, 0.6, 0.8])) @ (0, 0.6, 0.8), 0)


# ----------------------------------------------------------------------------------- looking ahead


def kept_ahead(fod, interpolation, positions_mm, units, here):
    """(n,): min(1, amplitude / (FADED `here`)), of voxels at (n, 3) positions along unit vectors.

    With trilinear interpolation the mean of it over the eight voxels around, by their weights.
    """
    vox = fod.grid.to_voxel(positions_mm)
    first = np.floor(vox if interpolation == "trilinear" else vox + 0.5).astype(int)
    matrix, found = fod.sample_matrix(units), np.zeros(len(units))
    for corner in np.ndindex(2, 2, 2):
        index = first + corner
        weight = np.prod(1.0 - np.abs(vox - index), axis=1)
        if interpolation == "nearest":
            weight = float(corner == (0, 0, 0))
        inside = ((index >= 0) & (index < fod.grid.shape)).all(axis=1)
        rows = np.where(inside, fod.voxel_rows[tuple(np.where(inside, index.T, 0))], -1)
        there = np.einsum("nk,nk->n", matrix, fod.values[rows].astype(np.float64)) * (rows >= 0)
        found += weight * np.clip(there / np.maximum(codes.FADED * here, 1e-9), 0.0, 1.0)
    return found


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize(("far_mm", "angle"), [(1.0, 15.0), (2.0, 30.0), (3.5, 60.0), (90.0, 30.0)])
def test_directions_along_which_the_fod_fades_are_drawn_once_more(far_mm, angle, interpolation):
    """By f (w + 1 - mean of w): 90 mm ahead there is nothing, and all that is left is f."""
    fod, position, truth, axis = situation(interpolation)
    bins = ConeBins(axis, angle)

    def kept(units):
        places, here = position + far_mm * units, truth.amplitudes(units)
        return kept_ahead(fod, interpolation, places, units, here)

    mean = bins.masses(lambda units: truth.amplitudes(units) * kept(units)).sum()
    mean /= bins.masses(truth.amplitudes).sum()

    def law(units):
        return truth.amplitudes(units) * (kept(units) + 1.0 - mean)

    drawn, _ = draw_steps(
        fod,
        position,
        axis,
        max_angle_deg=angle,
        look_ahead_mm=far_mm,
        interpolation=interpolation,
    )
    assert bins.p_value(drawn, law) > 1e-3
    if far_mm < 50.0:
        assert mean < 0.9
        assert bins.p_value(drawn, truth.amplitudes) < 1e-9


def is_of_lobe(truth, axis, units, lobe_deg):
    """Which of (n, 3) directions are of the lobe of an axis, the direction of the line itself."""
    between = units + axis
    between /= np.linalg.norm(between, axis=-1, keepdims=True) * (1.0 + 1e-12)
    product = truth.amplitudes(axis[None])[0] * truth.amplitudes(units)
    is_other = truth.amplitudes(between) ** 2 < codes.BULGE * product
    cosine = units @ axis
    return ~(is_other & (cosine < np.cos(np.radians(lobe_deg))))


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize(("lobe_deg", "angle"), [(10.0, 40.0), (10.0, 70.0), (20.0, 50.0)])
def test_directions_of_another_lobe_are_not_drawn(
    lobe_deg, angle, share, interpolation, monkeypatch
):
    """The first one that is drawn has the start direction for the axis of its lobe."""
    monkeypatch.setattr("chi_square.POINTS_A_SIDE", 64)  # the density ends at an edge
    fod, position, truth, _ = situation(interpolation)
    units = direction_set(724).astype(np.float64)
    amplitudes = truth.amplitudes(units)
    axis = units[np.argmin(np.abs(amplitudes - share * amplitudes.max()))]
    axis /= np.linalg.norm(axis)
    bins = ConeBins(axis, angle)

    def law(units):
        return truth.amplitudes(units) * is_of_lobe(truth, axis, units, lobe_deg)

    drawn, _ = draw_steps(
        fod, position, axis, max_angle_deg=angle, lobe_deg=lobe_deg, interpolation=interpolation
    )
    is_of_it = law(drawn) > 0  # others are taken after LOBE_PROPOSALS proposals
    assert is_of_it.mean() > 0.5
    assert bins.p_value(drawn[is_of_it], law) > 1e-3
    assert bins.p_value(drawn, truth.amplitudes) < 1e-9


def test_below_lmax_6_directions_far_from_the_axis_are_of_any_lobe(monkeypatch):
    monkeypatch.setattr("chi_square.POINTS_A_SIDE", 64)  # the density ends at an edge
    fod, position, truth, axis = situation("trilinear", lmax=4)
    angle, lobe_deg = 75.0, 10.0
    bins = ConeBins(axis, angle)

    def of_lobe(units):
        return truth.amplitudes(units) * is_of_lobe(truth, axis, units, lobe_deg)

    def law(units):
        return np.where(units @ axis > codes.ASTRAY, of_lobe(units), truth.amplitudes(units))

    drawn, _ = draw_steps(fod, position, axis, max_angle_deg=angle, lobe_deg=lobe_deg)
    is_of_it = law(drawn) > 0  # others are taken after LOBE_PROPOSALS proposals
    assert is_of_it.mean() > 0.9
    assert bins.p_value(drawn[is_of_it], law) > 1e-3
    assert (of_lobe(drawn[is_of_it]) == 0).mean() > 0.02


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize(("lobe_deg", "far_mm", "angle"), [(10.0, 2.0, 30.0), (15.0, 90.0, 45.0)])
def test_where_the_fod_fades_the_mirror_image_in_the_lobe_is_drawn(
    lobe_deg, far_mm, angle, interpolation, monkeypatch
):
    """By q w + min(q, q') (1 - w') + R q, ' being of the mirror image and R the rest."""
    monkeypatch.setattr("chi_square.POINTS_A_SIDE", 64)  # the density ends at an edge
    fod, position, truth, axis = situation(interpolation)
    bins = ConeBins(axis, angle)
    units = bins.units()
    images = 2.0 * (units @ axis)[:, None] * axis - units

    def kept(units):
        places, here = position + far_mm * units, truth.amplitudes(units)
        return kept_ahead(fod, interpolation, places, units, here)

    def of_lobe(units):
        return truth.amplitudes(units) * is_of_lobe(truth, axis, units, lobe_deg)

    q, there = of_lobe(units), units @ axis > codes.ASTRAY
    at_once = q * kept(units)
    reflected = np.minimum(q, of_lobe(images)) * (1.0 - kept(images)) * there
    left = q.sum() - at_once.sum()  # to be drawn once more without images
    law = at_once + reflected + (left - reflected.sum()) * q / q.sum()
    drawn, _ = draw_steps(
        fod,
        position,
        axis,
        max_angle_deg=angle,
        lobe_deg=lobe_deg,
        look_ahead_mm=far_mm,
        interpolation=interpolation,
    )
    drawn_of_it = drawn[is_of_lobe(truth, axis, drawn, lobe_deg)]
    assert len(drawn_of_it) > 0.9 * len(drawn)  # others are taken after LOBE_PROPOSALS proposals
    counts = bins.counts(drawn_of_it)
    assert p_value(counts, bins.in_bins(law)) > 1e-3
    assert p_value(counts, bins.in_bins(at_once + left * q / q.sum())) < 1e-9
