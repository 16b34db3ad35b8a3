"""Closing a window by hand asks one question: ours where something is unsaved, else napari's."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hands import FEW, fod_layer, is_let_go
from napari._qt import qt_main_window
from napari.settings import get_settings
from qtpy.QtCore import Qt
from qtpy.QtGui import QCloseEvent
from qtpy.QtWidgets import QApplication, QDialog, QMessageBox

from napari_tractography.plugin.panel.panel import TractographyPanel

OURS, NAPARIS = "ours", "napari's"
Choices = QMessageBox.StandardButton


def by_menu(window: Any) -> None:
    """As File > Close does, and its key."""
    window.close(quit_app=False, confirm_need=True)


def by_quitting(window: Any) -> None:
    """As File > Exit does, and its key."""
    window.close(quit_app=True, confirm_need=True)


class ByWindowSystem(QCloseEvent):  # type: ignore[misc]
    """What the X of the window sends, as Python sees it."""

    def spontaneous(self) -> bool:
        return True


def by_window_system(window: Any) -> None:
    """As the X of the window does."""
    event = ByWindowSystem()
    QApplication.sendEvent(window, event)
    if event.isAccepted():
        window.hide()


WAYS = [
    pytest.param(by_menu, id="menu"),
    pytest.param(by_quitting, id="quit"),
    pytest.param(by_window_system, id="X"),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The questions asked, by whom; napari's are answered by yes, ours by the last item."""
    questions: list[Any] = []

    class Dialog:
        """In place of napari's."""

        def __init__(self, *_args: Any, **_kwargs: Any) -> None:
            questions.append(NAPARIS)

        def exec_(self) -> Any:
            return QDialog.DialogCode.Accepted

        exec = exec_  # of napari 0.10

    monkeypatch.setattr(qt_main_window, "ConfirmCloseDialog", Dialog)
    monkeypatch.setattr(qt_main_window, "quit_app_", lambda: questions.append("quit"))
    monkeypatch.setattr(get_settings().application, "confirm_close_window", True)
    return questions


@pytest.fixture
def panel(open_window: Any, cross: Any) -> Iterator[Any]:
    """In a window that outlives its closing, for the fixtures to take away."""
    made = open_window(cross)
    window = made.viewer.window._qt_window
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    with patch.object(window, "_save_current_window_settings"):
        yield made
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    window.show()
    made.project._guard.watch(None)  # which showing it brought back


def leave_unsaved(panel: Any) -> None:
    """Let something be unsaved, whatever the panel finds."""
    panel.project.keeper.compare = lambda: None
    panel.project.keeper.has_unsaved = True


def answer(monkeypatch: pytest.MonkeyPatch, asked: list[Any], choice: Any) -> None:
    def ask(*_: Any) -> Any:
        asked.append(OURS)
        return choice

    monkeypatch.setattr(QMessageBox, "question", ask)


@pytest.mark.parametrize("close", WAYS)
def test_what_is_unsaved_is_asked_about_and_nothing_else(
    panel: Any, asked: list[Any], monkeypatch: pytest.MonkeyPatch, close: Callable[[Any], None]
) -> None:
    window = panel.viewer.window._qt_window
    leave_unsaved(panel)
    answer(monkeypatch, asked, Choices.Cancel)
    close(window)
    assert asked == [OURS]
    assert window.isVisible()
    assert window._quit_app is False
    assert get_settings().application.confirm_close_window
    asked.clear()
    answer(monkeypatch, asked, Choices.Discard)
    close(window)
    assert asked == [OURS, *(["quit"] if close is by_quitting else [])]
    assert not window.isVisible()
    assert get_settings().application.confirm_close_window


@pytest.mark.parametrize("close", WAYS)
def test_where_all_is_saved_napari_asks_as_it_always_does(
    panel: Any, asked: list[Any], monkeypatch: pytest.MonkeyPatch, close: Callable[[Any], None]
) -> None:
    window = panel.viewer.window._qt_window
    answer(monkeypatch, asked, Choices.Cancel)
    close(window)
    assert asked == [NAPARIS, *(["quit"] if close is by_quitting else [])]
    assert not window.isVisible()


def test_work_in_the_background_is_still_asked_about(
    panel: Any, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is another question: the answer to ours does not end that work unasked."""
    monkeypatch.setattr(get_settings().application, "confirm_close_window", False)
    tasks = panel.viewer.window._task_status_manager
    monkeypatch.setattr(tasks, "get_status", lambda: ["writing"])
    leave_unsaved(panel)
    answer(monkeypatch, asked, Choices.Discard)
    by_window_system(panel.viewer.window._qt_window)
    assert asked == [OURS, NAPARIS]


def test_a_script_that_closes_is_asked_nothing(
    open_window: Any, cross: Any, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = open_window(cross)
    leave_unsaved(panel)
    answer(monkeypatch, asked, Choices.Cancel)
    panel.viewer.close()
    assert asked == []


def test_a_panel_that_is_closed_leaves_the_window_as_it_was(panel: Any) -> None:
    window = panel.viewer.window._qt_window
    assert "close" in vars(window)
    panel.parentWidget().destroyOnClose()
    assert "close" not in vars(window)


@pytest.mark.parametrize("panel_first", [False, True])
def test_a_window_that_is_gone_holds_no_streamlines(
    make_napari_viewer: Any, cross: Any, settle: Callable[[Any], None], panel_first: bool
) -> None:
    """Whoever still has the viewer of it, and whatever could have been undone."""
    viewer = make_napari_viewer(show=True)
    panel = TractographyPanel(viewer)
    viewer.window.add_dock_widget(panel)
    viewer.add_layer(fod_layer(cross))
    panel.set_parameters(n_per_seed=FEW)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.run()
    settle(panel)
    points = weakref.ref(panel.session.tractogram.points)
    if panel_first:
        viewer.layers.remove(panel.session.streamlines_layer)
        panel.parentWidget().destroyOnClose()
        assert panel.session.document.can_undo
    del panel
    viewer.close()
    assert is_let_go(points)
