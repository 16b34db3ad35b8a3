"""Measuring bundles in a thread, with progress, newest first; without a widget.

Called by the Measure section of the panel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from psygnal import Signal

from ...errors import TractographyError
from ...files.paths import GivenUpError
from ...maps.chunks import blocks_of
from ...streamlines.tractogram import Tractogram
from . import workers

logger = logging.getLogger(__name__)


class MeasuringTask:
    """How far one piece of work is, and whether it is still wanted.

    Attributes
    ----------
    n_done, n_total : int
        Streamlines.
    is_given_up : bool
    """

    def __init__(self, n_total: int) -> None:
        self.n_done, self.n_total = 0, max(n_total, 1)
        self.is_given_up = False

    def over(self, tractogram: Tractogram) -> CountedBlocks:
        """Return streamlines that count themselves as they are taken, and end when given up."""
        return CountedBlocks(self, tractogram)


class CountedBlocks:
    """The blocks of a tractogram; each time from the beginning."""

    def __init__(self, watch: MeasuringTask, tractogram: Tractogram) -> None:
        self._watch, self._tractogram = watch, tractogram

    def __iter__(self) -> Iterator[Tractogram]:
        for block in blocks_of(self._tractogram):
            if self._watch.is_given_up:
                raise GivenUpError("measuring")
            yield block
            self._watch.n_done += len(block)


class Measuring:
    """Does one piece of work at a time; another one takes its place."""

    started = Signal()
    ended = Signal()
    failed = Signal(str)  # a sentence

    def __init__(self) -> None:
        self.watch: MeasuringTask | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something is being measured."""
        return self.watch is not None

    def start(
        self, work: Callable[[MeasuringTask], Any], done: Callable[[Any], None], *, n_total: int
    ) -> None:
        """Work in a thread, then call `done` with the result in this one.

        Parameters
        ----------
        work : callable
            Takes its streamlines from :meth:`MeasuringTask.over`; touches no viewer, layer or
            widget.
        done : callable
            Not called when the work was given up or fails.
        n_total : int
            Streamlines, for the progress.
        """
        self.give_up()
        watch = self.watch = MeasuringTask(n_total)
        self.started.emit()
        workers.call(
            partial(_work, work, watch),
            returned=lambda outcome: self._on_returned(watch, outcome, done),
        )

    def give_up(self) -> None:
        """Give up what is under way."""
        if self.watch is not None:
            self.watch.is_given_up = True
            self.watch = None
            self.ended.emit()

    def _on_returned(
        self, watch: MeasuringTask, outcome: WorkResult, done: Callable[[Any], None]
    ) -> None:
        if watch is not self.watch:
            return
        self.watch = None
        if isinstance(outcome.error, TractographyError):
            self.failed.emit(str(outcome.error))
        elif outcome.error is not None:
            logger.warning("Measuring failed", exc_info=outcome.error)
            reason = str(outcome.error) or type(outcome.error).__name__
            self.failed.emit(f"The bundles cannot be measured: {reason}.")
        else:
            done(outcome.found)
        self.ended.emit()


class WorkResult(NamedTuple):
    """What came of some work; an exception alone would end the worker, not come back."""

    found: Any
    error: Exception | None


def _work(work: Callable[[MeasuringTask], Any], watch: MeasuringTask) -> WorkResult:
    try:
        return WorkResult(work(watch), None)
    except Exception as error:  # whatever it is, the window says so and goes on
        return WorkResult(None, error)
