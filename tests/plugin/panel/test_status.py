"""Where the mouse is, as the status bar, the seed table and the tooltips of regions say it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import OBLIQUE, Mouse, lie_still
from qtpy.QtCore import Qt, QThread

from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.stop import StopReason
from napari_tractography.plugin.layers.volume_layers import fod_of
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.positions import position_title

SHIFT = Qt.KeyboardModifier.ShiftModifier


def labels_of_sliders(panel: Any) -> list[str]:
    sliders = panel.viewer.window._qt_viewer.dims.slider_widgets
    return [slider.axis_label.text() for slider in sliders]


@pytest.mark.parametrize("affine", [np.diag([2.0, 2, 2, 1]), OBLIQUE], ids=["straight", "oblique"])
def test_mouse_table_and_region_say_the_same_place(
    open_window: Any, qtbot: Any, affine: Any
) -> None:
    fod = make_phantom("cross", affine=affine, lmax=4)
    panel = open_window(fod)
    session, viewer = panel.session, panel.viewer
    (place,) = session.space.to_display(fod.grid.to_mm([[17, 10, 5]]))
    viewer.dims.set_point(range(3), place)
    lie_still(panel)
    mouse, window = Mouse(viewer), viewer.window._qt_window
    QThread.start(window.status_thread)  # napari's fixture keeps it from starting
    bar = window.statusBar()
    viewer.layers.selection.active = session.fod_layer
    mouse.hover(place)
    qtbot.waitUntil(lambda: bar._coordinates.text().startswith("R "), timeout=10_000)
    said, value = bar._coordinates.text().split(": ")
    mouse.click(place, SHIFT)
    table = panel.seeds.table.model()
    assert table.headerData(0, Qt.Orientation.Horizontal) == position_title() == "R, A, S (mm)"
    numbers = table.data(table.index(0, 0))
    names = zip("RAS", numbers.split(", "), strict=True)
    assert said == ", ".join(f"{axis} {number}" for axis, number in names) + " mm"
    # The values are those of the file: its voxel, and its amplitude there.
    where = [float(number) for number in numbers.split(", ")]
    assert fod.grid.to_voxel(np.array([where]))[0] == pytest.approx([17, 10, 5], abs=0.5)
    assert float(value) == pytest.approx(fod.isotropic()[17, 10, 5], rel=0.01)
    seed = session.seeds.positions_mm[0]
    session.regions.add_sphere(session.space.to_display(seed[None])[0], 4.0)
    assert said in panel.regions.table.item(0, 0).toolTip()


def test_why_a_streamline_ended_is_told_in_the_words_of_what_is_tracked_in(
    open_model: Any,
) -> None:
    tensors = np.tile(np.float32([3, 1, 1, 0, 0, 0]), (4, 4, 4, 1))
    panel = open_model(Fod.from_tensors(tensors, np.eye(4)))
    viewer = panel.viewer
    viewer.layers.selection.active = panel.session.fod_layer
    value = f"0.7; streamline 3: {StopReason.LOW_AMPLITUDE.text}"
    viewer.status = {"coords": "[2 2 2]", "value": value, "coordinates": value}
    assert viewer.status["coordinates"].endswith("FA below the minimum amplitude")
    viewer.status = {"coords": "[2 2 2]", "value": "", "coordinates": ""}  # of a hidden layer
    assert viewer.status["coordinates"] == viewer.status["coords"] != ""


def test_another_fod_says_places_of_its_own_grid(open_window: Any, cross: Any) -> None:
    """While another is tracked: the place told is the voxel that the mouse is on."""
    other = make_phantom("letter", affine=OBLIQUE, lmax=4)
    panel = open_window(cross, other)
    viewer = panel.viewer
    layer = next(layer for layer in viewer.layers if fod_of(layer) is other)
    panel.session.choose_fod(next(each for each in viewer.layers if fod_of(each) is cross))
    viewer.layers.selection.active = layer
    voxel = np.array([7.0, 9, 5])
    (place,) = DisplaySpace.of(other.grid).to_display(other.grid.to_mm(voxel[None]))
    viewer.dims.set_point(range(3), place)
    lie_still(panel)
    viewer.mouse_over_canvas = True
    viewer.cursor.position = tuple(place)
    viewer.update_status_from_cursor()
    words = viewer.status["coords"].removesuffix(" mm").split(", ")
    assert [word[0] for word in words] == ["R", "A", "S"]
    where = [float(word[2:]) for word in words]
    assert other.grid.to_voxel(np.array([where]))[0] == pytest.approx(voxel, abs=0.1)


def test_in_3d_a_line_of_sight_is_no_position(open_window: Any, cross: Any, qtbot: Any) -> None:
    panel = open_window(cross)
    panel.viewer.dims.ndisplay = 3
    lie_still(panel)
    mouse, window = Mouse(panel.viewer), panel.viewer.window._qt_window
    panel.viewer.layers.selection.active = panel.session.fod_layer
    QThread.start(window.status_thread)
    mouse.hover((0.0, 0.0, 0.0))
    qtbot.waitUntil(lambda: panel.viewer.status != "Ready", timeout=10_000)
    qtbot.wait(200)
    assert "[" not in window.statusBar()._coordinates.text()
    assert "R " not in window.statusBar()._coordinates.text()


def test_sliders_have_the_names_of_the_axes_and_other_layers_keep_theirs(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross)
    lie_still(panel)
    assert labels_of_sliders(panel) == ["S", "A", "R"]
    viewer = panel.viewer
    other = viewer.add_image(np.zeros((3, 5, 6, 7)), axis_labels=("t", "z", "y", "x"), name="4-D")
    assert tuple(viewer.dims.axis_labels) == ("t", "z", "y", "x")
    viewer.layers.remove(other)
    plain = viewer.add_image(np.zeros((3, 5, 6, 7)), name="plain")
    assert tuple(viewer.dims.axis_labels)[1:] == ("S", "A", "R")
    viewer.layers.remove(plain)
    assert tuple(viewer.dims.axis_labels) == ("S", "A", "R")


def test_status_of_layers_of_others_is_left_alone(open_window: Any, cross: Any, qtbot: Any) -> None:
    panel = open_window(cross)
    viewer = panel.viewer
    viewer.layers.selection.active = viewer.add_image(np.zeros((10, 24, 32)), scale=(2, 2, 2))
    lie_still(panel)
    viewer.mouse_over_canvas = True
    viewer.update_status_from_cursor()
    assert viewer.status["coords"].startswith("[")
