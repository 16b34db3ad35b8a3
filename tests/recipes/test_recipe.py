"""Recipes make the same streamlines again, on other days and in other folders."""

from __future__ import annotations

import hashlib
import json
import logging
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
)
from napari_tractography.files.volumes import save_volume
from napari_tractography.phantoms import make_phantom, phantom_mask
from napari_tractography.recipes.recipe import (
    FodSource,
    Recipe,
    RegionSource,
    SeedSource,
    is_recipe,
)
from napari_tractography.recipes.volumes import VolumeSource

PARAMETERS = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256, random_seed=7)


@pytest.fixture(scope="module")
def drawing() -> nt.Fod:
    return make_phantom("arcs", lmax=4)


@pytest.fixture
def folder(tmp_path: Path, drawing: nt.Fod) -> Path:
    """A folder with fod.nii.gz and mask.nii.gz."""
    place = tmp_path / "data"
    place.mkdir()
    image = nib.Nifti1Image(drawing.coefficients, drawing.grid.affine)
    nib.save(image, place / "fod.nii.gz")
    save_volume(phantom_mask("arcs"), drawing.grid, place / "mask.nii.gz")
    return place


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


def test_other_versions_are_named_when_the_result_differs(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = _recipe(folder, digest="0" * 64, versions={"numpy": "0.1", "lost": "3"})
    with caplog.at_level(logging.WARNING):
        assert not recipe.check(recipe.run())
    assert "numpy 0.1 then" in caplog.text
    assert "lost 3 then, absent now" in caplog.text


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


def test_mask_of_another_grid_is_refused(folder: Path, tmp_path: Path) -> None:
    save_volume(np.ones((3, 3, 3)), nt.Grid((3, 3, 3), np.eye(4)), tmp_path / "small.nii")
    recipe = _recipe(folder, mask=VolumeSource.file(tmp_path / "small.nii"))
    with pytest.raises(InvalidMaskError, match=r"small\.nii"):
        recipe.run()


def test_painted_masks_come_back_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    grid = nt.Grid((5, 3, 7), np.diag([2.0, -1.5, 3.0, 1.0]))
    mask = rng.random(grid.shape) > 0.5
    again, where = VolumeSource.of_array(mask, grid).load()
    assert np.array_equal(again, mask)
    assert where == grid


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        pytest.param("{", FileError, "no JSON", id="cut short"),
        pytest.param(b"\xff\xfe\x00", FileError, "no JSON", id="binary"),
        pytest.param("[1, 2]", FileError, "is no recipe", id="another thing"),
        pytest.param('{"format": "x"}', FileError, "is no recipe", id="another format"),
        pytest.param({"format_version": 99}, FileError, "99", id="newer"),
        pytest.param({"seeds": None}, FileError, "damaged", id="no seeds"),
        pytest.param({"fod": {"colour": 1}}, FileError, "colour", id="unknown field"),
        pytest.param({"extra": 1}, FileError, "extra", id="unknown part"),
        pytest.param(
            {"parameters": {"step_mm": -1}}, InvalidParameterError, "step_mm", id="parameter"
        ),
    ],
)
def test_damaged_recipe_is_refused(
    folder: Path, content: Any, error: type[Exception], words: str
) -> None:
    path = folder / "bundle.json"
    _recipe(folder).save(path)
    if isinstance(content, dict):
        path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)
    with pytest.raises(error, match=words):
        Recipe.load(path)


@pytest.mark.parametrize(
    ("seed", "error", "words"),
    [
        (SeedSource("cloud"), InvalidSeedsError, "cloud"),
        (SeedSource("sphere", 5, 0, ("a", "b", "c"), 1.0), FileError, "make no sense"),  # type: ignore[arg-type]
        (SeedSource("sphere", 0, 0, (0.0, 0.0, 0.0), 1.0), InvalidSeedsError, "0 seeds"),
    ],
)
def test_impossible_seeds_are_refused(
    folder: Path, seed: SeedSource, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        _recipe(folder, seeds=(seed,)).run()


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


def test_is_recipe(folder: Path) -> None:
    _recipe(folder).save(folder / "bundle.json")
    (folder / "sidecar.json").write_text('{"EchoTime": 0.1}')
    assert is_recipe(folder / "bundle.json")
    assert not is_recipe(folder / "sidecar.json")
    assert not is_recipe(folder / "absent.json")


def test_unwritable_recipe_leaves_nothing(folder: Path) -> None:
    with pytest.raises(FileError, match="absent"):
        _recipe(folder).save(folder / "absent" / "bundle.json")
    assert sorted(p.name for p in folder.iterdir()) == ["fod.nii.gz", "mask.nii.gz"]
