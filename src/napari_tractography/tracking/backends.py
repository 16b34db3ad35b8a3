"""Which backend tracks a run, and why; called by :mod:`napari_tractography.tracking.engine`."""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..arrays import gpu_of
from ..errors import BackendError
from ..tractogram import Tractogram
from . import costs, devices
from .costs import Cost, PerformanceModel, Work
from .cpu import run as cpu
from .cuda import run as cuda
from .inputs import Execution
from .tables.tables import cpu_count

if TYPE_CHECKING:
    from .plan import Plan

logger = logging.getLogger(__name__)

VARIABLE = "NAPARI_TRACTOGRAPHY_BACKEND"
NAMES = "auto, cpu, cuda, cuda:0, cuda:1, ..., cuda:all"
MEASURED_SECONDS = 0.05  # shorter runs measure nothing
MEASURED_BYTES = 1e6
TIMED = ("start", "upload", "tracking", "download")
ONCE = ("tables", "start")  # what the next run need not do again
book = PerformanceModel()
PART_SHOWN = 0.2  # share of a run
_started: set[int] = set()  # GPUs used in this process


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend.

    Attributes
    ----------
    gpus : tuple of int
        Empty for the CPU.
    free : bool
        Whether the choice was ours, so that another backend may step in.
    reason : str
        Why, for the log.
    """

    gpus: tuple[int, ...] = ()
    free: bool = False
    reason: str = "asked for"

    @property
    def name(self) -> str:
        """What it is called: "cpu", "cuda:0", "cuda:0 + cuda:1"."""
        return " + ".join(f"cuda:{gpu}" for gpu in self.gpus) or "cpu"


@dataclass(slots=True)
class Report:
    """What a run tells of itself; filled while it goes on, complete at its end.

    Attributes
    ----------
    backend, reason : str
        What tracks, such as "cpu" or "cuda:0", and why.
    seconds : dict of str to float
        Where the time went: "tables" and "tracking"; on the CPU "start", where code had to be
        compiled or loaded; on a GPU also "upload" and "download". What runs side by side is counted
        in each. "tracking" leaves out what a run waits for whoever takes its chunks.
    held_bytes : int
        What CuPy's pools hold of the GPUs in the end: tables, and what the caller has there.
    """

    backend: str = ""
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    held_bytes: int = 0

    def speed(self, n_steps: float, seconds: float) -> str:
        """Say how long a run took, and how fast it was besides what is not tracking.

        Parameters
        ----------
        n_steps : float
        seconds : float
            Of the whole run.
        """
        once = min(sum(self.seconds.get(what, 0.0) for what in ONCE), seconds)
        tracking = self.seconds.get("tracking", seconds - once)
        rate = f"{n_steps / max(tracking, 1e-9) / 1e6:.2f} million steps/s"
        parts = []
        if once >= PART_SHOWN * seconds:
            parts.append(f"{once:.2f} s to get ready")
        if seconds - tracking >= PART_SHOWN * seconds:
            parts.append(f"{tracking:.2f} s to track")
        if parts:
            return f"{seconds:.2f} s, of which {' and '.join(parts)}: {rate}"
        return f"{seconds:.2f} s, {rate}"


def may_take_a_gpu(backend: str) -> bool:
    """Tell whether a run by this backend can be one on a GPU."""
    return (os.environ.get(VARIABLE, "") or backend) != "cpu"


def choose(plan: Plan, execution: Execution) -> Choice:
    """Return the backend that a name, the environment or the costs stand for.

    Raises
    ------
    BackendError
        When there is no such backend here.
    """
    forced = os.environ.get(VARIABLE, "")
    choice = _choose(forced or execution.backend, plan, execution.n_threads or cpu_count())
    if forced and forced != execution.backend:
        choice = Choice(choice.gpus, choice.free, f"{VARIABLE}={forced}: {choice.reason}")
    logger.info("backend %s: %s", choice.name, choice.reason)
    return choice


def _choose(backend: str, plan: Plan, n_threads: int) -> Choice:
    if backend == "cpu":
        return Choice()
    home = gpu_of(plan.table.quantised)
    if backend in ("auto", "cuda") and home is not None:
        return Choice((home,), reason="the FOD lies on it")
    if backend.startswith("cuda"):
        return Choice(devices.choose_gpus(backend))
    if backend != "auto":
        raise BackendError(f"backend = {backend!r} is unknown; choose one of {NAMES}.")
    cpu_cost = book.get(_key((), plan, n_threads))
    work = Work(plan.n_seeds, float(plan.settings.step))
    enough = costs.cpu_is_enough(work, cpu_cost)
    if enough:  # without so much as importing CuPy
        return Choice(free=True, reason=enough)
    try:
        gpus = devices.choose_gpus("cuda")
    except BackendError as error:
        return Choice(free=True, reason=str(error))
    work = Work(
        plan.n_seeds,
        float(plan.settings.step),
        n_bytes=0 if cuda.is_uploaded(gpus[0], plan) else plan.table.n_bytes,
        started=gpus[0] in _started,
    )
    take, reason = costs.decide(work, cpu_cost, book.get(_key(gpus, plan, n_threads)))
    return Choice(gpus if take else (), True, reason)


def iter_chunks(
    choice: Choice, plan: Plan, execution: Execution, *, report: Report | None = None
) -> Generator[Tractogram, None, None]:
    """Track by the chosen backend; measure what it costs.

    A GPU that was not asked for by name and fails before the first chunk gives way to the CPU.
    """
    report = Report() if report is None else report
    n_threads = execution.n_threads or cpu_count()
    report.backend, report.reason = choice.name, choice.reason
    spent: dict[str, float] = {}
    try:
        if choice.gpus:
            chunks = cuda.iter_chunks(
                plan,
                gpus=choice.gpus,
                block=execution.block,
                memory_limit=execution.memory_limit,
                threads_a_block=execution.threads_a_block,
                spent=spent,
            )
            try:
                yield from _measured(chunks, choice, plan, spent, n_threads)
                return
            except _NothingYetError as failure:
                if not choice.free:
                    raise failure.error from failure.error.__cause__
                logger.warning("%s Tracking on the CPU instead.", failure.error)
                choice = Choice()
                report.backend, report.reason = choice.name, str(failure.error)
                spent.clear()
        begun = time.perf_counter()
        plan = plan.on_host()
        if cpu.make_ready(plan):
            spent["start"] = time.perf_counter() - begun
        chunks = cpu.iter_chunks(plan, n_threads=n_threads, block=execution.block, spent=spent)
        yield from _measured(chunks, choice, plan, spent, n_threads)
    finally:
        report.seconds |= {what: spent[what] for what in TIMED if what in spent}
        report.held_bytes = int(spent.get("held_bytes", 0))


def track_on_device(plan: Plan, execution: Execution) -> cuda.DeviceTractogram:
    """Track on one GPU and leave the streamlines there.

    Raises
    ------
    BackendError
        When there is no GPU, or what is asked for is none, or several.
    """
    backend = os.environ.get(VARIABLE, "") or execution.backend
    if backend == "cpu" or backend == "cuda:all":
        raise BackendError(
            f"backend = {backend!r} has no arrays on one device; with device_arrays choose cuda or "
            "cuda:0, cuda:1, ..."
        )
    home = gpu_of(plan.table.quantised)
    if backend in ("auto", "cuda") and home is not None:
        gpu = home
    else:
        gpu = devices.choose_gpus("cuda" if backend == "auto" else backend)[0]
    return cuda.track_on_device(
        plan,
        gpu=gpu,
        memory_limit=execution.memory_limit,
        threads_a_block=execution.threads_a_block,
    )


def warm_up(plan: Plan) -> None:
    """Load or compile what tracks a plan, on the CPU and, where there is one, on a GPU."""
    cpu.make_ready(plan.on_host())
    settings = plan.settings
    try:
        (gpu,) = devices.choose_gpus("cuda")
        cuda.warm_up(gpu, settings.algorithm, settings.interpolation, settings.evaluation)
        _started.add(gpu)
    except BackendError as error:
        logger.debug("%s", error)


class _NothingYetError(Exception):
    """A backend failed before its first chunk."""

    def __init__(self, error: BackendError) -> None:
        super().__init__(str(error))
        self.error = error


def _measured(
    chunks: Generator[Tractogram, None, None],
    choice: Choice,
    plan: Plan,
    spent: dict[str, float],
    n_threads: int,
) -> Generator[Tractogram, None, None]:
    """Hand the chunks on; note what they cost, but for the time that their taker takes."""
    seconds, first_seconds = 0.0, 0.0
    mm, first_mm = 0.0, 0.0
    n_chunks = n_seeds = 0
    cold = not set(choice.gpus) <= _started
    try:
        while True:
            begun = time.perf_counter()
            try:
                chunk = next(chunks)
            except StopIteration:
                break
            except BackendError as error:
                if n_chunks:
                    raise
                raise _NothingYetError(error) from error
            seconds += time.perf_counter() - begun
            n_chunks += 1
            n_seeds += chunk.n_seeds
            mm += float(chunk.lengths_mm.sum(dtype=float))
            if n_chunks == 1:
                first_seconds, first_mm = seconds, mm
                _started.update(choice.gpus)
            yield chunk
    finally:
        chunks.close()
    # The first chunk has the start in it, all others show the speed.
    work_mm, work_seconds = mm - first_mm, seconds - first_seconds
    if work_seconds < MEASURED_SECONDS or work_mm <= 0 or not n_seeds:
        return
    s_per_mm = work_seconds / work_mm
    upload_s, upload_bytes = spent.get("upload", 0.0), spent.get("upload_bytes", 0.0)
    start = max(0.0, first_seconds - first_mm * s_per_mm - upload_s)
    key = _key(choice.gpus, plan, n_threads)
    known = book.get(key)
    if upload_bytes < MEASURED_BYTES:
        upload_s_per_byte = known.upload_s_per_byte if known else 0.0
    else:
        upload_s_per_byte = upload_s / upload_bytes
    book.learn(
        key,
        Cost(
            start_s=start if cold or known is None else known.start_s,
            upload_s_per_byte=upload_s_per_byte,
            s_per_step=s_per_mm * float(plan.settings.step),
            mm_per_seed=mm / n_seeds,
        ),
    )
    if _started:  # the file is of use only where there is a choice
        book.save()


def _key(gpus: tuple[int, ...], plan: Plan, n_threads: int) -> str:
    """Return what a measurement holds for."""
    settings = plan.settings
    if gpus:
        device = " + ".join(devices.model(gpu) for gpu in gpus)
    else:
        device = f"{platform.node()} {platform.machine()} x {n_threads}"
    kind = f"{settings.algorithm}{settings.interpolation}{settings.evaluation}"
    return f"{device}, {kind}, {'ends' if settings.endpoints else 'lines'}"
