"""The files that layers were opened from; called by what writes down what is on the screen."""

from __future__ import annotations

from typing import Any

from napari.layers import Layer

PATH_KEY = "path"  # layer.metadata[PATH_KEY]: the file that a layer was opened from


def path_of(layer: Layer) -> str | None:
    """Return the file that a layer was opened from, or None."""
    known: Any = layer.metadata.get(PATH_KEY) or layer.source.path
    return None if known is None else str(known)
