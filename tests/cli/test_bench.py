"""The command `bench`: what it prints, never how fast it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.cli import main
from napari_tractography.tracking import speed
from napari_tractography.tracking.speed import Case

QUICK = ("--repeats", "1", "--seconds", "1e-9")


class Counting:
    """Takes one step a seed and three to start."""

    def __init__(self, label: str) -> None:
        self.label = label

    def missing(self) -> str:
        return ""

    def prepare(self, case: Case) -> None:
        assert case.fod.name == "arcs"

    def make_seeds(self, n: int) -> None:
        pass

    def run(self, n: int) -> int:
        return n + 3

    def steps(self, result: Any) -> int:
        return int(result)


def test_bench_prints_a_table_or_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [contestant.label for contestant in speed.CONTESTANTS]
    monkeypatch.setattr(speed, "CONTESTANTS", tuple(map(Counting, labels)))
    assert main(["bench", *QUICK]) == 0
    text = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in text.splitlines()[5:-2]] == [f"| {n}" for n in labels]
    assert "python benchmarks/comparison.py" in text.splitlines()[-1]
    assert main(["bench", "--json", *QUICK]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert [one["label"] for one in figures["speeds"]] == labels
    assert figures["machine"]["cores"] >= 1


def test_the_fod_is_read_as_the_flags_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[Case] = []
    contestant = Counting("x")
    monkeypatch.setattr(contestant, "prepare", cases.append)
    monkeypatch.setattr(speed, "CONTESTANTS", (contestant,))
    peaks = np.broadcast_to(np.float32([0.8, -0.6, 0]), (5, 5, 5, 3))
    nib.save(nib.Nifti1Image(peaks, np.diag([-1.0, 1, 1, 1])), tmp_path / "peaks.nii")
    words = ["bench", "--fod", str(tmp_path / "peaks.nii"), *QUICK]
    assert main(words) == main([*words, "--axes", "voxel"]) == 0
    assert [case.fod.vector_reading["axes"] for case in cases] == ["scanner", "voxel"]


@pytest.mark.parametrize("flag", ["--threads", "--repeats", "--seconds"])
def test_impossible_numbers_are_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", flag, "0"]) == 2
    assert f"{flag} 0 is impossible" in capsys.readouterr().err


def test_a_run_without_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--seconds", "inf"]) == 2
    assert "--seconds inf is impossible" in capsys.readouterr().err
