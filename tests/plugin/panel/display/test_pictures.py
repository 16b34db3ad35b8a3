"""The options of screenshots, and the files that come of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import pytest
from qtpy.QtWidgets import QFileDialog, QLabel

from napari_tractography.plugin.panel.display.pictures import OptionsDialog
from napari_tractography.plugin.panel.widgets.controls import set_values


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool, Path | str], list[str]]:
    """Answer dialogs of options, and where to; returns what the dialogs show."""

    def answer(accepted: bool, path: Path | str) -> list[str]:
        asked: list[str] = []

        def run(dialog: OptionsDialog) -> int:
            asked.extend(
                each.text() for each in dialog.findChildren(QLabel) if each.isVisibleTo(dialog)
            )
            (dialog.accept if accepted else dialog.reject)()
            return dialog.result()

        monkeypatch.setattr(OptionsDialog, "exec", run)
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *args: (str(path), ""))
        return asked

    return answer


def test_the_panel_saves_as_chosen(
    open_window: Any, cross: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_window(cross)
    scale, transparent, letters = panel.pictures.controls
    scale.value, transparent.value, letters.value = 2.0, True, False
    path = tmp_path / "picture.png"
    panel.pictures.save(path)
    picture = imageio.imread(path)
    height, width = panel.viewer.canvas.size
    assert picture.shape == (2 * height, 2 * width, 4)
    assert picture[0, 0, 3] == 0
    assert notes == [f"info: Saved the picture to {path}."]


def test_a_screenshot_is_a_picture_of_the_canvas(
    open_window: Any, cross: Any, tmp_path: Path, answer: Any
) -> None:
    panel = open_window(cross)
    path = tmp_path / "picture.png"
    answer(False, path)
    panel.pictures.ask()
    assert not path.exists()
    asked = answer(True, path)
    panel.pictures.ask()
    assert {"Scale (x)", "Transparent", "Letters"} <= set(asked)
    picture = imageio.imread(path)
    assert picture[..., :3].max() > 100
    assert picture.shape[:2] == panel.viewer.screenshot(flash=False).shape[:2]


def test_a_screenshot_that_cannot_be_written(
    open_window: Any, tmp_path: Path, notes: list[str], answer: Any
) -> None:
    panel = open_window()
    for name in ("picture.jpg", "nowhere/picture.png"):
        notes.clear()
        answer(True, tmp_path / name)
        panel.pictures.ask()
        (note,) = notes
        assert note.startswith("error: ")
        assert Path(name).parts[0] in note
    assert not list(tmp_path.iterdir())


def test_a_figure_is_as_large_as_was_asked_for(
    open_window: Any, cross: Any, tmp_path: Path, notes: list[str], answer: Any
) -> None:
    panel = open_window(cross)
    path = tmp_path / "figure.png"
    values = {"figure_width_cm": 5.08, "figure_dpi": 150.0, "figure_background": "black"}
    set_values(panel.pictures.figure_controls, values)
    asked = answer(True, path)
    panel.pictures.ask_figure()
    assert {"Width (cm)", "Resolution (dpi)", "Letter colour"} <= set(asked)
    picture = imageio.imread(path)
    assert picture.shape[1] == 300
    assert picture[0, 0].tolist()[:3] == [0, 0, 0]
    assert notes == [f"info: Saved the figure to {path}: 5.08 cm at 150 dpi."]


def test_a_picture_that_is_larger_than_the_canvas_is_no_step_of_undo(
    open_window: Any, cross: Any, tmp_path: Path, settle: Any
) -> None:
    panel = open_window(cross)
    document = panel.session.document
    panel.session.add_seeds_mm([[0.0, 0.0, 0.0]])
    panel.run_button.click()
    settle(panel)
    panel.session.add_seeds_mm([[6.0, 0.0, 0.0]])
    document.undo()
    last, width = document.last, panel.session.streamlines_layer.width
    panel.pictures.controls[0].value = 3.0
    panel.pictures.save(tmp_path / "picture.png")
    panel.pictures.save_figure(tmp_path / "figure.png")
    assert len(list(tmp_path.iterdir())) == 2
    assert (document.last, document.next) == (last, "Place 1 seed")
    assert panel.session.streamlines_layer.width == width


def test_a_figure_that_is_not_wanted_or_cannot_be_written(
    open_window: Any, cross: Any, tmp_path: Path, notes: list[str], answer: Any
) -> None:
    panel = open_window(cross)
    for accepted, path in ((False, tmp_path / "a.png"), (True, "")):
        answer(accepted, path)
        panel.pictures.ask_figure()
    assert notes == []
    answer(True, tmp_path / "nowhere" / "a.png")
    panel.pictures.ask_figure()
    (note,) = notes
    assert note.startswith("error: ")
    assert "nowhere" in note
    assert not list(tmp_path.iterdir())


def test_the_options_stay_with_the_panel_when_a_dialog_is_closed(
    open_window: Any, answer: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_window()
    asked = answer(False, tmp_path / "turn.gif")
    panel.pictures.ask_movie()
    assert {"Length (s)", "Width (px)", "Letters"} <= set(asked)
    for control in panel.pictures.kept_controls:
        assert control.native.window() is panel.window(), control.name
    assert notes == []
    assert not list(tmp_path.iterdir())
