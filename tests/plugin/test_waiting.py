"""Opening and saving: the window goes on, says what it waits for, and may give up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hands import WAIT_MS, tracking_threads
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication, QProgressDialog, QPushButton

from napari_tractography import Tractogram
from napari_tractography.phantoms import make_phantom
from napari_tractography.plugin import data_section, waiting

FOD = make_phantom("cross", lmax=2)


@pytest.fixture
def when_it_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Call back, once, with the dialog that appears."""
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.0)
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
        return FOD

    def react(dialog: QProgressDialog) -> None:
        said.append(dialog.labelText())
        if cancel:
            dialog.findChild(QPushButton).click()
        else:
            gate.set()

    monkeypatch.setattr(data_section, "load_fod", slow)
    panel = open_model()
    when_it_waits(react)
    panel.add_fod("slow.nii.gz")
    assert said == ["Opening slow.nii.gz"]
    assert (panel.session.fod is FOD) is not cancel
    gate.set()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    assert not notes
    assert len(panel.viewer.layers) == (0 if cancel else 1)


def test_a_file_that_is_being_written_is_written_to_the_end(
    open_model: Any,
    settle: Any,
    monkeypatch: pytest.MonkeyPatch,
    when_it_waits: Any,
    notes: list[str],
    tmp_path: Path,
) -> None:
    panel = open_model(FOD)
    panel.session.add_seeds_mm([[0.0, 0.0, 0.0]])
    panel.run()
    settle(panel)
    gate, buttons, save = threading.Event(), [], Tractogram.save

    def slow(*args: Any, **kwargs: Any) -> None:
        assert gate.wait(60)
        save(*args, **kwargs)

    def react(dialog: QProgressDialog) -> None:
        buttons.append([b for b in dialog.findChildren(QPushButton) if b.isVisible()])
        dialog.cancel()  # as Escape does
        gate.set()

    monkeypatch.setattr(Tractogram, "save", slow)
    when_it_waits(react)
    path = tmp_path / "bundle.tck"
    panel.save(path)
    assert buttons == [[]]
    assert path.exists()
    assert notes[0].startswith("info: Saved")
