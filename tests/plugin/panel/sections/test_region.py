"""Regions: dragged and painted with real mouse events, obeyed live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crossing import BESIDE, CONTROL, MIDDLE, RIGHT_ARM, SHIFT, add_sphere, live_panel
from hands import LEFT_HANDED, OBLIQUE, WAIT_MS, Mouse, lie_still, printed_by
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog

from napari_tractography import track
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.export.copied_scripts import as_command, as_python
from napari_tractography.plugin.panel.widgets.layout import Section


def near(panel: Any, place_zyx: np.ndarray, radius: float) -> int:
    """Number of points of streamlines within a distance of a display position."""
    points = panel.session.tractogram.points - place_zyx[::-1]
    return int((np.linalg.norm(points, axis=1) < radius).sum())


def same_by_hand(panel: Any) -> str:
    """The digest of what the session says it tracks, by the function itself."""
    request = panel.session.request()
    return track(
        request.fod,
        request.seeds(),
        request.parameters,
        regions=request.regions,
        include_rule=request.include_rule,
    ).digest()


def script_of(panel: Any, script: Any = as_python) -> str:
    session = panel.session
    sources = session.steering_layers()
    return str(script(session.request(), session.fod_layer, region_layers=sources))


def press(panel: Any, keys: Any = CONTROL) -> None:
    """Ctrl+Z in the image, or with Shift."""
    QTest.keyClick(panel.viewer.window._qt_viewer.canvas.native, Qt.Key.Key_Z, keys)


def test_a_sphere_that_is_dragged_excludes_live(open_window: Any, settle: Any, qtbot: Any) -> None:
    panel = live_panel(open_window, settle, make_phantom("cross"))
    session = panel.session
    assert near(panel, RIGHT_ARM, 4.0) > 100
    everything = session.tractogram.digest()
    mouse = Mouse(panel.viewer)
    mouse.click(BESIDE, CONTROL | SHIFT)
    (entry,) = session.regions.entries
    session.regions.set_role(entry, "exclude")
    settle(panel)
    qtbot.waitUntil(lambda: session.tractogram.digest() == everything, timeout=WAIT_MS)
    mouse.press(BESIDE)
    for share in (0.3, 0.6, 1.0):
        mouse.move(BESIDE + share * (RIGHT_ARM - BESIDE))
    qtbot.waitUntil(lambda: near(panel, RIGHT_ARM, 4.0) == 0, timeout=WAIT_MS)  # the button is down
    mouse.release()
    (centre,) = entry.layer.data
    np.testing.assert_allclose(centre[1:], RIGHT_ARM[1:], atol=0.5)
    settle(panel)
    qtbot.waitUntil(lambda: session.tractogram.n_seeds == 200, timeout=WAIT_MS)
    assert len(session.tractogram) > 20  # the others are there
    wanted = same_by_hand(panel)
    qtbot.waitUntil(lambda: session.tractogram.digest() == wanted, timeout=WAIT_MS)
    assert printed_by(script_of(panel)) == wanted
    mouse.click(RIGHT_ARM, CONTROL)  # takes it off again
    assert not session.regions.entries
    qtbot.waitUntil(lambda: session.tractogram.digest() == everything, timeout=WAIT_MS)


def test_labels_that_are_painted_exclude_live_and_undo_lets_them_in_again(
    open_window: Any, settle: Any, qtbot: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = live_panel(open_window, settle, make_phantom("cross"))
    session, viewer = panel.session, panel.viewer
    everything = session.tractogram.digest()
    panel.regions.paint.click()
    (entry,) = session.regions.entries
    layer = entry.layer
    assert "(empty)" in panel.regions.table.item(0, 0).text()
    session.regions.set_role(entry, "exclude")
    settle(panel)
    assert session.tractogram.digest() == everything  # nothing is painted yet
    assert viewer.layers.selection.active is layer
    mouse = Mouse(viewer)
    before = session.tractogram.points

    def is_obeyed() -> bool:
        (region,) = session.request().regions
        assert region.contains(before).sum() > 50
        return not region.contains(session.tractogram.points).any()

    mouse.press(RIGHT_ARM + np.array([0, 8, 0]))
    for dy in (4, 0, -4, -8):
        mouse.move(RIGHT_ARM + np.array([0, dy, 0]))
    qtbot.waitUntil(is_obeyed, timeout=WAIT_MS)  # while the brush is still down
    mouse.release()
    assert "(empty)" not in panel.regions.table.item(0, 0).text()
    settle(panel)
    wanted = same_by_hand(panel)
    qtbot.waitUntil(lambda: session.tractogram.digest() == wanted, timeout=WAIT_MS)
    assert is_obeyed()
    assert len(session.tractogram) > 20
    assert printed_by(script_of(panel)) == wanted
    session.fod_layer.metadata["path"] = "fod.nii.gz"
    with pytest.raises(ValueError, match="'Region' did not come from a file"):
        script_of(panel, as_command)
    panel.regions.table.selectRow(0)
    path = tmp_path / "mine.nii.gz"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *args: (str(path), ""))
    panel.regions.save_button.click()
    assert f"--exclude={path}" in script_of(panel, as_command)
    press(panel)
    assert session.tractogram.digest() == everything  # at once
    assert session.is_result_current
    assert "(empty)" in panel.regions.table.item(0, 0).text()
    press(panel, CONTROL | SHIFT)
    assert session.tractogram.digest() == wanted
    layer.data[:, :2] = 1
    layer.refresh()
    assert not session.is_result_current  # whoever looks first keeps nothing from Live
    qtbot.waitUntil(lambda: session.is_result_current, timeout=WAIT_MS)
    with pytest.raises(ValueError, match="'Region' is not what"):
        script_of(panel, as_command)  # painted since it was saved


def test_a_drag_of_the_brush_moves_no_seeds(open_window: Any, cross: Any) -> None:
    panel = open_window(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.regions.paint.click()
    layer = panel.session.regions.entries[0].layer
    Mouse(panel.viewer).drag((0.0, 0, 0), (0.0, 6, 0))
    np.testing.assert_allclose(panel.session.seeds.positions_mm, MIDDLE, atol=1e-4)
    assert layer.data.any()


@pytest.mark.parametrize("ndisplay", [2, 3])
def test_a_region_never_covers_the_streamlines(
    open_window: Any, cross: Any, settle: Any, ndisplay: int
) -> None:
    """Also one that was on top, and streamlines that come later."""
    panel = open_window(cross)
    viewer, session = panel.viewer, panel.session
    labels = np.ones(session.fod_layer.data.shape, np.uint8)
    place = {"scale": session.fod_layer.scale, "translate": session.fod_layer.translate}
    opened = viewer.add_labels(labels, name="labels", **place)
    session.regions.add_sphere(np.zeros(3), 14.0, "stop")
    session.add_seeds_mm([[-12.0, 6, 0]])
    panel.run()
    settle(panel)
    viewer.layers.move(viewer.layers.index(opened), len(viewer.layers))
    (ball,) = session.regions.spheres
    session.regions.add_labels(opened, "end")
    viewer.dims.ndisplay = ndisplay
    panel.scene.slices.box.setChecked(False)
    session.seeds.layer.visible = False
    session.fod_layer.visible = False
    opened.opacity = ball.opacity = 1.0  # what lies behind cannot be seen
    streamlines = session.streamlines_layer

    def picture(*, lines: bool, regions: bool) -> Any:
        streamlines.visible, opened.visible, ball.visible = lines, regions, regions
        return viewer.screenshot(flash=False)[..., :3].astype(int)

    drawn = picture(lines=True, regions=False).max(axis=2) > 150  # not the faint rims of the lines
    covered, bare = picture(lines=True, regions=True), picture(lines=False, regions=True)
    assert drawn.sum() > 300
    assert (bare[drawn].max(axis=1) > 20).mean() > 0.95  # they do lie behind or in the regions
    # All but those under the outline of the ball.
    assert (np.abs(covered - bare).max(axis=2)[drawn] > 30).mean() > 0.85


def test_a_sphere_is_dragged_across_the_line_of_sight_in_3d(open_window: Any, cross: Any) -> None:
    """Also where it is hidden behind the volume; a seed in it is taken first."""
    panel = open_window(cross)
    viewer, session = panel.viewer, panel.session
    viewer.dims.ndisplay = 3
    viewer.reset_view()  # from above
    add_sphere(panel)
    layer = session.regions.entries[0].layer
    (start,) = layer.data.copy()
    np.testing.assert_allclose(start, viewer.scene.camera.center, atol=1e-6)
    mouse = Mouse(viewer)
    before = mouse.where(start)
    mouse.drag(start, start + np.array([0, 6, 9]))
    np.testing.assert_allclose(layer.data[0], start + np.array([0, 6, 9]), atol=0.5)
    assert mouse.where(start) == before  # the camera stayed
    session.add_seed(layer.data[0])
    mouse.drag(layer.data[0], start)
    np.testing.assert_allclose(layer.data[0], start + np.array([0, 6, 9]), atol=0.5)
    np.testing.assert_allclose(session.seeds.positions_mm[0][::-1], start, atol=0.5)


def test_a_sphere_shows_in_each_slice_that_cuts_it(open_window: Any, cross: Any) -> None:
    panel = open_window(cross)
    layer = panel.session.regions.add_sphere(np.zeros(3), 5.0).layer
    for height in (1.0, 3.0, -3.0):  # slices of the volume
        panel.viewer.dims.set_point(0, height)
        assert panel.viewer.dims.point[0] == height
        radius = np.sqrt(25 - height**2)
        assert layer.get_value((height, 0, radius - 0.1), world=True) == 0
        assert layer.get_value((height, 0, radius + 0.1), world=True) is None
    panel.viewer.dims.set_point(0, 7.0)
    assert layer.get_value((7.0, 0, 0), world=True) is None


@pytest.mark.parametrize("affine", [OBLIQUE, LEFT_HANDED])
def test_the_slices_turn_to_the_region_that_is_selected(
    open_model: Any, affine: np.ndarray
) -> None:
    panel = open_model(make_phantom("cross", affine=affine, lmax=2))
    viewer, regions, table = panel.viewer, panel.session.regions, panel.regions.table
    space = panel.session.space
    in_phantom = phantom_seeds_mm("cross", affine=affine)
    place = np.asarray(space.to_display(in_phantom))[0]
    sphere = regions.add_sphere(place, 4.0)
    painted = regions.add_painting("exclude")
    painted.layer.data[3:6, 2:5, 7:8] = 1
    painted.layer.refresh()
    regions.frozen()  # takes note of what no event told
    centre = painted.layer.data_to_world((4, 3, 7))
    for entry, wanted in ((sphere, place), (painted, centre), (sphere, place)):
        viewer.dims.set_point((0, 1, 2), (0.0, 0.0, 0.0))
        table.selectRow(regions.entries.index(entry))
        steps = [step for _, _, step in viewer.dims.range]
        assert (np.abs(np.asarray(viewer.dims.point) - wanted) <= steps).all()


@pytest.mark.parametrize("affine", [OBLIQUE, LEFT_HANDED])
def test_painted_voxels_lie_where_they_are_seen(open_model: Any, affine: np.ndarray) -> None:
    """Painted in napari with a layer of ours, and with one of napari's own."""
    fod = make_phantom("cross", affine=affine, lmax=2)
    panel = open_model(fod)
    regions, space = panel.session.regions, panel.session.space
    voxel = np.array([5, 17, 3])  # of the file
    array = np.zeros(fod.grid.shape, np.uint8)
    array[tuple(voxel)] = 4
    own = regions.add_painting("stop")
    own.layer.data = np.ascontiguousarray(space.volume(array))
    panel.viewer.layers.selection.active = panel.session.fod_layer
    panel.viewer._new_labels()
    napari_own = panel.viewer.layers.selection.active
    napari_own.data = np.ascontiguousarray(space.volume(array).astype(int))
    other = regions.add_labels(napari_own, "stop", label=4)
    for entry in (own, other):
        (region,) = regions.of(entry)
        centre = fod.grid.to_mm(voxel)
        assert region.contains(centre).all()
        assert region.contains(centre + 1.5 * np.eye(3) @ affine[:3, :3].T).sum() == 0
    regions.set_label(other, 3)
    assert regions.of(other) == []


