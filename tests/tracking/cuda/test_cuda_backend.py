"""The CUDA backend, on a stand-in for CuPy that runs the kernels on the host.

What it cannot show is left to the tests marked gpu.
"""

from __future__ import annotations

import gc
import logging
import sys

import fake_cupy
import numpy as np
import pytest
from host import compile_for_host
from plans import plan_of
from toys import SKEWED, random_fod

from napari_tractography.errors import BackendError
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.runtime import buffers
from napari_tractography.runtime.buffers import BufferPool
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.cuda import cuda_backend as cuda
from napari_tractography.tracking.cuda import device as cuda_device
from napari_tractography.tracking.cuda import pinned, scheduler
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables
from napari_tractography.tracking.cuda.uploads import Uploads
from napari_tractography.tracking.execution import Execution


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def machine(library, monkeypatch):
    """A machine with one fake GPU; what other tests left on theirs is forgotten."""
    fake = fake_cupy.Machine(library)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(cuda_device, "_uploads", Uploads())
    monkeypatch.setattr(pinned, "pool", BufferPool(allocate=pinned._allocate))
    loaders = cuda_device.load_kernels, cuda_tables.load_kernels
    for load in loaders:
        load.cache_clear()
    yield fake
    for load in loaders:
        load.cache_clear()


@pytest.fixture
def fod():
    return random_fod(6, shape=(7, 6, 5), affine=SKEWED, seed=21)


@pytest.fixture
def seeds(fod):
    return Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 500)


def short(**changes):
    return TrackingParameters(step_mm=0.4, max_length_mm=30.0).replace(**changes)


def together(chunks):
    return Tractogram.concatenate(list(chunks))


def on_cpu(plan, first_stream=0):
    """The streamlines of a plan whose seed 0 has streamline id `first_stream`."""
    cancelled, buffers = np.zeros(1, np.uint8), cpu.ThreadBuffers()
    return cpu.track_range(plan, 0, plan.n_seeds, cancelled, buffers, first_stream)[0]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        pytest.param({"output": "endpoints"}, id="endpoints"),
        pytest.param({"algorithm": "deterministic", "interpolation": "nearest"}, id="nearest"),
        pytest.param({"record_every": 5, "start": "max"}, id="fewer points"),
    ],
)
@pytest.mark.parametrize("block", [None, 1, 64])
def test_chunks_are_those_of_the_cpu(machine, fod, seeds, changes, block):
    plan = plan_of(
        fod,
        seeds,
        short(**changes),
        mask=np.ones(fod.grid.shape),
        regions=[Region.sphere(fod.grid.centre_mm, 1.0, "stop")],
    )
    wanted = on_cpu(plan)
    chunks = list(cuda.iter_chunks(plan, Execution(block=block)))
    if block is not None:
        assert max(chunk.n_seeds for chunk in chunks) == block
    found = together(chunks)
    assert found.digest() == wanted.digest()
    assert found.tally == wanted.tally
    np.testing.assert_array_equal(found.seed_index, wanted.seed_index)
    np.testing.assert_array_equal(found.stop_reasons, wanted.stop_reasons)
    np.testing.assert_array_equal(found.lengths_mm, wanted.lengths_mm)


def test_streams_of_seeds_go_to_the_device(machine, fod):
    drawn = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 300, by="voxel")
    plan = plan_of(fod, drawn, short())
    wanted = on_cpu(plan)
    assert len(wanted) > 50
    found = together(cuda.iter_chunks(plan, Execution(block=70)))
    assert found.digest() == wanted.digest()
    np.testing.assert_array_equal(found.seed_index, wanted.seed_index)


def test_seeds_that_give_nothing_are_counted_and_that_is_all(machine, fod):
    centre = fod.grid.centre_mm
    plan = plan_of(fod, Seeds.at([centre, centre + 1e6]), short(min_amplitude=10.0))
    found = together(cuda.iter_chunks(plan))
    assert (len(found), found.n_points, found.n_seeds) == (0, 0, 2)
    assert found.tally == on_cpu(plan).tally


def test_kernels_are_compiled_once_an_algorithm_and_never_for_a_number(machine, fod, seeds):
    for changes in ({}, {"max_angle_deg": 20.0}, {"step_mm": 0.2}, {"random_seed": 9}):
        together(cuda.iter_chunks(plan_of(fod, seeds[:9], short(**changes))))
    assert len(machine.modules) == 2  # that of tables, too
    together(cuda.iter_chunks(plan_of(fod, seeds[:9], short(interpolation="nearest"))))
    assert len(machine.modules) == 3
    assert all("--fmad=false" in options for options in machine.modules)
    assert all("-DLMAX=6" in options for options in machine.modules)


