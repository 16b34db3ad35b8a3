"""Watching the values of a layer: for masks, which may be painted while tracking is live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from napari.layers import Layer

EVENTS = ("data", "paint", "labels_update")


class Watch:
    """Calls back when the values of a layer change.

    Parameters
    ----------
    changed : callable
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._layer: Layer | None = None

    @property
    def layer(self) -> Layer | None:
        """The layer that is watched."""
        return self._layer

    @layer.setter
    def layer(self, layer: Layer | None) -> None:
        for one, verb in ((self._layer, "disconnect"), (layer, "connect")):
            for name in EVENTS:
                if one is not None and name in one.events.emitters:
                    getattr(one.events[name], verb)(self._on_change)
        self._layer = layer

    def _on_change(self, _event: Any) -> None:
        self._changed()
