"""No command writes over what it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import FileError
from napari_tractography.files.weights import save_weights
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, SeedSource
from napari_tractography.recipes.tractogram_sources import WeightsSource

DENSITY = ["density", "one.tck", "--template", "mask.nii.gz", "-o"]
VISITATION = ["visitation", "one.tck", "--template", "mask.nii.gz", "-o", "v.nii", "--error"]
COMMANDS = {
    "a connectome over its streamlines": [
        "connectome",
        "one.tck",
        "labels.nii.gz",
        "-o",
        "one.tck",
    ],
    "a connectome over its labels": [
        "connectome",
        "one.tck",
        "labels.nii.gz",
        "-o",
        "labels.nii.gz",
    ],
    "a map over its template": [*DENSITY, "./mask.nii.gz"],
    "errors over their template": [*VISITATION, "mask.nii.gz"],
    "measures over their scalar map": ["measure", "one.tck", "--scalar", "fa.nii", "-o", "fa.nii"],
    "a profile over its streamlines": ["profile", "one.tck", "fa.nii", "-o", "one.tck"],
    "losses over their cavity": [
        *("resect", "one.tck", "--cavity", "labels.nii.gz:2", "-o", "labels.nii.gz")
    ],
    "a sweep over its recipe": ["sweep", "one.json", "--vary", "step=1,2", "-o", "one.json"],
    "weights over their streamlines": [
        *("select", "one.tck", "-o", "s.tck", "--out-weights", "one.tck")
    ],
    "a selection over its streamlines": ["select", "./one.tck", "-o", "one.tck"],
    "a selection over what it leaves out": [
        *("select", "two.tck", "--not-in", "one.tck", "-o", "one.tck")
    ],
    "weights over their own": [
        *("select", "one.tck", "-o", "s.tck", "--weights", "fa.nii", "--out-weights", "fa.nii")
    ],
    "weights beside over their own": [
        *("select", "one.tck", "-o", "s.tck", "--data-beside", "--weights", "s.weights.txt")
    ],
    "weights over a region": [
        *("select", "one.tck", "-o", "s.tck", "--weights", "w.txt"),
        *("--include", "fa.nii:3", "--out-weights", "fa.nii"),
    ],
}


@pytest.mark.parametrize("words", [pytest.param(w, id=name) for name, w in COMMANDS.items()])
def test_what_is_read_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    for name in ("one.tck", "fa.nii"):
        Path(name).write_bytes(b"never read")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{words[-1]} is read, and would be overwritten; give the output another name." in line
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["measure", "two.tck", "-o", "one.tck"], id="measures"),
        pytest.param(["profile", "two.tck", "fa.nii", "-o", "one.tck"], id="a profile"),
        pytest.param(["connectome", "two.tck", "labels.nii.gz", "-o", "one.tck"], id="counts"),
        pytest.param(["resect", "two.tck", "--cavity", "0,0,0,1", "-o", "one.tck"], id="losses"),
        pytest.param(["sweep", "a.json", "--vary", "step=1,2", "-o", "one.tck"], id="a sweep"),
        pytest.param(["cohort", "a.json", "--fod", "fod.nii.gz", "--table", "fa.nii"], id="cohort"),
        pytest.param(
            ["select", "two.tck", "-o", "s.tck", "--weights", "w.txt", "--out-weights", "one.tck"],
            id="weights",
        ),
        pytest.param(
            [
                *("replay", "a.json", "--fod", "*.nii.gz", "-o", "{subject}.tck"),
                *("--table", "one.tck"),
            ],
            id="subjects",
        ),
    ],
)
def test_text_is_not_written_over_streamlines_and_volumes(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """A shell makes `-o one.tck` and inputs of `measure -o *.tck`."""
    fod, seeds = FodSource.file("fod.nii.gz", hashed=False), SeedSource("fod", 5, 0)
    Recipe(fod=fod, seeds=(seeds,)).save("a.json")
    for name in ("one.tck", "fa.nii"):
        Path(name).write_bytes(b"kept")
    nt.Tractogram.from_streamlines([[(0, 0, 0), (1, 1, 1)]]).save("two.tck")
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{words[-1]} ends like streamlines or a volume, but text is to be written" in line
    assert {Path(name).read_bytes() for name in ("one.tck", "fa.nii")} == {b"kept"}
    assert not Path("s.tck").exists()


def test_recipes_projects_and_weights_have_names_of_text(folder: Path) -> None:
    fod, seeds = FodSource.file("fod.nii.gz", hashed=False), SeedSource("fod", 5, 0)
    wanted = folder / "bundle.trk"
    for save in (
        Recipe(fod=fod, seeds=(seeds,)).save,
        nt.Project().save,
        lambda path: save_weights([1.0], path),
    ):
        with pytest.raises(FileError, match="ends like streamlines or a volume"):
            save(wanted)
        assert not wanted.exists()


def test_a_project_is_not_replayed_over_a_file_of_its_bundles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The edits would be made once more by the next replay."""
    whole = nt.Tractogram.from_streamlines([[(0, 0, 0), (i, 1, 1)] for i in range(3)])
    (tmp_path / "out").mkdir()
    whole.save(tmp_path / "out" / "CST.tck")
    whole.save(tmp_path / "other.tck")
    project = nt.Project()
    for name, path in (("CST", "out/CST.tck"), ("other", "other.tck")):
        project.add(name, tmp_path / path).edit(Edit.delete([0]))
    project.save(tmp_path / "p.tracts.json")
    words = ["replay", str(tmp_path / "p.tracts.json"), "--format", "tck"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert "CST.tck is read, and would be overwritten; give the output another name." in told
    assert len(nt.load_tractogram(tmp_path / "out" / "CST.tck")) == 3
    assert len(nt.load_tractogram(tmp_path / "out" / "other.tck")) == 2


def test_a_recipe_is_not_replayed_over_its_weights(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nt.Tractogram.from_streamlines([[(0, 0, 0), (1, 1, 1)]]).with_weights([2]).save("w.trx")
    fod, seeds = FodSource.file("fod.nii.gz", hashed=False), SeedSource("fod", 5, 0)
    Recipe(fod=fod, seeds=(seeds,), weights=WeightsSource.file("w.trx")).save("b.json")
    before = Path("w.trx").read_bytes()
    assert main(["replay", "b.json", "-o", "w.trx"]) == 2
    assert "w.trx is read, and would be overwritten" in capsys.readouterr().err
    assert Path("w.trx").read_bytes() == before
