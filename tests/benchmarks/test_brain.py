"""The benchmark on a whole brain: who is compared with whom, and what the report says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from napari_tractography.model.parameters import parameter_specs
from napari_tractography.model.phantoms import make_phantom, phantom_mask
from napari_tractography.tracking.speed import Case


@pytest.fixture
def brain(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/brain.py as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "brain", raising=False)
    import brain

    return brain


@pytest.fixture
def case() -> Case:
    return Case(make_phantom("arcs"), phantom_mask("arcs"), step_mm=1.0, max_length_mm=60.0)


def test_every_row_compares_those_that_take_part(brain: ModuleType) -> None:
    compared = brain.comparison()
    labels = [contestant.label for contestant in compared.contestants]
    assert len(set(labels)) == len(labels)
    assert {label for row in compared.rows for label in (row.ours, row.peer)} == set(labels)
    others = [*brain.deterministic_algorithms(), "ifod2"]
    assert len(compared.rows) == 3 * len(brain.ANGLES_DEG) + len(others)


def test_ours_and_the_peer_of_a_row_turn_by_the_same_angle(brain: ModuleType) -> None:
    for row in brain.comparison((10.0, 30.0)).rows:
        assert row.ours.rpartition(", ")[2] == row.peer.rpartition(", ")[2]


def test_ours_are_stopped_by_no_probability(
    brain: ModuleType, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked: list[Any] = []
    for contestant in brain.comparison((10.0,)).contestants:
        if contestant.label.startswith("MRtrix3"):
            continue
        contestant.prepare(case)
        monkeypatch.setattr(
            contestant, "_track", lambda fod, seeds, parameters, **_: tracked.append(parameters)
        )
        contestant.make_seeds(1)
        contestant.run(1)
    assert {parameters.min_probability for parameters in tracked} == {0.0}
    assert {parameters.max_angle_deg for parameters in tracked} == {10.0, 45.0}
    assert {parameters.n_directions for parameters in tracked} == {724, 2896}


@pytest.mark.parametrize("there", [True, False])
def test_an_algorithm_takes_part_where_it_exists(
    brain: ModuleType, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    choices = ("probabilistic", "deterministic", *(("sd_stream",) if there else ()))
    specs = tuple(
        replace(spec, choices=choices) if spec.name == "algorithm" else spec
        for spec in parameter_specs()
    )
    monkeypatch.setattr(brain, "parameter_specs", lambda: specs)
    labels = {row.ours for row in brain.comparison((15.0,)).rows}
    assert ("sd_stream, trilinear, 45 degrees" in labels) is there


def test_memory_is_that_of_the_tables_and_of_the_process(brain: ModuleType, case: Case) -> None:
    found = brain.measure_memory(case, 500)
    assert 0 < found["streamlines"] <= 500
    assert found["table_mb"] * 1e6 > case.fod.n_voxels
    assert found["peak_gb"] >= 0.9 * found["before_gb"] > 0


@pytest.fixture
def figures() -> dict[str, Any]:
    """One target met, one missed, one peer not there; memory of which the tables are too much."""
    met = {
        "what": "nearest",
        "peer": "iFOD1",
        "target": 80.0,
        "skipped": "",
        "ours_steps_per_s": 9e6,
        "peer_steps_per_s": 1e5,
        "ratio": 90.0,
        "ratio_per_cpu_s": 91.0,
    }
    return {
        "fod": "brain",
        "shape": (3, 4, 5),
        "voxel_mm": [1.7, 1.7, 1.75],
        "mask_voxels": 12345,
        "lmax": 8,
        "step_mm": 0.852,
        "min_amplitude": 0.1,
        "max_length_mm": 250.0,
        "n_threads": 2,
        "repeats": 5,
        "rows": [
            met,
            {**met, "what": "trilinear", "ratio": 39.0, "target": 40.0},
            {"what": "sd", "peer": "SD_STREAM", "target": 40.0, "skipped": "not installed"},
        ],
        "speeds": [
            {
                "label": "nearest",
                "steps_per_s": 9e6,
                "steps_per_cpu_s": 4.5e6,
                "start_up_s": 0.01,
                "steps_per_seed": 98.7,
                "skipped": "",
            }
        ],
        "memory": {"table_mb": 496.0, "peak_gb": 1.5, "streamlines": 979_770},
    }


def test_the_report_names_what_is_missed(brain: ModuleType, figures: dict[str, Any]) -> None:
    assert brain.misses(figures) == [
        "trilinear beside iFOD1: 39x of 40x",
        "tables, MB: 496 of 150",
    ]
    text = brain.table(figures)
    assert "3 x 4 x 5 voxels of 1.7 x 1.7 x 1.75 mm, of which 12,345 hold an FOD" in text
    assert "| nearest | 9.00 | iFOD1 | 0.100 | 90.0x | 91.0x | 80x |" in text
    assert "| sd | | SD_STREAM | skipped: not installed | | | |" in text
    assert "| nearest | 9.000 | 4.500 | 2.0 | 0.01 | 99 |" in text
    assert "| peak memory of 979,770 endpoints-only streamlines, GB | 1.5 | 2 |" in text
