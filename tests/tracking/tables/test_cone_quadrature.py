"""The directions at which a cone is looked at."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import lpmv, poch
from toys import cone_points, farthest_deg

from napari_tractography.tracking.codes import N_AROUND
from napari_tractography.tracking.tables.cone_quadrature import cone_quadrature

MIRRORED = [[1, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]]


@pytest.mark.parametrize("angle", [1.0, 10.0, 45.0, 90.0])
@pytest.mark.parametrize("lmax", [0, 8, 16])
def test_a_cone_is_looked_at_from_its_axis_to_its_border(angle, lmax):
    quadrature = cone_quadrature(angle, lmax)
    units, fractions = quadrature.points[:3].T.astype(float), quadrature.points[3].astype(float)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, atol=1e-6)
    assert (units[:, :2] > 0).all()  # a quarter, of which the others are mirror images
    every = np.concatenate([(units[:, None] * MIRRORED).reshape(-1, 3), [[0, 0, 1]]])
    assert every[:, 2].min() == pytest.approx(np.cos(np.deg2rad(angle)), abs=1e-6)
    probes = cone_points(np.array([0.0, 0.0, 1.0]), angle, 5000)
    assert farthest_deg(every, probes) < min(0.7 * angle, 65 / max(lmax, 2))
    # What each stands for: the mean of z over the cone is half of what it is at both ends.
    weights = np.concatenate([np.repeat(fractions, 4), [1 - 4 * fractions.sum()]])
    assert (weights > 0).all()
    assert weights @ every[:, 2] == pytest.approx((1 + every[:, 2].min()) / 2, rel=0.1)
    # Neighbours are the nearest others.
    assert quadrature.neighbours.shape == (len(every), N_AROUND)
    apart = np.arccos(np.clip(every @ every.T, -1, 1)) + 9 * np.eye(len(every))
    there = np.take_along_axis(apart, quadrature.neighbours.astype(int), axis=1)
    np.testing.assert_allclose(there, np.sort(apart, axis=1)[:, :N_AROUND], atol=1e-3)


@pytest.mark.parametrize("angle", [1.0, 33.0, 90.0])
@pytest.mark.parametrize("lmax", [0, 8, 16])
def test_rings_are_of_one_height_each(angle, lmax):
    quadrature = cone_quadrature(angle, lmax)
    heights = quadrature.points[2]
    for first, last in zip(quadrature.rings, quadrature.rings[1:], strict=False):
        assert np.ptp(heights[first:last]) < 1e-6
        np.testing.assert_array_equal(
            quadrature.heights[first:last],
            np.repeat(quadrature.heights[first:][:1], last - first, axis=0),
        )
    assert (
        quadrature.rings[-1] == len(heights) == len(quadrature.azimuths) == len(quadrature.heights)
    )
    assert (np.diff(heights[quadrature.rings[:-1]]) < 0).all()


@pytest.mark.parametrize("lmax", [0, 2, 8, 16])
def test_what_harmonics_are_on_the_axis_follows_from_legendre_functions(lmax):
    degrees, apart = np.arange(lmax, -1, -2), 1e-3
    z = np.cos(apart * np.arange(3))

    def across(m):  # without the sign of Condon & Shortley; there are none of orders above a degree
        scale = (2 * degrees + 1) / (4 * np.pi) * poch(degrees + m + 1, -2 * m) * (2 if m else 1)
        scale = np.where(degrees >= m, np.sqrt(np.abs(scale)), 0)
        return scale * np.abs(lpmv(m, degrees, z[:, None]))

    value, down, slope, bend = cone_quadrature(45.0, lmax).axis
    even = across(0)
    np.testing.assert_allclose(value, even[0], rtol=1e-6)
    np.testing.assert_allclose(down, 2 * (even[0] - even[1]) / apart**2, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(slope, across(1)[1] / apart, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(bend, 2 * across(2)[1] / apart**2, rtol=1e-3, atol=1e-6)
