"""The command `cohort`: maps, a table, and what proves them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.files.volume_files import load_volume
from napari_tractography.model.cohorts import make_cohort

N_SUBJECTS = 3  # the third has a lesion
WORDS = ("cohort", "r.json", "--fod", "sub-*/wmfod.nii.gz")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sub-N/wmfod.nii.gz, and r.json with a sphere of seeds."""
    place = tmp_path_factory.mktemp("subjects")
    subjects = make_cohort(N_SUBJECTS, lmax=6)
    for number, each in enumerate(subjects, 1):
        own = place / f"sub-{number}"
        own.mkdir()
        image = nib.Nifti1Image(each.fod.coefficients, each.fod.grid.affine)
        nib.save(image, own / "wmfod.nii.gz")
    centre = np.mean([each.places_mm[0] for each in subjects], axis=0)
    sphere = ",".join(f"{x:.1f}" for x in (*centre, 3))
    words = ["track", str(place / "sub-1/wmfod.nii.gz"), "-o", str(place / "r.tck")]
    words += ["--seed-sphere", sphere, "--n-seeds", "60"]
    assert main([*words, "--quiet"]) == 0
    return place


@pytest.fixture
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with links to those files."""
    for path in written.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(path: str = "cohort.csv") -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_map_and_table_are_those_of_the_subjects(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--map", "share.nii.gz", "--error", "error.nii.gz"]) == 0
    told = capsys.readouterr().out
    assert "voxels are reached in some of 3 subjects" in told
    assert "written to cohort.csv, share.nii.gz, error.nii.gz" in told
    found = rows()
    assert [row["rank"] for row in found] == ["1", "2", "3"]
    assert found[0]["subject"] == "sub-3"  # its bundle is cut
    words = ["replay", "r.json", "--fod", "sub-*/wmfod.nii.gz", "-o", "{subject}-r.tck", "--quiet"]
    assert main([*words, "--backend", "cpu"]) == 0
    one_by_one = {row["subject"]: row for row in rows("tracts.csv")}
    densities = []
    share, grid = load_volume("share.nii.gz")
    for row in found:
        own = one_by_one[row["subject"]]
        assert row["digest"] == own["digest"]
        assert row["inputs_sha256"] == own["inputs_sha256"]
        assert row["n_streamlines"] == own["n_streamlines"]
        assert float(row["mean_length_mm"]) == pytest.approx(float(own["mean_length_mm"]), rel=1e-4)
        densities.append(nt.density(nt.load_tractogram(own["file"]), grid) >= 1)
    np.testing.assert_allclose(share, np.mean(densities, axis=0), atol=1e-6)
    error = load_volume("error.nii.gz")[0]
    np.testing.assert_allclose(error, np.sqrt(share * (1 - share) / 3), atol=1e-6)


def test_a_table_that_is_there_is_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--quiet"]) == 0
    before = Path("cohort.csv").read_bytes()
    assert main([*WORDS, "--quiet"]) == 0
    assert Path("cohort.csv").read_bytes() == before
    digest = rows()[1]["digest"]
    Path("cohort.csv").write_bytes(before.replace(digest.encode(), b"0" * len(digest)))
    assert main([*WORDS, "--quiet"]) == 1
    name = rows()[1]["subject"]
    assert f"{name}: not the streamlines that cohort.csv had" in capsys.readouterr().err
    assert Path("cohort.csv").read_bytes() == before


def test_files_may_be_named_one_by_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [f"sub-{number}/wmfod.nii.gz" for number in (1, 2)]
    words = ["cohort", "r.json", "--fod", *files, "--table", "two.csv", "--quiet"]
    assert main([*words, "--template", files[0], "--min-streamlines", "2"]) == 0
    assert sorted(row["subject"] for row in rows("two.csv")) == ["sub-1", "sub-2"]
    flags = [word for path in files for word in ("--fod", path)]
    assert main(["cohort", "r.json", *flags, "--table", "flags.csv"]) == 0
    assert sorted(row["fod"] for row in rows("flags.csv")) == [str(folder / path) for path in files]
    # Of two, either is like the other as the other is like it.
    assert re.search(r"of 2 subjects, \d+ in all; written", capsys.readouterr().out)


def test_a_file_counts_for_one_subject(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["sub-1/wmfod.nii.gz", "sub-2/wmfod.nii.gz", "sub-2/../sub-1/wmfod.nii.gz"]
    assert main(["cohort", "r.json", "--fod", *files]) == 2
    assert f"{folder / files[0]} is given twice" in capsys.readouterr().err


def test_peaks_of_subjects_are_in_the_axes_that_were_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read along scanner axes they run elsewhere, and look as plausible."""
    monkeypatch.chdir(tmp_path)
    slant = np.array([0.8, -0.6, 0.0], np.float32)  # along the voxels' axes, of which x is flipped
    peaks = np.broadcast_to(slant, (20, 20, 6, 3))
    flipped = np.diag([-1.0, 1.0, 1.0, 1.0])
    for number in (1, 2):
        Path(f"sub-{number}").mkdir()
        nib.save(nib.Nifti1Image(peaks, flipped), f"sub-{number}/peaks.nii.gz")
    words = ["track", "sub-1/peaks.nii.gz", "-o", "b.tck", "--axes", "voxel", "--quiet"]
    assert main([*words, "--seed-sphere", "-10,10,3,1", "--n-seeds", "20"]) == 0
    digest = nt.load_tractogram("b.tck").digest()
    pattern = "sub-*/peaks.nii.gz"
    assert main(["cohort", "b.json", "--fod", pattern, "--quiet"]) == 0
    assert [row["digest"] for row in rows()] == [digest] * 2
    assert main(["replay", "b.json", "--fod", pattern, "-o", "{subject}/b.tck", "--quiet"]) == 0
    assert [row["digest"] for row in rows("tracts.csv")] == [digest] * 2
    assert main(["replay", "b.json", "--fod", "sub-2/peaks.nii.gz", "-o", "c.tck", "--quiet"]) == 0
    assert nt.load_tractogram("c.tck").digest() == digest


