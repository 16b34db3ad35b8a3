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
    QSlider,
    QTableView,
    QWidget,
)

from napari_tractography.plugin.panel.widgets.sections import Section

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


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_what_has_the_focus_shows_it_and_keeps_its_size(panel: Any, theme: str) -> None:
    panel.viewer.theme = theme
    slider = next(each for each in panel.findChildren(QSlider) if each.isVisible())
    for widget in (panel.run_button, panel.live, panel.fod_choice.native, panel.output, slider):
        panel.save_button.setFocus()
        size, before = widget.sizeHint(), widget.grab().toImage()
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        assert widget.grab().toImage() != before, widget
        assert widget.sizeHint() == size, widget


def test_each_label_stands_for_a_control_that_takes_the_focus(panel: Any) -> None:
    buddies = [label.buddy() for label in panel.findChildren(QLabel) if label.buddy() is not None]
    assert len(buddies) > 20
    for buddy in buddies:
        target = buddy.focusProxy() or buddy
        assert target.focusPolicy() & Qt.FocusPolicy.TabFocus, buddy
