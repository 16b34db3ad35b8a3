"""How the command ends on a signal from outside: one line and an exit code, no traceback.

It imports next to nothing, so that it is in force while everything else is imported.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in the package
if TYPE_CHECKING:
    from typing import Any

PROGRAM = "napari-tractography"
EXIT_INTERRUPTED = 128 + 2  # as of a program that SIGINT ends
EXIT_TERMINATED = 128 + 15  # as of one that SIGTERM ends, which batch systems send


class TerminatedError(BaseException):
    """SIGTERM came: whatever is under way ends as after Ctrl-C, and cleans up."""


class Signals:
    """In its block TerminatedError is raised where SIGTERM comes, instead of ending at once.

    `is_interrupted` tells whether SIGINT came: others may have caught the KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.is_interrupted = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        import signal
        import threading

        if threading.current_thread() is not threading.main_thread():
            return  # signals are the main thread's
        self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._end)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(self, *_error: object) -> None:
        import signal

        for number, before in self._before.items():
            signal.signal(number, before)

    def _interrupt(self, number: int, frame: object) -> None:
        self.is_interrupted = True
        raise KeyboardInterrupt

    def _end(self, number: int, frame: object) -> None:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up is not disturbed
        raise TerminatedError
