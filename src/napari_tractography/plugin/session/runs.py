"""One run: the worker that carries out a request in a thread, and what has arrived of it.

Called by :mod:`.run_control`, which alone brings results to the screen.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from ...errors import TractographyError
from ...streamlines.joining import Joining
from ...streamlines.tractogram import Tractogram
from ...tracking.engine import iter_chunks
from ...tracking.previewing import preview
from ...tracking.report import Report
from ..requests import Request
from .open_bundle import OpenBundle

logger = logging.getLogger(__name__)

REDRAW_SECONDS = 0.1  # at least, between two redraws while chunks arrive
REDRAW_GROWTH = 0.25  # a redraw waits until there are so many more points, as a fraction,
SLOW_REDRAW_SECONDS = 1.0  # or until so much time has passed


@dataclass(frozen=True, slots=True)
class Finished:
    """The last that a worker yields: all chunks joined, in the thread, where no window waits."""

    tractogram: Tractogram


@dataclass(frozen=True, slots=True)
class Failure:
    """What a run yields instead of raising."""

    message: str


class Run:
    """One run of a bundle: how far it is, what has arrived."""

    def __init__(self, request: Request, bundle: OpenBundle) -> None:
        self.request = request
        self.bundle = bundle
        self.is_live = request.is_preview  # whether Live began it, and not Run
        self.result: Tractogram | None = None  # what it gave at its end
        self.kept_previous = False  # whether that is nothing, and what was there has stayed
        self.drops_edits = False  # whether the result that it replaces was edited by hand
        self.begun = time.perf_counter()
        self.asked = self.begun  # the time of the change that it follows
        self.latency = 0.0  # seconds from that change until the result was in the layer
        self.parts: list[Tractogram] = []  # chunks that have arrived
        self.n_done = 0  # seeds
        self.n_streamlines = 0
        self.n_points = 0
        self.n_parts_shown = 0
        self.n_points_shown = 0
        self.last_redraw = self.begun
        self.cancelled = threading.Event()
        self.ended = threading.Event()
        self.kept = False  # when cancelled, whether what has arrived is wanted
        self.was_ready = True  # whether what tracks needed neither loading nor compiling
        self.report = Report()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def take(self, chunk: Tractogram) -> None:
        self.parts.append(chunk)
        self.n_done += chunk.n_seeds
        self.n_streamlines += len(chunk)
        self.n_points += chunk.n_points

    def is_redraw_due(self) -> bool:
        """Return whether enough has arrived since the last redraw for another.

        A redraw costs in proportion to all points: redraws grow apart, so that all of them
        together cost little more than the last.
        """
        waited = time.perf_counter() - self.last_redraw
        n_new = self.n_points - self.n_points_shown
        has_grown = n_new >= REDRAW_GROWTH * self.n_points_shown
        return waited > (REDRAW_SECONDS if has_grown else SLOW_REDRAW_SECONDS)

    def note_redraw(self) -> None:
        """Note that all that has arrived is on the screen."""
        self.last_redraw = time.perf_counter()
        self.n_parts_shown = len(self.parts)
        self.n_points_shown = self.n_points


def work(run: Run) -> Iterator[Tractogram | Finished | Failure]:
    """Track in a thread: yields chunks, then Finished; a Failure instead of raising."""
    request = run.request
    joining = Joining(request.n_seeds if request.select is None else None)
    try:
        if run.cancelled.is_set():  # while the thread began
            return
        if request.is_preview:
            found = preview_of(run)
            if not run.cancelled.is_set():
                yield Finished(found)
            return
        chunks = iter_chunks(request.tracking_input(), request.execution, report=run.report)
        with closing(chunks):  # which cancels the kernels and waits for their threads
            for chunk in chunks:
                if run.cancelled.is_set():
                    break
                joining.take(chunk)  # at the end its points are not in memory twice
                yield chunk
                del chunk
        if run.kept or not run.cancelled.is_set():
            whole = joining.columns()
            yield Finished(
                Tractogram.empty() if whole is None else Tractogram(**whole, points_are_finite=True)
            )
    except TractographyError as error:
        yield Failure(str(error))
    except Exception as error:  # a defect: logged in full, shown as a sentence, never a hang
        logger.exception("Tracking failed")
        yield Failure(f"Tracking failed: {error}; the log has the details.")
    finally:
        run.ended.set()


def preview_of(run: Run) -> Tractogram:
    request = run.request
    found, run.was_ready = preview(
        request.tracking_input(),
        request.firsts,
        request.n_each,
        request.execution,
        cancelled=run.cancelled,
        report=run.report,
    )
    return found
