"""Recipes of runs in images: written, read, and tracked again to the same digest."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr

import napari_tractography as nt
from napari_tractography import cli
from napari_tractography.errors import FileError, InvalidFodError, MissingFilesError
from napari_tractography.files import servers
from napari_tractography.model.image_phantoms import Tube, draw
from napari_tractography.recipes.image_sources import reading_of
from napari_tractography.recipes.python_code import image_lines, script
from napari_tractography.recipes.sources import FodSource, SeedSource

TUBE = draw(Tube(shape=(40, 40, 20), inner_vox=6.0, outer_vox=18.0))
SEEDS = SeedSource("sphere", n=12, center_mm=(0.24, 0.0, 0.0), radius_mm=0.06)


def written(folder: Path, kind: str) -> Path:
    """Write the tube as (z, y, x); return where."""
    if kind != "tif":
        path = folder / f"tube.{kind}"
        store = zarr.storage.ZipStore(path, mode="w") if kind == "zarr.zip" else path
        root = zarr.open_group(store, mode="w")
        array = root.create_array(
            "scan/0", shape=TUBE.image.T.shape, chunks=(8, 8, 8), dtype=TUBE.image.dtype
        )
        array[:] = TUBE.image.T
        root.store.close()
        return path
    tifffile.imwrite(folder / "tube.tif", TUBE.image.T)
    return folder / "tube.tif"


def fod_of(image, **changes) -> nt.Fod:
    given = {"sigma_mm": 0.024, "rho_mm": 0.05, "bright": True, "min_linearity": 0.02}
    return nt.Fod.from_image(image, TUBE.grid, **{**given, **changes})


def recipe_of(fod: nt.Fod, path: Path | str, key: str = "") -> nt.Recipe:
    return nt.Recipe(
        FodSource.of_image(fod, path, key),
        (SEEDS,),
        parameters=nt.TrackingParameters.for_fod(fod, max_length_mm=0.6),
    )


@pytest.mark.parametrize(
    ("kind", "key"), [("tif", ""), ("zarr", "scan/0"), ("zarr.zip", "scan/0"), ("http", "scan/0")]
)
def test_a_run_in_an_image_is_made_again(
    tmp_path: Path, served, kind: str, key: str, capsys
) -> None:
    tissue = TUBE.fibres
    fod = fod_of(TUBE.image, mask=tissue)
    path: Path | str = written(tmp_path, "zarr" if kind == "http" else kind)
    if kind == "http":
        path = f"http://127.0.0.1:{served.server_port}/tube.zarr"
    recipe = recipe_of(fod, path, key)
    wanted = nt.track(fod, SEEDS.make(fod), recipe.parameters)
    assert len(wanted) > 4
    recipe = recipe.with_result(wanted, "cpu")
    recipe.save(tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text())
    assert content["fod"]["image"]["unit"] == "um"
    assert content["fod"]["image"].get("key", "") == key
    again = nt.Recipe.load(tmp_path / "r.json")
    assert again == recipe
    inputs, source = again.read()
    assert source.fod == recipe.fod
    assert inputs.fod.blocks is not None
    assert inputs.fod.blocks.n_made == 0  # it is opened, and not worked out
    assert cli.main(["replay", str(tmp_path / "r.json")]) == 0
    assert "the same streamlines as the recipe's" in capsys.readouterr().out


def test_a_server_that_only_a_file_names_is_not_contacted(
    tmp_path: Path, served, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(servers, "_allowed", set())
    written(tmp_path, "zarr")
    address = f"http://127.0.0.1:{served.server_port}/tube.zarr"
    project = nt.Project()
    project.add("wall", recipe_of(fod_of(TUBE.image), address, "scan/0"))
    project.save(tmp_path / "p.tracts.json")
    assert "allow_server('http://127.0.0.1:" in project.as_python()
    servers._allowed.clear()

    def contact(*_: object) -> None:
        raise AssertionError("a server was contacted")

    with monkeypatch.context() as there:
        there.setattr("zarr.open", contact)
        opened = nt.Project.load(tmp_path / "p.tracts.json")
        assert opened.changed_files() == []
        assert opened.unasked_files() == [address]
        opened.save(tmp_path / "again.tracts.json")
        with pytest.raises(FileError, match=r"not contacted unless .*--allow-server http://127"):
            opened.bundles["wall"].tractogram()
    replay = ["replay", str(tmp_path / "p.tracts.json"), "--allow-server", address]
    assert cli.main(replay) == 0
    assert "wall: " in capsys.readouterr().out
    assert opened.unasked_files() == []


def test_a_project_finds_a_zarr_that_moved_with_it(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    fod = fod_of(TUBE.image)
    recipe = recipe_of(fod, written(old, "zarr"), "scan/0")
    recipe = replace(recipe, fod=replace(recipe.fod, sha256=""))
    project = nt.Project()
    project.add("wall", recipe)
    project.save(old / "p.tracts.json")
    assert project.bundles["wall"].source.fod.sha256  # taken when it is saved
    shutil.move(old, new)
    moved = nt.Project.load(new / "p.tracts.json")
    assert moved.bundles["wall"].source.fod.path == str(new / "tube.zarr")
    assert moved.changed_files() == []
    zarr.open(new / "tube.zarr", mode="r+")["scan/0"][:] = 7
    assert moved.changed_files() == [str(new / "tube.zarr")]
    shutil.rmtree(new / "tube.zarr")
    with pytest.raises(MissingFilesError, match=r"tube\.zarr"):
        nt.Project.load(new / "p.tracts.json")


def test_another_image_is_warned_of(tmp_path: Path, caplog) -> None:
    path = written(tmp_path, "tif")
    recipe = recipe_of(fod_of(TUBE.image), path)
    tifffile.imwrite(path, np.roll(TUBE.image.T, 5, axis=2))
    recipe.read()
    assert "tube.tif is not the file of the recipe" in caplog.text


def test_a_file_that_does_not_hold_the_image_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "tif")
    with pytest.raises(FileError, match=r"tube\.tif does not hold the image image as it is shown"):
        reading_of(fod_of(TUBE.image // 2), str(path))
    with pytest.raises(InvalidFodError, match="holds sh and is no image"):
        FodSource.of_image(nt.Fod(np.ones((2, 2, 2, 6)), np.eye(4)), path)


@pytest.mark.parametrize("odf_voxels", [None, 4])
def test_the_lines_of_a_script_make_the_same_fod(tmp_path: Path, odf_voxels: int | None) -> None:
    path = written(tmp_path, "zarr")
    fod = fod_of(TUBE.image, mask=TUBE.fibres)
    source = FodSource.of_image(fod, path, "scan/0", odf_voxels=odf_voxels)
    imports: set[str] = set()
    lines = image_lines(source, imports)
    text = script(imports, lines)
    assert "fod = nt.Fod.from_image(image, grid, sigma_mm=0.024, rho_mm=0.05, bright=True" in text
    made: dict = {}
    exec(compile(text, "copied", "exec"), made)
    if odf_voxels is None:
        np.testing.assert_array_equal(made["fod"].vectors.numbers, fod.vectors.numbers)
    else:
        np.testing.assert_array_equal(made["fod"].values, fod.odfs(odf_voxels).values)
        np.testing.assert_array_equal(source.load().values, made["fod"].values)
