"""Films by napari-animation: a streamlines layer looks in each key frame as it did there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
from hands import lie_still

from napari_tractography import Tractogram
from napari_tractography.plugin.streamlines.layer import Streamlines

napari_animation = pytest.importorskip(
    "napari_animation", reason="napari-animation is not installed"
)
# It asks napari for names that are deprecated since 0.9.
pytestmark = pytest.mark.filterwarnings("ignore:viewer.camera is a deprecated attribute")
STEPS = 2
RED, BLUE = np.array([1.0, 0, 0]), np.array([0, 0, 1.0])  # along x and along z


@pytest.fixture
def viewer(make_napari_viewer: Any) -> Any:
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(700, 500)
    viewer.dims.ndisplay = 3
    return viewer


def two_bundles() -> Tractogram:
    """Lines of 40 mm along x at y = -10, and of 20 mm along z at y = 10."""
    along = np.linspace(-1.0, 1.0, 30)[:, None]
    lines = []
    for offset in np.linspace(-4.0, 4.0, 9):
        lines.append(along * [20.0, 0, 0] + [0, -10.0, offset])
        lines.append(along * [0, 0, 10.0] + [offset, 10.0, 0])
    return Tractogram.from_streamlines(lines)


def canvas(viewer: Any) -> np.ndarray:
    return viewer.screenshot(canvas_only=True, flash=False)


def film(viewer: Any, states: list[Any], path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return what is seen when key frames are taken, and the frames of the film."""
    animation = napari_animation.Animation(viewer)
    seen = []
    for state in states:
        state()
        lie_still(viewer.window._qt_window)
        seen.append(canvas(viewer))
        animation.capture_keyframe(steps=STEPS)
    animation.animate(path)  # without an ending: pictures in a folder
    return seen, [imageio.imread(p) for p in sorted(path.glob("*.png"))]


def share_of(picture: np.ndarray, colour: np.ndarray) -> float:
    """Return which part of the pixels has this hue."""
    bright = picture[..., :3].max(axis=-1) > 40
    hue = picture[..., :3] / np.maximum(picture[..., :3].max(axis=-1, keepdims=True), 1)
    return float((bright & (np.abs(hue - colour).max(axis=-1) < 0.1)).mean())


def test_a_film_keeps_colours(viewer: Any, tmp_path: Path) -> None:
    layer = viewer.add_layer(Streamlines(two_bundles(), width=4.0, name="bundles"))
    layer.lit = False  # light and fog would change colours with the view
    viewer.reset_view()

    def turn_to(*angles: float) -> None:
        viewer.scene.camera.angles = angles

    views = [(10.0, 40.0, 80.0), (-20.0, 25.0, 110.0)]
    seen, frames = film(viewer, [partial(turn_to, *view) for view in views], tmp_path / "film")
    assert len(frames) == STEPS + 1
    np.testing.assert_array_equal(frames[0], seen[0])
    np.testing.assert_array_equal(frames[-1], seen[1])
    assert (frames[0] != frames[-1]).any()
    for frame in frames:
        assert share_of(frame, RED) > 0.002
        assert share_of(frame, BLUE) > 0.002


def test_a_key_frame_knows_colouring_and_cut(viewer: Any, tmp_path: Path) -> None:
    layer = viewer.add_layer(Streamlines(two_bundles(), width=4.0, name="bundles"))
    viewer.reset_view()

    def by_direction() -> None:
        layer.clip, layer.clip_at_mm = "sagittal", -10.0

    def by_length() -> None:
        layer.colour_by, layer.colormap = "length", "viridis"
        layer.clip_at_mm, layer.width = 10.0, 8.0

    seen, frames = film(viewer, [by_direction, by_length], tmp_path / "film")
    np.testing.assert_array_equal(frames[0], seen[0])
    np.testing.assert_array_equal(frames[-1], seen[1])
    assert (layer.colour_by, layer.clip_at_mm, layer.width) == ("length", 10.0, 8.0)
