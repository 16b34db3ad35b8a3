"""Probabilistic lines keep to their lobe, and to their side of a wide one.

Beside second derivatives of log f by differences in float64, and the law that the docs state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from chi_square import ConeBins
from plans import let_cross
from test_langevin import ACROSS, SIDE, UP, aside, fused, turning
from toys import tangents, unit_steps

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.engine import track

ROUNDNESS = 0.8
STEP = 5e-3  # radians, of differences


class Shape(NamedTuple):
    """A lobe at its axis: whether it is wide, along what, and where the axis turns to."""

    is_wide: bool
    wide: np.ndarray
    turned: np.ndarray


def amplitudes(fod: Fod, units: np.ndarray) -> np.ndarray:
    """What the FOD, the same in all voxels, is along (n, 3) unit vectors, in float64."""
    return fod.sample_matrix(units) @ fod.coefficients[0, 0, 0].astype(float)


def shape_of(fod: Fod, axis: np.ndarray, roundness: float = ROUNDNESS) -> Shape:
    a, b = tangents(axis)

    def log_f(s: float, t: float) -> float:
        angle = np.hypot(s, t)
        unit = np.cos(angle) * axis + np.sinc(angle / np.pi) * (s * a + t * b)
        return float(np.log(amplitudes(fod, unit[None])[0]))

    h = STEP
    gradient = np.array([log_f(h, 0) - log_f(-h, 0), log_f(0, h) - log_f(0, -h)]) / (2 * h)
    mixed = (log_f(h, h) - log_f(h, -h) - log_f(-h, h) + log_f(-h, -h)) / (4 * h * h)
    along, across = (
        (log_f(s, t) - 2 * log_f(0, 0) + log_f(-s, -t)) / (h * h) for s, t in ((h, 0), (0, h))
    )
    bends, sides = np.linalg.eigh([[along, mixed], [mixed, across]])
    bends, sides = bends[::-1], sides[:, ::-1]  # it bends less along the first
    slopes = sides.T @ gradient
    is_wide = bends[0] <= 0 and bends[0] / bends[1] < roundness and slopes[0] ** 2 <= -bends[1]
    limit = float(codes.STRIDE)
    turns = [
        -slope / bend if bend < 0 and abs(slope / bend) < limit else limit * np.sign(slope)
        for slope, bend in zip(slopes, bends, strict=True)
    ]
    if is_wide:
        turns[0] = 0.0
    x, y = sides @ turns
    turned = axis + x * a + y * b
    wide = sides[0, 0] * a + sides[1, 0] * b
    return Shape(bool(is_wide), wide, turned / np.linalg.norm(turned))


def is_of_lobe(fod: Fod, axis: np.ndarray, units: np.ndarray, lobe_deg: float) -> np.ndarray:
    """Of (n, 3) directions, the line going less than 53 degrees from it; with room for rounding."""
    between = units + axis
    between /= np.linalg.norm(between, axis=-1, keepdims=True)
    product = amplitudes(fod, axis[None]) * amplitudes(fod, units)
    near = units @ axis >= np.cos(np.radians(lobe_deg))
    return near | (amplitudes(fod, between) ** 2 >= (1 - 1e-3) * codes.BULGE * product)


def aside_in_plane(middle: np.ndarray, units: np.ndarray, along: np.ndarray) -> np.ndarray:
    """How far (n, 3) directions lie along a tangent in the plane of equal areas about `middle`."""
    return units @ along * np.sqrt(2 / (1 + units @ middle))


def tracked(fod: Fod, start: np.ndarray, n: int, n_steps: int, **changes: float) -> np.ndarray:
    """(n, n_steps, 3) directions of lines from one place and direction."""
    settings = {
        "step_mm": 0.25, "max_length_mm": 0.25 * n_steps, "min_amplitude": 0.0, "random_seed": 3,
        "max_angle_deg": 25.0, "lobe_deg": 10.0, "min_roundness": ROUNDNESS, **changes,
    }  # fmt: skip
    parameters = TrackingParameters(start="given", direction="forward", **settings)
    seeds = Seeds.at(np.tile([4.0, 4.0, 4.0], (n, 1)), np.tile(start, (n, 1)))
    points = track(fod, seeds, parameters).points.reshape(n, n_steps + 1, 3)
    steps = unit_steps(points[:, :-1].reshape(-1, 3), points[:, 1:].reshape(-1, 3))
    return steps.reshape(n, n_steps, 3)


@pytest.mark.parametrize("start", [(0.0, 0.0), (8.0, 0.0), (-6.0, 5.0)])
@pytest.mark.parametrize(("lobe_deg", "angle"), [(10.0, 25.0), (6.0, 40.0)])
def test_in_a_wide_lobe_directions_are_drawn_from_a_strip(start, lobe_deg, angle, monkeypatch):
    """The axis being the start direction, through the middle of the cone."""
    monkeypatch.setattr("chi_square.POINTS_A_SIDE", 64)  # the density ends at an edge
    fod, axis = fused(10.0), aside(*start)
    shape = shape_of(fod, axis)
    assert shape.is_wide
    width = 2 * np.sin(np.radians(lobe_deg) / 2)

    def law(units):
        there = np.abs(aside_in_plane(axis, units, shape.wide)) <= width
        return amplitudes(fod, units) * there * is_of_lobe(fod, axis, units, lobe_deg)

    drawn = tracked(fod, axis, 50_000, 1, lobe_deg=lobe_deg, max_angle_deg=angle)[:, 0]
    is_of_it = law(drawn) > 0  # others are taken after LOBE_PROPOSALS proposals
    assert is_of_it.mean() > 0.98
    bins = ConeBins(axis, angle)
    assert bins.p_value(drawn[is_of_it], law) > 1e-3
    of_lobe = lambda units: amplitudes(fod, units) * is_of_lobe(fod, axis, units, lobe_deg)  # noqa: E731
    assert bins.p_value(drawn, of_lobe) < 1e-9


@pytest.mark.parametrize(
    ("half_angle", "start"),
    [
        pytest.param(0.0, (20.0, 0.0), id="round, far from its top"),
        pytest.param(0.0, (5.0, 3.0), id="round, near its top"),
        pytest.param(10.0, (7.0, 8.0), id="wide"),
        pytest.param(15.0, (-12.0, 6.0), id="wider"),
        pytest.param(10.0, (32.0, 4.0), id="flank"),
        pytest.param(32.0, (4.0, 6.0), id="dip"),
    ],
)
def test_the_axis_turns_to_the_top_but_not_along_the_wide_side(half_angle, start):
    """Of the second directions none is of another lobe than that of the axis after one turn.

    With an exception of one degree, directions between that and some ten degrees from the axis are
    of none, since log f is bent too little there: so they tell where the axis is.
    """
    fod, axis, lobe_deg = fused(half_angle), aside(*start), 1.0
    first = shape_of(fod, axis)
    then = shape_of(fod, first.turned)
    assert first.is_wide == (half_angle in (10.0, 15.0) and start[0] < 30.0)
    steps = tracked(fod, axis, 4_000, 2, lobe_deg=lobe_deg)
    # After LOBE_PROPOSALS that are none any direction is taken.
    ones = is_of_lobe(fod, axis, steps[:, 0], lobe_deg)
    assert ones.mean() > 0.95
    seconds = is_of_lobe(fod, first.turned, steps[:, 1], lobe_deg)
    assert seconds.mean() > 0.95
    assert is_of_lobe(fod, axis, steps[:, 1], lobe_deg).mean() < 0.92
    if then.is_wide:
        width = 2 * np.sin(np.radians(lobe_deg) / 2)
        sides = np.array([flattened(then.wide, one) for one in steps[:, 0]])
        middles = np.einsum("ij,ij->i", sides, np.broadcast_to(first.turned, sides.shape))
        factor = np.sqrt(2 / (1 + np.einsum("ij,ij->i", steps[:, 0], steps[:, 1])))
        places = np.einsum("ij,ij->i", sides, steps[:, 1]) * factor
        within = np.abs(middles) <= width - 1e-4
        assert within.mean() > 0.001
        assert (np.abs(places - middles)[within] <= width + 1e-4).all()


def flattened(side: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """A tangent, as a unit vector among the tangents of another direction."""
    side = side - (side @ unit) * unit
    return side / np.linalg.norm(side)


@pytest.mark.parametrize("half_angle", [28.0, 31.0])
def test_lines_do_not_change_over_to_a_lobe_more_than_53_degrees_away(half_angle):
    """Though the cone reaches it from the flank of their own: some are drawn half way to it."""
    fod, axis, other = fused(half_angle), aside(-half_angle), aside(half_angle)
    steps = tracked(fod, axis, 2_000, 12, max_angle_deg=35.0, lobe_deg=8.0, min_roundness=0.0)
    towards = (steps @ other) > (steps @ axis)
    assert towards.any(axis=1).mean() > 0.02
    assert (steps @ other > np.cos(np.radians(12.0))).any(axis=1).mean() < 0.01


def test_the_test_of_shapes_knows_them():
    """Of two lobes either side of z in the plane of x and z the wide side is along x."""
    for half_angle, is_wide in ((0.0, False), (10.0, True), (32.0, False)):
        shape = shape_of(fused(half_angle), UP)
        assert shape.is_wide == is_wide
        if half_angle:
            np.testing.assert_allclose(
                np.abs([shape.wide @ SIDE, shape.wide @ ACROSS]), [1, 0], atol=1e-3
            )
    turned = shape_of(fused(10.0), aside(5.0, 6.0)).turned
    np.testing.assert_allclose(turned, aside(5.0), atol=5e-3)


def test_mirror_images_are_at_the_axis_not_at_the_direction(monkeypatch):
    """Nothing is ahead, so that second directions are drawn by min(q, q') + R q.

    Where the first one was beside the axis, that has another mean aside, towards the first, than
    without images, and than with those at the direction itself.
    """
    monkeypatch.setattr("chi_square.POINTS_A_SIDE", 6)
    fod, angle, n = fused(0.0), 25.0, 250
    axis = shape_of(fod, UP).turned
    steps = tracked(fod, UP, n, 2, look_ahead_mm=90.0, max_angle_deg=angle, lobe_deg=40.0)

    def expected(first, middle):
        """Mean and variance aside; images are at `middle`, nowhere without one."""
        bins = ConeBins(first, angle)
        units = bins.units()
        q = amplitudes(fod, units)
        images = 2.0 * (units @ middle)[:, None] * middle - units
        is_inside = images @ first >= np.cos(np.radians(angle))
        shared = np.minimum(q, amplitudes(fod, images)) * is_inside * middle.any()
        p = shared + (1.0 - shared.sum() / q.sum()) * q
        side = flattened(first, axis)
        mean = np.average(units @ side, weights=p)
        return mean, np.average((units @ side - mean) ** 2, weights=p)

    def deviation(middle_of):
        """Of the mean of all lines, in its standard errors."""
        laws = np.array([expected(first, middle_of(first)) for first in steps[:, 0]])
        seen = [second @ flattened(first, axis) for first, second in steps]
        return (np.sum(seen) - laws[:, 0].sum()) / np.sqrt(laws[:, 1].sum())

    assert abs(deviation(lambda first: axis)) < 3.0
    assert abs(deviation(lambda first: np.zeros(3))) > 6.0
    assert abs(deviation(lambda first: first)) > 6.0


@pytest.mark.parametrize(("rate", "follows"), [(0.35, True), (-0.3, True), (0.2, False)])
def test_where_the_top_of_a_wide_lobe_turns_fast_the_axis_follows_it(rate, follows):
    """Lines are drawn about the axis: about the top without a roundness, about z where it stays."""
    changes = {"step_mm": 0.1, "max_length_mm": 0.6, "n_steps": 6}
    found, without = (
        tracked(turning(rate), UP, 4000, min_roundness=r, **changes)[:, -1].mean(axis=0)
        for r in (ROUNDNESS, 0.0)
    )
    angle, of_top = (np.arctan2(unit @ SIDE, unit @ UP) for unit in (found, without))
    assert abs(of_top) > 0.05
    if follows:
        assert angle == pytest.approx(of_top, abs=0.02)
    else:
        assert abs(angle) < 0.5 * abs(of_top)


def test_in_a_round_lobe_all_is_as_without_a_roundness():
    fod = fused(0.0)
    one, other = (tracked(fod, UP, 200, 2, min_roundness=r) for r in (0.0, ROUNDNESS))
    np.testing.assert_array_equal(one, other)


def test_a_roundness_is_of_no_effect_without_a_lobe():
    fod = fused(10.0)
    one, other = (tracked(fod, UP, 200, 2, lobe_deg=0.0, min_roundness=r) for r in (0.0, ROUNDNESS))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("slope", [0.9, -0.6, 0.0])
def test_among_crossings_the_axis_turns_to_what_is_a_fifth_of_a_voxel_ahead(slope):
    """In their plane, and to nothing else there; beside the law that the docs state.

    f = lobe (1 + s x), so that log f grows by 0.2 s along the plane, against the bend across it.
    """
    lobe = fused(0.0).coefficients[0, 0, 0].astype(float)
    weights = np.maximum(1 + slope * (np.arange(9.0) - 4), 0.1)  # looked at between 3 and 5
    fod = Fod(np.broadcast_to(weights[:, None, None, None] * lobe, (9, 9, 9, 45)), np.eye(4))
    parameters = TrackingParameters(lobe_deg=1.0, min_roundness=ROUNDNESS, look_ahead_mm=1.25)
    plane = let_cross(fod, SIDE, parameters)
    start = aside(6.0)
    steps = tracked(fod, start, 4_000, 2, lobe_deg=1.0, look_ahead_mm=1.25)
    sides = start + np.tan([[-STEP], [0.0], [STEP]]) * np.cross(start, across(start, plane))
    sides /= np.linalg.norm(sides, axis=1, keepdims=True)
    bend = -np.diff(np.log(fod.sample_matrix(sides) @ lobe), 2)[0] / STEP**2
    turned = start + 0.2 * slope / bend * across(start, plane)
    turned /= np.linalg.norm(turned)
    assert is_in_strip(turned, plane, steps).all()
    assert is_in_strip(start, plane, steps).all() == (slope == 0.0)


def across(unit: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The tangent at a unit vector, or at each of (n, 3), that leads to another."""
    tangent = other - (unit @ other)[..., None] * unit
    return tangent / np.linalg.norm(tangent, axis=-1, keepdims=True)


def is_in_strip(axis: np.ndarray, plane: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Which second directions are in the strip about an axis, of the cones that have one."""
    width = 2 * np.sin(np.radians(1.0) / 2)
    sides = across(steps[:, 0], across(axis, plane))
    middles = sides @ axis * np.sqrt(2 / (1 + steps[:, 0] @ axis))
    factor = np.sqrt(2 / (1 + np.einsum("ij,ij->i", steps[:, 0], steps[:, 1])))
    places = np.einsum("ij,ij->i", sides, steps[:, 1]) * factor
    within = np.abs(middles) <= width - 1e-3
    assert within.sum() > 500
    return np.abs(places - middles)[within] <= width / 2 + 1e-3  # half of that elsewhere
