"""The ruler: distances between two places of the image, by a drag of the mouse."""

from __future__ import annotations

import numpy as np
import pytest
from hands import Mouse, lie_still
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from napari_tractography import Tractogram
from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.space.views import FOUR_UP, SPACE
from napari_tractography.plugin.streamlines.layer import Streamlines

START, END = np.array([0.0, -8.0, -12.0]), np.array([0.0, 8.0, 0.0])  # display (z, y, x): 20 mm
ASIDE = np.array([4.0, 10.0, 14.0])
LEFT, CONTROL = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def panel(open_window, cross):
    panel = open_window(cross)
    panel.viewer.dims.set_point(0, 0.0)
    return panel


def canvas(panel):
    return panel.viewer.window._qt_viewer.canvas.native


def start(panel):
    """Press the key of the ruler."""
    QTest.keyClick(canvas(panel), Qt.Key.Key_9, CONTROL)
    assert panel.scene.ruler.is_on


def rulers(panel):
    return [layer for layer in panel.viewer.layers if layer.name == "Ruler"]


def test_a_drag_in_a_slice_measures_and_escape_takes_the_ruler_away(panel):
    start(panel)
    ruler, centre = panel.scene.ruler, panel.viewer.scene.camera.center
    n_steps = panel.session.document.can_undo
    Mouse(panel.viewer).drag(START, END)
    assert ruler.length_mm == pytest.approx(20.0, abs=0.6)  # to a pixel
    assert panel.viewer.status == ruler.text
    assert panel.viewer.scene.camera.center == centre
    assert [text for text in ruler.layer.text.values if text] == [ruler.text]
    np.testing.assert_allclose(ruler.layer.ends, [START, END], atol=0.5)
    Mouse(panel.viewer).drag(END, START / 2)
    (layer,) = rulers(panel)
    assert layer is ruler.layer
    np.testing.assert_allclose(layer.ends, [END, START / 2], atol=0.5)
    assert panel.session.document.can_undo == n_steps
    QTest.keyClick(canvas(panel), Qt.Key.Key_Escape)
    assert not rulers(panel)
    assert not ruler.is_on
    Mouse(panel.viewer).drag(START, END)
    assert not rulers(panel)


def test_the_button_and_the_list_of_layers_take_it_away_too(panel):
    button = panel.scene.ruler.button
    assert panel.scene.bar.isAncestorOf(button)
    for take_away in (
        lambda: QTest.mouseClick(button, LEFT),
        lambda: panel.viewer.layers.remove("Ruler"),
    ):
        button.setChecked(True)
        Mouse(panel.viewer).drag(START, END)
        assert len(rulers(panel)) == 1
        take_away()
        assert not rulers(panel)
        assert panel.scene.ruler.length_mm == 0


def test_it_says_the_unit_of_the_image_and_leaves_the_sliders_alone(open_window):
    brain = make_phantom("cross", lmax=2)
    grid = type(brain.grid)(brain.grid.shape, np.diag([0.002] * 3 + [1]), unit="um")
    panel = open_window(Fod(brain.coefficients, grid))
    before = panel.viewer.dims.range
    start(panel)
    Mouse(panel.viewer).drag(START + ASIDE, END + ASIDE)
    assert panel.scene.ruler.length_mm == pytest.approx(0.02, abs=1e-3)
    assert panel.scene.ruler.text.endswith("µm")
    assert panel.viewer.dims.range == before


def test_in_3d_it_goes_by_what_is_under_the_mouse(panel):
    scene, viewer = panel.scene, panel.viewer
    viewer.layers[0].visible = False
    line = np.array([(x, 0.0, 6.0) for x in np.linspace(-20, 20, 81)])
    layer = Streamlines(Tractogram.from_streamlines([line]), space=panel.session.space)
    viewer.add_layer(layer)
    scene.slices.box.setChecked(False)
    scene.show_view(SPACE)
    viewer.reset_view()
    lie_still(panel)
    scene.ruler.button.setChecked(True)
    angles = viewer.scene.camera.angles
    Mouse(viewer).drag((6.0, 0.0, -15.0), (6.0, 0.0, 10.0), n=8)
    np.testing.assert_allclose(scene.ruler.layer.ends, [(6, 0, -15), (6, 0, 10)], atol=1.0)
    assert viewer.scene.camera.angles == angles


def test_a_slice_beside_3d_measures_with_it(panel):
    panel.scene.show_view(FOUR_UP)
    QTest.qWait(50)
    panel.scene.four_up.refresh()
    panel.scene.ruler.button.setChecked(True)
    pane = panel.scene.four_up.panes["axial"]
    crosshair = panel.scene.four_up.shared.crosshair
    bare = pane.grab().toImage()
    ends = [pane.pixel_of(place).toPoint() for place in (START, END)]
    QTest.mousePress(pane, LEFT, Qt.KeyboardModifier.NoModifier, ends[0])
    QTest.mouseMove(pane, ends[1])
    QTest.mouseRelease(pane, LEFT, Qt.KeyboardModifier.NoModifier, ends[1])
    assert panel.scene.ruler.length_mm == pytest.approx(20.0, abs=0.6)
    np.testing.assert_array_equal(panel.scene.four_up.shared.crosshair, crosshair)
    assert pane.grab().toImage() != bare


def test_the_ruler_puts_a_brush_away_and_leaves_drags_to_the_next_one(panel):
    regions = panel.session.regions
    layer = regions.add_painting().layer
    start(panel)
    assert regions.painted_layer is None
    Mouse(panel.viewer).drag(START, END)
    assert len(rulers(panel)) == 1
    assert not layer.data.any()
    regions.paint(regions.entries[0])
    ends = panel.scene.ruler.layer.ends
    Mouse(panel.viewer).drag(END, START / 2)
    assert layer.data.any()
    np.testing.assert_array_equal(panel.scene.ruler.layer.ends, ends)
