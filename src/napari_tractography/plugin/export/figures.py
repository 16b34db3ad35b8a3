"""Figures for papers: the canvas at a size in centimetres, with legend, scale bar and letters.

Called by the panel and by scripts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from napari.utils.colormaps import ensure_colormap
from numpy.typing import NDArray
from qtpy.QtCore import QPointF, QRectF, Qt
from qtpy.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter
from superqt.utils import qimage_to_array

from ...errors import FileError
from ...files.paths import check_writable, written_whole
from ...geometry.units import MM, symbol
from ...maps.resection import RESEARCH_ONLY
from ...model.specs import parameter
from ..session.resections import RESECTION_KEY
from ..space.display import unit_of_layer
from ..space.orientation_labels import LABEL_PIXELS, draw_labels, edge_labels, is_anatomical
from ..streamlines.colours import Colours
from ..streamlines.layer import Streamlines
from .screenshots import LARGEST_SIDE, canvas_picture, on_background

CM_PER_INCH = 2.54
FONT_POINTS = 8.0
LETTER_POINTS = 9.0
CLEAR = 8  # of 255: what is more transparent is background
BAR_FRACTION = 0.25  # of the picture, that the scale bar may take
GRADIENT_FRACTION = 0.35
GROUNDS = "white", "black"


@dataclass(frozen=True, slots=True)
class Figure:
    """What a figure is to be like; the panel asks for it by the description of each field."""

    width_cm: float = parameter(
        8.5,
        label="Width",
        unit="cm",
        minimum=1.0,
        maximum=100.0,
        increment=0.5,
        help="Width on paper; a column of a journal is about 8.5 cm, a page 17 cm.",
    )
    dpi: float = parameter(
        300.0,
        label="Resolution",
        unit="dpi",
        minimum=30.0,
        maximum=1200.0,
        increment=50.0,
        help="Pixels an inch; journals ask for 300.",
    )
    background: str = parameter(
        "white",
        label="Background",
        choices=(*GROUNDS, "transparent", "as on the screen"),
        help="What is behind everything.",
    )
    crop: bool = parameter(
        True,
        label="Crop to content",
        help="Cut the figure to what is drawn; otherwise it is the whole canvas.",
    )
    letters: bool = parameter(
        True, label="Letters", help="Write R, L, A, P, S, I beside the picture."
    )
    # "#rrggbb"; "" for black or white, whichever is seen.
    letter_colour: str = parameter("", label="Letter colour", help="The colour of the letters.")
    scale_bar: bool = parameter(
        True,
        label="Scale bar",
        help="Draw a bar of so many mm, in slices and in 3-D without perspective.",
    )
    legend: bool = parameter(
        True, label="Legend", help="Say what the colours of the streamlines mean."
    )

    @property
    def width_px(self) -> int:
        return round(self.width_cm / CM_PER_INCH * self.dpi)

    def pixels(self, points: float) -> float:
        """Return typographic points as pixels."""
        return points / 72 * self.dpi


def save_figure(viewer: Any, path: str | Path, figure: Figure) -> None:
    """Write what the canvas shows as a PNG of the size that was asked for, whole or not at all.

    The file says its resolution, so that programs place it at that size. Raises FileError when the
    ending is not .png, nothing is drawn, the picture would be too large, or too narrow for letters,
    or the file cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise FileError(f"{target.name} does not end in .png; figures are saved as PNG.")
    check_writable(target)
    image = _compose(viewer, figure)
    per_metre = round(figure.dpi * 100 / CM_PER_INCH)
    image.setDotsPerMeterX(per_metre)
    image.setDotsPerMeterY(per_metre)
    with written_whole(target) as temporary:
        if not image.save(str(temporary), "PNG"):
            raise FileError(f"{target.name} cannot be written; is the disk full?")


def figure_picture(viewer: Any, figure: Figure) -> NDArray[np.uint8]:
    """Return a figure as (height, width, 4) uint8; see :func:`save_figure`."""
    return np.asarray(qimage_to_array(_compose(viewer, figure)), dtype=np.uint8)


