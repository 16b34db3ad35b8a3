"""A GPU as the launcher drives it: kernels, tables, streams and memory, through CuPy.

Tables are uploaded once and kept on the card for as long as they live on the host, unless they were
made on a card in the first place; kernels are
compiled once a device and algorithm (CuPy also keeps them on disk). Two slots, each with a stream
and pinned host memory of its own, let the copy of one batch hide behind the tracking of the next.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import gpu_of
from ...errors import BackendError, InvalidParameterError
from ...tractogram import Tractogram, tally_from_counts
from ..devices import import_cupy
from . import source as kernels
from .scheduler import SLOTS, OutOfDeviceMemoryError, Sizing
from .uploads import Uploads

if TYPE_CHECKING:
    from ..plan import Plan

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = 2  # of CUDA's error numbers, both of the runtime and of the driver
BLOCKS = (128, 64, 256, 32)  # threads a block to choose from; of equals the first
DOWNLOADED = ("line_offsets", "line_lengths", "line_reasons", "line_sources")


@cache
def load_kernels(gpu: int, algorithm: int, interpolation: int, evaluation: int) -> dict[str, Any]:
    """Return the kernels for a device, compiled for one algorithm; all else are arguments."""
    defines = (
        f"-DALGORITHM={algorithm}",
        f"-DINTERPOLATION={interpolation}",
        f"-DEVALUATION={evaluation}",
    )
    module = import_cupy().RawModule(
        code=kernels.source(), options=(*kernels.OPTIONS, *defines), backend="nvrtc"
    )
    return {name: module.get_function(name) for name in kernels.NAMES}


_uploads = Uploads()


def is_uploaded(gpu: int, plan: Plan) -> bool:
    """Tell whether a GPU already holds the tables of a plan."""
    quantised = plan.table.quantised
    return gpu_of(quantised) == gpu or _uploads.holds(gpu, quantised)


def warm_up(gpu: int, algorithm: int, interpolation: int, evaluation: int) -> None:
    """Start a GPU and compile its kernels.

    Raises
    ------
    BackendError
    """
    cupy = import_cupy()
    try:
        with explained(f"cuda:{gpu}"), cupy.cuda.Device(gpu):
            cupy.zeros(1, "u1")
            load_kernels(gpu, algorithm, interpolation, evaluation)
    except OutOfDeviceMemoryError as error:
        raise BackendError(f"cuda:{gpu} has no memory left ({error}).") from error


def choose_block(blocks_per_multiprocessor: Callable[[int], int]) -> int:
    """Return the number of threads a block that keeps most threads on a multiprocessor."""
    return max(BLOCKS, key=lambda block: blocks_per_multiprocessor(block) * block)


def memory_budget(free_bytes: int, memory_limit: float) -> int:
    """Return how many bytes a run may take.

    Raises
    ------
    InvalidParameterError
    """
    if not memory_limit > 0:
        raise InvalidParameterError(
            f"memory_limit = {memory_limit} is impossible; give a share such as 0.8, or bytes."
        )
    return int(free_bytes * memory_limit) if memory_limit <= 1 else int(memory_limit)


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn CUDA's errors into ours: lack of memory, or one sentence."""
    cupy = import_cupy()
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise OutOfDeviceMemoryError(_size_asked_for(error)) from error
    except cupy.cuda.compiler.CompileException as error:
        raise BackendError(
            f"The kernels do not compile for {name} ({str(error).splitlines()[0]}); "
            "update CuPy or choose backend = 'cpu'."
        ) from error
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        if getattr(error, "status", None) == OUT_OF_MEMORY:
            raise OutOfDeviceMemoryError(str(error)) from error
        raise BackendError(
            f"{name} failed ({error}); it may be lost until the program is started again: "
            "choose another device or backend = 'cpu'."
        ) from error


def _size_asked_for(error: Exception) -> str:
    return str(error).partition("(")[0].strip() or "more memory"


