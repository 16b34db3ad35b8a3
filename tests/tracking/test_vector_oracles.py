"""Peaks and tensors beside MRtrix3: FACT, the main eigenvectors, Tensor_Det."""

from __future__ import annotations

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.files.fods import load_fod
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.streamlines.tractogram import load_tractogram
from napari_tractography.tracking.engine import track

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])


@pytest.fixture
def mrtrix(tmp_path):
    """Runs a program of MRtrix3 in a folder."""

    def run(*arguments):
        if shutil.which(arguments[0]) is None:
            pytest.skip("MRtrix3 is not installed")
        command = [*map(str, arguments), "-quiet", "-force"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return run


def retracked(fod: Fod, lines, **parameters):
    """Track again from the first point of each line, along its first step."""
    starts = np.array([line[0] for line in lines])
    steps = np.array([line[1] - line[0] for line in lines])
    seeds = Seeds.at(starts, steps / np.linalg.norm(steps, axis=1, keepdims=True))
    given = TrackingParameters(
        start="given", direction="forward", algorithm="sd_stream", min_probability=0.0,
        min_length_mm=0.0, **parameters,
    )  # fmt: skip
    return track(fod, seeds, given, backend="cpu")


def test_in_nearest_voxels_streamlines_are_those_of_fact(mrtrix, tmp_path, shared_data):
    """The same to a hundredth of a voxel for as long as both go on, in nearly all of 200."""
    source = shared_data / "subject" / "peaks.nii.gz"
    fod = load_fod(source)
    peaks = np.nan_to_num(np.asarray(nib.load(source).dataobj))
    nib.save(nib.Nifti1Image(peaks, fod.grid.affine), tmp_path / "peaks.nii")
    nib.save(nib.Nifti1Image(fod.support.astype(np.uint8), fod.grid.affine), tmp_path / "mask.nii")
    mrtrix(
        "tckgen", "-algorithm", "FACT", "peaks.nii", "fact.tck", "-seed_image", "mask.nii",
        "-seeds", 400, "-select", 200, "-seed_unidirectional", "-step", 0.5, "-angle", 50,
        "-cutoff", 0.1, "-minlength", 5, "-maxlength", 60, "-nthreads", 0,
    )  # fmt: skip
    lines = list(load_tractogram(tmp_path / "fact.tck"))
    assert len(lines) > 50
    found = retracked(
        fod, lines, interpolation="nearest", step_mm=0.5, max_angle_deg=50.0, min_amplitude=0.1,
        max_length_mm=60.0,
    )  # fmt: skip
    found = {int(k): line for k, line in zip(found.seed_index, found, strict=True)}
    same = 0
    for k, line in enumerate(lines):
        n = min(len(line), len(found.get(k, ())))
        near = n and np.linalg.norm(found[k][:n] - line[:n], axis=1).max() < 0.025
        same += bool(near and abs(len(line) - len(found[k])) <= 2)
    assert same >= 0.95 * len(lines)


def swirl(shape=(16, 16, 6)) -> np.ndarray:
    """Tensors (x, y, z, 6) of FA 0.77 along circles around the z axis, rising a little."""
    x, y, z = np.moveaxis(np.indices(shape) - (np.array(shape).reshape(3, 1, 1, 1) - 1) / 2, 0, 0)
    along = np.stack([-y, x, 0.2 * np.hypot(x, y) + 0.0 * z], axis=-1)
    along /= np.linalg.norm(along, axis=-1, keepdims=True)
    full = 0.3e-3 * np.eye(3) + 1.4e-3 * along[..., :, None] * along[..., None, :]
    places = ([0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2])
    return full[..., places[0], places[1]]


def test_main_eigenvectors_are_those_of_tensor2metric(mrtrix, tmp_path):
    oblique = AFFINE @ np.array(
        [[0.8, -0.6, 0, 3], [0.6, 0.8, 0, -2], [0, 0, 1, 5], [0, 0, 0, 1.0]]
    )
    elements = swirl().astype(np.float32)
    nib.save(nib.Nifti1Image(elements, oblique), tmp_path / "dt.nii")
    mrtrix("tensor2metric", "dt.nii", "-vector", "ev.nii", "-modulate", "fa")
    expected = nib.load(tmp_path / "ev.nii").get_fdata()
    fod = Fod.from_tensors(elements, oblique)
    voxels = np.argwhere(fod.support)[::7]
    wanted = expected[tuple(voxels.T)]
    sizes = np.linalg.norm(wanted, axis=1)
    seeds = Seeds.at(fod.grid.to_mm(voxels), wanted / sizes[:, None])
    given = TrackingParameters(
        algorithm="deterministic", start="given", direction="forward", step_mm=0.5,
        max_length_mm=0.5, min_amplitude=0.0, min_length_mm=0.0, max_angle_deg=30.0,
    )  # fmt: skip
    lines = track(fod, seeds, given, backend="cpu")
    steps = np.array([line[1] - line[0] for line in lines]) / 0.5
    cosines = (steps * wanted[lines.seed_index] / sizes[lines.seed_index, None]).sum(axis=1)
    assert len(steps) > 0.9 * len(voxels)
    assert cosines.min() > 1 - 1e-5
    np.testing.assert_allclose(fod.overview()[tuple(voxels.T)], sizes, atol=1e-4)


def test_streamlines_by_tensors_are_those_of_tensor_det(mrtrix, tmp_path):
    """It interpolates signals where we interpolate tensors: they stay within a tenth of a voxel."""
    elements = swirl()
    rng = np.random.default_rng(0)
    units = rng.normal(size=(60, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    squares = np.stack([units[:, i] * units[:, j] * (1 if i == j else 2) for i, j in
                        ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))], axis=1)  # fmt: skip
    signal = 1000 * np.exp(-1000.0 * elements @ squares.T)
    dwi = np.concatenate([np.full((*elements.shape[:3], 1), 1000.0), signal], axis=3)
    nib.save(nib.Nifti1Image(dwi.astype(np.float32), AFFINE), tmp_path / "dwi.nii")
    table = np.concatenate([[[0, 0, 0, 0]], np.column_stack([units, np.full(60, 1000.0)])])
    np.savetxt(tmp_path / "grad.b", table)
    mask = np.zeros(elements.shape[:3], np.uint8)
    mask[3:13, 3:13, 2:4] = 1
    mask[6:10, 6:10] = 0
    nib.save(nib.Nifti1Image(mask, AFFINE), tmp_path / "mask.nii")
    mrtrix("mrconvert", "dwi.nii", "-grad", "grad.b", "dwi.mif")
    mrtrix(
        "tckgen", "-algorithm", "Tensor_Det", "dwi.mif", "det.tck", "-seed_image", "mask.nii",
        "-seeds", 100, "-seed_unidirectional", "-step", 0.2, "-angle", 20, "-cutoff", 0.1,
        "-minlength", 4, "-maxlength", 12, "-nthreads", 0,
    )  # fmt: skip
    lines = list(load_tractogram(tmp_path / "det.tck"))
    assert len(lines) > 50
    found = retracked(
        Fod.from_tensors(elements, AFFINE), lines, step_mm=0.2, max_angle_deg=20.0,
        min_amplitude=0.1, max_length_mm=12.0,
    )  # fmt: skip
    assert len(found) == len(lines)
    apart = []
    for one, other in zip(found, lines, strict=True):
        n = min(len(one), len(other), 40)
        apart.append(np.linalg.norm(one[:n] - other[:n], axis=1).max())
    assert np.median(apart) < 0.05
    assert max(apart) < 0.2
    assert np.mean(found.stop_reasons[:, 1] == StopReason.NO_FOD) < 0.5