def test_the_list_changes_roles_labels_and_sizes(
    open_model: Any, cross: Any, settle: Any, notes: list[str]
) -> None:
    panel = open_model(cross)
    session, regions, table = panel.session, panel.session.regions, panel.regions.table
    labels = np.zeros(session.fod_layer.data.shape, np.uint8)
    labels[:, :, :4], labels[:, :, -4:] = 1, 2
    opened = panel.viewer.add_labels(
        labels, name="ends", scale=session.fod_layer.scale, translate=session.fod_layer.translate
    )
    flat = panel.viewer.add_labels(np.ones((4, 4), int), name="flat")
    panel.regions.menu.aboutToShow.emit()
    (action,) = panel.regions.menu.actions()
    action.trigger()
    action.trigger()  # the same layer again, for another label
    for row, label in enumerate((1, 2)):
        table.cellWidget(row, 2).setValue(label)
    session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    both = len(session.tractogram)
    assert session.tractogram.digest() == same_by_hand(panel)
    panel.regions.rule.value = "any"
    panel.run()
    settle(panel)
    assert len(session.tractogram) >= both > 0
    assert session.request().include_rule == "any"
    table.cellWidget(0, 1).setCurrentText("exclude")
    assert [(r.role, r.name) for r in session.request().regions] == [
        ("exclude", "ends"),
        ("include", "ends"),
    ]
    add_sphere(panel)
    table.cellWidget(2, 2).setValue(7.5)
    assert regions.of(regions.entries[2])[0].radius_mm == 7.5
    regions.entries[2].layer.name = "my ball"
    assert table.item(2, 0).text() == "my ball"
    with pytest.raises(ValueError, match="'flat' cannot be a region"):
        regions.add_labels(flat)
    table.selectRow(2)
    QTest.keyClick(table, Qt.Key.Key_Delete)
    assert "my ball" not in panel.viewer.layers
    table.selectRow(1)
    panel.regions.remove.click()
    assert len(regions.entries) == 1
    assert opened in panel.viewer.layers  # somebody's labels stay
    panel.viewer.layers.remove(opened)
    assert not regions.entries
    assert table.rowCount() == 0
    assert notes == []


