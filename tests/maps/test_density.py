"""Track density against closed forms, dense sampling and MRtrix3's tckmap."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError, InvalidTractogramError
from napari_tractography.files.volume_files import save_volume
from napari_tractography.files.weights import save_weights
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.density import density, ends_by_reason
from napari_tractography.model.stop import StopReason
from napari_tractography.streamlines.tractogram import Tractogram

needs_mrtrix = pytest.mark.skipif(
    shutil.which("tckmap") is None, reason="MRtrix3's tckmap is not installed"
)
UNIT = Grid((8, 8, 8), np.eye(4))
OBLIQUE = np.array(
    [
        [1.9, -0.6, 0.1, -14.0],
        [0.5, 2.1, -0.4, -20.0],
        [0.2, 0.3, 2.5, -18.0],
        [0.0, 0.0, 0.0, 1.0],
    ]
)


def _lines(*lines: list[list[float]]) -> Tractogram:
    return Tractogram.from_streamlines(lines)


def _curves(n: int, seed: int) -> Tractogram:
    """Smooth random walks about the origin, +-20 mm."""
    rng = np.random.default_rng(seed)
    curves = []
    for _ in range(n):
        turns = np.cumsum(rng.normal(scale=0.2, size=(60, 3)), axis=0) + rng.normal(size=3)
        steps = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        curves.append(rng.uniform(-8, 8, 3) + np.cumsum(0.7 * steps, axis=0))
    return Tractogram.from_streamlines(curves)


def test_two_points_fill_the_voxels_between_them() -> None:
    #   y
    #   1 . . . . .
    #   0 # # # # .     one segment from x = 0 to x = 3
    found = density(_lines([[0, 0, 0], [3, 0, 0]]), UNIT)
    wanted = np.zeros(UNIT.shape, int)
    wanted[:4, 0, 0] = 1
    assert np.array_equal(found, wanted)
    assert found.dtype == np.int32


def test_corner_that_is_cut_counts() -> None:
    # From (0, 0) to (1, 1), bent a little towards x: through a corner of voxel (1, 0).
    found = density(_lines([[0.1, 0, 0], [1.1, 1, 0]]), UNIT)
    assert set(zip(*np.nonzero(found), strict=True)) == {(0, 0, 0), (1, 0, 0), (1, 1, 0)}


def test_streamline_counts_once_in_a_voxel_it_comes_back_to() -> None:
    there_and_back = [[0, 0, 0], [3, 0, 0], [0, 0, 0]]
    found = density(_lines(there_and_back, [[0, 0, 0], [0.2, 0.1, 0]]), UNIT)
    assert found[0, 0, 0] == 2
    assert found[2, 0, 0] == 1


def test_voxels_are_centred_at_whole_coordinates() -> None:
    found = density(_lines([[-0.49, 7.49, 0], [-0.49, 7.49, 0.1]]), UNIT)
    assert found[0, 7, 0] == 1
    assert found.sum() == 1


def test_single_points_and_empty_streamlines_are_no_trouble() -> None:
    lone = Tractogram(np.array([[2, 2, 2]], np.float32), [0, 0, 1, 1])
    found = density(lone, UNIT)
    assert found[2, 2, 2] == found.sum() == 1


def test_streamlines_may_leave_and_come_back() -> None:
    found = density(_lines([[3, 3, 3], [3, 3, 40], [4, 3, 40], [4, 3, 3]]), UNIT)
    wanted = np.zeros(UNIT.shape, int)
    wanted[3:5, 3, 3:] = 1
    assert np.array_equal(found, wanted)


def test_far_points_cost_nothing_and_change_nothing() -> None:
    found = density(_lines([[3, 3, 3], [3e30, 3, 3]], [[-1e30, 9e30, 0], [1e30, 9e30, 0]]), UNIT)
    assert np.array_equal(np.argwhere(found), [[x, 3, 3] for x in range(3, 8)])


def test_ends_only() -> None:
    found = density(_lines([[0, 0, 0], [3, 1, 0], [6, 0, 0]]), UNIT, ends_only=True)
    assert np.array_equal(np.argwhere(found), [[0, 0, 0], [6, 0, 0]])


@pytest.mark.parametrize(
    "linear",
    [
        pytest.param(np.eye(3), id="straight"),
        pytest.param(np.diag([-1.5, 2.0, 3.0]), id="left-handed"),
        pytest.param(OBLIQUE[:3, :3], id="oblique"),
    ],
)
def test_density_is_that_of_dense_sampling(linear: NDArray[np.float64]) -> None:
    affine = np.eye(4)
    affine[:3, :3] = linear
    affine[:3, 3] = -linear @ [6.5, 7.0, 6.0]  # about the origin, as the curves
    grid = Grid((14, 15, 13), affine)
    curves = _curves(40, seed=1)
    found = density(curves, grid)
    sampled = np.zeros(grid.shape, int)
    for line in curves:
        share = np.linspace(0, 1, 1500, endpoint=False)[None, :, None]
        start, end = line[:-1, None].astype(float), line[1:, None].astype(float)
        dense = np.concatenate([(start + share * (end - start)).reshape(-1, 3), line[-1:]])
        voxels = np.floor(grid.to_voxel(dense) + 0.5).astype(int)
        inside = ((voxels >= 0) & (voxels < grid.shape)).all(axis=1)
        sampled[tuple(np.unique(voxels[inside], axis=0).T)] += 1
    assert sampled.sum() > 300
    assert (found >= sampled).all()  # samples miss the smallest corners only
    assert (found - sampled).sum() <= 1e-3 * sampled.sum()


@settings(max_examples=50, deadline=None)
@given(
    start=st.tuples(*[st.floats(-3, 10, width=32)] * 3),
    end=st.tuples(*[st.floats(-3, 10, width=32)] * 3),
    share=st.floats(0.0, 1.0),
)
def test_point_in_the_middle_changes_nothing_but_corners(
    start: tuple[float, ...], end: tuple[float, ...], share: float
) -> None:
    one = density(_lines([start, end]), UNIT)  # type: ignore[arg-type]
    visited = np.argwhere(one)
    # Voxels follow one another through faces: as many as the faces between first and last, plus 1.
    if len(visited):
        assert one.max() == 1
        spans = np.ptp(visited, axis=0).sum()
        assert len(visited) == spans + 1
    middle = np.float32(np.array(start) + share * (np.array(end) - np.array(start)))
    inside = ((middle > -0.5) & (middle < 7.5)).all()
    two = density(_lines([start, middle.tolist(), end]), UNIT)  # type: ignore[list-item]
    if inside:
        assert two[tuple(np.floor(middle + 0.5).astype(int))] == 1
        # The point rounded to float32 may lie across a face of the exact segment.
        assert np.abs(two.sum() - one.sum()) <= 3


def test_densities_of_chunks_add_up() -> None:
    curves = _curves(30, seed=2)
    grid = Grid((14, 15, 13), OBLIQUE)
    assert np.array_equal(
        density(curves[:11], grid) + density(curves[11:], grid), density(curves, grid)
    )


def test_streamlines_elsewhere_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not density(_lines([[90, 0, 0], [99, 0, 0]]), UNIT).any()
    assert "None of the 1 streamlines" in caplog.text


@needs_mrtrix
@pytest.mark.parametrize("ends_only", [False, True])
def test_density_is_that_of_tckmap(tmp_path: Path, ends_only: bool) -> None:
    grid = Grid((14, 15, 13), OBLIQUE)
    # An MRtrix transform is a rotation with voxel sizes: no shear.
    left, _, right = np.linalg.svd(OBLIQUE[:3, :3])
    affine = OBLIQUE.copy()
    affine[:3, :3] = left @ right * [2.0, 2.2, 2.5]
    grid = Grid(grid.shape, affine)
    curves = _curves(200, seed=3)
    curves.save(tmp_path / "curves.tck")
    save_volume(np.zeros(grid.shape, np.uint8), grid, tmp_path / "template.nii.gz")
    subprocess.run(
        ["tckmap", "-quiet", "-template", "template.nii.gz", "-upsample", "400",
         *(["-ends_only"] if ends_only else []), "curves.tck", "tdi.nii.gz"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    theirs = np.asarray(nib.load(tmp_path / "tdi.nii.gz").dataobj)
    ours = density(curves, grid, ends_only=ends_only)
    assert theirs.sum() > 150
    if ends_only:
        # A streamline with both ends in one voxel counts once with us, as everywhere.
        assert np.abs(ours - theirs).sum() <= 1
    else:
        # Tckmap interpolates by Hermite splines where it samples between points, and so rounds
        # the bends of a polyline.
        assert np.abs(ours - theirs).sum() <= 0.02 * theirs.sum()
        assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.995


def test_weights_are_summed() -> None:
    lines = _lines([[0, 0, 0], [2, 0, 0]], [[1, 0, 0], [3, 0, 0]], [[1, 0, 0], [1, 2, 0]])
    found = density(lines, UNIT, weights=[0.5, 2.0, 0.25])
    assert found.dtype == np.float64
    assert found[:5, 0, 0].tolist() == [0.5, 2.75, 2.5, 2.0, 0.0]
    ends = density(lines, UNIT, weights=[0.5, 2.0, 0.25], ends_only=True)
    assert ends[:5, 0, 0].tolist() == [0.5, 2.25, 0.5, 2.0, 0.0]
    with pytest.raises(InvalidTractogramError, match="3 streamlines"):
        density(lines, UNIT, weights=[1.0])


@pytest.mark.parametrize("weights", ["w.txt", [1, "a", 2], [[1], [1, 2]], {"w": 1}])
def test_what_are_no_weights_is_told(weights: Any) -> None:
    lines = _lines([[0, 0, 0], [2, 0, 0]])
    labels = np.ones((3, 3, 3), int)
    for use in (
        lambda: lines.with_weights(weights),
        lambda: density(lines, UNIT, weights=weights),
        lambda: density(iter([lines]), UNIT, weights=weights),
        lambda: nt.connectome(iter([lines]), labels, np.eye(4), weights=weights),
    ):
        with pytest.raises(InvalidTractogramError, match="no list of real numbers"):
            use()


@pytest.mark.parametrize("weights", [1.0, [[1.0]]])
def test_weights_of_another_shape_are_told_of_chunks_too(weights: Any) -> None:
    lines = _lines([[0, 0, 0], [2, 0, 0]], [[0, 0, 0], [2, 0, 0]])
    with pytest.raises(InvalidTractogramError, match="2 streamlines"):
        density(iter([lines]), UNIT, weights=weights)


def test_what_is_no_grid_and_what_are_no_streamlines_is_told() -> None:
    line = _lines([[0, 0, 0], [1, 1, 1]])
    with pytest.raises(InvalidParameterError, match=r"grid = 'wm.nii' is of type str; give a Grid"):
        density(line, "wm.nii")  # type: ignore[call-overload]
    with pytest.raises(InvalidTractogramError, match="Streamlines are of type str"):
        density("b.tck", UNIT)  # type: ignore[call-overload]


def test_weights_of_one_are_counts() -> None:
    curves = _curves(50, 3)
    assert np.array_equal(density(curves, UNIT, weights=np.ones(50)), density(curves, UNIT))


def test_weights_of_zero_are_no_sign_of_another_space(caplog: pytest.LogCaptureFixture) -> None:
    density(_lines([[0, 0, 0], [2, 0, 0]]), UNIT, weights=[0.0])
    assert caplog.text == ""


@needs_mrtrix
def test_weighted_ends_are_those_of_tckmap(tmp_path: Path) -> None:
    tractogram, grid = _curves(200, 8), Grid((12, 11, 10), OBLIQUE)
    save_volume(np.ones(grid.shape, np.uint8), grid, tmp_path / "template.nii.gz")
    tractogram.save(tmp_path / "t.tck")
    weights = np.random.default_rng(1).random(200).astype(np.float32)
    save_weights(weights, tmp_path / "w.txt")
    subprocess.run(
        ["tckmap", "-quiet", "-template", "template.nii.gz", "-ends_only", "-tck_weights_in",
         "w.txt", "t.tck", "d.nii.gz"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    wanted = np.asarray(nib.load(tmp_path / "d.nii.gz").dataobj)
    found = density(tractogram, grid, ends_only=True, weights=weights)
    assert found.max() > 1
    assert np.allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_ends_are_counted_by_reason() -> None:
    lines = Tractogram(
        [[0, 0, 0], [3, 0, 0], [0, 0.4, 0], [3, 3, 3], [9, 0, 0], [3, 0.4, 0]],
        [0, 2, 4, 6],
        stop_reasons=[[3, 4], [0, 3], [3, 4]],
    )
    found = ends_by_reason([lines[:2], lines[2:]], UNIT)
    assert list(found) == [StopReason.NO_FOD, StopReason.LOW_AMPLITUDE]
    assert np.argwhere(found[StopReason.NO_FOD]).tolist() == [[0, 0, 0], [3, 3, 3]]  # one outside
    assert np.argwhere(found[StopReason.LOW_AMPLITUDE]).tolist() == [[3, 0, 0]]
    assert found[StopReason.LOW_AMPLITUDE].max() == 2
    with pytest.raises(InvalidTractogramError, match="do not tell why"):
        ends_by_reason(_lines([[0, 0, 0], [3, 0, 0]]), UNIT)
    assert ends_by_reason(Tractogram.empty(), UNIT) == {}


def test_ends_by_reason_lie_in_the_voxels_of_the_ends() -> None:
    on_faces = [[[x, 1, 1], [3, 1, 1], [x + 1, 1, 1]] for x in (-0.5, 0.5, 1.5, 6.5, 7.5)]
    lines = Tractogram.from_streamlines([[], *on_faces, []])
    reasons = np.full((len(lines), 2), StopReason.NO_FOD)
    lines = Tractogram(lines.points, lines.offsets, stop_reasons=reasons)
    found = ends_by_reason(lines, UNIT)[StopReason.NO_FOD]
    assert found.sum() == 7  # of ten ends three lie at 7.5 and 8.5, outside
    assert np.array_equal(found > 0, density(lines, UNIT, ends_only=True) > 0)


def test_streamlines_without_points_have_no_ends() -> None:
    """They have no reason, and those of the streamlines around them are theirs alone."""
    reasons = np.full((5, 2), StopReason.LEFT_IMAGE, np.uint8)
    lines = Tractogram(
        [[0, 0, 0], [3, 0, 0], [1, 0, 0], [2, 0, 0]], [0, 0, 2, 2, 4, 4], stop_reasons=reasons
    )
    (counts,) = ends_by_reason(lines, UNIT).values()
    assert counts[:, 0, 0].tolist()[:4] == [1, 1, 1, 1]
    assert counts.sum() == 4


def test_ends_elsewhere_are_told(caplog: pytest.LogCaptureFixture) -> None:
    lines = _lines([[50, 0, 0], [53, 0, 0]])
    known = Tractogram(lines.points, lines.offsets, stop_reasons=[[1, 1]])
    (counts,) = ends_by_reason(known, UNIT).values()
    assert not counts.any()
    assert "No end of the 1 streamlines lies in the image, which spans" in caplog.text
