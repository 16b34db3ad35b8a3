"""A slab of the streamlines in 3-D: where it is on the screen, and the controls of it."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from hands import Mouse, is_let_go

from napari_tractography.errors import InvalidParameterError
from napari_tractography.plugin.streamlines.clipping import AXES, NO_CLIP
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.streamlines.tractogram import Tractogram


def star() -> Tractogram:
    """Three streamlines of 40 mm through the origin, along x, y and z; each takes its colour."""
    ends = np.linspace(-20, 20, 41)[:, None]
    return Tractogram.from_streamlines([ends * axis for axis in np.eye(3)])


def show_star(panel):
    """Show the star in an oblique 3-D view; the volume is hidden."""
    panel.session.ensure_streamlines_layer().tractogram = star()
    viewer = panel.viewer
    viewer.layers[0].visible = False
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    viewer.scene.camera.angles = (20, 30, 40)
    return panel


@pytest.fixture
def panel(open_window, cross):
    return show_star(open_window(cross))


@pytest.fixture
def model(open_model, cross):
    """A panel without a window, where nothing is drawn."""
    return show_star(open_model(cross))


def are_drawn(panel, places) -> list[bool]:
    """Whether there is colour at each display position."""
    mouse, image = Mouse(panel.viewer), panel.viewer.screenshot(flash=False)
    pixels = [mouse.where(place) for place in places]
    corners = [(round(pixel.y()) - 2, round(pixel.x()) - 2) for pixel in pixels]
    return [bool(image[y : y + 5, x : x + 5, :3].max() > 60) for y, x in corners]


def is_drawn(panel, zyx) -> bool:
    """Whether there is colour at a display position."""
    return are_drawn(panel, [zyx])[0]


def test_the_slab_lies_across_its_axis_in_any_order_of_axes(panel):
    layer, viewer = panel.session.streamlines_layer, panel.viewer
    layer.slab_mm = 8.0
    places = [(axis, at) for axis in range(3) for at in (-15.0, -4.0, 2.0, 15.0)]
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0)):
        viewer.dims.order = order
        layer.clip_at_mm = 3.0
        for clip, across in AXES.items():
            layer.clip = clip
            inside = [-1 < (at if axis == across else 0.0) < 7 for axis, at in places]
            drawn = are_drawn(panel, [at * np.eye(3)[axis] for axis, at in places])
            assert drawn == inside, (order, clip)
            layer.clip = NO_CLIP
            assert is_drawn(panel, 15 * np.eye(3)[across])


def test_what_is_selected_is_clipped_as_the_rest(panel):
    layer = panel.session.streamlines_layer
    layer.slab_mm, layer.clip, layer.selected = 8.0, "axial", [0, 2]
    assert is_drawn(panel, (0.0, 0.0, 15.0))
    assert not is_drawn(panel, (15.0, 0.0, 0.0))


def test_what_is_clipped_away_cannot_be_picked(model):
    layer = model.session.streamlines_layer
    where = {"view_direction": (0, 0, -1.0), "dims_displayed": [0, 1, 2], "world": True}
    position = (15.0, 0.0, 30.0)  # on the line along z, seen along x
    assert layer.get_value(position, **where) == 2
    layer.slab_mm, layer.clip = 8.0, "axial"
    assert layer.get_value(position, **where) is None
    layer.clip_at_mm = 14.0
    assert layer.get_value(position, **where) == 2


def test_a_slice_in_2d_is_not_clipped(panel):
    layer, viewer = panel.session.streamlines_layer, panel.viewer
    layer.clip, layer.slab_mm = "sagittal", 4.0
    viewer.dims.ndisplay = 2
    viewer.reset_view()
    viewer.dims.set_point(0, 0.0)
    assert is_drawn(panel, (0.0, 0.0, 12.0))
    viewer.dims.ndisplay = 3
    assert not is_drawn(panel, (0.0, 0.0, 15.0))


def test_the_controls_follow_the_slice_and_move_it(panel):
    layer, viewer, clip = panel.session.streamlines_layer, panel.viewer, panel.appearance.clip
    assert not clip.position.native.isEnabled()
    clip.choice.value = "coronal"
    assert layer.clip == "coronal"
    assert clip.position.native.isEnabled()
    viewer.dims.set_point(1, 6.0)
    at = viewer.dims.point[1]
    assert layer.clip_at_mm == at
    clip.position.slider.setValue(clip.position.slider.value() + 2)
    assert viewer.dims.point[1] == pytest.approx(at + 2 * viewer.dims.range[1].step)
    assert layer.clip_at_mm == viewer.dims.point[1]
    slab = next(control for control in panel.appearance.controls if control.name == "slab_mm")
    slab.value = 9.0
    assert [p.enabled for p in layer.experimental_clipping_planes] == [True, True]
    first, second = (p.position[1] for p in layer.experimental_clipping_planes)
    assert (second - first, (first + second) / 2) == pytest.approx((9.0, layer.clip_at_mm))
    clip.choice.value = NO_CLIP
    assert len(layer.experimental_clipping_planes) == 0


def test_a_layer_made_anew_is_clipped_too(model):
    model.appearance.clip.choice.value = "axial"
    model.viewer.layers.remove(model.session.streamlines_layer)
    assert model.session.ensure_streamlines_layer().clip == "axial"


def test_planes_of_others_stay():
    layer = Streamlines(star())
    layer.experimental_clipping_planes = [{"position": (0, 0, 0), "normal": (1, 0, 0)}]
    layer.clip = "axial"
    assert len(layer.experimental_clipping_planes) == 3
    layer.clip = NO_CLIP
    assert len(layer.experimental_clipping_planes) == 1
    with pytest.raises(InvalidParameterError, match="oblique"):
        layer.clip = "oblique"


def test_a_clipped_layer_is_let_go_of(model):
    model.appearance.clip.choice.value = "axial"
    gone = weakref.ref(model.session.streamlines_layer)
    model.viewer.layers.remove(model.session.streamlines_layer)
    model.session.document.forget()  # undo would bring it back
    model.viewer.dims.set_point(0, 2.0)
    assert is_let_go(gone)
    model.close_session()
    point = model.viewer.dims.point[0]
    model.viewer.dims.set_point(0, point + 2.0)
    assert model.appearance.clip.position.text.text() == f"S {point:.1f}"
