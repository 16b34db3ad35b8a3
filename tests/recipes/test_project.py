"""Bundles and projects: named streamlines that are made again, from one small file."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import (
    FileError,
    InvalidParameterError,
    MissingFilesError,
    TractographyError,
)
from napari_tractography.files.weights import save_weights
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.recipes.bundle import Bundle
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.project import is_project
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.tractogram_sources import TractogramFile, WeightsSource

PARAMETERS = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/fod.nii.gz, data/some.tck and data/some.txt, weights."""
    place = tmp_path_factory.mktemp("study")
    (place / "data").mkdir()
    fod = make_phantom("arcs", lmax=6)
    image = nib.Nifti1Image(fod.coefficients, fod.grid.affine)
    nib.save(image, place / "data" / "fod.nii.gz")
    some = nt.track(fod, nt.Seeds.from_fod(fod, 60), PARAMETERS)
    some.save(place / "data" / "some.tck")
    save_weights(np.linspace(0, 2, len(some)), place / "data" / "some.txt")
    return place


@pytest.fixture
def folder(study: Path, tmp_path: Path) -> Path:
    """A copy of the study, to move and spoil."""
    return Path(shutil.copytree(study, tmp_path / "study"))


def recipe(folder: Path, *, random_seed: int = 0, **changes) -> nt.Recipe:
    source = FodSource.file(folder / "data" / "fod.nii.gz")
    return nt.Recipe(source, (SeedSource("fod", 60, random_seed),), PARAMETERS, **changes)


def project(folder: Path) -> nt.Project:
    """Two tracked bundles, one with edits, and one from a file with weights."""
    made = nt.Project()
    made.add("CST left", recipe(folder), colour="#ff8800")
    edited = made.add("AF left", recipe(folder, random_seed=1), visible=False)
    edited.edit(Edit.lengths(4.0), Edit.delete([0, 2]))
    weights = WeightsSource.file(folder / "data" / "some.txt")
    opened = made.add("opened", folder / "data" / "some.tck")
    opened.weights = weights
    opened.edit(Edit.weights(1.0))
    made.views = {"camera": {"zoom": 2.5, "angles": [0, 1, 2]}, "ndisplay": 3}
    return made


def digests(made: nt.Project) -> list[str]:
    return [bundle.tractogram().digest() for bundle in made.bundles.values()]


