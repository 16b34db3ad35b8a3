"""Subsets, cropping to a slab and picking, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.plugin.polylines import (
    crop_to_slab,
    even_subset,
    first_on_ray,
    joined_to_next,
    nearest_piece,
)


def test_the_last_point_of_each_streamline_leads_nowhere() -> None:
    offsets = np.array([0, 3, 3, 4, 6])  # three points, none, one, two
    assert joined_to_next(offsets).tolist() == [True, True, False, False, True, False]
    assert joined_to_next(np.array([0])).tolist() == []


def test_subsets_are_whole_nested_and_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(2, 200, 3000)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    before: set[int] = set()
    for budget in (10_000, 50_000, 200_000):
        chosen = even_subset(offsets, budget)
        assert (np.diff(chosen) > 0).all()
        assert budget - 200 < counts[chosen].sum() <= budget
        assert before <= set(chosen.tolist())
        before = set(chosen.tolist())


def test_subsets_are_even() -> None:
    """A tenth of 100,000 streamlines takes a tenth of each hundredth of them."""
    chosen = even_subset(np.arange(100_001), 10_000)
    per_bin = np.bincount(chosen // 1000, minlength=100)
    assert abs(per_bin - 100).max() < 5 * np.sqrt(90)  # five binomial standard deviations


def test_a_budget_below_any_streamline_still_shows_one() -> None:
    assert len(even_subset(np.array([0, 50, 100]), 10)) == 1


def test_pieces_cover_exactly_the_part_inside_the_slab() -> None:
    rng = np.random.default_rng(2)
    xyz = rng.uniform(-10, 10, (200, 3)).astype(np.float32)
    offsets = np.array([0, 80, 81, 200])
    rgba = rng.uniform(0, 1, (200, 4)).astype(np.float32)
    joined = joined_to_next(offsets)
    pieces = crop_to_slab(xyz, rgba, joined, axis=1, position=1.5, half_mm=2.0)

    across = pieces.xyz[:, 1] - 1.5
    assert np.abs(across).max() <= 2 + 1e-5
    np.testing.assert_allclose(np.abs(across), pieces.distance, atol=1e-5)
    ends = across.reshape(-1, 2)
    assert (ends.min(axis=1) * ends.max(axis=1) >= -1e-5).all()  # no piece passes the slice
    length = np.linalg.norm(np.diff(pieces.xyz.reshape(-1, 2, 3), axis=1)[:, 0], axis=1)

    expected = np.zeros(200)
    for i in range(199):
        if i in (79, 80):  # between streamlines
            continue
        fractions = np.linspace(0, 1, 4001)
        y = xyz[i, 1] + fractions * (xyz[i + 1, 1] - xyz[i, 1]) - 1.5
        expected[i] = (np.abs(y) <= 2).mean() * np.linalg.norm(xyz[i + 1] - xyz[i])
    found = np.bincount(pieces.start, weights=length, minlength=200)
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_a_segment_across_a_thin_slab_is_drawn_and_coloured_between_its_ends() -> None:
    xyz = np.array([[0, 0, -10], [0, 0, 30]], np.float32)
    rgba = np.array([[0, 0, 0, 1], [1, 0, 0, 1]], np.float32)
    joined = np.array([True, False])
    pieces = crop_to_slab(xyz, rgba, joined, axis=2, position=0.0, half_mm=1.0)
    assert sorted(pieces.xyz[:, 2].tolist()) == pytest.approx([-1, 0, 0, 1])
    assert sorted(pieces.rgba[:, 0].tolist()) == pytest.approx([9 / 40, 0.25, 0.25, 11 / 40])


def test_the_nearest_pieces_come_last() -> None:
    xyz = np.array([[0, 0, 0.5], [1, 0, 0.5], [0, 1, 0], [1, 1, 0], [0, 2, 0.9], [1, 2, 0.9]])
    joined = np.array([True, False] * 3)
    pieces = crop_to_slab(
        xyz.astype(np.float32), np.ones((6, 4), np.float32), joined, axis=2, position=0, half_mm=1
    )
    assert pieces.start.tolist() == [4, 0, 2]


def test_nothing_in_the_slab_gives_nothing() -> None:
    xyz = np.array([[0, 0, 5], [1, 0, 5]], np.float32)
    rgba = np.ones((2, 4), np.float32)
    pieces = crop_to_slab(xyz, rgba, np.array([True, False]), axis=2, position=0, half_mm=1)
    assert pieces.xyz.shape == (0, 3)
    assert nearest_piece(pieces.xyz[:, :2].reshape(-1, 2, 2), np.zeros(2), 1.0) is None


def test_the_nearest_piece_is_measured_along_the_whole_piece() -> None:
    pieces = np.array([[[0, 0], [10, 0]], [[0, 3], [1, 3]]], float)
    assert nearest_piece(pieces, np.array([5.0, 1.0]), 2.0) == 0
    assert nearest_piece(pieces, np.array([0.5, 2.0]), 2.0) == 1
    assert nearest_piece(pieces, np.array([5.0, 3.0]), 2.0) is None


def test_a_ray_meets_the_foremost_line() -> None:
    """Two lines along x behind one another, looked at along z; and one far aside."""
    xyz = np.array(
        [[-5, 0, 7], [5, 0, 7], [-5, 0.2, 2], [5, 0.2, 2], [-5, 9, 0], [5, 9, 0]], np.float32
    )
    joined = np.array([True, False] * 3)
    look = {"origin": np.array([1.0, 0.1, -50.0]), "within": 0.5}
    assert first_on_ray(xyz, joined, direction=np.array([0, 0, 2.0]), **look) == 2
    assert first_on_ray(xyz, joined, direction=np.array([0, 0, -2.0]), **look) == 0
    look["origin"] = np.array([1.0, 5.0, -50.0])
    assert first_on_ray(xyz, joined, direction=np.array([0, 0, 1.0]), **look) is None
