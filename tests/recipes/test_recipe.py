"""Recipes make the same streamlines again, on other days and in other folders."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import (
    FileError,
    InvalidMaskError,
    InvalidParameterError,
    InvalidSeedsError,
    InvalidTissuesError,
)
from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.phantoms import make_phantom, phantom_mask
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.tissue_sources import TissueSource
from napari_tractography.recipes.volume_sources import VolumeSource

PARAMETERS = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256, random_seed=7)


def _recipe(folder: Path, **changes: Any) -> Recipe:
    mask = VolumeSource.file(folder / "mask.nii.gz")
    ingredients: dict[str, Any] = {
        "fod": FodSource.file(folder / "fod.nii.gz"),
        "seeds": (SeedSource("mask", 40, 7, volume=mask),),
        "parameters": PARAMETERS,
        "mask": mask,
    }
    return Recipe(**{**ingredients, **changes})


def test_recipe_is_what_the_functions_do(folder: Path) -> None:
    fod = nt.load_fod(folder / "fod.nii.gz")
    inside = np.asarray(nib.load(folder / "mask.nii.gz").dataobj)
    seeds = nt.Seeds.in_mask(inside, fod.grid, 40, random_seed=7)
    wanted = nt.track(fod, seeds, PARAMETERS, mask=inside)
    assert _recipe(folder).run().digest() == wanted.digest()
    assert len(wanted) > 10


def test_saved_recipe_makes_the_same_streamlines(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = _recipe(folder)
    tractogram = recipe.run()
    recipe.with_result(tractogram).save(tmp_path / "bundle.json")
    with caplog.at_level(logging.WARNING):
        again = nt.Recipe.load(tmp_path / "bundle.json").run(n_threads=1)
    assert again.digest() == tractogram.digest()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "value"), [("n_threads", -1), ("block", 1.5), ("memory_limit", float("nan"))]
)
def test_impossible_execution_is_refused(folder: Path, name: str, value: Any) -> None:
    execution: Any = {name: value}
    with pytest.raises(InvalidParameterError, match=f"{name} = .* is impossible"):
        _recipe(folder).run(**execution)


def test_loaded_recipe_equals_the_saved_one(folder: Path, tmp_path: Path) -> None:
    sphere = nt.Region.sphere([1, 2, 3], 4, "exclude", name="ball")
    painted = nt.Region.mask(phantom_mask("arcs"), np.eye(4), "stop", name="painted")
    directed = nt.Seeds.at([[0.1, 0.2, 0.3], [1, 2, 3]], [[1, 0, 0], [0, 1, 1]])
    recipe = _recipe(
        folder,
        fod=FodSource.file(folder / "fod.nii.gz", basis="descoteaux07", frame="scanner"),
        seeds=(
            SeedSource("sphere", 5, 1, (1.0, 2.0, 3.0), 2.5),
            SeedSource("fod", 6, 2),
            SeedSource.points(directed),
        ),
        regions=(
            RegionSource.of(sphere),
            RegionSource.of(painted),
            RegionSource("end", "label", volume=VolumeSource.file(folder / "mask.nii.gz", label=1)),
        ),
        include_rule="ordered",
        digest="ab" * 32,
    )
    recipe.save(tmp_path / "bundle.json")
    assert Recipe.load(tmp_path / "bundle.json") == recipe


def test_painted_region_steers_as_before(folder: Path, tmp_path: Path, drawing: nt.Fod) -> None:
    half = phantom_mask("arcs").copy()
    half[: half.shape[0] // 2] = False
    region = nt.Region.mask(half, drawing.grid, "exclude", name="painted")
    recipe = _recipe(folder, regions=(RegionSource.of(region),))
    inputs = recipe.inputs()
    wanted = nt.track(inputs.fod, inputs.seeds, PARAMETERS, mask=inputs.mask, regions=[region])
    recipe.save(tmp_path / "bundle.json")
    assert Recipe.load(tmp_path / "bundle.json").run().digest() == wanted.digest()
    assert wanted.digest() != _recipe(folder).run().digest()


def test_changed_inputs_and_result_are_named(
    folder: Path, tmp_path: Path, drawing: nt.Fod, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = _recipe(folder)
    recipe.with_result(recipe.run()).save(tmp_path / "bundle.json")
    other = nib.Nifti1Image(drawing.coefficients * 1.5, drawing.grid.affine)
    nib.save(other, folder / "fod.nii.gz")
    now = hashlib.sha256((folder / "fod.nii.gz").read_bytes()).hexdigest()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        Recipe.load(tmp_path / "bundle.json").run()
    messages = [record.getMessage() for record in caplog.records]
    assert [m for m in messages if "FOD" in m and "fod.nii.gz" in m and now[:12] in m]
    assert [m for m in messages if "not those of the recipe" in m]
    assert not [m for m in messages if "mask.nii.gz" in m]


def test_files_are_also_found_beside_the_recipe(folder: Path, tmp_path: Path) -> None:
    _recipe(folder).save(folder / "bundle.json")
    moved = folder.rename(tmp_path / "elsewhere")
    assert len(Recipe.load(moved / "bundle.json").run()) > 10


def test_missing_file_is_named(folder: Path) -> None:
    _recipe(folder).save(folder / "bundle.json")
    (folder / "fod.nii.gz").unlink()
    with pytest.raises(FileError, match=r"fod\.nii\.gz does not exist"):
        Recipe.load(folder / "bundle.json").run()


def test_phantoms_need_no_file(tmp_path: Path) -> None:
    recipe = Recipe(
        fod=FodSource(phantom="letter"), seeds=(SeedSource("fod", 10),), parameters=PARAMETERS
    )
    recipe.save(tmp_path / "bundle.json")
    wanted = nt.track(
        make_phantom("letter"), nt.Seeds.from_fod(make_phantom("letter"), 10), PARAMETERS
    )
    assert Recipe.load(tmp_path / "bundle.json").run().digest() == wanted.digest()


def test_mask_that_lies_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    away = np.eye(4)
    away[0, 3] = 500
    save_volume(np.ones((3, 3, 3)), nt.Grid((3, 3, 3), away), tmp_path / "small.nii")
    recipe = _recipe(folder, mask=VolumeSource.file(tmp_path / "small.nii"))
    with pytest.raises(InvalidMaskError, match=r"small\.nii"):
        recipe.run()


@pytest.mark.parametrize(
    ("seed", "error", "words"),
    [
        (SeedSource("cloud"), InvalidSeedsError, "cloud"),
        (SeedSource("sphere", 5, 0, ("a", "b", "c"), 1.0), InvalidSeedsError, "is no point"),  # type: ignore[arg-type]
        (SeedSource("sphere", 0, 0, (0.0, 0.0, 0.0), 1.0), InvalidSeedsError, "0 seeds"),
    ],
)
def test_impossible_seeds_are_refused(
    folder: Path, seed: SeedSource, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        _recipe(folder, seeds=(seed,)).run()


def test_labels_of_tissues_are_kept(tmp_path: Path, drawing: nt.Fod) -> None:
    labels = np.full(drawing.grid.shape, 8, np.uint8)
    labels[2:-2, 2:-2] = 7
    path = tmp_path / "labels.nii.gz"
    save_volume(labels, drawing.grid, path)
    mapping = {2: [7], 0: {8}}
    source = TissueSource.file(path, mapping=mapping)
    Recipe(FodSource(phantom="letter"), tissues=source).save(tmp_path / "r.json")
    read = Recipe.load(tmp_path / "r.json").tissues
    assert read == source
    found, wanted = read.read()[0], nt.load_tissues(path, mapping=mapping)
    np.testing.assert_array_equal(found.fractions, wanted.fractions)
    assert found.labels == wanted.labels == source.labels == ((8,), (), (7,), (), ())
    with pytest.raises(InvalidTissuesError, match="The mapping has 5"):
        TissueSource.file(path, mapping={5: [7]})


def test_seeds_are_made_from_the_number_of_the_first(drawing: nt.Fod) -> None:
    grid, fractions = drawing.grid, np.zeros((*drawing.grid.shape, 5))
    fractions[..., 2] = 1
    fractions[:3, ..., (0, 2)] = (1, 0)  # cortex
    tissues = nt.Tissues(fractions, grid.affine)
    volume = VolumeSource.of_array(drawing.support.astype(np.uint8), grid)
    centre = (1.0, 2.0, 3.0)
    for source, seeds in (
        (SeedSource("sphere", center_mm=centre, radius_mm=2.0), nt.Seeds.in_sphere(centre, 2.0, 9)),
        (SeedSource("mask", volume=volume), nt.Seeds.in_mask(drawing.support, grid, 9)),
        (SeedSource("fod"), nt.Seeds.from_fod(drawing, 9)),
        (SeedSource("interface"), nt.Seeds.on_interface(tissues, 9)),
    ):
        counted = replace(source, n=5, first=4)
        made, _ = counted.read(drawing, tissues=tissues)
        np.testing.assert_array_equal(made.positions_mm, seeds.positions_mm[4:])
    in_each = nt.Seeds.in_each_voxel(drawing.support, grid, 2)
    made, _ = SeedSource("voxels", 1, volume=volume, first=drawing.n_voxels).read(drawing)
    np.testing.assert_array_equal(made.positions_mm, in_each.positions_mm[drawing.n_voxels :])


def test_unwritable_recipe_leaves_nothing(folder: Path) -> None:
    with pytest.raises(FileError, match="absent"):
        _recipe(folder).save(folder / "absent" / "bundle.json")
    assert sorted(p.name for p in folder.iterdir()) == ["fod.nii.gz", "mask.nii.gz"]
