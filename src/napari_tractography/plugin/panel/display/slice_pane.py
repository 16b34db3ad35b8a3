"""One of the slices beside 3-D: what lies in it, the crosshair, and what the mouse does there.

Painted by Qt from the layers themselves: no layer is copied and no second canvas is needed. Made
by :class:`.four_up.FourUp`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Points, Vectors
from napari.utils.theme import get_theme
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QEvent, QPointF, QRectF, Qt
from qtpy.QtGui import (
    QColor,
    QImage,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QWheelEvent,
)
from qtpy.QtWidgets import QSizePolicy, QWidget

from ....errors import InvalidGridError
from ...layers.glyphs import Glyphs
from ...layers.slice_pictures import SlicePictures, coloured
from ...session.seed_mouse import CLICK_PIXELS, SeedMouse
from ...session.session import Session
from ...space.display import display_space_of_layer
from ...space.orientation_labels import AXES, LETTERS, MARGIN, axes_of, draw_label, is_anatomical
from ...space.positions import position_text
from ...space.views import ORDERS
from ...streamlines.layer import Streamlines
from .ruler import COLOUR as RULER
from .ruler import Ruler


class SharedView:
    """The crosshair is the position of the viewer's sliders; planes in 3-D meet in it as well."""

    moved = Signal()  # the slices lie otherwise in their panes

    def __init__(self, session: Session, mouse: SeedMouse, ruler: Ruler) -> None:
        self.session, self.viewer = session, session.viewer
        self.mouse, self.ruler = mouse, ruler
        self.pictures: SlicePictures | None = None  # of the volume that is shown
        self.centre = np.zeros(3)  # of the panes, display (z, y, x)
        self.zoom = 1.0
        self.box = np.zeros((2, 3))  # what is fitted into the panes, display (z, y, x)
        self.scale = 1.0  # pixels for a unit of the display, the same in all panes

    @property
    def background(self) -> QColor:
        return QColor(get_theme(self.viewer.theme).canvas.as_hex())

    @property
    def crosshair(self) -> NDArray[np.float64]:
        """Its position, display (z, y, x), a copy."""
        return np.zeros(3) if self._is_flat else np.array(self.viewer.dims.point[-3:], dtype=float)

    @property
    def _is_flat(self) -> bool:
        """Whether nothing is open: napari has two axes then."""
        return bool(self.viewer.dims.ndim < 3)

    @property
    def slices(self) -> NDArray[np.float64]:
        """(3, 3) float64: first and last slice and their distance, of the axes (z, y, x)."""
        if self._is_flat:
            return np.tile([0.0, 1.0, 1.0], (3, 1))
        return np.array(self.viewer.dims.range, dtype=float)[-3:]

    def move_to(self, zyx: NDArray[np.float64]) -> None:
        """Move the crosshair to a display position, as far as there are slices."""
        if self._is_flat:
            return
        first, last, _ = self.slices.T
        n = self.viewer.dims.ndim
        self.viewer.dims.set_point(range(n - 3, n), tuple(np.clip(zyx, first, last)))
        space, axes = self.session.space, axes_of(self.viewer.layers)
        self.viewer.status = position_text(space.to_world(self.crosshair)[0], space.unit, axes)

    def step(self, axis: int, n: int) -> None:
        place = self.crosshair
        place[axis] += n * self.slices[axis, 2]
        self.move_to(place)

    def zoom_by(self, factor: float) -> None:
        """Enlarge the slices around the crosshair; no longer enlarged, they are in the middle."""
        self.zoom = float(np.clip(factor * self.zoom, 1.0, 20.0))
        self.centre = self.box.mean(axis=0) if self.zoom == 1 else self.crosshair
        self.moved.emit()

    def shift(self, by: NDArray[np.float64]) -> None:
        self.centre = self.centre + by
        self.moved.emit()


