"""Phantoms: bundles where they were drawn, lobes along them, turning with the affine."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial import cKDTree
from scipy.special import eval_legendre

from napari_tractography.errors import InvalidGridError, InvalidParameterError
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.phantoms import (
    PHANTOMS,
    make_phantom,
    phantom_lines_mm,
    phantom_mask,
    phantom_seeds_mm,
)

names = pytest.mark.parametrize("name", list(PHANTOMS))
# Between neighbours of a set of 2000: sqrt(4 pi / 2000) rad.
SPACING_DEG = 4.6


def angles_deg(units, direction):
    """Angles between lines, signs aside."""
    cosines = np.abs(units @ direction) / np.linalg.norm(units, axis=-1) / np.linalg.norm(direction)
    return np.rad2deg(np.arccos(np.clip(cosines, 0, 1)))


def best_directions(fod):
    units = direction_set(2000)
    return units[fod.amplitudes(units[:1000]).argmax(axis=3)]


def turn(axis, angle_deg):
    """Rodrigues' rotation."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = np.deg2rad(angle_deg)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


@names
def test_phantom_is_an_fod_with_seeds_and_lines_inside(name):
    fod = make_phantom(name)
    mask = phantom_mask(name)
    assert (fod.basis, fod.frame, fod.lmax, fod.name) == ("tournier07", "scanner", 8, name)
    assert mask.shape == fod.grid.shape
    assert not (mask & ~fod.support).any()
    voxels = np.rint(fod.grid.to_voxel(phantom_seeds_mm(name))).astype(int)
    assert mask[tuple(voxels.T)].all()
    for curves in phantom_lines_mm(name):
        for curve in curves:
            inside = np.rint(fod.grid.to_voxel(curve)).astype(int)
            assert mask[tuple(inside.T)].mean() > 0.95


@names
def test_amplitudes_lie_between_nothing_and_one(name):
    amplitudes = make_phantom(name).amplitudes(direction_set(724))
    assert 0.9 < amplitudes.max() <= 1.0 + 1e-5
    assert amplitudes.min() > -0.03  # ringing stays below the default amplitude floor


@names
def test_largest_amplitude_follows_the_drawn_line(name):
    """Looks where one bundle fills the voxel and runs straight; the tangent is a difference."""
    fod = make_phantom(name)
    mean = fod.isotropic()
    best = best_directions(fod)
    lines = phantom_lines_mm(name)
    near = 8  # samples: two voxels
    seen = 0
    for number, curves in enumerate(lines):
        others = cKDTree(
            np.concatenate([c for k, cs in enumerate(lines) if k != number for c in cs])
        )
        for curve in curves:
            tangents = curve[2 * near :] - curve[: -2 * near]
            tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
            straight = (tangents[near:-near] * tangents[: -2 * near]).sum(axis=1) > 0.98
            straight &= (tangents[near:-near] * tangents[2 * near :]).sum(axis=1) > 0.98
            curve, tangents = curve[2 * near : -2 * near], tangents[near:-near]
            voxels = np.rint(fod.grid.to_voxel(curve)).astype(int)
            alone = straight & (others.query(curve)[0] > 12.0)
            alone &= mean[tuple(voxels.T)] > 0.99 * mean.max()
            cosines = np.abs((best[tuple(voxels.T)] * tangents).sum(axis=1))[alone]
            # Within a voxel a line of this phantom turns by up to ten degrees.
            assert (cosines > np.cos(np.deg2rad(SPACING_DEG + 10.0))).all()
            seen += len(cosines)
    assert seen > 50


def test_straight_bundles_cross_at_sixty_degrees():
    fod = make_phantom("cross")
    first, second = ([np.cos(np.pi / 6), sign * 0.5, 0.0] for sign in (1, -1))
    middle = [1.0, 0.0, 0.0]
    at = tuple(np.array([(15, 11, 4), (16, 12, 5)]).T)
    both = fod.amplitudes([first, second, middle])[at]
    np.testing.assert_allclose(both[:, :2], 0.5, atol=0.06)
    assert (both[:, 2] < 0.25).all()
    ends = np.rint(fod.grid.to_voxel(phantom_seeds_mm("cross"))).astype(int)
    best = best_directions(fod)[tuple(ends.T)]
    assert angles_deg(best[0], np.array(first)) < SPACING_DEG
    assert angles_deg(best[1], np.array(second)) < SPACING_DEG


