"""Diffusion and transport: the equation of motion, the stationary law, stability, and stops."""

from __future__ import annotations

import numpy as np
import pytest
from chi_square import ConeBins, p_value
from plans import let_cross
from toys import arc_fod, polyline_angles_deg, straight_fod, unit_steps

from napari_tractography.errors import InvalidParameterError
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.engine import track

UP = np.array([0.0, 0.0, 1.0])


def homogeneous(function, *, lmax=8, side=41, frame=None, affine=None, basis="tournier07"):
    """A cube of `side` voxels of 1 mm, each with the FOD `function` of (n, 3) unit vectors."""
    units = direction_set(2048).astype(float)
    matrix = sh_matrix(units, lmax, basis)
    coefficients = np.linalg.lstsq(matrix, function(units), rcond=None)[0]
    volume = np.broadcast_to(coefficients, (side, side, side, len(coefficients)))
    return Fod(volume, np.eye(4) if affine is None else affine, basis=basis, frame=frame)


def mises_fisher(concentration, axis=UP):
    """The even von Mises-Fisher-like FOD cosh(k u.axis), one at its peak."""
    return lambda u: np.cosh(concentration * (u @ axis)) / np.cosh(concentration)


def last_steps(tractogram):
    """(n_streamlines, 3) unit vectors of the last step of each."""
    last = tractogram.offsets[1:] - 1
    return unit_steps(tractogram.points[last - 1], tractogram.points[last])


@pytest.mark.parametrize(
    ("noise", "gamma_step"), [(1.0, 0.02), (1.0, 0.1), (0.6, 0.1), (0.6, 0.7), (0.6, 5.0)]
)
def test_diffusion_reaches_its_stationary_law(noise, gamma_step):
    """Directions come to be distributed as f^(1 / noise^2), by steps long and short.

    After a time of 10 at least; only the last step of a streamline counts. With noise 0.6 the law
    is nearly three times as sharp, in logarithms, as the FOD. (Longer steps with a noise of 1 turn
    by more than the cone allows.)
    """
    fod = homogeneous(mises_fisher(6.0), side=25)
    n_steps = max(int(10 / gamma_step), 10)
    step = 10.0 / n_steps
    parameters = TrackingParameters(
        algorithm="diffusion",
        interpolation="nearest",
        step_mm=step,
        max_angle_deg=90.0,
        gamma=gamma_step / step,
        gamma_noise=noise,
        min_amplitude=0.0,
        direction="forward",
        max_length_mm=10.0 + 1e-3,
        random_seed=5,
    )
    seeds = Seeds.at(np.full((4000, 3), 12.0))
    tractogram = track(fod, seeds, parameters)
    assert len(tractogram) == 4000
    assert tractogram.tally[StopReason.MAX_LENGTH] == 4000
    units = last_steps(tractogram)
    units *= np.sign(units @ UP)[:, None]

    def density(units):
        return (fod.sample_matrix(units) @ fod.values[0].astype(float)) ** (1 / noise**2)

    bins = ConeBins(UP, 90.0, n_rings=12, n_sectors=2)
    assert p_value(bins.counts(units), bins.masses(density)) > 1e-3


@pytest.mark.parametrize("gamma", [0.5, 5.0, 50.0])
def test_transport_turns_to_the_peak(gamma):
    fod = homogeneous(mises_fisher(4.0), side=21)
    start = np.array([[np.sin(0.6), 0.0, np.cos(0.6)]])
    parameters = TrackingParameters(
        algorithm="transport",
        step_mm=0.1,
        start="given",
        direction="forward",
        max_length_mm=6.0,
        gamma=gamma,
    )
    tractogram = track(fod, Seeds.at([[10, 10, 10]], start), parameters)
    steps = np.diff(tractogram.points.astype(float), axis=0) / 0.1
    angles = np.degrees(np.arccos(np.clip(steps @ UP, -1, 1)))
    assert angles[-1] < 2
    assert (np.diff(angles) < 0.5).all()
    if gamma == 0.5:
        assert angles[0] > 20


