"""Bounds within which every file must be read: kinds of errors, memory, processor time."""

from __future__ import annotations

import signal
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from napari_tractography.errors import MOST_CHARACTERS, TractographyError

MACHINE_BYTES = 64 << 20  # of memory that the machine seems to have
# What reading takes besides: pieces that are converted, copies of small things, libraries.
MORE_BYTES = 192 << 20
CPU_SECONDS = 30  # what takes longer does not end; a file here takes milliseconds


class EndlessError(BaseException):
    """A file is read for ever: no Exception, so that nothing between catches it."""


@contextmanager
def ends() -> Iterator[None]:
    """Raise EndlessError where a block computes for ever. Not the clock counts, but the work."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def give_up(*_: Any) -> None:
        raise EndlessError(f"more than {CPU_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def outcome(load: Callable[[Path], Any], path: Path) -> str:
    """Load a file; return the sentence of our error, "" where there is a result.

    Any other exception goes on to the test, and so does a message that is no sentence.
    """
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        with ends(), warnings.catch_warnings():
            warnings.simplefilter("error")
            # Numbers near the largest overflow on their way; what becomes of them is refused.
            warnings.simplefilter("ignore", RuntimeWarning)
            load(path)
        message = ""
    except TractographyError as error:
        message = str(error)
        assert message
        assert len(message) <= MOST_CHARACTERS
        assert len(message.splitlines()) == 1
    taken = tracemalloc.get_traced_memory()[1] - before
    assert taken < MACHINE_BYTES + MORE_BYTES, f"{taken / 1e6:.0f} MB for {path.name}: {message}"
    return message
