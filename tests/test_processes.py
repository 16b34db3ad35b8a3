"""Names of unfinished files: whose they are, and whether that process is gone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from napari_tractography.processes import is_left_over, unfinished_name


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not looked for there")
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
