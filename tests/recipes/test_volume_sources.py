"""Masks of a recipe: files, labels of files, and voxels kept as text."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import (
    FileError,
    InvalidMaskError,
)
from napari_tractography.recipes.volume_sources import VolumeSource, located


def test_painted_masks_come_back_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    grid = nt.Grid((5, 3, 7), np.diag([2.0, -1.5, 3.0, 1.0]))
    mask = rng.random(grid.shape) > 0.5
    again, where = VolumeSource.of_array(mask, grid).load()
    assert np.array_equal(again, mask)
    assert where == grid


@pytest.mark.parametrize("damage", ["!!", "AAAA", "eJwDAAAAAAE="])
def test_damaged_painted_mask_is_refused(damage: str) -> None:
    source = VolumeSource(
        voxels=damage, shape=(2, 2, 2), affine=tuple(map(tuple, np.eye(4).tolist()))
    )
    with pytest.raises(FileError, match="damaged"):
        source.load()


def test_label_that_is_absent_is_named(folder: Path) -> None:
    with pytest.raises(InvalidMaskError, match="label 17"):
        VolumeSource.file(folder / "mask.nii.gz", label=17).load()


@pytest.mark.parametrize(
    "there", ["C:\\study\\", "C:/study/", "\\\\server\\study\\", "/study/", "/C:\\a\\"]
)
def test_a_file_beside_the_recipe_is_found_wherever_that_was_written(
    folder: Path, there: str
) -> None:
    assert located(there + "mask.nii.gz", folder) == folder / "mask.nii.gz"


@pytest.mark.skipif(sys.platform == "win32", reason="no names have backslashes there")
def test_a_name_with_a_backslash_is_that_file(folder: Path) -> None:
    (folder / "a\\mask.nii.gz").touch()
    assert located("/study/a\\mask.nii.gz", folder) == folder / "a\\mask.nii.gz"
    (folder / "a\\mask.nii.gz").unlink()
    with pytest.raises(FileError, match="does not exist"):
        located("/study/a\\b.nii.gz", folder)
