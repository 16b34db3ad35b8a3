"""Subsets, cropping to a slab and picking, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.plugin.streamlines.polylines import (
    Blocks,
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


@pytest.mark.parametrize("counts", [[1, 2, 40, 1, 33, 65, 32], [100], [2, 2], [1]], ids=str)
def test_every_segment_lies_in_the_sphere_of_its_block(counts):
    rng = np.random.default_rng(5)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    xyz = np.cumsum(rng.normal(size=(offsets[-1], 3)), axis=0).astype(np.float32)
    joined = joined_to_next(offsets)
    blocks = Blocks.around(xyz, joined)
    assert blocks.starts[0] == 0
    assert blocks.starts[-1] == len(xyz)
    assert (np.diff(blocks.starts) > 0).all()
    owner = np.searchsorted(blocks.starts, np.arange(len(xyz)), side="right") - 1
    for point in range(len(xyz)):
        for end in (point, point + 1) if joined[point] else (point,):
            away = np.linalg.norm(xyz[end] - blocks.centres[owner[point]])
            assert away <= blocks.radii[owner[point]] + 1e-4
    streamline = np.searchsorted(offsets, np.arange(len(xyz)), side="right")
    for block in range(len(blocks.radii)):
        assert len(set(streamline[owner == block])) == 1


def test_what_is_found_on_a_ray_is_what_a_search_of_all_segments_finds():
    rng = np.random.default_rng(6)
    offsets = np.arange(61) * 50
    walk = np.cumsum(rng.normal(size=(60, 50, 3)), axis=1) + rng.normal(0, 12, (60, 1, 3))
    xyz = walk.reshape(-1, 3).astype(np.float32)
    joined = joined_to_next(offsets)
    start = np.flatnonzero(joined)
    found = 0
    for _ in range(30):
        sight = rng.normal(size=3)
        sight /= np.linalg.norm(sight)
        origin = rng.normal(0, 8, 3)
        across = np.linalg.svd(sight[None])[2][1:]
        # Sampled finely enough that no segment within the distance is missed.
        t = np.linspace(0, 1, 201)[:, None, None]
        places = xyz[start] + t * (xyz[start + 1] - xyz[start])
        near = np.linalg.norm((places - origin) @ across.T, axis=2).min(axis=0)
        if (np.abs(near - 0.4) < 0.01).any():
            continue  # too close to call for the search
        hits = start[near <= 0.4]
        got = first_on_ray(xyz, joined, origin=origin, direction=sight, within=0.4)
        if not len(hits):
            assert got is None
        else:
            found += 1
            assert got == hits[np.argmin((xyz[hits] + xyz[hits + 1]) @ sight)]
    assert found > 5
