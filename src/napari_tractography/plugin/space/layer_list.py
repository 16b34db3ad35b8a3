"""The list of layers: adding some while the active one stays active, and their order.

Called by whatever adds a layer that the person did not ask to work on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

from napari.layers import Layer

NO_SEARCH = SimpleNamespace(collect=lambda: 0)  # in the place of `gc`


def take_out(viewer: Any, layer: Layer | None) -> None:
    """Remove a layer, where there is one in a viewer."""
    if layer is not None and layer in viewer.layers:
        viewer.layers.remove(layer)


def insert_beside(viewer: Any, layer: Layer, at: int | None = None) -> None:
    """Insert a layer, on top by default; the layer that is active stays active."""
    layers = viewer.layers
    active = layers.selection.active
    layers._activate_on_insert = active is None  # else napari makes its controls
    try:
        layers.insert(len(layers) if at is None else at, layer)
    finally:
        layers._activate_on_insert = True
    if active is not None and layers.selection.active is not active:
        layers.selection.active = active


@contextmanager
def listed_once(viewer: Any, layer: Layer) -> Iterator[None]:
    """Keep the list from taking note of each change of a layer: once, at the end.

    napari seeks the layer in the list with each event, and has its row drawn again.
    """
    heard = getattr(viewer.layers, "_reemit_child_event", None)
    with nullcontext() if heard is None else layer.events.blocker(heard):
        yield
    layer.events.thumbnail()


def remove_at_once(viewer: Any, layer: Layer) -> None:
    """Remove a layer without a search of all garbage.

    napari searches it each time for drivers of Windows, and elsewhere, too: a third of a second.
    """
    try:
        from napari._vispy import canvas
    except ImportError:
        canvas = None
    if sys.platform == "win32" or not hasattr(canvas, "gc"):
        viewer.layers.remove(layer)
        return
    before, canvas.gc = canvas.gc, NO_SEARCH
    try:
        viewer.layers.remove(layer)
    finally:
        canvas.gc = before


def index_of_lowest(layers: Any, is_above: Callable[[Layer], bool]) -> int:
    """Return where the lowest of some layers is; where there is none, where the next one goes."""
    return min((i for i, layer in enumerate(layers) if is_above(layer)), default=len(layers))


def move_below(layers: Any, layer: Layer, is_above: Callable[[Layer], bool]) -> None:
    """Move a layer below some others."""
    ceiling = index_of_lowest(layers, is_above)
    if layers.index(layer) > ceiling:
        layers.move(layers.index(layer), ceiling)


def move_below_once_inserted(
    layers: Any, is_it: Callable[[Layer], bool], is_above: Callable[[Layer], bool]
) -> None:
    """Move a layer that somebody else is about to insert below some others."""

    def on_inserted(event: Any) -> None:
        if is_it(event.value):
            layers.events.inserted.disconnect(on_inserted)
            move_below(layers, event.value, is_above)

    layers.events.inserted.connect(on_inserted)
