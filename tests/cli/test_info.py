"""The command `info`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import napari_tractography as nt
from napari_tractography.cli import main

Track = Callable[..., int]


def test_info_of_an_fod(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "fod.nii.gz"]) == 0
    told = capsys.readouterr().out
    assert "lmax 4, 15 coefficients, tournier07" in told
    assert "scanner axes" in told
    assert "sh: SH coefficients, by header and values" in told
    assert main(["info", "fod.nii.gz", "--kind", "sh"]) == 0
    assert "sh: SH coefficients, as given" in capsys.readouterr().out


def test_info_of_a_tractogram(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    assert main(["info", "b.tck"]) == 0
    assert nt.load_tractogram("b.tck").digest() in capsys.readouterr().out
