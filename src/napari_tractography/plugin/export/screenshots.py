"""Screenshots of the canvas at any scale, with or without its background."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qtpy.QtGui import QImage, QPainter
from superqt.utils import qimage_to_array

from ...errors import FileError
from ...files.paths import check_writable, written_whole
from ..layers.glyphs import Glyphs
from ..main_window import main_window
from ..space.orientation_labels import LABEL_PIXELS, MARGIN, draw_labels, edge_labels
from ..streamlines.layer import Streamlines

LARGEST_SIDE = 16_384  # pixels: what most graphics cards can draw


def save_screenshot(
    viewer: Any,
    path: str | Path,
    *,
    scale: float = 1.0,
    canvas_only: bool = True,
    transparent: bool = False,
    letters: bool = False,
) -> None:
    """Write what a viewer shows as PNG, whole or not at all.

    `scale` is pixels a screen pixel, of the canvas alone, and streamlines get as much wider.
    `canvas_only` leaves out the window around the canvas, `transparent` the background, too;
    letters at the edges tell which side of the body they look to.

    Raises FileError when the ending is another, the picture would be too large or the file cannot
    be written.
    """
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise FileError(f"{target.name} does not end in .png; pictures are saved as PNG.")
    check_writable(target)
    picture = (
        canvas_picture(viewer, scale=scale, transparent=transparent, letters=letters)
        if canvas_only
        else viewer.screenshot(canvas_only=False, flash=False)
    )
    with written_whole(target) as temporary:
        if not _qt_image(picture).save(str(temporary), "PNG"):
            raise FileError(f"{target.name} cannot be written; is the disk full?")


def canvas_picture(
    viewer: Any, *, scale: float = 1.0, transparent: bool = False, letters: bool = False
) -> NDArray[np.uint8]:
    """Return what the canvas shows, (height, width, 4) uint8; see :func:`save_screenshot`."""
    size = [round(scale * n) for n in viewer.canvas.size]
    if max(size) > LARGEST_SIDE:
        raise FileError(
            f"A picture of {size[1]} x {size[0]} pixels is too large; choose a smaller scale or "
            "make the window smaller."
        )
    with enlarged(viewer, scale):
        if transparent:
            picture = _seen_through(*(_on(viewer, ground, scale) for ground in ("black", "white")))
        else:
            picture = drawn(viewer, viewer.canvas.size, scale)
    return lettered(picture, edge_labels(viewer), scale) if letters else picture


def _seen_through(
    on_black: NDArray[np.float32], on_white: NDArray[np.float32]
) -> NDArray[np.uint8]:
    # A pixel is as transparent as it differs between a black and a white background.
    alpha = np.clip(255 - (on_white - on_black).mean(axis=2), 0, 255)
    picture = np.empty((*alpha.shape, 4), np.uint8)
    rgb = on_black * (255 / np.maximum(alpha, 1))[..., None]
    picture[..., :3] = np.clip(np.rint(rgb), 0, 255)
    picture[..., 3] = np.rint(alpha)
    return picture


def _on(viewer: Any, colour: str, scale: float) -> NDArray[np.float32]:
    with on_background(viewer, colour):
        picture = drawn(viewer, viewer.canvas.size, scale)
    return np.asarray(picture[..., :3], dtype=np.float32)


@contextlib.contextmanager
def on_background(viewer: Any, colour: str | None) -> Iterator[None]:
    """Draw on a background of a colour; None is the one of the screen."""
    before = viewer.canvas.background_color_override
    viewer.canvas.background_color_override = colour or before
    try:
        yield
    finally:
        viewer.canvas.background_color_override = before


def drawn(viewer: Any, size: Sequence[int], scale: float) -> NDArray[np.uint8]:
    """Return the picture of a canvas of a size, in pixels of the screen, times `scale`.

    By its size, since napari's own scale enlarges the zoom from 0.10 on, as :func:`enlarged` does.
    """
    window = main_window(viewer)
    ratio = 1.0 if window is None else float(window.devicePixelRatio())
    pixels = tuple(int(scale * n) * ratio for n in size)
    return np.array(viewer.screenshot(canvas_only=True, flash=False, size=pixels, scale=1))


def lettered(
    picture: NDArray[np.uint8], letters: dict[str, str], scale: float
) -> NDArray[np.uint8]:
    """Return an RGB or RGBA picture as RGBA, with letters of :func:`.sides.edge_labels` on it."""
    image = _qt_image(picture)
    painter = QPainter(image)
    margin = (MARGIN + LABEL_PIXELS / 2) * scale
    draw_labels(painter, letters, picture.shape[1::-1], margin, scale)
    painter.end()
    return np.asarray(qimage_to_array(image), dtype=np.uint8)


def _qt_image(picture: NDArray[np.uint8]) -> QImage:
    """Return an RGB or RGBA picture as one of Qt's, which owns its pixels."""
    height, width = picture.shape[:2]
    opaque = np.full((height, width, 1), 255, np.uint8)
    data = np.concatenate([picture, opaque], axis=2)[..., :4].tobytes()
    return QImage(data, width, height, 4 * width, QImage.Format.Format_RGBA8888).copy()


@contextlib.contextmanager
def enlarged(viewer: Any, scale: float) -> Iterator[None]:
    """Enlarge what is measured in pixels, which napari's scale leaves as it is: zoom and lines.

    Lines are drawn wider, and keep the width that a person chose: a change of that is a step.
    """
    camera = viewer.scene.camera
    zoom = camera.zoom
    layers = [layer for layer in viewer.layers if isinstance(layer, Streamlines | Glyphs)]
    try:
        if scale != 1:
            for layer in layers:
                layer.enlarged_by = scale
            camera.zoom = zoom * scale
        for layer in layers:
            if isinstance(layer, Glyphs):
                layer.glyphs.finish()
        yield
    finally:
        for layer in layers:
            layer.enlarged_by = 1.0
        camera.zoom = zoom
