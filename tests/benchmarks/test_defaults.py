"""The comparison of defaults with iFOD2: its seeds and its measures, on what is known."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import napari_tractography as nt


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/defaults.py as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "defaults", raising=False)
    import defaults

    return defaults


def test_seeds_are_the_centres_of_equal_parts_of_each_voxel(bench: ModuleType) -> None:
    """Two voxels hold an FOD; the volume is oblique to no axis, its voxels 2 mm."""
    values = np.zeros((3, 2, 2, 1))
    values[0, 0, 0] = values[2, 1, 1] = 1
    fod = nt.Fod(values, np.diag([2.0, 2.0, 2.0, 1.0]))
    found = np.sort(bench.grid_seeds(fod, 2).positions_mm, axis=0)
    assert found.shape == (16, 3)
    assert sorted(set(found[:, 0].tolist())) == [-0.5, 0.5, 3.5, 4.5]
    assert bench.grid_seeds(fod, 1).positions_mm.tolist() == [[0, 0, 0], [4, 2, 2]]


def test_lengths_that_are_alike_are_near_and_others_far(bench: ModuleType) -> None:
    lengths = np.arange(100.0)
    assert bench.ks_distance(lengths, lengths) == 0
    assert bench.ks_distance(lengths, lengths + 1000) == 1
    assert bench.ks_distance(lengths, lengths + 25) == pytest.approx(0.25)


def test_tortuosity_is_the_length_over_the_distance_of_the_ends(bench: ModuleType) -> None:
    corner = np.array([[0, 0, 0], [3, 0, 0], [3, 4, 0]], float)
    straight = np.array([[0, 0, 0], [5, 0, 0]], float)
    loop = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]], float)
    lines = nt.Tractogram.from_streamlines([corner, corner, straight, loop])
    assert bench.tortuosity_of(lines) == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"correlation": 0.96}, ["density"]),
        ({"ks": 0.13}, ["lengths"]),
        ({"tortuosity": 2.3}, ["tortuosity"]),
        ({"at_maximum": 0.03}, ["maximum length"]),
    ],
)
def test_each_target_that_is_missed_is_named(
    bench: ModuleType, changes: dict[str, float], missed: list[str]
) -> None:
    met = {
        "fod": bench.BRAIN,
        "settings": "for_fod",
        "n_streamlines": 10,
        "n_theirs": 10,
        "correlation": 0.97,
        "ks": 0.05,
        "tortuosity": 1.7,
        "their_tortuosity": 1.85,
        "at_maximum": 0.005,
    }
    one = bench.Agreement(**{**met, **changes})
    assert one.misses == missed
    text = bench.section([one], [], ["1 in brain"])
    assert f"| {bench.BRAIN} | for_fod | 10 beside 10 |" in text
    assert ("Every target is met" in text) is (not missed)


def test_the_section_of_the_page_is_replaced(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "validation.md"
    page.write_text("# Validation\n\n## First\n")
    monkeypatch.setattr(bench, "PAGE", page)
    bench.write_page("## One")
    page.write_text(page.read_text() + "\n## Last\n")
    bench.write_page("## Two")
    text = page.read_text()
    assert "One" not in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## First",
        "## Two",
        "## Last",
    ]
