"""Seeds tracked by the kernel for WebAssembly, while that of the CPU is compiled.

It is the CUDA source, compiled beforehand: Wasmtime turns it into machine code within a tenth of a
second, and it tracks a ninth as fast as a thread of the CPU's kernel, bit for bit the same. Its
memory holds copies of the tables, whose rows it fills itself as streamlines come near. Called by
:mod:`napari_tractography.tracking.backends` and, for previews, by the plugin.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from ...fields.input_kind import BLOCKS, VECTORS
from ...streamlines.tractogram import Tractogram, tally_from_counts
from ..codes import START_GIVEN, Field
from ..cuda import source, tables
from ..execution import Execution
from ..plan import Plan
from ..report import Report
from ..tables.data import FodTable
from .modules import MODULES, are_up_to_date, code_of

if TYPE_CHECKING:
    import wasmtime

logger = logging.getLogger(__name__)

POINTER = "u4"  # of WebAssembly
BASE = 1 << 20  # where tables begin: behind what the kernel itself keeps
ALIGNED = 64
PAGE = 1 << 16
MOST_BYTES = 3 << 29  # of tables: addresses are then below 2 GiB, and fit a signed number
ROWS_AT_ONCE = 1024  # that are brought; BROUGHT_AT_ONCE of entry.cpp
# Of a batch: so many that a call takes some milliseconds, after which it may be cancelled, unless
# they would take more memory.
SEEDS_AT_ONCE, BATCH_BYTES = 32, 32 << 20
FIRST_BLOCK, MOST_OF_A_BLOCK = 100, 1 << 16  # seeds of a chunk
BLOCK_SECONDS = 0.1
SPARE_BYTES = 128 << 20  # what tables of other plans may take before all are put there anew
FILLED_THERE = FodTable.filled  # tables whose rows the kernel fills


def can_track(plan: Plan) -> bool:
    """Tell whether :func:`track_range` tracks what a plan asks for, here."""
    table = plan.table
    if table.kernel == BLOCKS or (table.lmax, table.is_asymmetric) not in MODULES:
        return False
    return _bytes_of(plan) < MOST_BYTES and _engine() is not None


def iter_chunks(
    plan: Plan,
    execution: Execution,
    ended: threading.Event,
    report: Report,
) -> Iterator[Tractogram]:
    """Track seeds from the first on until an event is set; yield chunks in seed order.

    Seconds of "tracking" are added to the report.
    """
    first, size = 0, execution.block or FIRST_BLOCK
    never = np.zeros(1, np.uint8)
    while first < plan.n_seeds and not ended.is_set():
        last = min(first + size, plan.n_seeds)
        begun = time.perf_counter()
        chunk = track_range(plan, first, last, never, plan.first_stream)
        seconds = time.perf_counter() - begun
        report.add("tracking", seconds)
        yield chunk
        if execution.block is None:
            wanted = int((last - first) * BLOCK_SECONDS / max(seconds, 1e-6))
            size = min(max(wanted, SEEDS_AT_ONCE), 4 * size, MOST_OF_A_BLOCK)
        first = last


def track_range(
    plan: Plan, first: int, last: int, cancelled: NDArray[np.uint8], first_stream: int = 0
) -> Tractogram:
    """Track seeds `first` to `last`, not included.

    The streamlines are those of :func:`napari_tractography.tracking.cpu.cpu_backend.track_range`,
    which has the same parameters; when cancelled, those of the seeds that are done.
    """
    parts = []
    with _world_of(plan) as world:
        size = world.seeds_at_once
        for begin in range(first, last, size):
            if cancelled[0]:
                break
            parts.append(world.track(begin, min(begin + size, last), first_stream))
    return Tractogram.concatenate(parts)


def fill_rows(field: Field, lmax: int, is_asymmetric: bool = False) -> None:
    """Fill all rows of a table on the host, as a kernel does that reads them."""
    world = _World(lmax, is_asymmetric)
    places = world.put_rows(field)
    n_rows = len(field.values)
    world.call("fill_all")
    for name in FILLED_THERE:
        table = getattr(field, name)
        table[:n_rows] = world.read(places[name], table.shape, table.dtype)[:n_rows]


def forget() -> None:
    """Give back memory that is kept for what is tracked next."""
    with _lock:
        _idle.clear()


def _close() -> None:
    """Give all back before Python takes Wasmtime apart, which could not be told to then."""
    forget()
    _compiled.clear()
    _made_engine.cache_clear()


# ------------------------------------------------------------------------------------------ modules


def _engine() -> wasmtime.Engine | None:
    """Return what compiles modules; None where there is none, or no room for a memory."""
    with _starting:  # one for all threads
        return _made_engine()


@cache
def _made_engine() -> wasmtime.Engine | None:
    if not are_up_to_date():  # as with another algorithm than those there were
        logger.warning("Nothing tracks while kernels are compiled: run scripts/wasm.py.")
        return None
    try:
        import wasmtime
    except (ImportError, OSError, RuntimeError) as error:
        logger.info("Nothing tracks while kernels are compiled: %s", error)
        return None
    try:
        engine = wasmtime.Engine()
        # Four gigabytes of addresses are set aside for each memory, which a system may not give.
        _new_memory(wasmtime.Store(engine))
    except wasmtime.WasmtimeError as error:
        logger.info("Nothing tracks while kernels are compiled: %s", error)
        return None
    atexit.register(_close)
    return engine


def _new_memory(store: wasmtime.Store) -> wasmtime.Memory:
    import wasmtime

    pages = wasmtime.Limits(2 * BASE // PAGE, None)
    return wasmtime.Memory(store, wasmtime.MemoryType(pages))


_starting, _lock = threading.Lock(), threading.Lock()
_compiled: dict[tuple[int, bool], Any] = {}
_idle: list[_World] = []


def _module(lmax: int, is_asymmetric: bool) -> wasmtime.Module:
    import wasmtime

    with _lock:
        if (lmax, is_asymmetric) not in _compiled:
            engine = _engine()
            assert engine is not None
            code = code_of(lmax, is_asymmetric)
            _compiled[lmax, is_asymmetric] = wasmtime.Module(engine, code)
        return _compiled[lmax, is_asymmetric]


@contextmanager
def _world_of(plan: Plan) -> Iterator[_World]:
    """Yield what tracks a plan: that which has tracked in the same FOD before, if there is one."""
    with _lock:
        known = [world for world in _idle if world.is_for(plan)]
        world = known[0] if known else None
        _idle[:] = [other for other in _idle if other is not world][-1:]
    if world is None:
        world = _World(plan.table.lmax, plan.table.is_asymmetric)
    world.prepare(plan)
    yield world
    with _lock:
        _idle.append(world)


def _bytes_of(plan: Plan) -> int:
    """Return about how much memory the tables of a plan take."""
    field, fractions = plan.field, plan.regions.tissues.fractions
    return sum(array.nbytes for array in (*field, fractions) if isinstance(array, np.ndarray))


def _which(array: NDArray[Any]) -> tuple[Any, ...]:
    """Return what tells an array that is kept from others: plans have new views of the same."""
    return array.ctypes.data, array.shape, array.strides, array.dtype.str


class _World:
    """A kernel with a memory of its own, for one thread at a time."""

    def __init__(self, lmax: int, is_asymmetric: bool) -> None:
        import wasmtime

        self._module = _module(lmax, is_asymmetric)
        self._store = wasmtime.Store(_engine())
        self._memory = _new_memory(self._store)
        number = wasmtime.ValType.i32()
        signature = wasmtime.FuncType([number, number], [])
        # Wasmtime keeps the function for as long as the store, which is to go with this.
        bring = WeakMethod(self._bring)

        def call_it(first: int, last: int) -> None:
            method = bring()
            assert method is not None
            method(first, last)

        called = wasmtime.Func(self._store, signature, call_it)
        given = {"memory": self._memory, "bring": called}
        imports = [given[str(each.name)] for each in self._module.imports]
        self._exports = wasmtime.Instance(self._store, self._module, imports).exports(self._store)
        assert self._exports["__heap_base"].value(self._store) <= BASE
        self.end = self._tables_end = BASE
        self._first_end = 0  # behind the tables of the first plan
        self._kept: dict[Any, tuple[Any, int]] = {}  # arrays, and where they are; see `_which`
        self._anchor: NDArray[Any] | None = None  # of the table of the plans that it tracks
        self._rows: dict[str, int] = {}  # where those of the table are
        self._values: tuple[NDArray[np.float32], int] | None = None

    def call(self, name: str, *arguments: int) -> None:
        """Call a function of the kernel; other threads of Python go on meanwhile."""
        self._exports[name](self._store, *arguments)

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, n_bytes: int) -> int:
        """Return the address of so many bytes behind all others, whatever is in them."""
        address = -(-self.end // ALIGNED) * ALIGNED
        self.end = address + n_bytes
        missing = self.end - self._memory.data_len(self._store)
        if missing > 0:
            self._memory.grow(self._store, -(-missing // PAGE))
        return address

    def read(self, address: int, shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
        """Return an array there, which is the memory itself until that grows."""
        n_bytes = int(np.prod(shape)) * np.dtype(kind).itemsize
        start = ctypes.addressof(self._memory.data_ptr(self._store).contents) + address
        memory = (ctypes.c_uint8 * n_bytes).from_address(start)
        return np.frombuffer(memory, kind, count=int(np.prod(shape))).reshape(shape)

    def put(self, array: Any) -> int:
        """Add an array; return its address, 0 for an empty one."""
        array = np.asarray(array)
        if not array.size:
            return 0
        address = self.allocate(array.nbytes)
        self.read(address, array.shape, array.dtype)[...] = array
        return address

    def put_kept(self, array: NDArray[Any]) -> int:
        """Add an array unless it is there."""
        which = _which(array)
        if which not in self._kept:
            self._kept[which] = array, self.put(array)
        return self._kept[which][1]

    def put_rows(self, field: Field) -> dict[str, int]:
        """Make room for the rows of a table, to be filled as they are read."""
        n_rows, n_coefficients = field.values.shape
        values = self.allocate(4 * n_rows * n_coefficients)
        self._values = field.values, values
        places = {}
        for name in FILLED_THERE:
            table = getattr(field, name)
            places[name] = self.allocate(table.nbytes)
            self.read(places[name], table.shape, table.dtype)[-1] = table[-1]
        is_filled = np.zeros(n_rows + 1, np.uint8)
        is_filled[-1] = 1  # of no voxel
        addresses = {
            "values": values,
            "change": self.put_kept(field.change),
            "sphere_points": self.put_kept(field.sphere_points),
            "voxel_rows": self.put_kept(field.voxel_rows),
            **places,
        }
        n_points, shape = field.sphere_points.shape[1], field.voxel_rows.shape
        rows = tables.pack_rows(addresses, shape, n_rows, n_points, field.to_voxel, POINTER)
        brought = self.put(np.zeros(-(-n_rows // ROWS_AT_ONCE) + 1, np.uint8))
        self.call("fill_from", self.put(rows), self.put(is_filled), brought)
        return places

    def _bring(self, first: int, last: int) -> None:
        assert self._values is not None
        values, address = self._values
        shape = (last - first, values.shape[1])
        self.read(address + 4 * first * shape[1], shape, np.float32)[...] = values[first:last]

    # -- plans ---------------------------------------------------------------------------------

    def is_for(self, plan: Plan) -> bool:
        """Tell whether it holds the FOD of a plan, and not too much besides."""
        is_small = self._tables_end - self._first_end < SPARE_BYTES
        return is_small and self._anchor is plan.table.anchor

    def prepare(self, plan: Plan) -> None:
        """Put what a plan needs there."""
        field, regions, settings = plan.field, plan.regions, plan.settings
        is_vectors = plan.table.kernel == VECTORS
        anchor = plan.table.anchor
        self.end = self._tables_end  # where a batch was before
        if not is_vectors and self._anchor is not anchor:
            self._rows = self.put_rows(field)
        self._anchor = anchor
        places = dict(self._rows)
        for name in source.VECTOR_TABLES if is_vectors else source.TABLES:
            if name not in FILLED_THERE:
                places[name] = self.put_kept(getattr(field, name))
        of_regions = {name: self.put_kept(getattr(regions, name)) for name in source.REGION_TABLES}
        of_regions["fractions"] = self.put_kept(regions.tissues.fractions)
        pack = source.pack_vector_field if is_vectors else source.pack_field
        self._tables_end = self.end
        self._first_end = self._first_end or self.end
        self._structures = tuple(
            self.put(packed)
            for packed in (
                pack(field, places, POINTER),
                source.pack("Settings", settings._asdict()),
                source.pack_regions(regions, of_regions, POINTER),
            )
        )
        self._plan, self._behind = plan, self.end
        longest = 0 if settings.endpoints else -(-settings.max_steps // settings.record_every) + 1
        self._blocks_a_seed = 2 * -(-longest // source.BLOCK_POINTS)
        self._log_length = source.log_length(settings, regions.tissues)
        a_block = 2 * 12 * source.BLOCK_POINTS
        a_seed = 12 * self._log_length + self._blocks_a_seed * a_block
        self.seeds_at_once = min(max(BATCH_BYTES // max(a_seed, 1), 1), SEEDS_AT_ONCE)

    def track(self, first: int, last: int, first_stream: int) -> Tractogram:
        """Track a batch of seeds."""
        plan, settings, n = self._plan, self._plan.settings, last - first
        n_blocks = n * self._blocks_a_seed
        while True:
            places, shapes = self._batch(n, n_blocks, first + first_stream)
            sent: dict[str, NDArray[Any]] = {"positions": plan.positions_mm[first:last]}
            if settings.start == START_GIVEN:
                sent["seed_directions"] = plan.seed_directions[first:last]
            if len(plan.streams):
                sent["streams"] = plan.streams[first:last]
            for name, array in sent.items():
                self.read(places[name], *shapes[name])[...] = array
            for name in ("next", "next_block", "tally"):
                self.read(places[name], *shapes[name])[...] = 0
            self.call("track", *self._structures, places["batch"])
            n_asked = int(self.read(places["next_block"], (1,), "u4")[0])
            if n_asked <= n_blocks:
                break
            n_blocks = 2 * n_asked
        found = {
            name: self.read(places[name], *shapes[name])
            for name in ("totals", "counts", "line_offsets", "line_lengths", "line_reasons")
        }
        n_points, n_lines = (int(number) for number in found["totals"][:2])
        tally = self.read(places["tally"], *shapes["tally"]).astype(np.int64)
        return Tractogram(
            self.read(places["points"], (n_points, 3), np.float32).copy(),
            np.concatenate([[0], found["line_offsets"][1 : n_lines + 1]]),
            seed_index=np.flatnonzero(found["counts"]) + (first + first_stream),
            stop_reasons=found["line_reasons"][:n_lines].copy(),
            lengths_mm=found["line_lengths"][:n_lines].copy(),
            tally=tally_from_counts(tally),
            n_seeds=n,
            points_are_finite=True,  # each is in a voxel of the image
        )

    def _batch(
        self, n: int, n_blocks: int, first_stream: int
    ) -> tuple[dict[str, int], dict[str, tuple[tuple[int, ...], str]]]:
        """Make room for a batch behind the tables; return where its arrays are, and what."""
        settings = self._plan.settings
        shapes = source.batch_arrays(
            n,
            endpoints=settings.endpoints,
            seed_directions=settings.start == START_GIVEN,
            streams=len(self._plan.streams) > 0,
            log_length=self._log_length,
            n_blocks=n_blocks,
        )
        n_points = 2 * n if settings.endpoints else n_blocks * source.BLOCK_POINTS
        shapes["points"] = (n_points, 3), "f4"
        self.end = self._behind
        places = {
            name: self.allocate(int(np.prod(shape)) * np.dtype(kind).itemsize)
            if np.prod(shape)
            else 0
            for name, (shape, kind) in shapes.items()
        }
        numbers = {
            "first_stream": first_stream,
            "n_seeds": n,
            "log_length": self._log_length,
            "n_blocks": n_blocks,
        }
        places["batch"] = self.put(source.pack("Batch", {**places, **numbers}, POINTER))
        return places, shapes
