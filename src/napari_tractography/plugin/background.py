"""Work in threads: begun, heard of in the window's thread, and given up, in one way for all of it.

Runs and projects yield items (:func:`iterate`); all else has one result (:class:`Background`), but
for files, for which their callers wait a moment (:func:`begun`).
Threads are daemons: neither a window that closes nor the end of the program waits for one that
compiles a kernel or asks a driver for GPUs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from psygnal import Signal
from qtpy.QtCore import QObject, Qt
from qtpy.QtCore import Signal as QtSignal

from ..errors import TractographyError
from ..files.paths import GivenUpError
from .timers import repeated

logger = logging.getLogger(__name__)

POLL_MS = 100  # between two reports of the progress
THREAD_NAME = "tractography-background"

Advance = Callable[[float], None]
Result = TypeVar("Result")


def begun(work: Callable[[], Result], name: str = THREAD_NAME) -> Future[Result]:
    """Begin work in a thread; return what gives its result, or raises what the work raised."""
    future: Future[Result] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=do, name=name, daemon=True).start()
    return future


class _Post(QObject):  # type: ignore[misc]
    """Brings what a thread yields into the thread in which this was made."""

    item = QtSignal(object)
    ended = QtSignal()


_posts: set[_Post] = set()  # of threads at work: events reach them as long as they are there


def iterate(
    work: Callable[[], Iterator[Any]],
    yielded: Callable[[Any], object],
    finished: Callable[[], object] | None = None,
) -> None:
    """Go through a generator in a thread; nothing of it is held once it has ended.

    `work` returns it: it touches no viewer, layer or widget and raises nothing. In this thread
    `yielded` is called with each item, and `finished` after the last.
    """
    post = _Post()
    _posts.add(post)

    def end() -> None:
        _posts.discard(post)
        post.item.disconnect()
        post.ended.disconnect()
        post.deleteLater()
        if finished is not None:
            finished()

    post.item.connect(yielded, Qt.ConnectionType.QueuedConnection)
    post.ended.connect(end, Qt.ConnectionType.QueuedConnection)
    threading.Thread(target=_go_through, args=([work], post), name=THREAD_NAME, daemon=True).start()


def _go_through(handed: list[Callable[[], Iterator[Any]]], post: _Post) -> None:
    with suppress(RuntimeError):  # Qt has deleted its objects: the program ends
        try:
            for item in handed.pop()():
                post.item.emit(item)
                del item
        finally:
            post.ended.emit()


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
        self._poll = repeated(None, POLL_MS, self._report)

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def begin(
        self, text: str, work: Callable[[Advance], Any], done: Callable[[Any], object]
    ) -> None:
        """Do `work`, which the text names, in a thread, then `done` with its result in this one.

        `work` takes a function that it calls with the fraction that is done, and that ends it by an
        exception once it is no longer wanted; it touches no viewer, layer or widget. `done` is not
        called when the work was cancelled, failed, or gave way to another.
        """
        self._give_up()
        task = self._task = _Task()
        self._text = text
        self._poll.start()
        iterate(partial(_outcome, work, task), partial(self._on_outcome, task, done))
        self._report()

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

    def _report(self) -> None:
        if self._task is not None:
            self.progressed.emit(self._text, self._task.fraction)

    def _on_outcome(
        self, task: _Task, done: Callable[[Any], object], outcome: tuple[Any, Exception | None]
    ) -> None:
        found, error = outcome
        is_known = isinstance(error, TractographyError)
        if error is not None and not is_known:
            logger.warning("%s failed", self._text, exc_info=error)
        if task is not self._task:
            return
        self._give_up()
        if error is None:
            done(found)
        else:
            reason = str(error) or type(error).__name__
            self.failed.emit(reason if is_known else f"{self._text} failed: {reason}.")
        if not self.is_busy:  # with what `done` has begun
            self.ended.emit()


def _outcome(work: Callable[[Advance], Any], task: _Task) -> Iterator[tuple[Any, Exception | None]]:
    try:
        yield work(task.advance), None
    except GivenUpError:
        return
    except Exception as error:  # whatever it is, the window says so and stays alive
        yield None, error
