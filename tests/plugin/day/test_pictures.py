"""A day in a window, by mouse and keys, with pictures for a developer to look at.

``DAY_PICTURES=folder scripts/tests.sh tests/plugin/day/test_pictures.py`` takes them into a folder;
without one they are in pytest's temporary folder, which it prints.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desk import CONTROL, NOTHING, SHIFT, Desk
from hands import WAIT_MS, Mouse
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm

SEEDS = phantom_seeds_mm("arcs")
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def desk(make_napari_viewer: Any, tmp_path: Path) -> Any:
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(1440, 860)
    folder = Path(os.environ.get("DAY_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Pictures are in {folder}")
    desk = Desk(viewer, make_phantom("arcs"), folder)
    yield desk
    desk.panel.close_session()


@pytest.mark.slow
def test_a_day_in_the_window(desk: Desk, tmp_path: Path, notes: list[str], qtbot: Any) -> None:
    viewer, panel, session = desk.viewer, desk.panel, desk.session
    desk.panel.set_parameters(n_per_seed=150)
    for number, seed in enumerate(SEEDS):
        if number:
            desk.press(Qt.Key.Key_B, CONTROL | SHIFT)
        viewer.dims.set_point(0, float(seed[2]))
        desk.point(seed[::-1], SHIFT)
        desk.run()
    assert all(len(bundle.tractogram) for bundle in panel.bundles.bundles)
    desk.picture("01 bundles by direction")
    desk.click(panel.bundle_list.colours)
    desk.picture("02 a colour for each bundle")

    desk.point(SEEDS[-1][::-1], CONTROL | SHIFT)
    (sphere,) = session.regions.spheres
    with_outline = desk.canvas()
    sphere.visible = False
    assert (np.abs(with_outline - desk.canvas()).max(axis=2) > 60).sum() > 100
    sphere.visible = True
    for key in (Qt.Key.Key_4, Qt.Key.Key_5, Qt.Key.Key_6, Qt.Key.Key_7):
        desk.press(key, CONTROL)
        desk.picture(f"03 view {key.name[-1]} with a sphere")
    for order in ((1, 0, 2), (2, 0, 1)):
        viewer.dims.order = order
        viewer.reset_view()
        desk.settle()
        desk.picture(f"04 planes in the order {order}")
    desk.press(Qt.Key.Key_1, CONTROL)
    desk.click(panel.scene.glyphs_box)
    while panel.scene.glyphs.work.is_busy:
        desk.settle()
    desk.picture("05 glyphs")
    desk.click(panel.scene.glyphs_box)

    fa = np.random.default_rng(0).random(session.fod.grid.shape, np.float32)
    save_volume(fa, session.fod.grid, tmp_path / "fa.nii.gz")
    panel.data.add_mask(tmp_path / "fa.nii.gz")
    desk.settle()
    desk.picture("06 a map taken for a mask")
    panel.data.mask_choice.value = None
    (tmp_path / "broken.nii.gz").write_bytes(b"no image")
    panel.data.add_mask(tmp_path / "broken.nii.gz")
    desk.settle()
    desk.picture("07 an error, whole")
    assert notes[-1].startswith("error: broken.nii.gz")
    desk.point((float(viewer.dims.point[0]), *(-28.0, -28.0)), SHIFT)
    desk.picture("08 a seed outside")
    assert "lies outside" in notes[-1]
    desk.click(panel.seeds.undo.undo)
    qtbot.waitUntil(lambda: "outside" not in panel.results.notice.text(), timeout=WAIT_MS)

    desk.click(panel.selection.pick)
    line = session.tractogram[0].points
    middle = line[len(line) // 2]
    viewer.dims.set_point(0, float(middle[2]))
    desk.point(middle[::-1])
    assert session.streamlines_layer.editor.n_selected == 1
    desk.picture("09 picked")
    desk.click(panel.selection.pick)
    panel.more.add_tubes()
    desk.press(Qt.Key.Key_4, CONTROL)
    desk.picture("10 tubes")
    assert "hidden" not in panel.results.notice.text()

    desk.click(panel.measure.measure)
    panel.measure.kind.value = "Profiles"
    desk.settle()
    panel.measure.kind.value = "Connectome"
    desk.settle()
    desk.picture("11 another kind of measure")
    panel.data.fod_choice.native.showPopup()
    desk.settle()
    desk.picture("12 entries of a choice")
    panel.data.fod_choice.native.hidePopup()


@pytest.mark.slow
def test_an_afternoon_in_the_window(desk: Desk, tmp_path: Path, notes: list[str]) -> None:
    """Regions that are painted, four-up, the ruler, differences, docks, menus and a movie."""
    viewer, panel, session = desk.viewer, desk.panel, desk.session
    panel.set_parameters(n_per_seed=150)
    for number, seed in enumerate(SEEDS[:2]):
        if number:
            desk.press(Qt.Key.Key_B, CONTROL | SHIFT)
        viewer.dims.set_point(0, float(seed[2]))
        desk.point(seed[::-1], SHIFT)
        desk.run()
    desk.click(panel.bundle_list.colours)

    desk.press(Qt.Key.Key_8, CONTROL)
    four_up = panel.scene.four_up
    pane = four_up.panes["sagittal"]
    line = session.tractogram[0].points
    four_up.shared.move_to(line[len(line) // 2][::-1].astype(float))
    desk.settle()
    desk.click(panel.regions.paint)
    assert four_up.is_open
    start = pane.pixel_of(four_up.shared.crosshair).toPoint()
    for y in (-9, -3, 3, 9):
        QTest.mousePress(pane, LEFT, NOTHING, start + QPoint(-9, y))
        QTest.mouseMove(pane, start + QPoint(9, y))
        QTest.mouseRelease(pane, LEFT, NOTHING, start + QPoint(9, y))
    desk.settle()
    four_up.refresh()
    desk.picture("20 painted in one of three slices")
    assert session.regions.entries[0].layer.data.any()
    desk.click(panel.regions.paint)
    desk.press(Qt.Key.Key_4, CONTROL)
    panel.scene.outlines.update()
    desk.picture("21 a painted region in 3-D")

    desk.press(Qt.Key.Key_9, CONTROL)
    desk.press(Qt.Key.Key_1, CONTROL)
    Mouse(viewer).drag(SEEDS[1][::-1], SEEDS[1][::-1] + np.array([0, 15, 20]))
    desk.settle()
    desk.picture("22 the ruler")
    assert viewer.status.endswith("mm")
    desk.press(Qt.Key.Key_Escape)
    assert "Ruler" not in viewer.layers

    desk.click(panel.bundle_list.copy)
    desk.choose(panel.bundle_list.menu(), "Without", "Bundle 2")
    assert "nothing to make a bundle of" in notes[-1]
    session.streamlines_layer.selected = np.arange(40)
    session.streamlines_layer.editor.delete_selected()
    first = panel.bundles.bundles[1]
    panel.bundles.activate(first)
    desk.choose(panel.bundle_list.menu(), "Without", "Bundle 2 copy")
    assert len(session.tractogram) == 40
    desk.picture("23 one bundle without another")

    for size in ((1440, 860), (1280, 700)):
        viewer.window.resize(*size)
        desk.settle()
        panel.docks.action.trigger()
        desk.settle()
        desk.picture(f"24 three docks at {size[0]}")
        panel.docks.action.trigger()
        desk.settle()
    for name, button, menu in (
        ("bundles", panel.bundle_list.table, panel.bundle_list.menu()),
        ("export", panel.export, panel.export.menu()),
        ("more", panel.more, panel.more.menu()),
        ("project", panel.project, panel.project.menu()),
    ):
        menu.popup(button.mapToGlobal(QPoint(10, 10)))
        desk.settle()
        desk.picture(f"25 the menu {name}")
        screen = QApplication.primaryScreen().geometry()
        assert screen.contains(menu.geometry()), "it is cut off"
        menu.close()

    desk.press(Qt.Key.Key_4, CONTROL)
    assert panel.pictures.write_movie(tmp_path / "turn.gif", n_frames=4)
    desk.picture("26 after a movie")
