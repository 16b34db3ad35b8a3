"""Which backend tracks a run, and what happens when it fails."""

from __future__ import annotations

import itertools
import logging
import sys
from types import SimpleNamespace

import fake_cupy
import numba
import numpy as np
import pytest
from host import compile_for_host
from plans import plan_of
from toys import random_fod

from napari_tractography.errors import BackendError
from napari_tractography.model.algorithms import BY_NAME
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import backends, codes, engine, measuring
from napari_tractography.tracking.costs import Cost, PerformanceModel
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.cpu import kernel
from napari_tractography.tracking.cuda import device as cuda_device
from napari_tractography.tracking.cuda import tables as cuda_tables
from napari_tractography.tracking.cuda.uploads import Uploads
from napari_tractography.tracking.devices import cpu_count
from napari_tractography.tracking.engine import iter_track, track
from napari_tractography.tracking.execution import Execution
from napari_tractography.tracking.measuring import cost_key
from napari_tractography.tracking.report import Report

FAST = Cost(start_s=0.0, upload_s_per_byte=0.0, s_per_step=1e-12, mm_per_seed=10.0)
SLOW = Cost(start_s=0.0, upload_s_per_byte=0.0, s_per_step=1.0, mm_per_seed=10.0)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def machine(library, monkeypatch, tmp_path):
    """Two fake GPUs and nothing measured yet."""
    fake = fake_cupy.Machine(library, n_gpus=2)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(cuda_device, "_uploads", Uploads())
    monkeypatch.setattr(measuring, "performance", PerformanceModel(tmp_path / "costs.json"))
    monkeypatch.setattr(measuring, "started_gpus", set())
    for load in (cuda_device.load_kernels, cuda_tables.load_kernels):
        load.cache_clear()
    yield fake
    for load in (cuda_device.load_kernels, cuda_tables.load_kernels):
        load.cache_clear()


@pytest.fixture(scope="module")
def fod():
    return random_fod(6, shape=(7, 6, 5), seed=21)


@pytest.fixture(scope="module")
def seeds(fod):
    return Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 300)


FULL = r"^[^\n]*(cuda:[01] has too little free memory|more than cuda:[01] has)[^\n]* = 'cpu'\.$"
SHORT = TrackingParameters(step_mm=0.4, max_length_mm=30.0)


def knows(plan, *, cpu=None, gpu=None):
    if cpu is not None:
        measuring.performance.learn(cost_key(plan, (), cpu_count()), cpu)
    if gpu is not None:
        measuring.performance.learn(cost_key(plan, (0,), 0), gpu)


@pytest.mark.parametrize("backend", ["cuda", "cuda:0", "cuda:1", "cuda:all"])
def test_every_gpu_backend_gives_the_streamlines_of_the_cpu(machine, fod, seeds, backend):
    wanted = track(fod, seeds, SHORT, backend="cpu")
    assert not machine.launches
    found = track(fod, seeds, SHORT, backend=backend, block=50)
    assert machine.launches
    assert found.digest() == wanted.digest()
    assert found.tally == wanted.tally


