"""The command that measures speed: what it counts, skips and prints, never how fast it was."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import pytest

from napari_tractography.benchmark import bench, peers
from napari_tractography.errors import InvalidMaskError, InvalidParameterError
from napari_tractography.phantoms import make_phantom, phantom_mask


class Counting:
    """Takes one step a seed and three to start."""

    def __init__(self, label: str, missing: str = "") -> None:
        self.label = label
        self._missing = missing
        self.calls: list[str] = []

    def missing(self) -> str:
        return self._missing

    def prepare(self, case: peers.Case) -> None:
        self.calls.append("prepare")

    def ready(self, n: int) -> None:
        self.calls.append("ready")

    def run(self, n: int) -> int:
        self.calls.append("run")
        return n + 3

    def steps(self, result: Any) -> int:
        return int(result)


@pytest.fixture
def case() -> peers.Case:
    """The phantom of three arcs, in large steps."""
    return peers.Case(make_phantom("arcs"), phantom_mask("arcs"), step_mm=1.0, max_length_mm=60.0)


def parse(*words: str) -> argparse.Namespace:
    """Parse the sub-command's flags."""
    parser = argparse.ArgumentParser()
    bench.add_bench(parser.add_subparsers())
    return parser.parse_args(["bench", *words])


def test_missing_peers_are_skipped_by_name(case: peers.Case) -> None:
    present, absent = Counting("present"), Counting("absent", "it is not installed")
    speeds = bench.measure(case, repeats=2, seconds=0.0, contestants=(present, absent))
    assert [speed.skipped for speed in speeds] == ["", "it is not installed"]
    assert speeds[0].steps_per_s > 0
    assert absent.calls == []
    assert present.calls[0] == "prepare"


def test_runs_take_turns(case: peers.Case) -> None:
    seen: list[tuple[int, int, str]] = []
    contestants = (Counting("a"), Counting("b"))
    bench.measure(
        case,
        repeats=2,
        seconds=0.0,
        contestants=contestants,
        progress=lambda *told: seen.append(told),
    )
    assert [label for _, _, label in seen] == ["a", "b", "a", "b", "a", "b", ""]
    assert [done for done, _, _ in seen] == list(range(7))


def test_start_up_is_taken_off_steps_and_seconds() -> None:
    start = [bench.Measurement(10, 1.0, 0.5)] * 3
    runs = [bench.Measurement(110, 3.0, 4.5), bench.Measurement(1010, 3.0, 1.0)]
    runs.append(bench.Measurement(210, 2.0, 2.5))
    speed = bench._speed("x", start, runs)
    assert speed.steps_per_s == 200.0  # of 50, 500 and 200
    assert speed.steps_per_cpu_s == 100.0  # of 25, 2000 and 100
    assert speed.start_up_s == 1.0


@pytest.mark.parametrize(
    "contestant",
    [
        pytest.param(peers.Ours("ours", output="endpoints"), id="ours"),
        pytest.param(peers.MRtrix("iFOD1"), id="MRtrix3"),
        pytest.param(peers.Dipy("probabilistic_tracking"), id="DIPY"),
        pytest.param(peers.TractographyJl(), id="baseline"),
    ],
)
def test_steps_are_as_many_as_the_bundles_are_long(
    contestant: peers.Contestant, case: peers.Case
) -> None:
    if contestant.missing():
        pytest.skip(contestant.missing())
    contestant.prepare(case)
    contestant.ready(300)
    steps = contestant.steps(contestant.run(300)) / 300
    # Streamlines of some ten millimetres, none beyond the largest length: a wrong unit or frame
    # leaves the mask at once.
    assert 8 < steps <= 60


def test_command_prints_a_table_or_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {label for row in bench.ROWS for label in (row.ours, row.peer)}
    absent = "cuslines, Numba"
    monkeypatch.setattr(
        bench.measure,
        "__kwdefaults__",
        bench.measure.__kwdefaults__
        | {"contestants": tuple(Counting(x, "gone" if x == absent else "") for x in labels)},
    )
    monkeypatch.setattr(bench, "FIBERCUP", bench.FIBERCUP / "gone")
    assert bench.run(parse("--repeats", "1", "--seconds", "1e-9")) == 0
    text = capsys.readouterr().out
    assert f"{absent} | skipped: gone" in text
    assert text.count("MRtrix3 iFOD1") == 2
    assert bench.run(parse("--json", "--repeats", "1", "--seconds", "1e-9")) == 0
    figures = json.loads(capsys.readouterr().out)
    assert len(figures["rows"]) == len(bench.ROWS)
    assert {row["peer"] for row in figures["rows"] if row["skipped"]} == {absent}
    assert figures["machine"]["cores"] >= 1


@pytest.mark.parametrize("flag", ["--threads", "--repeats", "--seconds"])
def test_senseless_numbers_are_refused(flag: str) -> None:
    with pytest.raises(InvalidParameterError, match=flag):
        bench.run(parse(flag, "0"))


def test_mask_on_another_grid_is_refused(tmp_path: Any) -> None:
    fod = make_phantom("arcs")
    shifted = np.array(fod.grid.affine)
    shifted[0, 3] += 1.0
    path = peers.write_fod(fod, tmp_path / "fod.nii")
    mask = peers.write_mask(phantom_mask("arcs"), make_phantom("arcs", affine=shifted),
                            tmp_path / "mask.nii")  # fmt: skip
    with pytest.raises(InvalidMaskError, match="resample"):
        bench.run(parse("--fod", str(path), "--mask", str(mask)))
