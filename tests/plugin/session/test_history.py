"""Undo and redo of seeds and regions, with the mouse and with keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, Mouse, fod_layer, lie_still
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from napari_tractography import Tractogram
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.panel.widgets.layout import Section

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
HERE, THERE = np.array([-1.0, 2.0, 2.0]), np.array([-1.0, 10.0, -8.0])  # display (z, y, x) mm
BESIDE = np.array([-1.0, -16.0, 20.0])


def press(panel: Any, keys: Any = CTRL) -> None:
    """Ctrl+Z in the image, or with Shift."""
    QTest.keyClick(panel.viewer.window._qt_viewer.canvas.native, Qt.Key.Key_Z, keys)


def seeds(panel: Any) -> np.ndarray:
    """Display positions (z, y, x) mm."""
    return panel.session.seeds.positions_mm[:, ::-1]


@pytest.fixture
def panel(open_window: Any, cross: Any) -> Any:
    made = open_window(cross)
    made.viewer.layers.selection.active = made.session.fod_layer
    return made


def test_a_drag_of_a_seed_is_one_step_and_so_is_the_click_before(panel: Any) -> None:
    mouse = Mouse(panel.viewer)
    mouse.click(HERE, SHIFT)
    mouse.drag(HERE, THERE, n=8)
    np.testing.assert_allclose(seeds(panel), [THERE], atol=0.5)
    press(panel)
    np.testing.assert_allclose(seeds(panel), [HERE], atol=0.5)
    press(panel)
    assert len(seeds(panel)) == 0
    press(panel)  # nothing is left
    press(panel, CTRL | SHIFT)
    press(panel, CTRL | SHIFT)
    np.testing.assert_allclose(seeds(panel), [THERE], atol=0.5)
    press(panel, CTRL | SHIFT)
    np.testing.assert_allclose(seeds(panel), [THERE], atol=0.5)


def test_the_layer_of_seeds_goes_with_the_first_seed_and_comes_back(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    session, layers = panel.session, panel.viewer.layers
    session.add_seed(HERE)
    session.document.undo()
    assert list(layers) == [session.fod_layer]
    session.document.redo()
    assert list(layers) == [session.fod_layer, session.seeds.layer]
    assert len(session.seeds.layer.data) == 1
    layers.selection.active = session.seeds.layer
    session.seeds.layer.mode = "add"  # napari's own tool, which is in hand
    session.document.undo()
    assert session.seeds.layer in layers
    assert len(session.seeds.layer.data) == 0


def test_the_layer_of_seeds_goes_with_the_last_seed(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    session, layers = panel.session, panel.viewer.layers
    session.add_seed(HERE)
    layers.selection.active = session.seeds.layer
    session.seeds.layer.mode = "select"
    session.clear_seeds()
    qtbot.waitUntil(lambda: list(layers) == [session.fod_layer])
    session.document.undo()
    assert list(layers) == [session.fod_layer, session.seeds.layer]
    session.add_seed(THERE)
    session.seeds.remove([0])
    session.seeds.remove([0])
    qtbot.waitUntil(lambda: list(layers) == [session.fod_layer])
    assert session.document.last == "Remove 1 seed"


def test_the_layer_of_seeds_stays_where_another_bundle_has_some(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    session, layers = panel.session, panel.viewer.layers
    session.add_seed(HERE)
    panel.bundles.add("")
    session.add_seed(THERE)
    session.clear_seeds()
    qtbot.wait(20)
    assert session.seeds.layer in layers


def test_what_a_seed_has_of_its_own_comes_back_with_it(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    session, undo = panel.session, panel.seeds.undo
    session.add_seed(HERE)
    session.add_seed(THERE)
    session.seeds.set_own([1], "radius_mm", 0.25)
    session.clear_seeds()
    undo.undo.click()
    np.testing.assert_allclose(seeds(panel), [HERE, THERE], atol=1e-3)
    np.testing.assert_array_equal(session.seeds.own["radius_mm"], [np.nan, 0.25])
    assert undo.redo.isEnabled()
    undo.undo.click()  # the radius
    np.testing.assert_array_equal(session.seeds.own["radius_mm"], [np.nan, np.nan])
    session.add_seed(BESIDE)  # something else: what was undone is gone
    assert not undo.redo.isEnabled()


def test_a_sphere_comes_back_with_place_role_and_size(panel: Any) -> None:
    regions = panel.session.regions
    mouse = Mouse(panel.viewer)
    mouse.click(BESIDE, CTRL | SHIFT)
    (entry,) = regions.entries
    mouse.drag(BESIDE, THERE)
    panel.regions.table.cellWidget(0, 1).setCurrentText("stop")
    panel.regions.table.cellWidget(0, 2).setValue(8.0)
    layer = entry.layer
    mouse.click(THERE, CTRL)
    assert layer not in panel.viewer.layers
    press(panel)
    assert layer in panel.viewer.layers
    assert regions.entries == [entry]
    (region,) = regions.of(entry)
    assert (region.role, region.radius_mm) == ("stop", 8.0)
    np.testing.assert_allclose(region.center_mm[::-1], THERE, atol=0.5)
    press(panel)  # the size
    assert regions.of(entry)[0].radius_mm == 5.0
    press(panel)  # the role
    assert entry.role == "include"
    press(panel)  # the place: it sleeps again
    np.testing.assert_allclose(regions.of(entry)[0].center_mm[::-1], BESIDE, atol=0.5)
    assert entry.is_inactive
    press(panel)
    assert not regions.entries
    assert panel.regions.table.rowCount() == 0
    for _ in range(4):
        press(panel, CTRL | SHIFT)
    (region,) = regions.of(entry)
    assert (region.role, region.radius_mm) == ("stop", 8.0)
    mouse.drag(THERE, HERE)  # and it is listened to again
    np.testing.assert_allclose(regions.of(entry)[0].center_mm[::-1], HERE, atol=0.5)


def test_a_painted_region_goes_with_its_layer_and_comes_back_as_painted(panel: Any) -> None:
    regions, layers = panel.session.regions, panel.viewer.layers
    panel.regions.paint.click()
    (entry,) = regions.entries
    Mouse(panel.viewer).drag(HERE, THERE)
    painted = entry.layer.data.copy()
    assert painted.any()
    section = next(s for s in panel.findChildren(Section) if s.isAncestorOf(panel.regions))
    section.header.setChecked(True)  # as whoever presses a key there has it before the eyes
    lie_still(panel)
    table = panel.regions.table
    place = table.visualItemRect(table.item(0, 0)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    QTest.keyClick(table, Qt.Key.Key_Delete)
    assert entry.layer not in layers
    assert not regions.entries
    QTest.keyClick(panel.regions.table, Qt.Key.Key_Z, CTRL)  # with the focus in the panel
    assert entry.layer in layers
    assert regions.entries == [entry]
    np.testing.assert_array_equal(entry.layer.data, painted)
    assert len(regions.frozen()) == 1
    layers.remove(entry.layer)  # in the layer list, as well
    assert not regions.entries
    press(panel)
    assert regions.entries == [entry]
    assert layers.index(entry.layer) < len(layers)


def test_all_is_undone_in_the_order_in_which_it_was_done(panel: Any) -> None:
    session = panel.session
    session.add_seed(HERE)
    line = np.array([[0, 0, 0], [10, 0, 0]], np.float32)
    layer = session.ensure_streamlines_layer()
    layer.tractogram = Tractogram.from_streamlines([line, line + 4])
    panel.viewer.layers.selection.active = layer
    layer.editor.select(0)
    layer.editor.delete_selected()
    press(panel)
    assert len(layer.tractogram) == 2
    assert len(seeds(panel)) == 1
    press(panel)  # the streamlines that a script gave
    press(panel)
    assert len(seeds(panel)) == 0
    for _ in range(3):  # and all again in the order in which it was done
        press(panel, CTRL | SHIFT)
    assert len(layer.tractogram) == 1
    assert len(seeds(panel)) == 1


def test_another_fod_is_a_step_and_seeds_stay_where_they_are(open_model: Any) -> None:
    panel = open_model(make_phantom("cross", lmax=2))
    session, first = panel.session, panel.session.fod_layer
    session.add_seed(HERE)
    turned = make_phantom("cross", affine=np.diag([1.5, 1.5, 1.5, 1.0]), lmax=2)
    panel.data.fod_choice.value = panel.viewer.add_layer(fod_layer(turned))
    assert session.fod_layer is not first
    session.document.undo()
    assert session.fod_layer is first is panel.data.fod_choice.value
    session.document.undo()
    assert len(session.seeds) == 0
    assert not session.document.can_undo
    session.document.redo()
    session.document.redo()
    assert session.fod_layer is not first
    np.testing.assert_allclose(session.seeds.positions_mm, [HERE[::-1]], atol=1e-3)


def test_live_follows_what_is_undone(open_window: Any, cross: Any, settle: Any, qtbot: Any) -> None:
    panel = open_window(cross)
    session = panel.session
    session.add_seed(HERE)
    panel.live.setChecked(True)
    settle(panel)
    before = session.tractogram.digest()
    session.move_seed(0, THERE)
    qtbot.waitUntil(lambda: session.tractogram.digest() != before, timeout=WAIT_MS)
    press(panel)
    qtbot.waitUntil(lambda: session.tractogram.digest() == before, timeout=WAIT_MS)