def test_transport_follows_the_equation_of_motion():
    """For f = cosh(k t), theta obeys dtheta/ds = -gamma k tanh(k cos theta) sin theta."""
    k, gamma, step = 3.0, 0.3, 0.02
    fod = homogeneous(mises_fisher(k), side=21)
    start = direction_set(724)[np.argmin(np.abs(direction_set(724) @ UP - np.cos(0.8)))]
    parameters = TrackingParameters(
        algorithm="transport",
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


GAMMA_STEPS = [0.01, 0.1, 1.0, 10.0, 100.0]


def lengths_by_gamma(algorithm, fod, seeds, **changes):
    """Mean length for each of GAMMA_STEPS, and how many lines stop below the floor."""
    found = []
    for gamma_step in GAMMA_STEPS:
        step = 0.1 if gamma_step <= 10 else 1.0
        parameters = TrackingParameters(
            algorithm=algorithm,
            step_mm=step,
            gamma=gamma_step / step,
            max_angle_deg=90.0,
            **{"min_amplitude": 0.05, "start": "given", **changes},
        )
        lines = track(fod, seeds, parameters)
        found.append((lines.lengths_mm.mean(), lines.tally.get(StopReason.LOW_AMPLITUDE, 0)))
    return np.array(found)


@pytest.mark.parametrize("algorithm", ["transport", "diffusion"])
def test_no_step_is_too_long_for_a_sharp_fod(algorithm):
    """Started 15 degrees off the fibre; explicit schemes break off where gamma dt is above 0.1."""
    fod = straight_fod(shape=(5, 5, 30), direction=0)
    axis = direction_set(724)[0].astype(float)
    fod = Fod(np.broadcast_to(fod.values[0], (30, 30, 30, 45)), np.eye(4))
    beside = axis + np.tan(np.deg2rad(15)) * np.linalg.svd(axis[None])[2][1]
    seeds = Seeds.at(np.tile((15.0, 15.0, 15.0), (60, 1)), np.tile(beside, (60, 1)))
    found = lengths_by_gamma(algorithm, fod, seeds, gamma_noise=0.2)
    assert (found[:, 1] == 0).all()
    straight = found[:, 0] / found[0, 0]
    np.testing.assert_allclose(straight, 1, atol=0.12)


@pytest.mark.parametrize("gamma_step", [0.5, 5.0, 50.0])
def test_transport_runs_along_arcs_whatever_the_step_times_gamma(gamma_step):
    fod = arc_fod()
    starts = np.stack([np.linspace(6, 12, 20), np.full(20, 5.0), np.full(20, 2.0)], axis=1)
    lines = track(
        fod,
        Seeds.at(starts),
        TrackingParameters(algorithm="transport", start="max", step_mm=0.5, gamma=gamma_step / 0.5),
    )
    assert StopReason.LOW_AMPLITUDE not in lines.tally
    radii = [np.hypot(line[:, 0], line[:, 1]) for line in lines]
    assert max(np.ptp(radius) for radius in radii) < 1.0
    assert lines.lengths_mm.min() > 10


def test_the_voxel_frame_is_that_of_the_image():
    """An FOD along the image's third axis, which an affine turns to RAS x."""
    turned = np.array([[0, 0, 1.0, 0], [1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 0, 1]])
    for frame, axis in (("voxel", [1.0, 0, 0]), ("scanner", [0, 0, 1.0])):
        fod = homogeneous(mises_fisher(6.0), side=21, frame=frame, affine=turned)
        parameters = TrackingParameters(
            algorithm="transport", step_mm=0.2, direction="forward", max_length_mm=8.0, gamma=2.0
        )
        tractogram = track(fod, Seeds.at(np.full((20, 3), 10.0)), parameters)
        assert np.abs(last_steps(tractogram) @ axis).min() > 0.99


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
    turns = np.concatenate([polyline_angles_deg(line) for line in tractogram])
    assert 15 < turns.max() < 20.01


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
        pytest.param({"look_ahead_mm": -1.0}, id="looking back"),
    ],
)
def test_wrong_parameters_are_refused(change):
    with pytest.raises(InvalidParameterError, match=next(iter(change))):
        TrackingParameters(**change)


def test_with_its_defaults_diffusion_follows_bundles_from_end_to_end():
    """Through the crossing of a phantom, nearly as long as without noise."""
    fod = make_phantom("cross")
    seeds = Seeds.at(np.repeat(phantom_seeds_mm("cross"), 40, axis=0))
    lengths = {
        algorithm: track(
            fod, seeds, TrackingParameters.for_fod(fod, algorithm=algorithm)
        ).lengths_mm.mean()
        for algorithm in ("transport", "diffusion")
    }
    assert lengths["diffusion"] > 0.85 * lengths["transport"] > 30


