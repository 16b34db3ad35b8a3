"""Standard views: where 3-D looks from at first, what it is fitted to, and the right way round."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image

from napari_tractography import Tractogram
from napari_tractography.plugin.layers.planes import SlicePlanes
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.orientation_labels import edge_labels
from napari_tractography.plugin.space.views import ORDERS, keep_oriented, show_view, turn_first
from napari_tractography.plugin.streamlines.layer import Streamlines

BODY = slice(20, 40)  # of a volume of 60 voxels


def viewer_with_a_body():
    """A small body in the middle of a large volume, bright on the edge alone."""
    viewer = ViewerModel()
    data = np.zeros((60, 60, 60), np.float32)
    data[BODY, BODY, BODY] = 1
    data[22:38, 22:38, 22:38] = 0
    units = DisplaySpace.identity().units
    volume = Image(data, units=units, contrast_limits=(0, 1), metadata={"affine": np.eye(4)})
    viewer.add_layer(volume)
    keep_oriented(viewer)
    return viewer, volume


def pixels(viewer, points_zyx):
    """Where points are drawn, (n, 2), from the middle of the canvas, up and aside."""
    camera = viewer.scene.camera
    up, forward = np.array(camera.up_direction), np.array(camera.view_direction)
    relative = np.asarray(points_zyx, float)[:, list(viewer.dims.displayed)] - camera.center
    return camera.zoom * relative @ np.stack([up, np.cross(up, forward)]).T


@pytest.mark.parametrize("order", list(ORDERS.values()))
def test_3d_is_first_seen_in_three_quarters_in_any_order_of_axes(order):
    viewer, _ = viewer_with_a_body()
    viewer.dims.order = order
    viewer.dims.ndisplay = 3
    turn_first(viewer)
    assert edge_labels(viewer) == {"top": "S", "bottom": "I", "left": "R", "right": "L"}
    camera, turned = viewer.scene.camera, viewer.scene.camera.angles
    turn_first(viewer)
    assert camera.angles == turned
    camera.angles = (10, 20, 30)
    turn_first(viewer)
    np.testing.assert_allclose(camera.angles, (10, 20, 30))  # a person turned it


def test_3d_is_fitted_to_the_body_and_to_streamlines_that_leave_it():
    viewer, volume = viewer_with_a_body()
    show_view(viewer, "3-D")
    whole = viewer.scene.camera.zoom
    planes = SlicePlanes(viewer, volume)
    show_view(viewer, "3-D")
    assert viewer.scene.camera.zoom > 2 * whole
    half = np.array(viewer.canvas.size) / 2
    reach = np.abs(pixels(viewer, planes.seen_points())).max(axis=0) / half
    assert 0.85 < reach.max() < 1
    ends = np.array([[29.0, 29, 29], [29, 29, 58]], np.float32)  # x, y, z
    viewer.add_layer(Streamlines(Tractogram.from_streamlines([ends])))
    assert (np.abs(pixels(viewer, ends[:, ::-1])) > half).any()
    show_view(viewer, "3-D")
    assert (np.abs(pixels(viewer, ends[:, ::-1])) < half).all()
    planes.close()
    whole = viewer.scene.camera.zoom
    show_view(viewer, "3-D")
    assert viewer.scene.camera.zoom < whole  # the volume itself
    volume.visible = False
    show_view(viewer, "3-D")
    reach = np.abs(pixels(viewer, ends[:, ::-1])).max(axis=0) / half
    assert 0.85 < reach.max() < 1


def test_a_viewer_that_is_kept_oriented_stays_so():
    viewer, _ = viewer_with_a_body()
    assert [str(x.value) for x in viewer.scene.camera.orientation] == ["towards", "up", "right"]
    viewer.dims.order = (1, 0, 2)  # which mirrors
    assert str(viewer.scene.camera.orientation[0].value) == "away"
