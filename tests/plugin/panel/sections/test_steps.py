"""What is one step: a drag, a stroke, what is typed; and in which order steps are undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from crossing import BESIDE, CONTROL, SHIFT, live_panel
from hands import Mouse, lie_still
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QAbstractSpinBox, QSlider, QStyle, QStyleOptionSlider

from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.panel.widgets.layout import Section

HERE, THERE = np.array([0.0, 2.0, 2.0]), np.array([0.0, 10.0, -8.0])  # display (z, y, x) mm
SLOW_MS = 150  # between two moves of a slow hand


def press(panel: Any, keys: Any = CONTROL) -> None:
    """Ctrl+Z in the image, or with Shift."""
    QTest.keyClick(panel.viewer.window._qt_viewer.canvas.native, Qt.Key.Key_Z, keys)


def slow_drag(panel: Any, start: np.ndarray, end: np.ndarray, n: int = 6) -> None:
    """Drag with pauses in which previews come and go."""
    mouse = Mouse(panel.viewer)
    mouse.press(start)
    for share in np.linspace(0, 1, n + 1)[1:]:
        mouse.move(start + share * (end - start))
        QTest.qWait(SLOW_MS)
    mouse.release()


def seeds(panel: Any) -> np.ndarray:
    """Display positions (z, y, x) mm."""
    return panel.session.seeds.positions_mm[:, ::-1]


def unfold(panel: Any, inside: Any) -> None:
    """Unfold the section that something is in, in a window that has the keyboard."""
    section = next(s for s in panel.findChildren(Section) if s.isAncestorOf(inside))
    section.header.setChecked(True)
    lie_still(panel)
    panel.window().activateWindow()
    while not panel.window().isActiveWindow():
        QTest.qWait(10)


def steps(panel: Any) -> list[str]:
    """Undo everything; return what was undone, the last first."""
    document, undone = panel.session.document, []
    while document.can_undo:
        undone.append(document.last)
        document.undo()
    return undone


def test_strokes_and_drags_are_undone_in_the_order_in_which_they_were_done(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross)
    session, viewer = panel.session, panel.viewer
    session.add_seed(THERE)
    panel.regions.paint.click()
    (entry,) = session.regions.entries
    mouse = Mouse(viewer)
    mouse.drag(HERE + np.array([0, -8, 0]), HERE + np.array([0, -8, 6]))
    first = entry.layer.data.copy()
    assert first.any()
    mouse.drag(HERE + np.array([0, -12, -8]), HERE + np.array([0, -12, 0]))
    second = entry.layer.data.copy()
    assert (second != first).any()
    panel.regions.paint.click()  # put away
    mouse.drag(THERE, BESIDE)
    np.testing.assert_allclose(seeds(panel), [BESIDE], atol=0.5)
    press(panel)
    np.testing.assert_allclose(seeds(panel), [THERE], atol=0.5)
    np.testing.assert_array_equal(entry.layer.data, second)
    press(panel)  # with the painted layer selected, whose own undo napari would use
    assert viewer.layers.selection.active is entry.layer
    np.testing.assert_array_equal(entry.layer.data, first)
    (region,) = session.regions.of(entry)
    assert region.voxels is not None
    assert region.voxels.sum() == first.astype(bool).sum()
    press(panel, CONTROL | SHIFT)
    np.testing.assert_array_equal(entry.layer.data, second)
    assert steps(panel) == [
        "Paint Region", "Paint Region", "Add region Region", "Place 1 seed",
    ]  # fmt: skip


def test_a_stroke_after_undo_goes_on_from_what_is_painted_then(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross)
    panel.regions.paint.click()
    (entry,) = panel.session.regions.entries
    mouse = Mouse(panel.viewer)
    mouse.drag(HERE, HERE + np.array([0, 0, 6]))
    first = entry.layer.data.copy()
    mouse.drag(THERE, THERE + np.array([0, 0, 6]))
    press(panel)
    mouse.drag(BESIDE, BESIDE + np.array([0, 0, 6]))
    assert (entry.layer.data[first > 0] > 0).all()
    assert entry.layer.data.astype(bool).sum() > first.astype(bool).sum()
    assert not panel.session.document.can_redo
    press(panel)
    np.testing.assert_array_equal(entry.layer.data, first)


def test_a_slow_live_drag_of_a_seed_is_one_step(open_window: Any, settle: Any) -> None:
    panel = live_panel(open_window, settle, make_phantom("cross"))
    panel.session.document.forget()
    first = seeds(panel)
    slow_drag(panel, first[0], THERE)
    settle(panel)
    np.testing.assert_allclose(seeds(panel), [THERE], atol=0.5)
    assert steps(panel) == ["Move seed 1"]
    np.testing.assert_allclose(seeds(panel), first, atol=1e-3)


def test_a_slow_live_drag_of_a_sphere_is_one_step(open_window: Any, settle: Any) -> None:
    panel = live_panel(open_window, settle, make_phantom("cross"))
    Mouse(panel.viewer).click(BESIDE, CONTROL | SHIFT)
    panel.session.document.forget()
    (entry,) = panel.session.regions.entries
    before = entry.state.spheres.copy()
    slow_drag(panel, BESIDE, THERE)
    settle(panel)
    np.testing.assert_allclose(entry.layer.data[:, 1:], [THERE[1:]], atol=0.5)
    assert not entry.is_inactive
    assert steps(panel) == ["Move region Sphere"]
    np.testing.assert_allclose(entry.state.spheres, before)
    assert entry.is_inactive


def handle_of(slider: QSlider) -> QPoint:
    """The middle of the handle of a slider."""
    option = QStyleOptionSlider()
    slider.initStyleOption(option)
    style = QStyle.ComplexControl.CC_Slider, option, QStyle.SubControl.SC_SliderHandle, slider
    return slider.style().subControlRect(*style).center()


def test_a_drag_of_a_slider_is_one_step(
    open_window: Any, cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_tractography.plugin.document.SAME_SECONDS", 0.0)
    panel = open_window(cross)
    session = panel.session
    tracking, style = panel.tracking.controls, panel.appearance.controls
    seeding = panel.seeds.controls
    for controls, name, text, value in (
        (tracking, "max_angle_deg", "Cone angle", lambda: session.parameters.max_angle_deg),
        (style, "width", "Width", lambda: session.state.style["width"]),
        (seeding, "radius_mm", "Seed radius", lambda: session.seeding.radius_mm),
    ):
        control = next(c for c in controls if c.name == name)
        unfold(panel, control.native)
        slider, before, seen = control.slider, value(), set()
        at = handle_of(slider)
        QTest.mousePress(slider, Qt.MouseButton.LeftButton, pos=at)
        for _ in range(6):
            at += QPoint(3, 0)
            QTest.mouseMove(slider, at)
            QTest.qWait(10)
            seen.add(value())
        QTest.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=at)
        assert len(seen) > 2, name
        (step,) = steps(panel)
        assert step.startswith(text)
        assert value() == before
        assert control.value == pytest.approx(before, rel=1e-3)


def keys_into(box: QAbstractSpinBox, text: str) -> None:
    """Type over what a box says, slowly."""
    box.setFocus()
    assert box.hasFocus()
    box.selectAll()
    for letter in text:
        QTest.keyClick(box, letter)
        QTest.qWait(5)


def test_what_is_typed_is_one_step_until_the_box_is_left(
    open_window: Any, cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_tractography.plugin.document.SAME_SECONDS", 0.0)
    panel = open_window(cross)
    session = panel.session
    session.regions.add_sphere(HERE, 5.0)
    unfold(panel, panel.regions)
    session.document.forget()
    (entry,) = session.regions.entries
    size = panel.regions.table.cellWidget(0, 2)
    angle = next(c for c in panel.tracking.controls if c.name == "max_angle_deg")
    was = session.parameters.max_angle_deg
    keys_into(size, "12.5")
    assert entry.layer.radius_mm == pytest.approx(12.5)
    keys_into(angle.box, "31.25")  # which leaves the other
    assert session.parameters.max_angle_deg == 31.25
    QTest.keyClick(angle.box, Qt.Key.Key_Return)
    keys_into(angle.box, "22")
    assert session.document.last == "Cone angle 22 degrees"
    assert panel.seeds.undo.undo.isEnabled()
    assert steps(panel) == [
        "Cone angle 22 degrees", "Cone angle 31.25 degrees", "Radius of Sphere",
    ]  # fmt: skip
    assert session.parameters.max_angle_deg == was
    assert entry.layer.radius_mm == pytest.approx(5.0)


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_enter_in_a_box_chooses_nothing_that_was_not_typed(
    open_window: Any, cross: Any, key: Any
) -> None:
    """The cone angle is shown rounded, and what the FOD suggests stays a suggestion."""
    panel = open_window(cross)
    session = panel.session
    session.regions.add_sphere(HERE, 5.0)
    for section in panel.findChildren(Section):
        section.header.setChecked(True)
    lie_still(panel)
    document, now = session.document, session.document.now
    boxes = [box for box in panel.findChildren(QAbstractSpinBox) if box.isVisible()]
    assert len(boxes) > 15
    for box in boxes:
        QTest.keyClick(box, key)
        assert document.now is now, (document.last, box.toolTip())
    unfold(panel, panel.regions)
    radius = panel.regions.table.cellWidget(0, 2)
    keys_into(radius, "7")
    QTest.keyClick(radius, key)
    assert document.last == "Radius of Sphere"
    keys_into(radius, "9")
    assert document.last == "Radius of Sphere"
    document.undo()
    assert session.regions.entries[0].layer.radius_mm == pytest.approx(7.0)


def test_escape_in_a_box_takes_back_what_was_typed(open_window: Any, cross: Any) -> None:
    """The number of before stands, automatic where it was, and there is no step."""
    panel = open_window(cross)
    session = panel.session
    session.regions.add_sphere(HERE, 5.0)
    for section in panel.findChildren(Section):
        section.header.setChecked(True)
    unfold(panel, panel.regions)
    document = session.document
    document.forget()
    angle = next(c for c in panel.tracking.controls if c.name == "max_angle_deg")
    width = next(c for c in panel.appearance.controls if c.name == "width")
    number = next(c for c in panel.seeds.controls if c.name == "n_per_seed").native
    radius = panel.regions.table.cellWidget(0, 2)
    for box in (angle.box, width.box, number, radius):
        now, before, shown = document.now, box.value(), box.text()
        keys_into(box, "3")
        assert document.now is not now
        keys_into(box, "")  # a box that is empty has no number
        QTest.keyClick(box, Qt.Key.Key_Delete)
        QTest.keyClick(box, Qt.Key.Key_Escape)
        assert (box.value(), box.text()) == (before, shown)
        assert document.now is now
    assert not document.can_undo
    assert "max_angle_deg" not in session.tracking.chosen
    keys_into(radius, "7")
    QTest.keyClick(radius, Qt.Key.Key_Return)
    QTest.keyClick(radius, Qt.Key.Key_Escape)  # what was confirmed stays
    assert session.regions.entries[0].layer.radius_mm == pytest.approx(7.0)
    assert document.last == "Radius of Sphere"


def test_undo_in_a_box_takes_back_what_was_done_last(open_window: Any, cross: Any) -> None:
    """And not a letter: there is one order for everything."""
    panel = open_window(cross)
    session = panel.session
    session.add_seed(HERE)
    angle = next(c for c in panel.tracking.controls if c.name == "max_angle_deg")
    unfold(panel, angle.native)
    was = session.parameters.max_angle_deg
    keys_into(angle.box, "31.5")
    QTest.keyClick(angle.box, Qt.Key.Key_Z, CONTROL)
    assert session.parameters.max_angle_deg == was
    assert angle.value == pytest.approx(was, rel=1e-3)
    assert len(session.seeds) == 1
    QTest.keyClick(angle.box, Qt.Key.Key_Z, CONTROL)
    assert len(session.seeds) == 0
    QTest.keyClick(angle.box, Qt.Key.Key_Z, CONTROL | SHIFT)
    assert len(session.seeds) == 1


def test_the_buttons_of_seeds_and_regions_say_what_they_undo(open_window: Any, cross: Any) -> None:
    panel = open_window(cross)
    session = panel.session
    buttons = panel.seeds.undo, panel.regions.undo
    for inside in (panel.seeds, panel.regions):
        unfold(panel, inside)
    for source in ("placed seeds", "whole FOD"):
        session.seeds.remove(range(len(session.seeds)))
        panel.set_parameters(source=source)
        session.document.forget()
        for pair in buttons:
            assert pair.isVisible()
            assert not pair.undo.isEnabled()
            assert ":" not in pair.undo.toolTip()
        session.add_seed(HERE)
        session.move_seed(0, THERE)
        for pair in buttons:
            assert "Move seed 1" in pair.undo.toolTip()
        click: Callable[..., None] = QTest.mouseClick
        click(buttons[1].undo, Qt.MouseButton.LeftButton)
        for pair in buttons:
            assert "Place 1 seed" in pair.undo.toolTip()
            assert "Move seed 1" in pair.redo.toolTip()
        click(buttons[0].redo, Qt.MouseButton.LeftButton)
        np.testing.assert_allclose(seeds(panel), [THERE], atol=1e-3)
