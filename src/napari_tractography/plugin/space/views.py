"""Standard views: slices, and 3-D from the front, the left and above.

Volumes are shown with axes (z, y, x) that increase to superior, anterior and right, see
:mod:`.display`; left is on the left of the screen in axial and coronal views, anterior on the
right in sagittal ones. Called by the View section of the panel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .display import ORIENTATION

SLICES = ("axial", "coronal", "sagittal")
SPACE = "3-D"


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
VIEWS = (*SLICES, SPACE, *SIDES)
KEYS = {name: f"Control-{number}" for number, name in enumerate(VIEWS, start=1)}
_MEANINGS = {
    "axial": "A slice seen from above: left on the left, anterior up.",
    "coronal": "A slice seen from behind: left on the left, superior up.",
    "sagittal": "A slice seen from the right: posterior on the left, superior up.",
    SPACE: "The volume from the side where you left it, fitted.",
    **{name: side.help for name, side in SIDES.items()},
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
    if name in SIDES:
        viewer.scene.camera.set_view_direction(SIDES[name].view, SIDES[name].up)
    viewer.fit_to_view()


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
