"""Where the mouse points in a viewer whose camera is turned: napari's answer, put right.

napari 0.10.0rc1 reckons as though the axes ran down and to the right of the screen, whatever
``camera.orientation`` says. All of napari goes by that: its brush, its tool that adds points, the
status bar, and which part of a large image is loaded. So it is napari's own method that is put
right, in the viewers that :mod:`.views` turns, and only where :func:`heeds_orientation` finds it
wrong: before 0.10 there was no such method, and vispy was asked.
"""

from __future__ import annotations

from functools import cache
from types import MethodType
from typing import Any

import numpy as np
from napari.components import ViewerModel
from numpy.typing import NDArray

METHOD = "canvas_to_world"


@cache
def heeds_orientation(ndisplay: int) -> bool:
    """Return whether napari's positions, in 2-D or in 3-D, heed how the camera is turned."""
    if not hasattr(ViewerModel, METHOD):
        return True
    viewer = ViewerModel()
    viewer.dims.ndim, viewer.dims.ndisplay = 3, ndisplay
    viewer.scene.camera.orientation2d = ("up", "left")
    upper_left, lower_right = (viewer.canvas_to_world(pixel) for pixel in ((0, 0), (1, 1)))
    return bool((upper_left > lower_right)[1:].all())


def point_truly(viewer: Any) -> None:
    """Have a viewer say where the mouse is, whatever the orientation of its camera."""
    if METHOD not in vars(viewer) and not (heeds_orientation(2) and heeds_orientation(3)):
        # As a cached property is kept: past the fields of the model.
        vars(viewer)[METHOD] = MethodType(_canvas_to_world, viewer)


def _canvas_to_world(viewer: Any, *args: Any, **kwargs: Any) -> NDArray[np.float64]:
    """Do what napari's method does, and turn over the axes that run up or to the left."""
    position = np.array(getattr(type(viewer), METHOD)(viewer, *args, **kwargs), float)
    if heeds_orientation(viewer.dims.ndisplay):
        return position
    camera, shown = viewer.scene.camera, list(viewer.dims.displayed)
    if viewer.dims.ndisplay == 3:
        up = np.array(camera.up_direction)
        side = np.cross(camera.view_direction, up)
    else:
        up, side = np.eye(3)[1:]
    away = np.zeros(3)  # from what the camera looks at
    away[-len(shown) :] = position[shown] - camera.center[-len(shown) :]
    _, vertical, horizontal = map(str, camera.orientation)
    for axis, is_turned in ((up, vertical == "up"), (side, horizontal == "left")):
        if is_turned:
            away -= 2 * (away @ axis) * axis
    position[shown] = (camera.center + away)[-len(shown) :]
    return position
