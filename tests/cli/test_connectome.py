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