def test_subjects_with_warps_have_the_digests_of_replay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Subjects are moved away from r.json's FOD, each by itself; affines lead back."""
    wanted = main([*WORDS, "--table", "there.csv", "--map", "there.nii.gz", "--quiet"])
    assert wanted == 0
    for number in range(1, N_SUBJECTS + 1):
        own = Path(f"far-{number}")
        own.mkdir()
        image = nib.load(f"sub-{number}/wmfod.nii.gz")
        affine = image.affine.copy()
        affine[:3, 3] += 64.0 * number
        nib.save(nib.Nifti1Image(image.get_fdata(dtype=np.float32), affine), own / "fod.nii.gz")
        back = np.eye(4)
        back[:3, 3] = -64.0 * number
        np.savetxt(own / "back.txt", back)
    many = ["r.json", "--fod", "far-*/fod.nii.gz", "--warp", "{subject}/back.txt", "--quiet"]
    assert main(["cohort", *many, "--map", "share.nii.gz"]) == 0
    assert main(["replay", *many, "-o", "{subject}.tck", "--backend", "cpu"]) == 0
    one_by_one = {row["subject"]: row for row in rows("tracts.csv")}
    for row in rows():
        assert row["digest"] == one_by_one[row["subject"]]["digest"]
        assert row["inputs_sha256"] == one_by_one[row["subject"]]["inputs_sha256"]
    (share, grid), (there, other) = load_volume("share.nii.gz"), load_volume("there.nii.gz")
    assert grid == other
    assert np.mean((share > 0) == (there > 0)) > 0.99
    np.testing.assert_allclose(share.sum(), there.sum(), rtol=0.05)
    inverted = [word.replace("back.txt", "away.txt") for word in many]
    for number in range(1, N_SUBJECTS + 1):
        affine = np.linalg.inv(np.loadtxt(f"far-{number}/back.txt"))
        np.savetxt(f"far-{number}/away.txt", affine)
    assert main(["cohort", *inverted, "--invert-warp", "--table", "inverted.csv"]) == 0
    assert {row["digest"] for row in rows("inverted.csv")} == {row["digest"] for row in rows()}
    assert main(["cohort", *inverted, "--table", "away.csv"]) == 2  # all seeds lie outside
    capsys.readouterr()
    assert main(["cohort", *many, "--table", "far-1/back.txt"]) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--fod", "x*"], "wmfod.nii.gz is a pattern beside other", id="patterns"),
        pytest.param(["--map", "share.csv"], "share.csv", id="no volume"),
        pytest.param(["--map", "r.json.nii", "--error", "r.json.nii"], "r.json.nii", id="twice"),
        pytest.param(["--table", "other.csv"], "other.csv is another table", id="table"),
        pytest.param(["--min-streamlines", "0"], "--min-streamlines = 0", id="streamlines"),
        pytest.param(["--max-memory", "-1"], "--max-memory = -1", id="memory"),
        pytest.param(["--warp", "{subject}/gone.txt"], "sub-1/gone.txt", id="warp"),
        pytest.param(["--invert-warp"], "--invert-warp has no effect without", id="no warp"),
        pytest.param(
            ["--backend", "cuda"], "--backend = 'cuda' is none for a cohort", id="backend"
        ),
    ],
)
def test_what_makes_no_sense_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    Path("other.csv").write_text("a,b\n1,2\n", "utf-8")
    assert main(["cohort", "r.json", "--fod", "x*"]) == 2
    assert "x* matches no file" in capsys.readouterr().err
    assert main([*WORDS, *words]) == 2
    assert told in capsys.readouterr().err
    assert not Path("cohort.csv").exists()
