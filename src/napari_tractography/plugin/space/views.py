"""Standard views: axial, coronal, sagittal and 3-D.

Volumes are shown with axes (z, y, x) that increase to superior, anterior and right, see
:mod:`.display`; left is on the left of the screen in axial and coronal views, anterior on the
right in sagittal ones. Called by the View section of the panel.
"""

from __future__ import annotations

from typing import Any

VIEWS = ("axial", "coronal", "sagittal", "3-D")
VIEW_HELP = {
    "axial": "A slice seen from above: left on the left, anterior up.",
    "coronal": "A slice seen from behind: left on the left, superior up.",
    "sagittal": "A slice seen from the right: posterior on the left, superior up.",
    "3-D": "The volume, from any side.",
}
# Axes (z, y, x): the first is sliced, the others are up and to the right.
ORDERS = {"axial": (0, 1, 2), "coronal": (1, 0, 2), "sagittal": (2, 0, 1)}


def show_view(viewer: Any, name: str) -> None:
    """Turn a viewer to one of :data:`VIEWS` and fit it."""
    extra = viewer.dims.ndim - 3
    if name == "3-D":
        viewer.dims.order = tuple(range(viewer.dims.ndim))
        viewer.dims.ndisplay = 3
    else:
        viewer.dims.ndisplay = 2
        order = ORDERS[name]
        viewer.dims.order = (*range(extra), *(axis + extra for axis in order))
    viewer.reset_view()
