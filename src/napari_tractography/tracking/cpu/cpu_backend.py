"""The CPU backend: blocks of seeds over a pool of threads, in seed order.

Each thread tracks one block at a time by a single-threaded kernel that has released the GIL. With
threads of our own a run can be cancelled within a block, and has the number of threads that was
asked for. Numba's threading layer is not used: it aborts the process when two threads launch
parallel kernels at once. Called by :mod:`napari_tractography.tracking.backends` and, for previews,
by the plugin.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UnfinishedError
from ...fields.input_kind import BLOCKS, COEFFICIENTS
from ...model.stop import N_REASONS
from ...runtime.buffers import pool
from ...runtime.compiling import has_code_for
from ...streamlines.tractogram import Tractogram, tally_from_counts
from .. import codes
from ..execution import Execution
from ..plan import Plan
from ..report import Report
from ..tables.blocks import BlockTable
from . import kernel
from .lanes import BUSY, N_BEGUN, N_LANES, N_POINTS, NOWHERE, LaneState, in_order, new_lane_state
from .vectors.field import UNFINISHED
from .vectors.kernel import vector_kernel
from .vectors.rounds import track_in_blocks

# Seeds of the first blocks: few, so that the first streamlines show at once, and a quarter of a
# thread's share of a small run. With fewer than two seeds a lane, most lanes would soon be idle.
FIRST_BLOCK_MIN, FIRST_BLOCK_MAX = 2 * N_LANES, 256
MAX_BLOCK = 1 << 16
# Of a block: while its last lines end most lanes are idle; what it gives is shown once all have.
BLOCK_SECONDS = 0.16
POINTS_PER_BUFFER = 1 << 17
MORTON_BITS = 11  # of a voxel's index along an axis


_loaded: set[tuple[Any, int, bool]] = set()  # kernels, and what FODs they are compiled for


class ThreadBuffers(threading.local):
    """What each thread keeps from one block of a plan to the next; empty before its first."""

    scratch: codes.Scratch | None = None
    state: LaneState | None = None
    points: np.ndarray | None = None


def iter_chunks(
    plan: Plan,
    execution: Execution | None = None,
    *,
    report: Report | None = None,
    first: int = 0,
) -> Generator[Tractogram, None, None]:
    """Track the seeds of a plan; yield chunks in seed order.

    Parameters
    ----------
    plan : Plan
    execution : Execution, optional
        Of which `n_threads` and `block` are for the CPU.
    report : Report, optional
        Seconds of "tracking" are added, as if all threads were busy from first block to last.
    first : int
        Seeds before this one are left out.

    Yields
    ------
    Tractogram
        Closing the generator cancels blocks that are being tracked and waits for the threads.
    """
    execution = execution or Execution()
    n_threads, block = execution.n_workers, execution.block
    cancelled = np.zeros(1, np.uint8)
    buffers = ThreadBuffers()
    wanted = (plan.n_seeds - first) // (4 * n_threads)
    size = block or min(max(wanted, FIRST_BLOCK_MIN), FIRST_BLOCK_MAX)
    next_seed, n_blocks = first, 0
    busy_seconds = 0.0
    seconds_before = report.seconds.get("tracking", 0.0) if report is not None else 0.0
    pending: deque[Future[tuple[Tractogram, float]]] = deque()
    threads = ThreadPoolExecutor(n_threads, thread_name_prefix="tractography")
    try:
        while next_seed < plan.n_seeds or pending:
            while next_seed < plan.n_seeds and len(pending) < 2 * n_threads:
                n_left = plan.n_seeds - next_seed
                last = next_seed + min(size, n_left if block else _share(n_left, n_threads))
                pending.append(
                    threads.submit(
                        track_range, plan, next_seed, last, cancelled, buffers, plan.first_stream
                    )
                )
                next_seed = last
            try:
                chunk, seconds = pending.popleft().result()
            except UnfinishedError as error:
                if error.tractogram.n_seeds:
                    yield error.tractogram
                raise
            n_blocks += 1
            busy_seconds += seconds
            if report is not None:
                own_seconds = busy_seconds / min(n_blocks, n_threads)
                report.seconds["tracking"] = seconds_before + own_seconds
            if block is None:
                wanted = int(chunk.n_seeds * BLOCK_SECONDS / max(seconds, 1e-6))
                size = min(max(wanted, 1), 4 * size, MAX_BLOCK)
            yield chunk
    finally:
        cancelled[0] = 1
        threads.shutdown(cancel_futures=True)


def _share(n_left: int, n_threads: int) -> int:
    """Return how many of the seeds that are left a block has at most, so that all threads end soon.

    With blocks as long as they are on the way, one of two threads waited for the other a tenth of
    the time that 2000 seeds took.
    """
    if n_threads == 1:
        return n_left
    return min(max(-(-n_left // (2 * n_threads)), int(FIRST_BLOCK_MIN)), n_left)


def is_loaded(plan: Plan) -> bool:
    """Tell whether the kernel of a plan has been loaded or compiled in this process."""
    return _kind(plan) in _loaded


def is_on_disk(plan: Plan) -> bool:
    """Tell whether the kernel of a plan has been compiled on this machine."""
    return has_code_for(_kind(plan)[0], plan.field)


def _kind(plan: Plan) -> tuple[Any, int, bool]:
    return _kernel_of(plan), plan.table.lmax, plan.table.is_asymmetric


def _kernel_of(plan: Plan) -> Any:
    if plan.table.kernel != COEFFICIENTS:
        return vector_kernel(plan.table.kernel == BLOCKS)
    settings = plan.settings
    return kernel.block_kernel(settings.algorithm, settings.interpolation)


def make_ready(plan: Plan) -> bool:
    """Compile the kernel of a plan, or load it from disk; return whether it was not loaded yet.

    Done in this thread and apart, so that it does not count as tracking time.
    """
    if is_loaded(plan):
        return False
    track_range(plan, 0, 0, np.zeros(1, np.uint8), ThreadBuffers())
    _loaded.add(_kind(plan))
    return True


def near_order(
    positions_mm: NDArray[np.float32], to_voxel: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return an order of seeds in which those that follow each other lie close together.

    It is that of a Z-order curve through the voxels (Morton, 1966). Streamlines side by side then
    read the same cache lines of the tables, and trilinear steps take three quarters of the time.

    Parameters
    ----------
    positions_mm : (n, 3) float32
        RAS+ mm.
    to_voxel : (3, 4) float32
        RAS+ mm to voxel coordinates.

    Returns
    -------
    (n,) int64
        Indices of the seeds.
    """
    voxels = np.rint(positions_mm @ to_voxel[:, :3].T + to_voxel[:, 3])
    voxels = np.clip(voxels, 0, (1 << MORTON_BITS) - 1).astype(np.int64)
    code = np.zeros(len(voxels), np.int64)
    for bit in range(MORTON_BITS):
        for axis in range(3):
            code |= ((voxels[:, axis] >> bit) & 1) << (3 * bit + axis)
    return np.argsort(code, kind="stable")


