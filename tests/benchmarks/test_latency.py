"""The benchmark of previews: what its summary counts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def latency(qapp: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/latency.py as a module, beside the application of all tests: it makes no other."""
    monkeypatch.setenv("QT_QPA_PLATFORM", os.environ.get("QT_QPA_PLATFORM", ""))
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "latency", raising=False)
    import latency

    return latency


@pytest.mark.parametrize(("n", "counted"), [(3, 2), (6, 3), (40, 30)])
def test_a_warm_up_is_left_out_but_never_all(latency: ModuleType, n: int, counted: int) -> None:
    latencies = latency.Latencies(
        ms=[1000.0] * (n - counted) + [20.0] * counted,
        processor_ms=[5.0] * n,
        streamlines=[100] * n,
        shown=[90] * n,
        points=[3000] * n,
    )
    summary = latencies.summary()
    assert summary["previews"] == counted
    assert summary["percentiles, ms"]["100 %"] == 20.0
    assert sum(summary["histogram, ms"].values()) == counted


def test_a_seed_is_dragged_with_each_knob(
    latency: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    fod = latency.make_phantom("arcs")
    found = latency.knobs_table(fod, 2, 20, 60.0, only=["min_prob", "exclude", "include, tissues"])
    assert list(found) == [
        "min_probability 0.02",
        "exclude, a sphere",
        "exclude, painted",
        "threshold, include, tissues",
    ]
    assert capsys.readouterr().out.count("\n") == 2 + len(found)
    one, sphere, painted, every = (each["one move at a time"] for each in found.values())
    assert one["seeds, median"] == 20
    assert sphere["streamlines, median"] <= one["streamlines, median"]
    assert abs(sphere["streamlines, median"] - painted["streamlines, median"]) <= 5
    assert every["streamlines, median"] < one["streamlines, median"]


def test_all_moves_of_a_drag_are_one_step(latency: ModuleType) -> None:
    """As by the mouse: a step for each would keep the streamlines of each, in fresh memory."""
    seed_drag = latency.SeedDrag(latency.make_phantom("arcs"), 2)
    document = seed_drag.session.document
    document.forget()
    try:
        for drag in (lambda: seed_drag.one_at_a_time(20), lambda: seed_drag.at_a_rate(60.0)):
            drag()
            assert document.last == "Move seed 1"
            document.undo()
            assert not document.can_undo
            document.forget()
    finally:
        seed_drag.close()


def test_a_seed_is_dragged_where_nothing_was_tracked(
    latency: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    fod = latency.make_phantom("arcs")
    found = latency.first_drags(fod, 2, 60.0)
    assert list(found) == ["nothing tracked before", "tracked ahead"]
    assert [row["ahead, s"] > 0 for row in found.values()] == [False, True]
    assert all(row["streamlines"] > 0 for row in found.values())
    assert capsys.readouterr().out.count("\n") == 2 + len(found)