@pytest.mark.parametrize(
    "affine",
    [
        pytest.param(np.eye(4), id="cubes of 1 mm"),
        pytest.param(np.diag([1.5, 0.7, 2.0, 1.0]), id="anisotropic"),
        pytest.param(
            np.array([[0, 0, 1.0, 3], [2.0, 0, 0, -5], [0, -0.5, 0, 8], [0, 0, 0, 1]]), id="turned"
        ),
    ],
)
def test_looking_ahead_tilts_towards_where_the_fod_is_larger(affine):
    """For f = (1 + s . x) cosh(k t), where t is the cosine to a fibre at right angles to s.

    The sum of k t, as log cosh(k t) is but for a constant, and of look_ahead (s . u) / (1 + s . x)
    is largest where the tangent of the tilt is their ratio: there the direction comes to rest.
    """
    k, far_mm = 6.0, 0.8
    side = 9
    voxels = np.stack(np.meshgrid(*3 * [np.arange(side)], indexing="ij"), axis=-1)
    middle_mm = affine[:3, :3] @ np.full(3, side // 2) + affine[:3, 3]
    slope = np.array([0.03, -0.04, 0.0])  # per mm
    weights = 1 + (voxels @ affine[:3, :3].T + affine[:3, 3] - middle_mm) @ slope
    assert weights.min() > 0
    one = homogeneous(mises_fisher(k), side=1).values[0]
    fod = Fod(weights[..., None] * one, affine, basis="tournier07")
    parameters = TrackingParameters(
        algorithm="transport",
        step_mm=0.01,
        max_angle_deg=90.0,
        gamma=50.0,
        look_ahead_mm=far_mm,
        min_amplitude=0.0,
        start="given",
        direction="forward",
        max_length_mm=0.2,
    )
    points = track(fod, Seeds.at([middle_mm], [UP]), parameters).points
    tilt = unit_steps(points[-2:-1], points[-1:])[0]
    np.testing.assert_allclose(tilt[:2] / tilt[2], far_mm * slope[:2] / k, atol=2e-4)


def test_lines_that_look_ahead_are_drawn_to_the_middle_of_their_bundle():
    """A straight bundle, strongest in the middle row of voxels; lines begin a voxel beside it.

    ::

        . - - - - .
        . = = = = .
        . - - - - .
    """
    shape = (5, 5, 30)
    one = homogeneous(mises_fisher(6.0), side=1).values[0]
    beside = (np.indices(shape)[:2] - 2) ** 2
    fod = Fod(np.exp(-0.5 * beside.sum(axis=0))[..., None] * one, np.eye(4), basis="tournier07")
    ends = []
    for far_mm in (0.0, 1.0):
        parameters = TrackingParameters(
            algorithm="transport",
            step_mm=0.2,
            look_ahead_mm=far_mm,
            start="given",
            direction="forward",
        )
        lines = track(fod, Seeds.at([[3.0, 2.0, 1.0]], [UP]), parameters)
        assert lines.points[-1, 2] > 28
        ends.append(lines.points[-1, :2])
    np.testing.assert_allclose(ends, [[3, 2], [2, 2]], atol=0.05)


def test_looking_ahead_is_of_no_effect_in_nearest_voxels():
    fod = arc_fod()
    seeds = Seeds.at([[8.0, 5.0, 2.0]])
    parameters = TrackingParameters(algorithm="transport", interpolation="nearest")
    ahead = parameters.replace(look_ahead_mm=1.0)
    assert track(fod, seeds, parameters).digest() == track(fod, seeds, ahead).digest()


SIDE, ACROSS = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])


def fused(degrees: float, middle: float = 0.0) -> Fod:
    """Two lobes in the plane of x and z, either so far from what is `middle` degrees from z."""
    angles = np.radians([middle + degrees, middle - degrees])
    one, other = (mises_fisher(12.0, np.sin(a) * SIDE + np.cos(a) * UP) for a in angles)
    return homogeneous(lambda units: one(units) + other(units), side=9)


