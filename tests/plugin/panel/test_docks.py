"""The panel in three docks, and back in one."""

from __future__ import annotations

from typing import Any

import pytest
from hands import lie_still
from napari.settings import get_plugin_settings
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QDockWidget

from napari_tractography.plugin.panel.docks import DOCKS
from napari_tractography.plugin.panel.keys import COMMANDS
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.settings import PLUGIN
from napari_tractography.plugin.panel.widgets.layout import Section

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def panel(open_window: Any, cross: Any) -> Any:
    return open_window(cross)


def dock_of(widget: Any) -> QDockWidget:
    while not isinstance(widget, QDockWidget):
        widget = widget.parentWidget()
    return widget


def titles(part: Any) -> list[str]:
    """The sections in a widget, from top to bottom."""
    found = sorted(part.findChildren(Section), key=lambda s: s.mapTo(part, s.rect().topLeft()).y())
    return [section.title for section in found]


def test_sections_move_to_docks_of_their_own_and_back(panel: Any) -> None:
    whole = titles(panel)
    assert len(whole) == 12
    panel.docks.action.trigger()
    lie_still(panel)
    bundles, display = panel.docks.parts
    assert {dock_of(part).windowTitle() for part in (bundles, display)} == set(DOCKS)
    assert titles(bundles) == ["Bundles", "Selection"]
    assert titles(display) == ["Display", "Measure", "View"]
    assert titles(panel) == [t for t in whole if t not in titles(bundles) + titles(display)]
    assert panel.isAncestorOf(panel.run_button)
    n = len(panel.bundles.bundles)
    QTest.mouseClick(panel.bundle_list.new, LEFT)
    assert len(panel.bundles.bundles) == n + 1
    panel.bundle_list.table.setFocus()
    QTest.keyClick(bundles, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert len(panel.bundles.bundles) == n
    panel.docks.action.trigger()
    lie_still(panel)
    assert titles(panel) == whole
    window = panel.viewer.window._qt_window
    QTest.qWait(50)
    assert not {d.windowTitle() for d in window.findChildren(QDockWidget)} & set(DOCKS)


def test_closing_one_of_the_docks_brings_all_back(panel: Any, qtbot: Any) -> None:
    whole = titles(panel)
    panel.docks.action.trigger()
    dock_of(panel.docks.parts[0]).destroyOnClose()  # the cross of its title
    qtbot.waitUntil(lambda: not panel.docks.parts)
    lie_still(panel)
    assert titles(panel) == whole
    assert not panel.docks.action.isChecked()


def test_a_panel_that_is_opened_again_is_as_it_was(panel: Any, qtbot: Any) -> None:
    viewer = panel.viewer
    panel.docks.action.trigger()
    panel.settings.close_section()  # which writes what is set
    panel.settings.open()
    dock_of(panel).destroyOnClose()
    assert len(titles(panel)) == 12
    QTest.qWait(50)
    window = viewer.window._qt_window
    assert not {d.windowTitle() for d in window.findChildren(QDockWidget)} & set(DOCKS)
    again = TractographyPanel(viewer)
    assert not again.docks.parts  # it is in no dock yet
    viewer.window.add_dock_widget(again, name="Tractography", area="right")
    qtbot.waitUntil(lambda: bool(again.docks.parts))
    lie_still(again)
    again.settings.restore_defaults()
    assert not again.docks.parts
    assert len(titles(again)) == 12
    again.close_session()


def test_a_window_closes_with_three_docks(panel: Any) -> None:
    panel.docks.action.trigger()
    lie_still(panel)
    panel.viewer.close()
    assert not panel.docks.parts
    assert get_plugin_settings(PLUGIN).panel.three_docks  # for the next time


def test_without_a_window_nothing_is_moved(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.docks.action.trigger()
    assert not panel.docks.parts
    assert len(panel.findChildren(Section)) == 12


@pytest.mark.parametrize("are_three", [False, True])
def test_commands_bring_a_section_to_the_front(panel: Any, qtbot: Any, are_three: bool) -> None:
    if are_three:
        panel.docks.action.trigger()
        lie_still(panel)
    for name, title in (
        ("show_measures", "Measure"),
        ("show_tracking", "Tracking"),
        ("show_bundles", "Bundles"),
        ("show_display", "Display"),
    ):
        COMMANDS[name].act(panel)
        parts = panel, *panel.docks.parts
        (section,) = (s for p in parts for s in p.findChildren(Section) if s.title == title)
        assert section.header.isChecked()
        qtbot.waitUntil(lambda s=section: not s.header.visibleRegion().isEmpty())
