"""Previews: the first streamlines of a run from each of its places, while a hand moves.

They are those of the full run, to the bit. They are tracked on the CPU, which needs no start-up and
no copies, and in WebAssembly while the kernel is compiled. Called by the worker of a run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from ..streamlines.tractogram import Tractogram
from . import kernels
from .cpu import cpu_backend as cpu
from .engine import make_plan
from .execution import Execution
from .inputs import TrackingInput
from .plan import Plan
from .report import PREPARING, STANDING_IN, Report
from .selecting import telling_why_short, that_reach
from .wasm import wasm_backend

THREAD_NAMES = "tractography-preview"
WAIT_SECONDS = 0.05  # after which it is tested whether a preview was given up


def preview(
    given: TrackingInput,
    firsts: Sequence[int],
    counts: Sequence[int],
    execution: Execution,
    *,
    cancelled: threading.Event,
    report: Report,
) -> tuple[Tractogram, bool]:
    """Track the beginning of a run as :func:`track_preview`; say why where all of it is too short.

    Also returned is whether what tracked needed neither loading nor compiling; the report learns
    what is waited for. Of the execution the threads count. Raises TractographyError when something
    is wrong with the input, or a number of threads is impossible.
    """
    plan = make_plan(given)
    report.begin("cpu", "a preview")
    was_ready = cpu.is_loaded(plan)
    if not was_ready:
        report.phase = STANDING_IN if kernels.stands_in(plan) else PREPARING
    n_threads = execution.n_threads
    found = track_preview(plan, firsts, counts, cancelled, n_threads)
    found = that_reach(given, found, given.seeds)
    if len(found):
        return found, was_ready

    def few_again(few: TrackingInput) -> Iterator[Tractogram]:
        yield track_preview(make_plan(few), [0], [len(few.seeds)], cancelled, n_threads)

    told = telling_why_short(given, (part for part in [found]), few_again)
    return Tractogram.concatenate(told), was_ready


def track_preview(
    plan: Plan,
    firsts: Sequence[int],
    counts: Sequence[int],
    cancelled: threading.Event,
    n_threads: int | None = None,
) -> Tractogram:
    """Track all seeds of a plan, a block of seeds a thread.

    They are those of several places, one place after the other: of each, `firsts` is the number of
    its first streamline in the full run, as which all are numbered, and `counts` how many seeds it
    has. Once it is cancelled, what has been tracked so far is returned: nothing where the kernel is
    still being compiled. Raises InvalidParameterError when the number of threads, by default one a
    processor, is impossible.
    """
    n_workers = Execution(n_threads=n_threads).n_workers
    if kernels.stands_in(plan):
        kernels.begin(plan)
        return _without_kernel(plan, _blocks(firsts, counts, wasm_backend.FIRST_BLOCK), cancelled)
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
            while not wait([task], WAIT_SECONDS).done and not cancelled.is_set():
                pass
            if cancelled.is_set():
                stop[0] = 1
            parts.append(task.result()[0])
    return Tractogram.concatenate(parts)


def _without_kernel(
    plan: Plan, blocks: Sequence[tuple[int, int, int]], cancelled: threading.Event
) -> Tractogram:
    """Track blocks in WebAssembly, while the kernel is compiled."""
    going_on = takewhile(lambda block: not cancelled.is_set(), blocks)
    never = np.zeros(1, np.uint8)
    return Tractogram.concatenate(
        [
            wasm_backend.track_range(plan, first, last, never, shift)
            for first, last, shift in going_on
        ]
    )


def _blocks(firsts: Sequence[int], counts: Sequence[int], size: int) -> list[tuple[int, int, int]]:
    """Return (first seed, last seed, number in the full run minus that in the plan)."""
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts)])
    return [
        (begin, min(begin + size, int(end)), first - int(start))
        for first, start, end in zip(firsts, starts[:-1], starts[1:], strict=True)
        for begin in range(int(start), int(end), size)
    ]
