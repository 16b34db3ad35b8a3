"""The command `replay`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import napari_tractography as nt
from napari_tractography.cli import main

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
    assert "only to a tolerance" in caplog.text
