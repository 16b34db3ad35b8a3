"""The scheduler ends in the middle of a run: a sentence, and what was tracked stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import napari_tractography as nt
from napari_tractography.errors import LostClusterError, UnfinishedError
from napari_tractography.streaming import save_chunks
from napari_tractography.tracking.cluster.cluster import Cluster

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
START_S = 60
LOST = r"The cluster's scheduler at tcp://.* was lost; start it again and connect anew\."


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(10 * START_S):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[Cluster, int]]:
    """A cluster whose scheduler and one worker are processes of their own; the scheduler's pid."""
    file = tmp_path / "scheduler.json"
    processes: list[subprocess.Popen[bytes]] = []

    def start(module: str, *words: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(file)]
        nowhere = subprocess.DEVNULL
        processes.append(subprocess.Popen([*command, *words], stdout=nowhere, stderr=nowhere))

    try:
        start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        wait_until(file.exists)
        start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")
        with nt.cluster(json.loads(file.read_text())["address"], timeout_s=START_S) as made:
            wait_until(lambda: made.n_workers == 1)
            made.client._timeout = 1.0  # in which Dask's client is to be connected again
            yield made, processes[0].pid
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_lost_scheduler_ends_in_a_sentence(
    alone: tuple[Cluster, int],
    number: int,
    fod: Any,
    seeds: Any,
    here: nt.Tractogram,
    parameters: Any,
    tmp_path: Path,
) -> None:
    cluster, scheduler = alone

    def chunks() -> Iterator[nt.Tractogram]:
        n_made = 0
        for chunk in nt.iter_track(fod, seeds, parameters, backend=cluster, block=20):
            yield chunk
            n_made += len(chunk) > 0
            if n_made == 3:
                os.kill(scheduler, number)

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
