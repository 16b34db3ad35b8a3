"""One piece of work at a time in a thread, with progress and cancel; the newest wins.

Used where streamlines are measured or indexed, which takes a while for a million of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from psygnal import Signal
from qtpy.QtCore import QTimer

from ...errors import TractographyError
from ...files.paths import GivenUpError
from . import workers

logger = logging.getLogger(__name__)

POLL_MS = 100

Advance = Callable[[float], None]


class _Task:
    """A piece of work under way: how far it is, and whether it is still wanted."""

    def __init__(self) -> None:
        self.fraction = 0.0
        self.cancelled = threading.Event()

    def advance(self, fraction: float) -> None:
        """Note how far it is; end it where it is no longer wanted."""
        self.fraction = fraction
        if self.cancelled.is_set():
            raise GivenUpError


class Background:
    """Does one piece of work at a time; one that is begun takes the place of the one before."""

    progressed = Signal(str, float)  # what is done, and which fraction of it
    ended = Signal()  # done, cancelled or failed: nothing is under way
    failed = Signal(str)  # a sentence on why there is no result

    def __init__(self) -> None:
        self._task: _Task | None = None
        self._text = ""
        self._poll = QTimer()
        self._poll.setInterval(POLL_MS)
        self._poll.timeout.connect(self._tell)

    @property
    def is_busy(self) -> bool:
        """Whether a result is on the way."""
        return self._task is not None

    def begin(self, text: str, work: Callable[[Advance], Any], done: Callable[[Any], None]) -> None:
        """Do `work` in a thread, then `done` with its result in this one.

        Parameters
        ----------
        text : str
            What is done, for a person.
        work : callable
            Takes a function that it tells how far it is, and that may end it by an exception.
            Touches no viewer, layer or widget.
        done : callable
            Not called when the work was cancelled, failed, or gave way to another.
        """
        self._give_up()
        task = self._task = _Task()
        self._text = text
        self._poll.start()
        workers.call(
            partial(_do, work, task),
            returned=lambda found: self._on_returned(task, found, done),
            errored=partial(self._on_error, task),
            finished=partial(self._on_finished, task),
        )
        self._tell()

    def cancel(self) -> None:
        """Want no result any more."""
        if self._task is not None:
            self._give_up()
            self.ended.emit()

    def _give_up(self) -> None:
        if self._task is not None:
            self._task.cancelled.set()
        self._task = None
        self._poll.stop()

    def _tell(self) -> None:
        if self._task is not None:
            self.progressed.emit(self._text, self._task.fraction)

    def _on_returned(self, task: _Task, found: Any, done: Callable[[Any], None]) -> None:
        if task is self._task and not isinstance(found, _GaveUp):
            self._end()
            done(found)

    def _on_error(self, task: _Task, error: Exception) -> None:
        if not isinstance(error, TractographyError):
            logger.warning("%s failed", self._text, exc_info=error)
        if task is self._task:
            self._end()
            self.failed.emit(f"{self._text}: {error}")

    def _on_finished(self, task: _Task) -> None:
        if task is self._task:  # superqt keeps some errors to itself
            self._end()

    def _end(self) -> None:
        self._give_up()
        self.ended.emit()


class _GaveUp:
    """The result of work that was no longer wanted."""


def _do(work: Callable[[Advance], Any], task: _Task) -> Any:
    try:
        return work(task.advance)
    except GivenUpError:
        return _GaveUp()
