"""Names of unfinished files: whose they are, and whether that process is gone."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from napari_tractography.runtime.processes import is_left_over, may_live, unfinished_name


def test_a_process_that_is_gone_has_left_its_files() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    mine = unfinished_name()
    theirs = mine.replace(f"-{os.getpid()}-", f"-{done.pid}-")
    assert is_left_over(theirs)
    assert is_left_over(f".{theirs}-whole.trx")
    assert not is_left_over(mine)
    assert not is_left_over(mine.replace(f"-{os.getpid()}-", "-1-"))  # of another user, and alive


def test_files_of_other_machines_and_other_names_are_nobodys() -> None:
    gone = "999999999"  # above what systems give
    name = unfinished_name().replace(f"-{os.getpid()}-", f"-{gone}-")
    machine = name.split("-")[2]
    elsewhere = name.replace(machine, "00000000" if machine != "00000000" else "11111111")
    assert not is_left_over(elsewhere)
    assert not is_left_over("whole.trx")
    assert not is_left_over(f"my-{name}")


@pytest.mark.skipif(sys.platform == "win32", reason="numbers have 32 bits there")
def test_of_a_number_too_large_to_ask_for_nothing_is_known() -> None:
    assert may_live(10**30)


@pytest.mark.skipif(sys.platform == "win32", reason="what is put in its place is there")
@pytest.mark.parametrize(
    ("handle", "error", "waited", "lives"),
    [
        pytest.param(None, 87, 0, False, id="none"),
        pytest.param(None, 5, 0, True, id="of someone else"),
        pytest.param(7, 0, 0, False, id="ended, and somebody holds it"),
        pytest.param(7, 0, 258, True, id="alive"),
    ],
)
def test_on_windows_a_process_is_asked_for_without_a_signal(
    monkeypatch: pytest.MonkeyPatch, handle: int | None, error: int, waited: int, lives: bool
) -> None:
    """Signal 0 is Ctrl-C there, and any other ends the process."""
    closed: list[Any] = []

    class Answer:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def __call__(self, *args: Any) -> Any:
            return self.answer(*args)

    kernel32 = SimpleNamespace(
        OpenProcess=Answer(lambda *_: handle),
        WaitForSingleObject=Answer(lambda *_: waited),
        CloseHandle=Answer(closed.append),
    )
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "WinDLL", lambda *_, **__: kernel32, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: error, raising=False)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal"))
    assert may_live(4711) is lives
    assert closed == [handle] * (handle is not None)