def test_tables_are_uploaded_once_and_freed_with_the_fod(machine, seeds):
    fod = random_fod(6, shape=(7, 6, 5), affine=SKEWED)
    for seed in range(3):
        together(cuda.iter_chunks(plan_of(fod, seeds, short(random_seed=seed))))
        if seed == 0:
            once = machine.used
    plan = plan_of(fod, seeds, short())
    on_card = ("voxel_rows", *plan.table.filled)
    n_bytes = sum(getattr(plan.table, name).nbytes for name in on_card)
    assert machine.used == once > n_bytes
    del fod, plan
    gc.collect()
    assert machine.used == once - n_bytes  # sets of directions stay, as they do on the host


def test_memory_of_a_run_is_given_back_when_it_ends_and_when_it_is_cancelled(machine, fod, seeds):
    plan = plan_of(fod, seeds, short())
    together(cuda.iter_chunks(plan))
    before = machine.used
    together(cuda.iter_chunks(plan, Execution(block=50)))
    assert machine.used == before
    chunks = cuda.iter_chunks(plan, Execution(block=50))
    next(chunks)
    assert machine.used > before
    chunks.close()
    gc.collect()
    assert machine.used == before


def test_a_failing_device_is_explained_and_leaks_nothing(machine, fod, seeds, caplog):
    plan = plan_of(fod, seeds, short())
    together(cuda.iter_chunks(plan))
    before = machine.used
    machine.fails_at = "gather_points"
    with pytest.raises(BackendError, match=r"cuda:0 failed \(cudaErrorIllegalAddress"):
        together(cuda.iter_chunks(plan, Execution(block=50)))
    gc.collect()
    assert machine.used == before


def test_a_run_goes_on_with_smaller_batches_where_memory_is_short(machine, fod, seeds):
    plan = plan_of(fod, seeds, short())
    wanted = on_cpu(plan)
    whole = together(cuda.iter_chunks(plan))
    tables = machine.used
    machine.limit = tables + 100_000
    machine.most = machine.used
    chunks = list(cuda.iter_chunks(plan, Execution(memory_limit=10**9)))  # more than there is
    assert len(chunks) > 3
    assert together(chunks).digest() == whole.digest() == wanted.digest()
    assert machine.most <= machine.limit


def test_a_pool_that_is_full_gives_smaller_batches(machine, fod, seeds, monkeypatch):
    """Points have nowhere to go then, which the host sees afterwards."""
    plan = plan_of(fod, seeds, short())
    wanted = on_cpu(plan)
    n_blocks = len(wanted) // 2
    monkeypatch.setattr(kernels, "blocks_for", lambda *_: n_blocks)
    chunks = list(cuda.iter_chunks(plan))
    assert len(chunks) > 1
    assert max(len(chunk) for chunk in chunks) <= n_blocks
    assert together(chunks).digest() == wanted.digest()


def test_a_memory_limit_is_kept(machine, fod, seeds):
    plan = plan_of(fod, seeds, short())
    together(cuda.iter_chunks(plan))
    tables = machine.used
    for limit in (200_000, 400_000):
        machine.most = machine.used
        together(cuda.iter_chunks(plan, Execution(memory_limit=limit)))
        assert machine.most - tables <= limit + 10_000  # one region table and the like


def test_too_little_memory_for_the_tables_is_said_in_one_sentence(machine, fod, seeds):
    machine.limit = 30_000
    plan = plan_of(fod, seeds, short())
    with pytest.raises(BackendError, match=r"table of this FOD needs .* GB, more than cuda:0"):
        together(cuda.iter_chunks(plan))
    gc.collect()
    assert machine.used < 30_000


def test_too_little_memory_for_one_seed_is_said_in_one_sentence(machine, fod, seeds):
    plan = plan_of(fod, seeds, short())
    together(cuda.iter_chunks(plan))
    machine.limit = machine.used + 5_000
    with pytest.raises(BackendError, match=r"cuda:0 has too little memory: even \d+ seeds"):
        together(cuda.iter_chunks(plan, Execution(memory_limit=10**9)))


def test_a_refused_launch_is_explained(machine, fod, seeds):
    plan = plan_of(fod, seeds, short())
    with pytest.raises(BackendError, match=r"1024 threads a block .*40 registers and 136 bytes"):
        together(cuda.iter_chunks(plan, Execution(threads_a_block=1024)))


def test_a_kernel_that_does_not_compile_is_explained(machine, fod, seeds, monkeypatch):
    def refuse(**_):
        raise fake_cupy.CompileException("track.cu(1): error: no such thing\nmore")

    monkeypatch.setattr(machine, "RawModule", refuse)
    with pytest.raises(BackendError, match=r"do not compile for cuda:0 .*no such thing\)"):
        together(cuda.iter_chunks(plan_of(fod, seeds, short())))


