"""The mouse is where things are drawn, however the camera is turned, whatever napari says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hands import Mouse
from napari.components import ViewerModel

from napari_tractography.plugin.space import pointing
from napari_tractography.plugin.space.views import keep_oriented

POINT = (3.0, 6.0, 15.0)  # of a volume of 10 x 24 x 32
SIZE = np.array((600, 800))  # of the canvas of a viewer without a window


def test_the_cursor_is_where_a_point_is_drawn(make_napari_viewer: Any) -> None:
    """vispy, which draws it, says where."""
    viewer = make_napari_viewer(show=True)
    viewer.add_image(np.zeros((10, 24, 32)))
    viewer.dims.set_point(0, POINT[0])
    camera = viewer.scene.camera
    pointing.point_truly(viewer)
    orientations = product(("away", "towards"), ("up", "down"), ("left", "right"))
    for turned, orientation in product([(2, 0.0), (3, 0.0), (3, 40.0)], list(orientations)):
        viewer.dims.ndisplay = turned[0]
        camera.orientation = orientation
        viewer.reset_view()
        camera.angles = (turned[1], turned[1] / 2, 2 * turned[1])
        camera.center = POINT  # where the plane of the mouse goes through
        mouse = Mouse(viewer)
        for step in ((0, 0, 0), (0, 2, 5)) if turned[0] == 2 else ((0, 0, 0),):
            mouse.hover(np.add(POINT, step))
            np.testing.assert_allclose(viewer.cursor.position, np.add(POINT, step), atol=0.05)
        # Beside it in 3-D, on the plane that faces the eye.
        beside = np.array(POINT) + 4.0 * np.array(camera.up_direction)
        if turned[0] == 3:
            mouse.hover(beside)
            np.testing.assert_allclose(viewer.cursor.position, beside, atol=0.05)


def test_the_tools_of_napari_work_where_the_mouse_is(make_napari_viewer: Any) -> None:
    viewer = make_napari_viewer(show=True)
    volume = viewer.add_image(np.zeros((10, 24, 32)))
    keep_oriented(viewer)
    viewer.dims.set_point(0, POINT[0])
    labels = viewer.add_labels(np.zeros(volume.data.shape, np.uint8))
    labels.mode, labels.brush_size = "paint", 1
    Mouse(viewer).click(POINT)
    np.testing.assert_array_equal(np.argwhere(labels.data), [POINT])
    points = viewer.add_points(ndim=3)
    points.mode = "add"
    Mouse(viewer).click(POINT)
    np.testing.assert_allclose(points.data, [POINT], atol=0.1)
    # What is read of a large image is what is seen.
    viewer.scene.camera.center, viewer.scene.camera.zoom = POINT, 200
    viewer.screenshot(flash=False)
    low, high = volume.corner_pixels[:, 1:]
    assert (low <= POINT[1:]).all()
    assert (high >= POINT[1:]).all()
    assert (high - low < 12).all()


def blind(viewer: Any, pixel: Any, viewbox: Any = None) -> np.ndarray:
    """What napari 0.10.0rc1 makes of a pixel (row, column) where the camera is not rotated."""
    camera, shown = viewer.scene.camera, list(viewer.dims.displayed)
    position = np.array(viewer.dims.point, float)
    position[shown[-2:]] = (np.array(pixel) - SIZE / 2) / camera.zoom + camera.center[-2:]
    return position


def seeing(viewer: Any, pixel: Any, viewbox: Any = None) -> np.ndarray:
    """The same, put right for the orientations that are asked for here."""
    camera = viewer.scene.camera
    vertical, horizontal = map(str, camera.orientation2d)
    row, column = pixel
    rows, columns = SIZE
    mirrored = rows - row if vertical == "up" else row, columns - column
    return blind(viewer, mirrored if horizontal == "left" else (mirrored[0], column))


@pytest.fixture
def of_napari(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def become(method: Any) -> None:
        monkeypatch.setattr(ViewerModel, pointing.METHOD, method, raising=False)
        pointing.heeds_orientation.cache_clear()

    yield become
    pointing.heeds_orientation.cache_clear()


@pytest.mark.parametrize(("method", "is_right"), [(blind, False), (seeing, True)])
def test_what_napari_says_is_put_right_where_it_is_wrong(
    of_napari: Any, method: Any, is_right: bool
) -> None:
    of_napari(method)
    assert {pointing.heeds_orientation(2), pointing.heeds_orientation(3)} == {is_right}
    viewer = ViewerModel()
    viewer.add_points(np.array([[0, 0, 0], [9, 23, 31]]))
    keep_oriented(viewer)
    assert (pointing.METHOD in vars(viewer)) != is_right
    camera = viewer.scene.camera
    for order in ((0, 1, 2), (1, 0, 2)):
        viewer.dims.order = order
        camera.zoom, camera.center = 10.0, (0.0, 12.0, 16.0)
        # Up is more, and to the right is more: the pixel of a corner of the view.
        corner = viewer.canvas_to_world((0, 800))[list(viewer.dims.displayed)]
        np.testing.assert_allclose(corner, [42.0, 56.0])
    viewer.model_dump()  # with what is not a field


def test_where_napari_is_right_in_slices_alone_it_is_put_right_in_3d(of_napari: Any) -> None:
    def half(viewer: Any, pixel: Any, viewbox: Any = None) -> np.ndarray:
        return (seeing if viewer.dims.ndisplay == 2 else blind)(viewer, pixel)

    of_napari(half)
    viewer = ViewerModel()
    viewer.add_points(np.array([[0, 0, 0], [9, 23, 31]]))
    keep_oriented(viewer)
    for ndisplay in (2, 3):
        viewer.dims.ndisplay = ndisplay
        camera = viewer.scene.camera
        camera.zoom, camera.center, camera.angles = 10.0, (0.0, 12.0, 16.0), (0, 0, 0)
        np.testing.assert_allclose(viewer.canvas_to_world((0, 800))[1:], [42.0, 56.0])


def test_an_older_napari_asks_vispy_and_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, of_napari: Any
) -> None:
    of_napari(blind)
    monkeypatch.delattr(ViewerModel, pointing.METHOD)
    assert pointing.heeds_orientation(2)
    assert pointing.heeds_orientation(3)
    viewer = ViewerModel()
    keep_oriented(viewer)
    assert not hasattr(viewer, pointing.METHOD)
