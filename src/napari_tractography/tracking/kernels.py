"""Kernels of the CPU that are not compiled yet, compiled in a process of their own.

That takes half a minute, once for each kind of run on a machine. Done in this process it would hold
up the window, since Numba compiles in Python; so another process does it and leaves the machine
code in Numba's cache, from where this one loads it. Meanwhile :mod:`.plain` tracks. Used by
:mod:`.backends` and, for previews, by the plugin.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from ..processes import run_in_a_process
from . import codes
from .algorithms import BY_CODE
from .codes import NEAREST
from .cpu import run as cpu
from .cpu.vectors.field import BlockField
from .plain import run as plain
from .plan import Plan

logger = logging.getLogger(__name__)

# Whether kernels are compiled so; else they are when they are first needed, and waited for.
in_a_process = True

COMMAND = """
from napari_tractography.tracking.engine import compile_kernel
compile_kernel({algorithm!r}, {interpolation!r}, lmax={lmax}, of_vectors={of_vectors},
    in_blocks={in_blocks})
"""
AND_REMOVE = """
from pathlib import Path
Path({marker!r}).unlink(missing_ok=True)
"""
MARKED_SECONDS = 120.0  # after which a program that has begun to compile counts as ended
POLL_SECONDS = 0.5
WAIT_SECONDS = 0.1  # after which whoever waits for a kernel is asked whether that is still wanted
THREAD_NAME = "tractography-compiling"

_lock = threading.Lock()
_under_way: dict[str, threading.Event] = {}  # by command


def is_missing(plan: Plan) -> bool:
    """Tell whether the kernel of a plan is yet to be compiled in a process of its own."""
    return in_a_process and not cpu.is_loaded(plan) and not cpu.is_on_disk(plan)


def stands_in(plan: Plan) -> bool:
    """Tell whether a plan is to be tracked in NumPy, because its kernel is missing."""
    return is_missing(plan) and plain.can_track(plan)


def begin(plan: Plan) -> threading.Event:
    """Begin to compile the kernel of a plan, unless that was begun; return at once.

    Returns
    -------
    Event
        Set when the kernel is loaded, or could not be.
    """
    command = COMMAND.format(
        algorithm=BY_CODE[plan.settings.algorithm].name,
        interpolation="nearest" if plan.settings.interpolation == NEAREST else "trilinear",
        lmax=plan.table.lmax,
        of_vectors=isinstance(plan.field, codes.VectorField),
        in_blocks=isinstance(plan.field, BlockField),
    )
    with _lock:
        if command in _under_way:
            return _under_way[command]
        ended = threading.Event()
        if cpu.is_loaded(plan):
            ended.set()
        else:
            _under_way[command] = ended
            threading.Thread(
                target=_compile, args=(command, plan, ended), name=THREAD_NAME, daemon=True
            ).start()
    return ended


def make_ready(plan: Plan) -> bool:
    """Compile or load the kernel of a plan, and wait for it; return whether that was needed."""
    was_missing = is_missing(plan)
    for _ in until_compiled(plan):
        pass
    return cpu.make_ready(plan) or was_missing


def until_compiled(plan: Plan) -> Iterator[None]:
    """Compile the kernel of a plan if it is missing, and wait; yield now and then meanwhile.

    Whoever waits can give up then: it takes a minute.
    """
    if is_missing(plan):
        ended = begin(plan)
        while not ended.wait(WAIT_SECONDS):
            yield


def _compile(command: str, plan: Plan, ended: threading.Event) -> None:
    try:
        marker = _marker(command)
        while _is_fresh(marker) and not cpu.is_on_disk(plan):
            time.sleep(POLL_SECONDS)  # a program before this one, or beside it, has begun
        if not cpu.is_on_disk(plan):
            marker.touch()
            _run(command + AND_REMOVE.format(marker=str(marker)))
            marker.unlink(missing_ok=True)
        cpu.make_ready(plan)  # loads it; where the process has failed it is compiled here
    except Exception:  # raised again by whoever tracks with that kernel
        logger.exception("Compiling a kernel failed")
    finally:
        with _lock:
            _under_way.pop(command, None)
        ended.set()


def _marker(command: str) -> Path:
    """Return the file that is there while a command runs, so that it is not run many times."""
    name = zlib.crc32(f"{command} {sys.prefix} {Path.home()}".encode())
    return Path(tempfile.gettempdir()) / f"napari-tractography-{name:08x}.compiling"


def _is_fresh(marker: Path) -> bool:
    try:
        return time.time() - marker.stat().st_mtime < MARKED_SECONDS
    except FileNotFoundError:
        return False


def _run(command: str) -> None:
    """Run a command in a Python of its own, which goes on should this one end before it."""
    problem = run_in_a_process(command)
    if problem:
        logger.warning("Compiling in a process of its own failed (%s): compiling here.", problem)
