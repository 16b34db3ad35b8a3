"""The axis of helix angles: two clicks in the view draw it, and it stays with its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from napari_tractography.maps.angles import Axis
from napari_tractography.plugin.panel.display.axis import AxisLine
from napari_tractography.plugin.streamlines.colours import ELEVATION, HELIX
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.streamlines.tractogram import Tractogram

from ...hands import Mouse

AXIS = Axis((0.0, 0.0, -9.0), (0.0, 0.0, 9.0))


def helices() -> Tractogram:
    """One right-handed at 60 degrees, one left-handed at 30."""
    t = np.linspace(0, 1, 60)[:, None]
    lines = [
        np.hstack([4 * np.cos(t), 4 * np.sin(t), 4 * np.tan(np.deg2rad(angle)) * t])
        for angle in (60, -30)
    ]
    return Tractogram.from_streamlines(lines)


def test_colours_are_angles_about_the_axis() -> None:
    layer = Streamlines(helices(), colour_by=HELIX)
    assert np.ptp(layer.colours.rgba, axis=0).max() == 0  # all grey: there is no axis
    assert "draw the axis" in layer.colours.label
    layer.axis = AXIS
    assert layer.colours.limits == (-90, 90)
    one, other = layer.colours.rgba[:60], layer.colours.rgba[60:]
    assert np.ptp(one, axis=0).max() < 0.05
    assert np.abs(one.mean(axis=0) - other.mean(axis=0)).max() > 0.3
    layer.colour_by = ELEVATION
    assert layer.colours.limits == (0, 90)


def test_colours_of_what_arrives_later_keep_their_legend() -> None:
    layer = Streamlines(helices(), colour_by=HELIX)
    layer.axis = AXIS
    layer.append(helices())
    assert layer.colours.limits == (-90, 90)
    np.testing.assert_array_equal(layer.colours.rgba[:120], layer.colours.rgba[120:])


def show(panel: Any) -> Streamlines:
    """Helices as the result of the active bundle, coloured by their angle."""
    session = panel.session
    layer = session.ensure_streamlines_layer()
    layer.tractogram = helices()
    panel.appearance._colour_by.value = HELIX
    return layer


def test_two_clicks_draw_the_axis(open_window: Any, cross: Any) -> None:
    panel = open_window(cross)
    layer = show(panel)
    axis = panel.appearance.axis
    viewer = panel.viewer
    axis.button.click()
    assert axis.text.text() == "Click one end."
    mouse = Mouse(viewer)
    for z, x in ((-4.0, -6.0), (4.0, 8.0)):
        viewer.dims.set_point(0, z)
        place = (viewer.dims.point[0], 2.0, x)
        mouse.drag(place, (place[0], 6.0, x - 5), n=1)  # moves the view, and draws nothing
        viewer.reset_view()
        mouse.click(place)
    assert not axis.button.isChecked()
    assert axis.on_press not in viewer.mouse_drag_callbacks
    drawn = axis.value
    assert drawn is not None
    np.testing.assert_allclose(drawn.end_mm[0] - drawn.start_mm[0], 14.0, atol=0.5)  # two pixels
    np.testing.assert_allclose([drawn.start_mm[1], drawn.end_mm[1]], 2.0, atol=0.5)
    assert drawn.end_mm[2] > drawn.start_mm[2]
    assert layer.axis == drawn
    (line,) = (each for each in viewer.layers if isinstance(each, AxisLine))
    ends = line.data[0, 0], line.data[-1].sum(axis=0)
    for end, wanted in zip(ends, (drawn.start_mm, drawn.end_mm), strict=True):
        np.testing.assert_allclose(line.data_to_world(end)[::-1], wanted, atol=1e-4)
    assert line._view_data.size  # napari shows a piece of it in this slice
    panel.appearance._colour_by.value = "length"
    assert line not in viewer.layers
    assert panel.appearance.form.isAncestorOf(axis.native)
    assert axis.native.isHidden()


def test_a_click_twice_at_one_place_draws_nothing(
    open_window: Any, cross: Any, notes: list[str]
) -> None:
    panel = open_window(cross)
    show(panel)
    axis = panel.appearance.axis
    axis.button.click()
    mouse = Mouse(panel.viewer)
    for _ in range(2):
        mouse.click((panel.viewer.dims.point[0], 2.0, 3.0))
    assert axis.value is None
    assert axis.text.text() == "Click the other end."
    assert "same place" in notes[0]
    axis.button.click()
    assert axis.text.text() == "none"


@pytest.mark.parametrize("kept", [AXIS.numbers, None, "north"], ids=["axis", "none", "nonsense"])
def test_the_axis_is_kept_with_its_bundle(open_model: Any, cross: Any, kept: Any) -> None:
    panel = open_model(cross)
    show(panel)
    panel.appearance.axis.value = AXIS
    style = panel.appearance.style
    assert style["axis"] == AXIS.numbers
    panel.appearance.show_style({**style, "axis": kept}, "#ffffff")
    assert panel.appearance.axis.value == (AXIS if kept == AXIS.numbers else None)


def test_the_axis_is_saved_with_a_project(
    open_model: Any, cross: Any, tmp_path: Path, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.run_button.click()
    settle(panel)
    panel.appearance._colour_by.value = HELIX
    panel.appearance.axis.value = AXIS
    assert panel.session.streamlines_layer.axis == AXIS
    path = tmp_path / "heart.tracts.json"
    project = panel.project
    assert project.save(path)
    assert str(AXIS.end_mm[2]) in path.read_text("utf-8")
