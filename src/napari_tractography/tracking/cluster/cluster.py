"""A cluster as a place to track: seed ranges as tasks of Dask, results in seed order.

A :class:`Cluster` is given as `backend`; :mod:`napari_tractography.tracking.backends` calls it as
it does the CPU and CUDA. What a worker does is in :mod:`.work`. Dask's `distributed` is imported
on use.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, Unpack

from ...errors import BackendError, InvalidParameterError
from ...fod import Fod
from ...parameters import TrackingParameters
from ...seeds import Seeds
from ...tractogram import Tractogram
from ..engine import make_plan
from ..execution import Execution
from ..inputs import InputKeywords, TrackingInput
from ..plan import Plan
from ..report import WAITING, Report
from .shared_plan import SharedPlan
from .sizing import TaskSizing
from .versions import differing_versions, installed_versions
from .work import Done, track_range

logger = logging.getLogger(__name__)

HEARTBEAT_S = 0.25  # after which, without a result, whoever receives may cancel
AHEAD = 3  # tasks of each thread that wait or are being tracked
RETRIES = 3  # of a task that fails, and of a run whose workers are all lost


@dataclass(slots=True)
class _Task:
    """Seeds `first` to `last`, not included, and the future of what is made of them."""

    first: int
    last: int
    future: Any = None


class Cluster:
    """Workers of Dask as a backend; made by :func:`.connecting.cluster`, closed by ``with``.

    Parameters
    ----------
    client : distributed.Client
        Connected.
    worker_backend : str
        What each worker tracks on, as `backend` of
        :class:`~napari_tractography.tracking.execution.Execution`.
    """

    def __init__(self, client: Any, worker_backend: str = "auto") -> None:
        self.client = client
        self.worker_backend = worker_backend
        self._opened = contextlib.ExitStack()
        self._versions = installed_versions()
        self._checked: set[str] = set()  # workers whose versions were compared

    def closing(self, other: Any) -> None:
        """Close something else, such as a local cluster, when this is closed."""
        self._opened.callback(other.close)

    def close(self) -> None:
        """Let go of the scheduler, and end what was started for this."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """What it is called in reports, such as "cluster of 3 workers"."""
        n = self.n_workers
        return f"cluster of {n} worker{'s' * (n != 1)}"

    def __repr__(self) -> str:
        return f"Cluster({self.client.scheduler.address!r})"

    # -- tracking ------------------------------------------------------------------------------

    def iter_chunks(
        self, plan: Plan, execution: Execution, report: Report
    ) -> Generator[Tractogram, None, None]:
        """Track the seeds of a plan; yield chunks in seed order.

        Parameters
        ----------
        plan : Plan
            On the host.
        execution : Execution
            Of which `block` are the seeds of a task, and `n_threads` the CPU threads of one, by
            default 1: a worker runs as many at once as Dask gives it threads.
        report : Report
            Filled.

        Yields
        ------
        Tractogram
            Empty ones of no seeds while nothing is ready. Closing the generator cancels all tasks.

        Raises
        ------
        BackendError
            When the scheduler or too many workers are lost, in one sentence.
        """
        with contextlib.closing(self._results(plan, execution, report)) as results:
            for done in results:
                yield Tractogram.empty() if done is None else done.made

    def apply(
        self,
        function: Callable[[Tractogram], Any],
        fod: Fod,
        seeds: Seeds,
        parameters: TrackingParameters | None = None,
        *,
        execution: Execution | None = None,
        report: Report | None = None,
        **given: Unpack[InputKeywords],
    ) -> Iterator[Any]:
        """Track, and yield what a function makes of each chunk; streamlines stay on the workers.

        Densities and connectomes of chunks add up, and a function that writes a file to a folder
        that all workers see writes its part of the whole.

        Parameters
        ----------
        function : callable
            Takes a Tractogram; anything that Dask can send, such as a function of a module or
            ``functools.partial(nt.density, grid=fod.grid)``.
        fod, seeds, parameters, **given
            As in :func:`~napari_tractography.tracking.engine.iter_track`, without `select`, which
            has to see the streamlines.
        execution : Execution, optional
            Of which `block` is how many seeds make a chunk.
        report : Report, optional
            Filled.

        Yields
        ------
        object
            In seed order.
        """
        what = TrackingInput(fod, seeds, parameters or TrackingParameters(), **given)
        if what.select is not None:
            raise InvalidParameterError(
                "select counts streamlines in seed order, which stay on the workers here; give as "
                "many seeds as that takes."
            )
        how = replace(execution or Execution(), backend="auto")
        filled = Report() if report is None else report
        results = self._results(make_plan(what), how, filled, function)
        return self._made(results, filled)

    @staticmethod
    def _made(results: Generator[Done | None, None, None], report: Report) -> Iterator[Any]:
        with contextlib.closing(results):
            for done in results:
                if done is not None:
                    report.n_seeds += done.n_seeds
                    report.n_streamlines += done.n_streamlines
                    yield done.made

    def _results(
        self,
        plan: Plan,
        execution: Execution,
        report: Report,
        function: Callable[[Tractogram], Any] | None = None,
    ) -> Generator[Done | None, None, None]:
        """Yield what is made of ranges of seeds, in seed order; None now and then meanwhile."""
        report.begin(self.name, "asked for")
        with self._explained():
            while not self.n_workers:
                report.phase = WAITING
                yield None
                time.sleep(HEARTBEAT_S)
            report.phase = ""
            self._compare_versions()
            report.begin(self.name, f"asked for, {self.n_threads} threads")
            run = _Run(self, plan, execution, function)
            try:
                for done in run.results():
                    if done is not None:
                        busy = report.seconds.get("tracking", 0.0) + done.seconds / self.n_threads
                        report.seconds["tracking"] = busy
                        report.backend = f"{self.name} ({done.backend})"
                    yield done
            finally:
                run.cancel()

    # -- workers -------------------------------------------------------------------------------

    @property
    def n_workers(self) -> int:
        """Workers that there are now."""
        return len(self._workers())

    @property
    def n_threads(self) -> int:
        """Tasks that run at once, 1 at least."""
        return max(sum(self._workers().values()), 1)

    def _workers(self) -> dict[str, int]:
        """Return the threads of each worker, by address."""
        found: dict[str, int] = self.client.nthreads()
        return found

    def _compare_versions(self) -> None:
        """Warn once of workers that have other versions than this process."""
        new = [address for address in self._workers() if address not in self._checked]
        if not new:
            return
        try:
            there = self.client.run(installed_versions, workers=new)
        except ImportError as error:
            raise BackendError(
                f"Workers cannot track ({error}); install the same napari-tractography there."
            ) from error
        self._checked.update(new)
        differing = differing_versions(self._versions, there)
        if differing:
            logger.warning(
                "Versions on the cluster differ (%s): streamlines may, too; install the same.",
                differing,
            )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what Dask raises when it loses its machines into one sentence."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise BackendError(
                f"A task ended {RETRIES + 1} workers one after the other, as where memory is "
                "short; give workers more of it, or track fewer seeds at a time (block)."
            ) from error
        except (CommClosedError, TimeoutError) as error:
            raise BackendError(
                f"The cluster's scheduler was lost ({error}); start it again and connect anew."
            ) from error


class _Run:
    """The tasks of one run.

    Parameters
    ----------
    cluster : Cluster
    plan : Plan
    execution : Execution
    function : callable or None
        What workers make of the streamlines.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        execution: Execution,
        function: Callable[[Tractogram], Any] | None,
    ) -> None:
        self.cluster = cluster
        self.plan = plan
        self.function = function
        self.execution = replace(
            execution,
            backend=cluster.worker_backend,
            n_threads=execution.n_threads or 1,
            block=None,
        )
        self.sizing = TaskSizing(plan.n_seeds, execution.block)
        self.tasks: deque[_Task] = deque()
        self.shared = SharedPlan.of(plan)
        self.on_workers: Any = None  # the future of `shared`
        self._name = f"tractography-{secrets.token_hex(6)}"
        self._numbers = itertools.count()

    def results(self) -> Generator[Done | None, None, None]:
        """Yield results in seed order, and None after each heartbeat without one."""
        from distributed import CancelledError

        yield from self._share()
        n_losses = 0
        while self.sizing.n_left or self.tasks:
            n_threads = self.cluster.n_threads
            while self.sizing.n_left and len(self.tasks) < AHEAD * n_threads:
                task = _Task(*self.sizing.take(n_threads))
                self._submit(task)
                self.tasks.append(task)
            try:
                if not self._is_ready(self.tasks[0]):
                    yield None
                    continue
                done: Done = self.tasks[0].future.result()
            except CancelledError as error:  # as where every worker that had the plan is lost
                n_losses += 1
                if n_losses > RETRIES:
                    raise BackendError(
                        "The cluster lost its workers again and again; see their logs."
                    ) from error
                yield from self._begin_again()
                continue
            n_losses = 0
            self.tasks.popleft()
            self.sizing.learn(done)
            yield done

    def cancel(self) -> None:
        """Cancel all tasks and free what is on the workers; those under way end by themselves."""
        futures = [task.future for task in self.tasks if task.future is not None]
        futures += [] if self.on_workers is None else [self.on_workers]
        self.tasks.clear()
        self.on_workers = None
        with contextlib.suppress(OSError, TimeoutError):  # of a scheduler that is gone
            self.cluster.client.cancel(futures, force=True)

    def _share(self) -> Generator[None, None, None]:
        """Give the plan to every worker; yield None while there are none, or one ends amid it."""
        n_losses = 0
        while self.on_workers is None:
            try:
                if self.cluster.n_workers:
                    self.on_workers = self.cluster.client.scatter(
                        self.shared, broadcast=True, hash=False
                    )
                    return
            except (OSError, TimeoutError):
                n_losses += 1
                if n_losses > RETRIES:
                    raise
            yield None
            time.sleep(HEARTBEAT_S)

    def _submit(self, task: _Task) -> None:
        key = f"{self._name}-{next(self._numbers)}"
        seeds = slice(task.first, task.last)
        task.future = self.cluster.client.submit(
            track_range,
            self.on_workers,
            self.plan.positions_mm[seeds],
            self.plan.given[seeds],
            self.plan.first_stream + task.first,
            self.execution,
            self.function,
            task_key=key,
            key=key,
            pure=False,
            retries=RETRIES,
        )

    def _is_ready(self, task: _Task) -> bool:
        from distributed import wait

        try:
            with self.cluster.client.as_current():
                wait(task.future, timeout=HEARTBEAT_S)
        except TimeoutError:
            return False
        return True

    def _begin_again(self) -> Generator[None, None, None]:
        """Submit all tasks whose results have not arrived once more."""
        tasks = list(self.tasks)
        self.cancel()
        yield from self._share()
        for task in tasks:
            self._submit(task)
        self.tasks.extend(tasks)
