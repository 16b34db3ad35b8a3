"""The command `replay`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.cli.replay import file_names
from napari_tractography.recipes.edits import Edit

Track = Callable[..., int]


def test_replay_makes_the_same_streamlines(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track("--mask", "mask.nii.gz", "--algorithm", "deterministic") == 0
    assert main(["replay", "b.json", "-o", "again.trk", "--threads", "1"]) == 0
    assert "the same streamlines" in capsys.readouterr().out
    assert nt.load_tractogram("again.trk").n_points == nt.load_tractogram("b.tck").n_points


def test_replay_tells_other_streamlines_by_its_exit_code(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    content = json.loads(Path("b.json").read_text())
    content["parameters"]["step_mm"] = 0.9
    Path("b.json").write_text(json.dumps(content))
    assert main(["replay", "b.json"]) == 1
    assert "not the recipe's streamlines" in capsys.readouterr().out


def test_a_replay_that_gives_nothing_says_so_and_writes_nothing(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert track() == 0
    _project()
    fod = nib.load("fod.nii.gz")
    (folder / "sub-1").mkdir()
    nib.save(nib.Nifti1Image(0.001 * fod.get_fdata(), fod.affine), "sub-1/fod.nii.gz")
    capsys.readouterr()
    faint = ["--fod", "sub-1/fod.nii.gz", "--quiet"]
    assert main(["replay", "b.json", "-o", "none.tck", *faint]) == 2
    err = capsys.readouterr().err
    assert "No streamlines from 50 seeds" in err
    assert err.endswith("Nothing was written.\n")
    assert not Path("none.tck").exists()
    assert main(["replay", "p.tracts.json", "-o", "out", *faint]) == 2
    assert "No streamlines from 50 seeds" in capsys.readouterr().err
    assert not list(Path("out").iterdir())
    # Of many subjects it is a row of the table, and said.
    many = ["--fod", "sub-*/fod.nii.gz", "--quiet"]
    assert main(["replay", "b.json", "-o", "{subject}.tck", *many]) == 0
    assert "sub-1.tck: No streamlines from 50 seeds" in caplog.text


def test_replay_names_the_backend_that_differs(
    track: Track, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert track("--algorithm", "diffusion", "--backend", "cpu") == 0
    content = json.loads(Path("b.json").read_text())
    content |= {"digest": "0" * 64, "backend": "cuda:0", "device": "NVIDIA H200"}
    Path("b.json").write_text(json.dumps(content))
    assert main(["replay", "b.json", "--backend", "cpu"]) == 1
    assert "not the recipe's streamlines" in capsys.readouterr().out
    assert "tracked by cuda:0 (NVIDIA H200) then, by cpu" in caplog.text


# ------------------------------------------------------------------------------------ of a project


def _project() -> nt.Project:
    """Two bundles of b.json, and b.tck as a third; saved as p.tracts.json."""
    recipe = nt.Recipe.load("b.json")
    project = nt.Project()
    project.add("CST: left/1", recipe)
    other = project.add("CST left_1", recipe)
    other.edit(Edit.delete([0, 1]), Edit.lengths(2.0))
    project.add("file", "b.tck")
    for bundle in project.bundles.values():
        bundle.tractogram()
    project.save("p.tracts.json")
    return project


def test_replay_of_a_project_writes_all_its_bundles(
    track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    project = _project()
    assert main(["replay", "p.tracts.json", "-o", "out", "--format", "trx"]) == 0
    told = capsys.readouterr().out
    assert told.count("the same as the project's") == 3
    names = sorted(path.name for path in Path("out").iterdir())
    assert names == ["CST_left_1-2.trx", "CST_left_1.trx", "file.trx"]
    counts = [len(bundle.tractogram()) for bundle in project.bundles.values()]
    assert counts[1] < counts[0]
    found = [len(nt.load_tractogram(f"out/{name}")) for name in names]
    assert sorted(found) == sorted(counts)


def test_replay_of_a_project_tells_other_streamlines_by_its_exit_code(
    track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    _project()
    content = json.loads(Path("p.tracts.json").read_text())
    content["bundles"][0]["recipe"]["parameters"]["step_mm"] = 0.9
    Path("p.tracts.json").write_text(json.dumps(content))
    assert main(["replay", "p.tracts.json"]) == 1
    told = capsys.readouterr().out
    assert told.count("not the project's") == 1
    assert told.count("the same as the project's") == 2


def test_replay_on_another_subject_compares_nothing(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    _project()
    other = nib.load("fod.nii.gz")
    nib.save(nib.Nifti1Image(0.9 * other.get_fdata(), other.affine), "other.nii.gz")
    assert main(["replay", "p.tracts.json", "-o", "out", "--fod", "other.nii.gz"]) == 0
    told = capsys.readouterr().out
    assert "file: from a file of streamlines, not tracked; left out" in told
    assert "digests are not compared" in told
    assert "the same" not in told
    written = sorted(path.stat().st_size for path in Path("out").iterdir())
    assert len(written) == 2
    assert main(["replay", "b.json", "--fod", "other.nii.gz"]) == 0
    assert "digests are not compared" in capsys.readouterr().out


def test_a_bundle_that_cannot_be_made_does_not_keep_the_others_back(
    track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    _project()
    content = json.loads(Path("p.tracts.json").read_text())
    content["bundles"][0]["recipe"]["regions"] = [{"role": "include", "radius_mm": -1.0}]
    Path("p.tracts.json").write_text(json.dumps(content))
    assert main(["replay", "p.tracts.json", "-o", "out"]) == 2
    told = capsys.readouterr()
    assert "CST: left/1: " in told.err
    assert "1 of 3 bundles could not be made" in told.err
    assert len(list(Path("out").iterdir())) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--format", "png"], "png is unknown", id="format"),
        pytest.param(["-o", "absent/out"], "absent", id="folder"),
        pytest.param(["-o", "b.tck"], "b.tck cannot be made a folder", id="file"),
    ],
)
def test_what_is_wrong_with_a_replay_of_a_project_is_said_first(
    track: Track, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert track() == 0
    _project()
    assert main(["replay", "p.tracts.json", *words]) == 2
    assert told in capsys.readouterr().err


def test_names_of_files_are_safe_and_differ() -> None:
    names = ["a/b", "a b", "A_B", "../..", "é(1)", "..", ""]
    assert file_names(names) == ["a_b", "a_b-2", "A_B-3", "bundle", "é_1", "bundle-2", "bundle-3"]


def test_no_file_has_the_name_of_a_device_of_windows() -> None:
    """Whatever the ending: nul.trk is nothing there, and com1.trk a plug."""
    assert file_names(["NUL", "com1.left", "console"]) == [
        "bundle-NUL",
        "bundle-com1.left",
        "console",
    ]


def test_replay_of_a_recipe_makes_its_edits(
    track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    recipe = dataclasses.replace(nt.Recipe.load("b.json"), edits=(Edit.keep([0, 2, 3]),), digest="")
    recipe.with_result(recipe.run()).save("e.json")
    assert main(["replay", "e.json", "-o", "e.tck"]) == 0
    told = capsys.readouterr().out
    assert "3 streamlines after edits" in told
    assert "the same streamlines as the recipe's" in told
    assert len(nt.load_tractogram("e.tck")) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--format", "trk"], "--format trk is of projects", id="format"),
        pytest.param(["--scalar", "fa.nii.gz"], "--scalar fa.nii.gz is for many", id="scalar"),
        pytest.param(["--table", "t.csv"], "--table t.csv is for many subjects", id="table"),
    ],
)
def test_flags_that_mean_nothing_for_a_recipe_are_refused(
    folder: Path,
    track: Track,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    assert track() == 0
    assert main(["replay", "b.json", *words]) == 2
    assert message in capsys.readouterr().err
