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


class StatusPositions:
    """Puts positions that napari gives for this plugin's layers into the words of the field.

    They are in the session's display space. Layers of others are left alone.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._viewer = session.viewer

    def open(self) -> None:
        self._viewer.events.status.connect(self._on_status)

    def close(self) -> None:
        self._viewer.events.status.disconnect(self._on_status)

    def _on_status(self, _event: Any = None) -> None:
        viewer, status = self._viewer, self._viewer.status
        layer = viewer.layers.selection.active
        space = None if layer is None else self._space_of(layer)
        if not isinstance(status, dict) or space is None:
            return
        coords = status.get("coords", "")
        if not coords.startswith("["):
            return  # it has been put into words
        where = self._where(space)
        shown = f"{where}: {status['value']}" if where else status["value"]
        viewer.status = {**status, "coordinates": shown, "coords": where}

    def _where(self, space: DisplaySpace) -> str:
        """Return where the mouse is; "" in 3-D, where that is a line of sight."""
        if self._viewer.dims.ndisplay != 2:
            return ""
        position = np.asarray(self._viewer.cursor.position, dtype=float)[-3:]
        axes = axes_of(self._viewer.layers)
        return position_text(space.to_world(position[None])[0], space.unit, axes)

    def _space_of(self, layer: Layer) -> DisplaySpace | None:
        """Return the display space that a layer lies in; None of a layer that is not ours."""
        space = self._session.space
        if isinstance(layer, OnVolume | Streamlines):
            return layer.space
        grid = fod_grid_of(layer)
        if grid is not None:  # which need not be the FOD that is tracked
            return space if grid == space.grid else DisplaySpace.of(grid)
        is_region = any(entry.layer is layer for entry in self._session.regions.entries)
        is_volume = "affine" in layer.metadata and layer.ndim == len(space.scale)
        return space if is_region or is_volume else None
