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
from desk import CONTROL, SHIFT, Desk
from qtpy.QtCore import Qt

from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm

SEEDS = phantom_seeds_mm("arcs")


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
def test_a_day_in_the_window(desk: Desk, tmp_path: Path, notes: list[str]) -> None:
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
    assert "outside" not in panel.results.notice.text()

    desk.click(panel.selection.pick)
    line = session.tractogram[0].points
    middle = line[len(line) // 2]
    viewer.dims.set_point(0, float(middle[2]))
    desk.point(middle[::-1])
    assert session.streamlines_layer.editor.n_selected == 1
    desk.picture("09 picked")
    desk.click(panel.selection.pick)
    panel.output.add_tubes()
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
