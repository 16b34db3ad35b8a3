"""The CPU backend: blocks of seeds over a pool of threads, in seed order.

Single-threaded kernels without the GIL, over seed ranges in a pool of our own: cancelling and the
number of threads stay ours, and Numba's own threading layer, which aborts the process when two
threads launch parallel kernels at once, is never used.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ...buffers import pool
from ...stop import N_REASONS
from ...tractogram import Tractogram, tally_from_counts
from .. import codes
from ..execution import Execution
from ..plan import Plan
from ..report import Report
from . import kernel
from . import lane_state as state
from .vectors import N_LANES, in_order

# Seeds: few, so that the first streamlines show at once, and an eighth of a small run; in fewer
# than twice the state of a thread, most of them would soon be idle.
FIRST_BLOCK_MIN, FIRST_BLOCK_MAX = 2 * N_LANES, 256
MAX_BLOCK = 1 << 16
BLOCK_SECONDS = 0.08  # short enough to cancel at once, long enough to hide what a block costs
POINTS_A_BUFFER = 1 << 17
CURVE_BITS = 11  # of a voxel's place along an axis


class _Worker(threading.local):
    """What each thread of a pool keeps from block to block."""

    scratch: codes.Scratch | None = None
    state: state.LaneState | None = None
    points: np.ndarray | None = None


def iter_chunks(
    plan: Plan,
    execution: Execution | None = None,
    *,
    first_stream: int = 0,
    report: Report | None = None,
) -> Generator[Tractogram, None, None]:
    """Track the seeds of a plan; yield chunks in seed order.

    Parameters
    ----------
    plan : Plan
    execution : Execution, optional
        Of which `n_threads` and `block` are for the CPU.
    first_stream : int
        Streamline id of the first seed: its random numbers and `seed_index` go by it.
    report : Report, optional
        Filled: seconds of "tracking", as if all threads were busy from the first block to the last.

    Yields
    ------
    Tractogram
        Closing the generator cancels what is under way and waits for the threads.
    """
    execution = execution or Execution()
    n_workers, block = execution.n_workers, execution.block
    cancelled = np.zeros(1, np.uint8)
    worker = _Worker()
    share = plan.n_seeds // (4 * n_workers)
    size = block or min(max(share, FIRST_BLOCK_MIN), FIRST_BLOCK_MAX)
    next_seed = n_blocks = 0
    busy_seconds = 0.0
    pending: deque[Future[tuple[Tractogram, float]]] = deque()
    pool = ThreadPoolExecutor(n_workers, thread_name_prefix="tractography")
    try:
        while next_seed < plan.n_seeds or pending:
            while next_seed < plan.n_seeds and len(pending) < 2 * n_workers:
                last = min(next_seed + size, plan.n_seeds)
                pending.append(
                    pool.submit(track_range, plan, next_seed, last, first_stream, cancelled, worker)
                )
                next_seed = last
            chunk, seconds = pending.popleft().result()
            n_blocks += 1
            busy_seconds += seconds
            if report is not None:
                report.seconds["tracking"] = busy_seconds / min(n_blocks, n_workers)
            if block is None:
                wanted = chunk.n_seeds * BLOCK_SECONDS / max(seconds, 1e-6)
                size = int(min(max(wanted, 1), 4 * size, MAX_BLOCK))
            yield chunk
    finally:
        cancelled[0] = 1
        pool.shutdown(cancel_futures=True)


def make_ready(plan: Plan) -> bool:
    """Compile the kernel of a plan or load it from the disk; tell whether that was yet to be done.

    In this thread, so that a run that waits for it is not timed as tracking.
    """
    if kernel.block_kernel(plan.settings.algorithm, plan.settings.interpolation).signatures:
        return False
    track_range(plan, 0, 0, 0, np.zeros(1, np.uint8), _Worker())
    return True


def near_order(
    positions_mm: NDArray[np.float32], to_voxel: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return an order in which seeds that lie close together follow each other.

    That of a Z-order curve through the voxels (Morton, 1966): streamlines side by side then read
    the same lines of the tables, and trilinear steps take three quarters of the time.
    """
    voxels = np.rint(positions_mm @ to_voxel[:, :3].T + to_voxel[:, 3])
    voxels = np.clip(voxels, 0, (1 << CURVE_BITS) - 1).astype(np.int64)
    place = np.zeros(len(voxels), np.int64)
    for bit in range(CURVE_BITS):
        for axis in range(3):
            place |= ((voxels[:, axis] >> bit) & 1) << (3 * bit + axis)
    return np.argsort(place, kind="stable")


def track_range(
    plan: Plan, first: int, last: int, first_stream: int, cancelled: np.ndarray, worker: _Worker
) -> tuple[Tractogram, float]:
    """Track seeds `first` to `last` in this thread; return the streamlines and the seconds."""
    begun = time.perf_counter()
    settings = plan.settings
    if worker.scratch is None or worker.state is None or worker.points is None:
        every = settings.max_steps if settings.endpoints else settings.record_every
        room = -(-settings.max_steps // every)
        worker.scratch = codes.new_scratch(plan.table.n_patches, plan.field.lmax)
        worker.state = state.new_lane_state(len(plan.regions.roles), plan.regions.n_includes, room)
        worker.points = pool.points(max(POINTS_A_BUFFER, 2 * N_LANES * (2 * room + 1)))
    n = last - first
    firsts, counts = np.zeros(n, np.int64), np.zeros(n, np.int64)
    lengths, reasons = np.empty(n, np.float32), np.empty((n, 2), np.uint8)
    tally = np.zeros(N_REASONS, np.int64)
    track_block = kernel.block_kernel(settings.algorithm, settings.interpolation)
    common = worker.state.common
    common[:] = 0
    seeds = slice(first, last)
    order = near_order(plan.positions_mm[seeds], plan.field.to_voxel)
    while not track_block(
        plan.field,
        settings,
        plan.regions,
        worker.scratch,
        worker.state,
        plan.positions_mm[seeds],
        plan.given[seeds],
        order,
        first_stream + first,
        cancelled,
        worker.points,
        firsts,
        counts,
        lengths,
        reasons,
        tally,
    ):
        if cancelled[0]:
            break
        n_points = int(common[state.N_POINTS])
        larger = pool.points(2 * len(worker.points))
        larger[:n_points] = worker.points[:n_points]
        worker.points = larger
    kept = np.flatnonzero(counts)
    offsets = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(counts[kept], out=offsets[1:])
    points = pool.points(int(offsets[-1]))
    in_order(worker.points, firsts, counts, points)
    chunk = Tractogram(
        points,
        offsets,
        seed_index=kept + (first + first_stream),
        stop_reasons=reasons[kept],
        lengths_mm=lengths[kept],
        tally=tally_from_counts(tally),
        n_seeds=int(common[state.N_BEGUN]) - int(common[state.BUSY]).bit_count(),
    )
    return chunk, time.perf_counter() - begun
