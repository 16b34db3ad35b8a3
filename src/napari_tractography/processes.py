"""Processes: Python code in one of its own, and what those that were killed have left behind.

Called by :mod:`.tracking.kernels` and :mod:`.selection.kernels`, which compile without holding up a
window, and by what writes files that are to be whole or not there.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from functools import cache

ASK_SECONDS = 0.2
GIVEN_UP = "given up"
UNFINISHED = "unfinished-tractography"
_NAME = re.compile(rf"\.?{UNFINISHED}-([0-9a-f]{{8}})-(\d{{1,9}})-[0-9a-f]{{8}}")


def run_in_a_process(command: str, goes_on: Callable[[], bool] = lambda: True) -> str:
    """Run Python code in a Python of its own, which goes on should this one end before it.

    Parameters
    ----------
    command : str
    goes_on : callable
        Asked now and then; where it says no, the other process is killed.

    Returns
    -------
    str
        What went wrong; "" if nothing did, or if there is no Python that can be started by itself;
        :data:`GIVEN_UP` where it was killed.
    """
    if not sys.executable or hasattr(sys, "frozen"):
        return ""
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", command],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # of Windows
        )
    except OSError as error:
        return str(error)
    while True:
        try:
            status = process.wait(ASK_SECONDS)
        except subprocess.TimeoutExpired:
            if not goes_on():
                process.kill()
                process.wait()
                return GIVEN_UP
        else:
            return f"exit status {status}" if status else ""


def unfinished_name() -> str:
    """Return a name for a file or folder that this process is going to rename or delete.

    It says on which machine and in which process, for :func:`is_left_over`.
    """
    return f"{UNFINISHED}-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_left_over(name: str) -> bool:
    """Tell whether a name begins as :func:`unfinished_name` of a process here that is gone.

    Of processes of other machines, of other containers and on Windows nothing is known.
    """
    match = _NAME.match(name)
    return match is not None and match[1] == _machine() and not _may_live(int(match[2]))


@cache
def _machine() -> str:
    """Return what tells machines, and containers with process numbers of their own, apart."""
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # no Linux
        numbers = 0
    return hashlib.sha256(f"{platform.node()} {numbers}".encode()).hexdigest()[:8]


def _may_live(pid: int) -> bool:
    """Tell whether there is such a process, or may be."""
    if os.name != "posix":  # where the question would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        return True
    return True
