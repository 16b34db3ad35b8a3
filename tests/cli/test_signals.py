"""The command ended from outside: an exit code, one line, and nothing half-written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from napari_tractography.streaming import SavedTractogram

Track = Callable[..., int]


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Python's own answer to SIGINT, which a job in the background starts without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("ending", ["tck", "trk", "trx"])
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        pytest.param(signal.SIGINT, 130, "interrupted", id="SIGINT"),
        pytest.param(signal.SIGTERM, 143, "terminated", id="SIGTERM"),
    ],
)
def test_a_signal_ends_the_command_and_leaves_no_half_file(
    folder: Path,
    track: Track,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: int,
    word: str,
    ending: str,
) -> None:
    """The signal comes after the first chunk; what was there before stays as it was."""
    there = {path.name for path in folder.iterdir()} | {f"b.{ending}"}
    (folder / f"b.{ending}").write_bytes(b"older")
    before = signal.getsignal(number)
    add = SavedTractogram.add

    def add_and_signal(self, chunk):  # type: ignore[no-untyped-def]
        add(self, chunk)
        if len(self):
            os.kill(os.getpid(), number)

    monkeypatch.setattr(SavedTractogram, "add", add_and_signal)
    assert track("-o", f"b.{ending}") == code
    assert capsys.readouterr().err == (
        f"napari-tractography: {word}; files that were finished stay, and no others are left.\n"
    )
    assert {path.name for path in folder.iterdir()} == there
    assert (folder / f"b.{ending}").read_bytes() == b"older"
    assert signal.getsignal(number) is before
