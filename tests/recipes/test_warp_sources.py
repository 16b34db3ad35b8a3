"""Warps of recipes: files by their SHA-256, and recipes in the space of their FOD."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError, InvalidWarpError
from napari_tractography.files.hashing import sha256_of
from napari_tractography.model.phantoms import make_phantom, phantom_mask
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource
from napari_tractography.recipes.warp_sources import WarpFile, WarpSource

FOD = make_phantom("arcs")
PARAMETERS = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256)
SHIFT = np.array([30.0, -20.0, 10.0])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: w.nii.gz and a.txt lead by half of SHIFT each to the template."""
    monkeypatch.chdir(tmp_path)
    at = FOD.grid.to_mm(np.moveaxis(np.indices(FOD.grid.shape), 0, -1))
    positions = (at + SHIFT / 2).astype(np.float32)
    nib.save(nib.Nifti1Image(positions, FOD.grid.affine), "w.nii.gz")
    matrix = np.eye(4)
    matrix[:3, 3] = SHIFT / 2
    np.savetxt("a.txt", matrix)
    moved = np.array(FOD.grid.affine)
    moved[:3, 3] += SHIFT
    mask = phantom_mask("arcs").astype(np.uint8)
    nib.save(nib.Nifti1Image(mask, moved), "seeds.nii.gz")
    return tmp_path


def recipe(warp: WarpSource, **others: object) -> nt.Recipe:
    seeds = (SeedSource("mask", 50, 3, volume=VolumeSource.file("seeds.nii.gz", hashed=False)),)
    return nt.Recipe(FodSource(phantom="arcs"), seeds, PARAMETERS, warp=warp, **others)


def test_files_go_one_after_the_other_with_their_sha256() -> None:
    source = WarpSource.file("w.nii.gz", "a.txt", hashed=False)
    point = FOD.grid.centre_mm
    warp, found = source.read()
    assert np.allclose(warp.apply([point]), point + SHIFT, atol=1e-4)
    assert [file.sha256 for file in found.files] == [sha256_of("w.nii.gz"), sha256_of("a.txt")]
    assert found == WarpSource.file("w.nii.gz", "a.txt")
    back = dataclasses.replace(source, inverted=True)
    assert np.allclose(back.load().apply([point + SHIFT]), point, atol=1e-3)
    assert back.name == "the inverse of w.nii.gz a.txt"


def test_files_are_sought_beside_the_recipe_and_changes_are_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = WarpSource.file("a.txt")
    (folder / "there").mkdir()
    Path("a.txt").rename("there/a.txt")
    assert source.load(folder / "there").apply([[0, 0, 0]]).tolist() == [(SHIFT / 2).tolist()]
    assert not caplog.records
    np.savetxt("there/a.txt", np.eye(4))
    source.load(folder / "there")
    assert "is not the file of the recipe" in caplog.text


def test_images_of_fsl_are_named_as_well() -> None:
    pytest.importorskip("nitransforms", reason="nitransforms, of the extra warps, is not installed")
    np.savetxt("f.mat", np.eye(4))
    source = WarpSource.file("f.mat", fsl_ref="w.nii.gz", fsl_in="w.nii.gz", hashed=False)
    warp, found = source.read()
    assert found.fsl_ref == found.fsl_in == WarpFile.of("w.nii.gz")
    assert np.allclose(warp.apply([[1, 2, 3]]), [[1, 2, 3]], atol=1e-4)


def test_a_recipe_depends_on_what_files_of_warps_hold_and_not_on_where_they_lie() -> None:
    hashes = []
    for number, content in enumerate(["same", "same", "other"]):
        folder = Path(str(number))
        folder.mkdir()
        for name in ("w.nii.gz", "ref.nii.gz", "in.nii.gz", "template.nii.gz"):
            text = content if name in ("ref.nii.gz", "template.nii.gz") else "same"
            (folder / name).write_text(text)
        images = {"fsl_ref": folder / "ref.nii.gz", "fsl_in": folder / "in.nii.gz"}
        fsl = WarpSource.file(folder / "w.nii.gz", kind="fsl", **images)
        plain, template = WarpSource.file(folder / "w.nii.gz"), folder / "template.nii.gz"
        edits = (Edit.warped(plain, WarpFile.of(template)),)
        hashes.append([recipe(fsl).inputs_sha256(), recipe(plain, edits=edits).inputs_sha256()])
    same, moved, other = hashes
    assert moved == same
    assert not {*other} & {*same}


def test_seeds_of_a_template_are_those_of_the_subject_where_voxels_are_the_same() -> None:
    """A shift: the mask of the template is that of the subject, voxel by voxel."""
    own = nt.Seeds.in_mask(phantom_mask("arcs"), FOD.grid, 50, random_seed=3)
    wanted = nt.track(FOD, own, PARAMETERS)
    inputs, found = recipe(WarpSource.file("w.nii.gz", "a.txt", hashed=False)).read()
    assert np.allclose(inputs.seeds.positions_mm, own.positions_mm, atol=1e-4)
    assert found.warp == WarpSource.file("w.nii.gz", "a.txt")
    assert found.seeds[0].volume == VolumeSource.file("seeds.nii.gz")
    tracked = found.run()
    assert len(tracked) == len(wanted)


