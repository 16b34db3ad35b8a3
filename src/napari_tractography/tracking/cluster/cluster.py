"""Tracking on a cluster: seed ranges as tasks of Dask, results in seed order.

A :class:`Cluster` is passed as `backend`; :mod:`napari_tractography.tracking.backends` calls it as
it does the CPU and CUDA. The tasks of a run are in :mod:`.cluster_run`, what a worker does is in
:mod:`.work`. Dask's `distributed` is imported on use.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

from ...errors import BackendError, InvalidParameterError
from ...model.fod import Fod
from ...model.parameters import TrackingParameters
from ...model.seeds import Seeds
from ...streamlines.tractogram import Tractogram
from ..engine import log_warnings, make_plan
from ..execution import Execution
from ..inputs import InputKeywords, TrackingInput, suited
from ..plan import Plan
from ..report import WAITING, Report
from .cluster_run import RETRIES, ClusterRun
from .connection import HEARTBEAT_S, Connection, DisconnectedError
from .exchange import Exchange
from .versions import differing_versions, installed_versions
from .work import Done

logger = logging.getLogger(__name__)

WAIT_S = 0.01  # between two looks at which calls are done


class Cluster:
    """Workers of Dask as a backend; made by :func:`.connecting.cluster`, closed by ``with``.

    Parameters
    ----------
    client : distributed.Client
        Connected.
    worker_backend : str
        What each worker tracks on, as `backend` of
        :class:`~napari_tractography.tracking.execution.Execution`.
    folder : Path, optional
        That this process and the workers see under one path, see :mod:`.exchange`.
    opened : contextlib.ExitStack, optional
        What was started for it, and is closed with it.
    """

    def __init__(
        self,
        client: Any,
        worker_backend: str = "auto",
        folder: Path | None = None,
        opened: contextlib.ExitStack | None = None,
    ) -> None:
        self.client = client
        self.worker_backend = worker_backend
        self.exchange = None if folder is None else Exchange(folder)
        self._connection = Connection(client)
        self._opened = opened or contextlib.ExitStack()
        self._versions = installed_versions()
        self._checked: set[str] = set()  # workers whose versions were compared

    def close(self) -> None:
        """Let go of the scheduler, and end what was started for this."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """What it is called in reports, such as "cluster of 3 workers"."""
        return self._named(self.n_workers)

    @staticmethod
    def _named(n: int) -> str:
        return f"cluster of {n} worker{'s' * (n != 1)}"

    def __repr__(self) -> str:
        return f"Cluster({self.client.scheduler.address!r})"

    # -- tracking ------------------------------------------------------------------------------

    def iter_chunks(
        self, plan: Plan, execution: Execution, report: Report
    ) -> Generator[Tractogram, None, None]:
        """Track the seeds of a plan on the host; yield chunks in seed order, and fill the report.

        Of the execution `block` are the seeds of a task, and `n_threads` the CPU threads of one, by
        default 1: a worker runs as many at once as Dask gives it threads. Empty chunks of no seeds
        come while nothing is ready; closing the generator cancels all tasks. Raises BackendError
        when too many workers are lost; a LostClusterError when the scheduler is.
        """
        with contextlib.closing(self._results(plan, execution, report)) as results:
            for done in results:
                yield Tractogram.empty() if done is None else done.result

    def apply(
        self,
        function: Callable[[Tractogram], Any],
        fod: Fod,
        seeds: Seeds,
        parameters: TrackingParameters | None = None,
        *,
        execution: Execution | None = None,
        report: Report | None = None,
        **keywords: Unpack[InputKeywords],
    ) -> Iterator[Any]:
        """Track, and yield what a function makes of each chunk; streamlines stay on the workers.

        Densities and connectomes of chunks add up, and a function that writes a file to a folder
        that all workers see writes its part of the whole.

        Parameters
        ----------
        function : callable
            Takes a Tractogram; anything that Dask can send, such as a function of a module or
            ``functools.partial(nt.density, grid=fod.grid)``.
        fod, seeds, parameters, **keywords
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
        chosen = suited(fod, parameters, keywords.get("tissues"))
        inputs = TrackingInput(fod, seeds, chosen, **keywords)
        if inputs.select is not None:
            raise InvalidParameterError(
                "select counts streamlines in seed order, which stay on the workers here; give as "
                "many seeds as that takes."
            )
        how = replace(execution or Execution(), backend="auto")
        filled = Report() if report is None else report
        filled.clear()
        plan = make_plan(inputs)
        log_warnings(inputs)
        results = self._results(plan, how, filled, function)
        return self._made(results, filled)

    @staticmethod
    def _made(results: Generator[Done | None, None, None], report: Report) -> Iterator[Any]:
        with contextlib.closing(results):
            for done in results:
                if done is not None:
                    report.n_seeds += done.n_seeds
                    report.n_streamlines += done.n_streamlines
                    yield done.result

    def each(
        self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], shared: Any
    ) -> Generator[tuple[int, Any] | None, None, None]:
        """Call a function on the workers, and yield what it returns, as that comes.

        The function is of a module that workers have; `calls` are the first arguments of each call,
        `shared` the last of all. A call goes to the same worker as one of the same number before,
        while workers stay, where it finds what it kept. Yielded are the number of a call and what
        it returned, and None now and then meanwhile; closing the generator cancels what is not
        done. Raises BackendError when too many workers are lost; a LostClusterError when the
        scheduler is.
        """
        with self._explained():
            yield from self._until_there()
            self._compare_versions()
            addresses = sorted(self._connection.known)
            there = self.client.scatter(shared, broadcast=True, hash=False)
            futures = {
                self.client.submit(
                    function,
                    *call,
                    there,
                    pure=False,
                    retries=RETRIES,
                    workers=[addresses[number % len(addresses)]],
                    allow_other_workers=True,
                ): number
                for number, call in enumerate(calls)
            }
            try:
                yield from self._as_completed(futures)
            finally:
                with contextlib.suppress(OSError):  # of a scheduler that is gone
                    self.client.cancel([*futures, there], force=True)

    @staticmethod
    def _as_completed(futures: dict[Any, int]) -> Generator[tuple[int, Any] | None, None, None]:
        left = dict(futures)
        while left:
            done = [future for future in left if future.done()]
            for future in done:
                yield left.pop(future), future.result()
            if not done:
                yield None
                time.sleep(WAIT_S)

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
            report.phase = "" if self.n_workers else WAITING
            yield from self._until_there()
            report.phase = ""
            self._compare_versions()
            report.begin(self.name, f"asked for, {self.n_threads} threads")
            how = replace(execution, backend=self.worker_backend)
            run = ClusterRun(self._connection, plan, how, function, self.exchange)
            with contextlib.closing(run.results()) as results:
                for done in results:
                    if done is not None:
                        known = self._connection.known
                        busy = done.seconds / max(sum(known.values()), 1)
                        report.add("tracking", busy)
                        report.backend = f"{self._named(len(known))} ({done.backend})"
                    yield done

    def _until_there(self) -> Generator[None, None, None]:
        """Yield None now and then until there are workers."""
        while not self.n_workers:
            yield from self._connection.reconnected()
            yield None
            time.sleep(HEARTBEAT_S)

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
        """Return the threads of each worker, by address; none while it cannot be reached."""
        try:
            return self._connection.workers()
        except DisconnectedError:
            return {}

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
        except (CommClosedError, TimeoutError, DisconnectedError) as error:
            raise self._connection.lost() from error
