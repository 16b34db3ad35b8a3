"""Connectomes against hand-drawn ones and MRtrix3's tck2connectome."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_tractography.errors import (
    FileError,
    InvalidMaskError,
    InvalidParameterError,
    InvalidTractogramError,
)
from napari_tractography.files.volume_files import save_volume
from napari_tractography.files.weights import save_weights
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.connectome import connectome
from napari_tractography.streamlines.tractogram import Tractogram

needs_mrtrix = pytest.mark.skipif(
    shutil.which("tck2connectome") is None, reason="MRtrix3's tck2connectome is not installed"
)


@pytest.fixture
def row_of_labels() -> NDArray[np.int16]:
    """Ten voxels in a row: 5 5 . . 2 2 . . 9 9."""
    return np.array([5, 5, 0, 0, 2, 2, 0, 0, 9, 9], np.int16).reshape(10, 1, 1)


@pytest.fixture
def lines() -> Tractogram:
    """5 to 2 (4 mm), 2 to 5 (3 mm), 5 to 9 (8 mm, bent: 10), 9 to 9, 9 to nowhere, out of it."""
    return Tractogram.from_streamlines(
        [
            [[0, 0, 0], [4, 0, 0]],
            [[4, 0, 0], [1, 0, 0]],
            [[0, 0, 0], [4, 3, 0], [8, 0, 0]],
            [[8, 0, 0], [9, 0, 0]],
            [[8, 0, 0], [7, 0, 0]],
            [[8, 0, 0], [12, 0, 0]],
        ]
    )


def test_counts_and_lengths(row_of_labels: NDArray[np.int16], lines: Tractogram) -> None:
    found = connectome(lines, row_of_labels, np.eye(4))
    assert found.labels.tolist() == [2, 5, 9]
    assert found.counts.tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 1]]
    assert found.mean_lengths_mm.tolist() == [[0, 3.5, 0], [3.5, 0, 10], [0, 10, 1]]
    assert found.n_unassigned == 2
    assert found.n_assigned == 4


def test_directed_counts_keep_first_and_last_apart(
    row_of_labels: NDArray[np.int16], lines: Tractogram
) -> None:
    found = connectome(lines, row_of_labels, np.eye(4), directed=True)
    assert found.counts.tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert found.mean_lengths_mm.tolist() == [[0, 3, 0], [4, 0, 10], [0, 0, 1]]
    assert found.n_assigned == 4


def test_radius_reaches_the_nearest_label(
    row_of_labels: NDArray[np.int16], lines: Tractogram
) -> None:
    found = connectome(lines, row_of_labels, np.eye(4), radius_mm=1.0)
    assert found.n_unassigned == 1  # x = 7 reaches 8; x = 12 is 3 mm from 9
    assert connectome(lines, row_of_labels, np.eye(4), radius_mm=3.0).n_unassigned == 0


def test_stored_lengths_count_not_those_of_endpoints(row_of_labels: NDArray[np.int16]) -> None:
    ends = Tractogram(
        np.array([[0, 0, 0], [8, 0, 0]], np.float32), [0, 2], lengths_mm=np.array([12.5])
    )
    assert connectome(ends, row_of_labels, np.eye(4)).mean_lengths_mm.max() == 12.5


def test_streamlines_without_points_are_unassigned(row_of_labels: NDArray[np.int16]) -> None:
    lines = Tractogram(np.zeros((2, 3), np.float32), [0, 0, 2])
    found = connectome(lines, row_of_labels, np.eye(4))
    assert found.n_unassigned == 1
    assert found.counts.sum() == 1


def test_no_assigned_streamline_is_told(
    row_of_labels: NDArray[np.int16], lines: Tractogram, caplog: pytest.LogCaptureFixture
) -> None:
    far = np.eye(4)
    far[0, 3] = 500.0
    with caplog.at_level(logging.WARNING):
        assert connectome(lines, row_of_labels, far).n_assigned == 0
    assert "None of the 6 streamlines" in caplog.text


def test_nan_is_no_label(row_of_labels: NDArray[np.int16], lines: Tractogram) -> None:
    """As float images have outside the brain."""
    gaps = np.where(row_of_labels == 0, np.nan, row_of_labels).astype(np.float32)
    found, wanted = (connectome(lines, each, np.eye(4)) for each in (gaps, row_of_labels))
    assert found.labels.tolist() == wanted.labels.tolist()
    np.testing.assert_array_equal(found.counts, wanted.counts)
    assert found.n_unassigned == wanted.n_unassigned > 0
    with pytest.raises(InvalidMaskError, match="are all 0 or NaN"):
        connectome(lines, np.full_like(gaps, np.nan), np.eye(4))


def test_csv_has_labels_in_its_first_row_and_column(
    row_of_labels: NDArray[np.int16], lines: Tractogram, tmp_path: Path
) -> None:
    found = connectome(lines, row_of_labels, np.eye(4))
    found.save_counts(tmp_path / "counts.csv")
    found.save_mean_lengths(tmp_path / "lengths.csv")
    assert (tmp_path / "counts.csv").read_text() == "label,2,5,9\n2,0,2,0\n5,2,0,1\n9,0,1,1\n"
    assert (
        tmp_path / "lengths.csv"
    ).read_text() == "label,2,5,9\n2,0,3.5,0\n5,3.5,0,10\n9,0,10,1\n"
    with pytest.raises(FileError, match="does not exist"):
        found.save_counts(tmp_path / "absent" / "counts.csv")


@pytest.mark.parametrize(
    ("labels", "radius_mm", "error", "words"),
    [
        pytest.param(np.ones((2, 2)), 0.0, InvalidMaskError, r"\(2, 2\)", id="2-D"),
        pytest.param(np.zeros((2, 2, 2)), 0.0, InvalidMaskError, "all 0", id="empty"),
        pytest.param(np.zeros((0, 2, 2)), 0.0, InvalidMaskError, "all 0", id="no voxels"),
        pytest.param(np.full((2, 2, 2), 0.5), 0.0, InvalidMaskError, "0.5", id="fractions"),
        pytest.param(np.full((2, 2, 2), -1), 0.0, InvalidMaskError, "-1", id="negative"),
        pytest.param(np.full((2, 2, 2), np.nan), 0.0, InvalidMaskError, "all 0 or NaN", id="NaN"),
        pytest.param(np.full((2, 2, 2), 1j), 0.0, InvalidMaskError, "complex128", id="complex"),
        pytest.param(np.full((2, 2, 2), "1"), 0.0, InvalidMaskError, "<U1", id="texts"),
        pytest.param(np.ones((2, 2, 2)), -1.0, InvalidParameterError, "-1 mm", id="radius"),
    ],
)
def test_nonsense_is_refused(
    labels: NDArray[np.float64], radius_mm: float, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        connectome(Tractogram.empty(), labels, np.eye(4), radius_mm=radius_mm)


def test_a_grid_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidMaskError, match=r"have shape \(2, 2, 2\) but their grid has \(3,"):
        connectome(Tractogram.empty(), np.ones((2, 2, 2)), Grid((3, 3, 3), np.eye(4)))


@needs_mrtrix
@pytest.mark.parametrize("radius_mm", [0.0, 3.0])
@pytest.mark.parametrize("statistic", ["counts", "lengths"])
def test_connectome_is_that_of_tck2connectome(
    tmp_path: Path, radius_mm: float, statistic: str
) -> None:
    rng = np.random.default_rng(4)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    affine = np.eye(4)
    affine[:3, :3] = turn * [2.0, 2.5, 1.5]
    grid = Grid((12, 11, 13), affine)
    labels = rng.integers(0, 9, (4, 4, 5)).astype(np.int16)
    labels = np.kron(labels, np.ones((3, 3, 3), np.int16))[:12, :11, :13]
    ends = grid.to_mm(rng.uniform(-1.5, 13, (300, 2, 3)))
    lines = Tractogram.from_streamlines(ends)
    lines.save(tmp_path / "lines.tck")
    save_volume(labels, grid, tmp_path / "labels.nii.gz")
    how = ["-assignment_radial_search", str(radius_mm)] if radius_mm else ["-assignment_end_voxels"]
    what = ["-scale_length", "-stat_edge", "mean"] if statistic == "lengths" else []
    subprocess.run(
        ["tck2connectome", "-quiet", "-symmetric", *how, *what, "lines.tck", "labels.nii.gz",
         "out.csv"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    theirs = np.loadtxt(tmp_path / "out.csv", delimiter=",")
    found = connectome(lines, labels, grid, radius_mm=radius_mm)
    assert found.labels.tolist() == list(range(1, 9))
    assert found.n_assigned > 50
    if statistic == "counts":
        assert np.array_equal(found.counts, theirs)
    else:
        assert np.allclose(found.mean_lengths_mm, theirs, rtol=1e-4)


def test_weights_are_summed_and_weigh_lengths(row_of_labels: NDArray[np.int16]) -> None:
    lines = Tractogram.from_streamlines(
        [[[0, 0, 0], [4, 0, 0]], [[5, 0, 0], [1, 0, 0]], [[0, 0, 0], [5, 0, 0]]]
    )
    weights = [0.5, 1.5, 0.0]
    found = connectome(lines, row_of_labels, np.eye(4), weights=weights)
    between = tuple(np.searchsorted(found.labels, [2, 5]))
    assert found.counts[between] == 2.0
    assert found.mean_lengths_mm[between] == 4.0
    assert found.n_assigned == 3
    longer = connectome(lines, row_of_labels, np.eye(4), weights=[1.0, 1.0, 2.0])
    assert longer.mean_lengths_mm[between] == 4.5


@needs_mrtrix
def test_weighted_connectome_is_that_of_tck2connectome(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    grid = Grid((12, 12, 12), np.diag([2.0, 2.5, 1.5, 1.0]))
    labels = np.kron(rng.integers(0, 5, (4, 4, 4)), np.ones((3, 3, 3))).astype(np.int16)
    lines = Tractogram.from_streamlines(grid.to_mm(rng.uniform(-0.4, 11.4, (300, 2, 3))))
    weights = rng.random(300).astype(np.float32)
    lines.save(tmp_path / "lines.tck")
    save_volume(labels, grid, tmp_path / "labels.nii.gz")
    save_weights(weights, tmp_path / "w.txt")
    subprocess.run(
        ["tck2connectome", "-quiet", "-symmetric", "-assignment_end_voxels", "-tck_weights_in",
         "w.txt", "lines.tck", "labels.nii.gz", "out.csv"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    theirs = np.loadtxt(tmp_path / "out.csv", delimiter=",")
    found = connectome(lines, labels, grid, weights=weights)
    assert np.allclose(found.counts, theirs, rtol=1e-4)
    found.save_counts(tmp_path / "ours.csv")
    rows = [row.split(",")[1:] for row in (tmp_path / "ours.csv").read_text().splitlines()[1:]]
    assert np.allclose(np.array(rows, float), theirs, rtol=1e-4)


def test_what_are_no_streamlines_and_what_is_no_radius_is_told(
    row_of_labels: NDArray[np.int16],
) -> None:
    with pytest.raises(InvalidTractogramError, match="of type str"):
        connectome("bundle.tck", row_of_labels, np.eye(4))
    with pytest.raises(InvalidParameterError, match="radius_mm = '2' mm is out of range"):
        connectome(Tractogram.empty(), row_of_labels, np.eye(4), radius_mm="2")
