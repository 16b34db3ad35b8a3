"""Three planes in 3-D: where they are, what they show, and what they hide."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Points

from napari_tractography import Tractogram
from napari_tractography.plugin.layers.on_volume import SeedPoints
from napari_tractography.plugin.layers.planes import WITHIN_KEY, SlicePlanes
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.streamlines.layer import Streamlines

SHAPE = (4, 6, 8)  # z, y, x


@pytest.fixture
def shown():
    """A viewer in 3-D with a volume of 2 mm voxels, brighter to the right, and its planes."""
    viewer = ViewerModel()
    data = np.broadcast_to(np.arange(1.0, 9.0, dtype=np.float32), SHAPE).copy()
    data[:, 0, :] = 0  # around the body
    volume = Image(
        data,
        name="T1",
        scale=(2, 2, 2),
        units=DisplaySpace.identity().units,
        contrast_limits=(0, 8),
    )
    viewer.add_layer(volume)
    viewer.add_layer(SeedPoints(np.zeros((1, 3)), name="Seeds", units=("mm",) * 3))
    viewer.add_layer(Streamlines(Tractogram.from_streamlines([np.eye(2, 3)])))
    viewer.dims.ndisplay = 3
    planes = SlicePlanes(viewer, volume)
    yield viewer, volume, planes
    planes.close()


def places(planes):
    """Where the three rectangles are on their axes, voxels."""
    vertices = np.asarray(planes.layer.vertices).reshape(3, 4, 3)
    return tuple(float(vertices[axis, 0, axis]) for axis in range(3))


def test_planes_lie_at_the_slices_below_seeds_and_streamlines_in_place_of_the_volume(shown):
    viewer, volume, planes = shown
    names = [layer.name for layer in viewer.layers]
    assert names == ["T1", "Slices of T1", "Seeds", "Streamlines"]
    assert not volume.visible
    viewer.dims.set_point(2, 6.0)
    viewer.dims.set_point(0, 4.0)
    planes.update.flush()
    assert planes.indices == (2, planes.indices[1], 3)
    assert places(planes) == planes.indices
    viewer.dims.ndisplay = 2
    assert volume.visible
    assert not planes.layer.visible


def test_planes_have_the_colours_of_the_volume_and_nothing_around_the_body(shown):
    _, volume, planes = shown
    picture = planes.pictures.of(0, 1)
    np.testing.assert_allclose(picture[3, :, 0], 255 * np.arange(1, 9) / 8, atol=1)
    assert (picture[1:, :, 3] == 255).all()
    assert not picture[0, :, 3].any()
    before = planes.layer.texture
    volume.colormap = "red"
    planes.update.flush()
    assert np.abs(planes.layer.texture.astype(int) - before).max() > 100
    assert planes.layer.texture[..., 1].max() < 3


def test_a_plane_is_dragged_with_ctrl_and_seeds_under_the_mouse_go_first(shown):
    viewer, _, planes = shown
    sight = np.array([-0.6, 0.0, 0.8])
    planes.update.flush()
    start = np.array([9.0, 6.0, -2.0])
    found = planes.hit(start, sight)
    assert found is not None
    axis, place = found
    assert axis in (0, 2)
    assert place[axis] == pytest.approx(2.0 * planes.indices[axis])

    def event(kind, position, handled=False):
        return SimpleNamespace(
            type=kind, position=position, view_direction=sight, modifiers=("Control",),
            handled=handled,
        )  # fmt: skip

    assert list(planes._drag_callback(viewer, event("mouse_press", start, handled=True))) == []
    press = event("mouse_press", start)
    drag = planes._drag_callback(viewer, press)
    next(drag)
    assert press.handled
    before = viewer.dims.point[axis]
    across = np.eye(3)[axis] - sight[axis] * sight  # in the plane of the screen
    press.type, press.position = "mouse_move", start + 2.0 * across
    next(drag)
    assert viewer.dims.point[axis] == pytest.approx(before + 2.0)
    press.type = "mouse_release"
    assert list(drag) == []


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1)])
def test_corners_of_planes_land_where_those_of_the_volume_do_in_any_order_of_axes(shown, order):
    viewer, volume, planes = shown
    viewer.dims.order = order

    def drawn(corners, layer):  # as napari's canvas places what it is given
        # Not by what the layer was sliced for last: the volume is hidden.
        return layer._transforms.simplified.set_slice(order)(corners)

    vertices = drawn(planes.layer._view_vertices, planes.layer)
    ends = np.array([(-0.5,) * 3, np.array(SHAPE) - 0.5])[:, order]
    np.testing.assert_allclose(
        [vertices.min(axis=0), vertices.max(axis=0)], drawn(ends, volume), atol=1e-5
    )


def test_no_other_volume_veils_the_slices_but_maps_that_are_made_to_be_seen_within(shown):
    viewer, volume, planes = shown
    units = {"units": DisplaySpace.identity().units}
    other = Image(np.ones(SHAPE, np.float32), name="FA", **units)
    unseen = Image(np.ones(SHAPE, np.float32), name="B0", visible=False, **units)
    density = Image(np.ones(SHAPE, np.float32), metadata={WITHIN_KEY: True}, **units)
    for layer in (other, unseen, density):
        viewer.add_layer(layer)
    assert [layer.visible for layer in (other, unseen, density)] == [False, False, True]
    viewer.dims.ndisplay = 2
    assert [layer.visible for layer in (volume, other, unseen)] == [True, True, False]
    other.visible = False  # by a person
    viewer.dims.ndisplay = 3
    assert not volume.visible
    planes.close()
    assert [layer.visible for layer in (volume, other, unseen)] == [True, False, False]


def test_what_goes_takes_the_planes_along_and_shows_the_volume(shown):
    viewer, volume, planes = shown
    viewer.layers.remove(planes.layer)
    assert volume.visible
    again = SlicePlanes(viewer, volume)
    assert not volume.visible
    viewer.layers.remove(volume)
    assert again.layer not in viewer.layers
    viewer.add_layer(Points(np.zeros((1, 3))))
    viewer.dims.set_point(0, 2.0)  # nobody listens


def test_planes_have_the_units_of_the_volume_also_where_it_has_none():
    """Else napari warns of inconsistent units, and draws without."""
    viewer = ViewerModel()
    volume = viewer.add_image(np.ones(SHAPE, np.float32))
    viewer.dims.ndisplay = 3
    planes = SlicePlanes(viewer, volume)
    assert viewer.layers.extent.units == volume.units
    assert str(volume.units[0]) == "pixel"
    volume.units = ("mm",) * 3  # said later
    assert viewer.layers.extent.units == planes.layer.units == volume.units
    planes.close()
    volume.units = ("um",) * 3
    assert planes.layer.units != volume.units


def test_colours_are_shown_as_they_are():
    viewer = ViewerModel()
    rgb = np.zeros((*SHAPE, 3), np.uint8)
    rgb[1:3, 1:5, 1:7] = (200, 100, 0)
    volume = Image(rgb, rgb=True, units=DisplaySpace.identity().units)
    viewer.add_layer(volume)
    planes = SlicePlanes(viewer, volume)
    picture = planes.pictures.of(0, 1)
    np.testing.assert_array_equal(picture[2, 3], (200, 100, 0, 255))
    assert picture[0, 0, 3] == 0
    planes.close()
