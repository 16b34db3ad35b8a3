"""The command `replay` over many subjects: what it makes, and what it leaves alone."""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import zarr

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.cli.subjects import scalar_names
from napari_tractography.errors import FileError
from napari_tractography.files.image_files import open_image
from napari_tractography.files.subjects import is_pattern, subjects_of
from napari_tractography.files.volume_files import save_volume
from napari_tractography.recipes.sources import FodSource, SeedSource

Track = Callable[..., int]
PATTERN = "sub-*/wmfod.nii.gz"
OUT = ("-o", "{subject}/tracts/b.tck", "--fod", PATTERN)


@pytest.fixture
def subjects(folder: Path, track: Track, drawing: nt.Fod) -> Path:
    """Two subjects with FODs of other amplitudes, and the recipe b.json."""
    assert track() == 0
    for number in (1, 2):
        own = folder / f"sub-{number}"
        own.mkdir()
        nib.save(
            nib.Nifti1Image(drawing.coefficients * (1 + 0.1 * number), drawing.grid.affine),
            own / "wmfod.nii.gz",
        )
        save_volume(np.full(drawing.grid.shape, 0.1 * number), drawing.grid, own / "fa.nii.gz")
    return folder


def rows(path: str = "tracts.csv") -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_subject_has_its_streamlines_and_a_row(
    subjects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "b.json", *OUT, "--scalar", "{subject}/fa.nii.gz"]) == 0
    assert "2 bundles of 2 subjects made, 0 were there" in capsys.readouterr().out
    for number, row in enumerate(rows(), 1):
        made = nt.load_tractogram(f"sub-{number}/tracts/b.tck")
        assert (row["subject"], row["bundle"]) == (f"sub-{number}", "b")
        assert row["file"] == f"sub-{number}/tracts/b.tck"
        assert int(row["n_streamlines"]) == len(made) > 0
        assert row["digest"] == made.digest()
        assert float(row["mean_length_mm"]) == pytest.approx(made.lengths_mm.mean(), rel=1e-4)
        assert float(row["fa_mean"]) == pytest.approx(0.1 * number, rel=1e-3)
    alone = nt.Recipe.load("b.json")
    source = type(alone.fod).file("sub-1/wmfod.nii.gz", hashed=False)
    assert rows()[0]["digest"] == alone.on_fod(source).run().digest()


def test_what_is_there_is_left_alone(subjects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "b.json", *OUT, "--quiet"]) == 0
    first, second = (subjects / f"sub-{number}/tracts/b.tck" for number in (1, 2))
    was = first.stat().st_mtime_ns
    second.write_bytes(second.read_bytes()[:-40])  # damaged: made again
    table = Path("tracts.csv").read_bytes()
    assert main(["replay", "b.json", *OUT]) == 0
    assert "1 bundles of 2 subjects made, 1 were there" in capsys.readouterr().out
    assert first.stat().st_mtime_ns == was
    assert Path("tracts.csv").read_bytes() == table
    assert len(nt.load_tractogram(second)) > 0


def test_another_fod_is_tracked_anew(subjects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "b.json", *OUT, "--quiet"]) == 0
    before = [row["inputs_sha256"] for row in rows()]
    Path("sub-2/wmfod.nii.gz").write_bytes(Path("fod.nii.gz").read_bytes())
    assert main(["replay", "b.json", *OUT]) == 0
    assert "1 bundles of 2 subjects made, 1 were there" in capsys.readouterr().out
    after = [row["inputs_sha256"] for row in rows()]
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


