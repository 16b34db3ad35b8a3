"""Previews: tracked while a seed is dragged, with as many streamlines as feel immediate.

A preview is the beginning of the full run from each place: the same streamlines, to the bit. It
is tracked on the CPU, which needs no start-up and no copies, and in NumPy while the kernel is
compiled. Called by the control of runs and by the worker of a run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from ...streamlines.tractogram import Tractogram
from ...tracking import kernels
from ...tracking.cpu import cpu_backend as cpu
from ...tracking.execution import Execution
from ...tracking.plan import Plan
from ...tracking.reference import reference_backend as plain

TARGET_SECONDS = 0.035  # from the change to the layer, as the median
FEWEST, MOST = 200, 20_000  # streamlines of a preview
FIRST_GUESS = 400  # before anything is measured: few enough without the kernel, too
REMEMBERED = 3  # previews whose median counts: a single slow one changes nothing
THREAD_NAMES = "tractography-preview"


class Pace:
    """How many streamlines a preview may have, from how long the last ones took.

    Parameters
    ----------
    target_seconds : float
        How long a preview is to take.
    """

    def __init__(self, target_seconds: float = TARGET_SECONDS) -> None:
        self._target = target_seconds
        self._seconds_each: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def n_streamlines(self) -> int:
        """How many streamlines the next preview has, in all."""
        if not self._seconds_each:
            return FIRST_GUESS
        # The median; of two the smaller, because disturbances only ever make a preview longer.
        usual = sorted(self._seconds_each)[(len(self._seconds_each) - 1) // 2]
        return round(min(max(self._target / usual, FEWEST), MOST))

    def learn(self, n_streamlines: int, seconds: float) -> None:
        """Note how long a preview of so many streamlines took."""
        self._seconds_each.append(max(seconds, 1e-6) / max(n_streamlines, 1))


def track_preview(
    plan: Plan,
    firsts: Sequence[int],
    counts: Sequence[int],
    cancelled: threading.Event,
    n_threads: int | None = None,
) -> Tractogram:
    """Track all seeds of a plan, a block of seeds a thread.

    Parameters
    ----------
    plan : Plan
        Its seeds are those of several places, one place after the other.
    firsts : sequence of int
        Number, in the full run, of the first streamline of each place.
    counts : sequence of int
        Seeds of each place in the plan.
    cancelled : threading.Event
        When it is set, what has been tracked so far is returned: nothing where the kernel is
        still being compiled.
    n_threads : int, optional
        By default one a processor.

    Returns
    -------
    Tractogram
        Streamlines numbered as in the full run.

    Raises
    ------
    InvalidParameterError
        When the number of threads is impossible.
    """
    n_workers = Execution(n_threads=n_threads).n_workers
    if kernels.stands_in(plan):
        kernels.begin(plan)
        return _in_numpy(plan, _blocks(firsts, counts, plain.MAX_BLOCK), cancelled)
    for _ in kernels.until_compiled(plan):
        if cancelled.is_set():
            return Tractogram.empty()
    cpu.make_ready(plan)
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


def _in_numpy(
    plan: Plan, blocks: Sequence[tuple[int, int, int]], cancelled: threading.Event
) -> Tractogram:
    """Track blocks without the kernel, which is being compiled."""
    going_on = takewhile(lambda block: not cancelled.is_set(), blocks)
    never = np.zeros(1, np.uint8)
    return Tractogram.concatenate(
        [plain.track_range(plan, first, last, never, shift) for first, last, shift in going_on]
    )


def _blocks(firsts: Sequence[int], counts: Sequence[int], size: int) -> list[tuple[int, int, int]]:
    """Return (first seed, last seed, number in the full run minus that in the plan)."""
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts)])
    return [
        (begin, min(begin + size, int(end)), first - int(start))
        for first, start, end in zip(firsts, starts[:-1], starts[1:], strict=True)
        for begin in range(int(start), int(end), size)
    ]
