"""Layers that decorate a volume: they leave the sliders of the viewer at its slices.

The base of the layers of spheres, seeds, figures, glyphs and peaks.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import combinations
from typing import Any

from napari.layers import Image, Layer, Points, Surface

from ..notices import show_warning
from ..space.display import DisplaySpace, set_units
from ..space.extent import forget_extent, on_slices
from ..space.layer_list import index_of_lowest
from ..streamlines.layer import Streamlines

LEAST_PIXELS = 2  # of a point on the canvas, napari's own


class OnVolume:
    """Mixin of a napari layer, before its class.

    Without it a layer that is added or removed changes range and step of the sliders, and with
    them the slices in view.
    """

    _space = DisplaySpace.identity()

    @property
    def space(self) -> DisplaySpace:
        """The display space of the volume underneath."""
        return self._space

    @space.setter
    def space(self, space: DisplaySpace) -> None:
        self._space = space
        set_units(self, space.units)
        forget_extent(self)

    @cached_property
    def extent(self) -> Any:
        """Extent in data and in world coordinates, see :func:`.extent.on_slices`."""
        return on_slices(Layer.extent.func(self), self._space, clip=True)


class PointsOnVolume(OnVolume, Points):  # type: ignore[misc]
    """Points of which nothing is drawn where none is in the slice, and that are moved by dragging.

    Where none is, napari draws a point of size 0 at the layer's origin, which the least size on
    the canvas made a dot. Its tool that transforms layers would move the picture alone, and not
    the positions that streamlines start from or pass.
    """

    _type_string = "points"  # for writers and icons
    _has_warned = False  # that it is not transformed
    least_pixels = LEAST_PIXELS
    canvas_size_limits: Any  # of Points, which has no type for it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.events.set_data.connect(self._on_sliced)
        self._on_sliced()

    @property
    def mode(self) -> str:
        """What the mouse does on the canvas, as of napari's layers."""
        return str(Points.mode.fget(self))

    @mode.setter
    def mode(self, mode: Any) -> None:
        is_refused = str(mode) == "transform"
        Points.mode.fset(self, "pan_zoom" if is_refused else mode)
        if is_refused:
            self.events.mode(mode=self.mode)  # the button that was pressed comes up again
        if is_refused and not self._has_warned:  # napari sets the mode twice
            self._has_warned = True
            show_warning(
                f"The layer {self.name} is not transformed, which would move its picture alone; "
                "drag the points one by one."
            )

    def _on_sliced(self, _event: Any = None) -> None:
        seen: Any = getattr(self, "_view_indices", self.data)
        least = self.least_pixels if len(seen) else 0
        low, high = self.canvas_size_limits
        if low != least:
            self.canvas_size_limits = least, high


class SurfaceOnVolume(OnVolume, Surface):  # type: ignore[misc]
    """A surface that 3-D shows with its axes in the order of the viewer's, as volumes.

    napari permutes its scale and translation alone, and 0.10 the vertices, too, after which
    triangles of an odd order face inwards.
    """

    _type_string = "surface"  # for writers and icons
    visual = "VispyLitSurface"  # of lit_surfaces, which draws it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Without a Qt binding there is no canvas, and another napari may draw by other classes.
        with suppress(ImportError):
            from . import lit_surfaces

            lit_surfaces.register(type(self), getattr(lit_surfaces, self.visual))
        super().__init__(*args, **kwargs)

    def _get_layer_slicing_state(self, data: Any, cache: bool) -> Any:
        state = super()._get_layer_slicing_state(data, cache)
        return sliced_by(_Permuted, state, self, data, cache)


def sliced_by(mixin: type, state: object, *args: Any) -> Any:
    """Return napari's slicing state of a layer, made of `args`, with methods before its own."""
    base: Any = type(state)
    return _with(mixin, base)(*args)


@cache
def _with(mixin: type, base: type) -> type:
    return type(mixin.__name__, (mixin, base), {})


class _Permuted:
    """Vertices that are shown whole, with their axes in the order of the viewer's."""

    layer: SurfaceOnVolume

    def _update_slice_response(self, response: Any) -> None:
        displayed = list(response.slice_input.displayed)
        swaps = sum(a > b for a, b in combinations(displayed, 2))
        if swaps and not response.slice_input.not_displayed:
            is_as_stored = response.vertices is self.layer.vertices
            response = replace(
                response,
                vertices=response.vertices[:, displayed] if is_as_stored else response.vertices,
                # An odd order mirrors: triangles are to face outwards as before.
                faces=response.faces[:, ::-1] if swaps % 2 else response.faces,
            )
        super()._update_slice_response(response)  # type: ignore[misc]


class SeedPoints(PointsOnVolume):
    """Seeds, as points in voxels of the volume."""

    stays_in_front = True


def is_in_front(layer: Layer) -> bool:
    """Return whether a layer stays above streamlines: seeds, spheres, and what else says so."""
    return bool(getattr(layer, "stays_in_front", False))


def is_above_volumes(layer: Layer) -> bool:
    """Return whether a layer stays above volumes, glyphs and regions of labels."""
    return isinstance(layer, Streamlines) or is_in_front(layer)


def index_of_volume(layers: Any, layer: Layer) -> int:
    """Return where a volume is inserted, so that it hides nothing.

    An image goes below all but images; others stay below streamlines, seeds and spheres.
    """
    if isinstance(layer, Image):
        return index_of_lowest(layers, lambda other: not isinstance(other, Image))
    return index_of_lowest(layers, is_above_volumes)
