"""Seeds tracked in NumPy: start directions, both halves of each streamline, and what they give.

Called by :mod:`napari_tractography.tracking.backends` as long as the kernel is not ready.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...fields.input_kind import COEFFICIENTS
from ...model.algorithms import BY_NAME
from ...model.stop import N_REASONS
from ...streamlines.tractogram import Tractogram, tally_from_counts
from ..codes import (
    BACKWARD,
    BOTH,
    FORWARD,
    LEFT_IMAGE,
    LEFT_MASK,
    MAX_LENGTH,
    PURPOSE_BACKWARD,
    PURPOSE_FORWARD,
    PURPOSE_START,
    SEED_OUTSIDE_IMAGE,
    SEED_OUTSIDE_MASK,
    SEED_WITHOUT_FOD,
    START_GIVEN,
    START_SAMPLED,
    TOO_SHORT,
)
from ..execution import Execution
from ..plan import Plan
from ..report import Report
from .evaluation import ONE, ZERO, Array, degrees_of
from .lanes import Lanes, field_of, outside

# Seeds of a block: few at first, so that the first streamlines show at once. A fourth would take
# nearly as long, and sixteen times as many four times as long, as long as can be waited for; so it
# is many then, unless the first took long (by the processor's time: others may be busy).
FIRST_BLOCK, BLOCK, MANY_BELOW_SECONDS = 400, 6400, 1.5
PREVIEW_BLOCK = 400  # which a newer preview waits for
STARTED = -1  # in place of a reason
# Of the halves: 0, forward, and 1, backward.
SIGNS = np.array([1, -1], np.float32)
PURPOSES = np.array([PURPOSE_FORWARD, PURPOSE_BACKWARD])
HALVES = {BOTH: [0, 1], FORWARD: [0], BACKWARD: [1]}


def can_track(plan: Plan) -> bool:
    """Tell whether :func:`track_range` tracks what a plan asks for."""
    if plan.table.kernel != COEFFICIENTS:
        return False
    is_probabilistic = plan.settings.algorithm == BY_NAME["probabilistic"].code
    is_free = not len(plan.regions.roles) and not plan.with_tissues
    return is_probabilistic and is_free and not plan.field.allowed.size


def iter_chunks(
    plan: Plan,
    execution: Execution,
    ended: threading.Event,
    report: Report,
) -> Iterator[Tractogram]:
    """Track seeds from the first on until an event is set; yield chunks in seed order.

    Seconds of "tracking" are added to the report.
    """
    first, size = 0, execution.block or (FIRST_BLOCK if execution.early else BLOCK)
    while first < plan.n_seeds and not ended.is_set():
        last = min(first + size, plan.n_seeds)
        begun, used = time.perf_counter(), time.thread_time()
        chunk = track_range(plan, first, last, np.zeros(1, np.uint8), plan.first_stream)
        report.add("tracking", time.perf_counter() - begun)
        used = time.thread_time() - used
        yield chunk
        first = last
        if execution.block is None and used < MANY_BELOW_SECONDS:
            size = BLOCK


def track_range(
    plan: Plan, first: int, last: int, cancelled: NDArray[np.uint8], first_stream: int = 0
) -> Tractogram:
    """Track seeds `first` to `last`, not included.

    The streamlines are those of :func:`napari_tractography.tracking.cpu.cpu_backend.track_range`,
    which has the same parameters. When cancelled, the result has no seeds.
    """
    with np.errstate(all="ignore"):  # what is divided by zero is not used
        return _Block(plan, first, last, first_stream).track(cancelled)


class _Block:
    """The streamlines of a block of seeds."""

    def __init__(self, plan: Plan, first: int, last: int, first_stream: int) -> None:
        self.plan, self.settings = plan, plan.settings
        self.seed_index = np.arange(first, last) + first_stream
        self.streams = plan.streams_of(first, last, first_stream).astype(np.int64)
        self.position = np.ascontiguousarray(plan.positions_mm[first:last].T)
        self.seed_directions = np.ascontiguousarray(plan.seed_directions[first:last].T)
        self.tally = np.zeros(N_REASONS, np.int64)
        self.halves = HALVES[self.settings.direction]

    def track(self, cancelled: NDArray[np.uint8]) -> Tractogram:
        """Track all; return the streamlines, or none when cancelled."""
        reason = outside(field_of(self.plan), self.position)
        self.tally[SEED_OUTSIDE_IMAGE] = (reason == LEFT_IMAGE).sum()
        self.tally[SEED_OUTSIDE_MASK] = (reason == LEFT_MASK).sum()
        inside = np.flatnonzero(reason == 0)
        seeds, start = self._start_directions(inside, cancelled)
        self.tally[SEED_WITHOUT_FOD] = len(inside) - len(seeds)
        n_halves = len(self.halves)
        lanes = Lanes(
            self.plan,
            np.tile(self.position[:, seeds], n_halves),
            np.concatenate([SIGNS[half] * start for half in self.halves], axis=1),
            np.tile(self.streams[seeds], n_halves),
            np.repeat(PURPOSES[self.halves], len(seeds)),
        )
        path = []
        # The first half takes its first step along the start direction.
        forced = 0 if self.settings.start == START_GIVEN else len(seeds)
        for chosen in chain([np.arange(forced)], lanes.draws(cancelled)):
            moved = lanes.step(chosen)
            path.append((moved, lanes.steps[moved], lanes.position[:, moved]))
        return Tractogram.concatenate([]) if cancelled[0] else self._join(lanes, seeds, path)

    def _start_directions(self, inside: Array, cancelled: NDArray[np.uint8]) -> tuple[Array, Array]:
        """Return the seeds that have a start direction, and those, (3, n) float32."""
        n = len(inside)
        lanes = Lanes(
            self.plan,
            self.position[:, inside],
            np.repeat(np.array([[0], [0], [1]], np.float32), n, axis=1),
            self.streams[inside],
            np.full(n, PURPOSE_START),
        )
        if self.settings.start == START_SAMPLED:
            for chosen in lanes.draws(cancelled):
                lanes.end(chosen, STARTED)
            found = np.flatnonzero(lanes.reason == STARTED)
            return inside[found], lanes.direction[:, found]
        lanes.fill_rows(np.arange(n))
        lanes.arrive(np.arange(n))
        found = np.flatnonzero(lanes.is_going)
        if self.settings.start == START_GIVEN:
            return inside[found], self.seed_directions[:, inside[found]]
        peak, amplitude = lanes.find_peaks(found)
        is_high = (amplitude > ZERO) & (amplitude >= self.settings.min_amplitude)
        found, peak = found[is_high], peak[:, is_high]
        if degrees_of(lanes.field.shifts)[1]:
            return inside[found], peak
        (words,), _ = lanes.random_words(found, 1)
        faces_down = peak[2] < ZERO  # of the two ends of its axis the search finds either
        return inside[found], np.where((words & 1).astype(bool) != faces_down, -ONE, ONE) * peak

    def _join(self, lanes: Lanes, seeds: Array, path: list[Any]) -> Tractogram:
        """Return the streamlines, of whose halves the lanes have taken the steps of `path`."""
        settings, n = self.settings, len(seeds)
        steps, reasons = np.zeros((2, n), np.int64), np.zeros((2, n), np.int64)
        steps[self.halves] = lanes.steps.reshape(len(self.halves), n)
        reasons[self.halves] = lanes.reason.reshape(len(self.halves), n)
        if settings.direction == BOTH:  # the maximum is that of both together
            left = settings.max_steps - steps[0]
            reasons[1, steps[1] >= left] = MAX_LENGTH
            steps[1] = np.minimum(steps[1], left)
        n_steps = steps.sum(0)
        is_short = (n_steps > 0) & (n_steps < settings.min_steps)
        is_kept = (n_steps > 0) & ~is_short
        self.tally[TOO_SHORT] += is_short.sum()
        np.add.at(self.tally, reasons[0, ~is_short], 1)
        np.add.at(self.tally, reasons[1, is_kept | (~is_short & (reasons[0] != reasons[1]))], 1)
        points, counts = self._points(seeds, steps, is_kept, path)
        kept = np.flatnonzero(is_kept)
        return Tractogram(
            points,
            np.concatenate([[0], np.cumsum(counts[kept])]),
            seed_index=self.seed_index[seeds[kept]],
            stop_reasons=reasons[::-1, kept].T.astype(np.uint8),
            lengths_mm=n_steps[kept].astype(np.float32) * settings.step,
            tally=tally_from_counts(self.tally),
            n_seeds=len(self.seed_index),
        )

    def _points(
        self, seeds: Array, steps: Array, is_kept: Array, path: list[Any]
    ) -> tuple[Any, Any]:
        """Return the points that are recorded, one streamline after the other, and their counts."""
        settings = self.settings
        every = settings.max_steps + 1 if settings.endpoints else settings.record_every
        # A seed stands between the halves; of the ends alone, where it is one of them.
        has_seed = is_kept & ~(settings.endpoints & (steps > 0).all(0))
        n_recorded = -(-steps // every)
        counts = np.where(is_kept, n_recorded.sum(0) + has_seed, 0)
        middles = np.concatenate([[0], np.cumsum(counts)[:-1]]) + n_recorded[1]
        points = np.empty((counts.sum(), 3), np.float32)
        points[middles[has_seed]] = self.position[:, seeds[has_seed]].T
        lane, step = (np.concatenate([part[i] for part in path]) for i in (0, 1))
        half, streamline = np.divmod(lane, max(len(seeds), 1))
        half = np.array(self.halves)[half]
        last = steps[half, streamline]
        is_recorded = (step < last) & (step % every == 0) | (step == last)
        taken = np.flatnonzero(is_recorded & is_kept[streamline])
        half, streamline, nth = half[taken], streamline[taken], -(-step[taken] // every)
        beyond = np.where(half == 1, -nth, nth - ~has_seed[streamline])
        positions = np.concatenate([part[2] for part in path], axis=1).T
        points[middles[streamline] + beyond] = positions[taken]
        return points, counts
