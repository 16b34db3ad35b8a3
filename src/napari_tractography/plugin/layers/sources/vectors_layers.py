"""napari's Vectors layers as sources: vectors at the points of a regular grid become an FOD.

Called by the Data section.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from napari.layers import Layer, Vectors

from ....errors import InvalidFodError
from ....fields.peaks import on_regular_grid
from ....geometry.grid import Grid
from ....model.fod import Fod
from ...space.display import DisplaySpace
from ..on_volume import OnVolume


def vectors_layers(layers: Iterable[Layer]) -> list[Layer]:
    """Return the layers of vectors that a person brought, not those that show an FOD."""
    return [x for x in layers if isinstance(x, Vectors) and not isinstance(x, OnVolume)]


def fod_of_vectors(layer: Vectors, space: DisplaySpace) -> Fod:
    """Return the vectors of a layer, (n, 2, 3) positions and projections, (z, y, x), as peaks.

    Their positions are voxel centres, and the lengths of their projections amplitudes. The layer's
    own transform leads to the display, from where it goes to RAS+ mm as for all layers without an
    affine, in the space of the FOD chosen before.

    Raises InvalidFodError when the layer is not 3-D, or its vectors are on no regular grid.
    """
    data = np.asarray(layer.data, dtype=np.float64)
    if layer.ndim != 3:
        raise InvalidFodError(
            f"The layer {layer.name} has vectors in {layer.ndim} dimensions; choose one with three."
        )
    if not len(data):
        raise InvalidFodError(f"The layer {layer.name} has no vectors; choose another.")
    backwards = data[:, :, ::-1]  # x, y, z
    peaks, placed = on_regular_grid(backwards[:, 0], backwards[:, 1], name=layer.name)
    corners = np.array([layer.data_to_world(p) for p in np.vstack([np.zeros(3), np.eye(3)])])
    to_display = np.eye(4)
    to_display[:3, 3] = corners[0][::-1]
    to_display[:3, :3] = (corners[1:] - corners[0])[::-1, ::-1].T
    to_ras = np.linalg.inv(space.world_to_display) @ to_display
    lengths = np.linalg.norm(peaks, axis=4, keepdims=True)
    turned = peaks @ to_ras[:3, :3].T.astype(np.float32)
    turned_lengths = np.linalg.norm(turned, axis=4, keepdims=True)
    scale = np.divide(lengths, turned_lengths, out=np.zeros_like(lengths), where=turned_lengths > 0)
    return Fod.from_peaks(turned * scale, Grid(peaks.shape[:3], to_ras @ placed), name=layer.name)