def _scratch_shape(plan: Plan) -> tuple[int, int]:
    """Return how many directions and coefficients a thread needs room for."""
    field = plan.field
    if plan.table.kernel != COEFFICIENTS:
        return codes.POINTS_AT_ONCE, codes.PADDING  # of which it uses nothing
    points = (
        field.sphere_points.shape[1],
        field.cone_points.shape[1],
        len(field.quadrature_neighbours),
    )
    return max(points), field.coefficients.shape[1]


def track_range(
    plan: Plan,
    first: int,
    last: int,
    cancelled: NDArray[np.uint8],
    buffers: ThreadBuffers,
    first_stream: int = 0,
) -> tuple[Tractogram, float]:
    """Track seeds `first` to `last`, not included, in this thread.

    Parameters
    ----------
    plan : Plan
    first, last : int
    cancelled : (1,) uint8
        Set to 1 by another thread to end early.
    buffers : ThreadBuffers
        For calls with this plan only.
    first_stream : int
        Streamline id of seed 0 of the plan, which random numbers and `seed_index` start from;
        random numbers only where seeds have no streams of their own.

    Returns
    -------
    Tractogram
        Its `n_seeds` is the number of seeds that are done.
    float
        Seconds.
    """
    begun = time.perf_counter()
    seeds = near_order(plan.positions_mm[first:last], plan.field.to_voxel)

    def track(seeds: NDArray[np.int64], field: Any) -> tuple[Tractogram, NDArray[np.int64]]:
        return _track(plan, field, first, last, seeds, cancelled, buffers, first_stream)

    field = plan.field
    if isinstance(plan.table, BlockTable):
        chunk = track_in_blocks(
            plan.table.store,
            seeds,
            lambda seeds, touched: track(seeds, field._replace(touched=touched)),
            cancelled,
        )
    else:
        chunk, _ = track(seeds, field)
    return chunk, time.perf_counter() - begun


