"""Previews: how many streamlines come within the time that a moving hand notices, and they.

A preview is the beginning of the full run from each place: the same streamlines, to the bit. It
is tracked on the CPU, which needs no start and no copies. Called by the session and by the worker
of a run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ...tracking.cpu import run as cpu
from ...tracking.plan import Plan
from ...tracking.tables.tables import cpu_count
from ...tractogram import Tractogram

TARGET_SECONDS = 0.035  # from the change to the layer; half of the previews take less
FEWEST, MOST = 200, 20_000  # streamlines
FIRST_GUESS = 1000  # before anything is measured
REMEMBERED = 3  # previews: one that was held up changes nothing
THREAD_NAMES = "tractography-preview"


class Pace:
    """How many streamlines a preview may have, from what the last ones took.

    Parameters
    ----------
    target_seconds : float
        What a preview is to take.
    """

    def __init__(self, target_seconds: float = TARGET_SECONDS) -> None:
        self._target = target_seconds
        self._seconds_each: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def n_streamlines(self) -> int:
        """Of the next preview, in all."""
        if not self._seconds_each:
            return FIRST_GUESS
        # The middle one; of two the smaller, because what holds a preview up makes it longer.
        usual = sorted(self._seconds_each)[(len(self._seconds_each) - 1) // 2]
        return round(min(max(self._target / usual, FEWEST), MOST))

    def learn(self, n_streamlines: int, seconds: float) -> None:
        """Take in what a preview of so many took."""
        self._seconds_each.append(max(seconds, 1e-6) / max(n_streamlines, 1))


def track_preview(
    plan: Plan,
    firsts: Sequence[int],
    counts: Sequence[int],
    cancelled: threading.Event,
    n_threads: int | None = None,
) -> Tractogram:
    """Track all seeds of a plan, each thread a block.

    Parameters
    ----------
    plan : Plan
        Its seeds are those of several places, one place after the other.
    firsts : sequence of int
        Number, in the full run, of the first streamline of each place.
    counts : sequence of int
        Seeds of each place in the plan.
    cancelled : threading.Event
        Gives up: what has been tracked comes back.
    n_threads : int, optional
        By default one a processor.
    """
    n_workers = n_threads or cpu_count()
    size = max(-(-plan.n_seeds // n_workers), cpu.FIRST_BLOCK_MIN)
    stop = np.zeros(1, np.uint8)
    buffers = cpu.ThreadBuffers()
    with ThreadPoolExecutor(n_workers, thread_name_prefix=THREAD_NAMES) as pool:
        tasks = [
            pool.submit(cpu.track_range, plan, first, last, stop, buffers, shift)
            for first, last, shift in _blocks(firsts, counts, size)
        ]
        parts = []
        for task in tasks:
            if cancelled.is_set():
                stop[0] = 1
            parts.append(task.result()[0])
    return Tractogram.concatenate(parts)


def _blocks(firsts: Sequence[int], counts: Sequence[int], size: int) -> list[tuple[int, int, int]]:
    """Return (first seed, last seed, number in the full run minus that in the plan)."""
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts)])
    return [
        (begin, min(begin + size, int(end)), first - int(start))
        for first, start, end in zip(firsts, starts[:-1], starts[1:], strict=True)
        for begin in range(int(start), int(end), size)
    ]