BRUSHES = ("paint", "erase")  # modes of a labels layer
FAINT = 90  # of 255: the opacity of what does not lie in the slice
GAP = 7  # pixels around what the crosshair points at
FINER = 2  # times as many pixels, along each side, of streamlines as of the pane: smooth ones
LEAST_SEED = 4.0  # pixels, the radius
Keys = Qt.KeyboardModifier


class SlicePane(QWidget):  # type: ignore[misc]
    """The slice through the crosshair across one axis."""

    def __init__(self, shared: SharedView, name: str) -> None:
        super().__init__()
        self.shared = shared
        self.across, self.up, self.along = ORDERS[name]  # of the axes (z, y, x)
        self._picture = QPixmap()
        self._drawn: tuple[float, ...] = ()  # of which slice, how it lies and how large it is
        self._pressed: QPointF | None = None
        self._grabbed: tuple[Points, int] | None = None  # a seed, or a sphere
        self._grabbed_at = np.zeros(3)  # from the mouse to its middle
        self._is_drag = False
        self._painted: Labels | None = None  # in the stroke under way
        self._mouse_at = QPointF(-1e6, -1e6)
        self.setMouseTracking(True)  # the brush is seen before it paints
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setAccessibleName(f"{name} slice")
        self.setToolTip(
            "Click: the crosshair. Shift-click: a seed; Ctrl-Shift-click: a sphere; drag one to "
            "move it, Ctrl-click removes it. Wheel: the next slice; Ctrl and wheel: zoom; right "
            "button: move the picture. With the brush of a region, or the ruler, drags paint or "
            "measure."
        )

    # Where things are.

    def pixel_of(self, zyx: Any) -> QPointF:
        """Return where a display position is drawn."""
        right, down = self._pixels(np.asarray(zyx, float)[[self.along, self.up]])
        return QPointF(float(right), float(down))

    def _pixels(self, along_up: NDArray[np.floating]) -> NDArray[np.floating]:
        """(2, ...) of pixels, to the right and down, of (..., 2) positions along and up."""
        centre = self.shared.centre[[self.along, self.up]]
        right, up = np.moveaxis(self.shared.scale * (along_up - centre), -1, 0)
        return np.stack([self.width() / 2 + right, self.height() / 2 - up])

    def position_at(self, pixel: QPointF) -> NDArray[np.float64]:
        """Return the display position, (z, y, x), that is drawn at a pixel."""
        found, scale = self.shared.crosshair, self.shared.scale
        centre = self.shared.centre
        found[self.along] = centre[self.along] + (pixel.x() - self.width() / 2) / scale
        found[self.up] = centre[self.up] - (pixel.y() - self.height() / 2) / scale
        return found

    # Painting.

    def render_slice(self, is_stale: bool) -> None:
        """Paint the slice anew, where it is another one or lies otherwise, and the crosshair."""
        shared, before = self.shared, self._drawn
        place = float(shared.crosshair[self.across])
        self._drawn = (place, shared.scale, *shared.centre, self.width(), self.height())
        self.update()
        if not is_stale and self._drawn == before:
            return
        self._picture = QPixmap(self.size())
        self._picture.fill(self.shared.background)
        painter = QPainter(self._picture)
        try:
            self._paint(painter)
        finally:  # Qt does not outlive a painter whose picture goes
            painter.end()

    def _paint(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        smooth, pictures = QPainter.RenderHint.SmoothPixmapTransform, self.shared.pictures
        painter.setRenderHint(smooth)
        source = None if pictures is None else pictures.source
        if pictures is not None:
            self._draw_slice(painter, source, pictures.of)
        shown = [layer for layer in self.shared.viewer.layers if layer.visible]
        volumes = [x for x in shown if isinstance(x, (Image, Labels)) and x.ndim == 3]
        for layer in volumes:
            if layer is not source:
                painter.setRenderHint(smooth, on=isinstance(layer, Image))
                self._draw_slice(painter, layer, partial(_slice_of, layer))
        painter.setRenderHint(smooth)
        for layer in shown:
            if isinstance(layer, Streamlines) and layer.n_shown:
                painter.drawImage(self.rect(), _image(self._lines(layer)))
            elif isinstance(layer, Glyphs):
                picture = layer.glyphs.cut(self.along, self.up, self._places())
                painter.drawImage(self.rect(), _image(picture))
            elif isinstance(layer, Vectors) and layer.ndim == 3 and len(layer.data):
                painter.drawImage(self.rect(), _image(self._vectors(layer)))
        for layer, _, pixel, radius in self._points():
            is_seed = layer is self.shared.session.seeds.layer
            colour = QColor(str(layer.current_face_color)[:7] if is_seed else layer.colour)
            painter.setPen(QPen(QColor("#202020") if is_seed else colour, 1.5))
            colour.setAlpha(255 if is_seed else 50)
            painter.setBrush(colour)
            painter.drawEllipse(pixel, radius, radius)

    def _draw_slice(self, painter: QPainter, layer: Any, picture_of: Any) -> None:
        if layer.multiscale:
            return
        try:
            space = display_space_of_layer(layer)
        except InvalidGridError:
            return
        size, first = np.array(space.scale), np.array(space.translate)
        index = round(float((self.shared.crosshair - first)[self.across] / size[self.across]))
        if not 0 <= index < layer.data.shape[self.across]:
            return
        picture = picture_of(self.across, index)  # rows are up, from below
        rows, columns = picture.shape[:2]
        ends = np.array([first - size / 2, first - size / 2])
        ends[1] += size * layer.data.shape[:3]
        (left, right), (bottom, top) = self._pixels(ends[:, [self.along, self.up]])
        if size[self.up] > 0:
            picture = picture[::-1]
        if size[self.along] < 0:
            picture = picture[:, ::-1]
        box = QRectF(QPointF(left, top), QPointF(right, bottom)).normalized()
        painter.drawImage(box, _image(picture), QRectF(0, 0, columns, rows))

    def _lines(self, layer: Streamlines) -> NDArray[np.uint8]:
        """Return the streamlines near the slice, fading with the distance, RGBA of the pane."""
        pieces = layer.pieces_near(self.across, float(self.shared.crosshair[self.across]))
        nearness = 1 - pieces.distance.reshape(-1, 2).mean(axis=1) / (layer.slab / 2)
        rgba = pieces.rgba[::2].copy()
        rgba[:, 3] *= layer.opacity * nearness.clip(0, 1)
        # The nearest pieces come last.
        return self._drawn_lines(pieces.xyz[:, ::-1].reshape(-1, 2, 3), rgba)

    def _vectors(self, layer: Vectors) -> NDArray[np.uint8]:
        """Return the vectors that begin in the slice, such as peaks, RGBA of the pane."""
        size, first = np.array(layer.scale), np.array(layer.translate)
        start, way = layer.data[:, 0], layer.data[:, 1] * layer.length
        middle = (start + way / 2)[:, self.across] * size[self.across] + first[self.across]
        away = np.abs(middle - self.shared.crosshair[self.across])
        inside = np.flatnonzero(away <= abs(size[self.across]) / 2)
        ends = np.stack([start[inside], start[inside] + way[inside]], axis=1) * size + first
        rgba = np.array(layer.edge_color[inside], np.float32)
        rgba[:, 3] *= layer.opacity
        return self._drawn_lines(ends, rgba)

    def _places(self) -> NDArray[np.float64]:
        """Return where the pixels of the pane are, (rows, columns, 3) display (z, y, x)."""
        shared, places = self.shared, np.empty((self.height(), self.width(), 3))
        columns, rows = np.arange(self.width()) + 0.5, np.arange(self.height()) + 0.5
        places[..., self.across] = shared.crosshair[self.across]
        aside = (columns - self.width() / 2) / shared.scale
        above = (self.height() / 2 - rows) / shared.scale
        places[..., self.along] = shared.centre[self.along] + aside
        places[..., self.up] = (shared.centre[self.up] + above)[:, None]
        return places

    def _drawn_lines(
        self, zyx: NDArray[np.floating], rgba: NDArray[np.floating]
    ) -> NDArray[np.uint8]:
        """Draw straight pieces, (n, 2, 3) display (z, y, x), the last on top, RGBA of the pane."""
        picture = np.zeros((FINER * self.height(), FINER * self.width(), 4), np.uint8)
        if not len(zyx):
            return picture
        ends = FINER * self._pixels(zyx[..., [self.along, self.up]])
        ways = ends[..., 1] - ends[..., 0]
        counts = np.ceil(np.abs(ways).max(axis=0)).clip(1, picture.shape[1]).astype(int)
        piece = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
        along = (nth + np.float32(0.5)) / counts[piece]
        columns, rows = (ends[:, piece, 0] + along * ways[:, piece]).astype(int)
        seen = (rows >= 0) & (rows < len(picture)) & (columns >= 0) & (columns < picture.shape[1])
        picture[rows[seen], columns[seen]] = np.rint(255 * rgba).astype(np.uint8)[piece[seen]]
        return _thicker(picture)

    def _points(self) -> list[tuple[Any, int, QPointF, float]]:
        """Return the seeds and spheres that the slice cuts: layer, number, pixel, pixels."""
        session, found = self.shared.session, []
        seeds = [] if session.seeds.layer is None else [session.seeds.layer]
        for layer in (*reversed(session.regions.spheres), *seeds):
            if not layer.visible or not len(layer.data):
                continue
            places = layer.data * layer.scale + layer.translate
            radii = np.broadcast_to(layer.size, len(places)) * abs(layer.scale[0]) / 2
            aside = (places - self.shared.crosshair)[:, self.across]
            for number in np.flatnonzero(np.abs(aside) < radii):
                radius = self.shared.scale * float(np.sqrt(radii[number] ** 2 - aside[number] ** 2))
                least = LEAST_SEED if layer in seeds else 1.0
                pixel = self.pixel_of(places[number])
                found.append((layer, int(number), pixel, max(radius, least)))
        return found

    def _draw_crosshair(self, painter: QPainter) -> None:
        painter.setPen(QPen(QColor(255, 209, 102, 170), 1))
        at, width, height = self.pixel_of(self.shared.crosshair), self.width(), self.height()
        x, y = at.x(), at.y()
        for one, other in (
            ((0, y), (x - GAP, y)), ((x + GAP, y), (width, y)),
            ((x, 0), (x, y - GAP)), ((x, y + GAP), (x, height)),
        ):  # fmt: skip
            painter.drawLine(QPointF(*one), QPointF(*other))

    def _draw_letters(self, painter: QPainter) -> None:
        names = LETTERS if is_anatomical(self.shared.viewer.layers) else AXES
        middle, edge = QRectF(self.rect()).center(), MARGIN + 10
        (left, right), (bottom, top) = names[self.along], names[self.up]
        for letter, x, y in (
            (left, edge, middle.y()), (right, self.width() - edge, middle.y()),
            (top, middle.x(), edge), (bottom, middle.x(), self.height() - edge),
        ):  # fmt: skip
            draw_label(painter, QPointF(x, y), letter)

    def _draw_ruler(self, painter: QPainter) -> None:
        """Draw the ruler, paler where it does not lie in the slice."""
        ruler = self.shared.ruler
        if ruler.layer is None:
            return
        colour = QColor(RULER)
        aside = np.abs(ruler.layer.ends - self.shared.crosshair)[:, self.across].max()
        if aside > self.shared.slices[self.across, 2] / 2:
            colour.setAlpha(FAINT)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        start, end = (self.pixel_of(place) for place in ruler.layer.ends)
        painter.setPen(QPen(colour, 2))
        painter.drawLine(start, end)
        for place in (start, end):
            painter.drawEllipse(place, 3.0, 3.0)
        painter.drawText((start + end) / 2 + QPointF(8, -6), ruler.text)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        try:
            painter.drawPixmap(0, 0, self._picture)
            self._draw_crosshair(painter)
            self._draw_letters(painter)
            self._draw_ruler(painter)
            self._draw_brush(painter)
        finally:
            painter.end()

    def resizeEvent(self, _event: QEvent) -> None:  # noqa: N802 - Qt's name
        self.shared.moved.emit()

    # The mouse.

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Grab a seed, place one, or move the crosshair."""
        self._pressed, self._is_drag, self._grabbed = event.position(), False, None
        if event.button() != Qt.MouseButton.LeftButton:
            return
        keys = event.modifiers()
        if keys == Keys.NoModifier and self.shared.ruler.is_on:
            return
        self._painted = self._brush if keys == Keys.NoModifier else None
        if self._painted is not None:
            self._mouse_at = event.position()
            self.shared.session.regions.begin_stroke(self._painted)
            self._paint_along(event.position(), event.position())
            return
        if keys in (Keys.NoModifier, Keys.ControlModifier):
            self._grab(event.position())
        if self._grabbed is None and keys == Keys.NoModifier:
            self.shared.move_to(self.position_at(event.position()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Drag what was grabbed, the crosshair or the picture; paint where there is a brush."""
        before, self._mouse_at = self._mouse_at, event.position()
        if self._brush is not None:
            self.update()
        if self._pressed is None:
            return
        if self._painted is not None:
            self._paint_along(before, event.position())
            return
        moved = event.position() - self._pressed
        self._is_drag = self._is_drag or max(abs(moved.x()), abs(moved.y())) > CLICK_PIXELS
        if event.buttons() & Qt.MouseButton.RightButton:
            self.shared.shift(self.position_at(self._pressed) - self.position_at(event.position()))
            self._pressed = event.position()
        elif (
            not event.buttons() & Qt.MouseButton.LeftButton or event.modifiers() != Keys.NoModifier
        ):
            return
        elif self.shared.ruler.is_on:
            start, end = (self.position_at(at) for at in (self._pressed, event.position()))
            self.shared.ruler.show(start, end)
        elif self._grabbed is None:
            self.shared.move_to(self.position_at(event.position()))
        elif self._is_drag:
            self._move_grabbed(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        """Let go; a click with Shift places a seed, with Ctrl and Shift a sphere."""
        grabbed, self._grabbed, self._pressed = self._grabbed, None, None
        painted, self._painted = self._painted, None
        session, keys = self.shared.session, event.modifiers()
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if painted is not None:
            session.regions.end_stroke(painted)
        elif grabbed is not None and self._is_drag:
            if session.document.is_held:
                session.released.emit()
        elif grabbed is not None and keys == Keys.ControlModifier:
            self.shared.mouse.remove(*grabbed)
        elif grabbed is not None:
            self.shared.move_to(self.position_at(event.position()))
        elif not self._is_drag and keys in (
            Keys.ShiftModifier,
            Keys.ShiftModifier | Keys.ControlModifier,
        ):
            add = self.shared.mouse.add_seed
            if keys != Keys.ShiftModifier:
                add = self.shared.mouse.add_sphere
            add(self.position_at(event.position()))

    def leaveEvent(self, _event: QEvent) -> None:  # noqa: N802 - Qt's name
        self._mouse_at = QPointF(-1e6, -1e6)
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802 - Qt's name
        """Go to the next slice, or zoom."""
        turns = event.angleDelta().y() / 120
        if event.modifiers() == Keys.ControlModifier:
            self.shared.zoom_by(1.2**turns)
        elif turns:
            self.shared.step(self.across, 1 if turns > 0 else -1)
        event.accept()

    # The brush.

    @property
    def _brush(self) -> Labels | None:
        """The region that the mouse paints, or erases; None where it does neither."""
        layer = self.shared.session.regions.painted_layer
        return layer if layer is not None and layer.mode in BRUSHES else None

    def _paint_along(self, start: QPointF, end: QPointF) -> None:
        """Paint, or erase, a disc of the slice along a way of the mouse."""
        layer = self._painted
        assert layer is not None
        size, first = np.array(layer.scale), np.array(layer.translate)
        ways = [self.position_at(pixel) for pixel in (start, end)]
        begin, stop = (np.asarray((place - first) / size) for place in ways)
        n = 1 + int(2 * np.abs(stop - begin).max())
        in_slice = [axis for axis in range(3) if axis != self.across]
        radius = layer.brush_size / 2
        reach = np.arange(-np.ceil(radius), np.ceil(radius) + 1)
        disc = np.stack(np.meshgrid(reach, reach), axis=-1).reshape(-1, 2)
        centres = np.linspace(begin, stop, n)[:, in_slice]
        voxels = np.rint(centres)[:, None] + disc
        near = np.linalg.norm(voxels - centres[:, None], axis=-1) <= radius
        painted = np.unique(voxels[near].astype(int), axis=0)
        whole = np.insert(painted, self.across, round(float(begin[self.across])), axis=1)
        inside = ((whole >= 0) & (whole < layer.data.shape)).all(axis=1)
        if inside.any():
            label = layer.selected_label if layer.mode == "paint" else 0
            layer.data_setitem(tuple(whole[inside].T), label)

    def _draw_brush(self, painter: QPainter) -> None:
        layer = self._brush
        if layer is not None and self.rect().contains(self._mouse_at.toPoint()):
            size = np.abs(layer.scale) * self.shared.scale * layer.brush_size / 2
            painter.setPen(QPen(QColor(255, 255, 255, 200), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(self._mouse_at, float(size[self.along]), float(size[self.up]))

    def _grab(self, pixel: QPointF) -> None:
        for layer, number, middle, radius in reversed(self._points()):
            away = middle - pixel
            if np.hypot(away.x(), away.y()) <= radius:
                self._grabbed = layer, number
                place = layer.data[number] * layer.scale + layer.translate
                self._grabbed_at = place - self.position_at(pixel)
                return

    def _move_grabbed(self, pixel: QPointF) -> None:
        assert self._grabbed is not None
        session, (layer, number) = self.shared.session, self._grabbed
        if not session.owns(layer) or number >= len(layer.data):
            self._grabbed = None  # removed meanwhile
            session.document.release()
            return
        session.document.hold()
        session.move_point(layer, number, self.position_at(pixel) + self._grabbed_at)


def _slice_of(layer: Image | Labels, axis: int, index: int) -> NDArray[np.uint8]:
    """Return the slice of a layer as it colours it, RGBA."""
    values = np.asarray(np.take(layer.data, index, axis=axis))
    if isinstance(layer, Labels):
        rgba = np.asarray(np.rint(255 * np.array(layer.colormap.map(values))), dtype=np.uint8)
    else:
        rgba = coloured(layer, values)
    rgba[..., 3] = np.rint(rgba[..., 3] * layer.opacity)
    return rgba


def _thicker(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return lines of one pixel, RGBA, three pixels wide; where there is something it stays."""
    for axis in (0, 1):
        for way in (1, -1):
            beside = np.roll(picture, way, axis=axis)
            picture = np.where(picture[..., 3:] == 0, beside, picture)
    return picture


def _image(rgba: NDArray[np.uint8]) -> QImage:
    rows, columns = rgba.shape[:2]
    whole = np.ascontiguousarray(rgba)
    return QImage(whole.data, columns, rows, 4 * columns, QImage.Format.Format_RGBA8888).copy()
