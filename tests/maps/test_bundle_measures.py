"""Measures of bundles against known bodies, closed forms and MRtrix3's tcksample."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_tractography.errors import InvalidParameterError
from napari_tractography.files.volume_files import save_volume
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps import chunks
from napari_tractography.maps.bundle_measures import asymmetry, measure, sides, surface_mm2
from napari_tractography.maps.scalar_maps import ScalarMap
from napari_tractography.streamlines.tractogram import Tractogram

TURN = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
BEVEL = 1 - math.sqrt(0.5)  # what marching cubes take off each edge of a box, by length


def turned_grid(shape: tuple[int, int, int], voxel_mm: float) -> Grid:
    affine = np.eye(4)
    affine[:3, :3] = TURN * voxel_mm
    affine[:3, 3] = (-7.0, 3.0, 11.0)
    return Grid(shape, affine)


def walks(n: int, seed: int) -> Tractogram:
    """Random walks of some 20 points about (20, 20, 20) mm."""
    rng = np.random.default_rng(seed)
    return Tractogram.from_streamlines(
        [20 + np.cumsum(rng.normal(size=(rng.integers(15, 25), 3)), axis=0) / 2 for _ in range(n)]
    )


@pytest.fixture
def ladder() -> Tractogram:
    """Lines along x from x = 0, of 1, 2, 3, 4 and 5 mm, 2 mm apart along y."""
    return Tractogram.from_streamlines(
        [np.array([[0, 2 * k, 0], [k + 1, 2 * k, 0]]) for k in range(5)]
    )


def test_lengths_and_volume(ladder: Tractogram) -> None:
    found = measure(ladder, grid=Grid((10, 10, 3), np.eye(4)), name="ladder")
    assert (found.name, found.n_streamlines) == ("ladder", 5)
    assert found.mean_length_mm == found.median_length_mm == 3
    assert (found.q1_length_mm, found.q3_length_mm) == (2, 4)
    assert found.volume_mm3 == 2 + 3 + 4 + 5 + 6


def test_without_a_grid_voxels_are_of_one_millimetre(ladder: Tractogram) -> None:
    found = measure(ladder)
    assert found.grid.voxel_sizes_mm.tolist() == [1, 1, 1]
    assert found.volume_mm3 == 20
    assert np.array_equal(found.grid.affine[:3, 3] % 1, np.zeros(3))


def test_a_scalar_map_brings_its_grid(ladder: Tractogram) -> None:
    grid = turned_grid((9, 8, 7), 2.0)
    found = measure(ladder, [ScalarMap(np.ones(grid.shape, np.float32), grid, "FA")])
    assert found.grid == grid


@pytest.mark.parametrize("voxel_mm", [1.0, 2.5])
def test_surface_of_a_box_is_that_of_a_box_with_bevelled_edges(voxel_mm: float) -> None:
    inside = np.zeros((30, 20, 20), bool)
    a, b, c = 20, 12, 8
    inside[:a, 4 : 4 + b, 5 : 5 + c] = True  # one side at the end of the image
    box = 2 * (a * b + b * c + c * a) - 4 * (a + b + c) * BEVEL
    found = surface_mm2(inside, turned_grid(inside.shape, voxel_mm)) / voxel_mm**2
    assert found == pytest.approx(box, abs=4)  # at the eight corners


def test_surface_of_a_ball_is_nine_percent_too_large() -> None:
    at = np.indices((50, 50, 50)) - 24.5
    inside = (at**2).sum(axis=0) <= 20**2
    found = surface_mm2(inside, Grid(inside.shape, np.eye(4)))
    assert found / (4 * math.pi * 20**2) == pytest.approx(1.09, abs=0.02)


@pytest.mark.parametrize(("edge", "too_large"), [(2, 1.12), (3, 1.16)])
def test_surface_of_a_ball_is_larger_still_where_voxels_are_long(
    edge: int, too_large: float
) -> None:
    x, y, z = np.ogrid[-33:34, -33:34, -17:18]
    inside = x**2 + y**2 + (edge * z) ** 2 <= 30**2
    found = surface_mm2(inside, Grid(inside.shape, np.diag([1, 1, edge, 1])))
    assert found == pytest.approx(too_large * 4 * np.pi * 30**2, rel=0.008)


def test_surface_of_nothing_is_nothing() -> None:
    assert surface_mm2(np.zeros((3, 3, 3), bool), Grid((3, 3, 3), np.eye(4))) == 0


def test_mean_along_a_ramp_is_its_value_in_the_middle(ladder: Tractogram) -> None:
    grid = Grid((12, 12, 3), np.eye(4))
    ramp = ScalarMap(np.indices(grid.shape)[0].astype(np.float32), grid, "ramp")
    assert ramp.means_along(ladder).tolist() == [0.5, 1, 1.5, 2, 2.5]
    found = measure(ladder, [ramp]).scalars["ramp"]
    assert found.mean == 1.5
    assert found.sd == pytest.approx(math.sqrt(0.5))


def test_points_count_by_the_length_that_they_stand_for() -> None:
    grid = Grid((12, 3, 3), np.eye(4))
    ramp = ScalarMap(np.indices(grid.shape)[0].astype(np.float32), grid, "ramp")
    crowded = Tractogram.from_streamlines([[[0, 1, 1], [0.1, 1, 1], [0.2, 1, 1], [10, 1, 1]]])
    assert ramp.means_along(crowded) == pytest.approx(5)


def test_what_is_outside_or_unknown_does_not_count() -> None:
    values = np.ones((5, 5, 5), np.float32)
    values[4] = np.nan
    map_ = ScalarMap(values, Grid((5, 5, 5), np.eye(4)), "FA")
    lines = Tractogram.from_streamlines(
        [[[0, 0, 0], [4, 0, 0]], [[9, 9, 9], [8, 8, 8]], [[2, 2, 2]]]
    )
    means = map_.means_along(lines)
    assert means[0] == means[2] == 1
    assert np.isnan(means[1])
    assert map_.at([[-0.5, 0, 0], [-0.51, 0, 0]])[0] == 1
    assert np.isnan(map_.at([[-0.51, 0, 0]])[0])
    assert math.isnan(measure(lines[1:2], [map_]).scalars["FA"].mean)


@pytest.mark.skipif(shutil.which("tcksample") is None, reason="MRtrix3 is not installed")
def test_means_are_those_of_tcksample(tmp_path: Path) -> None:
    grid = turned_grid((20, 20, 20), 2.0)
    lines = Tractogram.from_streamlines([grid.to_mm(line / 2) for line in walks(50, seed=3)])
    values = np.random.default_rng(0).random(grid.shape, np.float32)
    save_volume(values, grid, tmp_path / "fa.nii.gz")
    lines.save(tmp_path / "b.tck")
    subprocess.run(
        ["tcksample", "-quiet", "-stat_tck", "mean", "b.tck", "fa.nii.gz", "means.txt"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    theirs = np.loadtxt(tmp_path / "means.txt", comments="#").ravel()
    ours = ScalarMap.load(tmp_path / "fa.nii.gz").means_along(lines)
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_chunks_and_files_have_the_same_numbers_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "BLOCK", 16)
    lines = walks(75, seed=1)
    grid = turned_grid((30, 30, 30), 2.0)
    fa = ScalarMap(np.random.default_rng(0).random(grid.shape, np.float32), grid, "FA")
    whole = measure(lines, [fa]).numbers
    parts = (lines[first : first + 7] for first in range(0, 75, 7))
    assert measure(parts, [fa]).numbers == whole
    lines.save(tmp_path / "b.tck")
    assert measure(tmp_path / "b.tck", [fa]).numbers == whole
    assert measure(tmp_path / "b.tck").numbers == measure(lines).numbers


def test_an_iterator_without_a_grid_is_told(ladder: Tractogram) -> None:
    with pytest.raises(InvalidParameterError, match="iterator"):
        measure(iter([ladder]))


def test_scalar_maps_of_one_name_are_told(ladder: Tractogram) -> None:
    one = ScalarMap(np.ones((3, 3, 3), np.float32), Grid((3, 3, 3), np.eye(4)), "FA")
    with pytest.raises(InvalidParameterError, match="FA, FA"):
        measure(ladder, [one, one])


def test_a_single_scalar_map_is_told(ladder: Tractogram) -> None:
    with pytest.raises(
        InvalidParameterError, match=r"a single scalar map; give a list: \['FA.nii'\]"
    ):
        measure(ladder, "FA.nii")


def test_points_too_far_apart_for_a_grid_are_told() -> None:
    far = Tractogram.from_streamlines([[[0, 0, 0], [1e5, 1e5, 1e5]]])
    with pytest.raises(InvalidParameterError, match=r"span 100003 x 100003 x .* give a grid"):
        measure(far)


def test_no_streamlines_have_no_lengths() -> None:
    found = measure(Tractogram.empty()).numbers
    assert found["n_streamlines"] == found["volume_mm3"] == 0
    assert math.isnan(found["mean_length_mm"])


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        pytest.param(["CST_left", "CST_right"], [("CST_left", "CST_right")], id="words"),
        pytest.param(["R AF", "CC", "L AF"], [("L AF", "R AF")], id="letters"),
        pytest.param(["AF_left", "CST_right"], [], id="none"),
    ],
)
def test_pairs_of_sides(names: list[str], pairs: list[tuple[str, str]]) -> None:
    assert sides(names) == pairs


def test_asymmetry(ladder: Tractogram) -> None:
    grid = Grid((10, 10, 3), np.eye(4))
    left, right = measure(ladder, grid=grid), measure(ladder[:3], grid=grid)
    found: dict[str, float] = asymmetry(left, right)
    assert found["n_streamlines"] == pytest.approx((5 - 3) / 8)
    assert found["volume_mm3"] == pytest.approx((20 - 9) / 29)
    nothing: NDArray[np.bool_] = np.array(
        list(asymmetry(measure(Tractogram.empty()), measure(Tractogram.empty())).values())
    )
    assert np.isnan(nothing).all()
