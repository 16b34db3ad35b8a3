"""Colours by cluster, found in a thread whenever the streamlines of a layer rest.

Until then the streamlines take the colours of the clusters before, where that costs little, so
that a live preview keeps its colours; or they are grey. Called by the Display section.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.qt.threading import thread_worker
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from ...maps.clusters import Clusters, cluster
from ...tractogram import Tractogram
from .colouring import VALUES
from .layer import Streamlines

LABEL = "Cluster"
N_NAMED = 6  # in the legend
REST_MS = 200  # after the last change
AT_ONCE = 100_000  # streamlines times clusters that are sorted while the window waits: 10 ms


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a worker found."""

    drawn: Tractogram
    distance_mm: float
    clusters: Clusters
    labels: NDArray[np.int64]


class Clustering:
    """Colours one layer by cluster, as long as it is wanted."""

    coloured = Signal()  # a result has come to the screen

    def __init__(self) -> None:
        self._layer: weakref.ref[Streamlines] | None = None
        self._distance_mm = 0.0
        self._wanted: Tractogram | None = None  # what the layer draws
        self._found: Found | None = None
        self._worker: Any = None
        self._rest = QTimer()
        self._rest.setSingleShot(True)
        self._rest.setInterval(REST_MS)
        self._rest.timeout.connect(self._begin)

    @property
    def is_busy(self) -> bool:
        """Whether a result is on the way."""
        return self._worker is not None or self._rest.isActive()

    def colour(self, layer: Streamlines, distance_mm: float) -> None:
        """Colour a layer by cluster from now on."""
        if self.layer is layer and distance_mm == self._distance_mm and layer.colour_by == VALUES:
            return
        self.stop()
        self._layer, self._distance_mm = weakref.ref(layer), distance_mm
        layer.colour_by_kinds(self._kinds, label=LABEL, n_named=N_NAMED)
        self._begin()

    def stop(self) -> None:
        """Let go of the layer, which keeps its colours until it gets others."""
        self._rest.stop()
        self._layer = self._wanted = self._found = None

    @property
    def layer(self) -> Streamlines | None:
        """The layer that is coloured."""
        return None if self._layer is None else self._layer()

    def _kinds(self, drawn: Tractogram) -> NDArray[np.int64]:
        """Return the clusters of what the layer draws, as far as they are known."""
        found, layer = self._found, self.layer
        if found is not None and found.drawn is drawn:
            return found.labels
        editor = None if layer is None else layer.editor
        if found is not None and editor and editor.is_edited and editor.whole is found.drawn:
            return found.labels[editor.kept]  # what is left keeps its colours
        if self._wanted is not drawn:
            self._wanted = drawn
            if layer is not None:
                self._rest.start()
        if found is not None and len(drawn) * len(found.clusters) <= AT_ONCE:
            return found.clusters.labels(drawn)
        return np.full(len(drawn), -1, dtype=np.int64)

    def _begin(self) -> None:
        self._rest.stop()
        if self._worker is not None or self._wanted is None:
            return  # what comes after a result looks again
        worker = _find(self._wanted, self._distance_mm)
        worker.returned.connect(self._on_found)
        worker.finished.connect(self._on_finished)
        self._worker = worker
        worker.start()

    def _on_found(self, found: Found) -> None:
        layer = self.layer
        if layer is None or not self._is_new(found):
            return
        if layer.colour_by != VALUES:  # somebody chose something else
            self.stop()
            return
        self._found = found
        layer.colour_by_kinds(self._kinds, label=LABEL, n_named=N_NAMED)
        self.coloured.emit()

    def _is_new(self, found: Found) -> bool:
        return found.drawn is self._wanted and found.distance_mm == self._distance_mm

    def _on_finished(self) -> None:
        self._worker = None
        if self.layer is None or self._rest.isActive():
            return
        if self._found is None or not self._is_new(self._found):
            self._begin()


@thread_worker  # type: ignore[untyped-decorator]
def _find(drawn: Tractogram, distance_mm: float) -> Found:
    clusters = cluster(drawn, distance_mm=distance_mm)
    return Found(drawn, distance_mm, clusters, clusters.labels(drawn))
