"""Standard views: slices, and 3-D from the front, the left and above.

Volumes are shown with axes (z, y, x) that increase to superior, anterior and right, see
:mod:`.display`; left is on the left of the screen in axial and coronal views, anterior on the
right in sagittal ones. Called by the View section of the panel.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from weakref import WeakSet

import numpy as np
from napari.layers import Image

from ..layers.planes import planes_in_view
from ..streamlines.layer import Streamlines
from .display import ORIENTATION
from .pointing import point_truly

SLICES = ("axial", "coronal", "sagittal")
SPACE = "3-D"
FOUR_UP = "four-up"
PLANES = (*SLICES, SPACE, FOUR_UP)  # of which one is in view


@dataclass(frozen=True, slots=True)
class Side:
    """A side to look from, as directions (z, y, x)."""

    # view, up: where the eye looks, and what is up on the screen.
    view: tuple[float, float, float]
    up: tuple[float, float, float]
    help: str


SIDES = {
    "front": Side((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), "In 3-D from the front: left on the right."),
    "left": Side((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), "In 3-D from the left: anterior on the left."),
    "above": Side((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), "In 3-D from above: left on the left."),
}
THREE_QUARTERS = Side((-0.35, -0.65, 0.6), (1.0, 0.0, 0.0), "")  # from above, the front left
FILLED = 0.92  # of the canvas
MOST_POINTS = 20_000  # of a bundle, to which 3-D is fitted
VIEWS = (*SLICES, SPACE, *SIDES, FOUR_UP)
KEYS = {name: f"Control-{number}" for number, name in enumerate(VIEWS, start=1)}
_MEANINGS = {
    "axial": "A slice seen from above: left on the left, anterior up.",
    "coronal": "A slice seen from behind: left on the left, superior up.",
    "sagittal": "A slice seen from the right: posterior on the left, superior up.",
    SPACE: "The volume from the side where you left it, fitted.",
    **{name: side.help for name, side in SIDES.items()},
    FOUR_UP: "The three slices beside 3-D, with one crosshair.",
}
VIEW_HELP = {
    name: f"{text} {KEYS[name].replace('Control-', 'Ctrl+')}" for name, text in _MEANINGS.items()
}
# Axes (z, y, x): the first is sliced, the others are up and to the right.
ORDERS = {"axial": (0, 1, 2), "coronal": (1, 0, 2), "sagittal": (2, 0, 1)}


def show_view(viewer: Any, name: str) -> None:
    """Turn a viewer to one of :data:`VIEWS` and fit it; the slices stay where they are."""
    extra, point = viewer.dims.ndim - 3, viewer.dims.point
    if name in ORDERS:
        viewer.dims.ndisplay = 2  # napari moves the slice to where the camera looks in 3-D
        order = ORDERS[name]
        viewer.dims.order = (*range(extra), *(axis + extra for axis in order))
        viewer.dims.set_point(range(viewer.dims.ndim), point)
        viewer.reset_view()
        return
    viewer.dims.order = tuple(range(viewer.dims.ndim))
    viewer.dims.ndisplay = 3
    turn_first(viewer)
    if name in SIDES:
        viewer.scene.camera.set_view_direction(SIDES[name].view, SIDES[name].up)
    fit_space(viewer)


def plane_in_view(viewer: Any) -> str | None:
    """Return which of :data:`SLICES` or :data:`SPACE` a viewer shows; None for any other slice."""
    if viewer.dims.ndisplay == 3:
        return SPACE
    shown = tuple(axis - (viewer.dims.ndim - 3) for axis in viewer.dims.order[-3:])
    return next((name for name, order in ORDERS.items() if order == shown), None)


def turn_first(viewer: Any) -> None:
    """Look at 3-D in three quarters, fitted, where nobody has turned it yet."""
    is_space = viewer.dims.ndisplay == 3 and len(viewer.layers)
    if is_space and not any(viewer.scene.camera.angles):
        axes = _displayed(viewer)
        directions = np.array([THREE_QUARTERS.view, THREE_QUARTERS.up])[:, axes]
        viewer.scene.camera.set_view_direction(*map(tuple, directions))
        fit_space(viewer)


def fit_space(viewer: Any) -> None:
    """Fit 3-D to what is seen of slices and streamlines; to all there is among whole volumes."""
    seen = [planes.seen_points() for planes in planes_in_view(viewer)]
    are_whole = any(layer.visible and isinstance(layer, Image) for layer in viewer.layers)
    for layer in viewer.layers:
        if isinstance(layer, Streamlines) and layer.visible and layer.n_shown:
            points = layer.drawn_points
            seen.append(points[:: 1 + len(points) // MOST_POINTS, ::-1].astype(np.float64))
    if are_whole or not any(map(len, seen)):
        viewer.fit_to_view()
        return
    camera = viewer.scene.camera
    forward, up = (np.asarray(v, float) for v in (camera.view_direction, camera.up_direction))
    positions = np.concatenate(seen)[:, _displayed(viewer)]
    axes = np.stack([forward, up, np.cross(up, forward)])
    along = positions @ axes.T
    low, high = along.min(axis=0), along.max(axis=0)
    camera.center = tuple((low + high) / 2 @ axes)
    camera.zoom = FILLED * float(np.min(np.array(viewer.canvas.size) / (high - low)[1:].clip(1e-6)))


def _displayed(viewer: Any) -> list[int]:
    """Return which of the axes (z, y, x) 3-D shows first, second and third."""
    return [axis - (viewer.dims.ndim - 3) for axis in viewer.dims.displayed]


OPPOSITE = {"towards": "away", "away": "towards"}


def orient(viewer: Any) -> None:
    """Turn a viewer so that left is on the left, anterior or superior is up, and 3-D is true.

    In a coronal or a sagittal slice two axes change places with respect to an axial one. Were
    3-D entered from there with the same orientation of depth, it would show a mirror image.
    The setting holds for all layers of the viewer.
    """
    depth, vertical, horizontal = ORIENTATION
    spatial = list(viewer.dims.order)[-3:]
    swaps = sum(first > second for first, second in combinations(spatial, 2))
    wanted = (OPPOSITE[depth] if swaps % 2 else depth, vertical, horizontal)
    if tuple(viewer.scene.camera.orientation) != wanted:
        viewer.scene.camera.orientation = wanted


_oriented: WeakSet[Any] = WeakSet()  # viewers


def keep_oriented(viewer: Any) -> None:
    """Turn a viewer as :func:`orient` does, whatever order its axes get from now on."""
    orient(viewer)
    point_truly(viewer)
    if viewer not in _oriented:
        _oriented.add(viewer)
        seen_by = weakref.ref(viewer)

        def on_order(_event: Any) -> None:
            if (known := seen_by()) is not None:
                orient(known)

        viewer.dims.events.order.connect(on_order)
