"""Angles about an axis, against helices in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.maps.angles import Axis, elevations_deg, helix_angles_deg, tangents
from napari_tractography.streamlines.tractogram import Tractogram

UP = Axis((0, 0, -5), (0, 0, 5))


def helix(angle_deg: float, radius: float = 3.0) -> np.ndarray:
    """A helix around the third axis whose angle with the circle is given."""
    t = np.linspace(0, 2, 400)[:, None]
    rise = radius * np.tan(np.deg2rad(angle_deg))
    return np.hstack([radius * np.cos(t), radius * np.sin(t), rise * t])


@pytest.mark.parametrize("angle", [-75.0, -60.0, 0.0, 30.0, 60.0])
def test_a_right_handed_helix_is_positive(angle: float) -> None:
    t = Tractogram.from_streamlines([helix(angle), helix(angle)[::-1]])
    found = helix_angles_deg(t.points, tangents(t), UP)
    np.testing.assert_allclose(found, angle, atol=0.2)  # chords of a circle of 400 pieces


def test_the_sense_and_the_place_of_the_axis_make_no_difference() -> None:
    """Nor does where the heart lies: everything is turned and moved together."""
    rng = np.random.default_rng(5)
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    turn *= np.sign(np.linalg.det(turn))  # no mirror, which turns a helix into the other
    shift = np.array([40.0, -7.0, 12.0])
    t = Tractogram.from_streamlines([helix(40.0) @ turn.T + shift])
    ends = np.array([[0, 0, -1], [0, 0, 4.0]]) @ turn.T + shift
    for axis in (Axis.of(ends), Axis.of(ends[::-1])):
        np.testing.assert_allclose(helix_angles_deg(t.points, tangents(t), axis), 40.0, atol=0.2)
        np.testing.assert_allclose(elevations_deg(tangents(t), axis), 40.0, atol=0.2)


def test_a_mirrored_helix_has_the_other_sign() -> None:
    t = Tractogram.from_streamlines([helix(40.0) * (-1, 1, 1)])
    np.testing.assert_allclose(helix_angles_deg(t.points, tangents(t), UP), -40.0, atol=0.2)


def test_what_has_no_angle_is_nan() -> None:
    points = np.array([[0, 0, 1.0], [2, 0, 0], [2, 0, 0]])
    directions = np.array([[1.0, 0, 0], [0, 0, 0], [1.0, 0, 0]])
    found = helix_angles_deg(points, directions, UP)  # on the axis; none; straight outwards
    assert np.isnan(found[[0, 1, 2]]).all()
    assert np.isnan(elevations_deg(directions)[1])


def test_elevation_is_from_the_axial_plane_without_an_axis() -> None:
    found = elevations_deg([[1, 0, 0], [0, 1, 1], [0, 0, -2]])
    np.testing.assert_allclose(found, [0, 45, 90], atol=1e-9)


def test_tangents_do_not_lead_from_one_streamline_to_the_next() -> None:
    t = Tractogram.from_streamlines([[[0, 0, 0], [1, 0, 0]], [[5, 5, 5]], [[0, 9, 0], [0, 9, 2]]])
    found = tangents(t)
    np.testing.assert_array_equal(found[[0, 1, 3, 4]], np.eye(3)[[0, 0, 2, 2]])
    assert np.isnan(found[2]).all()


def test_an_axis_needs_two_ends() -> None:
    with pytest.raises(InvalidParameterError, match="has no direction"):
        Axis((1, 2, 3), (1, 2, 3))
    assert Axis.of_numbers(UP.numbers) == UP
    for nothing in (None, [], [1, 2, 3], "abc", [1, 2, 3, 1, 2, 3]):
        assert Axis.of_numbers(nothing) is None
