"""Seeds and regions of a recipe are those of the functions."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidFodError
from napari_tractography.model.phantoms import phantom_mask
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource


def test_seeds_of_every_kind_are_those_of_seeds(folder: Path, drawing: nt.Fod) -> None:
    points = nt.Seeds.at([[0.1, 0.2, 0.3]], [[0.0, 3.0, 4.0]])
    pairs = [
        (SeedSource("sphere", 5, 1, (1.0, 2.0, 3.0), 2.5),
         nt.Seeds.in_sphere([1, 2, 3], 2.5, 5, random_seed=1)),
        (SeedSource("fod", 6, 2), nt.Seeds.from_fod(drawing, 6, random_seed=2)),
        (SeedSource("mask", 7, 3, volume=VolumeSource.file(folder / "mask.nii.gz")),
         nt.Seeds.in_mask(phantom_mask("arcs"), drawing.grid, 7, random_seed=3)),
        (SeedSource.points(points), points),
    ]  # fmt: skip
    for source, wanted in pairs:
        made = source.make(drawing)
        assert np.array_equal(made.positions_mm, wanted.positions_mm)
        if wanted.directions is not None:
            assert made.directions is not None
            assert np.allclose(made.directions, wanted.directions, atol=1e-7)


def test_the_kind_of_a_file_is_kept(folder: Path, tmp_path: Path) -> None:
    """As what it was taken for, or as given: an FOD of noise would be refused the second time."""
    told = FodSource.file(folder / "fod.nii.gz")
    assert told.kind == "auto"
    for hashed in (False, True):
        assert told.read(hashed=hashed)[1].kind == "sh"
    noise = np.random.default_rng(0).normal(size=(4, 4, 4, 6)).astype(np.float32)
    nib.save(nib.Nifti1Image(noise, np.eye(4)), tmp_path / "noise.nii")
    with pytest.raises(InvalidFodError, match=r"noise\.nii holds no FOD"):
        FodSource.file(tmp_path / "noise.nii").load()
    _, source = FodSource.file(tmp_path / "noise.nii", kind="sh").read()
    recipe = Recipe(source, (SeedSource("fod", 5),))
    recipe.save(tmp_path / "r.json")
    assert '"kind": "sh"' in (tmp_path / "r.json").read_text()
    assert Recipe.load(tmp_path / "r.json").fod.load().n_voxels == 64
    assert FodSource("noise.nii").kind == "sh"  # as in recipes that do not say


def test_axes_and_order_are_kept(tmp_path: Path) -> None:
    """As given, or as they were taken for; other axes give other peaks."""
    peaks = np.random.default_rng(0).normal(size=(4, 4, 4, 6)).astype(np.float32)
    nib.save(nib.Nifti1Image(peaks, np.eye(4)), tmp_path / "p.nii")
    fod, source = FodSource.file(tmp_path / "p.nii", kind="peaks", axes="fsl").read()
    assert (source.kind, source.axes, source.order) == ("peaks", "fsl", "")
    recipe = Recipe(source, (SeedSource("fod", 5),))
    recipe.save(tmp_path / "r.json")
    again = Recipe.load(tmp_path / "r.json").fod.load()
    np.testing.assert_array_equal(again.vectors.numbers, fod.vectors.numbers)
    told = FodSource.file(tmp_path / "p.nii", kind="peaks").read()[1]
    assert told.axes == "scanner"
    tensors = np.zeros((3, 3, 3, 6), np.float32)
    tensors[..., [0, 2, 5]] = np.array([1.7, 0.3, 0.3]) * 1e-3
    nib.save(nib.Nifti1Image(tensors, np.eye(4)), tmp_path / "t.nii")
    told = FodSource.file(tmp_path / "t.nii", kind="tensor", order="dipy").read()[1]
    assert (told.kind, told.axes, told.order) == ("tensor", "voxel", "dipy")
