"""Watching the values of a layer: for masks, which may be painted while tracking is live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from ..timers import delayed

EVENTS = ("data", "paint", "labels_update")
REDRAWN = "set_data"  # all that napari emits for an undo, and of values changed from a console
CHECK_MS = 200  # after the last time that the layer was redrawn


class LayerWatch:
    """Calls back when another part of a layer than before is not zero."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._layer: Layer | None = None
        self._inside: NDArray[np.uint8] | None = None
        # Layers are redrawn with every slice too: compare when that rests.
        self._check = delayed(None, CHECK_MS, self._compare)

    @property
    def layer(self) -> Layer | None:
        return self._layer

    @layer.setter
    def layer(self, layer: Layer | None) -> None:
        self._check.stop()
        for one, verb in ((self._layer, "disconnect"), (layer, "connect")):
            for name in (*EVENTS, REDRAWN):
                if one is not None and name in one.events.emitters:
                    callback = self._on_redrawn if name == REDRAWN else self._on_change
                    getattr(one.events[name], verb)(callback)
        self._layer = layer
        self._inside = None if layer is None else packed(layer)

    @property
    def n_inside(self) -> int:
        """How many voxels of the layer are neither zero nor NaN."""
        return 0 if self._inside is None else int(np.unpackbits(self._inside).sum())

    def _on_change(self, _event: Any) -> None:
        self._check.stop()
        if self._layer is not None:
            self._inside = packed(self._layer)
        self._changed()

    def _on_redrawn(self, _event: Any) -> None:
        self._check.start()

    def _compare(self) -> None:
        if self._layer is None:
            return
        inside = packed(self._layer)
        if self._inside is None or not np.array_equal(inside, self._inside):
            self._inside = inside
            self._changed()


def packed(layer: Layer) -> NDArray[np.uint8]:
    """Return which values of a layer are neither zero nor NaN, eight to a byte."""
    values = np.asarray(layer.data)
    return np.packbits((values != 0) & (values == values))
