"""Clusters: bundles drawn apart are told apart, whichever way round their streamlines run."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.maps import clusters as module
from napari_tractography.maps.clusters import N_POINTS, Clusters, cluster, evenly_thinned
from napari_tractography.streamlines.tractogram import Tractogram

SIZES = (30, 20, 10)


def bundles(sizes=SIZES, gap_mm=30.0):
    """Parallel bundles along x, `gap_mm` apart, 2 mm wide; every other streamline runs back.

    They are dealt like cards: 0, 1, 2, 0, 1, 2, ...
    """
    rng = np.random.default_rng(3)
    x = np.linspace(0, 50, 40)
    lines, owners = [], []
    for i in range(max(sizes)):
        for number, size in enumerate(sizes):
            if i < size:
                y, z = rng.uniform(-1, 1, 2)
                line = np.stack([x, np.full(40, gap_mm * number + y), np.full(40, z)], axis=1)
                lines.append(line[:: (-1) ** i])
                owners.append(number)
    return Tractogram.from_streamlines(lines), np.array(owners)


def test_bundles_are_told_apart_the_largest_first():
    tractogram, owners = bundles()
    found = cluster(tractogram, distance_mm=10.0)
    assert len(found) == 3
    np.testing.assert_array_equal(found.labels(tractogram), owners)
    middle = found.centroids[1]
    np.testing.assert_allclose(middle[:, 1:], np.tile([30.0, 0.0], (N_POINTS, 1)), atol=1.5)


def test_a_larger_distance_makes_fewer_clusters():
    tractogram, _ = bundles()
    assert len(cluster(tractogram, distance_mm=200.0)) == 1
    assert len(cluster(tractogram, distance_mm=0.1)) > 3


def test_of_many_a_part_decides_and_all_are_labelled(monkeypatch):
    tractogram, owners = bundles()
    monkeypatch.setattr(module, "MAX_SAMPLE", 25)
    monkeypatch.setattr(module, "_BLOCK", 7)
    found = cluster(tractogram, distance_mm=10.0)
    np.testing.assert_array_equal(found.labels(tractogram), owners)


def test_what_is_far_from_the_largest_clusters_belongs_to_none(monkeypatch):
    tractogram, owners = bundles()
    monkeypatch.setattr(module, "MAX_CLUSTERS", 2)
    labels = cluster(tractogram, distance_mm=10.0).labels(tractogram)
    np.testing.assert_array_equal(labels, np.where(owners < 2, owners, -1))


def test_nothing_to_cluster_and_streamlines_without_points():
    empty = cluster(Tractogram.empty())
    assert len(empty) == 0
    tractogram, _ = bundles((2, 1))
    assert empty.labels(tractogram).tolist() == [-1, -1, -1]
    holes = Tractogram(tractogram.points, [0, 0, *tractogram.offsets[1:], tractogram.n_points])
    assert cluster(holes).labels(holes).tolist() == [-1, 0, 1, 0, -1]


@pytest.mark.parametrize("n", [1, 2, 5, 12, 100])
def test_thinning_keeps_both_ends_and_goes_evenly(n):
    line = np.stack([np.arange(n), np.zeros(n), np.zeros(n)], axis=1)
    thin = evenly_thinned(Tractogram.from_streamlines([line, line + 1]))
    expected = np.linspace(0, n - 1, N_POINTS)
    np.testing.assert_allclose(thin[0, :, 0], expected, atol=1e-4)
    np.testing.assert_allclose(thin[1, :, 0], expected + 1, atol=1e-4)


def test_distances_are_the_mean_over_the_points_the_better_way_round():
    centroid = np.zeros((1, N_POINTS, 3), np.float32)
    centroid[0, :, 0] = np.arange(N_POINTS)
    shifted = centroid[0] + np.float32([0, 3, 4])
    distances = Clusters(centroid, 20.0)._distances(np.stack([shifted, shifted[::-1]]))
    np.testing.assert_allclose(distances, [[5.0], [5.0]], rtol=1e-6)
