"""Clusters of streamlines that run alike: QuickBundles, on a bounded sample.

Garyfallidis et al., QuickBundles, a method for tractography simplification, Frontiers in
Neuroscience 6, 2012; DIPY does the clustering. Called by the plugin and by scripts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..streamlines.tractogram import Tractogram

DISTANCE_MM = 10.0
N_POINTS = 12  # a streamline
MAX_SAMPLE = 1000  # DIPY keeps the interpreter lock meanwhile: 0.1 s at worst
MAX_CLUSTERS = 200  # streamlines that wander make as many as there are streamlines
_BLOCK = 1024  # streamlines at a time


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Clusters, the largest first."""

    # (n_clusters, N_POINTS, 3) float32: the mean streamline of each, RAS+ mm.
    centroids: NDArray[np.float32]
    reach_mm: float  # a streamline farther than this from all of them belongs to none

    def __len__(self) -> int:
        return len(self.centroids)

    def labels(self, tractogram: Tractogram) -> NDArray[np.int64]:
        """Return which cluster each streamline is nearest to, (n_streamlines,) int64.

        -1 out of reach of all clusters, and for a streamline without points.
        """
        lines = evenly_thinned(tractogram)
        labels = np.full(len(lines), -1, dtype=np.int64)
        if len(self):
            for first in range(0, len(lines), _BLOCK):
                part = slice(first, first + _BLOCK)
                distances = self._distances(lines[part])
                labels[part] = np.where(
                    distances.min(axis=1) <= self.reach_mm, distances.argmin(axis=1), -1
                )
            labels[np.diff(tractogram.offsets) == 0] = -1
        return labels

    def _distances(self, lines: NDArray[np.float32]) -> NDArray[np.float32]:
        """Mean distance of (n, N_POINTS, 3) from each centroid, in the better direction: (n, k)."""
        forward = np.zeros((len(lines), len(self)), dtype=np.float32)
        backward = forward.copy()
        for i in range(N_POINTS):
            for total, point in ((forward, lines[:, i]), (backward, lines[:, -1 - i])):
                square = np.zeros_like(total)
                for axis in range(3):
                    square += (point[:, axis, None] - self.centroids[None, :, i, axis]) ** 2
                total += np.sqrt(square)
        return np.asarray(np.minimum(forward, backward) / N_POINTS, dtype=np.float32)


def cluster(tractogram: Tractogram, *, distance_mm: float = DISTANCE_MM) -> Clusters:
    """Cluster streamlines.

    Of more than :data:`MAX_SAMPLE` streamlines a random part, always the same, decides what
    clusters there are, and the :data:`MAX_CLUSTERS` largest count. A streamline farther than the
    distance from all clusters, point by point on average, makes another. They reach twice as far.
    """
    from dipy.segment.clustering import QuickBundles  # on use: it takes a while to load

    lines = evenly_thinned(tractogram)
    lines = lines[np.diff(tractogram.offsets) > 0]
    if len(lines) > MAX_SAMPLE:
        chosen = np.random.default_rng(0).choice(len(lines), MAX_SAMPLE, replace=False)
        lines = lines[np.sort(chosen)]
    if not len(lines):
        return Clusters(np.empty((0, N_POINTS, 3), np.float32), 2 * distance_mm)
    # All have the same number of points, so that DIPY's own metric does not thin them again.
    found = QuickBundles(threshold=distance_mm, metric="MDF_12points").cluster(list(lines))
    largest = sorted(found, key=len, reverse=True)[:MAX_CLUSTERS]
    centroids = np.array([each.centroid for each in largest], dtype=np.float32)
    return Clusters(centroids, 2 * distance_mm)


def evenly_thinned(tractogram: Tractogram) -> NDArray[np.float32]:
    """Return :data:`N_POINTS` points of each streamline, evenly by number.

    (n_streamlines, N_POINTS, 3) float32, RAS+ mm; 0 for a streamline without points.
    """
    counts = np.diff(tractogram.offsets)
    thin = np.zeros((len(counts), N_POINTS, 3), dtype=np.float32)
    filled = counts > 0
    last = (counts[filled] - 1)[:, None]
    position = last * np.linspace(0, 1, N_POINTS)
    before = np.minimum(position.astype(np.int64), np.maximum(last - 1, 0))
    fraction = (position - before).astype(np.float32)[..., None]
    first = tractogram.offsets[:-1][filled][:, None]
    start = tractogram.points[first + before]
    end = tractogram.points[first + np.minimum(before + 1, last)]
    thin[filled] = start + fraction * (end - start)
    return thin