def settled(fod: Fod, start: np.ndarray, **changes: object) -> np.ndarray:
    """The direction at which transport comes to rest, from a start direction."""
    parameters = TrackingParameters(
        algorithm="transport",
        **{
            "step_mm": 0.05, "max_angle_deg": 90.0, "gamma": 20.0, "min_amplitude": 0.0,
            "start": "given", "direction": "forward", "max_length_mm": 1.0, **changes,
        },
    )  # fmt: skip
    points = track(fod, Seeds.at([[4.0, 4.0, 4.0]], [start]), parameters).points
    return unit_steps(points[-2:-1], points[-1:])[0]


def aside(along: float, across: float = 0.0) -> np.ndarray:
    """A unit vector that is turned from z by some degrees towards x and y."""
    a, b = np.tan(np.radians([along, across]))
    return np.array([a, b, 1.0]) / np.linalg.norm([a, b, 1.0])


@pytest.mark.parametrize("start", [8.0, -8.0, 5.0])
def test_in_a_wide_lobe_a_line_keeps_its_side(start):
    """Of two bundles that cross at 20 degrees there is one lobe, whose top is between both."""
    fod = fused(10.0)
    kept = settled(fod, aside(start, 6.0), min_roundness=0.8)
    np.testing.assert_allclose(kept, aside(start), atol=0.015)  # but turns to its ridge
    np.testing.assert_allclose(settled(fod, aside(start, 6.0)), UP, atol=2e-3)


@pytest.mark.parametrize("roundness", [0.3, 0.5, 0.7, 0.8, 0.9])
def test_the_roundness_of_a_lobe_is_that_of_its_second_derivatives(roundness):
    """By differences of log f in float64, half a degree apart."""
    fod = fused(9.0)
    step = np.radians(0.5)

    def log_f(along, across):
        unit = np.array([np.tan(along), np.tan(across), 1.0])
        unit /= np.linalg.norm(unit)
        return np.log(fod.sample_matrix(unit[None]) @ fod.values[0].astype(float))[0]

    here = np.radians(3.0)
    side = log_f(here + step, 0) - 2 * log_f(here, 0) + log_f(here - step, 0)
    across = log_f(here, step) - 2 * log_f(here, 0) + log_f(here, -step)
    assert abs(side / across - roundness) > 0.03, "too near to tell"
    rest = settled(fod, aside(3.0), min_roundness=roundness)
    stays = side / across < roundness
    np.testing.assert_allclose(rest, aside(3.0) if stays else UP, atol=2e-3)


def turning(rate: float) -> Fod:
    """A wide lobe whose top turns along z, in the plane of its wide side, by so much a voxel."""
    at_z = [fused(10.0, middle=np.degrees(rate * (z - 4))).coefficients[0, 0, 0] for z in range(9)]
    return Fod(np.broadcast_to(np.array(at_z), (9, 9, 9, 45)), np.eye(4))


@pytest.mark.parametrize(("rate", "follows"), [(0.35, True), (-0.3, True), (0.2, False)])
def test_where_the_top_of_a_wide_lobe_turns_fast_a_line_follows_it(rate, follows):
    """As one bundle does that bends; of two that cross the lobe hardly turns along the way."""
    changes = {"step_mm": 0.1, "max_length_mm": 0.6}
    found = settled(turning(rate), UP, min_roundness=0.8, **changes)
    without = settled(turning(rate), UP, **changes)
    angle, of_top = (np.arctan2(unit @ SIDE, unit @ UP) for unit in (found, without))
    assert abs(of_top) > 0.09
    assert angle == pytest.approx(of_top if follows else 0.0, abs=0.02)


def test_in_a_round_lobe_all_is_as_without():
    fod = fused(0.0)
    one, other = (settled(fod, aside(9.0, 4.0), min_roundness=r) for r in (0.0, 0.8))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one, UP, atol=2e-3)


def test_a_direction_on_the_flank_of_a_wide_lobe_turns():
    """It is of neither bundle: log f is steeper than one standard deviation from a round top."""
    fod = fused(10.0)
    found = settled(fod, aside(32.0), min_roundness=0.8)
    angle = np.degrees(np.arctan2(found @ SIDE, found @ UP))
    assert 5.0 < angle < 27.0
    assert abs(found @ ACROSS) < 2e-3