class _Slot:
    """What one batch needs: a stream, and memory on both sides, kept from batch to batch."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        # Of the first pass: begun, ended; of the second: begun, ended, downloaded. Apart, since
        # the first pass of the next batch may be queued before this one is collected.
        self.counting = [cupy.cuda.Event() for _ in range(2)]
        self.writing = [cupy.cuda.Event() for _ in range(3)]
        self.device: dict[str, Any] = {}
        self.pinned: dict[str, NDArray[Any]] = {}
        self.first = self.n = self.n_points = self.n_lines = 0
        self.done: tuple[int, int, int] = (0, 0, 0)  # seeds, points and lines of the last write

    def reserve(self, name: str, shape: tuple[int, ...], kind: str) -> Any:
        """Return device memory of this shape, the old one where it is large enough."""
        held = self.device.get(name)
        if held is None or len(held) < shape[0]:
            self.device.pop(name, None)
            held = self.device[name] = self.cupy.empty(shape, kind)
        return held[: shape[0]]

    def download(self, name: str, source: Any) -> None:
        """Queue a copy to pinned memory, where it can be read after the last event."""
        held = self.pinned.get(name)
        if held is None or len(held) < len(source):
            self.pinned.pop(name, None)
            memory = self.cupy.cuda.alloc_pinned_memory(max(source.nbytes, 1))
            flat = np.frombuffer(memory, source.dtype, source.size)
            held = self.pinned[name] = flat.reshape(source.shape)
        if len(source):
            source.get(stream=self.stream, out=held[: len(source)], blocking=False)

    def forget(self) -> None:
        """Give the memory back to the pools."""
        self.stream.synchronize()
        self.device.clear()
        self.pinned.clear()


def _fill(target: Any, source: Any, stream: Any = None) -> None:
    """Queue a copy from the host, or from where an array lies on any device."""
    if isinstance(source, np.ndarray):
        target.set(np.ascontiguousarray(source), stream=stream)
    else:
        target.data.copy_from_device_async(source.data, source.nbytes, stream)


class CudaDevice:
    """A GPU, set up for one run; see :class:`napari_tractography.tracking.cuda.scheduler.Card`.

    Attributes
    ----------
    seconds : dict of str to float
        Time spent so far on "upload", "tracking" and "download".
    uploaded_bytes : int
        Size of the tables that were not yet on the device.
    held_bytes : int
        What CuPy's pool holds of the device since the last release: tables, and what the caller
        has there.
    """

    def __init__(
        self, gpu: int, plan: Plan, first_stream: int = 0, threads_a_block: int | None = None
    ) -> None:
        self.name = f"cuda:{gpu}"
        self.seconds = dict.fromkeys(("upload", "tracking", "download"), 0.0)
        self.uploaded_bytes = self.held_bytes = 0
        self._cupy = import_cupy()
        self._plan = plan
        self._first_stream = first_stream
        self._settings = kernels.pack_settings(plan.settings)
        self._n_jots = kernels.log_length(plan.settings)
        self._device = self._cupy.cuda.Device(gpu)
        self._n_multiprocessors = 0
        self._shapes: dict[str, tuple[int, int]] = {}  # kernel: threads a block, most blocks
        self._wanted_block = threads_a_block
        with explained(self.name), self._device:
            settings = plan.settings
            self._kernels = load_kernels(
                gpu, settings.algorithm, settings.interpolation, settings.evaluation
            )
            self._n_multiprocessors = self._device.attributes["MultiProcessorCount"]
            self._slots = [_Slot(self._cupy) for _ in range(SLOTS)]
            begun = self._event()
            self._upload(gpu, plan)
            ended = self._event()
            ended.synchronize()
            self.seconds["upload"] = self._between(begun, ended)

    def sizing(self, memory_limit: float, block: int | None) -> Sizing:
        """Return how large batches may be: what is free now, shared among the slots."""
        with explained(self.name), self._device:
            free = self._device.mem_info[0] + self._cupy.get_default_memory_pool().free_bytes()
        arrays = self._batch_arrays(kernels.TILE)
        each = sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in arrays.values())
        sizing = Sizing(
            budget=memory_budget(free, memory_limit) // SLOTS,
            seed_bytes=-(-each // kernels.TILE),
        )
        if block is not None:
            sizing.largest = min(sizing.largest, block)
            sizing.n = sizing.largest
        return sizing

    # ------------------------------------------------------------------------- the launcher's card

    def count(self, slot: int, first: int, last: int) -> None:
        """Queue the first pass over seeds `first` to `last`."""
        n = last - first
        held = self._slots[slot]
        with explained(self.name), self._device, held.stream:
            shapes = self._batch_arrays(n)
            arrays = {name: held.reserve(name, *shape) for name, shape in shapes.items()}
            held.first, held.n = first, n
            _fill(arrays["positions"], self._plan.positions_mm[first:last], held.stream)
            _fill(arrays["given"], self._plan.given[first:last], held.stream)
            for name in ("next", "tally"):
                arrays[name].data.memset_async(0, arrays[name].nbytes, held.stream)
            batch = self._batch(held, None)
            held.counting[0].record(held.stream)
            self._launch("count_streamlines", n, *self._world, batch, persistent=True)
            n_tiles = -(-n // kernels.TILE)
            self._launch("add_tiles", n_tiles, batch)
            self._launch("scan_tiles", 1, batch)
            self._launch("place_streamlines", n_tiles, batch)
            held.download("totals", arrays["totals"])
            held.counting[1].record(held.stream)

    def n_points(self, slot: int) -> int:
        """Wait for the first pass; return how many points there will be."""
        held = self._slots[slot]
        with explained(self.name), self._device:
            held.counting[1].synchronize()
            self.seconds["tracking"] += self._between(*held.counting)
        held.n_points, held.n_lines = (int(n) for n in held.pinned["totals"])
        return held.n_points

    def write(self, slot: int) -> None:
        """Queue the second pass and the way to the host."""
        held = self._slots[slot]
        with explained(self.name), self._device, held.stream:
            points = held.reserve("points", (held.n_points, 3), "f4")
            held.writing[0].record(held.stream)
            self._write(held, points)
            held.writing[1].record(held.stream)
            held.download("points", points)
            for name in DOWNLOADED:
                extra = 1 if name == "line_offsets" else 0
                held.download(name, held.device[name][: held.n_lines + extra])
            held.download("tally", held.device["tally"])
            held.writing[2].record(held.stream)
            held.done = held.n, held.n_points, held.n_lines

    def collect(self, slot: int) -> Tractogram:
        """Wait for the streamlines of the last write."""
        held = self._slots[slot]
        with explained(self.name), self._device:
            held.writing[2].synchronize()
            self.seconds["tracking"] += self._between(*held.writing[:2])
            self.seconds["download"] += self._between(*held.writing[1:])
        n_seeds, n_points, n_lines = held.done
        # Copies: the pinned memory is for the next batch.
        return Tractogram(
            held.pinned["points"][:n_points].copy(),
            held.pinned["line_offsets"][: n_lines + 1].copy(),
            seed_index=held.pinned["line_sources"][:n_lines].copy(),
            stop_reasons=held.pinned["line_reasons"][:n_lines].copy(),
            lengths_mm=held.pinned["line_lengths"][:n_lines].copy(),
            tally=tally_from_counts(held.pinned["tally"].astype(np.int64)),
            n_seeds=n_seeds,
        )

    def release(self) -> None:
        """Give the memory of the slots back, waiting for what is under way."""
        with explained(self.name), self._device:
            for held in self._slots:
                held.forget()
            pool = self._cupy.get_default_memory_pool()
            pool.free_all_blocks()
            self.held_bytes = int(pool.total_bytes())
            self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    def close(self) -> None:
        """Give back all but the tables, also where the device is lost."""
        try:
            self.release()
        except (BackendError, OutOfDeviceMemoryError) as error:
            logger.warning("%s", error)
        spent = ", ".join(f"{k} {v:.3f} s" for k, v in self.seconds.items())
        logger.info("%s: %s; %.3f GB stay there", self.name, spent, self.held_bytes / 1e9)

    def keep(self, slot: int) -> dict[str, Any]:
        """Run the second pass; return the arrays, which this card then forgets.

        They are `points`, the arrays of :data:`DOWNLOADED` and, on the host, `tally`.
        """
        held = self._slots[slot]
        with explained(self.name), self._device, held.stream:
            points = held.reserve("points", (held.n_points, 3), "f4")
            self._write(held, points)
            held.download("tally", held.device["tally"])
            held.stream.synchronize()
        kept = {name: held.device[name][: held.n_lines] for name in DOWNLOADED}
        kept["line_offsets"] = held.device["line_offsets"][: held.n_lines + 1]
        kept["points"] = points
        kept["tally"] = held.pinned["tally"].astype(np.int64)
        held.device.clear()
        return kept

    # -------------------------------------------------------------------------------------- inside

    def _write(self, held: _Slot, points: Any) -> None:
        batch = self._batch(held, points)
        if self._plan.settings.endpoints:
            self._launch("write_endpoints", held.n, batch)
        else:
            self._launch("write_streamlines", held.n, *self._world, batch, persistent=True)

    def _batch_arrays(self, n: int) -> dict[str, tuple[tuple[int, ...], str]]:
        return kernels.batch_arrays(
            n, endpoints=self._plan.settings.endpoints, log_length=self._n_jots
        )

    def _batch(self, held: _Slot, points: Any) -> NDArray[np.void]:
        addresses = {
            name: array.data.ptr for name, array in held.device.items() if name != "points"
        }
        if points is not None:
            addresses["points"] = points.data.ptr
        first = (self._first_stream + held.first) & 0xFFFFFFFF
        numbers = {"first_stream": first, "n": held.n, "log_length": self._n_jots}
        return kernels.pack("Batch", {**addresses, **numbers})

    def _upload(self, gpu: int, plan: Plan) -> None:
        field, regions = plan.field, plan.regions
        tables = {name: getattr(field, name) for name in kernels.TABLES}
        need = sum(array.nbytes for array in tables.values())
        try:
            self._tables = {
                name: self._uploaded(gpu, array) for name, array in tables.items() if array.size
            }
            self._region_tables = {
                name: self._near(gpu, getattr(regions, name)) for name in kernels.REGION_TABLES
            }
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise BackendError(
                f"The tables of this FOD need {need / 1e9:.2g} GB, more than {self.name} has "
                "free; lower n_directions, crop the FOD or choose backend = 'cpu'."
            ) from error
        addresses = [
            {name: array.data.ptr for name, array in held.items()}
            for held in (self._tables, self._region_tables)
        ]
        self._world = (
            kernels.pack_field(field, addresses[0]),
            self._settings,
            kernels.pack_regions(regions, addresses[1]),
        )

    def _uploaded(self, gpu: int, array: NDArray[Any]) -> Any:
        if gpu_of(array) == gpu:
            return array
        return _uploads.get(gpu, array, lambda: self._copy(array))

    def _near(self, gpu: int, array: NDArray[Any]) -> Any:
        return array if gpu_of(array) == gpu else self._copy(array)

    def _copy(self, array: NDArray[Any]) -> Any:
        target = self._cupy.empty(array.shape, array.dtype)
        self.uploaded_bytes += array.nbytes
        if array.size:
            _fill(target, array)
        return target

    def _launch(self, name: str, n: int, *arguments: Any, persistent: bool = False) -> None:
        """Start a kernel in the current stream: as many threads as there are items, or as fit."""
        kernel = self._kernels[name]
        try:
            if name not in self._shapes:
                self._shapes[name] = self._shape_of(kernel)
            block, most = self._shapes[name]
            grid = -(-n // block)
            if persistent:  # threads take one seed after the other
                grid = max(1, min(grid, most))
            kernel((grid,), (block,), arguments)
        except self._cupy.cuda.driver.CUDADriverError as error:
            if error.status == OUT_OF_MEMORY:
                raise
            block = self._wanted_block or self._shapes.get(name, BLOCKS)[0]
            raise BackendError(
                f"{self.name} refused to start {name} with {block} threads a block ({error}): "
                f"each thread takes {kernel.num_regs} registers and {kernel.local_size_bytes} "
                f"bytes, and a block may have {kernel.max_threads_per_block} threads; "
                "choose a smaller threads_a_block."
            ) from error

    def _shape_of(self, kernel: Any) -> tuple[int, int]:
        driver = self._cupy.cuda.driver

        def blocks(block: int) -> int:
            return int(
                driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, block, 0)
            )

        block = self._wanted_block or choose_block(blocks)
        return block, self._n_multiprocessors * max(1, blocks(block))

    def _event(self) -> Any:
        event = self._cupy.cuda.Event()
        event.record()
        return event

    def _between(self, begun: Any, ended: Any) -> float:
        return float(self._cupy.cuda.get_elapsed_time(begun, ended)) / 1e3
