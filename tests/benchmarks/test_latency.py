"""The benchmark of previews: what its summary counts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def latency(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/latency.py as a module."""
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
        points=[3000] * n,
    )
    summary = latencies.summary()
    assert summary["previews"] == counted
    assert summary["percentiles, ms"]["100 %"] == 20.0
    assert sum(summary["histogram, ms"].values()) == counted
