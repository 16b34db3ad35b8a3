"""Which GPU a worker takes, by the machine that it runs on; with stand-ins for Dask and CuPy."""

from __future__ import annotations

import sys
import types
from typing import Any

import fake_cupy
import pytest
from plans import plan_of

import napari_tractography as nt
from napari_tractography.errors import BackendError
from napari_tractography.tracking import backends, devices
from napari_tractography.tracking.cluster import cluster_run, work
from napari_tractography.tracking.cluster.connection import Connection
from napari_tractography.tracking.execution import Execution

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
WORKERS = {f"tcp://{host}:{port}": 1 for host in ("10.0.0.2", "10.0.0.1") for port in (40001, 7)}
TURNS = {
    "tcp://10.0.0.1:40001": 0,
    "tcp://10.0.0.1:7": 1,
    "tcp://10.0.0.2:40001": 0,
    "tcp://10.0.0.2:7": 1,
}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The worker that tasks run on, of a machine with two fake GPUs."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.Machine(None, n_gpus=2))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    made = types.SimpleNamespace(address="")
    monkeypatch.setattr(distributed, "get_worker", lambda: made)
    return made


def test_workers_of_a_machine_are_numbered() -> None:
    client = types.SimpleNamespace(
        status="running",
        scheduler=types.SimpleNamespace(address="tcp://10.0.0.1:8786", ncores=None),
        sync=lambda *_, **__: WORKERS,
    )
    connection = Connection(client)
    connection.workers()
    assert connection.turns() == TURNS


def test_each_worker_takes_a_gpu_of_its_own(worker: Any, fod: nt.Fod) -> None:
    plan = plan_of(fod, nt.Seeds.from_fod(fod, 10))
    taken = {}
    for worker.address in WORKERS:
        with devices.in_turn(work.turn_of_worker(TURNS)):
            taken[worker.address] = backends.choose(plan, Execution("cuda")).name
    assert taken == {address: f"cuda:{turn}" for address, turn in TURNS.items()}


def test_one_of_dask_cuda_takes_the_first_that_it_sees(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", types.ModuleType("dask_cuda"))
    worker.address = "tcp://10.0.0.1:7"
    assert work.turn_of_worker(TURNS) == 0


def test_a_worker_that_came_meanwhile_takes_the_gpu_with_most_memory(worker: Any) -> None:
    worker.address = "tcp://10.0.0.3:9"
    assert work.turn_of_worker(TURNS) is None


@pytest.mark.parametrize("n_losses", [2, 9])
def test_a_worker_that_goes_while_the_fod_is_sent_is_no_key_error(
    monkeypatch: pytest.MonkeyPatch, fod: nt.Fod, n_losses: int
) -> None:
    """Dask's scatter looks it up among those that are left."""
    monkeypatch.setattr(cluster_run, "HEARTBEAT_S", 0)
    losses = iter(range(n_losses))

    def scatter(*_: object, **__: object) -> str:
        if next(losses, None) is not None:
            raise KeyError("tcp://10.0.0.1:7")
        return "future"

    connection = types.SimpleNamespace(
        client=types.SimpleNamespace(scatter=scatter),
        reconnected=lambda: iter(()),
        workers=lambda: WORKERS,
        turns=lambda: TURNS,
    )
    plan = plan_of(fod, nt.Seeds.from_fod(fod, 10))
    run = cluster_run.ClusterRun(connection, plan, Execution())
    if n_losses > cluster_run.RETRIES:
        with pytest.raises(BackendError, match="lost workers again and again while the FOD"):
            list(run._share())
    else:
        assert list(run._share()) == [None] * n_losses
        assert run.on_workers == "future"
