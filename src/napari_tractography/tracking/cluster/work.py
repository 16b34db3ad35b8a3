"""What a worker of the cluster does: it tracks a range of seeds, on its own GPU or CPU.

Called by tasks that :mod:`.cluster` submits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tractogram import Tractogram
from .. import backends
from ..execution import Execution
from ..report import Report
from .shared_plan import SharedPlan

RUNNING = ("executing", "long-running")  # of Dask's states of a task


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """A range of seeds that has been tracked.

    Attributes
    ----------
    made : Tractogram
        Or what a function made of it.
    n_seeds, n_streamlines, n_bytes : int
        Tracked; the bytes are those of the points.
    seconds : float
        That tracking took.
    backend : str
        What the worker tracked on.
    """

    made: Any
    n_seeds: int
    n_streamlines: int
    n_bytes: int
    seconds: float
    backend: str


def track_range(
    shared: SharedPlan,
    positions_mm: NDArray[np.float32],
    given: NDArray[np.float32],
    first_stream: int,
    execution: Execution,
    function: Callable[[Tractogram], Any] | None = None,
    *,
    task_key: str = "",
) -> Done:
    """Track seeds, and return them or what a function makes of them.

    Parameters
    ----------
    shared : SharedPlan
    positions_mm, given, first_stream
        The seeds, as of :meth:`SharedPlan.plan`.
    execution : Execution
        How, on this worker.
    function : callable, optional
    task_key : str
        Of the task, by which it learns that it is no longer wanted.
    """
    plan = shared.plan(positions_mm, given, first_stream)
    report = Report()
    begun = time.perf_counter()
    choice = backends.choose(plan, execution)
    parts = []
    with contextlib.closing(backends.iter_chunks(choice, plan, execution, report=report)) as chunks:
        for chunk in chunks:
            parts.append(chunk)
            _end_if_cancelled(task_key)
    seconds = time.perf_counter() - begun
    tractogram = Tractogram.concatenate(parts)
    return Done(
        tractogram if function is None else function(tractogram),
        tractogram.n_seeds,
        len(tractogram),
        tractogram.points.nbytes,
        seconds,
        report.backend,
    )


def _end_if_cancelled(key: str) -> None:
    """Raise Reschedule when the task of this thread is no longer wanted.

    Dask drops what comes of a cancelled task, and tracks it anew should it be wanted again.
    """
    from distributed import Reschedule, get_worker

    try:
        task = get_worker().state.tasks.get(key)
    except ValueError:  # not on a worker
        return
    if task is None or task.state not in RUNNING:
        raise Reschedule
