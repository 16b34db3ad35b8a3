"""Regions that were put somewhere are not in use until a person touches them."""

from __future__ import annotations

from typing import Any

import numpy as np
from crossing import BESIDE, CONTROL, RIGHT_ARM, SHIFT, add_sphere, live_panel
from hands import WAIT_MS, Mouse

from napari_tractography.model.phantoms import make_phantom


def test_a_sphere_is_asleep_until_it_is_touched(open_window: Any, settle: Any, qtbot: Any) -> None:
    """An include sphere that lands beside the bundle would take all streamlines away."""
    panel = live_panel(open_window, settle, make_phantom("cross"))
    session, regions, table = panel.session, panel.session.regions, panel.regions.table
    everything = session.tractogram.digest()
    mouse = Mouse(panel.viewer)
    assert not table.isVisible()
    mouse.click(BESIDE, CONTROL | SHIFT)
    settle(panel)
    assert table.isVisible()  # the section is unfolded: there it says why nothing happens yet
    (entry,) = regions.entries
    assert table.item(0, 0).text() == "Sphere (inactive)"
    assert session.request().regions == ()
    assert session.tractogram.digest() == everything
    mouse.drag(BESIDE, RIGHT_ARM)  # moved: it is used
    assert not entry.is_inactive
    settle(panel)
    qtbot.waitUntil(lambda: session.tractogram.digest() != everything, timeout=WAIT_MS)
    assert table.item(0, 0).text() == "Sphere"
    add_sphere(panel, "exclude")
    assert [region.role for region in session.request().regions] == ["include"]
    role = table.cellWidget(1, 1)
    assert role.currentText() == "exclude"
    role.setFocus()
    role.textActivated.emit("exclude")  # the same role, chosen from the list
    assert [region.role for region in session.request().regions] == ["include", "exclude"]
    mouse.click((0.0, -16.0, -20.0), CONTROL | SHIFT)  # of the role that was chosen last
    assert (regions.entries[2].role, regions.entries[2].is_inactive) == ("exclude", True)
    panel.live.setChecked(False)
    panel.run_button.click()  # a person who presses Run sees what is there
    assert not regions.entries[2].is_inactive
    settle(panel)


def test_a_resized_sphere_and_opened_labels_wake_too(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    regions, table = panel.session.regions, panel.regions.table
    add_sphere(panel, "stop")
    assert not regions.frozen()
    table.cellWidget(0, 2).setValue(7.0)
    assert [entry.is_inactive for entry, _ in regions.frozen()] == [False]
    panel.viewer.add_labels(np.ones(panel.session.fod_layer.data.shape, np.uint8), name="all")
    panel.regions.menu.aboutToShow.emit()
    panel.regions.menu.actions()[0].trigger()
    assert table.item(1, 0).text() == "all (inactive)"
    table.cellWidget(1, 1).setCurrentText("end")
    assert table.item(1, 0).text() == "all"
    assert [entry.role for entry, _ in regions.frozen()] == ["stop", "end"]


def test_regions_that_are_asleep_stay_so_in_the_next_panel(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    add_sphere(panel)
    panel.close_session()
    again = type(panel)(panel.viewer)
    qtbot.addWidget(again)
    assert [entry.is_inactive for entry in again.session.regions.entries] == [True]
    again.close_session()
