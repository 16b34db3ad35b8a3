"""The View section: its buttons, letters, glyphs and peaks, and what takes them away."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hands import OBLIQUE
from napari.components import ViewerModel

from napari_tractography import Tractogram
from napari_tractography.files.paths import GivenUpError
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.notices import show_warning
from napari_tractography.plugin.panel.display import view
from napari_tractography.plugin.panel.display.view import ViewSection
from napari_tractography.plugin.session.seed_mouse import SeedMouse
from napari_tractography.plugin.session.session import Session
from napari_tractography.plugin.space.views import ORDERS, SIDES
from napari_tractography.plugin.streamlines.layer import Streamlines


def opened(viewer, qtbot):
    layer = viewer._add_layer_from_data(*fod_layer_data(make_phantom("cross")))[0]
    session = Session(viewer)
    session.open()
    session.choose_fod(layer)
    scene = ViewSection(session, SeedMouse(session, show_warning))
    qtbot.addWidget(scene)
    scene.open()
    yield scene
    scene.close_section()
    session.close()


@pytest.fixture
def scene(qtbot):
    """In a viewer without a window, where nothing is drawn."""
    yield from opened(ViewerModel(), qtbot)


@pytest.fixture
def shown(make_napari_viewer, qtbot):
    """In a window."""
    yield from opened(make_napari_viewer(show=True), qtbot)


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


def test_three_sides_and_3d_comes_back_to_where_it_was_left(shown):
    viewer = shown.session.viewer
    for name, side in SIDES.items():
        shown.views[name].click()
        assert viewer.dims.ndisplay == 3
        np.testing.assert_allclose(viewer.scene.camera.view_direction, side.view, atol=1e-6)
        np.testing.assert_allclose(viewer.scene.camera.up_direction, side.up, atol=1e-6)
    letters = {"front": "R", "left": "A", "above": "L"}
    for name, letter in letters.items():
        shown.views[name].click()
        assert shown.labels.labels["left"].text() == letter
    turned, up = np.array([-0.6, 0.0, 0.8]), (0.8, 0.0, 0.6)
    viewer.scene.camera.set_view_direction(tuple(turned), up)
    for other in ("axial", "coronal", "3-D"):
        shown.views[other].click()
    np.testing.assert_allclose(viewer.scene.camera.view_direction, turned, atol=1e-6)


def test_glyphs_lie_below_seeds_and_streamlines_however_often(scene):
    viewer = scene.session.viewer
    viewer.add_layer(Streamlines(Tractogram.from_streamlines([np.eye(2, 3)]), name="lines"))
    scene.session.add_seeds_mm(np.zeros((1, 3)))
    for _ in range(2):
        scene.glyphs_box.click()
        order = names(scene)
        assert order.index("FOD glyphs") < min(order.index("lines"), order.index("Seeds"))
        scene.glyphs_box.click()


def test_sliders_of_slices_are_those_of_the_viewer_before_3d_was_seen(scene):
    viewer, slices = scene.session.viewer, scene.slices
    assert viewer.dims.ndisplay == 2
    start, stop, step = viewer.dims.range[-3]
    slider = slices.sliders[0].slider
    assert slider.maximum() == round((stop - start) / step)
    assert slider.value() == round((viewer.dims.point[-3] - start) / step) > 0


def test_sliders_of_slices_leave_one_room_for_their_numbers_in_a_tilted_volume_too(scene):
    session, viewer = scene.session, scene.session.viewer
    for affine in (np.eye(4), OBLIQUE):
        fod = make_phantom("cross", affine=affine, lmax=4)
        session.choose_fod(viewer._add_layer_from_data(*fod_layer_data(fod))[0])
        viewer.dims.set_point(range(3), [r[1] for r in viewer.dims.range])
        texts = [slider.text for slider in scene.slices.sliders]
        (room,) = {text.minimumWidth() for text in texts}
        assert all(text.fontMetrics().horizontalAdvance(text.text()) <= room for text in texts)


def test_slices_are_what_3d_shows_and_have_sliders(scene):
    viewer, slices = scene.session.viewer, scene.slices
    volume = scene.session.fod_layer
    assert slices.planes is None  # until 3-D is seen
    scene.views["3-D"].click()
    assert slices.planes.source is volume
    assert not volume.visible
    slider = slices.sliders[0]
    slider.slider.setValue(2)
    assert viewer.dims.current_step[0] == 2
    assert slider.text.text().startswith("S ")
    slices.planes.update.flush()
    assert slices.planes.indices[0] == 2
    slices.box.click()
    assert names(scene) == ["cross"]
    assert volume.visible
    scene.views["axial"].click()
    scene.views["3-D"].click()
    assert names(scene) == ["cross"]


def test_slices_are_there_when_the_section_opens_in_3d(scene):
    scene.views["3-D"].click()
    scene.close_section()
    assert names(scene) == ["cross"]
    scene.open()
    assert scene.slices.planes.source is scene.session.fod_layer


def test_slices_follow_what_there_is_and_go_with_their_layer(shown, qtbot):
    viewer, slices = shown.session.viewer, shown.slices
    volume = shown.session.fod_layer
    shown.views["3-D"].click()
    other = viewer.add_image(volume.data, scale=volume.scale, translate=volume.translate, name="T1")
    assert slices.planes.source is volume
    slices.choice.value = other
    assert slices.planes.source is other
    assert not other.visible
    assert not volume.visible
    viewer.layers.remove(other)
    qtbot.waitUntil(lambda: slices.planes is not None and slices.planes.source is volume)
    viewer.layers.remove(slices.planes.layer)  # by a person, in the list of layers
    qtbot.waitUntil(lambda: not slices.box.isChecked())
    assert names(shown) == ["cross"]
    assert volume.visible


def test_a_volume_that_is_hidden_has_no_slices_until_they_are_asked_for(scene):
    scene.session.fod_layer.visible = False
    scene.views["3-D"].click()
    assert scene.slices.planes is None
    scene.slices.box.click()
    scene.slices.box.click()
    assert scene.slices.planes.source is scene.session.fod_layer
    scene.slices.box.click()
    assert not scene.session.fod_layer.visible


def test_slices_whose_layer_went_ask_nothing_of_a_panel_that_is_closed(scene, qtbot):
    scene.views["3-D"].click()
    viewer, slices = scene.session.viewer, scene.slices
    viewer.layers.remove(slices.planes.layer)
    slices.close_section()
    qtbot.wait(1)
    assert slices.planes is None
    assert slices.box.isChecked()  # nobody has looked


def test_direction_colours_are_a_background_with_one_click(shown):
    shown.slices.colours_button.click()
    assert names(shown) == ["cross", "FOD directions"]
    shown.views["3-D"].click()
    shown.slices.colours_button.click()  # again: in place of the one before
    assert names(shown).count("FOD directions") == 1
    assert shown.slices.planes.source.name == "FOD directions"
    assert not shown.session.fod_layer.visible
    shown.views["axial"].click()
    assert shown.session.viewer.layers["FOD directions"].visible


def test_direction_colours_are_as_bright_as_an_open_fa_map_says(scene):
    viewer, fod = scene.session.viewer, scene.session.fod_layer
    half = np.zeros_like(fod.data)
    half[..., half.shape[-1] // 2 :] = 0.5  # FA on the right alone
    viewer.add_image(half, name="sub-1_FA.nii.gz", **scene.session.space.layer_kwargs)
    scene.slices.colours_button.click()
    (name,) = [name for name in names(scene) if name.startswith("FOD directions")]
    assert name == "FOD directions, by sub-1_FA.nii.gz"
    shown = np.asarray(viewer.layers[name].data)
    assert not shown[:, :, : half.shape[-1] // 2].any()
    middle = np.array(fod.data.shape) // 2  # where the bundles cross
    assert shown[middle[0], middle[1], middle[2] + 2 :].max() > 60


def test_letters_lie_on_the_canvas(shown):
    assert shown.labels is not None
    assert shown.labels.labels["left"].text() == "L"
    canvas = shown.session.viewer.window._qt_viewer.canvas.native
    assert shown.labels.labels["left"].parent() is canvas


def test_ticks_bring_and_take_glyphs_and_peaks(shown):
    shown.glyphs_box.click()
    shown.peaks_box.click()
    assert {"FOD glyphs", "FOD peaks"} < set(names(shown))
    shown.glyphs_box.click()
    shown.peaks_box.click()
    assert names(shown) == ["cross"]


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


def test_peaks_are_found_in_a_thread_and_need_not_be_waited_for(scene, monkeypatch):
    """Those of a large image take half a minute."""
    threads, find = [], view.fod_peaks

    def find_there(*args, **kwargs):
        threads.append(threading.current_thread())
        return find(*args, **kwargs)

    def give_up(*_args):
        raise GivenUpError("peaks")

    monkeypatch.setattr(view, "fod_peaks", find_there)
    scene.peaks_box.click()
    assert threading.main_thread() not in threads
    assert len(threads) == 1
    scene.peaks_box.click()
    monkeypatch.setattr(view, "wait_for", give_up)
    scene.peaks_box.click()
    assert not scene.peaks_box.isChecked()
    assert "FOD peaks" not in names(scene)


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
