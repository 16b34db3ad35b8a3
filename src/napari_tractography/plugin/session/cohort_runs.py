"""The seeds of the active bundle in many subjects: tracked again whenever something changes.

Works in a thread of its own and hands over in steps, as subjects come. Called by the panel.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from ...errors import InvalidSeedsError, TractographyError
from ...maps.cohort import CohortResult, passed_voxels
from ...recipes.cohort import Cohort
from ...streamlines.tractogram import Tractogram
from ..background import iterate
from ..requests import Request
from ..run_seeding import SeedBetween, SeedFod
from ..timers import delayed
from .session import Session

logger = logging.getLogger(__name__)

N_PREVIEW = 200  # streamlines of each subject, while something changes
SETTLE_MS = 400  # after the last change, before all are tracked
STEP_SECONDS = 0.15  # between two steps that are shown
PATIENCE_SECONDS = 1.0  # after which a change does not wait for a run to end


@dataclass(frozen=True, slots=True, eq=False)
class CohortStep:
    """How far a run has come."""

    n_done: int
    n_subjects: int
    share: NDArray[np.float32]  # (x, y, z): of the subjects that are done
    result: CohortResult | None = None  # when all are


@dataclass(eq=False)
class CohortRun:
    """A run that is under way, or was."""

    cohort: Cohort
    request: Request
    begun: float = field(default_factory=time.perf_counter)
    cancelled: threading.Event = field(default_factory=threading.Event)


class CohortRuns:
    """Follows a session in a cohort, once one is :meth:`open`; the newest run wins."""

    stepped = Signal(object)  # CohortStep
    failed = Signal(str)  # a sentence on why nothing is tracked

    def __init__(self, session: Session) -> None:
        self.session = session
        self.cohort: Cohort | None = None
        self.result: CohortResult | None = None  # of the last run that ended
        self.result_request: Request | None = None
        self._current: CohortRun | None = None
        self._is_outdated = False  # whether something changed since the run under way began
        self._is_full_due = False  # whether all is tracked once the preview under way has ended
        self._is_done = False  # whether all was tracked since something changed
        self._settle = delayed(None, SETTLE_MS, self._on_settled)

    @property
    def is_busy(self) -> bool:
        return self._current is not None or bool(self._settle.isActive())

    def open(self, cohort: Cohort) -> None:
        """Follow the session in another cohort."""
        self.close()
        self.cohort = cohort
        self.session.changed.connect(self.follow)
        self.follow()

    def close(self) -> None:
        if self.cohort is None:
            return
        self.session.changed.disconnect(self.follow)
        self._settle.stop()
        self._abandon()
        self.cohort = self.result = self.result_request = None

    def follow(self) -> None:
        """Track a preview now, or when that under way has ended; all when nothing changes."""
        self._settle.start()
        self._is_full_due = self._is_done = False
        run = self._current
        if run is not None and time.perf_counter() - run.begun < PATIENCE_SECONDS:
            self._is_outdated = True
            return
        self._begin(N_PREVIEW)

    def _on_settled(self) -> None:
        """Track all streamlines, after the preview that is under way."""
        if self._current is not None:
            self._is_full_due = True
        elif not self._is_done:
            self._begin(None)

    def _begin(self, n_preview: int | None) -> None:
        if self.cohort is None:
            return
        try:
            request = replace(self.session.request(n_preview=n_preview), select=None)
            if isinstance(request.seeding, SeedBetween | SeedFod):
                raise InvalidSeedsError(
                    "All subjects start from the same seeds: place some, or start from a mask."
                )
        except TractographyError as error:
            self._abandon()
            self.failed.emit(str(error))
            return
        self._abandon()
        run = self._current = CohortRun(self.cohort, request)
        iterate(partial(work, run), partial(self._on_item, run), partial(self._on_end, run))

    def _abandon(self) -> None:
        self._is_outdated = self._is_full_due = False
        if self._current is not None:
            self._current.cancelled.set()
            self._current = None

    def _on_item(self, run: CohortRun, item: CohortStep | str) -> None:
        if run is not self._current:
            return
        if isinstance(item, str):
            self._is_full_due = False
            self._settle.stop()
            self.failed.emit(item)
            return
        if item.result is not None:
            self.result, self.result_request = item.result, run.request
            self._is_done = run.request.is_whole and not self._is_outdated
        self.stepped.emit(item)

    def _on_end(self, run: CohortRun) -> None:
        if run is not self._current:
            return
        is_outdated, is_full_due = self._is_outdated, self._is_full_due
        self._abandon()
        if is_full_due and not self._is_done:
            self._begin(None)
        elif is_outdated:
            self._begin(N_PREVIEW)


def work(run: CohortRun) -> Iterator[CohortStep | str]:
    """Track in all subjects; yield steps, and a sentence where something is wrong."""
    cohort, n_subjects = run.cohort, len(run.cohort)
    n_reached = np.zeros(cohort.grid.shape, np.float32)
    flat, shown = n_reached.reshape(-1), time.perf_counter()
    tractograms: dict[int, Tractogram] = {}
    digests: dict[int, str] = {}
    try:
        inputs = run.request.tracking_input()
        with contextlib.closing(cohort.iter_done(inputs)) as results:
            for done in results:
                if run.cancelled.is_set():
                    return
                if done is None:
                    continue
                number, tractograms[done[0]], digests[done[0]] = done
                flat[passed_voxels(tractograms[number], cohort.grid)[0]] += 1
                n_done = len(tractograms)
                if n_done < n_subjects and time.perf_counter() - shown > STEP_SECONDS:
                    shown = time.perf_counter()
                    yield CohortStep(n_done, n_subjects, n_reached / np.float32(n_done))
        result = cohort.result(tractograms, digests=digests)
        yield CohortStep(n_subjects, n_subjects, n_reached / np.float32(n_subjects), result)
    except TractographyError as error:
        yield str(error)
    except Exception as error:  # a defect: logged in full, shown as a sentence, never silence
        logger.exception("Tracking in the subjects failed")
        yield f"Tracking in the subjects failed: {error}; the log has the details."
