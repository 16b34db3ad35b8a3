"""Layers that decorate a volume: they leave the sliders of the viewer at its slices.

The base of the layers of spheres, seeds, figures, glyphs and peaks.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from napari.layers import Layer, Points

from ..space.display import DisplaySpace, set_units
from ..space.extent import on_slices


class OnVolume:
    """Mixin of a napari layer, before its class.

    Without it a layer that is added or removed changes range and step of the sliders, and with
    them the slices in view.
    """

    _space = DisplaySpace.identity()
    _clear_extent: Any  # of the layer

    @property
    def space(self) -> DisplaySpace:
        """The display space of the volume underneath."""
        return self._space

    @space.setter
    def space(self, space: DisplaySpace) -> None:
        self._space = space
        set_units(self, space.units)
        self._clear_extent()

    @cached_property
    def extent(self) -> Any:
        """Extent in data and in world coordinates, see :func:`.extent.on_slices`."""
        return on_slices(Layer.extent.func(self), self._space, clip=True)


class SeedPoints(OnVolume, Points):  # type: ignore[misc]
    """Seeds, as points in voxels of the volume."""

    _type_string = "points"  # for writers and icons
