"""Colours by cluster, found in a thread as soon as the streamlines of a layer stop changing.

Until then the streamlines take the colours of the clusters before, where that costs little, so
that a live preview keeps its colours; or they are grey. Called by the Display section.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from ...maps.clusters import Clusters, cluster
from ...streamlines.tractogram import Tractogram
from ..background import Advance, Background
from ..streamlines.colouring import VALUES
from ..streamlines.layer import Streamlines
from ..timers import delayed

LABEL = "Cluster"
N_NAMED = 6  # in the legend
DELAY_MS = 200  # after the last change
AT_ONCE = 100_000  # streamlines times clusters that are assigned while the window waits: 10 ms


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a worker found."""

    drawn: Tractogram  # what was clustered
    distance_mm: float  # between streamlines of different clusters
    clusters: Clusters
    labels: NDArray[np.int64]  # (n_streamlines,) int64: the cluster of each streamline; -1 is none


class Clustering:
    """Colours one layer by cluster, until :meth:`stop`.

    Where clusters cannot be found, it says so once and waits until the streamlines or the distance
    change.
    """

    coloured = Signal()  # the layer has the colours of new clusters
    failed = Signal(str)  # a sentence that says why there are none

    def __init__(self) -> None:
        self._layer: weakref.ref[Streamlines] | None = None
        self._distance_mm = 0.0
        self._wanted: Tractogram | None = None  # what the layer draws
        self._found: Found | None = None
        self._failed: tuple[Tractogram, float] | None = None  # as in Found
        self._tried: tuple[Tractogram, float] | None = None
        self._work = Background()
        self._work.failed.connect(self._on_failed)
        self._work.ended.connect(self._on_ended)
        self._delay = delayed(None, DELAY_MS, self._begin)

    @property
    def is_busy(self) -> bool:
        return self._work.is_busy or self._delay.isActive()

    def colour(self, layer: Streamlines, distance_mm: float) -> None:
        """Colour a layer by cluster from now on."""
        if self.layer is layer and distance_mm == self._distance_mm and layer.colour_by == VALUES:
            return
        self.stop()
        self._layer, self._distance_mm = weakref.ref(layer), distance_mm
        layer.colour_by_kinds(self._kinds, label=LABEL, n_named=N_NAMED)
        self._begin()

    def stop(self) -> None:
        """Colour no more; the layer keeps its colours until it gets others."""
        self._delay.stop()
        self._layer = self._wanted = self._found = self._failed = None

    @property
    def layer(self) -> Streamlines | None:
        return None if self._layer is None else self._layer()

    def _kinds(self, drawn: Tractogram) -> NDArray[np.int64]:
        """Return the clusters of what the layer draws, as far as they are known."""
        found, layer = self._found, self.layer
        if found is not None and found.drawn is drawn:
            return found.labels
        if found is not None and layer is not None and layer.editor.base is found.drawn:
            kept = layer.editor.kept
            if len(kept) == len(drawn):  # else the editor does not know the result yet
                return found.labels[kept]  # what is left keeps its colours
        if self._wanted is not drawn:
            self._wanted = drawn
            if layer is not None:
                self._delay.start()
        if found is not None and len(drawn) * len(found.clusters) <= AT_ONCE:
            return found.clusters.labels(drawn)
        return np.full(len(drawn), -1, dtype=np.int64)

    def _begin(self) -> None:
        self._delay.stop()
        wanted, distance_mm = self._wanted, self._distance_mm
        if self._work.is_busy or wanted is None or self._has_failed:
            return  # _on_ended begins what is wanted then
        self._tried = wanted, distance_mm
        self._work.begin("Clustering", partial(_find, wanted, distance_mm), self._on_found)

    def _on_found(self, found: Found) -> None:
        layer = self.layer
        if layer is None or not self._is_wanted(found.drawn, found.distance_mm):
            return
        if layer.colour_by != VALUES:  # another mode was chosen
            self.stop()
            return
        self._found = found
        layer.colour_by_kinds(self._kinds, label=LABEL, n_named=N_NAMED)
        self.coloured.emit()

    def _on_failed(self, sentence: str) -> None:
        self._failed = self._tried
        if self._has_failed:
            self.failed.emit(sentence)

    @property
    def _has_failed(self) -> bool:
        """Whether clusters of what is wanted now could not be found."""
        return self._failed is not None and self._is_wanted(*self._failed)

    def _is_wanted(self, drawn: Tractogram, distance_mm: float) -> bool:
        return drawn is self._wanted and distance_mm == self._distance_mm

    def _on_ended(self) -> None:
        self._tried, found = None, self._found
        is_found = found is not None and self._is_wanted(found.drawn, found.distance_mm)
        if self.layer is not None and not self._delay.isActive() and not is_found:
            self._begin()


def _find(drawn: Tractogram, distance_mm: float, _advance: Advance) -> Found:
    clusters = cluster(drawn, distance_mm=distance_mm)
    return Found(drawn, distance_mm, clusters, clusters.labels(drawn))
