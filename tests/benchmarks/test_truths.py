"""The battery of ground truths: what bundles fill, where seeds lie, and scores of drawn lines."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def truths(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/truths.py as a module."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "truths", raising=False)
    module = importlib.import_module("truths")
    monkeypatch.setitem(module.HALVES, "A", ((0.0, 0.0, 0.0), 1))  # bundles as they are drawn
    return module


@pytest.fixture
def battery(monkeypatch: pytest.MonkeyPatch, truths: ModuleType) -> ModuleType:
    """benchmarks/truth.py as a module."""
    monkeypatch.delitem(sys.modules, "truth", raising=False)
    return importlib.import_module("truth")


def scored(truths: ModuleType, made, *corners: list) -> object:
    """The score of lines with straight pieces between points."""
    lines = []
    for points in corners:
        pieces = [np.linspace(a, b, 81) for a, b in itertools.pairwise(points)]
        lines.append(np.concatenate(pieces))
    offsets = np.cumsum([0, *map(len, lines)])
    return truths.score(made, np.concatenate(lines), offsets, 10)


def test_lines_join_the_ends_of_one_bundle_or_of_two_or_none(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing90"], 40)
    west, east, south, north = [-40, 0, 0], [40, 0, 0], [0, -40, 0], [0, 40, 0]
    found = scored(
        truths,
        made,
        [west, east],  # valid
        [[-39, 3, 0], [38, -3, 1]],  # valid
        [west, [0, 0, 0], north],  # invalid
        [west, [-20, 0, 0], [-41, 1, 0]],  # invalid: back to where it came from
        [west, [30, 0, 0]],  # ends before
        [[-40, 7, 0], east],  # begins beside
        [south, [0, 0, 0]],
    )
    assert (found.n_streamlines, found.valid, found.invalid) == (7, 2, 2)
    assert found.valid_share == pytest.approx(2 / 7)
    assert (found.valid_of_seeds, found.met) == (0.2, 0)
    assert found.error(0.5) == pytest.approx(0.5 / np.sqrt(7))


def test_overlap_is_of_voxels_that_valid_lines_visit(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing90"], 40)
    assert scored(truths, made, [[-40, 0, 0], [0, 0, 0], [0, 40, 0]]).overlap == 0.0
    one = scored(truths, made, [[-40, 0, 0], [40, 0, 0]])
    n_voxels = (made.filled.max(axis=0) >= 0.5).sum()
    assert one.overlap == pytest.approx(40 / n_voxels, abs=2 / n_voxels)
    outside = scored(truths, made, [[-40, 0, 0], [-20, 20, 0], [40, 0, 0]])
    assert outside.overreach > 5 / n_voxels > one.overreach


def test_bundles_that_share_an_end_are_joined_there(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["fanning"], 40)
    assert len(made.ends) == 4
    root, left, right = made.ends[1][0], made.ends[0][0], made.ends[3][0]
    assert scored(truths, made, [root, left], [root, right]).valid == 2
    assert scored(truths, made, [left, right]).invalid == 1


def test_a_lesion_lets_three_fifths_of_the_section_pass(truths: ModuleType) -> None:
    truth = truths.synthetic()["lesion"]
    made = truths.make(truth, 60)
    x = made.fod.grid.to_mm(np.indices(made.fod.grid.shape).reshape(3, -1).T)[:, 0]
    filled = made.filled.reshape(-1)
    cut, whole = (filled[np.abs(x - at) < 1.01].sum() for at in (0.0, 20.0))
    assert cut / whole == pytest.approx(0.6, abs=0.03)
    assert made.seeds_mm[:, 0].max() < -19.0
    found = scored(
        truths,
        made,
        [[-40, 0, 0], [40, 0, 0]],
        [[-40, 4, 0], [-4, 4, 0]],  # ends at the lesion
        [[-40, 4, 0], [-30, 4, 0]],  # does not come to it
    )
    assert (found.passed, found.met) == (1, 2)


def test_seeds_lie_in_bundles_each_of_which_has_as_many(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["kissing90"], 101)
    held = [bundle.holds(made.seeds_mm, 0.5) for bundle in made.truth.bundles]
    assert held[0][:51].all()
    assert held[1][51:].all()
    assert len(held[0]) == 101
    assert sum(inside.sum() for inside in held) < 110  # where they touch a seed may be in both
    other = truths.make(truths.synthetic()["kissing90"], 101, "B")
    assert other.fod.grid.shape != made.fod.grid.shape


def test_lobes_point_along_the_bundles(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing60"], 10)
    angle = np.deg2rad(60)
    along = [[1, 0, 0], [np.cos(angle), np.sin(angle), 0], [0, 1, 0], [0, 0, 1]]
    at = tuple(np.rint(made.fod.grid.to_voxel([[0.0, 0.0, 0.0]])).astype(int)[0])
    amplitudes = made.fod.amplitudes(np.array(along))[at]
    assert amplitudes[:2].min() > 0.35 > 0.2 > amplitudes[3]


def test_where_tckgen_is_ahead_is_said(battery: ModuleType, truths: ModuleType) -> None:
    def score(valid: int, invalid: int, overlap: float, n: int = 100) -> object:
        return truths.Score(100, n, valid, invalid, overlap, 0.0)

    rows = {"ours": score(60, 5, 0.8), "tckgen a": score(50, 5, 0.9), "tckgen b": score(20, 6, 0.1)}
    assert battery.ahead(rows) == "Most valid: ours. tckgen is ahead in overlap."
    rows["tckgen c"] = score(30, 0, 0.5, n=40)
    text = battery.ahead(rows)
    assert text.startswith("Most valid: tckgen c. tckgen is ahead in valid of streamlines, overlap")
    assert "| ours | 60 / 60 / 5 / 80 |" not in battery.summary({"one": rows})
    assert "| one | 60 / 60 / 5 / 80 | 50 / 50 / 5 / 90 |" in battery.summary({"one": rows})


def test_settings_are_in_voxels(battery: ModuleType, truths: ModuleType) -> None:
    fod = truths.make(truths.synthetic()["arc"], 10).fod
    settings = {"algorithm": "transport", "look_ahead_voxels": 0.5, "gamma_voxels": 1.0}
    parameters = battery.parameters_of(fod, settings)
    assert parameters.look_ahead_mm == pytest.approx(1.0)
    assert parameters.gamma == pytest.approx(0.5)
    assert parameters.min_length_mm == 0.0


def test_the_battery_tracks_and_tells_why_lines_are_lost(
    battery: ModuleType, truths: ModuleType
) -> None:
    shown: list[str] = []
    found = battery.measure(
        {"arc": truths.synthetic()["arc"]},
        {"ours": battery.ours({}), "ahead": battery.ours({"algorithm": "transport"})},
        kinds=["exact"],
        n_seeds=60,
        show=shown.append,
        with_why=True,
    )["arc, exact"]
    assert found["ahead"].valid > found["ours"].valid > 5
    lost = 2 * found["ours"].n_streamlines - 2 * found["ours"].valid
    counted = [int(n) for line in shown[1].splitlines() if "ours:" in line
               for n in line.split("|")[2:4]]  # fmt: skip
    assert 0 < sum(counted) <= lost
