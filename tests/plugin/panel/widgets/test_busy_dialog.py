"""Opening and saving: the window goes on, says what it waits for, and may give up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hands import WAIT_MS, Mouse, tracking_threads
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication, QProgressDialog, QPushButton

from napari_tractography import Tractogram
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.panel.sections import data as data_section
from napari_tractography.plugin.panel.sections import dissection
from napari_tractography.plugin.panel.widgets import busy_dialog as waiting
from napari_tractography.recipes.edits import Edit

FOD = make_phantom("cross", lmax=2)


@pytest.fixture
def when_it_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Call back, once, with the dialog that appears."""
    monkeypatch.setattr(waiting, "DIALOG_AFTER_SECONDS", 0.0)
    timer = QTimer()
    timer.setInterval(5)

    def begin(react: Callable[[QProgressDialog], None]) -> None:
        def look() -> None:
            for widget in QApplication.topLevelWidgets():
                if isinstance(widget, QProgressDialog) and widget.isVisible():
                    timer.stop()
                    react(widget)

        timer.timeout.connect(look)
        timer.start()

    yield begin
    timer.stop()


def held(when_it_waits: Any, cancel: bool) -> tuple[Callable[..., Any], list[str]]:
    """Return what holds work until its dialog is there, and what that says.

    The dialog is cancelled first, or not.
    """
    gate, said = threading.Event(), []

    def react(dialog: QProgressDialog) -> None:
        said.append(dialog.labelText())
        if cancel:
            dialog.findChild(QPushButton).click()
        gate.set()

    def hold(work: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*args: Any, **kwargs: Any) -> Any:
            assert gate.wait(60)
            return work(*args, **kwargs)

        return slow

    when_it_waits(react)
    return hold, said


@pytest.mark.parametrize("cancel", [False, True])
def test_a_cut_through_many_points_leaves_the_window_alive(
    open_model: Any, monkeypatch: pytest.MonkeyPatch, when_it_waits: Any, cancel: bool
) -> None:
    panel = open_model(FOD)
    layer = panel.session.ensure_streamlines_layer()
    whole = Tractogram.from_streamlines([[[0.0, 0, -8], [0, 0, 8]]])
    layer.tractogram = whole
    panel.viewer.dims.set_point(0, 0.0)
    hold, said = held(when_it_waits, cancel)
    monkeypatch.setattr(Edit, "apply", hold(Edit.apply))
    panel.dissection.cut_at_slice(0, 1)
    assert said == ["Cutting"]
    assert (layer.tractogram is whole) is cancel
    assert layer.editor.is_cut is not cancel


@pytest.mark.parametrize("cancel", [False, True])
def test_a_stroke_across_many_points_leaves_the_window_alive(
    open_window: Any, monkeypatch: pytest.MonkeyPatch, when_it_waits: Any, cancel: bool
) -> None:
    panel = open_window(FOD)
    layer = panel.session.ensure_streamlines_layer()
    layer.tractogram = Tractogram.from_streamlines([[[-8.0, 0, 0], [0, 0, 0], [8.0, 0, 0]]])
    panel.viewer.dims.set_point(0, 0.0)
    panel.dissection.tools["Lasso"].click()
    hold, said = held(when_it_waits, cancel)
    monkeypatch.setattr(dissection, "crossed", hold(dissection.crossed))
    Mouse(panel.viewer).drag((0.0, -6.0, 0.0), (0.0, 6.0, 0.0))
    assert said == ["Selecting"]
    assert layer.selected.tolist() == ([] if cancel else [0])


@pytest.mark.parametrize("cancel", [False, True])
def test_a_file_is_opened_while_the_window_goes_on(
    open_model: Any,
    monkeypatch: pytest.MonkeyPatch,
    when_it_waits: Any,
    notes: list[str],
    qtbot: Any,
    cancel: bool,
) -> None:
    gate, said = threading.Event(), []

    def slow(path: Any) -> Any:
        assert gate.wait(60)
        return FOD.support, FOD.grid

    def react(dialog: QProgressDialog) -> None:
        said.append(dialog.labelText())
        if cancel:
            dialog.findChild(QPushButton).click()
        else:
            gate.set()

    monkeypatch.setattr(data_section, "load_volume", slow)
    panel = open_model(FOD)
    when_it_waits(react)
    panel.data.add_mask("slow.nii.gz")
    assert said == ["Opening slow.nii.gz"]
    assert (panel.session.layer_of("mask") is None) is cancel
    gate.set()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    assert not notes
    assert len(panel.viewer.layers) == (1 if cancel else 2)


@pytest.mark.parametrize("ending", ["tck", "trk", "trx", "vtk"])
@pytest.mark.parametrize("cancel", [False, True])
def test_a_file_that_nobody_waits_for_does_not_appear(
    open_model: Any,
    settle: Any,
    monkeypatch: pytest.MonkeyPatch,
    when_it_waits: Any,
    notes: list[str],
    qtbot: Any,
    tmp_path: Path,
    cancel: bool,
    ending: str,
) -> None:
    panel = open_model(FOD)
    panel.session.add_seeds_mm([[0.0, 0.0, 0.0]])
    panel.run()
    settle(panel)
    gate, save = threading.Event(), Tractogram.save

    def slow(*args: Any, **kwargs: Any) -> None:
        assert gate.wait(60)
        save(*args, **kwargs)

    def react(dialog: QProgressDialog) -> None:
        if cancel:
            dialog.findChild(QPushButton).click()
        gate.set()

    monkeypatch.setattr(Tractogram, "save", slow)
    when_it_waits(react)
    folder = tmp_path / "files"
    folder.mkdir()
    panel.save(folder / f"bundle.{ending}")
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    assert [path.name for path in folder.iterdir()] == ([] if cancel else [f"bundle.{ending}"])
    assert [note.partition(" ")[0] for note in notes] == ([] if cancel else ["info:"])
