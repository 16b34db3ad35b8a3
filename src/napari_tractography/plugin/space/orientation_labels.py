"""Orientation labels: R, L, A, P, S, I at the edges of the canvas and of screenshots.

Of an image that says nothing of left and right, such as a TIFF, they are the names of its axes.

Volumes are shown with axes (z, y, x) that increase to superior, anterior and right, see
:mod:`.display`. Called by the View section of the panel and by the screenshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from napari.layers import Image, Layer
from qtpy.QtCore import QEvent, QObject, QPointF, QRectF, Qt
from qtpy.QtGui import QColor, QFont, QPainter, QPainterPath, QPaintEvent, QPen
from qtpy.QtWidgets import QLabel, QWidget

from ..listening import Listening
from ..streamlines.layer import Streamlines
from . import positions
from .display import AXIS_LABELS, SETTINGS_KEY, says_sides

EDGES = ("left", "right", "top", "bottom")
LETTERS = (("I", "S"), ("P", "A"), ("L", "R"))  # where z, y, x decrease and increase
AXES = (("", "z"), ("", "y"), ("", "x"))  # the same of what may lie in the scanner in any way
MIN_COSINE = 0.35  # between an axis and the way to an edge, below which the edge has no label
MARGIN = 6
LABEL_COLOUR, OUTLINE_COLOUR = "#ffd166", "#202020"
LABEL_PIXELS = 16
OUTLINE_FRACTION = 0.22  # of the height of a letter, so that it is seen on white too


def edge_labels(viewer: Any) -> dict[str, str]:
    """Return which side of the body each edge of the canvas looks to: {edge: letter}.

    One of R, L, A, P, S, I for each of :data:`EDGES`; "" where no axis of the body runs to that
    edge, and in a viewer with less than three dimensions. Where images do not say how they lie in
    the body, x, y or z at the edge that the axis runs to.
    """
    if viewer.dims.ndim < 3:  # nothing is open yet
        return dict.fromkeys(EDGES, "")
    # The axis, z, y or x, of each of the axes as they are displayed.
    shown = [axis - (viewer.dims.ndim - 3) for axis in viewer.dims.order[-3:]]
    if viewer.dims.ndisplay == 2:
        top, side = np.eye(3)[1], np.eye(3)[2]
    else:
        camera = viewer.scene.camera
        top, forward = np.array(camera.up_direction), np.array(camera.view_direction)
        # As vectors (x, y, z): right-handed, as the orientation of the camera is, unless depth
        # goes away from the eye.
        side = np.cross(top[::-1], -forward[::-1])[::-1]
        side /= max(float(np.linalg.norm(side)), 1e-12)
        if str(getattr(camera.orientation[0], "value", camera.orientation[0])) == "away":
            side = -side
    names = LETTERS if is_anatomical(viewer.layers) else AXES
    letters = {}
    for low, high, direction in (("bottom", "top", top), ("left", "right", side)):
        largest = int(np.abs(direction).argmax())
        axis = shown[largest]
        strong = abs(direction[largest]) > MIN_COSINE
        ahead = direction[largest] > 0
        letters[high] = names[axis][int(ahead)] if strong else ""
        letters[low] = names[axis][int(not ahead)] if strong else ""
    return letters


def is_anatomical(layers: Iterable[Layer]) -> bool:
    """Return whether the axes of layers are those of the body.

    They are not where no 3-D image knows its affine, nor where one that does not is tracked in:
    what else there is has been made of it. Without images streamlines say it, as their files do.
    """
    layers = list(layers)
    images = [layer for layer in layers if isinstance(layer, Image) and layer.ndim >= 3]
    if not images:
        grids = [layer.reference or layer.tractogram.grid for layer in _streamlines(layers)]
        return not grids or any(grid is None or grid.is_anatomical for grid in grids)
    bare = [layer for layer in images if not says_sides(layer)]
    is_tracked_in = any(SETTINGS_KEY in layer.metadata for layer in bare)
    return not bare or (len(bare) < len(images) and not is_tracked_in)


def _streamlines(layers: Iterable[Layer]) -> list[Streamlines]:
    return [layer for layer in layers if isinstance(layer, Streamlines)]


def axes_of(layers: Iterable[Layer]) -> tuple[str, ...]:
    """Return what the axes of layers are called, R, A, S or x, y, z."""
    return positions.AXES if is_anatomical(layers) else positions.BARE_AXES


def name_axes(layers: Iterable[Layer]) -> None:
    """Call the axes of the layers that are ours, and of an image that is tracked in, what they are.

    The sliders of napari say it.
    """
    layers = list(layers)
    labels = axes_of(layers)[::-1]
    for layer in layers:
        now = tuple(layer.axis_labels)
        is_ours = now in (AXIS_LABELS, positions.BARE_AXES[::-1]) or SETTINGS_KEY in layer.metadata
        if is_ours and now != labels:
            layer.axis_labels = labels


def draw_label(
    painter: QPainter,
    middle: QPointF,
    letter: str,
    scale: float = 1.0,
    *,
    colour: QColor | str = LABEL_COLOUR,
    outline: QColor | str | None = OUTLINE_COLOUR,
) -> None:
    """Draw a letter, or none, with a dark outline, which is seen on any background.

    `middle` is in pixels; at the scale 1 it is as high as on the canvas; None leaves the outline
    out.
    """
    font = QFont()
    font.setBold(True)
    font.setPixelSize(max(round(LABEL_PIXELS * scale), 1))
    shape = QPainterPath()
    shape.addText(0, 0, font, letter)
    shape.translate(middle - shape.boundingRect().center())
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if outline is not None:
        pen = QPen(QColor(outline), OUTLINE_FRACTION * font.pixelSize())
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.strokePath(shape, pen)
    painter.fillPath(shape, QColor(colour))


def draw_labels(
    painter: QPainter,
    letters: Mapping[str, str],
    size: Sequence[int],
    margin: float,
    scale: float,
    **look: Any,
) -> None:
    """Draw the letters of :func:`edge_labels` into a picture, (width, height) pixels.

    Their middles are so far from its edges; see :func:`draw_label`.
    """
    width, height = size
    x = {"left": margin, "right": width - margin}
    y = {"top": margin, "bottom": height - margin}
    for edge, letter in letters.items():
        middle = QPointF(x.get(edge, width / 2), y.get(edge, height / 2))
        draw_label(painter, middle, letter, scale, **look)


class _Label(QLabel):  # type: ignore[misc]
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setStyleSheet("background: transparent;")
        self.resize(LABEL_PIXELS + 4, LABEL_PIXELS + 4)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        draw_label(painter, QRectF(self.rect()).center(), self.text())
        painter.end()


class OrientationLabels(QObject):  # type: ignore[misc]
    """The labels at the edges of a native canvas, kept up to date.

    They change together with the view, before anything is drawn: a timer would wait until the
    canvas has no more to draw, which takes seconds where drawing is slow.
    """

    def __init__(self, viewer: Any, canvas: QWidget) -> None:
        super().__init__(canvas)
        self.viewer = viewer
        self.canvas = canvas
        self.labels = {edge: _Label(canvas) for edge in EDGES}
        dims, camera, layers = viewer.dims.events, viewer.scene.camera.events, viewer.layers.events
        events = [dims.order, dims.ndisplay, dims.ndim, camera.angles, camera.orientation]
        events += [layers.inserted, layers.removed]
        self._listening = Listening(*((event, self.update) for event in events))
        self._listening.open()
        canvas.installEventFilter(self)
        self._place()
        self.update()

    def close(self) -> None:
        self._listening.close()
        self.canvas.removeEventFilter(self)
        for label in self.labels.values():
            label.deleteLater()
        self.labels = {}

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Show):
            self._place()
        return False

    def update(self, _event: Any = None) -> None:
        letters = edge_labels(self.viewer)
        for edge, label in self.labels.items():
            label.setText(letters[edge])

    def _place(self) -> None:
        """Put the labels at the edges, in front of the canvas."""
        width, height = self.canvas.width(), self.canvas.height()
        for edge, label in self.labels.items():
            w, h = label.width(), label.height()
            x = {"left": MARGIN, "right": width - w - MARGIN}.get(edge, (width - w) // 2)
            y = {"top": MARGIN, "bottom": height - h - MARGIN}.get(edge, (height - h) // 2)
            label.move(x, y)
            label.show()
            label.raise_()
