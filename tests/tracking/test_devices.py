"""What devices there are, and one sentence where there is none."""

from __future__ import annotations

import sys
import types

import fake_cupy
import pytest

from napari_tractography.errors import BackendError
from napari_tractography.runtime import arrays
from napari_tractography.tracking import devices


@pytest.fixture
def machine(monkeypatch):
    """A machine with two fake GPUs and without NVML."""
    fake = fake_cupy.Machine(None, limit=1000, n_gpus=2)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return fake


def test_the_cpu_comes_first_and_then_the_gpus(machine):
    found = devices.devices()
    assert [device.name for device in found] == ["cpu", "cuda:0", "cuda:1"]
    assert found[0].total_bytes >= found[0].free_bytes > 0
    assert found[2].model == "Fake 1"
    assert (found[2].free_bytes, found[2].total_bytes) == (1000, 1000)
    assert found[2].utilisation_percent is None


def nvml(free):
    """A stand-in for NVML's Python module."""

    class NVMLError(Exception):
        pass

    def memory(bus_id):
        if free is None:
            raise NVMLError
        return types.SimpleNamespace(free=free[bus_id], total=5000)

    return types.SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus_id: bus_id,
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetUtilizationRates=lambda handle: types.SimpleNamespace(gpu=37),
    )


def test_nvml_tells_memory_and_utilisation(machine, monkeypatch):
    told = nvml({b"0000:00:00.0": 10, b"0000:01:00.0": 20})
    monkeypatch.setitem(sys.modules, "pynvml", told)
    assert devices.devices()[2] == devices.Device("cuda:1", "Fake 1", 20, 5000, 37)
    monkeypatch.setitem(sys.modules, "pynvml", nvml(None))
    assert devices.devices()[2] == devices.Device("cuda:1", "Fake 1", 1000, 1000, None)


def test_names_choose_gpus(machine, monkeypatch):
    assert devices.choose_gpus("cuda:0") == (0,)
    assert devices.choose_gpus("cuda:1") == (1,)
    assert devices.choose_gpus("cuda:all") == (0, 1)
    told = nvml({b"0000:00:00.0": 10, b"0000:01:00.0": 20})
    monkeypatch.setitem(sys.modules, "pynvml", told)
    assert devices.choose_gpus("cuda") == (1,)  # the one with most free memory
    machine.n_gpus = 1
    assert devices.choose_gpus("cuda") == (0,)


def test_processes_that_share_gpus_take_one_each(machine):
    for turn, gpu in ((0, 0), (1, 1), (2, 0)):
        with devices.in_turn(turn):
            assert devices.choose_gpus("cuda") == (gpu,)
            assert devices.choose_gpus("cuda:1") == (1,)  # asked for by number
            assert devices.choose_gpus("cuda:all") == (0, 1)
    machine.n_gpus = 1
    with devices.in_turn(1):
        assert devices.choose_gpus("cuda") == (0,)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda:2", "does not exist: there are 2 GPUs, from cuda:0"),
        ("cuda:x", "is no GPU; choose cuda"),
        ("gpu", "is no GPU"),
    ],
)
def test_names_of_no_gpu_are_refused(machine, name, said):
    with pytest.raises(BackendError, match=said):
        devices.choose_gpus(name)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (35, "driver is missing here or too old"),
        (100, "There is no NVIDIA GPU here"),
        (999, "CUDA does not start"),
    ],
)
def test_a_machine_without_a_usable_gpu_says_why_in_one_sentence(machine, status, said):
    def refuse():
        raise fake_cupy.CUDARuntimeError(status)

    machine.cuda.runtime.getDeviceCount = refuse
    problem = devices.cuda_problem()
    assert said in problem
    assert problem.endswith("choose backend = 'cpu'.")
    assert problem.count("\n") == 0
    assert [device.name for device in devices.devices()] == ["cpu"]
    with pytest.raises(BackendError, match=said):
        devices.choose_gpus("cuda")


def test_a_machine_with_no_gpu_left_says_so(machine):
    machine.n_gpus = 0
    assert "There is no NVIDIA GPU here" in devices.cuda_problem()


def test_missing_cupy_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert 'pip install "napari-tractography[cuda12]"' in devices.cuda_problem()
    with pytest.raises(BackendError, match="CuPy is not installed"):
        devices.choose_gpus("cuda:all")


def test_cupy_that_does_not_load_is_no_missing_cupy(monkeypatch):
    def broken(name):
        raise ImportError("libcuda.so.1: cannot open shared object file", name="libcuda")

    monkeypatch.setattr(arrays.importlib, "import_module", broken)
    assert "CuPy does not load (libcuda.so.1" in devices.cuda_problem()


def test_a_gpu_too_full_to_start_on_is_one_without_free_memory(machine):
    """Which makes "cuda", the one with most, choose another."""

    def refuse():
        if machine.device.id == 0:
            raise fake_cupy.CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
        return 500, 1000

    machine.cuda.runtime.memGetInfo = refuse
    assert devices.devices()[1] == devices.Device("cuda:0", "Fake 0", 0, 0, None)
    assert devices.choose_gpus("cuda") == (1,)