def bend_across(fod: Fod) -> float:
    """How fast the slope of log f falls at z across x, in the middle voxel."""
    step = np.radians(0.5)
    units = np.array([[0, np.sin(a), np.cos(a)] for a in (-step, 0, step)])
    log_f = np.log(fod.sample_matrix(units) @ fod.coefficients[4, 4, 4].astype(float))
    return float(-(log_f[0] - 2 * log_f[1] + log_f[2]) / step**2)


def test_what_is_ahead_turns_a_line_in_a_wide_lobe_as_it_would_across():
    """The FOD grows to the side by s a mm: du/dt = look_ahead s - bend u, with the bend across."""
    slope, far_mm, time = 0.05, 0.5, 0.1
    one = fused(10.0).coefficients[0, 0, 0].astype(float)
    weights = 1 + slope * (np.arange(9.0) - 4)
    fod = Fod(np.broadcast_to(weights[:, None, None, None] * one, (9, 9, 9, 45)), np.eye(4))
    turned = settled(
        fod,
        UP,
        min_roundness=0.8,
        look_ahead_mm=far_mm,
        step_mm=0.01,
        max_length_mm=0.01,
        gamma=time / 0.01,
    )
    bend = bend_across(fod)
    angle = np.arctan2(turned @ SIDE, turned @ UP)
    assert angle == pytest.approx(far_mm * slope * (1 - np.exp(-bend * time)) / bend, rel=0.01)


def test_a_line_turns_out_of_the_dip_between_two_lobes():
    """However flat it is there: log f bends up along the side, and no bundle runs along it."""
    fod = fused(32.0)
    found, without = (settled(fod, aside(4.0), min_roundness=r) for r in (0.8, 0.0))
    angles = [np.degrees(np.arctan2(unit @ SIDE, unit @ UP)) for unit in (found, without)]
    assert angles[0] > 10.0  # where it bends down
    assert angles[1] == pytest.approx(32.0, abs=3.0)


def in_plane(
    degrees: float, start: np.ndarray, slope: float = 0.0, **changes: object
) -> np.ndarray:
    """Where transport comes to rest if all voxels are among crossings in the plane of x and z.

    The angles in that plane and across it. The FOD grows along x, by `slope` a voxel.
    """
    one = fused(degrees).coefficients[0, 0, 0].astype(float)
    weights = 1 + slope * (np.arange(9.0) - 4)
    fod = Fod(np.broadcast_to(weights[:, None, None, None] * one, (9, 9, 9, 45)), np.eye(4))
    let_cross(fod, SIDE, TrackingParameters(algorithm="transport", min_roundness=0.8))
    found = settled(fod, start, min_roundness=0.8, **changes)
    return np.degrees(np.arctan2([found @ SIDE, found @ ACROSS], found @ UP))


@pytest.mark.parametrize(
    ("half_angle", "start"), [(0.0, 9.0), (10.0, 8.0), (32.0, 4.0)], ids=["round", "wide", "dip"]
)
def test_among_crossings_a_line_keeps_its_side_in_their_plane_whatever_the_lobe(half_angle, start):
    along, across = in_plane(half_angle, aside(start, 6.0))
    assert along == pytest.approx(start, abs=1.0)
    assert abs(across) < 0.3  # it turns to the ridge


def test_among_crossings_a_direction_on_a_flank_turns_all_the_same():
    along, _ = in_plane(10.0, aside(32.0))
    assert 5.0 < along < 27.0


def test_among_crossings_lines_look_a_fifth_of_a_voxel_ahead_in_their_plane():
    """Further on is the other bundle. Across the plane they look as far as told."""
    slope, far_mm, time = 0.2, 0.5, 0.1
    changes = {"step_mm": 0.01, "max_length_mm": 0.01, "gamma": time / 0.01}
    ahead, near = (
        in_plane(0.0, UP, slope, look_ahead_mm=far, **changes)[0] for far in (far_mm, 0.1)
    )
    bend = bend_across(fused(0.0))
    expected = np.degrees(slope * (1 - np.exp(-bend * time)) / bend)
    assert ahead == pytest.approx(0.2 * expected, rel=0.05)
    assert near == pytest.approx(0.1 * expected, rel=0.05)
