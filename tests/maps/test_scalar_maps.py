"""Scalar maps: what they are called, and their values beside places without any."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.files.formats import volume_endings
from napari_tractography.files.volume_files import save_volume
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.scalar_maps import ScalarMap, name_of
from napari_tractography.streamlines.tractogram import Tractogram


@pytest.mark.parametrize("ending", volume_endings())
def test_a_map_of_any_format_is_named_without_its_ending(ending: str) -> None:
    assert name_of(f"sub-1.dwi/FA.mean{ending}") == "FA.mean"
    assert name_of(f"FA{ending.upper()}") == "FA"


def test_another_ending_is_part_of_the_name() -> None:
    assert name_of("FA [1]") == "FA [1]"
    assert name_of("FA.tif") == "FA.tif"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(np.full((2, 2, 2), 1j), "FA holds complex128 values; give real", id="complex"),
        pytest.param(np.full((2, 2, 2), "0.5"), "FA holds <U3 values; give real", id="texts"),
        pytest.param([[[1.0, 2.0]], [[3.0]]], "FA has rows of several lengths", id="ragged"),
        pytest.param(np.full((2, 2, 2), Path()), "FA holds object values; give", id="objects"),
    ],
)
def test_what_holds_no_real_numbers_is_no_map(values: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        ScalarMap.from_array(values, np.eye(4), "FA")


def map_with_a_gap(gap: float = np.nan) -> ScalarMap:
    """Return 4 x 4 x 4 voxels of 2 mm of which (1, 1, 1) holds NaN, the others their number."""
    values = np.arange(64, dtype=np.float32).reshape(4, 4, 4)
    values[1, 1, 1] = gap
    return ScalarMap(values, Grid(values.shape, np.diag([2.0, 2.0, 2.0, 1.0])), "FA")


# Voxel coordinates at and around the gap, and beside it: at centres and edges, and between.
IN_THE_GAP = [[1, 1, 1], [0.5, 1, 1], [1.75, 0.25, 0.5]]
ON_EDGES = [[0, 1, 1], [1, 0, 1], [1, 1, 2], [0, 0.5, 1]]
BETWEEN = [[2.25, 1.25, 0.5], [-0.25, 1, 1], [-0.25, 0.5, 1.25], [1.25, 3.25, 1.5]]


@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
def test_a_gap_counts_where_it_has_a_share_alone(gap: float) -> None:
    """The numbers rise by 16, 4 and 1 along the axes, so that any place has a known value."""
    map_, places = map_with_a_gap(gap), np.array([*IN_THE_GAP, *ON_EDGES, *BETWEEN])
    expected = np.clip(places, 0, 3) @ [16.0, 4.0, 1.0]
    expected[: len(IN_THE_GAP)] = np.nan
    assert map_.at(map_.grid.to_mm(places)) == pytest.approx(expected, nan_ok=True)


@pytest.mark.skipif(shutil.which("tcksample") is None, reason="MRtrix3 is not installed")
def test_gaps_are_those_of_tcksample(tmp_path: Path) -> None:
    map_ = map_with_a_gap()
    lines = Tractogram.from_streamlines([map_.grid.to_mm([*IN_THE_GAP, *BETWEEN])])
    save_volume(map_.values, map_.grid, tmp_path / "fa.nii")
    lines.save(tmp_path / "b.tck")
    subprocess.run(
        ["tcksample", "-quiet", "b.tck", "fa.nii", "values.txt"], cwd=tmp_path, check=True
    )
    theirs = np.loadtxt(tmp_path / "values.txt", comments="#")
    assert map_.at(lines.points) == pytest.approx(theirs, rel=1e-5, nan_ok=True)
