"""A points layer whose points are spheres: an outline and a tint, in front of streamlines.

A slice shows where it cuts them; napari shows a point in the slice of its centre alone.
Made by the regions of the session.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
from napari.layers.utils.color_transformations import transform_color
from numpy.typing import NDArray

from ..space.display import AXIS_LABELS, DisplaySpace
from .on_volume import PointsOnVolume, sliced_by

OUTLINE = 0.06  # of the diameter
TINT = "30"  # the opacity, hexadecimal, of what is inside: streamlines are seen through it


class Spheres(PointsOnVolume):
    """Spheres in a space; the size of a point is the diameter, in the display's unit.

    Their centres are (n, 3) display positions, (z, y, x).
    """

    stays_in_front = True
    # Of Points, which has no types for them.
    border_color: Any
    current_border_color: Any
    face_color: Any
    current_face_color: Any

    def __init__(
        self, centres: Any, radius_mm: float, *, space: DisplaySpace, **kwargs: Any
    ) -> None:
        super().__init__(
            centres,
            size=2 * radius_mm * space.per_mm,
            border_width=OUTLINE,
            blending="translucent_no_depth",  # in front of streamlines in 3-D, to be found
            projection_mode="rescale_spherical",
            units=space.units,
            axis_labels=AXIS_LABELS,
            **kwargs,
        )
        self.space = space
        self.current_size = 2 * radius_mm * space.per_mm

    @property
    def colour(self) -> str:
        """Of the outlines, "#rrggbb", and paler of what is inside; setting it is for all."""
        return str(self.current_border_color)

    @colour.setter
    def colour(self, colour: str) -> None:
        inside = f"{colour}{TINT}"
        outlines = [*self.border_color, *transform_color(self.current_border_color)]
        tints = [*self.face_color, *transform_color(self.current_face_color)]
        if not ((outlines != transform_color(colour)) | (tints != transform_color(inside))).any():
            return
        with ExitStack() as quiet:
            for manager in (getattr(self, "_border", None), getattr(self, "_face", None)):
                if manager is not None:
                    quiet.enter_context(manager.events.blocker_all())
            quiet.enter_context(self.events.border_color.blocker())
            self.border_color = self.current_border_color = colour
            self.face_color = self.current_face_color = inside  # with which both are drawn

    @property
    def radii_mm(self) -> NDArray[np.float64]:
        return np.asarray(self.size, dtype=float).reshape(-1) / (2 * self.space.per_mm)

    @property
    def radius_mm(self) -> float:
        """The radius of the first sphere, or of the next one; setting it is for all."""
        size = self.size[0] if len(self.size) else self.current_size
        return float(size) / (2 * self.space.per_mm)

    @radius_mm.setter
    def radius_mm(self, value: float) -> None:
        diameter: Any = 2 * value * self.space.per_mm
        self.size = self.current_size = diameter

    def _get_layer_slicing_state(self, data: Any, cache: bool) -> Any:
        state = super()._get_layer_slicing_state(data, cache)
        return sliced_by(_Slicing, state, self, data, cache)


def is_of_named_spheres(event: Any) -> bool:
    """Return whether an event of a list of layers tells the name of spheres, which none offers."""
    is_name = event is not None and event.type == "renamed"
    return is_name and isinstance(event.source[event.index], Spheres)


class _Slicing:
    """Slices as thick as the largest sphere, of which the projection shows the cross-section."""

    layer: Spheres

    def make_slice_request_internal(self, slice_input: Any, data_slice: Any) -> Any:
        point = data_slice.as_array()
        point[1:] = np.max(self.layer.size, initial=0.0) / 2
        data_slice = data_slice.from_array(point)
        return super().make_slice_request_internal(slice_input, data_slice)  # type: ignore[misc]
