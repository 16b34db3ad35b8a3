"""A GPU as the scheduler drives it: kernels, tables, streams and memory, through CuPy.

Tables are uploaded once and kept on the GPU for as long as they live on the host, unless they were
made on a GPU. Kernels are compiled once for a GPU and an algorithm; CuPy also
keeps them on disk. Slots, each with a stream of its own, let one batch be copied to the host
while others are tracked. Used by :mod:`.cuda_backend`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...fields.input_kind import VECTORS
from ...runtime.arrays import REMEDY, gpu_of, import_cupy
from ...streamlines.tractogram import Tractogram, tally_from_counts
from ..codes import START_GIVEN, Field
from ..execution import Execution
from ..tables.data import FodTable
from . import pinned, tables
from . import source as kernels
from .gpu_errors import OUT_OF_MEMORY, explained, explained_for_good
from .scheduler import POINT_BYTES, SLOTS, OutOfDeviceMemoryError, Sizing
from .slot import NO_POINTS, Slot
from .uploads import Uploads

if TYPE_CHECKING:
    from ..plan import Plan

logger = logging.getLogger(__name__)

# Threads a block to choose from; where several are equal, the first: what a small block holds is
# free for the next batch soon after its last streamline.
BLOCKS = (64, 32, 128, 256)
DOWNLOADED = ("line_offsets", "line_lengths", "line_reasons", "line_sources")


@cache
def load_kernels(
    gpu: int,
    algorithm: int,
    interpolation: int,
    lmax: int,
    is_asymmetric: bool,
    variant: tuple[str, ...],
) -> dict[str, Any]:
    """Return the kernels for a GPU, compiled for one algorithm and degree; all else are arguments.

    They are compiled on the first call, which needs a current device and memory on it.

    Returns
    -------
    dict of str to cupy.RawKernel
        By the names of :data:`.source.NAMES`.
    """
    defines = (*kernels.defines(algorithm, interpolation, lmax, is_asymmetric), *variant)
    module = import_cupy().RawModule(
        code=kernels.source(),
        options=(*kernels.tracking_options(algorithm), *defines),
        backend="nvrtc",
    )
    return {name: module.get_function(name) for name in kernels.NAMES}


_uploads = Uploads()


def is_uploaded(gpu: int, plan: Plan) -> bool:
    """Tell whether the table of a plan is on a GPU already."""
    anchor = plan.table.anchor
    return gpu_of(anchor) == gpu or _uploads.contains(gpu, anchor)


def warm_up(gpu: int, plan: Plan) -> None:
    """Start a GPU and load its kernels, compiling them where they are not on the disk.

    Raises BackendError when the GPU fails or has no memory left.
    """
    cupy = import_cupy()
    with explained_for_good(f"cuda:{gpu}"), cupy.cuda.Device(gpu):
        cupy.zeros(1, "u1")
        _kernels_of(gpu, plan)


def _kernels_of(gpu: int, plan: Plan) -> dict[str, Any]:
    """Return the kernels of a run; what its table is still to be filled by is compiled beside."""
    settings, table = plan.settings, plan.table

    def load_beside() -> None:
        if table.kernel != VECTORS and not is_uploaded(gpu, plan):
            with import_cupy().cuda.Device(gpu):
                tables.load_kernels(gpu, table.lmax, table.is_asymmetric)

    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(load_beside)
        found = load_kernels(
            gpu,
            settings.algorithm,
            settings.interpolation,
            table.lmax,
            table.is_asymmetric,
            kernels.variant(plan.field, settings, plan.with_tissues),
        )
        beside.result()
    return found


def choose_block(blocks_per_multiprocessor: Callable[[int], int]) -> int:
    """Return the number of threads a block that keeps most threads on a multiprocessor."""
    return max(BLOCKS, key=lambda block: blocks_per_multiprocessor(block) * block)


def memory_budget(free_bytes: int, memory_limit: float) -> int:
    """Return how many bytes a run may take: a fraction of what is free, or the limit itself."""
    return int(free_bytes * memory_limit) if memory_limit <= 1 else int(memory_limit)


class CudaDevice:
    """A GPU, set up for one run: a :class:`.scheduler.BatchDevice`.

    Raises BackendError when the GPU fails, or has too little free memory to start or for the
    tables.

    Parameters
    ----------
    gpu : int
        CUDA's number of it.
    threads_a_block : int, optional
        Of the kernels; by default whatever keeps the GPU fullest.

    Attributes
    ----------
    name : str
        For messages: "cuda:0", ...
    seconds : dict of str to float
        Time of "upload", "tracking" and "download" so far; what two batches do at once counts once.
    uploaded_bytes : int
        Size of the tables that were not yet on the GPU.
    held_bytes : int
        Size of CuPy's pool on the GPU since the last release: tables, and what the caller has
        there.
    """

    def __init__(self, gpu: int, plan: Plan, threads_a_block: int | None = None) -> None:
        self.name = f"cuda:{gpu}"
        self.seconds = dict.fromkeys(("upload", "tracking", "download"), 0.0)
        self.uploaded_bytes = self.held_bytes = 0
        self._cupy = import_cupy()
        self._plan = plan
        self._settings = kernels.pack_settings(plan.settings)
        self._log_length = kernels.log_length(plan.settings, plan.regions.tissues)
        self._device = self._cupy.cuda.Device(gpu)
        self._n_multiprocessors = 0
        self._ends: dict[str, Any] = {}  # events: until when `seconds` are counted
        self._launch_shapes: dict[str, tuple[int, int]] = {}  # threads a block, blocks at most
        self._wanted_block = threads_a_block
        self._sizing = Sizing(budget=2**62, seed_bytes=0)  # until it is asked for
        with explained_for_good(self.name), self._device:
            self._kernels = _kernels_of(gpu, plan)
            self._n_multiprocessors = self._device.attributes["MultiProcessorCount"]
            self._slots = [Slot(self._cupy) for _ in range(SLOTS)]
            begun = self._event()
            self._upload(gpu, plan)
            ended = self._event()
            ended.synchronize()
            self.seconds["upload"] = self._between(begun, ended)

    def sizing(self, execution: Execution, *, at_once: bool = False) -> Sizing:
        """Return how large batches may be: what the run may take, shared among the slots.

        `at_once` all seeds are one batch, whose streamlines stay on the GPU. Raises BackendError
        when the GPU fails.
        """
        with explained_for_good(self.name), self._device:
            free = self._device.mem_info[0] + self._cupy.get_default_memory_pool().free_bytes()
        least = kernels.blocks_for(kernels.TILE, 0, self._plan.settings, self._log_length)
        arrays = self._batch_arrays(kernels.TILE, least)
        each = sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in arrays.values())
        sizing = self._sizing = Sizing(
            budget=memory_budget(free, execution.memory_limit) // (1 if at_once else SLOTS),
            seed_bytes=-(-each // kernels.TILE),
            max_points=2**62 if at_once else pinned.max_points(),
        )
        if execution.block is not None:
            sizing.largest = min(sizing.largest, execution.block)
            sizing.n_seeds = sizing.largest
        return sizing

    # -------------------------------------------------------------------- what the scheduler calls

    @property
    def n_threads(self) -> int:
        """Streamlines that are tracked at once; known once some are."""
        block, blocks = self._launch_shapes.get("track_streamlines", (0, 0))
        return block * blocks

    def count_seconds(self, index: int) -> float:
        """Return how long a batch was tracked, apart from waiting for those before it."""
        return self._slots[index].seconds

    def count(self, index: int, first: int, last: int, parts: int = 1) -> None:
        """Queue the tracking of seeds `first` to `last` on one of so many parts of the GPU."""
        n_seeds = last - first
        slot = self._slots[index]
        settings = self._plan.settings
        n_points = self._sizing.points_beside(n_seeds)
        slot.n_blocks = kernels.blocks_for(n_seeds, n_points, settings, self._log_length)
        with explained(self.name), self._device, slot.stream:
            shapes = self._batch_arrays(n_seeds, slot.n_blocks)
            arrays = {name: slot.reserve(name, *shape) for name, shape in shapes.items()}
            slot.first, slot.n_seeds = first, n_seeds
            self._send_seeds(slot, "positions", self._plan.positions_mm[first:last])
            if arrays["seed_directions"].size:
                self._send_seeds(slot, "seed_directions", self._plan.seed_directions[first:last])
            if arrays["streams"].size:
                self._send_seeds(slot, "streams", self._plan.streams[first:last])
            for name in ("next", "next_block", "tally"):
                arrays[name].data.memset_async(0, arrays[name].nbytes, slot.stream)
            batch = self._batch(slot, None)
            slot.counting[0].record(slot.stream)
            self._launch("track_streamlines", n_seeds, *self._world, batch, parts=parts)
            n_tiles = -(-n_seeds // kernels.TILE)
            self._launch("add_tiles", n_tiles, batch)
            self._launch("scan_tiles", 1, batch)
            self._launch("place_streamlines", n_tiles, batch)
            slot.download("totals", arrays["totals"])
            slot.counting[1].record(slot.stream)

    def n_points(self, index: int) -> int:
        """Wait for the tracking; return how many points there are.

        Raises OutOfDeviceMemoryError where the pool was too small for them.
        """
        slot = self._slots[index]
        with explained(self.name), self._device:
            slot.counting[1].synchronize()
            slot.seconds = self._add("tracking", *slot.counting)
            slot.counting = slot.events(2)
        slot.n_points, slot.n_lines, n_blocks = (int(n) for n in slot.pinned["totals"])
        if n_blocks > slot.n_blocks:
            n_bytes = n_blocks * kernels.BLOCK_POINTS * POINT_BYTES
            raise OutOfDeviceMemoryError(f"{n_bytes / 1e6:.0f} MB")
        return slot.n_points

    def write(self, index: int) -> None:
        """Queue the way of the points to where they belong, and to the host."""
        slot = self._slots[index]
        with explained(self.name), self._device, slot.stream:
            points = slot.reserve("points", (slot.n_points, 3), "f4")
            slot.writing[0].record(slot.stream)
            self._write(slot, points)
            slot.writing[1].record(slot.stream)
            slot.download_points(points)
            for name in DOWNLOADED:
                extra = 1 if name == "line_offsets" else 0
                slot.download(name, slot.arrays[name][: slot.n_lines + extra])
            slot.download("tally", slot.arrays["tally"])
            slot.writing[2].record(slot.stream)
            slot.written = slot.n_seeds, slot.n_lines

    def collect(self, index: int) -> Tractogram:
        """Wait for the streamlines of the slot's last write, and return them."""
        slot = self._slots[index]
        with explained_for_good(self.name), self._device:
            slot.writing[2].synchronize()
            self._add("tracking", *slot.writing[:2])
            self._add("download", *slot.writing[1:])
            slot.writing = slot.events(3)
        n_seeds, n_lines = slot.written
        points, slot.arriving = slot.arriving, NO_POINTS
        # All but points are copied: little, and their pinned memory is for the next batch.
        return Tractogram(
            pinned.handed_over(points),
            slot.pinned["line_offsets"][: n_lines + 1].copy(),
            seed_index=slot.pinned["line_sources"][:n_lines].copy(),
            stop_reasons=slot.pinned["line_reasons"][:n_lines].copy(),
            lengths_mm=slot.pinned["line_lengths"][:n_lines].copy(),
            tally=tally_from_counts(slot.pinned["tally"].astype(np.int64)),
            n_seeds=n_seeds,
            points_are_finite=True,  # to look for others would take longer than to copy them here
        )

    def release(self) -> None:
        """Give the memory of the slots back, waiting for what is under way.

        That which points were handed over in stays locked for the next run, see :mod:`.pinned`.
        """
        with explained_for_good(self.name), self._device:
            for slot in self._slots:
                slot.clear()
            pool = self._cupy.get_default_memory_pool()
            pool.free_all_blocks()
            self.held_bytes = int(pool.total_bytes())
            self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    def close(self) -> None:
        """Give back all but the tables; a GPU that was lost is a warning, not an error."""
        try:
            self.release()
        except BackendError as error:
            logger.warning("%s", error)
        times = ", ".join(f"{what} {seconds:.3f} s" for what, seconds in self.seconds.items())
        logger.info("%s: %s; %.3f GB stay there", self.name, times, self.held_bytes / 1e9)

    def keep(self, index: int) -> dict[str, Any]:
        """Put the points where they belong and give up the arrays, which stay on the GPU.

        Returns
        -------
        dict of str to array
            `points` and those of :data:`DOWNLOADED`; `tally` is on the host.
        """
        slot = self._slots[index]
        with explained(self.name), self._device, slot.stream:
            points = slot.reserve("points", (slot.n_points, 3), "f4")
            self._write(slot, points)
            slot.download("tally", slot.arrays["tally"])
            slot.stream.synchronize()
        kept = {name: slot.arrays[name][: slot.n_lines] for name in DOWNLOADED}
        kept["line_offsets"] = slot.arrays["line_offsets"][: slot.n_lines + 1]
        kept["points"] = points
        kept["tally"] = slot.pinned["tally"].astype(np.int64)
        slot.arrays.clear()
        return kept

    # ------------------------------------------------------------------------------------ internal

    def _send_seeds(self, slot: Slot, name: str, seeds: Any) -> None:
        """Queue the copy of a batch's part of an array that lies on the host or on any GPU."""
        if isinstance(seeds, np.ndarray):
            slot.upload(name, seeds)
        else:
            target = slot.arrays[name][: len(seeds)]
            target.data.copy_from_device_async(seeds.data, seeds.nbytes, slot.stream)

    def _write(self, slot: Slot, points: Any) -> None:
        batch = self._batch(slot, points)
        if self._plan.settings.endpoints:
            self._launch("write_endpoints", slot.n_seeds, batch)
        else:
            self._launch("gather_points", slot.n_blocks, self._settings, batch, parts=1)

    def _batch_arrays(
        self, n_seeds: int, n_blocks: int = 0
    ) -> dict[str, tuple[tuple[int, ...], str]]:
        settings = self._plan.settings
        return kernels.batch_arrays(
            n_seeds,
            endpoints=settings.endpoints,
            seed_directions=settings.start == START_GIVEN,
            streams=len(self._plan.streams) > 0,
            log_length=self._log_length,
            n_blocks=n_blocks,
        )

    def _batch(self, slot: Slot, points: Any) -> NDArray[np.void]:
        addresses = {
            name: array.data.ptr if array.size else 0
            for name, array in slot.arrays.items()
            if name != "points"
        }
        if points is not None:
            addresses["points"] = points.data.ptr
        first_stream = self._plan.first_stream + slot.first
        numbers = {
            "first_stream": first_stream,
            "n_seeds": slot.n_seeds,
            "log_length": self._log_length,
            "n_blocks": slot.n_blocks,
        }
        return kernels.pack("Batch", {**addresses, **numbers})

    def _upload(self, gpu: int, plan: Plan) -> None:
        """Put tables and regions on the GPU, where they are not there yet."""
        field, regions = plan.field, plan.regions
        is_vectors = plan.table.kernel == VECTORS  # no BLOCKS come here, see backends.py
        names = kernels.VECTOR_TABLES if is_vectors else kernels.TABLES
        arrays = {name: getattr(field, name) for name in names}
        try:
            with explained(self.name):
                filled = {} if is_vectors else self._rows(gpu, plan)
                self._tables = {
                    name: self._kept(gpu, array)
                    for name, array in arrays.items()
                    if array.size and name not in filled
                }
                self._tables |= filled
                self._region_tables = {
                    name: self._there(gpu, getattr(regions, name)) for name in kernels.REGION_TABLES
                }
                if plan.with_tissues:
                    fractions = regions.tissues.fractions
                    self._region_tables["fractions"] = self._kept(gpu, fractions)
        except OutOfDeviceMemoryError as error:
            need = plan.table.values.nbytes + sum(array.nbytes for array in arrays.values())
            raise BackendError(
                f"The table of this FOD needs {need / 1e9:.2g} GB, more than {self.name} has "
                f"free; crop the FOD or {REMEDY}."
            ) from error
        addresses = [
            {name: array.data.ptr for name, array in arrays.items()}
            for arrays in (self._tables, self._region_tables)
        ]
        self._world = (
            kernels.pack_vector_field(field, addresses[0])
            if is_vectors
            else kernels.pack_field(field, addresses[0]),
            self._settings,
            kernels.pack_regions(regions, addresses[1]),
        )

    def _rows(self, gpu: int, plan: Plan) -> dict[str, Any]:
        """Return the rows of the table on the GPU: filled there, where they are on the host.

        On the host they are filled as streamlines come near, on a GPU all at once.
        """
        field: Field = plan.field
        if gpu_of(field.masses) is not None:
            return {name: self._kept(gpu, getattr(field, name)) for name in FodTable.filled}

        # Not while rows are filled, which keeps other uploads waiting.
        voxel_rows = self._kept(gpu, field.voxel_rows)

        def fill() -> dict[str, Any]:
            self.uploaded_bytes += field.values.nbytes
            return tables.fill_rows(
                gpu,
                plan.table.lmax,
                plan.table.is_asymmetric,
                field.values,
                field.change,
                field.sphere_points,
                voxel_rows,
                field.to_voxel,
            )

        filled: dict[str, Any] = _uploads.get(gpu, field.masses, fill)
        return filled

    def _kept(self, gpu: int, array: NDArray[Any]) -> Any:
        """Return a table on the GPU, where it stays for the next run."""
        if gpu_of(array) == gpu:
            return array
        return _uploads.get(gpu, array, lambda: self._copy(array))

    def _there(self, gpu: int, array: NDArray[Any]) -> Any:
        """Return an array on the GPU, for this run."""
        return array if gpu_of(array) == gpu else self._copy(array)

    def _copy(self, array: NDArray[Any]) -> Any:
        target = self._cupy.empty(array.shape, array.dtype)
        self.uploaded_bytes += array.nbytes
        if not array.size:
            return target
        if isinstance(array, np.ndarray):
            target.set(np.ascontiguousarray(array))
        else:
            target.data.copy_from_device_async(array.data, array.nbytes)
        return target

    def _launch(self, name: str, n_items: int, *arguments: Any, parts: int | None = None) -> None:
        """Start a kernel in the current stream: as many threads as there are items.

        Or as fit on one of so many parts of the GPU, which take one item after the other.
        """
        kernel = self._kernels[name]
        try:
            if name not in self._launch_shapes:
                self._launch_shapes[name] = self._shape_of(name)
            block, most = self._launch_shapes[name]
            grid = -(-n_items // block)
            if parts is not None:
                grid = max(1, min(grid, most // parts))
            shared = self._shared_bytes(name, block)
            kernel((grid,), (block,), arguments, shared_mem=shared)
        except self._cupy.cuda.driver.CUDADriverError as error:
            if error.status == OUT_OF_MEMORY:
                raise
            block = self._wanted_block or self._launch_shapes.get(name, BLOCKS)[0]
            raise BackendError(
                f"{self.name} refused to start {name} with {block} threads a block ({error}): "
                f"each thread takes {kernel.num_regs} registers and {kernel.local_size_bytes} "
                f"bytes, and a block may have {kernel.max_threads_per_block} threads; "
                "choose a smaller threads_a_block."
            ) from error

    def _shared_bytes(self, name: str, block: int) -> int:
        """Return how much memory a block of threads has in common."""
        if name != "track_streamlines" or self._plan.table.kernel == VECTORS:
            return 0
        table = self._plan.table
        return block // kernels.WARP * kernels.common_bytes(table.lmax, table.is_asymmetric)

    def _shape_of(self, name: str) -> tuple[int, int]:
        driver = self._cupy.cuda.driver
        kernel = self._kernels[name].kernel.ptr
        if self._shared_bytes(name, kernels.WARP):  # more than a kernel gets without asking
            most = self._device.attributes["MaxSharedMemoryPerBlockOptin"]
            self._kernels[name].max_dynamic_shared_size_bytes = most

        def blocks(block: int) -> int:
            shared = self._shared_bytes(name, block)
            return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel, block, shared))

        block = self._wanted_block or choose_block(blocks)
        block = -(-block // kernels.WARP) * kernels.WARP  # the lanes of a warp work together
        return block, self._n_multiprocessors * max(1, blocks(block))

    def _event(self) -> Any:
        event = self._cupy.cuda.Event()
        event.record()
        return event

    def _add(self, what: str, begun: Any, ended: Any) -> float:
        """Count the seconds between two events that are not counted yet, and return them."""
        seconds = self._between(begun, ended)
        if what in self._ends:
            seconds = min(seconds, self._between(self._ends[what], ended))
        if seconds <= 0:
            return 0.0
        self.seconds[what] += seconds
        self._ends[what] = ended
        return seconds

    def _between(self, begun: Any, ended: Any) -> float:
        return float(self._cupy.cuda.get_elapsed_time(begun, ended)) / 1e3
