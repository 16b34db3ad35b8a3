"""What all pictures have in common: a viewer, and the picture cut to what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray
from qtpy.QtTest import QTest

import napari_tractography as nt
from napari_tractography.plugin.export.screenshots import canvas_picture, lettered
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.space.orientation_labels import edge_labels
from napari_tractography.plugin.space.views import orient, show_view

BRAIN, SUBJECT, HEART, NOTHING = "brain", "subject", "heart", ""
WINDOW = (1200, 900)
OVERSAMPLING = 2  # pixels drawn for each that is kept, along each side: smooth lines
FILLED = 0.97  # of the canvas
MARGIN = 28  # pixels around what is drawn
DARK = 24  # of 255: what is not brighter is background
SETTLE_MS = 400
FROM_LEFT_FRONT = (-0.35, -0.45, 0.85)  # where the eye looks, (z, y, x)


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture of the gallery.

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    title, caption : str
    draw : callable
        Fills a viewer; takes the viewer and what it needs, and returns the picture.
    needs : str
        BRAIN, an FOD; SUBJECT, a folder of a person's peaks, FA and masks; HEART, a folder with an
        image of a heart; or NOTHING.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Any, Any], NDArray[np.uint8]]
    needs: str = BRAIN


def add_volume(viewer: Any, fod: nt.Fod, **look: Any) -> Layer:
    """Show an FOD's mean."""
    layer = viewer.add_layer(Layer.create(*fod_layer_data(fod)))
    for name, value in look.items():
        setattr(layer, name, value)
    orient(viewer)
    return layer


def finish(viewer: Any, *, letters: bool = False) -> NDArray[np.uint8]:
    """Return the canvas, filled with what is on it and cut to that."""
    QTest.qWait(SETTLE_MS)
    rows, columns = drawn_box(canvas_picture(viewer))
    height, width = viewer.canvas.size
    reach = max(
        abs(2 * end / side - 1) for ends, side in ((rows, height), (columns, width)) for end in ends
    )
    viewer.scene.camera.zoom *= FILLED / reach  # the middle of the canvas stays
    QTest.qWait(SETTLE_MS)
    picture = smaller(canvas_picture(viewer, scale=OVERSAMPLING)[..., :3])
    (top, bottom), (left, right) = drawn_box(picture)
    picture = picture[
        max(top - MARGIN, 0) : bottom + MARGIN, max(left - MARGIN, 0) : right + MARGIN
    ]
    return lettered(picture, edge_labels(viewer), 1.0)[..., :3] if letters else picture


def drawn_box(picture: NDArray[np.uint8]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the first and the last row, and column, that is not background."""
    drawn = picture[..., :3].max(axis=2) > DARK
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    return (int(rows[0]), int(rows[-1]) + 1), (int(columns[0]), int(columns[-1]) + 1)


def smaller(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Average each square of pixels that were drawn for one."""
    k = OVERSAMPLING
    height, width = picture.shape[0] // k, picture.shape[1] // k
    squares = picture[: height * k, : width * k].reshape(height, k, width, k, 3)
    return np.asarray(np.rint(squares.mean(axis=(1, 3), dtype=np.float32)), dtype=np.uint8)


def look_from(viewer: Any, direction_zyx: Sequence[float]) -> None:
    """Turn to 3-D and look along a direction, superior up."""
    show_view(viewer, "3-D")
    viewer.scene.camera.set_view_direction(tuple(direction_zyx), (1.0, 0.0, 0.0))


def show_docks(viewer: Any, shown: bool) -> None:
    """Show or hide what napari puts around the canvas."""
    qt = viewer.window._qt_viewer
    for dock in (qt.dockLayerList, qt.dockLayerControls):
        dock.setVisible(shown)
