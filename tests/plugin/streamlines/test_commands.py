"""Selecting streamlines with a real mouse and real keys, in slices and in 3-D."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hands import Mouse
from qtpy.QtCore import Qt, QThread
from qtpy.QtTest import QTest

from napari_tractography.model.stop import StopReason
from napari_tractography.plugin.panel.sections.selection import HINT
from napari_tractography.plugin.streamlines.commands import COMMANDS
from napari_tractography.streamlines.tractogram import Tractogram

ALT = Qt.KeyboardModifier.AltModifier
CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
PLAIN = Qt.KeyboardModifier.NoModifier
NOWHERE = (0.0, 15.0, 20.0)


def on(number: int, x: float = -12.0) -> tuple[float, float, float]:
    """A display position (z, y, x) on a streamline."""
    return (0.0, 6.0 * number - 12.0, x)


def lines() -> Tractogram:
    """Five streamlines along x, 6 mm apart; that with number 1 has its reasons known.

    y =  12   ------------  4
    y =   6   ------------  3
    ...
    y = -12   ------------  0
    """
    x = np.linspace(-20, 20, 41)
    rows = [np.stack([x, np.full(41, on(i)[1]), np.zeros(41)], axis=1) for i in range(5)]
    known = np.zeros((5, 2), np.uint8)
    known[1] = StopReason.LEFT_MASK, StopReason.MAX_LENGTH
    whole = Tractogram.from_streamlines(rows)
    return Tractogram(whole.points, whole.offsets, stop_reasons=known)


@pytest.fixture
def panel(open_window, cross):
    """A panel whose result are the five lines; the volume is the selected layer."""
    panel = open_window(cross)
    panel.session.ensure_streamlines_layer().tractogram = lines()
    panel.session.document.forget()  # which is no step of the test
    return panel


def layer_of(panel):
    return panel.session.streamlines_layer


def selected(panel):
    return layer_of(panel).selected.tolist()


def activate(panel):
    panel.viewer.layers.selection.active = layer_of(panel)


def in_slices_and_in_3d(panel):
    """Show both, one after the other, with nothing selected but the volume."""
    for ndisplay in (2, 3):
        panel.viewer.dims.ndisplay = ndisplay
        panel.viewer.reset_view()
        panel.viewer.layers.selection.active = panel.session.fod_layer
        layer_of(panel).selected = []
        yield Mouse(panel.viewer)


def press(panel, key, keys=PLAIN):
    QTest.keyClick(panel.viewer.window._qt_viewer.canvas.native, key, keys)


def test_the_status_bar_tells_what_is_under_the_mouse(panel, qtbot):
    """Whatever layer is selected."""
    window = panel.viewer.window._qt_window
    QThread.start(window.status_thread)  # napari's fixture keeps it from starting
    bar = window.statusBar()

    def shown():
        return bar._coordinates.text()

    for mouse in in_slices_and_in_3d(panel):
        for layer in (panel.session.fod_layer, layer_of(panel)):
            panel.viewer.layers.selection.active = layer
            mouse.hover(on(1))
            qtbot.waitUntil(lambda: "streamline 1: 40.0 mm" in shown(), timeout=10_000)
            for reason in (StopReason.LEFT_MASK, StopReason.MAX_LENGTH):
                assert reason.text in shown()
            mouse.hover(NOWHERE)
            qtbot.waitUntil(lambda: "streamline" not in shown(), timeout=10_000)


def test_clicks_select_one_add_one_and_take_it_out(panel):
    for mouse in in_slices_and_in_3d(panel):
        activate(panel)
        mouse.click(on(1))
        assert selected(panel) == [1]
        mouse.click(on(3), CTRL)
        assert selected(panel) == [1, 3]
        mouse.click(on(1), CTRL)
        assert selected(panel) == [3]
        mouse.click(on(4))
        assert selected(panel) == [4]
        mouse.click(NOWHERE)
        assert selected(panel) == []


def test_alt_clicks_select_whatever_layer_is_selected(panel):
    for mouse in in_slices_and_in_3d(panel):
        mouse.click(on(2))
        assert selected(panel) == []
        mouse.click(on(2), ALT)
        mouse.click(on(0), ALT | SHIFT)
        assert selected(panel) == [0, 2]
        assert panel.viewer.layers.selection.active is panel.session.fod_layer
        activate(panel)
        mouse.click(on(1), ALT)
        assert selected(panel) == [1]
        panel.selection.pick.click()  # where Alt-click does not arrive
        for active in (panel.session.fod_layer, layer_of(panel)):
            panel.viewer.layers.selection.active = active
            mouse.click(on(2))
            mouse.click(on(0), SHIFT)
            assert selected(panel) == [0, 2]
        assert not len(panel.session.seeds)
        panel.selection.pick.click()
        panel.viewer.layers.selection.active = panel.session.fod_layer
        mouse.click(on(1))
        assert selected(panel) == [0, 2]


def test_drags_move_the_camera_and_select_nothing(panel):
    camera = panel.viewer.scene.camera
    for mouse in in_slices_and_in_3d(panel):
        activate(panel)
        before = (camera.center, camera.angles)
        mouse.drag(on(1), on(3))
        assert (camera.center, camera.angles) != before
        assert selected(panel) == []


def test_seeds_keep_their_clicks_and_drags(panel):
    session = panel.session
    for mouse in in_slices_and_in_3d(panel):
        activate(panel)
        session.add_seed(np.array(on(2)))
        mouse.click(on(2))
        mouse.drag(on(2), on(3, x=0.0))
        np.testing.assert_allclose(session.seeds.positions_mm[0][:2], [0, 6], atol=1.0)
        mouse.click(on(1), SHIFT)
        assert len(session.seeds.positions_mm) == 2
        assert selected(panel) == []
        mouse.click(on(3, x=0.0), CTRL)
        assert len(session.seeds.positions_mm) == 1
        assert selected(panel) == []
        session.clear_seeds()


def test_keys_keep_delete_invert_undo_and_redo(panel):
    activate(panel)
    mouse = Mouse(panel.viewer)

    def rows():
        return [round((line[0, 1] + 12) / 6) for line in layer_of(panel).tractogram]

    mouse.click(on(1))
    press(panel, Qt.Key.Key_I)
    assert selected(panel) == [0, 2, 3, 4]
    press(panel, Qt.Key.Key_Escape)
    assert selected(panel) == []
    mouse.click(on(1))
    press(panel, Qt.Key.Key_Delete)
    assert rows() == [0, 2, 3, 4]
    mouse.click(on(2))
    mouse.click(on(3), CTRL)
    press(panel, Qt.Key.Key_K)
    assert rows() == [2, 3]
    mouse.click(on(3))
    press(panel, Qt.Key.Key_Backspace)
    assert rows() == [2]
    for expected in ([2, 3], [0, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]):
        press(panel, Qt.Key.Key_Z, CTRL)
        assert rows() == expected
    press(panel, Qt.Key.Key_Z, CTRL | SHIFT)
    assert rows() == [0, 2, 3, 4]
    assert panel.viewer.dims.ndisplay == 2


def test_no_key_is_one_of_naparis():
    """With the layer selected each key does what we say, and napari had nothing on it."""
    from napari.components import ViewerModel
    from napari.layers import Tracks
    from napari.utils.key_bindings import KeymapHandler, coerce_keybinding

    handler = KeymapHandler()
    handler.keymap_providers = [Tracks([[0, 0, 0, 0], [0, 1, 0, 0]]), ViewerModel()]
    taken = set(handler.active_keymap)
    assert taken, "napari has no keys"
    for command in COMMANDS:
        assert not taken & {coerce_keybinding(key) for key in command.keys}, command.name


def test_an_edit_is_what_is_saved_and_a_new_run_begins_afresh(panel, tmp_path, settle):
    activate(panel)
    session, buttons = panel.session, panel.selection.buttons
    assert not buttons["Delete"].isEnabled()
    layer_of(panel).selected = [0, 4]
    assert "2 of 5" in panel.selection.label.text()
    buttons["Delete"].click()
    assert len(session.tractogram) == 3
    assert "3 of 5 streamlines" in panel.results.label.text()
    panel.save(tmp_path / "kept.tck")
    import nibabel as nib

    assert len(nib.streamlines.load(tmp_path / "kept.tck").streamlines) == 3
    buttons["Invert"].click()
    buttons["Delete"].click()
    assert not panel.save_button.isEnabled()
    assert "Undo" in panel.results.label.text()
    buttons["Undo"].click()
    assert panel.save_button.isEnabled()
    session.add_seed(np.zeros(3))
    panel.run()
    settle(panel)
    assert len(session.tractogram) > 5
    assert layer_of(panel).editor.edits == ()
    assert not buttons["Redo"].isEnabled()
    assert panel.selection.label.text() == HINT
    buttons["Undo"].click()  # the run
    assert len(session.tractogram) == 3
    assert "3 of 5 streamlines" in panel.results.label.text()
    buttons["Undo"].click()  # the seed
    buttons["Undo"].click()
    assert len(session.tractogram) == 5
    assert buttons["Redo"].isEnabled()
    assert not buttons["Undo"].isEnabled()


def test_the_selected_one_is_seen_through_all_others(open_window, cross):
    """A green streamline below a pile of red ones, in the slice and seen from above."""
    panel = open_window(cross)
    x = np.linspace(-20, 20, 2)
    pile = [
        np.stack([x, np.full(2, y), np.full(2, z)], axis=1)
        for z in np.linspace(0, 8, 9)
        for y in np.linspace(-9, 9, 145)
    ]
    along_y = np.stack([np.zeros(2), np.array([-8.0, 8.0]), np.full(2, -1.5)], axis=1)
    layer = panel.session.ensure_streamlines_layer()
    layer.tractogram = Tractogram.from_streamlines([*pile, along_y])
    viewer = panel.viewer
    viewer.layers[0].visible = False
    viewer.dims.set_point(0, 0.0)
    for n in (2, 3):
        viewer.dims.ndisplay = n
        viewer.reset_view()
        middle = Mouse(viewer).where((0.0, 0.0, 0.0))
        row, column = round(middle.y()), round(middle.x())

        def greenness(row=row, column=column):
            image = viewer.screenshot(flash=False).astype(int)
            near = image[row - 1 : row + 2, column - 1 : column + 2]
            return (near[..., 1] - near[..., 0]).max()

        assert greenness() < -100, n
        layer.selected = [len(pile)]
        assert greenness() > 60, n
        layer.selected = []
        assert greenness() < -100, n


def test_closing_lets_go_of_viewer_and_layer(open_window, cross, qtbot):
    panel = open_window(cross)
    viewer, session = panel.viewer, panel.session
    before = len(viewer.mouse_drag_callbacks)
    layer = session.ensure_streamlines_layer()
    layer.tractogram = lines()
    activate(panel)
    Mouse(viewer).click(on(1))
    assert len(layer.editor.changed) == 1
    panel.close_session()
    assert len(viewer.mouse_drag_callbacks) < before
    assert panel.selection._alt_click not in viewer.mouse_drag_callbacks
    assert len(layer.editor.changed) == 0
    panel.open_session()
    assert len(viewer.mouse_drag_callbacks) == before
    assert len(layer.editor.changed) == 1
    viewer.layers.remove(layer)
    panel.session.document.forget()  # undo would bring it back
    assert panel.selection.layer is None
    gone = weakref.ref(layer)
    del layer

    def is_gone():
        gc.collect()
        return gone() is None

    qtbot.waitUntil(is_gone, timeout=5000)
