"""Which backend tracks a run, why, and what happens where it fails.

The backends are the CPU (:mod:`.cpu.cpu_backend`), CUDA (:mod:`.cuda.cuda_backend`), and a cluster
that is handed in. "auto" chooses by what runs cost (:mod:`.costs`), as :mod:`.measuring` measured
it. Called by :mod:`.engine`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from ..errors import BackendError
from ..fields.input_kind import BLOCKS
from ..runtime.arrays import REMEDY, gpu_of
from ..streamlines.tractogram import Tractogram
from . import costs, devices, kernels, measuring
from .cpu import cpu_backend as cpu
from .cuda import cuda_backend as cuda
from .execution import Execution, Runner
from .plan import Plan
from .report import PREPARING, STANDING_IN, Report
from .wasm import wasm_backend

logger = logging.getLogger(__name__)

VARIABLE = "NAPARI_TRACTOGRAPHY_BACKEND"
IN_BLOCKS = "orientations of an image are worked out where streamlines go, on the CPU alone so far"
NAMES = "auto, cpu, cuda, cuda:0, cuda:1, ..., cuda:all"


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend."""

    gpus: tuple[int, ...] = ()  # empty for the CPU
    automatic: bool = False  # whether "auto" chose it, so that the CPU may step in where it fails
    reason: str = "asked for"  # why, for the log and the report
    runner: Runner | None = None  # a cluster, which then tracks

    @property
    def name(self) -> str:
        """Name of the devices: "cpu", "cuda:0", "cuda:0 + cuda:1"."""
        if self.runner is not None:
            return self.runner.name
        return " + ".join(f"cuda:{gpu}" for gpu in self.gpus) or "cpu"


def may_use_a_gpu(execution: Execution) -> bool:
    """Tell whether a run may be one on a GPU, so that what lies there is best left there."""
    return isinstance(execution.backend, str) and _wanted(execution) != "cpu"


def choose(plan: Plan, execution: Execution) -> Choice:
    """Return the backend that a name, the environment or the costs stand for.

    Raises BackendError when there is no such backend here.
    """
    if not isinstance(execution.backend, str):
        return Choice(runner=execution.backend)
    wanted = _wanted(execution)
    with _variable_named(execution):
        choice = _choose(wanted, plan, execution.n_workers)
    if wanted != execution.backend:
        choice = replace(choice, reason=f"{VARIABLE}={wanted}: {choice.reason}")
    logger.info("backend %s: %s", choice.name, choice.reason)
    return choice


def iter_chunks(
    choice: Choice, plan: Plan, execution: Execution, *, report: Report | None = None
) -> Generator[Tractogram, None, None]:
    """Track by the chosen backend; learn what it costs.

    A GPU that "auto" chose and that fails before the first chunk gives way to the CPU. While there
    is nothing to do but wait, chunks without seeds come: the caller can close this between them.

    Raises BackendError when a GPU that was asked for by name fails, or any after the first chunk.
    """
    report = Report() if report is None else report
    if choice.runner is not None:
        yield from choice.runner.iter_chunks(plan.on_host(), execution, report)
        return
    n_threads = execution.n_workers
    if choice.gpus:
        report.begin(choice.name, choice.reason)
        before = replace(report, seconds=dict(report.seconds))
        chunks = cuda.iter_chunks(plan, execution, gpus=choice.gpus, report=report)
        try:
            report.phase = PREPARING
            for chunk in measuring.measured(
                chunks, plan, report, gpus=choice.gpus, n_threads=n_threads
            ):
                report.phase = ""
                yield chunk
            return
        except measuring.NothingTrackedError as failure:
            if not choice.automatic:
                with _variable_named(execution):
                    raise failure.error from failure.error.__cause__
            logger.warning("%s Tracking on the CPU instead.", failure.error)
            report.seconds, report.held_bytes = before.seconds, before.held_bytes
            report.uploaded_bytes = before.uploaded_bytes
            choice = Choice(reason=str(failure.error))
    report.begin(choice.name, choice.reason)
    kernels.check_can_compile()
    plan, first = plan.on_host(), 0
    if kernels.stands_in(plan):
        reason = choice.reason.rstrip(".")
        report.phase = STANDING_IN
        for chunk in wasm_backend.iter_chunks(plan, execution, kernels.begin(plan), report):
            first += chunk.n_seeds
            report.reason = (
                f"{reason}; {first:,} seeds in WebAssembly while the kernel was compiled"
            )
            yield chunk
        if first == plan.n_seeds:
            return
    begun, was_missing = time.perf_counter(), kernels.is_missing(plan)
    report.phase = PREPARING
    for _ in kernels.until_compiled(plan):
        yield Tractogram.empty()
    if cpu.make_ready(plan) or was_missing:
        report.add("start", time.perf_counter() - begun)
    report.phase = ""
    chunks = cpu.iter_chunks(plan, execution, report=report, first=first)
    yield from measuring.measured(chunks, plan, report, gpus=(), n_threads=n_threads)


