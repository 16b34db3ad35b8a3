"""Outlines of painted regions in 3-D, in front of streamlines."""

from __future__ import annotations

import numpy as np

from napari_tractography import Tractogram
from napari_tractography.plugin.layers.region_entries import ROLE_COLOURS
from napari_tractography.plugin.panel.display.region_outlines import NAME
from napari_tractography.plugin.space.views import SPACE
from napari_tractography.plugin.streamlines.layer import Streamlines


def paint(panel, role="include", first=(3, 8, 12), n=4):
    """Paint a cube of voxels, at once, in the view that there is; return the entry."""
    ndisplay = panel.viewer.dims.ndisplay
    entry = panel.session.regions.add_painting(role)
    panel.session.regions.stop_painting()
    panel.viewer.dims.ndisplay = ndisplay
    box = np.indices((n, n, n)).reshape(3, -1) + np.array(first)[:, None]
    entry.layer.data_setitem(tuple(box), 1)
    return entry


def outlines(panel):
    panel.scene.outlines.update()
    return [layer for layer in panel.viewer.layers if layer.name == NAME]


def extent(layer):
    return np.array([layer.data[0].min(axis=0), layer.data[0].max(axis=0)])


def test_they_are_there_in_3d_and_follow_what_is_painted(open_model, cross):
    panel = open_model(cross)
    entry = paint(panel)
    assert not outlines(panel)
    panel.viewer.dims.ndisplay = 3
    assert panel.scene.outlines.update_later.isActive()
    (layer,) = outlines(panel)
    space = panel.session.space
    size, first = np.array(space.scale), np.array(space.translate)
    wanted = first + size * np.array([[2.5, 7.5, 11.5], [6.5, 11.5, 15.5]])
    np.testing.assert_allclose(extent(layer), wanted, atol=0.35 * size.max())
    colour = np.round(255 * layer.vertex_colors[0, :3]).astype(int)
    assert "#{:02x}{:02x}{:02x}".format(*colour) == ROLE_COLOURS["include"]
    entry.layer.data_setitem((np.array([7]), np.array([9]), np.array([13])), 1)
    assert panel.scene.outlines.update_later.isActive()
    (layer,) = outlines(panel)
    assert extent(layer)[1, 0] > wanted[1, 0] + 0.5 * size[0]
    n = len(layer.data[0])
    other = paint(panel, "exclude", first=(3, 2, 2))
    (layer,) = outlines(panel)
    assert len(layer.data[0]) > n
    assert len(np.unique(layer.vertex_colors, axis=0)) == 2
    other.layer.visible = False
    (layer,) = outlines(panel)
    assert len(layer.data[0]) == n
    range_before = panel.viewer.dims.range
    panel.session.regions.remove(entry)
    assert not outlines(panel)
    assert panel.viewer.dims.range == range_before
    other.layer.visible = True
    assert len(outlines(panel)) == 1
    panel.viewer.dims.ndisplay = 2
    assert not outlines(panel)


def test_they_stay_above_streamlines_that_come_later(open_model, cross, settle):
    panel = open_model(cross)
    paint(panel)
    panel.viewer.dims.ndisplay = 3
    (layer,) = outlines(panel)
    panel.scene.slices.box.setChecked(False)
    panel.scene.slices.box.setChecked(True)
    layers = panel.viewer.layers
    assert layers.index(layer) > layers.index(panel.scene.slices.planes.layer)
    panel.session.add_seeds_mm([[-12.0, 6, 0]])
    panel.run()
    settle(panel)
    assert layers.index(layer) > layers.index(panel.session.streamlines_layer)
    assert layers.index(layer) < layers.index(panel.session.seeds.layer)


def test_they_go_with_the_panel_and_with_the_bundle(open_model, cross):
    panel = open_model(cross)
    panel.viewer.dims.ndisplay = 3
    paint(panel)
    assert len(outlines(panel)) == 1
    first = panel.bundles.active
    panel.bundles.add()
    assert not outlines(panel)
    panel.bundles.activate(first)
    assert len(outlines(panel)) == 1
    panel.close_session()
    assert NAME not in panel.viewer.layers


def test_they_are_seen_in_front_of_streamlines(open_window, cross):
    panel = open_window(cross)
    viewer = panel.viewer
    panel.scene.slices.box.setChecked(False)
    entry = paint(panel)
    size, first = np.array(entry.layer.scale), np.array(entry.layer.translate)
    middle = first + size * (np.array([3, 8, 12]) + 1.5)
    # A wall of lines on all sides of the region.
    spread = np.linspace(-9, 9, 61)
    lines = [
        np.stack([middle[::-1] + np.roll([a, side, b], k) for b in spread])
        for k in range(3) for side in (-8, 8) for a in spread
    ]  # fmt: skip
    layer = Streamlines(Tractogram.from_streamlines(lines), space=panel.session.space)
    first_bundle = panel.bundles.active
    viewer.add_layer(layer)
    panel.bundles.activate(first_bundle)
    layer.colour = (1.0, 1.0, 1.0, 1.0)
    panel.session.fod_layer.visible = False
    for order in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        panel.scene.show_view(SPACE)
        viewer.dims.order = order
        viewer.reset_view()
        viewer.scene.camera.zoom *= 2
        (outline,) = outlines(panel)
        shown = viewer.screenshot(flash=False)[..., :3].astype(int)
        outline.visible = False
        bare = viewer.screenshot(flash=False)[..., :3].astype(int)
        green = (shown[..., 1] > 120) & (shown[..., 0] < 110) & (shown[..., 2] < 130)
        assert green.sum() > 200  # the rim, whole
        assert not ((bare[..., 1] > 120) & (bare[..., 0] < 110) & (bare[..., 2] < 130)).any()
        changed = np.argwhere(np.abs(shown - bare).max(axis=2) > 8)
        rim = np.argwhere(green)
        np.testing.assert_allclose(rim.min(axis=0), changed.min(axis=0), atol=4)  # around the tint
        np.testing.assert_allclose(rim.max(axis=0), changed.max(axis=0), atol=4)
        panel.scene.show_view("axial")  # before they are taken away
        viewer.screenshot(flash=False)
        assert not outlines(panel)