def test_a_project_comes_back_with_the_same_streamlines(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = project(folder)
    wanted = digests(made)
    assert len(set(wanted)) == 3
    made.save(folder / "a.tracts.json")
    moved = shutil.move(folder, folder.with_name("elsewhere"))
    with caplog.at_level(logging.WARNING):
        found = nt.Project.load(Path(moved) / "a.tracts.json")
        assert digests(found) == wanted
    assert caplog.text == ""
    assert [bundle.is_proven for bundle in found.bundles.values()] == [True] * 3
    assert list(found.bundles) == ["CST left", "AF left", "opened"]
    assert found.bundles["CST left"].colour == "#ff8800"
    assert [bundle.visible for bundle in found.bundles.values()] == [True, False, True]
    assert found.bundles["AF left"].edits == made.bundles["AF left"].edits
    assert found.views == made.views
    assert found.changed_files() == []
    assert is_project(Path(moved) / "a.tracts.json")


def test_the_file_is_small_and_its_paths_relative(folder: Path) -> None:
    made = project(folder)
    digests(made)
    made.save(folder / "a.tracts.json")
    text = (folder / "a.tracts.json").read_text()
    assert len(text) < 10_000
    assert str(folder) not in text
    assert '"path": "data/some.tck"' in text
    content = json.loads(text)
    assert all(each["file"]["sha256"] for each in content["bundles"] if "file" in each)
    assert content == made.content(folder)
    made.bundles["opened"].colour = "#00ff00"
    assert content != made.content(folder)


def test_a_bundle_is_what_its_recipe_makes(folder: Path) -> None:
    bundle = Bundle("one", recipe(folder))
    assert not bundle.is_made
    assert bundle.digest == ""
    found = bundle.tractogram()
    assert found.digest() == recipe(folder).run().digest() == bundle.digest
    assert bundle.tractogram() is found
    assert bundle.is_proven is None  # it was not known before


def test_edits_are_undone_without_tracking_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle("one", recipe(folder))
    whole = bundle.tractogram()
    monkeypatch.setattr("napari_tractography.recipes.bundle.track_all", None)
    bundle.edit(Edit.keep([1, 2]))
    assert len(bundle.tractogram()) == 2
    assert bundle.digest != whole.digest()
    bundle.edits = bundle.edits[:-1]
    assert bundle.tractogram().digest() == bundle.digest == whole.digest()
    bundle.adopt(whole[:5], "cpu")
    assert len(bundle.tractogram()) == 5


def test_streamlines_that_are_others_are_said(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bundle = Bundle("one", recipe(folder, digest="0" * 64))
    with caplog.at_level(logging.WARNING):
        bundle.tractogram()
    assert bundle.is_proven is False
    assert "not those of the recipe" in caplog.text


def test_a_bundle_is_split_and_duplicated(folder: Path) -> None:
    made = nt.Project()
    first = made.add("whole", recipe(folder))
    first.edit(Edit.lengths(4.0))
    n = len(first.tractogram())
    part = made.add("part", first.split_off([0, n - 1], "part"))
    assert np.array_equal(part.tractogram().points, first.tractogram()[[0, n - 1]].points)
    assert [edit.kind for edit in part.edits] == ["lengths", "keep"]
    assert len(first.edits) == 1
    again = made.add("again", made.bundles["whole"])
    assert list(made.bundles) == ["whole", "part", "again"]
    assert [bundle.name for bundle in made.bundles.values()] == ["whole", "part", "again"]
    assert again.tractogram().digest() == first.tractogram().digest()
    made.save(folder / "copies.json")
    assert list(nt.Project.load(folder / "copies.json").bundles) == ["whole", "part", "again"]


def test_the_other_side_is_tracked_in_mirrored_regions(folder: Path) -> None:
    region = RegionSource("include", "left ball", (-5.0, 2.0, 3.0), 4.0)
    bundle = Bundle("CST left", recipe(folder, regions=(region,)), colour="#112233")
    other = bundle.mirrored(1.0)
    assert other.name == "CST right"
    assert other.colour == "#112233"
    assert isinstance(other.source, nt.Recipe)
    assert other.source.regions == (RegionSource("include", "right ball", (7.0, 2.0, 3.0), 4.0),)
    file = Bundle("left", TractogramFile.file(folder / "data" / "some.tck"))
    file.edit(Edit.passing([region]))
    assert file.mirrored(1.0).edits[0].regions[0].center_mm == (7.0, 2.0, 3.0)


def test_an_fod_is_read_once_for_all_bundles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = FodSource.read

    def counted(self, *arguments, **options):
        read.append(self.path)
        return plain(self, *arguments, **options)

    monkeypatch.setattr(FodSource, "read", counted)
    digests(project(folder))
    assert len(read) == 1


def test_names_are_kept_apart_and_order_is_kept(folder: Path) -> None:
    made = nt.Project()
    for name in ("a", "b", "c"):
        made.add(name, recipe(folder))
    with pytest.raises(InvalidParameterError, match="'b' already"):
        made.add("b", recipe(folder))
    with pytest.raises(InvalidParameterError, match="give it a name"):
        made.rename("a", "  ")
    made.rename("b", "middle")
    assert list(made.bundles) == ["a", "middle", "c"]
    assert made.bundles["middle"].name == "middle"
    made.move("c", 0)
    removed = made.remove("a")
    assert list(made.bundles) == ["c", "middle"]
    assert made.free_name("a") == "a"
    assert made.free_name("c") == "c 2"
    made.add("a", removed)
    assert list(made.bundles) == ["c", "middle", "a"]
    with pytest.raises(InvalidParameterError, match="no bundle 'x'; there is c, middle, a"):
        made.remove("x")


def test_missing_files_are_named_and_may_be_elsewhere(folder: Path) -> None:
    made = project(folder)
    wanted = digests(made)
    made.save(folder / "a.tracts.json")
    (folder / "new").mkdir()
    (folder / "data" / "fod.nii.gz").rename(folder / "new" / "subject1.nii.gz")
    (folder / "data" / "some.tck").unlink()
    with pytest.raises(MissingFilesError, match="and 1 more") as caught:
        nt.Project.load(folder / "a.tracts.json")
    lost_fod, lost_tck = caught.value.paths
    assert lost_fod == str(folder / "data" / "fod.nii.gz")
    assert lost_tck == str(folder / "data" / "some.tck")
    found_fod = {lost_fod: folder / "new" / "subject1.nii.gz"}
    with pytest.raises(MissingFilesError) as caught:
        nt.Project.load(folder / "a.tracts.json", places=found_fod)
    assert caught.value.paths == (lost_tck,)
    made.bundles["opened"].whole().save(folder / "some.tck")  # beside the project
    found = nt.Project.load(
        folder / "a.tracts.json", places={"fod.nii.gz": folder / "new" / "subject1.nii.gz"}
    )
    assert digests(found) == wanted


def test_a_project_of_another_drive_of_windows_is_opened_here(folder: Path) -> None:
    made = nt.Project()
    made.add("a", recipe(folder))
    made.save(folder / "a.tracts.json")
    content = json.loads((folder / "a.tracts.json").read_text())
    content["bundles"][0]["recipe"]["fod"]["path"] = "D:\\data\\fod.nii.gz"
    (folder / "a.tracts.json").write_text(json.dumps(content))
    places = {"fod.nii.gz": folder / "data" / "fod.nii.gz"}
    assert digests(nt.Project.load(folder / "a.tracts.json", places=places)) == digests(made)
    (folder / "data" / "fod.nii.gz").rename(folder / "fod.nii.gz")
    assert nt.Project.load(folder / "a.tracts.json").files().keys() == {str(folder / "fod.nii.gz")}


def test_a_file_that_changed_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = project(folder)
    digests(made)
    made.save(folder / "a.tracts.json")
    nt.load_tractogram(folder / "data" / "some.tck")[:-1].save(folder / "data" / "some.tck")
    save_weights(np.ones(59), folder / "data" / "some.txt")
    found = nt.Project.load(folder / "a.tracts.json")
    assert [Path(path).name for path in found.changed_files()] == ["some.txt", "some.tck"]
    save_weights(np.ones(3), folder / "data" / "some.txt")
    with caplog.at_level(logging.WARNING), pytest.raises(TractographyError, match=r"some\.txt"):
        found.bundles["opened"].tractogram()
    assert "some.tck is not the file" in caplog.text


def test_an_fod_that_changed_is_named_until_streamlines_are_made_anew(folder: Path) -> None:
    made, file = nt.Project(), folder / "a.tracts.json"
    made.add("a", recipe(folder)).tractogram()
    made.save(file)
    fod = folder / "data" / "fod.nii.gz"
    image = nib.load(fod)
    nib.save(
        nib.Nifti1Image(np.asarray(image.dataobj) * [1, 1, 1, 1, 1, 0.5, *[1] * 22], image.affine),
        fod,
    )
    for _ in range(2):  # also after it was saved
        made = nt.Project.load(file)
        assert made.changed_files() == [str(fod)]
        whole = made.bundles["a"].tractogram()
        assert made.bundles["a"].is_proven is False
        assert made.changed_files() == [str(fod)]
        made.save(file)
    made.bundles["a"].edit(Edit.keep(range(3)))
    assert made.changed_files() == [str(fod)]
    assert len(whole) > len(made.bundles["a"].tractogram()) == 3
    assert made.changed_files() == []  # the digest is that of what is there now


def test_a_failed_save_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project(folder)
    made.save(folder / "a.tracts.json")
    before = (folder / "a.tracts.json").read_bytes()
    made.views = {"camera": object()}
    with pytest.raises(InvalidParameterError, match="views"):
        made.save(folder / "a.tracts.json")
    assert (folder / "a.tracts.json").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["a.tracts.json", "data"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param({"format": "napari-tractography recipe"}, "no project", id="recipe"),
        pytest.param({"format_version": 99}, "99", id="newer"),
        pytest.param({"bundles": [{"name": "a"}]}, "neither recipe nor", id="no source"),
        pytest.param({"bundles": [{}]}, "name is missing", id="no name"),
        pytest.param({"bundles": 3}, "bundles is 3", id="no list"),
        pytest.param({"views": []}, "views is a list", id="views"),
        pytest.param({"extra": 1}, "extra", id="unknown field"),
    ],
)
def test_damaged_projects_are_said(tmp_path: Path, change, word: str) -> None:
    nt.Project().save(tmp_path / "a.tracts.json")
    content = json.loads((tmp_path / "a.tracts.json").read_text())
    (tmp_path / "a.tracts.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(FileError, match=word):
        nt.Project.load(tmp_path / "a.tracts.json")


def test_an_empty_project_comes_back(tmp_path: Path) -> None:
    nt.Project().save(tmp_path / "a.tracts.json")
    assert nt.Project.load(tmp_path / "a.tracts.json").bundles == {}


def test_three_bundles_on_each_side_of_a_brain(
    shared_data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With AND and NOT regions, edits and mirrored: saved, loaded and proved by their digests."""
    fod = FodSource.file(shared_data / "brain" / "fod_template.mif.gz")
    volume = fod.load()
    parameters = nt.TrackingParameters.for_fod(volume, max_length_mm=150.0, random_seed=3)
    # Spheres on the way of three tracts that any map of the brain shows, in the space of the
    # template: up and down, front to back, and around.
    places = {
        "CST left": (
            (-26, -22, 20), [("include", (-24, -24, 45), 14), ("exclude", (22, 0, 20), 18)]
        ),
        "cingulum left": (
            (-9, 0, 36), [("include", (-9, -24, 38), 10), ("exclude", (0, -5, -10), 20)]
        ),
        "IFOF left": (
            (-32, 0, -6), [("include", (-30, -40, 4), 14), ("exclude", (40, -20, 0), 30)]
        ),
    }  # fmt: skip
    made = nt.Project()
    for name, (seed, regions) in places.items():
        sources = tuple(
            RegionSource(role, f"{role} left", tuple(map(float, centre)), float(radius))
            for role, centre, radius in regions
        )
        seeds = (SeedSource("sphere", 400, 3, tuple(map(float, seed)), 6.0),)
        bundle = made.add(name, nt.Recipe(fod, seeds, parameters, regions=sources))
        bundle.edit(Edit.lengths(20.0), Edit.outliers(15.0))
        other = bundle.mirrored(0.0)
        made.add(other.name, other)
    counts = {name: len(bundle.tractogram()) for name, bundle in made.bundles.items()}
    assert list(counts) == [
        "CST left", "CST right", "cingulum left", "cingulum right", "IFOF left", "IFOF right",
    ]  # fmt: skip
    assert min(counts.values()) > 5, counts
    sides = {name: bundle.tractogram().points[:, 0].mean() for name, bundle in made.bundles.items()}
    for name, x in sides.items():
        assert (x < 0) == name.endswith("left"), sides
    wanted = digests(made)
    assert len(set(wanted)) == 6
    made.save(tmp_path / "brain.tracts.json")
    assert (tmp_path / "brain.tracts.json").stat().st_size < 30_000
    with caplog.at_level(logging.WARNING):
        found = nt.Project.load(tmp_path / "brain.tracts.json")
        assert digests(found) == wanted
    assert "not those of the recipe" not in caplog.text
    assert all(bundle.is_proven for bundle in found.bundles.values())


def test_a_project_as_python_gives_the_same_digests_in_a_process_of_its_own(
    folder: Path,
) -> None:
    made = project(folder)
    sphere = nt.Region.sphere((8.0, -14.0, 21.0), 30.0, "include")
    everything = made.add(
        "edited, every kind",
        recipe(
            folder,
            random_seed=3,
            weights=None,
            regions=(RegionSource.of(sphere),),
            edits=(
                Edit.cut((0.0, 2.0, 0.0), (0.0, 1.0, 0.2)),
                Edit.outliers(40.0),
                Edit.keep(np.arange(0, 20, 2)),
                Edit.delete([1]),
                Edit.passing(
                    [nt.Region.mask(np.ones((3, 3, 3)), np.diag([4.0, 4.0, 4.0, 1.0]), "exclude")]
                ),
            ),
        ),
    )
    wanted = digests(made)
    assert len(everything.tractogram()) > 1
    script = made.as_python()
    assert max(map(len, script.splitlines())) <= 200
    file = folder / "copied.py"
    file.write_text(script)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=True, cwd=folder.parent
    )
    found = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert found == [[digest, name] for digest, name in zip(wanted, made.bundles, strict=True)]
    assert done.stderr == ""  # nothing differs from what was known


def test_numbers_of_numpy_are_plain_in_scripts(folder: Path) -> None:
    made = nt.Project()
    centre = np.array([8.0, -14.0, 21.0])
    seeds = (SeedSource("sphere", np.int64(20), 0, tuple(centre), np.float64(30.0)),)
    made.add("drawn", nt.Recipe(recipe(folder).fod, seeds, PARAMETERS))
    names: dict[str, nt.Project] = {}
    exec(made.as_python(), names)
    assert digests(names["project"]) == digests(made)
    assert len(made.bundles["drawn"].tractogram()) > 0