def test_auto_takes_the_cpu_for_few_seeds_without_asking_for_a_gpu(fod, seeds, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it would fail
    monkeypatch.setattr(backends.devices, "choose_gpus", lambda name: pytest.fail("asked"))
    with caplog.at_level(logging.INFO, logger=backends.__name__):
        track(fod, seeds[:10], SHORT, backend="auto")
    assert "backend cpu: " in caplog.text


def test_auto_takes_what_is_likely_to_be_done_first(machine, fod, seeds, caplog):
    plan = plan_of(fod, seeds, SHORT)
    knows(plan, cpu=SLOW, gpu=FAST)
    with caplog.at_level(logging.INFO, logger=backends.__name__):
        assert backends.choose(plan, Execution()).gpus == (0,)
    assert "backend cuda:0: the CPU takes about" in caplog.text
    knows(plan, gpu=Cost(1e9, 0.0, 0.0, 10.0))  # starts slowly
    assert backends.choose(plan, Execution()).gpus == ()
    measuring.started_gpus.add(0)
    assert backends.choose(plan, Execution()).gpus == (0,)


def test_auto_counts_the_tables_that_are_yet_to_be_sent(machine, fod, seeds):
    plan = plan_of(fod, seeds, SHORT)
    knows(plan, cpu=SLOW, gpu=Cost(0.0, 1.0, 0.0, 10.0))  # a second a byte
    assert backends.choose(plan, Execution()).gpus == ()
    track(fod, seeds[:5], SHORT, backend="cuda:0")
    assert backends.choose(plan, Execution()).gpus == (0,)


def test_that_nothing_is_to_be_compiled_is_told(fod, seeds, monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(BackendError, match=r"NUMBA_DISABLE_JIT is set, .* unset it"):
        track(fod, seeds, backend="cpu")


def test_auto_without_a_gpu_takes_the_cpu_and_says_why(machine, fod, seeds, caplog):
    machine.n_gpus = 0
    plan = plan_of(fod, seeds, SHORT)
    knows(plan, cpu=SLOW)
    with caplog.at_level(logging.INFO, logger=backends.__name__):
        assert backends.choose(plan, Execution()).gpus == ()
    assert "backend cpu: There is no NVIDIA GPU here" in caplog.text


def test_the_environment_overrules(machine, fod, seeds, monkeypatch, caplog):
    monkeypatch.setenv(backends.VARIABLE, "cpu")
    with caplog.at_level(logging.INFO, logger=backends.__name__):
        track(fod, seeds[:5], SHORT, backend="cuda")
    assert not machine.launches
    assert "backend cpu: NAPARI_TRACTOGRAPHY_BACKEND=cpu" in caplog.text
    monkeypatch.setenv(backends.VARIABLE, "cuda:1")
    track(fod, seeds[:5], SHORT)
    assert machine.launches


def test_errors_name_the_variable_that_decided(machine, fod, seeds, monkeypatch):
    machine.n_gpus = 0
    for named, told in {
        "gpu": "^NAPARI_TRACTOGRAPHY_BACKEND = 'gpu' is unknown; choose one of auto, cpu",
        "cuda": "no NVIDIA GPU here; set NAPARI_TRACTOGRAPHY_BACKEND=cpu",
    }.items():
        monkeypatch.setenv(backends.VARIABLE, named)
        with pytest.raises(BackendError, match=told):
            iter_track(fod, seeds, SHORT, backend="cpu")
    monkeypatch.setenv(backends.VARIABLE, "cuda:all")
    with pytest.raises(BackendError, match=r"^NAPARI_TRACTOGRAPHY_BACKEND = 'cuda:all'"):
        track(fod, seeds, SHORT, device_arrays=True)


@pytest.mark.parametrize("backend", ["", "gpu", "numba"])
def test_unknown_backends_are_refused_at_once(fod, seeds, backend):
    with pytest.raises(BackendError, match="is unknown; choose one of auto, cpu, cuda"):
        iter_track(fod, seeds, SHORT, backend=backend)


def test_a_gpu_that_was_not_asked_for_gives_way_when_it_fails(machine, fod, seeds, caplog):
    plan = plan_of(fod, seeds, SHORT)
    knows(plan, cpu=SLOW, gpu=FAST)
    machine.fails_at = "track_streamlines"
    found = track(fod, seeds, SHORT)
    assert machine.launches
    assert found.digest() == track(fod, seeds, SHORT, backend="cpu").digest()
    assert "Tracking on the CPU instead" in caplog.text


@pytest.mark.parametrize("place", fake_cupy.FULL)
@pytest.mark.parametrize("n_gpus", [1, 2])
def test_a_gpu_that_is_full_gives_way_to_the_cpu(machine, fod, seeds, caplog, place, n_gpus):
    """Wherever that shows first; with two GPUs both are asked for their free memory before."""
    machine.n_gpus = n_gpus
    knows(plan_of(fod, seeds, SHORT), cpu=SLOW, gpu=FAST)
    machine.full_at = place
    report = Report()
    found = Tractogram.concatenate(list(iter_track(fod, seeds, SHORT, report=report)))
    assert found.digest() == track(fod, seeds, SHORT, backend="cpu").digest()
    assert report.backend == "cpu"
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert warning == f"{report.reason} Tracking on the CPU instead."
    assert "cuda:0" in warning
    assert "\n" not in warning


@pytest.mark.parametrize("place", fake_cupy.FULL)
@pytest.mark.parametrize(
    ("backend", "device_arrays"),
    [("cuda", False), ("cuda:1", False), ("cuda:all", False), ("cuda", True), ("cuda:1", True)],
)
def test_a_gpu_that_is_full_and_was_asked_for_says_so(
    machine, fod, seeds, place, backend, device_arrays
):
    machine.full_at = place
    with pytest.raises(BackendError, match=FULL):
        track(fod, seeds, SHORT, backend=backend, device_arrays=device_arrays)


@pytest.mark.parametrize(
    ("backend", "parts"),
    [("cpu", {"tables", "tracking"}), ("cuda:1", {"tables", "upload", "tracking", "download"})],
)
def test_a_run_reports_what_tracked_it_and_where_the_time_went(machine, fod, seeds, backend, parts):
    cpu.make_ready(plan_of(fod, seeds, SHORT))
    report = Report()
    chunks = iter_track(fod, seeds, SHORT, backend=backend, report=report)
    assert sum(chunk.n_seeds for chunk in chunks) == len(seeds)
    assert (report.backend, report.reason) == (backend, "asked for")
    assert set(report.seconds) == parts
    assert all(seconds >= 0 for seconds in report.seconds.values())
    assert report.seconds["tracking"] > 0
    assert report.held_bytes == (0 if backend == "cpu" else machine.used)
    assert (report.held_bytes > 0) == (backend != "cpu")


def test_the_first_run_of_a_process_reports_what_compiling_took(monkeypatch, fod, seeds):
    monkeypatch.setattr(cpu, "make_ready", lambda plan: True)
    report = Report()
    list(iter_track(fod, seeds, SHORT, backend="cpu", report=report))
    assert set(report.seconds) == {"tables", "start", "tracking"}


def test_a_kernel_is_made_ready_once(fod, seeds):
    plan = plan_of(fod, seeds, SHORT)
    cpu.make_ready(plan)
    assert kernel.block_kernel(BY_NAME["probabilistic"].code, codes.TRILINEAR).signatures
    assert not cpu.make_ready(plan)


def test_a_kernel_is_made_ready_for_each_largest_degree(fod, seeds, monkeypatch):
    tracked = []
    monkeypatch.setattr(cpu, "_loaded", set())
    monkeypatch.setattr(cpu, "track_range", lambda plan, *rest: tracked.append(plan.table.lmax))
    for lmax in (4, 4, 2, 4):
        n = (lmax + 1) * (lmax + 2) // 2
        cpu.make_ready(plan_of(Fod(np.ones((2, 2, 2, n)), np.eye(4)), Seeds.at(np.zeros(3))))
    assert tracked == [4, 2]


@pytest.mark.parametrize(("block", "wanted"), [(20, 0.5 * 15 / 2), (300, 0.5)])
def test_the_time_of_tracking_is_that_of_the_threads(fod, seeds, monkeypatch, block, wanted):
    """Not what passes until somebody takes the chunks."""
    track_range = cpu.track_range
    monkeypatch.setattr(cpu, "track_range", lambda *given: (track_range(*given)[0], 0.5))
    report = Report()
    list(iter_track(fod, seeds, SHORT, backend="cpu", block=block, n_threads=2, report=report))
    assert report.seconds["tracking"] == pytest.approx(wanted)


def test_a_run_that_went_over_to_the_cpu_reports_why(machine, fod, seeds):
    cpu.make_ready(plan_of(fod, seeds, SHORT))
    knows(plan_of(fod, seeds, SHORT), cpu=SLOW, gpu=FAST)
    machine.fails_at = "track_streamlines"
    report = Report()
    list(iter_track(fod, seeds, SHORT, report=report))
    assert report.backend == "cpu"
    assert "cuda:0" in report.reason
    assert set(report.seconds) == {"tables", "tracking"}


def test_a_gpu_that_was_asked_for_fails_aloud(machine, fod, seeds):
    machine.fails_at = "track_streamlines"
    with pytest.raises(BackendError, match="cuda:1 failed"):
        track(fod, seeds, SHORT, backend="cuda:1")


def test_a_gpu_that_fails_later_loses_no_chunk_in_silence(machine, fod, seeds):
    plan = plan_of(fod, seeds, SHORT)
    knows(plan, cpu=SLOW, gpu=FAST)
    chunks = iter_track(fod, seeds, SHORT, block=50)
    next(chunks)
    machine.fails_at = "gather_points"
    with pytest.raises(BackendError, match="cuda:0 failed"):
        list(chunks)


def test_runs_are_measured_and_the_next_choice_goes_by_that(machine, fod, seeds, monkeypatch):
    monkeypatch.setattr(measuring, "MEASURED_SECONDS", 0.0)
    monkeypatch.setattr(measuring, "MEASURED_BYTES", 1.0)
    # Between the first two looks at the clock, for the first chunk, lie ten seconds, then one.
    clock = itertools.chain([0.0], itertools.count(10.0))
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    plan = plan_of(fod, seeds, SHORT)
    found = track(fod, seeds, SHORT, backend="cuda:0", block=50)
    cost = measuring.performance.get(cost_key(plan, (0,), 0))
    assert cost.mm_per_seed == pytest.approx(found.lengths_mm.sum() / 300)
    assert cost.s_per_step > 0
    assert 5 < cost.start_s < 10
    # The stand-in's clock says a millisecond for the upload, whatever is uploaded.
    assert 2e-4 < cost.upload_s_per_byte * plan.table.n_bytes < 1e-3
    assert measuring.performance.path.exists()
    track(fod, seeds, SHORT, backend="cpu", block=50)
    assert measuring.performance.get(cost_key(plan, (), cpu_count())) is not None


def test_without_a_gpu_nothing_is_written(fod, seeds, monkeypatch, tmp_path):
    monkeypatch.setattr(measuring, "MEASURED_SECONDS", 0.0)
    monkeypatch.setattr(measuring, "performance", PerformanceModel(tmp_path / "costs.json"))
    monkeypatch.setattr(measuring, "started_gpus", set())
    track(fod, seeds, SHORT, backend="cpu", block=50)
    assert not list(tmp_path.iterdir())


def test_streamlines_stay_on_the_device(machine, fod, seeds):
    found = track(fod, seeds, SHORT, backend="cuda:1", device_arrays=True)
    assert isinstance(found.points, fake_cupy.Array)
    assert found.to_host().digest() == track(fod, seeds, SHORT, backend="cpu").digest()
    for backend in ("cpu", "cuda:all"):
        with pytest.raises(BackendError, match="no arrays on one device"):
            track(fod, seeds, SHORT, backend=backend, device_arrays=True)


def test_the_threads_of_a_block_can_be_chosen(machine, fod, seeds):
    wanted = track(fod, seeds, SHORT, backend="cpu").digest()
    assert track(fod, seeds, SHORT, backend="cuda:0", threads_a_block=64).digest() == wanted
    found = track(fod, seeds, SHORT, backend="cuda:0", threads_a_block=32, device_arrays=True)
    assert found.to_host().digest() == wanted
    assert [block for name, _, block in machine.launches if name == "track_streamlines"] == [
        (64,),
        (32,),
    ]
    with pytest.raises(BackendError, match="choose a smaller threads_a_block"):
        track(fod, seeds, SHORT, backend="cuda:0", threads_a_block=1024)


def test_warming_up_compiles_what_the_first_run_needs(machine, fod, seeds):
    parameters = SHORT.replace(algorithm="diffusion")
    engine.warm_up(parameters, lmax=fod.lmax)
    assert len(machine.modules) == 2  # that of tables, too
    assert kernel.block_kernel(BY_NAME["diffusion"].code, codes.TRILINEAR).signatures
    assert measuring.started_gpus
    gpu = next(iter(measuring.started_gpus))
    track(fod, seeds[:5], parameters, backend=f"cuda:{gpu}")
    assert len(machine.modules) == 2  # that of tables, too
    report = Report()
    list(iter_track(fod, seeds[:5], parameters, backend="cpu", report=report))
    assert "start" not in report.seconds


@pytest.mark.parametrize("broken", ["no GPU", "device", "kernels", "memory"])
def test_warming_up_where_it_cannot_is_silent(machine, broken, caplog):
    if broken == "no GPU":
        machine.n_gpus = 0
    else:
        machine.full_at = broken
    with caplog.at_level(logging.INFO):
        engine.warm_up()
    assert not measuring.started_gpus
    assert not caplog.records


def test_masks_may_lie_on_a_gpu(machine, fod, seeds):
    mask = np.ones(fod.grid.shape)
    mask[:3] = 0

    class OnGpu:
        """As CuPy's arrays: refuses to be copied by accident."""

        def __array__(self, *_, **__):
            raise TypeError("Implicit conversion to a NumPy array is not allowed.")

        def __dlpack_device__(self):
            return 2, 0

        def get(self):
            return mask

    class OnGpuAsTorch(OnGpu):
        get = None

        def cpu(self):
            return mask

    wanted = track(fod, seeds, SHORT, mask=mask, backend="cpu").digest()
    for array in (OnGpu(), OnGpuAsTorch()):
        assert track(fod, seeds, SHORT, mask=array, backend="cpu").digest() == wanted