def _compose(viewer: Any, figure: Figure) -> QImage:
    edge = round(1.7 * figure.pixels(LETTER_POINTS)) if figure.letters else 0
    if figure.width_px < 3 * edge:  # the picture would be narrower than what is beside it
        raise FileError(
            f"A figure {figure.width_cm:g} cm wide has no room for a picture between its letters; "
            "choose more cm, or leave the letters out."
        )
    picture, scale = _content(viewer, figure, figure.width_px - 2 * edge)
    height, width = picture.shape[:2]
    ink = _ink(viewer, figure)
    legends, captions = (_legends(viewer), _captions(viewer)) if figure.legend else ([], [])
    bar = _round_length(BAR_FRACTION * width * scale) if figure.scale_bar else 0.0
    strip = _Strip(figure, ink, width, bar, scale, _unit(viewer), legends, captions)
    image = QImage(figure.width_px, height + 2 * edge + strip.height, QImage.Format.Format_ARGB32)
    if figure.background == "transparent":
        image.fill(Qt.GlobalColor.transparent)
    else:
        image.fill(_background(viewer, figure))
    painter = QPainter(image)
    drawn = QImage(picture.data, width, height, 4 * width, QImage.Format.Format_RGBA8888)
    painter.drawImage(edge, edge, drawn)
    if figure.letters:
        draw_labels(
            painter,
            edge_labels(viewer),
            (figure.width_px, height + 2 * edge),
            edge / 2,
            figure.pixels(LETTER_POINTS) / LABEL_PIXELS,
            colour=QColor(figure.letter_colour) if figure.letter_colour else ink,
            outline=None,
        )
    strip.draw(painter, edge, height + 2 * edge)
    painter.end()
    return image


def _content(viewer: Any, figure: Figure, width_px: int) -> tuple[NDArray[np.uint8], float]:
    """Return the picture without what is written around it, and how much of the display a pixel is.

    That is 0 where it differs from place to place.
    """
    rows, columns = canvas_picture(viewer).shape[:2]
    top, bottom, left, right = 0, rows, 0, columns
    if figure.crop:
        alpha = canvas_picture(viewer, transparent=True)[..., 3] > CLEAR
        found_rows, found_columns = np.flatnonzero(alpha.any(1)), np.flatnonzero(alpha.any(0))
        if not len(found_rows):
            raise FileError("Nothing is drawn, so that there is nothing to crop to; open a layer.")
        top, bottom = int(found_rows[0]), int(found_rows[-1]) + 1
        left, right = int(found_columns[0]), int(found_columns[-1]) + 1
    scale = width_px / (right - left)
    if scale * max(rows, columns) > LARGEST_SIDE:
        raise FileError(
            f"A figure of {figure.width_px} pixels across is too large to draw, as only "
            f"{(right - left) / columns:.0%} of the canvas shows something; zoom in, or choose "
            "fewer cm or dpi."
        )
    is_transparent = figure.background == "transparent"
    with on_background(viewer, figure.background if figure.background in GROUNDS else None):
        picture = canvas_picture(viewer, scale=scale, transparent=is_transparent)
    first_row, first_column = round(top * scale), round(left * scale)
    n_rows = max(round((bottom - top) * scale), 1)
    cut = picture[first_row : first_row + n_rows, first_column : first_column + width_px]
    camera = viewer.scene.camera
    has_scale = viewer.dims.ndisplay == 2 or camera.perspective == 0
    return np.ascontiguousarray(cut), 1 / (camera.zoom * scale) if has_scale else 0.0


def _background(viewer: Any, figure: Figure) -> QColor:
    if figure.background in GROUNDS:
        return QColor(figure.background)
    rgb = np.asarray(viewer.canvas.background_color, dtype=float).ravel()
    return QColor.fromRgbF(*(float(value) for value in rgb[:3]))


def _ink(viewer: Any, figure: Figure) -> QColor:
    """Return black or white, whichever is seen; on a page black."""
    if figure.background == "transparent":
        return QColor("black")
    return QColor("black" if _background(viewer, figure).lightnessF() > 0.5 else "white")


def _legends(viewer: Any) -> list[Colours]:
    """Return the colours of the streamlines on the screen that mean something, each once."""
    found: dict[Any, Colours] = {}
    for layer in viewer.layers:
        if isinstance(layer, Streamlines) and layer.visible:
            colours = layer.colours
            if colours.limits is not None or colours.categories:
                key = (colours.label, colours.limits, colours.colormap, colours.categories)
                shown = colours.shown_in(layer.space.unit)
                is_bare = not is_anatomical(viewer.layers)
                found.setdefault(key, shown.along_axes() if is_bare else shown)
    return list(found.values())


def _captions(viewer: Any) -> list[str]:
    """Return what the streamlines on the screen would lose to cavities, in sentences."""
    found = [
        f"{layer.name} {layer.metadata[RESECTION_KEY].text}."
        for layer in viewer.layers
        if isinstance(layer, Streamlines) and layer.visible and RESECTION_KEY in layer.metadata
    ]
    return [*found, RESEARCH_ONLY] if found else []


