"""Mean closest distances, outliers and "more like these"."""

from __future__ import annotations

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError
from napari_tractography.maps.likeness import (
    distances_to_bundle,
    like_these,
    mean_closest_distances,
)

X = np.linspace(0, 55, 12)


def line(y: float, z: float = 0.0, *, reverse: bool = False) -> np.ndarray:
    points = np.stack([X, np.full(12, y), np.full(12, z)], axis=1)
    return points[::-1] if reverse else points


def test_distances_of_parallel_lines_are_their_spacing() -> None:
    one = nt.Tractogram.from_streamlines([line(0), line(3), line(4, 3, reverse=True)])
    other = nt.Tractogram.from_streamlines([line(0), np.empty((0, 3))])
    found = mean_closest_distances(one, other)
    assert np.allclose(found[:, 0], [0, 3, 5])
    assert np.isinf(found[:, 1]).all()


def test_distances_are_the_mean_closest_distance_by_definition() -> None:
    rng = np.random.default_rng(0)
    lines = [rng.normal(size=(12, 3)) for _ in range(4)]
    track = nt.Tractogram.from_streamlines(lines)
    for i, a in enumerate(lines):
        for j, b in enumerate(lines):
            square = np.linalg.norm(a[:, None] - b[None], axis=2)
            wanted = (square.min(axis=0).mean() + square.min(axis=1).mean()) / 2
            assert np.isclose(mean_closest_distances(track, track)[i, j], wanted, atol=1e-5)


def test_a_stray_is_far_from_the_bundle_and_a_second_strand_is_not() -> None:
    strand = [line(0.1 * i) for i in range(30)]
    second = [line(40 + 0.1 * i, reverse=bool(i % 2)) for i in range(10)]
    track = nt.Tractogram.from_streamlines([*strand, line(20), *second])
    distances = distances_to_bundle(track)
    assert int(distances.argmax()) == 30
    assert distances[30] > 15
    assert np.delete(distances, 30).max() < 1


@pytest.mark.parametrize("n", [0, 1, 2])
def test_small_bundles(n: int) -> None:
    track = nt.Tractogram.from_streamlines([line(5 * i) for i in range(n)])
    found = distances_to_bundle(track)
    assert found.tolist() == {0: [], 1: [0.0], 2: [5.0, 5.0]}[n]


def test_more_like_these() -> None:
    track = nt.Tractogram.from_streamlines([line(y) for y in (0, 1, 2, 3, 10, 11)])
    assert like_these(track, [0], max_distance_mm=2.1).tolist() == [0, 1, 2]
    assert like_these(track, [0, 5], max_distance_mm=1.1).tolist() == [0, 1, 4, 5]


@pytest.mark.parametrize(("numbers", "distance"), [([], 5.0), ([0], 0.0), ([0], float("nan"))])
def test_impossible_examples_are_refused(numbers, distance: float) -> None:
    track = nt.Tractogram.from_streamlines([line(0)])
    with pytest.raises(InvalidParameterError):
        like_these(track, numbers, max_distance_mm=distance)
