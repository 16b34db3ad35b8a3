"""Tracks of others as streamlines, where napari shows them.

Called by the session, which makes a bundle of such a layer, and by the writer.
"""

from __future__ import annotations

import numpy as np
from napari.layers import Tracks

from ....errors import InvalidTractogramError
from ....streamlines.tractogram import Tractogram
from ...space.display import DisplaySpace

COLUMNS = 5  # track, time, z, y, x


def tractogram_of_tracks(layer: Tracks, space: DisplaySpace) -> Tractogram:
    """Return the tracks of a layer in a display space as streamlines, each in the order of time.

    napari has sorted the rows by track and time. Raises InvalidTractogramError when the tracks do
    not lie in three dimensions, beside time.
    """
    data = np.asarray(layer.data, dtype=np.float64)
    if data.shape[1] != COLUMNS:
        raise InvalidTractogramError(
            f"The tracks of {layer.name} have {data.shape[1] - 1} coordinates; only t, z, y, x are "
            "streamlines, as napari sorts the others by their first coordinate."
        )
    corners = np.vstack([np.zeros(COLUMNS - 1), np.eye(COLUMNS - 1)])
    placed = np.array([layer.data_to_world(corner) for corner in corners])
    world = data[:, 1:] @ (placed[1:] - placed[0]) + placed[0]
    points = np.asarray(space.to_world(world[:, 1:]), dtype=np.float32)
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(data[:, 0])) + 1, [len(data)]])
    return Tractogram(points, offsets if len(data) else [0])
