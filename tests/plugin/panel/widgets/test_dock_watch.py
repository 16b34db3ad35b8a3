"""Whether a docked widget is in use."""

from __future__ import annotations

from typing import Any

import pytest
from qtpy.QtCore import QEvent, Qt, QTimer
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from napari_tractography.plugin.panel.widgets.dock_watch import DockWatch


class Stage:
    """A widget in a dock in a window, and what its DockWatch told."""

    def __init__(self, qtbot: Any) -> None:
        self.told: list[str] = []
        self.window = QMainWindow()
        qtbot.addWidget(self.window)
        self.widget = QWidget()
        self.presence = DockWatch(
            self.widget,
            opened=lambda: self.told.append("opened"),
            closed=lambda: self.told.append("closed"),
        )
        self.dock = QDockWidget()
        self.dock.setWidget(self.widget)
        self.window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.dock)
        self.window.show()


@pytest.fixture
def stage(qtbot: Any) -> Stage:
    return Stage(qtbot)


def test_it_comes_with_the_dock_and_goes_with_it(stage: Stage) -> None:
    assert stage.told == ["opened"]
    stage.widget.setParent(None)
    assert stage.told == ["opened", "closed"]
    stage.dock.setWidget(stage.widget)
    assert stage.told == ["opened", "closed", "opened"]


def test_it_goes_when_the_window_closes(stage: Stage) -> None:
    stage.window.close()
    assert stage.told == ["opened", "closed"]


def test_a_dock_that_floats_or_is_hidden_stays(stage: Stage, qtbot: Any) -> None:
    stage.dock.setFloating(True)
    stage.dock.hide()
    stage.dock.show()
    qtbot.wait(20)
    assert stage.told == ["opened"]
    stage.window.close()  # it is still the dock's
    assert stage.told == ["opened", "closed"]


class ClosedByHand:
    """A close event of the window system, which Qt lets nobody make."""

    def type(self) -> QEvent.Type:
        return QEvent.Type.Close

    def spontaneous(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        pytest.param(True, ["opened"], id="refused"),
        pytest.param(False, ["opened", "closed"], id="done"),
    ],
)
def test_a_person_may_refuse_to_close(
    stage: Stage, qtbot: Any, refused: bool, told: list[str]
) -> None:
    stage.presence.eventFilter(stage.window, ClosedByHand())
    if not refused:
        stage.window.hide()
    looked: list[bool] = []
    QTimer.singleShot(0, lambda: looked.append(True))  # after that of the presence
    qtbot.waitUntil(lambda: bool(looked))
    assert stage.told == told
