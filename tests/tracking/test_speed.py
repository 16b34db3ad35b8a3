"""Measuring speed: what is tracked, counted, skipped and taken off, never how fast it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from napari_tractography.errors import InvalidMaskError
from napari_tractography.model.phantoms import make_phantom, phantom_mask
from napari_tractography.tracking import speed
from napari_tractography.tracking.speed import (
    Case,
    Measurement,
    _fitting_size,
    _speed,
    make_case,
    measure,
)
from peers.mrtrix import write_fod, write_mask


class Counting:
    """Takes one step a seed and three to start."""

    def __init__(self, label: str, missing: str = "") -> None:
        self.label = label
        self._missing = missing
        self.calls: list[str] = []

    def missing(self) -> str:
        return self._missing

    def prepare(self, case: Case) -> None:
        self.calls.append("prepare")

    def make_seeds(self, n: int) -> None:
        self.calls.append("make_seeds")

    def run(self, n: int) -> int:
        self.calls.append("run")
        return n + 3

    def steps(self, result: Any) -> int:
        return int(result)


@pytest.fixture
def case() -> Case:
    """The phantom, which these contestants do not look at."""
    return make_case()


def test_missing_peers_are_skipped_by_name(case: Case) -> None:
    present, absent = Counting("present"), Counting("absent", "it is not installed")
    speeds = measure(case, (present, absent), repeats=2, seconds=0.0)
    assert [found.skipped for found in speeds] == ["", "it is not installed"]
    assert speeds[0].steps_per_s > 0
    assert absent.calls == []
    assert present.calls[0] == "prepare"


def test_runs_take_turns(case: Case) -> None:
    seen: list[tuple[int, int, str]] = []
    contestants = (Counting("a"), Counting("b"))
    measure(
        case,
        contestants,
        repeats=2,
        seconds=0.0,
        progress=lambda *told: seen.append(told),
    )
    assert [label for _, _, label in seen] == ["a", "b", "a", "b", "a", "b", ""]
    assert [done for done, _, _ in seen] == list(range(7))


def test_a_run_that_counts_follows_an_equal_one(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def timed(contestant: Counting, n: int) -> Measurement:
        sizes.append(n)
        return Measurement(n, 1e-3 * n * (1 + sizes.count(n) % 2), 0.0)

    monkeypatch.setattr(speed, "measure_run", timed)
    monkeypatch.setattr(speed, "_fitting_size", lambda contestant, seconds: 5001)
    (found,) = measure(case, (Counting("x"),), repeats=1, seconds=0.0)
    assert sizes == [1, 5001, 5001]
    assert found.steps_per_s == pytest.approx(5000 / (5.001 - 0.002))


def test_start_up_is_taken_off_steps_and_seconds() -> None:
    start = [Measurement(10, 1.0, 0.5)] * 3
    runs = [Measurement(110, 3.0, 4.5), Measurement(1010, 3.0, 1.0)]
    runs.append(Measurement(210, 2.0, 2.5))
    found = _speed("x", start, runs, n_seeds=10)
    assert found.steps_per_s == 200.0  # of 50, 500 and 200
    assert found.steps_per_cpu_s == 100.0  # of 25, 2000 and 100
    assert found.start_up_s == 1.0
    assert found.steps_per_seed == 21.0  # of 11, 101 and 21


@pytest.mark.parametrize("start_up_s", [0.0, 1.5, 20.0])
def test_runs_are_sized_by_their_time_beyond_the_start_up(
    monkeypatch: pytest.MonkeyPatch, start_up_s: float
) -> None:
    def timed(contestant: Counting, n: int) -> Measurement:  # a millisecond a seed
        return Measurement(n, start_up_s + 1e-3 * n, 0.0)

    monkeypatch.setattr(speed, "measure_run", timed)
    wanted_s = max(3.0, start_up_s)  # a longer start-up would hide what is measured
    assert _fitting_size(Counting("x"), 3.0) == pytest.approx(1000 * wanted_s, rel=0.01)


def test_without_files_a_phantom_is_tracked() -> None:
    case = make_case(n_threads=3)
    assert case.fod.name == "arcs"
    assert np.array_equal(case.mask, phantom_mask("arcs"))
    assert case.n_threads == 3


def test_a_named_fod_is_tracked_where_it_is_or_in_the_mask(tmp_path: Path) -> None:
    fod = make_phantom("letter", lmax=4)
    path = write_fod(fod, tmp_path / "fod.nii")
    inside = phantom_mask("letter")
    mask = write_mask(inside, fod, tmp_path / "mask.nii")
    assert np.array_equal(make_case(path).mask, fod.support)
    assert np.array_equal(make_case(path, mask).mask, inside)
    assert make_case(path, frame="voxel").fod.frame == "voxel"


def test_mask_that_lies_elsewhere_is_refused(tmp_path: Path) -> None:
    fod = make_phantom("arcs")
    shifted = np.array(fod.grid.affine)
    shifted[0, 3] += 500.0
    path = write_fod(fod, tmp_path / "fod.nii")
    mask = write_mask(
        phantom_mask("arcs"), make_phantom("arcs", affine=shifted), tmp_path / "mask.nii"
    )
    with pytest.raises(InvalidMaskError, match="no voxel in common"):
        make_case(path, mask)
