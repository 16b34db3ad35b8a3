"""What a worker of the cluster does: it tracks a range of seeds, on its own GPU or CPU.

Called by tasks that :mod:`.cluster` submits.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...streamlines.tractogram import Tractogram
from .. import backends, devices
from ..execution import Execution
from ..report import Report
from .exchange import FiledTractogram, handed_over
from .shared_plan import SharedPlan

RUNNING = ("executing", "long-running")  # of Dask's states of a task


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """A range of seeds that has been tracked."""

    result: Any  # or what a function made of it
    # n_seeds, n_streamlines, n_bytes: tracked; the bytes are those of the points.
    n_seeds: int
    n_streamlines: int
    n_bytes: int
    seconds: float  # that tracking took
    backend: str  # what the worker tracked on

    def __sizeof__(self) -> int:
        """Return the bytes in memory, which Dask asks for."""
        from dask.sizeof import sizeof

        result = self.result
        if not isinstance(result, Tractogram | FiledTractogram):
            return int(sizeof(result))
        arrays = result.arrays() if isinstance(result, Tractogram) else result.others
        columns = sum(column.nbytes for column in arrays.columns().values())
        return arrays.points.nbytes + arrays.offsets.nbytes + columns


def track_range(
    shared: SharedPlan,
    positions_mm: NDArray[np.float32],
    seed_directions: NDArray[np.float32],
    first_stream: int,
    execution: Execution,
    function: Callable[[Tractogram], Any] | None = None,
    *,
    streams: NDArray[np.uint32] | None = None,
    task_key: str = "",
    folder: str = "",
    turns: Mapping[str, int] | None = None,
) -> Done:
    """Track seeds, and return them or what a function makes of them.

    The seeds are as of :meth:`SharedPlan.plan`, and so is a NotThereError. By its `task_key` the
    task learns that it is no longer wanted. Points are written to a folder rather than sent, if one
    is named; `turns` are the number of each worker among those of its machine, by address.
    """
    plan = shared.plan(positions_mm, seed_directions, first_stream, streams)
    report = Report()
    begun = time.perf_counter()
    with devices.in_turn(turn_of_worker(turns or {})):
        choice = backends.choose(plan, execution)
    parts = []
    with contextlib.closing(backends.iter_chunks(choice, plan, execution, report=report)) as chunks:
        for chunk in chunks:
            parts.append(chunk)
            _end_if_cancelled(task_key)
    seconds = time.perf_counter() - begun
    tractogram = Tractogram.concatenate(parts)
    return Done(
        handed_over(tractogram, folder) if function is None else function(tractogram),
        tractogram.n_seeds,
        len(tractogram),
        tractogram.points.nbytes,
        seconds,
        report.backend,
    )


def _end_if_cancelled(key: str) -> None:
    """Raise Reschedule when the task of this thread is no longer wanted.

    Dask drops what comes of a cancelled task, and runs it again should it be wanted again.
    """
    from distributed import Reschedule, get_worker

    try:
        task = get_worker().state.tasks.get(key)
    except ValueError:  # not on a worker
        return
    if task is None or task.state not in RUNNING:
        raise Reschedule


def turn_of_worker(turns: Mapping[str, int]) -> int | None:
    """Return the number of the GPU that the worker of this thread is to use, or None.

    dask-cuda shows the GPUs of a machine to each of its workers in another order, its own first.
    """
    from distributed import get_worker

    try:
        turn = turns.get(get_worker().address)
    except ValueError:  # not on a worker
        return None
    return 0 if turn is not None and "dask_cuda" in sys.modules else turn