def test_blocks_keep_most_threads_on_a_multiprocessor(machine, fod, seeds):
    assert cuda_device.choose_block(lambda block: {32: 16, 64: 10, 128: 6, 256: 3}[block]) == 128
    assert cuda_device.choose_block(lambda block: {32: 20, 64: 10, 128: 5, 256: 2}[block]) == 64
    together(cuda.iter_chunks(plan_of(fod, seeds, short()), Execution(threads_a_block=64)))
    shapes = {name: (grid, block) for name, grid, block in machine.launches}
    assert shapes["track_streamlines"] == ((8,), (64,))  # of at most 3 x 4 blocks
    assert shapes["scan_tiles"] == ((1,), (64,))


def test_several_gpus_share_the_seeds(machine, fod, seeds):
    machine.n_gpus = 2
    plan = plan_of(fod, seeds, short())
    wanted = on_cpu(plan)
    device = cuda_device.CudaDevice(1, plan)
    assert device.name == "cuda:1"
    device.close()
    chunks = list(cuda.iter_chunks(plan, Execution(block=20), gpus=(0,)))
    assert len(chunks) == 25
    assert together(chunks).digest() == wanted.digest()


@pytest.mark.parametrize("output", ["streamlines", "endpoints"])
def test_streamlines_may_stay_on_the_device(machine, fod, seeds, output):
    plan = plan_of(fod, seeds, short(output=output))
    wanted = on_cpu(plan)
    found = cuda.track_on_device(plan)
    assert isinstance(found.points, fake_cupy.Array)
    assert isinstance(found.offsets, fake_cupy.Array)
    there = found.to_host()
    assert there.digest() == wanted.digest()
    assert there.tally == wanted.tally
    np.testing.assert_array_equal(there.seed_index, wanted.seed_index)
    np.testing.assert_array_equal(there.lengths_mm, wanted.lengths_mm)
    assert found.n_seeds == 500


def test_streamlines_that_cannot_stay_on_the_device_say_so(machine, fod, seeds):
    plan = plan_of(fod, seeds, short())
    with pytest.raises(BackendError, match=r"too little memory to keep the streamlines of 500"):
        cuda.track_on_device(plan, Execution(memory_limit=100_000))
    before = machine.used
    cuda.track_on_device(plan)
    gc.collect()
    assert machine.used == before  # the result was not kept


def test_time_is_reported_as_upload_tracking_and_download(machine, fod, seeds, caplog):
    with caplog.at_level(logging.INFO, logger=cuda_device.__name__):
        together(cuda.iter_chunks(plan_of(fod, seeds, short())))
    assert "cuda:0: upload 0.001 s, tracking 0.002 s, download 0.001 s" in caplog.text


@pytest.fixture
def locked(monkeypatch):
    """The arrays that the blocks of pinned memory are."""
    made = []

    def allocate(n):
        made.append(pinned._allocate(n))
        return made[-1]

    monkeypatch.setattr(pinned, "pool", BufferPool(allocate=allocate))
    return made


@pytest.mark.parametrize("output", ["streamlines", "endpoints"])
def test_points_are_handed_over_in_the_memory_that_they_came_to(
    machine, fod, seeds, locked, output
):
    plan = plan_of(fod, seeds, short(output=output))
    wanted = on_cpu(plan)
    for _ in range(2):  # and the next run uses it again
        chunks = list(cuda.iter_chunks(plan, Execution(block=50)))
        gc.collect()  # the devices are gone, the streamlines stay
        for chunk in chunks:
            assert any(np.shares_memory(chunk.points, block) for block in locked)
            assert chunk.points.flags.writeable
            assert chunk.points.flags.c_contiguous
        assert together(chunks).digest() == wanted.digest()
        assert len(machine.pinned) == len(locked) == len(chunks) == 10
        del chunk, chunks
    assert pinned.pool.lent_bytes == 0


def test_a_run_whose_chunks_are_let_go_needs_few_blocks(machine, fod, seeds):
    n_chunks = 0
    for _ in cuda.iter_chunks(plan_of(fod, seeds, short()), Execution(block=20)):
        n_chunks += 1
    assert n_chunks == 25
    assert len(machine.pinned) <= pinned.BATCHES - 1


@pytest.mark.parametrize("limit", [0, 3 * buffers.SMALLEST])
def test_who_keeps_much_gets_copies_in_ordinary_memory(
    machine, fod, seeds, locked, monkeypatch, limit
):
    monkeypatch.setattr(pinned, "limit", limit)
    plan = plan_of(fod, seeds, short())
    chunks = list(cuda.iter_chunks(plan, Execution(block=20)))
    assert together(chunks).digest() == on_cpu(plan).digest()
    assert sum(machine.pinned) <= limit + scheduler.SLOTS * 1.25 * buffers.SMALLEST
    kept = sum(any(np.shares_memory(chunk.points, b) for b in locked) for chunk in chunks)
    assert kept * buffers.SMALLEST <= limit
    assert bool(kept) == bool(limit)


