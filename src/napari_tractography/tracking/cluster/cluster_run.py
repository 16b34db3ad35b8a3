"""The tasks of one run on a cluster, made by :mod:`.cluster`."""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from ...errors import BackendError
from ...streamlines.tractogram import Tractogram
from ..execution import Execution
from ..plan import Plan
from .connection import HEARTBEAT_S, RUNNING, Connection, DisconnectedError
from .exchange import Exchange, FiledTractogram, NotThereError
from .shared_plan import SharedPlan
from .sizing import TaskSizing
from .work import Done, track_range

logger = logging.getLogger(__name__)

AHEAD = 3  # tasks of each thread that wait or are being tracked
RETRIES = 3  # of a task that fails, and of a run whose workers are all lost


@dataclass(slots=True)
class _Task:
    """Seeds `first` to `last`, not included, and the future of what is made of them."""

    first: int
    last: int
    future: Any = None


class ClusterRun:
    """The tasks of one run of a plan on the host.

    `execution` is that of a task, of which `block` are the seeds; workers make of the streamlines
    what a function returns, if there is one, and what is better not sent goes through an exchange.
    """

    def __init__(
        self,
        connection: Connection,
        plan: Plan,
        execution: Execution,
        function: Callable[[Tractogram], Any] | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        self.connection, self.client = connection, connection.client
        self.plan = plan
        self.function = function
        self.execution = replace(execution, n_threads=execution.n_threads or 1, block=None)
        self.exchange = exchange
        self.sizing = TaskSizing(plan.n_seeds, execution.block)
        self.tasks: deque[_Task] = deque()
        self.shared = SharedPlan.of(plan, exchange)
        self.on_workers: Any = None  # the future of `shared`
        self.turns: dict[str, int] = {}  # of workers, by address
        self._name = f"tractography-{secrets.token_hex(6)}"
        self._numbers = itertools.count()
        self._folder = ""  # for points, while the run is under way

    def results(self) -> Generator[Done | None, None, None]:
        """Yield results in seed order, and None after each heartbeat without one.

        Closing the generator cancels all tasks. Raises LostClusterError when the scheduler is lost
        and does not come back; BackendError when workers are lost again and again, or what one
        wrote cannot be read.
        """
        with contextlib.ExitStack() as folders:
            if self.exchange is not None:
                self._folder = folders.enter_context(self.exchange.for_a_run())
            folders.callback(self._cancel)  # before the folder is deleted
            yield from self._results()

    def _results(self) -> Generator[Done | None, None, None]:
        from distributed import CancelledError

        yield from self._share()
        n_losses = 0
        while self.sizing.n_left or self.tasks:
            try:
                self._submit_more()
                if not self._is_ready(self.tasks[0]):
                    yield None
                    continue
                done: Done = self.tasks[0].future.result()
            except NotThereError as error:
                logger.warning("On a worker %s; what tracking needs is sent to all.", error)
                self.shared = SharedPlan.of(self.plan)
                yield from self._begin_again()
                continue
            except (CancelledError, DisconnectedError) as error:  # all that had the plan are lost
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
            if isinstance(done.result, FiledTractogram):
                done = replace(done, result=done.result.taken())
            yield done

    def _cancel(self) -> None:
        """Cancel all tasks and free what is on the workers; those under way end by themselves."""
        futures = [task.future for task in self.tasks if task.future is not None]
        futures += [] if self.on_workers is None else [self.on_workers]
        self.tasks.clear()
        self.on_workers = None
        if self.client.status == RUNNING:
            with contextlib.suppress(OSError):  # of a scheduler that goes meanwhile
                self.client.cancel(futures, force=True)

    def _share(self) -> Generator[None, None, None]:
        """Give the plan to every worker; yield None while there are none, or one ends amid it."""
        n_losses = 0
        while self.on_workers is None:
            yield from self.connection.reconnected()
            try:
                if self.connection.workers():
                    self.on_workers = self.client.scatter(self.shared, broadcast=True, hash=False)
                    self.turns = self.connection.turns()
                    return
            except (OSError, KeyError, DisconnectedError) as error:  # KeyError: a worker is gone
                n_losses += 1
                if n_losses > RETRIES:
                    raise BackendError(
                        "The cluster lost workers again and again while the FOD was sent to them; "
                        "see their logs."
                    ) from error
            yield None
            time.sleep(HEARTBEAT_S)

    def _submit_more(self) -> None:
        """Submit tasks until each thread of the workers has enough."""
        workers = self.connection.workers()
        if workers.keys() != self.turns.keys():
            self.turns = self.connection.turns()
        n_threads = max(sum(workers.values()), 1)
        while self.sizing.n_left and len(self.tasks) < AHEAD * n_threads:
            task = _Task(*self.sizing.take(n_threads))
            self.tasks.append(task)
            self._submit(task)

    def _submit(self, task: _Task) -> None:
        key = f"{self._name}-{next(self._numbers)}"
        seeds = slice(task.first, task.last)
        task.future = self.client.submit(
            track_range,
            self.on_workers,
            self.plan.positions_mm[seeds],
            self.plan.seed_directions[seeds],
            self.plan.first_stream + task.first,
            self.execution,
            self.function,
            streams=self.plan.streams[seeds],
            task_key=key,
            folder=self._folder,
            turns=self.turns,
            key=key,
            pure=False,
            retries=RETRIES,
        )

    def _is_ready(self, task: _Task) -> bool:
        from distributed import wait

        try:
            with self.client.as_current():
                wait(task.future, timeout=HEARTBEAT_S)
        except TimeoutError:
            return False
        return True

    def _begin_again(self) -> Generator[None, None, None]:
        """Submit all tasks whose results have not arrived once more."""
        tasks = list(self.tasks)
        self._cancel()
        yield from self._share()
        for task in tasks:
            self._submit(task)
        self.tasks.extend(tasks)