def _unit(viewer: Any) -> str:
    """Return the unit of what is shown: that of the streamlines, or of any other layer."""
    for layer in viewer.layers:
        if isinstance(layer, Streamlines) and layer.visible:
            return layer.space.unit
    return next(filter(None, map(unit_of_layer, viewer.layers)), MM)


def _round_length(most: float) -> float:
    """Return the largest of 1, 2, 5, 10, ... that is not longer."""
    if most <= 0:
        return 0.0
    power = 10.0 ** np.floor(np.log10(most))
    return float(max(step * power for step in (1, 2, 5) if step * power <= most * 1.0001))


class _Strip:
    """What is written below the picture: the scale bar, a row for each legend, and sentences."""

    def __init__(
        self,
        figure: Figure,
        ink: QColor,
        width: int,
        bar: float,
        scale: float,
        unit: str,
        legends: list[Colours],
        captions: list[str],
    ) -> None:
        self.font = QFont()
        self.font.setPixelSize(max(round(figure.pixels(FONT_POINTS)), 1))
        self.ink, self.width = ink, width
        self.bar_text = f"{bar:g} {symbol(unit)}" if bar else ""
        self.bar_px = bar / scale if scale else 0.0
        self.metrics = QFontMetricsF(self.font)
        self.line = round(1.6 * self.metrics.height())
        self.rows = [row for colours in legends for row in self._rows_of(colours)]
        self.rows += [line for text in captions for line in self._lines_of(text)]
        self.height = self.line * (len(self.rows) + int(bar > 0))

    def _rows_of(self, colours: Colours) -> list[Any]:
        if colours.limits is not None:
            return [colours]
        rows: list[list[tuple[str, Any]]] = [[]]
        used = 0.0
        for name, rgb in colours.categories:
            wide = self.metrics.horizontalAdvance(name) + 2.2 * self.metrics.height()
            if used + wide > self.width and rows[-1]:
                rows.append([])
                used = 0.0
            rows[-1].append((name, rgb))
            used += wide
        return rows

    def _lines_of(self, text: str) -> list[str]:
        """Break a sentence where it would be wider than the picture."""
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.metrics.horizontalAdvance(longer) > self.width:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines

    def draw(self, painter: QPainter, left: int, top: int) -> None:
        """Draw it below `top`, from `left` on."""
        painter.setFont(self.font)
        painter.setPen(self.ink)
        high = self.metrics.height()
        if self.bar_text:
            bar = QRectF(left, top + 0.42 * self.line, self.bar_px, max(high / 8, 1.0))
            painter.fillRect(bar, self.ink)
            corner = QPointF(
                bar.right() + high / 2, top + self.line / 2 + self.metrics.ascent() / 2
            )
            painter.drawText(corner, self.bar_text)
            top += self.line
        for row in self.rows:
            base = top + self.line / 2 + self.metrics.ascent() / 2
            if isinstance(row, Colours):
                self._draw_gradient(painter, row, left, top, base)
            elif isinstance(row, str):
                painter.drawText(QPointF(left, base), row)
            else:
                x = float(left)
                for name, rgb in row:
                    square = QRectF(x, top + (self.line - 0.7 * high) / 2, 0.7 * high, 0.7 * high)
                    painter.fillRect(square, QColor.fromRgbF(*rgb))
                    painter.drawText(QPointF(square.right() + 0.4 * high, base), name)
                    x += self.metrics.horizontalAdvance(name) + 2.2 * high
            top += self.line

    def _draw_gradient(
        self, painter: QPainter, colours: Colours, left: int, top: int, base: float
    ) -> None:
        assert colours.limits is not None
        low, high = (f"{limit:.3g}" for limit in colours.limits)
        tall = self.metrics.height()
        name = f"{colours.label} ({colours.unit})" if colours.unit else colours.label
        x = float(left)
        for text in (name, low):
            painter.drawText(QPointF(x, base), text)
            x += self.metrics.horizontalAdvance(text) + 0.5 * tall
        n = 256
        rgba = ensure_colormap(colours.colormap).map(np.linspace(0, 1, n))
        line = np.ascontiguousarray((255 * rgba).astype(np.uint8))
        picture = QImage(line.data, n, 1, 4 * n, QImage.Format.Format_RGBA8888)
        bar = QRectF(
            x, top + (self.line - 0.6 * tall) / 2, GRADIENT_FRACTION * self.width, 0.6 * tall
        )
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawImage(bar, picture)
        painter.drawText(QPointF(bar.right() + 0.5 * tall, base), high)
