"""How the command ends on a signal from outside: one line and an exit code, no traceback.

It imports next to nothing, so that it is in force while everything else is imported.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

PROGRAM = "napari-tractography"
EXIT_INTERRUPTED = 128 + 2  # as of a program that SIGINT ends
EXIT_TERMINATED = 128 + 15  # as of one that SIGTERM ends, which batch systems send


class TerminatedError(BaseException):
    """SIGTERM came: whatever is under way ends as after Ctrl-C, and cleans up."""


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Raise TerminatedError where SIGTERM comes, instead of ending at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up is not disturbed
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
