"""Orientation labels: R, L, A, P, S, I at the edges of the canvas and of screenshots.

Volumes are shown with axes (z, y, x) that increase to superior, anterior and right, see
:mod:`.display`. Called by the View section of the panel and by the screenshots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from qtpy.QtCore import QEvent, QObject, QPointF, QRectF, Qt, QTimer
from qtpy.QtGui import QColor, QFont, QPainter, QPainterPath, QPaintEvent, QPen
from qtpy.QtWidgets import QLabel, QWidget

LETTERS = (("I", "S"), ("P", "A"), ("L", "R"))  # where z, y, x decrease and increase
SHARE = 0.35  # of the screen: an axis that runs less along an edge gives it no letter
MARGIN = 6
LETTER_COLOUR, EDGE_COLOUR = "#ffd166", "#202020"
LABEL_PIXELS = 16
EDGE_SHARE = 0.22  # of the height of a letter: its dark edge, seen on white too


def edge_labels(viewer: Any) -> dict[str, str]:
    """Return which side of the body each edge of the canvas looks to.

    Returns
    -------
    dict of {"left", "right", "top", "bottom"} to one of R, L, A, P, S, I or "".
    """
    if viewer.dims.ndim < 3:  # nothing is open yet
        return dict.fromkeys(("left", "right", "top", "bottom"), "")
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
    letters = {}
    for low, high, direction in (("bottom", "top", top), ("left", "right", side)):
        largest = int(np.abs(direction).argmax())
        axis = shown[largest]
        strong = abs(direction[largest]) > SHARE
        ahead = direction[largest] > 0
        letters[high] = LETTERS[axis][int(ahead)] if strong else ""
        letters[low] = LETTERS[axis][int(not ahead)] if strong else ""
    return letters


def draw_label(painter: QPainter, middle: QPointF, letter: str, scale: float = 1.0) -> None:
    """Draw a letter around a point, with a dark edge, so that it is seen on any ground."""
    font = QFont()
    font.setBold(True)
    font.setPixelSize(round(LABEL_PIXELS * scale))
    shape = QPainterPath()
    shape.addText(0, 0, font, letter)
    shape.translate(middle - shape.boundingRect().center())
    edge = QPen(QColor(EDGE_COLOUR), EDGE_SHARE * font.pixelSize())
    edge.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.strokePath(shape, edge)
    painter.fillPath(shape, QColor(LETTER_COLOUR))


class _Letter(QLabel):  # type: ignore[misc]
    """One letter on the canvas."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setStyleSheet("background: transparent;")
        self.resize(LABEL_PIXELS + 4, LABEL_PIXELS + 4)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Draw the letter."""
        painter = QPainter(self)
        draw_label(painter, QRectF(self.rect()).center(), self.text())
        painter.end()


class OrientationLabels(QObject):  # type: ignore[misc]
    """The letters at the edges of a canvas, kept up to date.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel
    canvas : QWidget
        The native canvas that they lie on.
    """

    def __init__(self, viewer: Any, canvas: QWidget) -> None:
        super().__init__(canvas)
        self.viewer = viewer
        self.canvas = canvas
        self.labels = {}
        for edge in ("left", "right", "top", "bottom"):
            self.labels[edge] = _Letter(canvas)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self.update)
        self._events = (
            viewer.dims.events.order,
            viewer.dims.events.ndisplay,
            viewer.dims.events.ndim,
            viewer.scene.camera.events.angles,
            viewer.scene.camera.events.orientation,
        )
        for event in self._events:
            event.connect(self._schedule)
        canvas.installEventFilter(self)
        self.update()

    def close(self) -> None:
        """Take the letters away."""
        self._later.stop()
        for event in self._events:
            event.disconnect(self._schedule)
        self.canvas.removeEventFilter(self)
        for label in self.labels.values():
            label.deleteLater()
        self.labels = {}

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Follow the size of the canvas."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Show):
            self._later.start()
        return False

    def _schedule(self, _event: Any = None) -> None:
        self._later.start()

    def update(self) -> None:
        """Write the letters and put them at the edges."""
        letters = edge_labels(self.viewer)
        width, height = self.canvas.width(), self.canvas.height()
        for edge, label in self.labels.items():
            label.setText(letters[edge])
            w, h = label.width(), label.height()
            x = {"left": MARGIN, "right": width - w - MARGIN}.get(edge, (width - w) // 2)
            y = {"top": MARGIN, "bottom": height - h - MARGIN}.get(edge, (height - h) // 2)
            label.move(x, y)
            label.show()
            label.raise_()