def test_a_host_whose_memory_cannot_be_locked_copies_to_ordinary_memory(
    machine, fod, seeds, caplog
):
    machine.host_is_full = True
    plan = plan_of(fod, seeds, short())
    with caplog.at_level(logging.INFO, logger=pinned.__name__):
        found = together(cuda.iter_chunks(plan, Execution(block=100)))
    assert found.digest() == on_cpu(plan).digest()
    assert "No memory of the host could be locked (cudaErrorMemoryAllocation" in caplog.text
    machine.host_is_full = False
    together(cuda.iter_chunks(plan, Execution(block=100)))
    assert machine.pinned  # it is tried again


def test_batches_are_bounded_by_what_may_wait_for_the_next_run(monkeypatch):
    def bound(n_bytes):
        monkeypatch.setattr(buffers, "bytes_to_keep", lambda: n_bytes)
        return pinned.max_points()

    assert bound(10**12) == scheduler.MAX_POINTS
    assert bound(0) == scheduler.PLENTY
    enough = 1_500_000_000
    assert 0.99 * enough < pinned.BATCHES * scheduler.POINT_BYTES * bound(enough) <= enough


def test_what_batches_do_at_once_is_counted_once(machine, fod, seeds):
    device = cuda_device.CudaDevice(0, plan_of(fod, seeds, short()))
    machine.cuda.get_elapsed_time = lambda begun, ended: 1e3 * (ended - begun)
    assert device._add("tracking", 2.0, 5.0) == 3.0
    assert device._add("tracking", 3.0, 7.0) == 2.0  # was queued while the last one ran,
    assert device._add("tracking", 4.0, 6.0) == 0.0  # and ended before it did
    assert device._add("tracking", 8.0, 9.0) == 1.0
    assert device._add("download", 8.0, 9.0) == 1.0
    assert (device.seconds["tracking"], device.seconds["download"]) == (6.0, 1.0)


def test_a_device_says_how_much_it_tracks_at_once(machine, fod, seeds):
    device = cuda_device.CudaDevice(0, plan_of(fod, seeds, short()))
    device.count(0, 0, 10)
    assert device.n_threads == 3 * 256  # of three multiprocessors
    device.n_points(0)
    assert device.count_seconds(0) == 0.001
    device.close()


def test_a_batch_takes_its_part_of_a_gpu(machine, fod, seeds):
    device = cuda_device.CudaDevice(0, plan_of(fod, seeds, short()))
    for parts, blocks in ((1, 8), (6, 2), (100, 1)):  # of the twelve that fit on the GPU
        device.count(0, 0, 500, parts)
        device.n_points(0)
        launched = [launch for launch in machine.launches if launch[0] == "track_streamlines"]
        assert launched[-1][1:] == ((blocks,), (64,))
    device.close()


def test_a_batch_takes_the_memory_that_it_is_said_to_take(machine, fod, seeds):
    plan = plan_of(fod, seeds, short())
    device = cuda_device.CudaDevice(0, plan)
    sizing = device.sizing(Execution(memory_limit=scheduler.SLOTS * 1_000_000))
    before = machine.used
    device.count(0, 0, kernels.TILE)
    assert machine.used - before <= sizing.budget
    assert machine.used - before >= kernels.TILE * (sizing.seed_bytes - 1)
    n_points = device.n_points(0)
    device.write(0)
    n_bytes = machine.used - before
    assert n_bytes <= sizing.budget
    assert n_bytes >= 2 * n_points * scheduler.POINT_BYTES
    device.close()


def test_tables_are_kept_by_the_memory_they_lie_in(machine):
    uploads = Uploads()
    made = []

    def make():
        made.append(1)
        return object()

    array = np.zeros((4, 5))
    kept = uploads.get(0, array, make)
    assert uploads.get(0, array.view(), make) is kept
    assert uploads.get(1, array, make) is not kept  # of another device
    assert uploads.get(0, array[:2], make) is not kept  # a part
    assert len(made) == 3
    del array
    gc.collect()
    assert not uploads._kept


def test_fods_that_are_equal_share_nothing(machine, fod, seeds):
    twin = Fod(fod.coefficients, fod.grid)
    together(cuda.iter_chunks(plan_of(fod, seeds, short())))
    before = machine.used
    together(cuda.iter_chunks(plan_of(twin, seeds, short())))
    assert machine.used > before + plan_of(twin, seeds, short()).table.n_bytes * 0.9
