"""The command ended from outside: an exit code, one line, and nothing half-written."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import napari_tractography
from napari_tractography.cli import main
from napari_tractography.runtime.processes import unfinished_name
from napari_tractography.streamlines.streaming import SavedTractogram

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


# The signal comes while the command is imported.
LOADING = """
import builtins, os, signal, sys

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == "napari_tractography.cli.command":
            try:
                os.kill(os.getpid(), int(sys.argv[1]))
            except KeyboardInterrupt:
                raise getattr(builtins, sys.argv[2])("PLEASE READ THIS") from None

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Signalling())
from napari_tractography.cli import main
sys.exit(main(["--version"]))
"""


@pytest.mark.parametrize(
    ("number", "raised", "code", "word"),
    [
        (signal.SIGINT, "KeyboardInterrupt", 130, "interrupted"),
        (signal.SIGINT, "ImportError", 130, "interrupted"),
        (signal.SIGTERM, "", 143, "terminated"),
    ],
)
def test_a_signal_while_the_command_loads_is_one_line(
    number: int, raised: str, code: int, word: str
) -> None:
    """NumPy, which is imported meanwhile, makes an ImportError of the interrupt."""
    words = [sys.executable, "-c", LOADING, str(int(number)), raised]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == code
    assert ended.stderr.startswith(f"napari-tractography: {word}; ")
    assert ended.stderr.count("\n") == 1


# The signal comes where Python can raise nothing, as in a callback of the import system.
UNRAISABLE = """
import os, signal, sys, time, weakref
from napari_tractography.cli import main, command

class Thing:
    pass

def run(arguments):
    thing = Thing()
    watch = weakref.ref(thing, lambda _: os.kill(os.getpid(), int(sys.argv[1])))
    del thing
    time.sleep(60)
    return 0

signal.signal(signal.SIGINT, signal.default_int_handler)
command.run = run
sys.exit(main([]))
"""


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_where_nothing_can_be_raised_ends_the_command_as_well(
    number: int, code: int, word: str
) -> None:
    """Python prints "Exception ignored in" there, with a traceback, and goes on."""
    words = [sys.executable, "-c", UNRAISABLE, str(int(number))]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == code
    assert ended.stderr.startswith(f"napari-tractography: {word}; ")
    assert ended.stderr.count("\n") == 1


def test_next_to_nothing_is_imported_before_a_signal_is_one_line() -> None:
    """Before that Ctrl-C is a traceback; the standard library takes most of that time."""
    source = str(Path(napari_tractography.__file__).parents[1])
    code = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {source!r}); "
        "from napari_tractography.cli import main; print(*sorted({*sys.modules} - before))"
    )
    words = [sys.executable, "-I", "-S", "-c", code]  # without what the environment imports
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.startswith("napari_tractography")}
    assert ours == {
        "napari_tractography",
        "napari_tractography.cli",
        "napari_tractography.cli.ending",
        "napari_tractography.version",
    }
    assert set(loaded) - ours <= {"__future__", "importlib", "importlib._bootstrap", "warnings"} | {
        "importlib._bootstrap_external"
    }


# Writes what comes as `track` does, and is killed after the first chunk.
KILLED = """
import os, signal, sys
import numpy as np
import napari_tractography as nt

def chunks():
    yield nt.Tractogram(np.zeros((2, 3)), [0, 2])
    os.kill(os.getpid(), signal.SIGKILL)

nt.save_chunks(chunks(), sys.argv[1], reference=nt.Grid((4, 4, 4), np.eye(4)))
"""


@pytest.mark.parametrize("ending", ["tck", "trx"])
def test_what_a_killed_command_left_is_cleared_by_the_next(
    folder: Path, track: Track, ending: str
) -> None:
    out = folder / "out"
    out.mkdir()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(out / f"b.{ending}")])
    assert killed.returncode == -signal.SIGKILL
    left = [path.name for path in out.iterdir()]
    assert all(name.startswith(".unfinished") for name in left)
    assert len(left) == (ending == "tck")  # of .trx nothing has a name until it is packed
    of_us = f".{unfinished_name()}-other.{ending}"  # as of a command that is still at work
    (out / of_us).touch()
    assert track("-o", f"out/b.{ending}") == 0
    assert {path.name for path in out.iterdir()} == {of_us, f"b.{ending}", "b.json"}


class Left(io.StringIO):
    """What is printed to on Windows when its reader has gone away: no broken pipe there."""

    def flush(self) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")


def test_windows_tells_in_another_way_that_the_reader_has_gone_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints = io.StringIO()
    with monkeypatch.context() as there:
        there.setattr(sys, "stdout", Left())
        there.setattr(sys, "stderr", complaints)
        with pytest.raises(OSError, match="Invalid argument"):
            main(["info", "fod.nii.gz"])
        there.setattr(sys, "platform", "win32")
        assert main(["info", "fod.nii.gz"]) == 141
    assert complaints.getvalue() == ""
