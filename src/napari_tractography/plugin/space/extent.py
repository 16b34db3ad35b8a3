"""Extents of layers that lie on a volume: the slices that napari's sliders stop at.

napari's sliders run over the extents of all layers together, with the smallest of their steps. A
layer whose extent ends between two slices, or whose step is 1 mm, moves the sliders off the slices
of the volume. Called by the layers that this plugin adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from napari.components import ViewerModel
from napari.layers import Layer

from .display import DisplaySpace

TOLERANCE = 1e-3  # voxels: rounding of float32
INSET = 1e-6  # voxels: so that the ends of the sliders are exactly those of the volume


def on_slices(extent: Any, space: DisplaySpace, *, clip: bool = False) -> Any:
    """Return the extent of a layer with its ends at slices of the volume underneath.

    What lies in the volume, up to half a voxel beyond its outermost slices, leaves the sliders of
    the viewer as they are. `extent` is napari's, in display mm, axes z, y, x, NaN where the layer
    is empty; `clip` moves the ends into the volume, for what only decorates it. The step of what is
    returned is a voxel; without a volume it is that of the layer, unchanged.
    """
    if space.shape_zyx is None:
        return extent
    first, step = np.array(space.translate), np.array(space.scale)
    last_slice = np.array(space.shape_zyx) - 1
    low, high = np.sort((extent.world - first) / step, axis=0)
    low = np.floor(low + 0.5 + TOLERANCE)
    high = np.fmax(np.ceil(high - 0.5 - TOLERANCE), low)
    if clip:
        low, high = np.clip(low, 0, last_slice), np.clip(high, 0, last_slice)
    low = np.where((low >= 0) & (low < last_slice), low + INSET, low)
    high = np.where((high > low) & (high <= last_slice), high - INSET, high)
    high = np.fmax(low, high)
    world = np.sort(first + step * np.stack([low, high]), axis=0)
    return extent._replace(world=world, step=np.abs(step))


def forget_extent(layer: Layer) -> None:
    """Have the extent of a layer computed again; what napari makes of it, too."""
    forget = getattr(layer, "_clear_extent", None)
    if forget is None:
        vars(layer).pop("extent", None)
    else:
        forget()


@contextmanager
def sliders_kept(viewer: ViewerModel, layer: Layer) -> Iterator[None]:
    """Keep napari from computing its sliders again with each change of a layer's data.

    That takes 4 ms an event, three times in a preview of which all has to be done in 50 ms, and
    changes nothing while the layer lies within what is shown; where it does not, or reached the
    ends before, it is done once.
    """
    update = getattr(viewer, "_on_layers_change", None)
    if update is None:
        yield
        return
    start, stop, _ = np.array(viewer.dims.range)[-layer.ndim :].T
    low, high = layer.extent.world
    reached = ((low <= start) | (high >= stop)).any()
    with layer.events.data.blocker(update):
        yield
    low, high = layer.extent.world
    if reached or not ((low >= start) & (high <= stop) | np.isnan(low)).all():
        update()


@contextmanager
def slices_kept(viewer: ViewerModel) -> Iterator[None]:
    """Keep the slices in view while layers get other voxels.

    napari's sliders keep their number when their steps change, and stop at their end where there
    are fewer: what is in view then lies elsewhere.
    """
    point = viewer.dims.point
    yield
    if viewer.dims.point != point:
        viewer.dims.set_point(range(len(point)), point)


class SlicesKept:
    """Keeps the slices in view where they are when a layer is removed from a viewer.

    napari's sliders keep their numbers: without the finest volume, whose slices they counted, what
    is in view is then at the far end.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._point: tuple[float, ...] = ()

    def open(self) -> None:
        events = self._viewer.layers.events
        events.removing.connect(self._note)
        events.removed.connect(self._keep, position="last")  # after the sliders have changed

    def close(self) -> None:
        events = self._viewer.layers.events
        events.removing.disconnect(self._note)
        events.removed.disconnect(self._keep)

    def _note(self, _event: Any) -> None:
        self._point = self._viewer.dims.point

    def _keep(self, _event: Any) -> None:
        dims, point = self._viewer.dims, self._point
        if self._viewer.layers and len(point) == dims.ndim and dims.point != point:
            dims.set_point(range(dims.ndim), point)
