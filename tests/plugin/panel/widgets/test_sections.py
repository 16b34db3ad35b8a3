"""What the panel is laid out with: texts that name keys."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from napari_tractography.plugin.panel.measure.outputs import SideBySide
from napari_tractography.plugin.panel.widgets.undo import UndoButtons


@pytest.mark.parametrize(("system", "key"), [("darwin", "Cmd"), ("win32", "Ctrl")])
def test_keys_are_called_as_on_the_keyboard(
    system: str, key: str, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qt has Ctrl be Cmd on a Mac, where Ctrl-click is the right button."""
    monkeypatch.setattr("sys.platform", system)
    buttons, table = UndoButtons(Mock(can_undo=False, can_redo=False)), SideBySide()
    qtbot.addWidget(buttons)
    qtbot.addWidget(table)
    assert f" {key}+Z" in buttons.undo.toolTip()
    assert f" {key}+Shift+Z" in buttons.redo.toolTip()
    assert f" {key}+C " in table.toolTip()
