"""Kernels of the CPU that are not compiled yet, compiled in a process of their own.

That takes half a minute, once for each kind of run on a machine. Done in this process it would hold
up the window, since Numba compiles in Python; so another process does it and leaves the machine
code in Numba's cache, from where this one loads it. Meanwhile :mod:`.wasm` tracks. One kernel is
compiled at a time, since each takes as long again beside another: what somebody waits for first,
then what was asked for last. Used by :mod:`.backends` and, for previews, by the plugin.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from numba import config

from ..errors import BackendError
from ..model.algorithms import BY_CODE
from ..runtime.processes import GIVEN_UP, run_once_in_a_process
from .codes import NEAREST
from .cpu import cpu_backend as cpu
from .plan import Plan
from .wasm import wasm_backend

logger = logging.getLogger(__name__)

# Whether kernels are compiled so; else they are when they are first needed, and waited for.
in_a_process = True

# Numba makes millions of objects, among which Python would look for garbage over and over, and
# colours messages of errors that nobody sees: together a sixth of the time.
COMMAND = """
import gc, os
gc.set_threshold(200_000, 20, 100)
os.environ["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"
from napari_tractography.tracking.engine import compile_kernel
compile_kernel(
    {algorithm!r}, {interpolation!r}, lmax={lmax}, kernel={kernel!r}, is_asymmetric={is_asymmetric}
)
"""
WAIT_SECONDS = 0.1  # between two questions to a waiting caller whether the kernel is still wanted
THREAD_NAME = "tractography-compiling"


def check_can_compile() -> None:
    """Raise BackendError where Numba is told to compile nothing."""
    if config.DISABLE_JIT:
        raise BackendError(
            "NUMBA_DISABLE_JIT is set, and what tracks on the CPU has to be compiled; unset it."
        )


def is_missing(plan: Plan) -> bool:
    """Tell whether the kernel of a plan is yet to be compiled in a process of its own."""
    return in_a_process and not cpu.is_loaded(plan) and not cpu.is_on_disk(plan)


def stands_in(plan: Plan) -> bool:
    """Tell whether WebAssembly is to track a plan, because its kernel is missing."""
    return is_missing(plan) and wasm_backend.can_track(plan)


def is_at_work() -> bool:
    """Tell whether kernels are being compiled, so that what is less urgent is to wait."""
    return _queue.has_jobs


def begin(plan: Plan) -> threading.Event:
    """Ask for the kernel of a plan to be compiled, before what was asked for until now.

    Returns at once; the event is set when the kernel is loaded, or could not be.
    """
    return _queue.ask(_command_of(plan), plan)


def make_ready(plan: Plan, heartbeat: Callable[[], object] = lambda: None) -> bool:
    """Compile or load the kernel of a plan; return whether that was needed.

    Kernels that :func:`until_compiled` waits for are compiled before it. `heartbeat` is called now
    and then while it waits; an exception that it raises ends the wait, not the compiling.
    """
    was_missing = is_missing(plan)
    if was_missing:
        ended = begin(plan)
        while not ended.wait(WAIT_SECONDS):
            heartbeat()
    return cpu.make_ready(plan) or was_missing


def until_compiled(plan: Plan) -> Iterator[None]:
    """Compile the kernel of a plan if it is missing, and wait; yield now and then meanwhile.

    Whoever waits can give up then: it takes a minute.
    """
    if is_missing(plan):
        ended = begin(plan)
        with _queue.awaited(_command_of(plan)):
            while not ended.wait(WAIT_SECONDS):
                yield


def _command_of(plan: Plan) -> str:
    return COMMAND.format(
        algorithm=BY_CODE[plan.settings.algorithm].name,
        interpolation="nearest" if plan.settings.interpolation == NEAREST else "trilinear",
        lmax=plan.table.lmax,
        kernel=plan.table.kernel,
        is_asymmetric=plan.table.is_asymmetric,
    )


@dataclass(slots=True, eq=False)
class _Job:
    """A kernel that is to be compiled; `asked` rises from one that was asked for to the next."""

    command: str
    plan: Plan
    asked: int = 0
    ended: threading.Event = field(default_factory=threading.Event)


class _Queue:
    """Kernels to compile, one at a time, in a thread that ends when there are none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}  # by command
        self._awaited: Counter[str] = Counter()  # how many wait, by command
        self._numbers = itertools.count()
        self._has_thread = False

    @property
    def has_jobs(self) -> bool:
        """Whether there are kernels to compile."""
        return bool(self._jobs)

    def ask(self, command: str, plan: Plan) -> threading.Event:
        """Ask for a kernel; see :func:`begin`."""
        with self._lock:
            job = self._jobs.get(command) or _Job(command, plan)
            job.asked = next(self._numbers)
            if command not in self._jobs and cpu.is_loaded(plan):
                job.ended.set()
                return job.ended
            self._jobs[command] = job
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._work, name=THREAD_NAME, daemon=True).start()
        return job.ended

    @contextlib.contextmanager
    def awaited(self, command: str) -> Iterator[None]:
        """Have a kernel compiled first, meanwhile: somebody can do nothing without it."""
        with self._lock:
            self._awaited[command] += 1
        try:
            yield
        finally:
            with self._lock:
                self._awaited[command] -= 1

    def _first(self) -> _Job:
        jobs = self._jobs.values()
        return max(jobs, key=lambda job: (self._awaited[job.command] > 0, job.asked))

    def _goes_on(self, job: _Job) -> bool:
        """Tell whether a job keeps its turn; what is awaited does to its end."""
        with self._lock:
            return self._awaited[job.command] > 0 or self._first() is job

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._has_thread = False
                    return
                job = self._first()
            is_done = True
            try:
                is_done = _compile(job.command, job.plan, partial(self._goes_on, job))
            except Exception:  # raised again when that kernel tracks
                logger.exception("Compiling a kernel failed")
            if is_done:
                with self._lock:
                    del self._jobs[job.command]
                job.ended.set()


_queue = _Queue()


def _compile(command: str, plan: Plan, goes_on: Callable[[], bool]) -> bool:
    """Compile and load a kernel; return False where another had to go first."""
    problem = run_once_in_a_process(command, lambda: not cpu.is_on_disk(plan), goes_on)
    if problem == GIVEN_UP:
        return False
    if problem:
        logger.warning("Compiling in a process of its own failed (%s): compiling here.", problem)
    cpu.make_ready(plan)  # loads it; where the process has failed it is compiled here
    wasm_backend.forget()
    return True
