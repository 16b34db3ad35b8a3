"""The options of screenshots, and the files that come of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imageio.v3 as imageio
from hands import lie_still
from qtpy.QtWidgets import QFileDialog


def test_no_option_is_cut_off_where_the_panel_is_as_narrow_as_it_gets(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross, size=(1280, 800))
    panel.parentWidget().setMaximumWidth(panel.minimumWidth())
    lie_still(panel)
    assert panel.width() == panel.minimumWidth()
    for option in panel.pictures.controls:
        widget = option.native
        assert widget.width() >= widget.minimumSizeHint().width()
        right = widget.mapTo(panel, widget.rect().topRight()).x()
        assert right < panel.width()


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
    open_window: Any, cross: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    panel = open_window(cross)
    path = tmp_path / "picture.png"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *args: (str(path), ""))
    panel.screenshot_button.click()
    picture = imageio.imread(path)
    assert picture[..., :3].max() > 100
    assert picture.shape[:2] == panel.viewer.screenshot(flash=False).shape[:2]


def test_a_screenshot_that_cannot_be_written(
    open_window: Any, tmp_path: Path, notes: list[str], monkeypatch: Any
) -> None:
    panel = open_window()
    for name in ("picture.jpg", "nowhere/picture.png"):
        notes.clear()
        path = str(tmp_path / name)
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *args, p=path: (p, ""))
        panel.screenshot_button.click()
        (note,) = notes
        assert note.startswith("error: ")
        assert Path(name).parts[0] in note
    assert not list(tmp_path.iterdir())
