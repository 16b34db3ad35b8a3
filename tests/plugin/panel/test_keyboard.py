"""The panel without a mouse: real Tab keys reach every control, in order, and it shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, lie_still
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QSlider,
    QTableView,
    QWidget,
)

from napari_tractography.plugin.panel.measure.cohort import CohortDialog
from napari_tractography.plugin.panel.measure.sweep_dialog import SweepDialog
from napari_tractography.plugin.panel.widgets.layout import Section

CONTROLS = (QAbstractButton, QAbstractSpinBox, QComboBox, QSlider, QTableView)


@pytest.fixture
def panel(open_window: Any, cross: Any, settle: Any, qtbot: Any) -> Any:
    """A panel with a result, a seed and a region, all sections open, the focus on the first."""
    panel = open_window(cross, size=(1280, 800))
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.session.regions.add_sphere(np.array([0.0, 0.0, 12.0]), 5.0)
    panel.run()
    settle(panel)
    sections = panel.findChildren(Section)
    for section in sections:
        section.header.setChecked(True)
    lie_still(panel)
    panel.window().activateWindow()
    sections[0].header.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(sections[0].header.hasFocus, timeout=WAIT_MS)
    return panel


def controls_in(panel: Any) -> list[QWidget]:
    """What a hand could click: not the parts of a table."""
    found = [w for kind in CONTROLS for w in panel.findChildren(kind)]
    return [
        w
        for w in found
        if w.isVisible() and w.isEnabled() and w.focusPolicy() != Qt.FocusPolicy.NoFocus
    ]


def test_tab_reaches_every_control_from_top_to_bottom(panel: Any) -> None:
    wanted = set(controls_in(panel))
    assert len(wanted) > 40
    reached: list[QWidget] = []
    focus = QApplication.focusWidget()
    while panel.isAncestorOf(focus) and focus not in reached:
        reached.append(focus)
        assert not focus.visibleRegion().isEmpty(), focus  # scrolled to where it is seen
        n_links = focus.text().count("<a ") if isinstance(focus, QLabel) else 0
        for _ in range(1 + n_links):  # the links of a text come one after the other
            if QApplication.focusWidget() is focus:
                QTest.keyClick(focus, Qt.Key.Key_Tab)
        focus = QApplication.focusWidget()
    assert wanted <= set(reached), wanted - set(reached)
    titles = [s.title for s in panel.findChildren(Section)]
    order = [s.header for s in panel.findChildren(Section)]
    assert [reached.index(header) for header in order] == sorted(
        reached.index(header) for header in order
    ), titles
    reached[1].setFocus()
    QTest.keyClick(reached[1], Qt.Key.Key_Backtab)
    assert QApplication.focusWidget() is reached[0]


def test_space_folds_a_section_and_what_is_folded_is_passed_over(panel: Any) -> None:
    data, seeds = panel.findChildren(Section)[:2]
    QTest.keyClick(data.header, Qt.Key.Key_Space)
    assert not data.content.isVisible()
    QTest.keyClick(data.header, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is seeds.header


def test_what_has_the_focus_shows_it_and_keeps_its_size(panel: Any) -> None:
    slider = next(each for each in panel.findChildren(QSlider) if each.isVisible())
    for theme in ("dark", "light"):
        panel.viewer.theme = theme
        for widget in (
            panel.run_button,
            panel.live,
            panel.data.fod_choice.native,
            panel.export,
            slider,
        ):
            panel.save_button.setFocus()
            size, before = widget.sizeHint(), widget.grab().toImage()
            widget.setFocus(Qt.FocusReason.TabFocusReason)
            assert widget.grab().toImage() != before, (theme, widget)
            assert widget.sizeHint() == size, (theme, widget)


def test_each_label_stands_for_a_control_that_takes_the_focus(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    buddies = [label.buddy() for label in panel.findChildren(QLabel) if label.buddy() is not None]
    assert len(buddies) > 20
    for buddy in buddies:
        target = buddy.focusProxy() or buddy
        assert target.focusPolicy() & Qt.FocusPolicy.TabFocus, buddy


def test_every_control_has_a_name_that_can_be_read_aloud(
    panel: Any, cross: Any, qtbot: Any
) -> None:
    """By its text, its label or a name of its own; a glyph is none."""
    sweep = SweepDialog(panel.session, lambda **_values: None, panel)
    cohort = CohortDialog("sub-*.mif", panel)
    for dialog in (sweep, cohort):
        qtbot.addWidget(dialog)
        dialog.show()
    for root in (panel, sweep, cohort):
        labels = {each.buddy(): each.text() for each in root.findChildren(QLabel)}
        for control in [*controls_in(root), *root.findChildren(QLineEdit)]:
            if isinstance(control.parent(), QAbstractSpinBox) or not control.isVisible():
                continue
            text = control.text() if isinstance(control, QAbstractButton) else ""
            name = control.accessibleName() or labels.get(control, "") or text
            assert any(letter.isalnum() for letter in name), (control, control.toolTip())
    sweep.reject()


def focused(panel: Any, widget: QWidget, qtbot: Any) -> QWidget:
    """Give a widget of the panel the focus, as a click does."""
    panel.window().activateWindow()
    widget.setFocus(Qt.FocusReason.MouseFocusReason)
    qtbot.waitUntil(widget.hasFocus, timeout=WAIT_MS)
    return widget


CTRL = Qt.KeyboardModifier.ControlModifier
REDO = CTRL | Qt.KeyboardModifier.ShiftModifier


def test_ctrl_z_undoes_what_was_done_last_wherever_the_focus_is(
    open_window: Any, cross: Any, qtbot: Any
) -> None:
    """Whatever that was: not what the part of the panel that has the focus is for."""
    panel = open_window(cross, size=(1280, 800))
    session = panel.session
    session.add_seeds_mm(np.zeros((1, 3)))
    session.regions.add_sphere(np.array([0.0, 0.0, 12.0]), 5.0)
    panel.bundles.add("other")
    session.add_seeds_mm(np.ones((1, 3)))
    session.regions.add_sphere(np.array([0.0, 4.0, 12.0]), 5.0)
    session.add_seeds_mm(np.full((1, 3), 2.0))
    for section in panel.findChildren(Section):
        section.header.setChecked(section.title in ("Bundles", "Seeds", "Regions"))
    widgets = (
        panel.bundle_list.table,
        panel.seeds.table,
        panel.regions.table,
        next(c for c in panel.seeds.controls if c.name == "n_per_seed").native,
        panel.run_button,
        panel.seeds.source.native,
    )
    lie_still(panel)
    for widget in widgets:
        focused(panel, widget, qtbot)
        QTest.keyClick(widget, Qt.Key.Key_Z, CTRL)
        assert len(session.seeds) == 1, widget
        assert len(session.regions.entries) == 1
        QTest.keyClick(widget, Qt.Key.Key_Z, CTRL)
        assert len(session.regions.entries) == 0
        QTest.keyClick(widget, Qt.Key.Key_Z, REDO)
        QTest.keyClick(widget, Qt.Key.Key_Z, REDO)
        assert len(session.seeds) == 2
    for _ in range(4):
        QTest.keyClick(widgets[0], Qt.Key.Key_Z, CTRL)
    assert [bundle.name for bundle in panel.bundles.bundles] == ["Bundle 1"]
    assert len(session.seeds) == 1


def test_ctrl_z_in_a_number_undoes_what_was_typed_as_a_step(
    open_window: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_window(cross, size=(1280, 800))
    number = next(c for c in panel.seeds.controls if c.name == "n_per_seed").native
    before = number.value()
    focused(panel, number, qtbot)
    number.selectAll()
    QTest.keyClicks(number, "73")
    assert panel.session.seeding.n_per_seed == 73
    QTest.keyClick(number, Qt.Key.Key_Z, CTRL)
    assert panel.session.seeding.n_per_seed == before == number.value()


def test_delete_and_backspace_remove_what_is_selected_in_each_table(
    open_window: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_window(cross, size=(1280, 800))
    session = panel.session
    for section in panel.findChildren(Section):
        section.header.setChecked(section.title in ("Bundles", "Seeds", "Regions"))
    panel.bundles.add("other")
    session.add_seeds_mm(np.array([[0.0, 0, 0], [1, 1, 1]]))
    for y in (0.0, 4.0):
        session.regions.add_sphere(np.array([0.0, y, 12.0]), 5.0)
    lie_still(panel)
    for key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
        panel.seeds.table.selectRow(0)
        QTest.keyClick(focused(panel, panel.seeds.table, qtbot), key)
        np.testing.assert_allclose(session.seeds.positions_mm, np.ones((1, 3)), atol=1e-4)
        first = session.regions.entries[0]
        panel.regions.table.selectRow(0)
        QTest.keyClick(focused(panel, panel.regions.table, qtbot), key)
        assert len(session.regions.entries) == 1
        assert session.regions.entries[0] is not first
        QTest.keyClick(focused(panel, panel.bundle_list.table, qtbot), key)
        assert [bundle.name for bundle in panel.bundles.bundles] == ["Bundle 1"]
        for wanted in ([1, 1], [1, 2], [2, 2]):
            QTest.keyClick(panel.bundle_list.table, Qt.Key.Key_Z, CTRL)
            assert [len(session.seeds), len(session.regions.entries)] == wanted
