"""Fewer lines while 3-D is turned by the mouse, where all would take too long to be drawn.

Attached to the viewer by the panel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .layer import Streamlines

# Points of all layers that are drawn while the view is turned, with a graphics card and without.
POINTS, POINTS_WITHOUT_CARD = 4_000_000, 60_000


def fewer_while_turning(viewer: Any, event: Any) -> Iterator[None]:
    """Draw an even part of all streamlines from the first move to the release of the mouse.

    For ``viewer.mouse_drag_callbacks``, behind those that take a press for something else.
    """
    if viewer.dims.ndisplay != 3 or event.handled:
        return
    yield
    layers = [each for each in viewer.layers if isinstance(each, Streamlines) and each.visible]
    every = one_of(sum(len(layer.drawn_points) for layer in layers), layers)
    while event.type == "mouse_move":
        for layer in layers:
            layer.drawn_every = every
        yield
    for layer in layers:
        layer.drawn_every = 1


def one_of(n_points: int, layers: list[Streamlines]) -> int:
    """Return of how many streamlines one is drawn, so that a frame does not take long."""
    is_slow = any(layer.without_graphics_card for layer in layers)
    return -(-n_points // (POINTS_WITHOUT_CARD if is_slow else POINTS)) or 1
