"""Where the FOD ends: with its voxels, as for tckgen, or with its interpolation."""

from __future__ import annotations

import os
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from toys import POLE, random_fod, straight_fod

from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.engine import track

UP = direction_set(724)[POLE].astype(float)


@pytest.fixture(scope="module")
def islands():
    """Random FODs in some voxels and nothing in the others.

    ::

        * . * *
        . * * .
    """
    fod = random_fod(8, shape=(9, 9, 9), seed=4)
    values = fod.coefficients
    values[np.random.default_rng(4).random((9, 9, 9)) < 0.3] = 0
    return Fod(values, np.eye(4))


def in_empty_voxels(fod, points):
    """(n,) bool: which points lie in voxels of the image without an FOD."""
    voxels = np.floor(fod.grid.to_voxel(points) + 0.5).astype(int)
    inside = ((voxels >= 0) & (voxels < fod.grid.shape)).all(axis=1)
    assert inside.all()
    return ~fod.support[tuple(voxels.T)]


@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic", "transport"])
def test_with_voxels_only_the_last_point_lies_in_an_empty_voxel(islands, algorithm):
    seeds = Seeds.in_mask(islands.support, islands.grid, 300)
    parameters = TrackingParameters(
        algorithm=algorithm, step_mm=0.2, max_length_mm=30.0, min_amplitude=0.0, max_angle_deg=40.0
    )
    found = track(islands, seeds, parameters)
    n_ends = 0
    for line, reasons in zip(found, found.stop_reasons, strict=True):
        empty = in_empty_voxels(islands, line)
        assert not empty[1:-1].any()
        assert empty[0] == (reasons[0] == StopReason.NO_FOD)
        assert empty[-1] == (reasons[1] == StopReason.NO_FOD)
        n_ends += int(empty[0]) + int(empty[-1])
    assert n_ends > 100


@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic", "transport"])
def test_with_interpolation_lines_run_on_through_empty_voxels(islands, algorithm):
    seeds = Seeds.in_mask(islands.support, islands.grid, 300)
    parameters = TrackingParameters(
        algorithm=algorithm,
        step_mm=0.2,
        max_length_mm=30.0,
        min_amplitude=0.0,
        max_angle_deg=40.0,
        edge="interpolated",
    )
    found = track(islands, seeds, parameters)
    n_empty = sum(int(in_empty_voxels(islands, line)[1:-1].sum()) for line in found)
    assert n_empty > 100
    assert (
        found.lengths_mm.mean()
        > track(islands, seeds, parameters.replace(edge="voxel")).lengths_mm.mean()
    )


@pytest.mark.parametrize(("edge", "starts"), [("voxel", 0), ("interpolated", 20)])
def test_a_seed_in_an_empty_voxel_beside_fibres_starts_only_with_interpolation(edge, starts):
    values = straight_fod(shape=(3, 3, 8), direction=POLE).coefficients
    values[:, :, 5:] = 0
    found = track(
        Fod(values, np.eye(4)),
        Seeds.at(np.tile((1.0, 1.0, 4.6), (20, 1))),
        TrackingParameters(edge=edge, min_amplitude=0.0, max_length_mm=2.0),
    )
    assert len(found) == starts
    if not starts:
        assert found.tally == {StopReason.SEED_WITHOUT_FOD: 20}


def test_lines_end_where_those_of_tckgen_end(tmp_path):
    """Fibres along z that end between two voxels: how far tckgen goes, and how far we do."""
    tckgen = shutil.which("tckgen")
    if tckgen is None:
        pytest.skip("tckgen of MRtrix3 is not installed")
    values = straight_fod(shape=(5, 5, 12), direction=POLE).coefficients
    values[:, :, 7:] = 0
    path, out = tmp_path / "fod.nii", tmp_path / "out.tck"
    nib.save(nib.Nifti1Image(values, np.eye(4)), path)
    command = [tckgen, "-quiet", path, out, "-algorithm", "SD_STREAM", "-nthreads", "0"]
    command += ["-seed_sphere", "2,2,3,0.3", "-seeds", "200", "-select", "0", "-step", "0.1"]
    command += ["-angle", "20", "-cutoff", "0.1", "-minlength", "0", "-maxlength", "100"]
    subprocess.run(
        [*map(str, command)],
        check=True,
        capture_output=True,
        timeout=100,
        env=os.environ | {"MRTRIX_RNG_SEED": "1"},
    )
    theirs = [max(line[:, 2]) for line in nib.streamlines.load(out).streamlines]
    assert len(theirs) > 20
    ends = {}
    for edge in ("voxel", "interpolated"):
        lines = track(
            Fod(values, np.eye(4)),
            Seeds.in_sphere((2, 2, 3), 0.3, 50),
            TrackingParameters(
                algorithm="deterministic",
                edge=edge,
                step_mm=0.1,
                max_angle_deg=20.0,
                min_amplitude=0.1,
            ),
        )
        ends[edge] = [max(line[:, 2]) for line in lines]
    assert 6.4 < np.min(theirs) <= np.max(theirs) < 6.7  # the voxel ends at 6.5
    assert 6.5 <= np.min(ends["voxel"]) <= np.max(ends["voxel"]) < 6.61
    assert abs(np.mean(ends["voxel"]) - np.mean(theirs)) <= 0.11
    assert np.min(ends["interpolated"]) > 6.9
