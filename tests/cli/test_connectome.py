"""The command `connectome`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main

Track = Callable[..., int]


def test_connectome(folder: Path, track: Track, capsys: pytest.CaptureFixture[str]) -> None:
    assert track() == 0
    outputs = ["-o", "c.csv", "--lengths", "l.csv"]
    assert main(["connectome", "b.tck", "labels.nii.gz", *outputs]) == 0
    rows = [line.split(",") for line in Path("c.csv").read_text().splitlines()]
    assert rows[0] == ["label", "1", "4"]
    counts = np.array([row[1:] for row in rows[1:]], int)
    assert np.triu(counts).sum() == nt.load_tractogram("b.tck").n_streamlines
    assert Path("l.csv").read_text().startswith("label,1,4\n")
    assert "of 2 in the image" in capsys.readouterr().out


def test_a_connectome_of_nothing_is_written_and_drawn_as_any_other(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A script that makes one for each of many subjects gets the same files of each."""
    nt.Tractogram.from_streamlines([[(9e3, 0, 0), (9e3, 1, 0)]]).save("far.tck")
    words = ["connectome", "far.tck", "labels.nii.gz", "-o", "c.csv", "--plot", "c.png"]
    assert main(words) == 0
    assert Path("c.csv").read_text().splitlines() == ["label,1,4", "1,0,0", "4,0,0"]
    assert Path("c.png").stat().st_size
    assert "None of the 1 streamlines ends at labels on both sides" in caplog.messages[0]
    assert "written to c.csv, c.png" in capsys.readouterr().out
