"""Where all that a session shows lies: on the FOD or, without one, on another volume.

Called by the session and the panel.
"""

from __future__ import annotations

from typing import Any, Protocol

from napari.layers import Layer

from ..space.display import DisplaySpace
from ..space.extent import slices_kept
from ..streamlines.layer import Streamlines
from .volume_layers import fod_grid_of, frame_of


class HasSpace(Protocol):
    """What is asked of the session."""

    viewer: Any
    seeds: Any
    regions: Any
    space: DisplaySpace

    @property
    def fod_layer(self) -> Layer | None:
        """What to track in."""


def show_in(session: HasSpace, space: DisplaySpace) -> None:
    """Show streamlines, seeds and regions, which stay where they are in RAS+ mm, in a space."""
    session.space = space
    for layer in session.viewer.layers:
        if isinstance(layer, Streamlines) and layer.space != space:
            layer.space = space
    with slices_kept(session.viewer):
        session.seeds.show_in(space)
        session.regions.show_in(space)


def follow_volume(session: HasSpace) -> None:
    """Without an FOD lie on a volume that knows its affine: an oblique one is shown untilted."""
    if fod_grid_of(session.fod_layer) is not None:
        return
    space = session.space if session.space.grid is not None else frame_of(session.viewer.layers)
    lines = [layer for layer in session.viewer.layers if isinstance(layer, Streamlines)]
    if space != session.space or any(layer.space.grid is None for layer in lines):
        show_in(session, space)
