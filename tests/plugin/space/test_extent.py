"""The sliders of the viewer: over what is shown, and left alone while a seed moves within it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import fod_layer
from napari.components import ViewerModel
from napari.layers import Image

from napari_tractography.model.fod import Fod
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.extent import sliders_kept

MIDDLE = np.zeros((1, 3))


def test_a_seed_that_moves_within_the_volume_leaves_the_sliders_alone(
    open_model: Any, cross: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = open_model(cross)
    session, dims = panel.session, panel.viewer.dims
    session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    before, told, worked_out = dims.range, [], []
    dims.events.range.connect(worked_out.append)
    session.seeds.layer.events.data.connect(told.append)
    with monkeypatch.context() as patched:
        patched.setattr(type(panel.viewer), "_on_layers_change", lambda *_: worked_out.append(1))
        session.move_seed(0, session.space.to_display(MIDDLE + 1)[0])
        panel.run()
        settle(panel)
    assert (dims.range, worked_out) == (before, [])
    assert told


def test_another_bundle_within_the_volume_leaves_the_sliders_alone(
    open_model: Any, cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be worked out twice for its seeds, and twice for its regions."""
    panel = open_model(cross)
    session, bundles = panel.session, panel.bundles
    for place in (MIDDLE, MIDDLE + 3):
        if len(session.seeds):
            bundles.add()
        session.add_seeds_mm(place)
        session.regions.add_sphere(place[0], 4.0)
    before, worked_out = panel.viewer.dims.range, []
    with monkeypatch.context() as patched:
        patched.setattr(type(panel.viewer), "_on_layers_change", lambda *_: worked_out.append(1))
        bundles.activate(bundles.bundles[0])
    assert (panel.viewer.dims.range, worked_out) == (before, [])
    np.testing.assert_allclose(session.seeds.positions_mm, MIDDLE, atol=1e-4)
    (sphere,) = session.regions.spheres
    np.testing.assert_allclose(sphere.data, MIDDLE, atol=1e-4)


def test_the_sliders_follow_what_leaves_all_that_is_shown() -> None:
    viewer = ViewerModel()
    viewer.add_image(np.zeros((10, 10, 10)))
    layer = viewer.add_points([[1.0, 2.0, 3.0]])
    with sliders_kept(viewer, layer):
        layer.data = [[1.0, 2.0, 50.0]]
    assert [axis.stop for axis in viewer.dims.range] == [9.0, 9.0, 50.0]
    with sliders_kept(viewer, layer):  # and come back with it
        layer.data = [[1.0, 2.0, 3.0]]
    assert [axis.stop for axis in viewer.dims.range] == [9.0, 9.0, 9.0]


def test_an_fod_that_is_opened_after_seeds_leaves_the_slices_in_view(
    open_window: Any, cross: Any
) -> None:
    panel = open_window()
    viewer = panel.viewer
    viewer.add_layer(map_layer(cross))
    viewer.dims.set_point(range(3), (-4.0, 2.0, 0.0))
    panel.session.add_seeds_mm(MIDDLE)  # without a volume: their steps are of 1 mm
    before = viewer.dims.point
    viewer.add_layer(fod_layer(cross))
    assert np.abs(np.subtract(viewer.dims.point, before)).max() <= 1.0  # half a voxel
    assert panel.session.seeds.positions_mm == pytest.approx(MIDDLE)


def map_layer(fod: Fod) -> Image:
    """A map on the grid of an FOD, such as its FA, that is no FOD itself."""
    values = DisplaySpace.of(fod.grid).volume(np.ones(fod.grid.shape, np.float32))
    return Image(values, **DisplaySpace.of(fod.grid).layer_kwargs)


def test_volumes_that_are_removed_leave_the_slices_in_view(open_window: Any, cross: Any) -> None:
    """The sliders of a window keep their numbers, which counted the slices of that volume."""
    panel = open_window(cross)
    layers, dims = panel.viewer.layers, panel.viewer.dims
    before = (3.0, 5.0, -7.0)
    for scale, n in ((0.5, 100), (10.0, 20)):
        other = Image(np.zeros((n, n, n)), scale=(scale,) * 3, translate=(-25,) * 3)
        other.units = layers[0].units
        layers.append(other)
        dims.set_point(range(3), before)
        layers.remove(other)
        assert dims.point == pytest.approx(before, abs=1.0)  # half a voxel
    layers.clear()
    panel.close_session()
    layers.append(other)
    layers.remove(other)  # nobody listens any more
