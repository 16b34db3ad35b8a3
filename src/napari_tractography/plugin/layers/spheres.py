"""A points layer whose points are spheres: a slice shows where it cuts them.

napari shows a point in the slice of its centre alone. Made by the regions of the session.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Points
from napari.layers.points.points import _PointsSlicingState

from ..space.display import AXIS_LABELS, UNITS, DisplaySpace
from .on_volume import OnVolume

OPACITY = 0.35


class Spheres(OnVolume, Points):  # type: ignore[misc]
    """Spheres in display mm; the size of a point is the diameter.

    Parameters
    ----------
    centres : (n, 3) array_like
        Display positions, (z, y, x) mm.
    radius_mm : float
    space : DisplaySpace
        In which they are shown.
    **kwargs
        Further arguments of :class:`napari.layers.Points`.
    """

    _type_string = "points"  # for writers and icons

    def __init__(
        self, centres: Any, radius_mm: float, *, space: DisplaySpace, **kwargs: Any
    ) -> None:
        super().__init__(
            centres,
            size=2 * radius_mm,
            border_width=0.0,
            opacity=OPACITY,
            blending="translucent_no_depth",  # behind the streamlines above it, also in 3-D
            projection_mode="rescale_spherical",
            shading="spherical",
            units=UNITS,
            axis_labels=AXIS_LABELS,
            **kwargs,
        )
        self.space = space
        self.current_size = 2 * radius_mm

    def _get_layer_slicing_state(self, data: Any, cache: bool) -> _Slicing:
        return _Slicing(self, data, cache)


class _Slicing(_PointsSlicingState):  # type: ignore[misc]
    """Slices as thick as the largest sphere, of which the projection shows the cross-section."""

    def make_slice_request_internal(self, slice_input: Any, data_slice: Any) -> Any:
        place = data_slice.as_array()
        place[1:] = np.max(self.layer.size, initial=0.0) / 2
        return super().make_slice_request_internal(slice_input, data_slice.from_array(place))
