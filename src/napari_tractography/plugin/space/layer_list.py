"""Adding layers to a viewer while the active layer, with its controls and tool, stays active.

Called by whatever adds a layer that the person did not ask to work on.
"""

from __future__ import annotations

from typing import Any

from napari.layers import Layer


def insert_beside(viewer: Any, layer: Layer, at: int | None = None) -> None:
    """Insert a layer, on top by default; the layer that is active stays active."""
    layers = viewer.layers
    active = layers.selection.active
    layers.insert(len(layers) if at is None else at, layer)
    if active is not None:
        layers.selection.active = active
