"""Which processors and GPUs there are, and which of them a name such as "cuda:1" means.

CuPy is imported on first use; without it, or without a GPU, there is the CPU.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import platform
import re
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from ..errors import BackendError

logger = logging.getLogger(__name__)

INSUFFICIENT_DRIVER, NO_DEVICE = 35, 100  # of CUDA's error numbers

_turn: ContextVar[int | None] = ContextVar("turn", default=None)


@dataclass(frozen=True, slots=True)
class Device:
    """A processor or a GPU."""

    name: str  # what to give as backend: "cpu", "cuda:0", ...
    model: str  # what it is
    # free_bytes, total_bytes: memory; 0 where unknown.
    free_bytes: int
    total_bytes: int
    # How busy a GPU is at the moment, where NVML (the package nvidia-ml-py) is there to say so.
    utilisation_percent: int | None = None


def devices() -> list[Device]:
    """Return the CPU and all GPUs that can be used."""
    found = [_cpu()]
    if not cuda_problem():
        found += [_gpu(index) for index in range(n_gpus())]
    return found


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def n_gpus() -> int:
    """Return the number of GPUs that CUDA can use.

    Raises BackendError when there is none, no driver or no CuPy; one sentence that says which.
    """
    from ..runtime.arrays import REMEDY, import_cupy  # on use: the command's help needs no NumPy

    cupy = import_cupy()
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except (cupy.cuda.runtime.CUDARuntimeError, RuntimeError) as error:
        status = getattr(error, "status", None)
        if status == INSUFFICIENT_DRIVER:
            raise BackendError(
                "NVIDIA's driver is missing here or too old for this CuPy "
                f"({cupy.__version__}); update the driver or {REMEDY}."
            ) from error
        if status == NO_DEVICE:
            raise BackendError(f"There is no NVIDIA GPU here; {REMEDY}.") from error
        raise BackendError(f"CUDA does not start ({error}); {REMEDY}.") from error
    if not count:
        raise BackendError(f"There is no NVIDIA GPU here; {REMEDY}.")
    return count


def cuda_problem() -> str:
    """Return one sentence on why no GPU can be used, or ""."""
    try:
        n_gpus()
    except BackendError as error:
        return str(error)
    return ""


def choose_gpus(backend: str) -> tuple[int, ...]:
    """Return the numbers of the GPUs that "cuda", "cuda:1" or "cuda:all" stand for.

    Plain "cuda" is the GPU with most free memory, unless processes take turns, see :func:`in_turn`.

    Raises BackendError when there is no such GPU.
    """
    match = re.fullmatch(r"cuda(?::(\d+|all))?", backend)
    if match is None:
        raise BackendError(
            f"backend = {backend!r} is no GPU; choose cuda, cuda:0, cuda:1, ... or cuda:all."
        )
    count = n_gpus()
    if match[1] == "all":
        return tuple(range(count))
    if match[1] is None:
        if count == 1:  # asking for its free memory would start it, which takes time
            return (0,)
        turn = _turn.get()
        if turn is not None:
            return (turn % count,)
        return (max(range(count), key=lambda index: _gpu(index).free_bytes),)
    index = int(match[1])
    if index >= count:
        raise BackendError(
            f"backend = {backend!r} does not exist: there "
            f"{'is 1 GPU, cuda:0' if count == 1 else f'are {count} GPUs, from cuda:0'}."
        )
    return (index,)


@contextlib.contextmanager
def in_turn(number: int | None) -> Iterator[None]:
    """Have plain "cuda" be the GPU of that number, counted over and over; None for no number.

    For processes that share the GPUs of a machine, as workers of a cluster do.
    """
    token = _turn.set(number)
    try:
        yield
    finally:
        _turn.reset(token)


def model(index: int) -> str:
    """Return what a GPU is called."""
    from ..runtime.arrays import import_cupy

    name = import_cupy().cuda.runtime.getDeviceProperties(index)["name"]
    return str(name.decode() if isinstance(name, bytes) else name)


def _cpu() -> Device:
    sizes = os.sysconf_names if hasattr(os, "sysconf_names") else {}
    page = os.sysconf("SC_PAGE_SIZE") if "SC_PAGE_SIZE" in sizes else 0
    free = os.sysconf("SC_AVPHYS_PAGES") * page if "SC_AVPHYS_PAGES" in sizes else 0
    total = os.sysconf("SC_PHYS_PAGES") * page if "SC_PHYS_PAGES" in sizes else 0
    return Device("cpu", platform.processor() or platform.machine(), free, total)


def _gpu(index: int) -> Device:
    from ..runtime.arrays import import_cupy

    cupy = import_cupy()
    runtime = cupy.cuda.runtime
    state = _nvml_state(runtime.deviceGetPCIBusId(index))
    if state is not None:
        return Device(f"cuda:{index}", model(index), *state)
    try:
        with cupy.cuda.Device(index):
            free, total = runtime.memGetInfo()
    except runtime.CUDARuntimeError as error:  # as of a GPU too full to start on
        logger.debug("cuda:%d does not say how much memory is free: %s", index, error)
        free = total = 0
    return Device(f"cuda:{index}", model(index), int(free), int(total))


def _nvml_state(bus_id: str) -> tuple[int, int, int] | None:
    """Return free and total memory and utilisation, or None where NVML does not tell."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
    except nvml.NVMLError:
        return None
    return int(memory.free), int(memory.total), int(busy)
