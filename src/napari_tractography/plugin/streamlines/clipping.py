"""A slab cut out of the streamlines in 3-D, across one of the three axes.

A part of the streamlines layer. napari's clipping planes do the cutting; their axes are those on
the screen, so they are placed again when those change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from napari.layers.utils.plane import ClippingPlane

from .polylines import Slab

if TYPE_CHECKING:
    from napari.layers.utils.plane import ClippingPlaneList

NO_CLIP = "off"
AXES = {"axial": 0, "coronal": 1, "sagittal": 2}  # of display (z, y, x)
CLIPS = (NO_CLIP, *AXES)


class Clip:
    """Which slab of the streamlines 3-D shows."""

    def __init__(self) -> None:
        self.name = NO_CLIP  # one of CLIPS
        self.at_mm = 0.0  # the middle of the slab on its axis of the display, in its unit
        self._ours: tuple[ClippingPlane, ...] = ()

    def slab(self, thickness: float) -> Slab | None:
        """Return the slab, in columns x, y, z; None when all is shown."""
        if self.name == NO_CLIP:
            return None
        return Slab(axis=2 - AXES[self.name], position=self.at_mm, half_mm=thickness / 2)

    def other_planes(self, planes: ClippingPlaneList) -> list[ClippingPlane]:
        """Return the clipping planes of a layer that were placed by others."""
        return [plane for plane in planes if not any(plane is ours for ours in self._ours)]

    def place(self, planes: ClippingPlaneList, displayed: Sequence[int], thickness: float) -> None:
        """Update a layer's clipping planes for this slab; its other planes stay.

        They are disabled when two axes are displayed.
        """
        if self.name == NO_CLIP:
            for plane in self._ours:
                planes.remove(plane)
            self._ours = ()
            return
        if not self._ours:
            self._ours = (ClippingPlane(enabled=False), ClippingPlane(enabled=False))
            planes.extend(self._ours)
        for plane, side in zip(self._ours, (-1.0, 1.0), strict=True):
            if len(displayed) < 3:
                plane.enabled = False
                continue
            across = np.array([float(axis == AXES[self.name]) for axis in displayed])
            plane.position = tuple(across * (self.at_mm + side * thickness / 2))
            plane.normal = tuple(-side * across)
            plane.enabled = True
