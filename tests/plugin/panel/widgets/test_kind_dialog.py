"""A file that does not look like an FOD: the person is asked, and it is read as they say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import WAIT_MS, click_in_the_dialog

from napari_tractography.errors import InvalidFodError
from napari_tractography.files import fods
from napari_tractography.plugin.layers import fod_opening as opening


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """Six positive volumes, which look like a DWI."""
    values = np.random.default_rng(0).uniform(100, 1000, (6, 5, 4, 6)).astype(np.float32)
    path = tmp_path / "six.nii"
    nib.save(nib.Nifti1Image(values, np.diag([2.0, 2, 2, 1])), path)
    return path


@pytest.fixture
def checking() -> list[str]:
    """The threads in which it is found out what a file holds."""
    return []


@pytest.fixture
def held_check(monkeypatch: pytest.MonkeyPatch, checking: list[str]) -> threading.Event:
    """What a file holds is not found out, and the file not read, until the event is set."""
    gate = threading.Event()
    check: Callable[[Any], Any] = fods.tracked_kind_of

    def slow(stored: Any) -> Any:
        checking.append(threading.current_thread().name)
        assert gate.wait(60)
        return check(stored)

    monkeypatch.setattr(fods, "tracked_kind_of", slow)
    return gate


def test_a_file_that_looks_like_something_else_is_read_as_the_person_says(
    open_window: Any, series: Path, notes: list[str]
) -> None:
    panel = open_window()
    said = click_in_the_dialog("Read as SH coefficients")
    panel.data.add_fod(series)
    assert said[0].startswith("six.nii holds no FOD in its 6 volumes but a DWI")
    assert said[0].endswith("as dwi2fod does, or read it all the same.")  # and no names of Python
    assert panel.session.fod.lmax == 2
    assert panel.data.fod_choice.value.name == "six.nii"
    assert notes == []


def test_cancel_opens_nothing(open_window: Any, series: Path, notes: list[str]) -> None:
    panel = open_window()
    said = click_in_the_dialog("Cancel")
    panel.data.add_fod(series)
    assert said
    assert len(panel.viewer.layers) == 0
    assert notes == []


def test_the_window_does_not_wait_for_what_the_volumes_are(
    open_window: Any,
    series: Path,
    qtbot: Any,
    monkeypatch: Any,
    held_check: threading.Event,
    checking: list[str],
    notes: list[str],
) -> None:
    """It is found out in the thread that reads; the question comes when the answer is needed."""
    monkeypatch.setattr(opening, "WAIT_SECONDS", 0.0)
    panel = open_window()
    panel.data.add_fod(series)
    assert panel.session.opening is not None
    said = click_in_the_dialog("Read as SH coefficients")
    held_check.set()
    qtbot.waitUntil(lambda: panel.session.fod is not None, timeout=WAIT_MS)
    assert said
    assert checking == [opening.THREAD_NAME]
    assert panel.session.fod.lmax == 2
    assert len(panel.viewer.layers) == 1
    assert notes == []


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
def test_a_file_that_napari_opens_is_refused_with_what_asks(
    open_window: Any,
    series: Path,
    qtbot: Any,
    held_check: threading.Event,
    notes: list[str],
    is_large: bool,
) -> None:
    viewer = open_window().viewer
    said = "or read it all the same with Open... in the panel."
    if not is_large:
        held_check.set()
        with pytest.raises(InvalidFodError, match=said):
            viewer.open(series, plugin="napari-tractography")
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opening, "WAIT_SECONDS", 0.0)
            viewer.open(series, plugin="napari-tractography")
        held_check.set()
        qtbot.waitUntil(lambda: bool(notes), timeout=WAIT_MS)
        assert notes[0].endswith(said)
    assert len(viewer.layers) == 0