def _track(
    plan: Plan,
    field: Any,
    first: int,
    last: int,
    order: NDArray[np.int64],
    cancelled: NDArray[np.uint8],
    buffers: ThreadBuffers,
    first_stream: int,
) -> tuple[Tractogram, NDArray[np.int64]]:
    """Track seeds of a range, of which `order` has the numbers, once.

    Returns the streamlines, and the numbers of seeds that are to be tracked again.
    """
    settings = plan.settings
    if buffers.scratch is None or buffers.state is None or buffers.points is None:
        every = settings.max_steps if settings.endpoints else settings.record_every
        n_points = -(-settings.max_steps // every)
        n_regions, n_includes = len(plan.regions.roles), plan.regions.n_includes
        n_directions, n_padded = _scratch_shape(plan)
        buffers.scratch = codes.new_scratch(n_directions, n_padded, N_LANES)
        max_path = settings.max_steps if plan.with_tissues else 0
        buffers.state = new_lane_state(n_regions, n_includes, n_points, n_padded, max_path)
        buffers.points = pool.points(max(POINTS_PER_BUFFER, 2 * N_LANES * (2 * n_points + 1)))
    n = last - first
    firsts, counts = np.zeros(n, np.int64), np.zeros(n, np.int64)
    lengths, reasons = np.empty(n, np.float32), np.empty((n, 2), np.uint8)
    tally = np.zeros(N_REASONS, np.int64)
    track_block = _kernel_of(plan)
    progress = buffers.state.progress
    progress[:] = 0
    # Rows, and what was found there, may be those of a plan before.
    buffers.state.cells[:] = buffers.state.cells_ahead[:] = NOWHERE
    buffers.state.looked_row[:] = -1
    buffers.state.roundness[:] = buffers.state.plane[:] = 0
    seeds, streams = slice(first, last), plan.streams_of(first, last, first_stream)
    while not track_block(
        field,
        settings,
        plan.regions,
        buffers.scratch,
        buffers.state,
        plan.positions_mm[seeds],
        plan.seed_directions[seeds],
        order,
        streams,
        cancelled,
        buffers.points,
        firsts,
        counts,
        lengths,
        reasons,
        tally,
    ):
        if cancelled[0]:
            break
        n_points = int(progress[N_POINTS])
        larger = pool.points(2 * len(buffers.points))
        larger[:n_points] = buffers.points[:n_points]
        buffers.points = larger
    left = order[counts[order] == UNFINISHED]
    counts[left] = 0
    kept = np.flatnonzero(counts)
    offsets = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(counts[kept], out=offsets[1:])
    points = pool.points(int(offsets[-1]))
    in_order(buffers.points, firsts, counts, points)
    chunk = Tractogram(
        points,
        offsets,
        seed_index=kept + (first + first_stream),
        stop_reasons=reasons[kept],
        lengths_mm=lengths[kept],
        tally=tally_from_counts(tally),
        n_seeds=int(progress[N_BEGUN]) - int(progress[BUSY]).bit_count() - len(left),
        points_are_finite=True,  # each is in a voxel of the image
    )
    return chunk, left