def test_spheres_stay_in_place_when_another_fod_is_chosen(open_model: Any) -> None:
    panel = open_model(make_phantom("cross", lmax=2), make_phantom("cross", affine=OBLIQUE, lmax=2))
    plain, turned = panel.viewer.layers
    regions = panel.session.regions
    panel.data.fod_choice.value = plain
    entry = regions.add_sphere(np.array([1.0, 2.0, 3.0]), 4.0)
    for layer in (turned, plain):
        panel.data.fod_choice.value = layer
        (region,) = regions.of(entry)
        np.testing.assert_allclose(region.center_mm, [3, 2, 1], atol=1e-3)
        shown = panel.session.space.to_display(region.center_mm)
        np.testing.assert_allclose(entry.layer.data, shown, atol=1e-3)


def test_a_new_panel_takes_over_the_regions_of_a_closed_one(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    regions = panel.session.regions
    regions.add_sphere(np.array([1.0, 2.0, 3.0]), 4.0, "exclude")
    painted = regions.add_painting("end")
    painted.layer.data[2:4] = 1
    regions.set_label(painted, 1)
    panel.close_session()
    again = type(panel)(panel.viewer)
    qtbot.addWidget(again)
    found = [(e.layer.name, e.role, e.label) for e in again.session.regions.entries]
    assert found == [("Sphere", "exclude", None), ("Region", "end", 1)]
    assert len(again.session.regions.frozen()) == 2
    again.close_session()


def test_the_section_of_regions_fits(open_window: Any, cross: Any) -> None:
    panel = open_window(cross, size=(1280, 800))
    section = next(s for s in panel.findChildren(Section) if s.isAncestorOf(panel.regions))
    section.header.setChecked(True)
    lie_still(panel)
    undo, redo = panel.regions.undo.undo, panel.regions.undo.redo
    assert redo.x() - undo.x() < 2 * undo.width()  # side by side, also without other buttons
    for _ in range(6):
        add_sphere(panel)
    lie_still(panel)
    table = panel.regions.table
    assert table.horizontalHeader().length() <= table.viewport().width()
    for row in range(table.rowCount()):
        for column in (1, 2):
            widget = table.cellWidget(row, column)
            assert widget.width() >= widget.minimumSizeHint().width()


def test_the_paint_button_is_pressed_while_painting_and_puts_the_brush_away(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    button, layers = panel.regions.paint, panel.viewer.layers
    button.click()
    (entry,) = panel.session.regions.entries
    assert (entry.layer.mode, button.isChecked()) == ("paint", True)
    button.click()
    assert (entry.layer.mode, button.isChecked()) == ("pan_zoom", False)
    assert panel.session.regions.entries == [entry]
    entry.layer.mode = "erase"  # by napari's own controls
    assert button.isChecked()
    layers.selection.active = panel.session.fod_layer
    assert not button.isChecked()
    layers.selection.active = entry.layer
    assert button.isChecked()
    layers.remove(entry.layer)
    assert not button.isChecked()


def test_the_region_that_is_selected_is_painted_on(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    regions = panel.session.regions
    panel.regions.paint.click()
    panel.regions.paint.click()
    panel.regions.table.selectRow(0)
    panel.regions.paint.click()
    (entry,) = regions.entries
    assert entry.layer.mode == "paint"
    panel.regions.paint.click()
    panel.regions.table.clearSelection()
    panel.regions.paint.click()
    assert len(regions.entries) == 2
    assert regions.painted_layer is regions.entries[1].layer


def test_without_an_fod_the_paint_button_stays_up(open_model: Any, notes: list[str]) -> None:
    panel = open_model()
    panel.regions.paint.click()
    assert not panel.regions.paint.isChecked()
    assert "no FOD to paint on" in notes[-1]
