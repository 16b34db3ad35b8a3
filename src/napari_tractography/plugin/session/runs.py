"""One run: what is asked for, the worker that does it in a thread, and what has arrived.

Called by the session, which alone brings results to the screen.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from napari.qt.threading import thread_worker
from numpy.typing import NDArray

from ...errors import TractographyError
from ...fod import Fod
from ...parameters import TrackingParameters
from ...regions import Region
from ...seeds import Seeds
from ...tracking.engine import iter_chunks, make_plan
from ...tracking.inputs import Execution, TrackingInput
from ...tracking.report import Report
from ...tractogram import Tractogram
from .previews import track_preview
from .seeding import Seeding

logger = logging.getLogger(__name__)

REDRAW_SECONDS = 0.1  # at most this often while chunks arrive
REDRAW_GROWTH = 0.25  # and not before there is so much more to see,
SLOW_REDRAW_SECONDS = 1.0  # or so much time is over


@dataclass(frozen=True, slots=True)
class Request:
    """A run, frozen: nothing that happens on the screen changes it."""

    fod: Fod
    starts: Seeding
    full: Seeding  # of the full run, where this is its preview
    parameters: TrackingParameters
    mask: NDArray[np.bool_] | None
    preview: bool
    regions: tuple[Region, ...] = ()
    include_rule: str = "all"
    execution: Execution = field(default_factory=Execution)

    @property
    def n_seeds(self) -> int:
        """Number of streamlines to start."""
        return self.starts.n_seeds

    @property
    def whole(self) -> bool:
        """Whether these are all streamlines that were asked for, preview or not."""
        return self.starts.n_seeds == self.full.n_seeds

    def streams(self) -> tuple[list[int], list[int]]:
        """Return, for each place, the number in the full run of its first streamline; how many."""
        return [0, *accumulate(self.full.n_each)][:-1], self.starts.n_each

    def seeds(self) -> Seeds:
        """Draw where streamlines start."""
        return self.starts.draw(self.fod, self.parameters.random_seed)

    def tracking_input(self) -> TrackingInput:
        """Return what the engine takes."""
        return TrackingInput(
            self.fod,
            self.seeds(),
            self.parameters,
            self.mask,
            self.regions,
            self.include_rule,
        )


@dataclass(frozen=True, slots=True)
class Finished:
    """The last that a worker yields: all there is, put together where it blocks no window."""

    tractogram: Tractogram


@dataclass(frozen=True, slots=True)
class Failure:
    """What a worker yields instead of raising: superqt's workers lose some exceptions."""

    message: str


class Run:
    """One run: how far it is, what has arrived."""

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.request = request
        self.begun = time.perf_counter()
        self.asked = self.begun  # when what it follows changed
        self.latency = 0.0  # seconds from then until it was in the layer
        self.parts: list[Tractogram] = []  # what has arrived
        self.n_done = 0  # seeds
        self.n_streamlines = 0
        self.n_points = 0
        self.n_parts_shown = 0
        self.n_points_shown = 0
        self.last_redraw = self.begun
        self.cancelled = threading.Event()
        self.ended = threading.Event()
        self.kept = False  # when cancelled, whether what has arrived is wanted
        self.table_progress = (0, 0)
        self.report = Report()

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self.begun

    def take(self, chunk: Tractogram) -> None:
        """Take a chunk that has arrived."""
        self.parts.append(chunk)
        self.n_done += chunk.n_seeds
        self.n_streamlines += len(chunk)
        self.n_points += chunk.n_points

    def is_redraw_due(self) -> bool:
        """Tell whether enough has arrived since the last redraw to be worth another.

        A redraw costs as much as there is to draw: they come at a growing distance, so that all
        of them together cost little more than the last.
        """
        waited = time.perf_counter() - self.last_redraw
        fresh = self.n_points - self.n_points_shown
        grown = fresh >= REDRAW_GROWTH * self.n_points_shown
        return waited > (REDRAW_SECONDS if grown else SLOW_REDRAW_SECONDS)

    def note_redraw(self) -> None:
        """Note that all that has arrived is on the screen."""
        self.last_redraw = time.perf_counter()
        self.n_parts_shown = len(self.parts)
        self.n_points_shown = self.n_points

    def note_table_progress(self, done: int, total: int) -> None:
        """Take the progress of tabulating, in the worker's thread; gives up when cancelled."""
        self.table_progress = (done, total)
        if self.cancelled.is_set():
            raise _Cancelled


class _Cancelled(Exception):  # noqa: N818 - not an error
    """Leaves the tabulation of a cancelled run."""


@thread_worker  # type: ignore[untyped-decorator]
def work(run: Run) -> Iterator[Tractogram | Finished | Failure]:
    """Track in a thread: yields chunks, then Finished; a Failure instead of raising."""
    request = run.request
    parts = []
    try:
        if request.preview:
            preview = _preview(run)
            if not run.cancelled.is_set():
                yield Finished(preview)
            return
        chunks = iter_chunks(
            request.tracking_input(),
            request.execution,
            progress=run.note_table_progress,
            report=run.report,
        )
        try:
            for chunk in chunks:
                if run.cancelled.is_set():
                    break
                parts.append(chunk)
                yield chunk
        finally:
            chunks.close()  # cancels the kernels and waits for their threads
        if run.kept or not run.cancelled.is_set():
            yield Finished(Tractogram.concatenate(parts))
    except _Cancelled:
        return
    except TractographyError as error:
        yield Failure(str(error))
    except Exception as error:  # a defect: logged in full, told in a sentence, never a hang
        logger.exception("Tracking failed")
        yield Failure(f"Tracking failed: {error}; the log has the details.")
    finally:
        run.ended.set()


def _preview(run: Run) -> Tractogram:
    request = run.request
    plan = make_plan(request.tracking_input(), progress=run.note_table_progress)
    firsts, counts = request.streams()
    return track_preview(plan, firsts, counts, run.cancelled, request.execution.n_threads)
