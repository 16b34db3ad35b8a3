"""Peaks as they come from files and other programs, brought into one form."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.errors import InvalidFodError, InvalidParameterError
from napari_tractography.fields.peaks import (
    lobe_coefficients,
    on_regular_grid,
    peaks_of_voxels,
    stacked,
)
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.coherence import coherence
from napari_tractography.model.fod import Fod

GRID = Grid((2, 1, 1), np.eye(4))
LEFT_HANDED = np.diag([-2.0, 2.0, 2.0, 1.0])
RIGHT_HANDED = np.diag([2.0, 2.0, 2.0, 1.0])


def test_nan_and_zeros_are_no_peak_and_the_largest_comes_first():
    peaks = np.array([[0, 0, 1, 0, 3, 0, np.nan, np.nan, np.nan], [0.0] * 9]).reshape(2, 1, 1, 9)
    vectors, rows, n_invalid = peaks_of_voxels(peaks, GRID)
    np.testing.assert_array_equal(vectors.numbers, [[0, 3, 0, 0, 0, 1]])
    np.testing.assert_array_equal(rows.ravel(), [0, -1])
    assert n_invalid == 0


def test_a_peak_that_is_broken_counts_as_none_and_is_told():
    peaks = np.array([[1, 0, 0, np.nan, 1, 0], [0, 1, 0, np.inf, 0, 0]]).reshape(2, 1, 1, 6)
    vectors, _, n_invalid = peaks_of_voxels(peaks, GRID)
    np.testing.assert_array_equal(vectors.numbers, [[1, 0, 0], [0, 1, 0]])
    assert n_invalid == 2
    fod = Fod.from_peaks(peaks, np.eye(4), name="p.nii")
    assert fod.invalid_voxels_message.startswith("p.nii: 2 of 2 voxels have peaks with NaN")


@pytest.mark.parametrize(
    ("axes", "affine", "expected"),
    [
        pytest.param("scanner", LEFT_HANDED, (1, 2, 3), id="scanner"),
        pytest.param("voxel", LEFT_HANDED, (-1, 2, 3), id="voxel axes"),
        pytest.param("voxel", RIGHT_HANDED, (1, 2, 3), id="voxel axes, as RAS+"),
        pytest.param("fsl", LEFT_HANDED, (-1, 2, 3), id="fsl, radiological"),
        pytest.param("fsl", RIGHT_HANDED, (-1, 2, 3), id="fsl, neurological"),
    ],
)
def test_vectors_are_turned_from_their_axes(axes, affine, expected):
    fod = Fod.from_peaks(np.array([1.0, 2.0, 3.0]).reshape(1, 1, 1, 3), affine, axes=axes)
    np.testing.assert_allclose(fod.vectors.numbers, [expected])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 1, 1, 8), "8 volumes, which is no multiple of 3; give three for each peak"),
        ((2, 1, 1, 2, 4), r"shape \(2, 1, 1, 2, 4\); give peaks as"),
        ((2, 1, 3), r"shape \(2, 1, 3\); give peaks as"),
    ],
)
def test_shapes_that_make_no_sense_are_refused(shape, message):
    with pytest.raises(InvalidFodError, match=message):
        Fod.from_peaks(np.ones(shape), np.eye(4), name="p")


def test_nothing_but_zeros_and_unknown_axes_are_refused():
    with pytest.raises(InvalidFodError, match="no voxel with a peak"):
        Fod.from_peaks(np.zeros((2, 1, 1, 3)), np.eye(4))
    with pytest.raises(InvalidParameterError, match="axes = 'ras' is unknown; choose one of"):
        Fod.from_peaks(np.ones((2, 1, 1, 3)), np.eye(4), axes="ras")


def test_lobes_are_the_eighth_power_of_the_cosine():
    rng = np.random.default_rng(0)
    peak = rng.normal(size=3)
    units = rng.normal(size=(50, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    found = sh_matrix(units, 8, "tournier07") @ lobe_coefficients(peak[None].astype("f4"))[0]
    size = np.linalg.norm(peak)
    np.testing.assert_allclose(found, size * (units @ peak / size) ** 8, atol=1e-5)


def test_dyads_are_stacked_with_their_fractions():
    first, second = np.zeros((2, 1, 1, 3)), np.zeros((2, 1, 1, 3))
    first[..., 0], second[..., 1] = 1.0, 1.0
    found = stacked([first, second], [np.full((2, 1, 1), 0.5), np.full((2, 1, 1), 0.2)])
    np.testing.assert_allclose(found[0, 0, 0], [[0.5, 0, 0], [0, 0.2, 0]])
    with pytest.raises(InvalidFodError, match="1 volumes of amplitudes have shapes"):
        stacked([first, second], [np.ones((2, 1, 1))])
    with pytest.raises(InvalidFodError, match=r"give volumes \(x, y, z, 3\) of one shape"):
        stacked([first, second[:1]])


def test_coherence_finds_the_flip(shared_data):
    """Of a brain, with x running from left to right, as FSL would write its peaks."""
    image = nib.as_closest_canonical(nib.load(shared_data / "subject" / "peaks.nii.gz"))
    part = (slice(18, 54), slice(20, 60), slice(20, 50))
    peaks = np.asarray(image.dataobj[part])
    peaks[..., ::3] *= -1.0  # as the determinant is positive
    assert coherence(Fod.from_peaks(peaks, image.affine, axes="fsl")).fits
    found = coherence(Fod.from_peaks(peaks, image.affine, axes="voxel", name="dyads"))
    assert not found.fits
    assert "dyads is read as peaks, voxel axes, but peaks, fsl axes fits better" in found.verdict


def test_a_function_is_sampled_at_voxel_centres():
    grid = Grid((3, 4, 5), RIGHT_HANDED)
    fod = Fod.from_function(lambda at: at - grid.centre_mm, grid)
    centres = grid.to_mm(np.argwhere(fod.support)) - grid.centre_mm
    np.testing.assert_allclose(fod.vectors.numbers, centres, atol=1e-5)
    assert fod.n_voxels == 3 * 4 * 5
    with pytest.raises(InvalidFodError, match=r"returned shape \(60, 2\) for 60 positions"):
        Fod.from_function(lambda at: at[:, :2], grid)


def test_vectors_at_places_of_a_grid_become_its_peaks():
    """Several at a place, in any order, and none at some."""
    index = np.array([[0, 0, 0], [2, 1, 0], [2, 1, 0], [1, 0, 3], [0, 0, 1]])
    places = index * [2.0, 1.5, 1.0] + [-4.0, 7.0, 0.25]
    vectors = np.eye(5, 3) + 0.5
    peaks, placed = on_regular_grid(places, vectors)
    assert peaks.shape == (3, 2, 4, 2, 3)
    np.testing.assert_allclose(placed[:3, :3], np.diag([2.0, 1.5, 1.0]))
    np.testing.assert_allclose(placed[:3, 3], [-4.0, 7.0, 0.25])
    np.testing.assert_allclose(peaks[2, 1, 0], vectors[1:3])
    np.testing.assert_allclose(peaks[1, 0, 3, 0], vectors[3])
    assert np.count_nonzero(np.linalg.norm(peaks, axis=4)) == 5


def test_a_slice_has_the_thickness_of_its_pixels():
    places = np.stack(np.meshgrid([1.0, 3.0], [0.0, 2.0], [5.0]), axis=-1).reshape(-1, 3)
    assert on_regular_grid(places, np.ones((4, 3)))[1][2, 2] == 2.0


@pytest.mark.parametrize(
    "places",
    [
        pytest.param(np.random.default_rng(1).uniform(size=(50, 3)), id="anywhere"),
        pytest.param([[0, 0, 0], [1, 0, 0], [2.4, 0, 0]], id="uneven"),
        pytest.param([[0, 0, 0], [1, 0, 0], [1e5, 1e5, 1e5]], id="far apart"),
    ],
)
def test_places_on_no_grid_are_refused(places):
    with pytest.raises(InvalidFodError, match="on no regular grid"):
        on_regular_grid(places, np.ones((len(places), 3)))


@pytest.mark.parametrize("number", [np.inf, -np.inf, 3e38, -1e30])
def test_a_peak_without_end_counts_as_broken_and_as_none(number):
    """Damaged files hold numbers whose squares are no float32."""
    peaks = np.zeros((2, 1, 1, 3), np.float32)
    peaks[..., 2] = 0.5
    peaks[1, 0, 0, 0] = number
    fod = Fod.from_peaks(peaks, np.eye(4))
    assert fod.n_invalid_voxels == 1
    assert fod.n_voxels == 1
    assert fod.overview().max() == 0.5
