"""Pictures of the canvas: any scale shows the same, and what is behind can be left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from napari_tractography import Tractogram
from napari_tractography.errors import FileError
from napari_tractography.plugin.export.screenshots import (
    LARGEST_SIDE,
    canvas_picture,
    save_screenshot,
)
from napari_tractography.plugin.streamlines.layer import Streamlines

RED = (1.0, 0.0, 0.0, 1.0)


@pytest.fixture
def viewer(make_napari_viewer: Any, qtbot: Any) -> Any:
    """One thick red line from left to right through an empty canvas."""
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(700, 500)
    line = Tractogram.from_streamlines([[(-20, 0, 0), (20, 0, 0)]])
    layer = Streamlines(line, width=6.0, slab_mm=50.0)
    layer.colour = RED
    viewer.add_layer(layer)
    qtbot.wait(50)
    viewer.reset_view()
    viewer.scene.camera.zoom = 4.0
    qtbot.wait(50)
    return viewer


def extent_of_red(picture: np.ndarray) -> np.ndarray:
    """First and last column and row of what is red, and how many rows it is thick."""
    red = (picture[..., 0] > 150) & (picture[..., 1] < 80) & (picture[..., 3] > 150)
    columns, rows = np.flatnonzero(red.any(axis=0)), np.flatnonzero(red.any(axis=1))
    return np.array([columns[0], columns[-1] + 1, rows[0], rows[-1] + 1])


@pytest.mark.parametrize(("ndisplay", "width"), [(2, 6), (2, 15), (3, 6), (3, 15)])
def test_a_larger_scale_shows_the_same_with_more_pixels(
    viewer: Any, ndisplay: int, width: float, qtbot: Any
) -> None:
    viewer.dims.ndisplay = ndisplay
    viewer.layers[0].width = width
    qtbot.wait(50)
    layer, camera = viewer.layers[0], viewer.scene.camera
    before = (layer.width, camera.zoom, tuple(viewer.canvas.size))
    plain = canvas_picture(viewer)
    large = canvas_picture(viewer, scale=3)
    assert large.shape[:2] == (3 * plain.shape[0], 3 * plain.shape[1])
    np.testing.assert_allclose(extent_of_red(large) / 3, extent_of_red(plain), atol=1.5)
    assert (layer.width, camera.zoom, tuple(viewer.canvas.size)) == before
    np.testing.assert_array_equal(canvas_picture(viewer), plain)


def test_a_transparent_picture_looks_the_same_on_the_background_it_was_taken_on(
    viewer: Any,
) -> None:
    viewer.layers[0].opacity = 0.5
    plain = canvas_picture(viewer).astype(float)
    clear = canvas_picture(viewer, transparent=True).astype(float)
    alpha = clear[..., 3:] / 255
    assert (alpha == 0).mean() > 0.5
    assert alpha.max() == pytest.approx(0.5, abs=0.02)
    ground = plain[2, 2, :3]
    np.testing.assert_allclose(
        clear[..., :3] * alpha + ground * (1 - alpha), plain[..., :3], atol=3
    )
    assert viewer.canvas.background_color_override is None


def test_letters_stand_at_the_edges_and_nowhere_else(viewer: Any) -> None:
    plain = canvas_picture(viewer, scale=2).astype(int)
    lettered = canvas_picture(viewer, scale=2, letters=True).astype(int)
    changed = np.abs(lettered - plain).sum(axis=2) > 0
    height, width = changed.shape
    assert changed[:60, width // 3 : -width // 3].any()  # A
    assert changed[-60:, width // 3 : -width // 3].any()  # P
    assert changed[height // 3 : -height // 3, :60].any()  # L
    assert changed[height // 3 : -height // 3, -60:].any()  # R
    assert not changed[60:-60, 60:-60].any()


def test_a_picture_that_no_card_can_draw_is_refused(viewer: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is too large; choose a smaller scale"):
        save_screenshot(viewer, tmp_path / "huge.png", scale=LARGEST_SIDE)
    assert not list(tmp_path.glob("*.png"))