def track_on_device(plan: Plan, execution: Execution) -> cuda.DeviceTractogram:
    """Track on one GPU and leave the streamlines there.

    Raises BackendError when there is no GPU, when the backend is none or is several, or when the
    GPU fails.
    """
    if not isinstance(execution.backend, str):
        raise BackendError(
            "A cluster has no arrays on one device; with device_arrays choose cuda or cuda:0, "
            "cuda:1, ..."
        )
    wanted = _wanted(execution)
    with _variable_named(execution):
        if plan.table.kernel == BLOCKS:
            raise BackendError(f"device_arrays needs a GPU, and {IN_BLOCKS}; track without.")
        if wanted in ("cpu", "cuda:all"):
            raise BackendError(
                f"backend = {wanted!r} has no arrays on one device; with device_arrays choose cuda "
                "or cuda:0, cuda:1, ..."
            )
        gpu = _gpu_of_fod(plan, wanted)
        if gpu is None:
            gpu = devices.choose_gpus("cuda" if wanted == "auto" else wanted)[0]
        return cuda.track_on_device(plan, execution, gpu=gpu)


def warm_up(plan: Plan, heartbeat: Callable[[], object]) -> None:
    """Load or compile what tracks a plan, on the CPU and, where one can be used, on a GPU."""
    kernels.make_ready(plan.on_host(), heartbeat)
    try:
        (gpu,) = devices.choose_gpus("cuda")
        cuda.warm_up(gpu, plan)
        measuring.started_gpus.add(gpu)
    except BackendError as error:
        logger.debug("%s", error)


def _wanted(execution: Execution) -> str:
    """Return the name of the backend, by the environment or else by the execution."""
    named = execution.backend if isinstance(execution.backend, str) else "auto"
    return os.environ.get(VARIABLE, "") or named


@contextlib.contextmanager
def _variable_named(execution: Execution) -> Iterator[None]:
    """Name the environment's variable in errors about a backend that it decided."""
    try:
        yield
    except BackendError as error:
        if type(error) is not BackendError or _wanted(execution) == execution.backend:
            raise
        said = str(error).replace(REMEDY, f"set {VARIABLE}=cpu")
        said = said.replace("backend = ", f"{VARIABLE} = ")
        raise BackendError(said) from error.__cause__


def _choose(wanted: str, plan: Plan, n_threads: int) -> Choice:
    if wanted == "cpu":
        return Choice()
    if plan.table.kernel == BLOCKS:
        return Choice(automatic=wanted == "auto", reason=IN_BLOCKS)
    home = _gpu_of_fod(plan, wanted)
    if home is not None:
        return Choice((home,), reason="the FOD lies on it")
    if wanted.startswith("cuda"):
        return Choice(devices.choose_gpus(wanted))
    if wanted != "auto":
        raise BackendError(f"backend = {wanted!r} is unknown; choose one of {NAMES}.")
    return _choose_by_costs(plan, n_threads)


def _choose_by_costs(plan: Plan, n_threads: int) -> Choice:
    model = measuring.performance
    cpu_cost = model.get(measuring.cost_key(plan, (), n_threads))
    work = costs.Work(plan.n_seeds, float(plan.settings.step))
    enough = costs.cpu_is_enough(work, cpu_cost)
    if enough and not measuring.started_gpus:  # without so much as importing CuPy
        return Choice(automatic=True, reason=enough)
    try:
        gpus = devices.choose_gpus("cuda")
    except BackendError as error:
        return Choice(automatic=True, reason=str(error))
    work = replace(
        work,
        n_bytes=0 if cuda.is_uploaded(gpus[0], plan) else plan.table.values.nbytes,
        started=gpus[0] in measuring.started_gpus,
    )
    gpu_cost = model.get(measuring.cost_key(plan, gpus, n_threads))
    gpu_is_faster, reason = costs.decide(work, cpu_cost, gpu_cost)
    return Choice(gpus if gpu_is_faster else (), automatic=True, reason=reason)


def _gpu_of_fod(plan: Plan, wanted: str) -> int | None:
    """Return the GPU that the tables lie on, where the name of the backend leaves it open."""
    return gpu_of(plan.table.anchor) if wanted in ("auto", "cuda") else None
