"""What the status bar says of positions: R, A, S in mm, as in the tables of the panel.

napari says rows and columns of a layer's array, z first. Opened by the panel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Layer

from ..layers.on_volume import OnVolume
from ..layers.volume_layers import fod_grid_of
from ..session.session import Session
from ..space.display import DisplaySpace
from ..space.orientation_labels import axes_of
from ..space.positions import position_text
from ..streamlines.layer import Streamlines
from ..words import in_words


def say_position(session: Session, _event: Any = None) -> None:
    """Put the position that napari gives for a layer of ours into the words of the field.

    In 3-D, where it is a line of sight, none is said. Layers of others are left alone.
    """
    viewer, status, where = session.viewer, session.viewer.status, ""
    layer = viewer.layers.selection.active
    space = None if layer is None else _space_of(session, layer)
    if not isinstance(status, dict) or space is None:
        return
    if not status.get("coords", "").startswith("["):
        return  # it has been put into words
    if viewer.dims.ndisplay == 2:
        position = np.asarray(viewer.cursor.position, dtype=float)[-3:]
        at = space.to_world(position[None])[0]
        where = position_text(at, space.unit, axes_of(viewer.layers))
    value = in_words(session.fod, status["value"])  # of a streamline says why it ended
    shown = ": ".join(filter(None, (where, value)))  # a hidden layer has no value
    viewer.status = {**status, "coordinates": shown, "coords": where, "value": value}


def _space_of(session: Session, layer: Layer) -> DisplaySpace | None:
    """Return the display space that a layer lies in; None of a layer that is not ours."""
    space = session.space
    if isinstance(layer, OnVolume | Streamlines):
        return layer.space
    grid = fod_grid_of(layer)
    if grid is not None:  # which need not be the FOD that is tracked
        return space if grid == space.grid else DisplaySpace.of(grid)
    is_region = any(entry.layer is layer for entry in session.regions.entries)
    is_volume = "affine" in layer.metadata and layer.ndim == len(space.scale)
    return space if is_region or is_volume else None
