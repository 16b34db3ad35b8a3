"""The contestants: each tracks the same, in the units that it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import comparison
from comparison import CONTESTANTS, ROWS
from napari_tractography.model.phantoms import make_phantom, phantom_mask
from napari_tractography.tracking.speed import Case, Contestant, Ours
from peers import mrtrix
from peers.cuslines import Cuslines
from peers.dipy import Dipy
from peers.mrtrix import MRtrix, MRtrixInput
from peers.tractography_jl import TractographyJl


@pytest.fixture
def case() -> Case:
    """The phantom of three arcs, in large steps."""
    return Case(make_phantom("arcs"), phantom_mask("arcs"), step_mm=1.0, max_length_mm=60.0)


@pytest.mark.parametrize(
    "contestant",
    [
        pytest.param(Ours("ours", output="endpoints"), id="ours"),
        pytest.param(MRtrix("iFOD1"), id="MRtrix3"),
        pytest.param(Dipy("probabilistic_tracking"), id="DIPY"),
        pytest.param(TractographyJl(), id="baseline"),
    ],
)
def test_steps_are_as_many_as_the_bundles_are_long(contestant: Contestant, case: Case) -> None:
    if contestant.missing():
        pytest.skip(contestant.missing())
    contestant.prepare(case)
    contestant.make_seeds(300)
    steps = contestant.steps(contestant.run(300)) / 300
    # Streamlines of some ten millimetres, none beyond the largest length: a wrong unit or frame
    # leaves the mask at once.
    assert 8 < steps <= 60


def test_tckgen_gets_our_angle_and_limits_and_files_that_are_written_once(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Path, dict[str, Any]]] = []
    written: list[Path] = []
    monkeypatch.setattr(
        mrtrix, "run_tckgen", lambda fod, out, arguments: given.append((fod, arguments)) or out
    )
    write = mrtrix.write_fod
    monkeypatch.setattr(
        mrtrix, "write_fod", lambda fod, path: written.append(path) or write(fod, path)
    )
    files = MRtrixInput()
    for angle in (10.0, None):
        contestant = MRtrix("iFOD1", max_angle_deg=angle, files=files)
        contestant.prepare(case)
        contestant.run(7)
    assert [arguments["angle"] for _, arguments in given] == [10.0, case.max_angle_deg]
    assert [fod for fod, _ in given] == written * 2
    for _, arguments in given:
        limits = {name: arguments[name] for name in ("minlength", "maxlength", "cutoff", "step")}
        assert limits == {"minlength": 0, "maxlength": 60.0, "cutoff": 0.05, "step": 1.0}
        assert (arguments["seeds"], arguments["select"]) == (7, 0)  # seeds in vain count as well


def test_steps_of_tckgen_are_points_but_one_a_streamline(case: Case, tmp_path: Path) -> None:
    lines = [np.zeros((n, 3), np.float32) for n in (5, 2, 1)]
    path = tmp_path / "out.tck"
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), path)
    assert MRtrix("iFOD1").steps(path) == 5


def test_tables_are_made_before_the_clock_runs(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another contestant's run may have replaced them; the start-up must not hold them."""
    ours = Ours("ours")
    ours.prepare(case)
    tracked: list[int] = []
    monkeypatch.setattr(ours, "_track", lambda fod, seeds, *_, **__: tracked.append(len(seeds)))
    ours.make_seeds(10)
    assert tracked == [1]
    ours.run(10)
    assert tracked == [1, 10]


def test_rows_compare_contestants_that_take_part() -> None:
    labels = {contestant.label for contestant in CONTESTANTS}
    assert {label for row in ROWS for label in (row.ours, row.peer)} <= labels
    assert len(labels) == len(CONTESTANTS)


class Counting:
    """Takes one step a seed and three to start."""

    def __init__(self, label: str) -> None:
        self.label = label

    def missing(self) -> str:
        return "gone" if self.label == Cuslines.label else ""

    def prepare(self, case: Case) -> None:
        assert case.fod.name == "arcs"

    def make_seeds(self, n: int) -> None:
        pass

    def run(self, n: int) -> int:
        return n + 3

    def steps(self, result: Any) -> int:
        return int(result)


def test_the_table_has_a_row_for_each_pair_and_says_who_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = ["--repeats", "1", "--seconds", "1e-9"]
    labels = {label for row in ROWS for label in (row.ours, row.peer)}
    monkeypatch.setattr(comparison, "CONTESTANTS", tuple(map(Counting, labels)))
    assert comparison.main(quick) == 0
    text = capsys.readouterr().out
    assert f"{Cuslines.label} | skipped: gone" in text
    assert text.count("MRtrix3 iFOD1") == 2
    assert comparison.main(["--json", *quick]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert len(figures["rows"]) == len(ROWS)
    assert {row["peer"] for row in figures["rows"] if row["skipped"]} == {Cuslines.label}