def test_lobe_is_the_truncated_watson_kernel():
    """Its Legendre series, by another quadrature: sum of (2 l + 1) / 2 <k, P_l> P_l(cos)."""
    lmax = 8
    fod = make_phantom("letter", lmax=lmax)
    stem = tuple(np.rint(fod.grid.to_voxel(phantom_seeds_mm("letter")[0])).astype(int) - [0, 0, 6])
    angle = np.linspace(0, np.pi / 2, 40)
    units = np.stack([np.sin(angle) * 0.6, np.sin(angle) * 0.8, np.cos(angle)], axis=1)
    series = np.zeros(len(angle))
    for degree in range(0, lmax + 1, 2):
        product = partial(_watson_times_legendre, concentration=10.0, degree=degree)
        factor = (2 * degree + 1) / 2 * quad(product, -1, 1)[0]
        series += factor * eval_legendre(degree, np.cos(angle))
    np.testing.assert_allclose(fod.amplitudes(units)[stem], series / series[0], atol=1e-5)


def _watson_times_legendre(cosine, concentration, degree):
    return np.exp(concentration * (cosine**2 - 1)) * eval_legendre(degree, cosine)


@pytest.mark.parametrize("lmax", [2, 4, 6, 8, 10, 12, 16])
def test_every_degree_peaks_along_the_bundle(lmax):
    fod = make_phantom("letter", lmax=lmax)
    assert fod.lmax == lmax
    stem = tuple(np.rint(fod.grid.to_voxel(phantom_seeds_mm("letter")[0])).astype(int) - [0, 0, 6])
    amplitudes = fod.amplitudes([[0, 0, 1], [0, 1, 0], [1, 0, 0]])[stem]
    np.testing.assert_allclose(amplitudes[0], 1.0, rtol=1e-5)
    assert (amplitudes[1:] < 0.35).all()


@pytest.mark.parametrize("name", ["letter", "arcs"])
def test_phantom_has_no_mirror_image(name):
    mask = phantom_mask(name)
    for axis in range(3):
        flipped = np.flip(mask, axis)
        assert np.count_nonzero(mask & flipped) < 0.75 * np.count_nonzero(mask)


def test_letter_lies_in_anatomical_axes():
    """Stem at the left, bowl at the upper right, foot forward at the lower right."""
    grid = make_phantom("letter").grid
    x, y, z = grid.to_mm(np.argwhere(phantom_mask("letter"))).T
    assert (y[x < -12] < -8).all()  # the stem is flat
    assert np.ptp(z[x < -12]) > 45  # and tall
    forward = y > 0
    assert forward.any()
    assert (x[forward] > 0).all()
    assert (z[forward] < -20).all()
    assert z[(x > 5) & ~forward].max() > 20  # the bowl


def test_oblique_phantom_is_the_straight_one_turned():
    straight, oblique = make_phantom("arcs"), make_phantom("arcs-oblique")
    axes = oblique.grid.axes
    assert np.rad2deg(np.arccos((np.trace(axes) - 1) / 2)) > 20
    units = direction_set(64).astype(np.float64)
    np.testing.assert_allclose(
        oblique.amplitudes(units @ axes.T), straight.amplitudes(units), atol=1e-5
    )


@pytest.mark.parametrize("mirror", [1, -1], ids=["right-handed", "left-handed"])
def test_directions_turn_and_mirror_with_the_affine(mirror):
    rigid = turn((1, -2, 0.5), 130) @ np.diag([mirror, 1, 1])
    affine = np.eye(4)
    affine[:3, :3] = rigid * 1.5
    affine[:3, 3] = (50, -20, 300)
    placed, plain = make_phantom("letter", affine=affine), make_phantom("letter", affine=np.eye(4))
    np.testing.assert_array_equal(placed.grid.affine, affine)
    units = direction_set(64).astype(np.float64)
    np.testing.assert_allclose(
        placed.amplitudes(units @ rigid.T), plain.amplitudes(units), atol=1e-5
    )
    moved = phantom_seeds_mm("letter", affine=np.eye(4)) @ affine[:3, :3].T + affine[:3, 3]
    np.testing.assert_allclose(phantom_seeds_mm("letter", affine=affine), moved)


def test_directions_stretch_with_the_voxels():
    affine = np.diag([1.0, 1.0, 3.0, 1.0])
    fod = make_phantom("letter", affine=affine)
    lines = phantom_lines_mm("letter", affine=affine)
    leg = lines[2][0]
    middle = len(leg) // 4
    at = tuple(np.rint(fod.grid.to_voxel(leg[middle])).astype(int))
    tangent = leg[middle + 1] - leg[middle - 1]
    assert abs(tangent[2] / tangent[0]) > 3  # steeper than drawn
    assert angles_deg(best_directions(fod)[at], tangent) < SPACING_DEG


def test_bad_requests_are_named():
    with pytest.raises(InvalidParameterError, match="no phantom 'brain'; choose one of arcs"):
        make_phantom("brain")
    for lmax in (0, 3, 18):
        with pytest.raises(InvalidParameterError, match=f"lmax = {lmax} is no even number"):
            make_phantom("cross", lmax=lmax)
    with pytest.raises(InvalidGridError, match="singular"):
        make_phantom("cross", affine=np.diag([1.0, 1.0, 0.0, 1.0]))
