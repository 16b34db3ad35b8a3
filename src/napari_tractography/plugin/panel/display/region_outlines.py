"""Outlines of regions of labels in 3-D, in front of streamlines, as spheres have them.

napari draws a labels layer in 3-D whole, and where it does not hide streamlines they hide it. One
layer shows all outlines while 3-D is in view; it follows the regions, and holds nothing else.
Called by the View section of the panel.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from napari.layers import Labels
from napari.layers.utils.color_transformations import transform_color
from numpy.typing import NDArray
from qtpy.QtCore import QObject
from scipy import ndimage

from ....runtime.extras import needs_extra
from ...layers.on_volume import SurfaceOnVolume, is_in_front
from ...listening import Listening
from ...session.session import Session
from ...space.layer_list import index_of_lowest, insert_beside, take_out
from ...timers import delayed

NAME = "Outlines of regions"
SMOOTH = 0.7  # voxels: so that an outline has no stairs
LEVEL = 0.4  # of a voxel of a region, where its outline is; one alone has one, too
MOST_VOXELS = 2_000_000  # of a box, above which every second one is taken along each axis


class OutlineSurface(SurfaceOnVolume):
    """Surfaces of which the rim is seen, and what is inside faintly."""

    visual = "VispyRims"
    stays_in_front = True  # of streamlines


class RegionOutlines:
    """The outlines of the active bundle's regions of labels, while 3-D is shown."""

    def __init__(self, session: Session, parent: QObject) -> None:
        self._session, self._viewer = session, session.viewer
        self.layer: OutlineSurface | None = None
        self.update_later = delayed(parent, 100, self.update)
        self._listening = Listening(
            (session.regions.list_changed, self._follow),
            (self._viewer.dims.events.ndisplay, self._follow),
            (self._viewer.layers.events.inserted, self._follow),
            (self._viewer.layers.events.removed, self._on_removed),
        )
        self._of_layers = Listening()  # to voxels and eyes of the layers of regions

    def open(self) -> None:
        self._listening.open()
        self._follow()

    def close_section(self) -> None:
        self.update_later.stop()
        self._listening.close()
        self._of_layers.switch()
        self._remove()

    @property
    def _layers(self) -> dict[Labels, list[Any]]:
        """The layers of regions of labels, with their regions."""
        found: dict[Labels, list[Any]] = {}
        for entry in self._session.regions.entries:
            if isinstance(entry.layer, Labels) and entry.layer in self._viewer.layers:
                found.setdefault(entry.layer, []).append(entry)
        return found

    def _follow(self, _event: Any = None) -> None:
        of_each = [layer.events for layer in self._layers]
        of_voxels = [(each.data, each.paint, each.labels_update, each.visible) for each in of_each]
        self._of_layers.switch(*((event, self._on_voxels) for event in chain(*of_voxels)))
        self._on_voxels()

    def _on_voxels(self, _event: Any = None) -> None:
        if self._viewer.dims.ndisplay == 3 or self.layer is not None:
            self.update_later.start()

    def _on_removed(self, event: Any) -> None:
        if event.value is self.layer:
            self.layer = None
        else:
            self._follow()

    def update(self) -> None:
        """Show the outlines of what the regions are now; none in slices."""
        self.update_later.stop()
        seen = self._layers.items() if self._viewer.dims.ndisplay == 3 else ()
        found = [
            _outline(layer, entry.label, entry.colour)
            for layer, entries in seen
            if layer.visible
            for entry in entries
        ]
        parts = [part for part in found if part is not None]
        if not parts:
            self._remove()
            return
        firsts = np.cumsum([0, *(len(vertices) for vertices, _, _ in parts)])
        faces = [f + first for (_, f, _), first in zip(parts, firsts, strict=False)]
        data = np.concatenate([v for v, _, _ in parts]), np.concatenate(faces)
        colours = np.concatenate([c for _, _, c in parts])
        if self.layer is not None:
            self.layer.data = data
            self.layer.vertex_colors = colours
            return
        self.layer = OutlineSurface(
            data, vertex_colors=colours, name=NAME, shading="none", blending="translucent_no_depth"
        )
        self.layer.space = self._session.space
        at = index_of_lowest(self._viewer.layers, is_in_front)
        insert_beside(self._viewer, self.layer, at)

    def _remove(self) -> None:
        take_out(self._viewer, self.layer)
        self.layer = None


def _outline(
    layer: Labels, label: int | None, colour: str
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]] | None:
    """Return vertices, display (z, y, x), faces and colours of a region; None where it is empty."""
    with needs_extra("measures", "Outlines of regions take"):  # which napari brings
        from skimage.measure import marching_cubes

    data = np.asarray(layer.data)
    inside = data != 0 if label is None else data == label
    boxes = ndimage.find_objects(inside.astype(np.uint8))
    if not boxes:
        return None
    (box,) = boxes
    step = 1 if inside[box].size <= MOST_VOXELS else 2
    thinned = np.pad(inside[box][::step, ::step, ::step], 2).astype(np.float32)
    blurred = ndimage.gaussian_filter(thinned, SMOOTH)
    level = LEVEL * min(1.0, float(blurred.max()))
    vertices, faces, _, _ = marching_cubes(blurred, level)
    first = np.array([part.start for part in box])
    voxels = first + step * (vertices - 2)
    shown = voxels * np.asarray(layer.scale) + np.asarray(layer.translate)
    colours = np.tile(transform_color(colour).astype(np.float32), (len(shown), 1))
    return shown.astype(np.float32), faces.astype(np.int64), colours
