"""Keeping the picture true to left and right, whichever way the axes are ordered.

Called by the panel.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from .display import ORIENTATION

OPPOSITE = {"towards": "away", "away": "towards"}


def orient(viewer: Any) -> None:
    """Turn a viewer so that left is on the left, anterior or superior is up, and 3-D is true.

    In a coronal or a sagittal slice two axes change places with respect to an axial one. Were
    3-D entered from there with the same orientation of depth, it would show a mirror image.
    The setting holds for all layers of the viewer.
    """
    depth, vertical, horizontal = ORIENTATION
    spatial = list(viewer.dims.order)[-3:]
    swaps = sum(first > second for first, second in combinations(spatial, 2))
    wanted = (OPPOSITE[depth] if swaps % 2 else depth, vertical, horizontal)
    if tuple(viewer.scene.camera.orientation) != wanted:
        viewer.scene.camera.orientation = wanted
