"""Processes: Python code in one of its own, and what those that were killed have left behind.

Called by :mod:`.tracking.kernels` and :mod:`.streamlines.compiled_loops`, which compile without
holding up a window, by what writes files that are to be whole or not there, and by what finds
projects that a crash has left.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import secrets
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

ASK_SECONDS = 0.2
MARKED_SECONDS = 60.0  # after which a process that no longer marks what it runs counts as ended
POLL_SECONDS = 0.5
MARKING = """
import os, threading, time
def mark():
    while True:
        time.sleep({seconds})
        os.utime({marker!r})
threading.Thread(target=mark, daemon=True).start()
{command}
os.unlink({marker!r})
"""
GIVEN_UP = "given up"
UNFINISHED = "unfinished-tractography"
# Of Windows: what may be done with a process, what OpenProcess says where there is none, and what a
# wait of no time says of one that has ended.
SYNCHRONIZE, INVALID_PARAMETER, ENDED = 0x100000, 87, 0
_NAME = re.compile(rf"\.?{UNFINISHED}-([0-9a-f]{{8}})-(\d{{1,9}})-[0-9a-f]{{8}}")


def run_in_a_process(command: str, goes_on: Callable[[], bool] = lambda: True) -> str:
    """Run Python code in a Python of its own, which runs to its end even if this one ends first.

    Where `goes_on`, asked now and then, says no, the other process is killed. Returns what went
    wrong; "" if nothing did, or if there is no Python that can be started by itself;
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


def run_once_in_a_process(
    command: str, is_needed: Callable[[], bool], goes_on: Callable[[], bool] = lambda: True
) -> str:
    """Run code as :func:`run_in_a_process`, unless a process of this machine already runs it.

    That may be one that an earlier program, or one beside it, has begun: it is waited for until it
    has ended or what it makes is no longer needed.
    """
    name = zlib.crc32(os.fsencode(f"{command} {sys.prefix} {Path.home()}"))
    marker = Path(tempfile.gettempdir()) / f"napari-tractography-{name:08x}.compiling"
    while is_needed():
        if _is_marked(marker):
            if not goes_on():
                return GIVEN_UP
            time.sleep(POLL_SECONDS)
            continue
        seconds = MARKED_SECONDS / 6
        marked = MARKING.format(command=command, marker=str(marker), seconds=seconds)
        try:  # what was needed may just have been made
            return run_in_a_process(marked, goes_on) if is_needed() else ""
        finally:
            marker.unlink(missing_ok=True)
    return ""


def _is_marked(marker: Path) -> bool:
    """Tell whether a process holds a marker; if none does, this one holds it from now on."""
    try:
        if time.time() - marker.stat().st_mtime > MARKED_SECONDS:
            marker.unlink()
    except FileNotFoundError:
        pass
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


def unfinished_name() -> str:
    """Return a name for a file or folder that this process is going to rename or delete.

    It says on which machine and in which process, for :func:`is_left_over`.
    """
    return f"{UNFINISHED}-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def is_left_over(name: str) -> bool:
    """Tell whether a name begins as :func:`unfinished_name` of a process here that is gone.

    Of processes of other machines and of other containers nothing is known.
    """
    match = _NAME.match(name)
    return match is not None and match[1] == _machine() and not may_live(int(match[2]))


@cache
def _machine() -> str:
    """Return what tells machines, and containers with process numbers of their own, apart."""
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # no Linux
        numbers = 0
    return hashlib.sha256(f"{platform.node()} {numbers}".encode()).hexdigest()[:8]


def may_live(pid: int) -> bool:
    """Tell whether there is such a process on this machine, or may be; nothing happens to it."""
    if sys.platform == "win32":  # where a signal of zero would end it, or press Ctrl-C
        windows = ctypes.WinDLL("kernel32", use_last_error=True)
        windows.OpenProcess.restype = ctypes.c_void_p  # a handle has 64 bits
        windows.WaitForSingleObject.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
        windows.CloseHandle.argtypes = (ctypes.c_void_p,)
        handle = windows.OpenProcess(SYNCHRONIZE, False, pid & 0xFFFFFFFF)
        if not handle:
            return bool(ctypes.get_last_error() != INVALID_PARAMETER)  # it belongs to someone else
        has_ended = windows.WaitForSingleObject(handle, 0) == ENDED
        windows.CloseHandle(handle)
        return not has_ended
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user
        return True
    return True
