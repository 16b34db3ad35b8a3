"""From an address to a :class:`~.cluster.Cluster`; ``nt.cluster``."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

from ...errors import BackendError, FileError, InvalidParameterError
from ...files.paths import at_home
from ...runtime.extras import needs_extra
from ..devices import cpu_count
from . import local_worker
from .cluster import Cluster
from .cluster_run import AHEAD
from .exchange import folder_of_this_machine
from .sizing import TASK_BYTES

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 8.0


def cluster(
    where: Any,
    *,
    worker_backend: str = "auto",
    folder: str | os.PathLike[str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Cluster:
    """Connect to a cluster of Dask, or start one on this machine.

    Parameters
    ----------
    where : str, distributed.Client or a cluster of Dask's
        The address of a scheduler, "tcp://host:8786"; "local:4" for 4 processes on this machine; or
        what dask-jobqueue, dask-kubernetes and others make. Those are not closed in the end.
    worker_backend : str
        What each worker tracks on: "auto", "cpu", "cuda", ...
    folder : path-like, optional
        That this process and all workers see under one path, such as the scratch of a cluster. The
        FOD is written there, named by its SHA-256, for workers to open, and streamlines go through
        it; what a worker does not see there is sent. "local:N" has one of its own.
    timeout_s : float
        After which an unreachable scheduler counts as lost.

    Returns
    -------
    Cluster
        To be passed as `backend`, and to be closed, best by ``with``.

    Raises
    ------
    MissingPackageError
        When Dask's `distributed` is not installed.
    InvalidParameterError
        When `where` makes no sense.
    BackendError
        When no scheduler answers.
    FileError
        When the folder is not there.
    """
    seen = None if folder is None else _existing_folder(folder)
    with needs_extra("dask", "A cluster takes Dask's"):
        import distributed
    if isinstance(where, distributed.Client):
        return Cluster(where, worker_backend, seen)
    with contextlib.ExitStack() as opened:  # what is closed with the cluster, the last first
        started = None
        if isinstance(where, str) and (n_processes := _local_processes(where)):
            if seen is None:
                seen = folder_of_this_machine(2 * AHEAD * cpu_count() * TASK_BYTES)
                opened.callback(shutil.rmtree, seen, ignore_errors=True)
            started = distributed.LocalCluster(
                n_workers=n_processes,
                threads_per_worker=max(cpu_count() // n_processes, 1),
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",  # any free port
                silence_logs=logging.ERROR,
                preload=local_worker.__name__,
            )
            opened.callback(started.close)
        try:
            client = distributed.Client(started or where, timeout=timeout_s, set_as_default=False)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise BackendError(
                f"No scheduler of Dask answers at {where} ({error}); check the address and that it "
                "runs (dask scheduler), or give local:N."
            ) from error
        opened.callback(client.close)
        return Cluster(client, worker_backend, seen, opened.pop_all())


def _existing_folder(path: str | os.PathLike[str]) -> Path:
    """Return a folder that is there, whole. Raises FileError when it is not."""
    folder = at_home(path).absolute()
    if not folder.is_dir():
        raise FileError(f"folder = {str(path)!r} is no folder; create it first, for all workers.")
    return folder


def _local_processes(where: str) -> int:
    """Return how many processes "local:N" asks for, 0 where it is an address.

    Raises InvalidParameterError when it is neither.
    """
    match = re.fullmatch(r"local(?::(.*))?", where)
    if match is None:
        if ":" not in where:
            raise InvalidParameterError(
                f"cluster = {where!r} is no address; give tcp://HOST:8786, or local:4 for 4 "
                "processes on this machine."
            )
        return 0
    text = str(cpu_count()) if match[1] is None else match[1]
    if not text.isdecimal() or not int(text):
        raise InvalidParameterError(
            f"cluster = {where!r} asks for {text!r} processes; give a whole number from 1, as in "
            "local:4."
        )
    return int(text)
