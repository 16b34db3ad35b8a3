"""The CUDA source compiled for the host by g++, as a device for the batch scheduler."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from builds import built

from napari_tractography.runtime.buffers import aligned
from napari_tractography.streamlines.tractogram import Tractogram, tally_from_counts
from napari_tractography.tracking import codes
from napari_tractography.tracking.codes import START_GIVEN, VectorField
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables
from napari_tractography.tracking.cuda.scheduler import (
    POINT_BYTES,
    SLOTS,
    OutOfDeviceMemoryError,
    Sizing,
    run_devices,
)
from napari_tractography.tracking.tables.data import FodTable

ENTRY = "host_entry.cpp"
MOST_POINTS = 1 << 20  # of a batch
FLAGS = ("-std=c++14", "-O2", "-ffp-contract=off", "-fno-fast-math", "-shared", "-fPIC")


def compile_for_host(folder: Path, *defines: str) -> ctypes.CDLL:
    """Compile the kernels and load them from a folder; skips the test where there is no g++.

    They are those for lmax 6 unless LMAX is defined otherwise.

    What was compiled is kept: many files of tests want the same.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to compile the CUDA source with")
    if not any(define.startswith("-DLMAX=") for define in defines):
        defines = (*defines, "-DLMAX=6")
    here = Path(__file__).parent
    made = kernels.generated()
    library = folder / "kernels.so"

    def build() -> bytes:
        for name, text in made.items():
            (folder / name).write_text(text, "utf-8")
        includes = [f"-I{path}" for path in (kernels.FOLDER, here, folder)]
        command = [compiler, *FLAGS, *defines, *includes, str(here / ENTRY), "-o", str(library)]
        subprocess.run(command, check=True)
        return library.read_bytes()

    sources = sorted((p.name, p) for p in (*kernels.FOLDER.iterdir(), *here.iterdir()))
    texts = [(n, p.read_text("utf-8")) for n, p in sources if p.suffix in {".cpp", ".cu", ".h"}]
    kept = built(
        (version_of(compiler), platform.machine(), FLAGS, defines, texts, made), ".so", build
    )
    # A copy, since a library that is loaded twice under one name is one, with one state.
    shutil.copy(kept, library)
    return ctypes.CDLL(str(library))


@cache
def version_of(compiler: str) -> str:
    """What a compiler says of itself."""
    return subprocess.run([compiler, "-v"], check=True, capture_output=True, text=True).stderr


def address(array: np.ndarray) -> int:
    return array.ctypes.data if array.size else 0


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def rows_of(library, field, block=7) -> dict[str, np.ndarray]:
    """The rows of a table, all of them filled by the kernel."""
    n_rows, n_padded = len(field.values), field.change.shape[1]
    arrays = {
        "coefficients": aligned((n_rows + 1, n_padded), np.uint16),
        "masses": np.zeros(n_rows + 1, np.float32),
        "crossings": np.full(n_rows + 1, codes.NOT_AMONG, np.uint32),
        "voxel_rows": np.ascontiguousarray(field.voxel_rows),
        "values": np.ascontiguousarray(field.values),
        "change": np.ascontiguousarray(field.change),
        "sphere_points": np.ascontiguousarray(field.sphere_points),
    }
    arrays["coefficients"][:] = 0
    addresses = {name: address(array) for name, array in arrays.items()}
    n_points, shape = field.sphere_points.shape[1], field.voxel_rows.shape
    rows = cuda_tables.pack_rows(addresses, shape, n_rows, n_points, field.to_voxel)
    for which, n in enumerate((n_rows, field.voxel_rows.size, field.voxel_rows.size)):
        grid = n // block + 2  # more threads than there is to do
        library.launch_rows(which, grid, block, pointer(rows))
    return {name: arrays[name] for name in FodTable.filled}


