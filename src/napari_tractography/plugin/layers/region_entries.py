"""Layers of regions: what a region's layer looks like, and which voxels it makes of it.

Called by the regions of the session.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from napari.layers import Labels, Layer
from numpy.typing import NDArray

from ...model.regions import Region
from ..document import RegionState
from ..space.display import DisplaySpace
from .spheres import Spheres
from .volume_layers import voxels_of

SPACE_KEY = "region_in"  # layer.metadata[SPACE_KEY] is the display space of a layer of spheres
PAINTED_KEY = "region_painted"  # whether the layer was made to be painted
PAINTED_OPACITY = 0.4
ROLE_COLOURS = {
    "include": "#43c463",
    "exclude": "#ef4b4b",
    "stop": "#ffa32b",
    "end": "#4aa8ff",
    "resect": "#e45ad6",
}
INACTIVE_COLOUR = "#b9a3e3"


class Holder:
    """The layer that shows a painting or spheres; regions of one painting have one in common.

    It is another one from time to time: layers go from bundle to bundle.
    """

    __slots__ = ("layer",)

    def __init__(self, layer: Layer) -> None:
        self.layer = layer


class Entry:
    """One region and the layer that shows it."""

    __slots__ = ("__weakref__", "first", "holder", "state", "was_visible")

    def __init__(self, holder: Holder, state: RegionState) -> None:
        self.holder = holder
        self.state = state  # as it is shown
        # What the layer held at first, of a region that came as data.
        self.first: RegionState | None = None
        self.was_visible = True  # whether its layer was to be seen when it was shown last

    @property
    def layer(self) -> Layer:
        return self.holder.layer

    @property
    def id(self) -> int:
        return self.state.id

    @property
    def role(self) -> str:
        return self.state.role

    @property
    def label(self) -> int | None:
        return self.state.label

    @property
    def is_inactive(self) -> bool:
        """Whether it is not in use: it was placed, and neither moved nor confirmed."""
        return self.state.is_inactive

    @property
    def colour(self) -> str:
        """The colour of its role, "#rrggbb"; a colour of no role where it is inactive."""
        return INACTIVE_COLOUR if self.is_inactive else ROLE_COLOURS[self.role]


def is_own(layer: Layer) -> bool:
    """Return whether a layer was made to be a region: it was not opened by a person."""
    return isinstance(layer, Spheres) or bool(layer.metadata.get(PAINTED_KEY))


def painted_layer(region: Region) -> Labels:
    """Return a labels layer of a region that is a mask, to be painted further."""
    assert region.voxels is not None
    assert region.grid is not None
    space = DisplaySpace.of(region.grid)
    voxels = np.ascontiguousarray(space.volume(np.asarray(region.voxels, np.uint8)))
    layer = Labels(voxels, name=region.name, opacity=PAINTED_OPACITY, **space.layer_kwargs)
    layer.metadata[PAINTED_KEY] = True
    return layer


def make_regions(state: RegionState, layer: Layer | None, space: DisplaySpace) -> Iterable[Region]:
    """Make the regions of a state: one for each sphere, or one of its labels if there are any.

    `space` is where its layer is shown; None is the layer of a state that was not shown yet.
    """
    for *centre, radius_mm in state.spheres.tolist():
        yield Region.sphere(np.array(centre), radius_mm, state.role, name=state.name)
    if layer is None or isinstance(layer, Spheres):
        return
    voxels, grid = voxels_of(layer, space)
    inside = voxels != 0 if state.label is None else voxels == state.label
    if inside.any():
        yield Region.mask(inside, grid, state.role, name=state.name)


def spheres_in(layer: Spheres, space: DisplaySpace) -> NDArray[np.float64]:
    """Return the spheres of a layer: (n, 4) float64, centres in RAS+ mm and radii in mm."""
    if not len(layer.data):
        return np.empty((0, 4))
    return np.hstack([space.positions_at(layer.data), layer.radii_mm[:, None]])


def same_regions(some: list[Region], others: list[Region]) -> bool:
    """Return whether regions of labels are the same voxels of the same grids, in the same order."""
    if len(some) != len(others):
        return False
    return all(
        a.grid == b.grid and np.array_equal(np.asarray(a.voxels), np.asarray(b.voxels))
        for a, b in zip(some, others, strict=True)
    )
