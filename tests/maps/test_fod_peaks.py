"""Peaks of FODs: against MRtrix3's sh2peaks and against bundles of known direction."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.fields.sh import sh_matrix
from napari_tractography.files.fods import load_fod
from napari_tractography.maps.fod_peaks import fod_peaks
from napari_tractography.model.fod import Fod


def lobes(*axes, lmax=8):
    """One voxel whose FOD has a lobe of amplitude about 1 along each axis."""
    units = np.random.default_rng(0).normal(size=(3000, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    wanted = sum(np.exp(12 * ((units @ np.asarray(a)) ** 2 - 1)) for a in axes)
    coefficients = np.linalg.lstsq(sh_matrix(units, lmax, "tournier07"), wanted, rcond=None)[0]
    return Fod(coefficients.reshape(1, 1, 1, -1), np.eye(4))


def test_two_lobes_are_two_peaks_within_a_degree():
    a, b = np.array([0.6, 0.0, 0.8]), np.array([0.0, 1.0, 0.0])
    peaks = fod_peaks(lobes(a, b), min_amplitude=0.3)
    assert len(peaks.amplitudes) == 2
    cosines = np.abs(peaks.directions @ np.stack([a, b]).T)
    assert np.degrees(np.arccos(cosines.max(axis=1))).max() < 1.0
    assert set(cosines.argmax(axis=1)) == {0, 1}


def test_peaks_of_an_asymmetric_fod_point_one_way():
    units = np.random.default_rng(0).normal(size=(3000, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    arms = np.array([[0.6, 0.0, 0.8], [-0.8, 0.0, -0.6], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    wanted = np.exp(12 * (units @ arms.T - 1)).sum(axis=1)
    matrix = sh_matrix(units, 8, "tournier07", True)
    fod = Fod(np.linalg.lstsq(matrix, wanted, rcond=None)[0].reshape(1, 1, 1, -1), np.eye(4))
    peaks = fod_peaks(fod, min_amplitude=0.3)
    assert peaks.is_one_way
    assert len(peaks.amplitudes) == 4
    cosines = peaks.directions @ arms.T
    assert np.degrees(np.arccos(np.minimum(cosines.max(axis=1), 1))).max() < 1.5
    assert set(cosines.argmax(axis=1)) == {0, 1, 2, 3}
    assert len(fod_peaks(fod, n_peaks=1, min_amplitude=0.3).amplitudes) == 2
    assert not fod_peaks(fod.symmetric()).is_one_way


def test_small_peaks_and_more_than_asked_for_are_left_out():
    fod = lobes([1, 0, 0], [0, 1, 0], [0, 0, 1])
    assert len(fod_peaks(fod, n_peaks=2, min_amplitude=0.3).amplitudes) == 2
    assert len(fod_peaks(fod, n_peaks=3, min_amplitude=100.0).amplitudes) == 0


@pytest.mark.parametrize("name", ["fibercup", "brain"])
def test_largest_peak_is_that_of_mrtrix(shared_data, name):
    """Within 2 degrees and 2 % in 97 of 100 voxels; the others have ties."""
    path = {
        "fibercup": shared_data / "fibercup" / "fod.nii.gz",
        "brain": shared_data / "reference" / "brain_fod_as_nifti.nii.gz",
    }[name]
    reference = nib.load(shared_data / "reference" / f"{name}_peaks.nii.gz").get_fdata()
    peaks = fod_peaks(load_fod(path), n_peaks=1, min_amplitude=0.1)
    theirs = reference[tuple(peaks.voxels.T)]
    size = np.linalg.norm(theirs, axis=1)
    known = size > 0.1
    cosines = np.abs((theirs[known] / size[known, None] * peaks.directions[known]).sum(axis=1))
    close = np.degrees(np.arccos(np.clip(cosines, 0, 1))) < 2.0
    assert known.sum() > 1000
    assert close.mean() > 0.97
    ratio = peaks.amplitudes[known][close] / size[known][close]
    assert np.quantile(np.abs(ratio - 1), 0.98) < 0.02
