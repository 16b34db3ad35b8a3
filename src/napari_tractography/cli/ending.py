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
AGAIN_S = 0.01  # after which a signal that was lost comes again


class TerminatedError(BaseException):
    """SIGTERM came: whatever is under way ends as after Ctrl-C, and cleans up."""


class Signals:
    """In its block TerminatedError is raised where SIGTERM comes, instead of ending at once.

    `is_interrupted` tells whether SIGINT came: others may have caught the KeyboardInterrupt.
    Where nothing can be raised, as in a callback of the import system, Python would pass over what
    these raise, and the command would go on: there the signal comes again a moment later.
    """

    def __init__(self) -> None:
        self.is_interrupted = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        import signal
        import sys
        import threading

        if threading.current_thread() is not threading.main_thread():
            return  # signals are the main thread's
        self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._end)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
        self._other_hook, sys.unraisablehook = sys.unraisablehook, self._not_raised

    def __exit__(self, *_error: object) -> None:
        import signal
        import sys

        for number, before in self._before.items():
            signal.signal(number, before)
        if self._before:
            sys.unraisablehook = self._other_hook

    def _not_raised(self, what: Any) -> None:
        import _thread
        import signal
        import sys
        import threading
        import time

        if what.exc_type not in (KeyboardInterrupt, TerminatedError):
            self._other_hook(what)
            return
        main, number = threading.get_ident(), signal.SIGINT
        if what.exc_type is TerminatedError:
            number = signal.SIGTERM
            signal.signal(number, self._end)

        def again() -> None:
            time.sleep(AGAIN_S)
            if sys.platform == "win32":
                _thread.interrupt_main(number)
            else:  # which ends what the main thread waits for
                signal.pthread_kill(main, number)

        _thread.start_new_thread(again, ())

    def _interrupt(self, number: int, frame: object) -> None:
        self.is_interrupted = True
        raise KeyboardInterrupt

    def _end(self, number: int, frame: object) -> None:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up is not disturbed
        raise TerminatedError
