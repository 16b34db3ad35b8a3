"""The command `select`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.files.volume_files import load_grid
from napari_tractography.files.weights import load_weights, save_weights

Track = Callable[..., int]


def test_select_takes_what_the_function_takes(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    whole = nt.load_tractogram("b.tck")
    grid = load_grid("labels.nii.gz")
    left = [grid.to_voxel(line)[:, 0].max() < grid.shape[0] // 2 - 1 for line in whole]
    line = list(whole)[left.index(True)]  # away from what is labelled
    centre = line[len(line) // 2]
    sphere = ",".join(f"{x:.3f}" for x in [*centre, 5.0])
    words = [f"--include={sphere}", "--exclude", "labels.nii.gz:4", "--min-length", "3"]
    assert main(["select", "b.tck", "-o", "c.tck", *words]) == 0
    labels = nt.Grid(load_grid("labels.nii.gz").shape, load_grid("labels.nii.gz").affine)
    mask = np.zeros(labels.shape)
    mask[labels.shape[0] // 2 :] = 1
    wanted = whole.select(
        regions=[
            nt.Region.sphere([float(x) for x in sphere.split(",")[:3]], 5.0, "include"),
            nt.Region.mask(mask, labels, "exclude"),
        ],
        length_mm=(3.0, np.inf),
    )
    assert 0 < len(wanted) < len(whole)
    assert nt.load_tractogram("c.tck").digest() == wanted.digest()
    assert f"{len(wanted)} of {len(whole)} streamlines taken" in capsys.readouterr().out


def test_select_by_weights_and_writes_those_of_what_it_takes(folder: Path, track: Track) -> None:
    assert track() == 0
    n = len(nt.load_tractogram("b.tck"))
    save_weights(np.arange(n), "w.txt")
    words = ["--weights", "w.txt", "--min-weight", "5", "--out-weights", "out.txt"]
    assert main(["select", "b.tck", "-o", "c.trx", *words, "--reference", "fod.nii.gz"]) == 0
    assert load_weights("out.txt").tolist() == list(range(5, n))
    assert load_weights("c.trx", "weights").tolist() == list(range(5, n))
    # A column of the .trx file by its name.
    words = ["--weights", "weights", "--min-weight", "6"]
    assert main(["select", "c.trx", "-o", "d.tck", *words]) == 0
    assert len(nt.load_tractogram("d.tck")) == n - 6


def test_where_none_is_left_nothing_is_written(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    Path("c.tck").write_bytes(b"older")
    assert main(["select", "b.tck", "-o", "c.tck", "--min-length", "9999"]) == 2
    told = capsys.readouterr().err
    assert "streamlines of b.tck is left; give other regions" in told
    assert told.count("\n") == 1
    assert Path("c.tck").read_bytes() == b"older"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--min-weight", "1"], "give --weights", id="no weights"),
        pytest.param(["--weights", "few.txt"], "few.txt does not fit b.tck", id="too few"),
        pytest.param(["--include", "0,0,0,0"], "positive number", id="empty sphere"),
        pytest.param(
            ["--min-length", "9", "--max-length", "8"],
            "--min-length 9 to --max-length 8 is no range",
            id="range",
        ),
        pytest.param(["--max-length", "nan"], "to --max-length nan is no range", id="NaN"),
        pytest.param(["--stop", "0,0,0,1"], "--stop", id="role"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert track() == 0
    Path("few.txt").write_text("1 2 3\n")
    assert main(["select", "b.tck", "-o", "c.tck", *words]) == 2
    assert told in capsys.readouterr().err
    assert not Path("c.tck").exists()


def test_select_takes_what_another_file_holds_or_does_not(
    folder: Path,
    track: Track,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert track() == 0
    whole = nt.load_tractogram("b.tck")
    n = len(whole)
    whole[2:5].save("some.tck")
    assert main(["select", "b.tck", "-o", "without.tck", "--not-in", "some.tck"]) == 0
    wanted = whole[np.delete(np.arange(n), [2, 3, 4])]
    assert nt.load_tractogram("without.tck").digest() == wanted.digest()
    words = ["--also-in", "some.tck", "--not-in", "without.tck"]
    assert main(["select", "b.tck", "-o", "both.tck", *words]) == 0
    assert nt.load_tractogram("both.tck").digest() == whole[2:5].digest()
    assert f"3 of {n} streamlines taken" in capsys.readouterr().out
    assert not caplog.messages
    assert main(["select", "some.tck", "-o", "none.tck", "--not-in", "b.tck"]) == 2
    assert not Path("none.tck").exists()


def test_two_files_that_have_no_streamline_in_common_are_told(
    folder: Path,
    track: Track,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A .trk file rounds: all streamlines would be those that it does not hold."""
    assert track() == 0
    nt.load_tractogram("b.tck")[2:5].save("some.trk", reference=nt.load_fod("fod.nii.gz"))
    capsys.readouterr()
    caplog.clear()
    told = (
        "b.tck and some.trk have no streamline in common, to the last bit of its points, which "
        ".trk files and float16 round; where they hold the same, take files of one format."
    )
    assert main(["select", "b.tck", "-o", "rest.tck", "--not-in", "some.trk"]) == 0
    assert caplog.messages == [told]
    assert main(["select", "b.tck", "-o", "none.tck", "--also-in", "some.trk"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert not Path("none.tck").exists()