def test_one_that_fails_does_not_hold_up_the_others(
    subjects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sub-1/wmfod.nii.gz").write_bytes(b"no image")
    assert main(["replay", "b.json", *OUT, "--quiet"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("sub-1: b: ")
    assert "1 of 2 bundles could not be made" in told
    assert [row["subject"] for row in rows()] == ["sub-2"]
    assert not Path("sub-1/tracts").exists()


def test_bundles_of_a_project_go_to_a_folder_of_each(subjects: Path) -> None:
    project = nt.Project()
    for name in ("CST left", "CST right"):
        project.add(name, nt.Recipe.load("b.json"))
    project.save("p.tracts.json")
    words = ["replay", "p.tracts.json", "-o", "{subject}/all", "--fod", PATTERN, "--format", "trx"]
    assert main([*words, "--quiet", "--table", "t.csv"]) == 0
    assert [(row["subject"], row["bundle"]) for row in rows("t.csv")] == [
        (subject, name) for subject in ("sub-1", "sub-2") for name in ("CST left", "CST right")
    ]
    assert sorted(path.name for path in Path("sub-2/all").iterdir()) == [
        "CST_left.trx",
        "CST_right.trx",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="names are text on other disks")
def test_names_may_be_of_any_bytes(subjects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sub-1").rename("sub-\udcff")  # as Python has the byte 0xff, which is no UTF-8
    assert main(["replay", "b.json", *OUT]) == 0
    assert r"written to sub-\udcff/tracts/b.tck" in capsys.readouterr().out
    assert b"sub-\xff/tracts/b.tck" in Path("tracts.csv").read_bytes()
    assert main(["replay", "b.json", *OUT]) == 0
    assert "2 were there" in capsys.readouterr().out


def test_images_in_zarr_folders_are_those_of_many_subjects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    voxels = np.random.default_rng(0).random((24, 24, 24), np.float32)
    for number in (1, 2):
        Path(f"sub-{number}").mkdir()
        stored = zarr.open(
            f"sub-{number}/i.zarr", mode="w", shape=voxels.shape, chunks=(12, 12, 12), dtype="f4"
        )
        stored[:] = number * voxels
    image = nt.Fod.from_image(open_image("sub-1/i.zarr"), np.eye(4), name="i")
    sphere = SeedSource("sphere", 20, 0, (12.0, 12.0, 12.0), 3.0)
    nt.Recipe(FodSource.of_image(image, "sub-1/i.zarr"), (sphere,)).save("r.json")
    words = ["replay", "r.json", "-o", "{subject}/b.tck", "--fod", "sub-*/i.zarr"]
    assert main(words) == 0
    assert main(words) == 0
    told = capsys.readouterr()
    assert "0 bundles of 2 subjects made, 2 were there" in told.out
    assert "is not the file of the recipe" not in told.err
    alone = ["replay", "r.json", "--fod", "sub-2/i.zarr", "-o", "alone.tck", "--quiet"]
    assert main(alone) == 0
    assert rows()[1]["digest"] == nt.load_tractogram("alone.tck").digest()


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("{subject}/fa.nii.gz", "fa"),
        ("fa/{subject}.nii.gz", "fa"),
        ("{subject}/dwi/{subject}_FA.nii.gz", "FA"),
        ("{subject}/dwi/FA-{subject}-mean.mif", "FA-mean"),
        ("/data/md/{subject}/{subject}.nii.gz", "md"),
        ("/{subject}/{subject}.nii.gz", "scalar"),
        ("template/_FA.nii", "_FA"),
    ],
)
def test_scalar_maps_have_one_name_in_all_subjects(pattern: str, name: str) -> None:
    assert scalar_names([pattern]) == {name: pattern}


def test_a_scalar_map_is_one_column_of_all_subjects(subjects: Path) -> None:
    for folder in ("fa", "md"):
        (subjects / folder).mkdir()
        for number in (1, 2):
            shutil.copy(f"sub-{number}/fa.nii.gz", f"{folder}/sub-{number}.nii.gz")
    words = ["replay", "b.json", *OUT, "--quiet", "--scalar=fa/{subject}.nii.gz"]
    assert main([*words, "--scalar=md/{subject}.nii.gz"]) == 0
    for number, row in enumerate(rows(), 1):
        means = {name: float(row[name]) for name in row if name.endswith("_mean")}
        assert means == pytest.approx({"fa_mean": 0.1 * number, "md_mean": 0.1 * number}, rel=1e-3)
    shutil.copy("sub-2/fa.nii.gz", "fa/sub-1.nii.gz")  # noticed, though md has a file of that name
    assert main([*words, "--scalar=md/{subject}.nii.gz"]) == 0
    assert float(rows()[0]["fa_mean"]) == pytest.approx(0.2, rel=1e-3)


def test_subjects_of_the_home_folder_are_found_and_kept(
    subjects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(subjects))
    words = ["replay", "b.json", "-o", "~/{subject}/b.tck", "--table=~/t.csv", "--quiet"]
    for number in (1, 2):
        fod = f"~/sub-{number}*/wmfod.nii.gz"
        assert main([*words, "--fod", fod, "--scalar", "~/{subject}/fa.nii.gz"]) == 0
    assert [(row["subject"], row["file"]) for row in rows("t.csv")] == [
        (name, str(subjects / name / "b.tck")) for name in ("sub-1", "sub-2")
    ]
    assert len(nt.load_tractogram("sub-2/b.tck")) > 0
    assert not Path("~").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["-o", "b.tck", "--fod", PATTERN], "the same for all subjects", id="out"),
        pytest.param(["--fod", PATTERN], "-o is missing; give a name with {subject}", id="no out"),
        pytest.param([*OUT, "--fsl-in", "fa.nii"], "--fsl-in has no effect without", id="no warp"),
        pytest.param(["--data-beside"], "--data-beside is written beside", id="beside nothing"),
        pytest.param(["-o", "{subject}.tck", "--fod", "x*"], "matches no file", id="no match"),
        pytest.param(["-o", "{subject}", "--fod", PATTERN], "does not end like", id="ending"),
        pytest.param(
            [*OUT, "--scalar", "a/fa.nii", "--scalar", "{subject}_fa.nii"], "both be fa", id="maps"
        ),
        pytest.param([*OUT, "--table", "other.csv"], "is another table", id="table"),
        pytest.param([*OUT, "--table", "bare.csv"], "is another table", id="table without rows"),
        pytest.param([*OUT, "--table", "."], "is a folder", id="table is a folder"),
    ],
)
def test_impossible_wishes_are_told_before_the_work(
    subjects: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    Path("other.csv").write_text("a,b\n1,2\n")
    Path("bare.csv").write_text("a,b\n")
    assert main(["replay", "b.json", *words]) == 2
    assert told in capsys.readouterr().err
    assert Path("other.csv").read_text() == "a,b\n1,2\n"
    assert Path("bare.csv").read_text() == "a,b\n"


def test_subjects_are_named_by_what_the_pattern_matched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/sub-1/ses-1/fod.nii", "a/sub-1/ses-2/fod.nii", "b/s1_wmfod.nii.gz"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert [one.name for one in subjects_of("a/sub-*/ses-*/fod.nii")] == [
        "sub-1_ses-1",
        "sub-1_ses-2",
    ]
    assert [one.name for one in subjects_of("b/*_wmfod.nii.gz")] == ["s1"]
    with pytest.raises(FileError, match="no file"):
        subjects_of("c/*")
    Path("b/s1_wmfod.mif").touch()
    assert [one.name for one in subjects_of("b/s*_wmfod*")] == ["s1_wmfod.mif", "s1_wmfod.nii.gz"]
    assert not is_pattern("b/s1_wmfod.mif")
    assert not is_pattern(None)
