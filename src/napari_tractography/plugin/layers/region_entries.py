"""Regions and the layers that they belong to: what a region is, and what a layer makes of it.

Called by the regions of the session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from napari.layers import Labels, Layer
from numpy.typing import NDArray

from ...model.regions import Region
from ..space.display import DisplaySpace
from .spheres import Spheres
from .volumes import voxels_of

SPACE_KEY = "region_in"  # layer.metadata[SPACE_KEY] is the display space of a layer of spheres
PAINTED_KEY = "region_painted"  # whether the layer was made to be painted
PAINTED_OPACITY = 0.4
ROLE_COLOURS = {"include": "#43c463", "exclude": "#ef4b4b", "stop": "#ffa32b", "end": "#4aa8ff"}
ASLEEP_COLOUR = "#b9a3e3"


@dataclass(slots=True, eq=False)
class Entry:
    """One region: its layer, what it is for, and which label; None stands for all but zero.

    One that is asleep is not in use: it was put somewhere, and nobody said that it belongs there.
    """

    layer: Layer
    role: str
    label: int | None = None
    is_asleep: bool = False

    @property
    def colour(self) -> str:
        """The colour of its role, "#rrggbb"; a colour of no role where it is asleep."""
        return ASLEEP_COLOUR if self.is_asleep else ROLE_COLOURS[self.role]


@dataclass(frozen=True, slots=True, eq=False)
class RegionState:
    """A region at one time.

    Attributes
    ----------
    entry : Entry
    part : tuple
        What makes it another region or gives it another role: entry, role, label.
    is_asleep : bool
    spheres : (n, 4) float64
        Of spheres: centres, RAS+ mm, and radii, mm; empty for labels.
    """

    entry: Entry
    part: tuple[Entry, str, int | None]
    is_asleep: bool
    spheres: NDArray[np.float64]


def is_own(layer: Layer) -> bool:
    """Tell whether a layer was made to be a region: nobody opened it, and nothing else uses it."""
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


def layers_of(entries: Iterable[Entry]) -> list[Layer]:
    """Return each layer once, in order."""
    return list(dict.fromkeys(entry.layer for entry in entries))


def show_spheres_in(layer: Spheres, before: DisplaySpace, space: DisplaySpace) -> None:
    """Show spheres in another display space; they stay where they are in RAS+ mm."""
    radii_mm = layer.radii_mm
    layer.metadata[SPACE_KEY] = layer.space = space
    with layer.events.data.blocker():
        layer.data = space.shown_at(before.places_at(layer.data))
        if space.per_mm != before.per_mm:
            layer.size = 2 * radii_mm * space.per_mm


def make_regions(entry: Entry, space: DisplaySpace) -> Iterable[Region]:
    """Make the regions of an entry: one for each sphere, or one of its labels if there are any.

    Parameters
    ----------
    entry : Entry
    space : DisplaySpace
        Where its layer is shown.
    """
    layer = entry.layer
    if isinstance(layer, Spheres):
        centres = space.places_at(layer.data)
        for centre, radius_mm in zip(centres, layer.radii_mm.tolist(), strict=True):
            yield Region.sphere(centre, radius_mm, entry.role, name=layer.name)
        return
    voxels, grid = voxels_of(layer, space)
    inside = voxels != 0 if entry.label is None else voxels == entry.label
    if inside.any():
        yield Region.mask(inside, grid, entry.role, name=layer.name)


def same_regions(some: list[Region], others: list[Region]) -> bool:
    """Tell whether regions of labels are the same voxels of the same grids, in the same order."""
    if len(some) != len(others):
        return False
    return all(
        a.grid == b.grid and np.array_equal(np.asarray(a.voxels), np.asarray(b.voxels))
        for a, b in zip(some, others, strict=True)
    )