def test_regions_and_ends_are_placed_and_named() -> None:
    centre = tuple((FOD.grid.centre_mm + SHIFT).tolist())
    volume = VolumeSource.file("seeds.nii.gz", hashed=False)
    regions = (RegionSource("include", "ball", centre, 30.0),)
    ends = (
        RegionSource("include", "one", volume=volume),
        RegionSource("include", "two", centre, 2.0),
    )
    warp = WarpSource.file("w.nii.gz", "a.txt", hashed=False)
    made = recipe(warp, regions=regions, between=ends, select=5)
    inputs, found = made.read()
    assert inputs.regions[0].center_mm is not None
    assert np.allclose(inputs.regions[0].center_mm, FOD.grid.centre_mm, atol=1e-3)
    assert inputs.between is not None
    assert inputs.between[0].contains(inputs.seeds.positions_mm).all()
    assert found.between[0].volume == VolumeSource.file("seeds.nii.gz")
    assert found.regions == regions


def test_a_recipe_without_its_warp_makes_the_same(tmp_path: Path) -> None:
    centre = tuple((FOD.grid.centre_mm + SHIFT).tolist())
    regions = (RegionSource("include", "ball", centre, 30.0),)
    made = recipe(WarpSource.file("w.nii.gz", "a.txt"), regions=regions)
    wanted = made.run()
    assert len(wanted) > 20
    placed = made.in_space_of(FOD.grid)
    assert placed.warp is None
    assert placed.run().digest() == wanted.digest()
    assert placed.in_space_of(FOD.grid) is placed
    made.save(tmp_path / "r.json")
    again = nt.Recipe.load(tmp_path / "r.json")
    assert (again, again.run().digest()) == (made, wanted.digest())


def test_points_go_with_their_directions() -> None:
    points = tuple(map(tuple, [(FOD.grid.centre_mm + SHIFT).tolist()]))
    seeds = (SeedSource("points", positions_mm=points, directions=((1.0, 0.0, 0.0),)),)
    made = dataclasses.replace(recipe(WarpSource.file("w.nii.gz", "a.txt")), seeds=seeds)
    placed = made.in_space_of(FOD.grid).seeds[0]
    assert np.allclose(placed.positions_mm[0], FOD.grid.centre_mm, atol=1e-3)
    assert np.allclose(placed.directions[0], (1, 0, 0), atol=1e-4)


def test_what_comes_from_the_fod_stays_and_what_lies_elsewhere_is_refused() -> None:
    made = recipe(WarpSource.file("w.nii.gz", "a.txt"))
    of_fod = dataclasses.replace(made, seeds=(SeedSource("fod", 5, 1),))
    assert of_fod.in_space_of(FOD.grid).seeds == of_fod.seeds
    far = dataclasses.replace(made, seeds=(SeedSource("sphere", 5, 1, (900.0, 0.0, 0.0), 1.0),))
    with pytest.raises(InvalidWarpError, match="outside of the warp"):
        far.inputs()


def test_another_fod_takes_another_warp() -> None:
    warp, other = WarpSource.file("w.nii.gz", "a.txt"), WarpSource.file("a.txt", "a.txt")
    edit = Edit.warped(warp, WarpFile.of("seeds.nii.gz"))
    made = recipe(warp, edits=(Edit.keep([1]), edit))
    with pytest.raises(InvalidParameterError, match="own FOD"):
        made.on_fod(made.fod)
    moved = made.on_fod(made.fod, other)
    assert moved.warp == other
    assert moved.edits == (Edit.warped(other, WarpFile.of("seeds.nii.gz")),)
    plain = dataclasses.replace(made, warp=None, edits=())
    assert plain.on_fod(made.fod).warp is None


def test_streamlines_in_the_template_are_proven(caplog: pytest.LogCaptureFixture) -> None:
    warp = WarpSource.file("w.nii.gz", "a.txt")
    whole = recipe(warp).run()
    made = recipe(warp, edits=(Edit.warped(warp, WarpFile.of("seeds.nii.gz")),))
    found = made.run()
    assert np.allclose(found.points, whole.points + SHIFT, atol=1e-3)
    assert found.grid is not None
    assert np.allclose(found.grid.affine[:3, 3], FOD.grid.affine[:3, 3] + SHIFT)
    proven = made.with_result(found)
    caplog.set_level(logging.WARNING)
    assert proven.run().digest() == found.digest()
    assert not caplog.records
    project = nt.Project()
    project.add("a", proven)
    project.save("p.tracts.json")
    bundle = nt.Project.load("p.tracts.json").bundles["a"]
    assert bundle.tractogram().digest() == found.digest()
    assert bundle.is_proven
    assert str(Path("w.nii.gz").absolute()) in nt.Project.load("p.tracts.json").files()
