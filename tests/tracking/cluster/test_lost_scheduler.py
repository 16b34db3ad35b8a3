"""The scheduler ends in the middle of a run: a sentence, and what was tracked stays."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import napari_tractography as nt
from napari_tractography.errors import LostClusterError, UnfinishedError
from napari_tractography.streamlines.streaming import save_chunks
from napari_tractography.tracking.cluster import connection
from napari_tractography.tracking.cluster.cluster import Cluster

pytest.importorskip("distributed", reason="distributed is not installed")
pytestmark = [
    pytest.mark.slow,  # processes that are killed and waited for
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
START_S = 60
LOST = r"The cluster's scheduler at tcp://.* was lost; start it and connect again\."


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(10 * START_S):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")


class Processes:
    """A scheduler and one worker, each a process of its own.

    Attributes
    ----------
    address : str
        Of the scheduler.
    """

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        at = ["--host", "127.0.0.1", "--no-dashboard"]
        self._run("dask_scheduler", *at, "--port", str(self.port))
        alone = ["--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder)]
        self._run("dask_worker", self.address, *at, *alone)

    def _run(self, module: str, *words: str) -> None:
        nowhere = subprocess.DEVNULL
        command = [sys.executable, "-m", f"distributed.cli.{module}", *words]
        self._started.append(subprocess.Popen(command, stdout=nowhere, stderr=nowhere))

    def end_scheduler(self, number: int = signal.SIGKILL) -> None:
        self._started[-2].send_signal(number)
        self._started[-2].wait()  # its port is free again

    def stop_scheduler(self) -> None:
        """As where its machine hangs: it is connected, and says nothing."""
        self._started[-2].send_signal(signal.SIGSTOP)

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    made.start()
    yield made
    made.end()


@pytest.fixture
def cluster(processes: Processes) -> Iterator[Cluster]:
    with nt.cluster(processes.address, timeout_s=START_S) as made:
        wait_until(lambda: made.n_workers == 1)
        yield made


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_lost_scheduler_ends_in_a_sentence(
    processes: Processes,
    cluster: Cluster,
    number: int,
    fod: Any,
    seeds: Any,
    here: nt.Tractogram,
    parameters: Any,
    tmp_path: Path,
) -> None:
    cluster.client._timeout = 1.0  # in which Dask's client is to be connected again

    def chunks() -> Iterator[nt.Tractogram]:
        n_made = 0
        for chunk in nt.iter_track(fod, seeds, parameters, backend=cluster, block=20):
            yield chunk
            n_made += len(chunk) > 0
            if n_made == 3:
                processes.end_scheduler(number)

    with pytest.raises(UnfinishedError, match=LOST + " The [0-9]+ streamlines until") as raised:
        save_chunks(chunks(), tmp_path / "t.tck")
    assert isinstance(raised.value.__cause__, LostClusterError)
    assert "unfinished-t.tck" in str(raised.value)
    assert not (tmp_path / "t.tck").exists()
    kept = nt.load_tractogram(tmp_path / "unfinished-t.tck")
    assert 0 < len(kept) < len(here)
    assert kept.digest() == here[: len(kept)].digest()
    with pytest.raises(LostClusterError, match=LOST):  # and no other run begins
        nt.track(fod, seeds, parameters, backend=cluster)


def test_a_scheduler_that_hangs_ends_in_the_same_sentence(
    processes: Processes,
    cluster: Cluster,
    fod: Any,
    seeds: Any,
    here: nt.Tractogram,
    parameters: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked once: waiting for it again and again took five times as long."""
    asked: list[float] = []
    sync = cluster.client.sync

    def counted(*args: Any, callback_timeout: float | None = None, **keywords: Any) -> Any:
        asked.append(len(made))
        return sync(*args, callback_timeout=callback_timeout, **keywords)

    made: list[nt.Tractogram] = []

    def take_all() -> None:
        for chunk in nt.iter_track(fod, seeds, parameters, backend=cluster, block=20):
            made.extend([chunk] if len(chunk) else [])
            if len(made) == 3 and len(chunk):
                monkeypatch.setattr(connection, "ANSWER_S", 1.0)
                processes.stop_scheduler()
                monkeypatch.setattr(cluster.client, "sync", counted)

    with pytest.raises(LostClusterError, match=LOST):
        take_all()
    assert asked.count(len(made)) <= 3  # the one in vain, and those before it in that round
    assert nt.Tractogram.concatenate(made).digest() == here[: sum(map(len, made))].digest()
    with pytest.raises(LostClusterError, match=LOST):  # and no other run begins
        nt.track(fod, seeds, parameters, backend=cluster)


def test_a_scheduler_that_comes_back_loses_nothing(
    processes: Processes, cluster: Cluster, fod: Any, seeds: Any, here: Any, parameters: Any
) -> None:
    made = []
    for chunk in nt.iter_track(fod, seeds, parameters, backend=cluster, block=20):
        made.append(chunk)
        if sum(len(one) > 0 for one in made) == 3 and len(chunk):
            processes.end_scheduler()
            processes.start()
    assert nt.Tractogram.concatenate(made).digest() == here.digest()
