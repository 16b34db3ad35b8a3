"""Scoring of streamlines against ground truth, on bundles drawn by hand."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from napari_tractography.streamlines.tractogram import Tractogram


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/scoring.py as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "scoring", raising=False)
    import scoring

    return scoring


def line(*points: tuple[float, float, float]) -> np.ndarray:
    """A polyline with a point each half millimetre or less."""
    parts = [
        np.linspace(a, b, 2 * int(np.ceil(np.linalg.norm(np.subtract(b, a)))) + 1)
        for a, b in itertools.pairwise(points)
    ]
    return np.concatenate(parts)


ACROSS = [line((0, y, 0), (20, y, 0)) for y in (9.0, 10.0, 11.0)]  # west to east
ALONG = [line((x, 0, 0), (x, 20, 0)) for x in (9.0, 10.0, 11.0)]  # south to north


@pytest.fixture
def ends(scoring: ModuleType) -> list:
    """West, east, south, north."""
    return [*scoring.ends_of("across", ACROSS), *scoring.ends_of("along", ALONG)]


def test_crossing_bundles_are_told_apart(scoring: ModuleType) -> None:
    mixed = [ACROSS[0], ALONG[0], ALONG[1], ACROSS[1]]
    groups = scoring.split_by_direction(mixed)
    assert [[float(x[0, 0]) for x in group] for group in groups] == [[0.0, 0.0], [9.0, 10.0]]


def test_seeds_lie_in_small_balls_just_inside_the_end(scoring: ModuleType, ends: list) -> None:
    np.testing.assert_allclose(ends[1].seeds_mm, [(19, y, 0) for y in (9, 10, 11)])
    seeds = scoring.draw_seeds(ends[1], 3000, random_seed=5).positions_mm
    apart = np.linalg.norm(seeds[:, None] - ends[1].seeds_mm, axis=2).min(axis=1)
    assert apart.max() <= scoring.SEED_RADIUS_MM + 1e-5
    # Uniform in a ball: half of them beyond the radius of half its volume.
    assert np.mean(apart > scoring.SEED_RADIUS_MM * 0.5 ** (1 / 3)) == pytest.approx(0.5, abs=0.04)


def test_each_kind_of_streamline_counts_once(scoring: ModuleType, ends: list) -> None:
    streamlines = Tractogram.from_streamlines(
        [
            line((0, 10, 0), (20, 10, 0)),  # to the other end: valid
            line((0, 10, 0), (19.4, 10.8, 0.3)),  # nearly there: valid
            line((0, 10, 0), (12, 10, 0)),  # ends under way: neither
            line((0, 10, 0), (10, 10, 0), (10, 20, 0)),  # turns off: invalid
            line((0, 10, 0), (10, 10, 0), (10, 0, 0)),  # the other way: invalid
            line((5, 10, 0), (0, 10, 0)),  # back to where it came from: neither
            line((0, 10, 0), (20, 10, 0), (10, 20, 0)),  # by way of the right one: invalid
            line((0, 10, 0), (10, 20, 0), (5, 15, 0)),  # by way of a wrong one: only passes
        ]
    )
    score = scoring.score(streamlines, ends, 0)
    assert (score.n_streamlines, score.valid, score.invalid) == (8, 2, 3)
    assert score.passing == 4
    backwards = scoring.score(streamlines[:1], ends, 1)
    assert (backwards.valid, backwards.invalid) == (1, 0)
    assert scoring.score(streamlines[:1], ends, 2).invalid == 1


def test_scores_add_up(scoring: ModuleType) -> None:
    total = scoring.Score(10, 4, 1, 2) + scoring.Score(30, 6, 0, 0)
    assert (total.valid_share, total.invalid_share) == (0.25, 0.025)
    assert total.passing_share == 0.05
    assert scoring.Score().valid_share == 0.0
