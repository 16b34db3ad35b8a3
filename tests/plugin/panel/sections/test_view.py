"""The View section: its buttons, letters, glyphs and peaks, and what takes them away."""

from __future__ import annotations

import pytest

from napari_tractography.phantoms import make_phantom
from napari_tractography.plugin.layers.volumes import fod_layer_data
from napari_tractography.plugin.panel.sections.view import ViewSection
from napari_tractography.plugin.session.session import Session
from napari_tractography.plugin.space.views import ORDERS


@pytest.fixture
def scene(make_napari_viewer, qtbot):
    viewer = make_napari_viewer(show=True)
    layer = viewer._add_layer_from_data(*fod_layer_data(make_phantom("cross")))[0]
    session = Session(viewer)
    session.choose_fod(layer)
    scene = ViewSection(session)
    qtbot.addWidget(scene)
    scene.open()
    yield scene
    scene.close_scene()
    session.close()


def names(scene):
    return [layer.name for layer in scene.session.viewer.layers]


def test_buttons_turn_the_view(scene):
    viewer = scene.session.viewer
    for name in ("coronal", "sagittal", "axial"):
        scene.views[name].click()
        assert viewer.dims.ndisplay == 2
        assert tuple(viewer.dims.order) == ORDERS[name]
    scene.views["3-D"].click()
    assert viewer.dims.ndisplay == 3


def test_letters_lie_on_the_canvas(scene):
    assert scene.labels is not None
    assert scene.labels.labels["left"].text() == "L"
    canvas = scene.session.viewer.window._qt_viewer.canvas.native
    assert scene.labels.labels["left"].parent() is canvas


def test_ticks_bring_and_take_glyphs_and_peaks(scene):
    scene.glyphs_box.click()
    scene.peaks_box.click()
    assert {"FOD glyphs", "FOD peaks"} < set(names(scene))
    scene.glyphs_box.click()
    scene.peaks_box.click()
    assert names(scene) == ["cross"]


def test_peaks_follow_the_smallest_amplitude_and_leave_the_active_layer(scene, qtbot):
    scene.peaks_box.click()
    scene.glyphs_box.click()
    assert scene.session.viewer.layers.selection.active is scene.session.fod_layer
    (floor,) = [control for control in scene.controls if control.name == "glyph_floor"]
    n_before, layer = len(scene.peaks.data), scene.peaks
    for value, wanted in ((0.3, range(1, n_before)), (10.0, (0,)), (0.05, (n_before,))):
        floor.value = value
        qtbot.waitUntil(lambda wanted=wanted: len(layer.data) in wanted, timeout=20_000)
        assert len(layer.edge_color) == len(layer.data)
    assert scene.peaks is layer


def test_removed_layers_take_their_ticks_along(scene):
    scene.glyphs_box.click()
    scene.peaks_box.click()
    layers = scene.session.viewer.layers
    layers.remove("FOD glyphs")
    layers.remove("FOD peaks")
    assert not scene.glyphs_box.isChecked()
    assert not scene.peaks_box.isChecked()
    scene.glyphs_box.click()
    assert "FOD glyphs" in names(scene)


def test_size_and_floor_reach_the_glyphs(scene):
    scene.glyphs_box.click()
    before = scene.glyphs.layer.data[0].copy()
    for control in scene.controls:
        control.value = 2.0 if control.name == "glyph_scale" else 0.2
    assert scene.glyphs.scale == 2.0
    assert scene.glyphs.min_amplitude == 0.2
    assert scene.glyphs.layer.data[0].std() != before.std()


def test_without_an_fod_there_is_nothing_to_tick(scene):
    scene.session.choose_fod(None)
    scene.glyphs_box.click()
    scene.peaks_box.click()
    assert not scene.glyphs_box.isChecked()
    assert not scene.peaks_box.isChecked()