class HostDevice:
    """This machine as a device; `memory` is what a batch may take, in bytes."""

    def __init__(
        self, library, plan, *, first_stream=0, memory=2**62, grid=2, block=32, n_blocks=None
    ):
        self.name = "host"
        self.library, self.plan, self.first_stream = library, plan, first_stream
        self.memory, self.shape = memory, (grid, block)
        self.log_length = kernels.log_length(plan.settings, plan.regions.tissues)
        self.n_blocks = n_blocks
        field = plan.field

        assert library.compiled_lmax() == plan.table.lmax
        assert bool(library.compiled_asymmetric()) == plan.table.is_asymmetric
        is_vectors = isinstance(field, VectorField)
        names = kernels.VECTOR_TABLES if is_vectors else kernels.TABLES
        tables = {name: getattr(field, name) for name in names}
        tables |= {} if is_vectors else rows_of(library, field)
        self.kept = {n: np.ascontiguousarray(a) for n, a in tables.items()}
        pack = kernels.pack_vector_field if is_vectors else kernels.pack_field
        self.field = pack(field, {n: address(a) for n, a in self.kept.items()})
        self.settings = kernels.pack_settings(plan.settings)
        places = {n: address(getattr(plan.regions, n)) for n in kernels.REGION_TABLES}
        places["fractions"] = address(plan.regions.tissues.fractions)
        self.regions = kernels.pack_regions(plan.regions, places)
        self.slots = [{} for _ in range(SLOTS)]
        self.results = [None] * SLOTS
        self.log = []

    def count(self, slot, first, last, parts=1):
        self.log.append(("count", slot, first, last))
        n = last - first
        settings = self.plan.settings
        shapes = kernels.batch_arrays(
            n,
            endpoints=settings.endpoints,
            seed_directions=settings.start == START_GIVEN,
            streams=len(self.plan.streams) > 0,
            log_length=self.log_length,
            n_blocks=self.n_blocks or kernels.blocks_for(n, MOST_POINTS, settings, self.log_length),
        )
        arrays = {name: np.zeros(shape, kind) for name, (shape, kind) in shapes.items()}
        if sum(array.nbytes for array in arrays.values()) > self.memory:
            raise OutOfDeviceMemoryError("seeds")
        arrays["positions"][:] = self.plan.positions_mm[first:last]
        if arrays["seed_directions"].size:
            arrays["seed_directions"][:] = self.plan.seed_directions[first:last]
        if arrays["streams"].size:
            arrays["streams"][:] = self.plan.streams[first:last]
        self.slots[slot] = arrays
        batch = self.batch(slot)
        self.library.launch_tracking(
            *self.shape,
            *(pointer(s) for s in (self.field, self.settings, self.regions, batch)),
        )
        for which in range(3):
            self.library.launch_between(which, *self.tiles(n), pointer(batch))

    def batch(self, slot):
        arrays = self.slots[slot]
        return kernels.pack(
            "Batch",
            {
                **{name: address(array) for name, array in arrays.items()},
                "first_stream": self.first_stream + self.first(slot),
                "n_seeds": len(arrays["counts"]),
                "log_length": self.log_length,
                "n_blocks": len(arrays["block_halves"]),
            },
        )

    def first(self, slot):
        return next(e[2] for e in reversed(self.log) if e[:2] == ("count", slot))

    def tiles(self, n):
        return -(-n // (3 * kernels.TILE)), 3

    n_threads = 0

    def count_seconds(self, slot):
        return 0.0

    def n_points(self, slot):
        n_points, _, n_blocks = (int(n) for n in self.slots[slot]["totals"])
        if n_blocks > len(self.slots[slot]["block_halves"]):
            raise OutOfDeviceMemoryError("points")
        return n_points

    def write(self, slot):
        self.log.append(("write", slot))
        arrays = self.slots[slot]
        n_points, n_lines, _ = (int(n) for n in arrays["totals"])
        if n_points * POINT_BYTES > self.memory:
            raise OutOfDeviceMemoryError("points")
        arrays["points"] = np.full((n_points, 3), np.nan, np.float32)
        batch = self.batch(slot)
        if self.plan.settings.endpoints:
            self.library.launch_between(3, len(arrays["counts"]), 1, pointer(batch))
        else:
            self.library.launch_gathering(3, 32, pointer(self.settings), pointer(batch))
        self.results[slot] = Tractogram(
            arrays["points"],
            arrays["line_offsets"][: n_lines + 1],
            seed_index=arrays["line_sources"][:n_lines],
            stop_reasons=arrays["line_reasons"][:n_lines],
            lengths_mm=arrays["line_lengths"][:n_lines],
            tally=tally_from_counts(arrays["tally"].astype(np.int64)),
            n_seeds=len(arrays["counts"]),
        )

    def collect(self, slot):
        self.log.append(("collect", slot))
        result, self.results[slot] = self.results[slot], None
        return result

    def release(self):
        self.log.append(("release",))
        self.slots = [{} for _ in range(SLOTS)]


def track_on_host(library, plan, *, batch=1000, **options) -> Tractogram:
    """Track a plan by the host-compiled kernels."""
    device = HostDevice(library, plan, **options)
    sizing = Sizing(2**62, 1, n_seeds=batch, largest=batch)
    return Tractogram.concatenate(list(run_devices([device], plan.n_seeds, [sizing])))
