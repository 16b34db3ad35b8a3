"""The cluster in the Device section: connecting in a thread, a device like any other, leaving."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS

from napari_tractography.errors import BackendError
from napari_tractography.plugin.panel.sections import device
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.execution import Execution


class OneWorker:
    """A cluster that tracks here."""

    name = "cluster of 1 worker"

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.asked: list[Execution] = []

    def iter_chunks(self, plan: Any, execution: Execution, report: Any) -> Any:
        self.asked.append(execution)
        report.begin(self.name, "asked for")
        cpu.make_ready(plan)
        return cpu.iter_chunks(plan, Execution("cpu", 1), report=report)

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> OneWorker:
    made = OneWorker()
    monkeypatch.setattr(device, "connect", lambda where: made)
    return made


def connect(row: Any, qtbot: Any, where: str = "tcp://there:8786") -> None:
    row.address.setText(where)
    row.button.click()
    qtbot.waitUntil(lambda: not row.is_connecting, timeout=WAIT_MS)


def test_a_cluster_is_a_device_like_any_other(
    open_model: Any, cross: Any, settle: Any, worker: OneWorker, qtbot: Any
) -> None:
    panel = open_model(cross)
    session, section = panel.session, panel.device
    session.add_seeds_mm(np.zeros((1, 3)))
    connect(section.cluster, qtbot)
    assert section.backend.value == "cluster"
    assert session.backend is worker
    panel.run()
    settle(panel)
    assert [execution.n_threads for execution in worker.asked] == [None]  # not this machine's
    assert len(session.tractogram) > 0
    assert section.took.text() == "cluster of 1 worker: asked for."
    section.cluster.button.click()
    assert (section.backend.value, session.backend) == ("auto", "auto")
    assert section.backend.choices == ("auto", "cpu")
    qtbot.waitUntil(worker.closed.is_set, timeout=WAIT_MS)


def test_a_window_that_is_open_again_does_not_look_for_it(
    open_model: Any, worker: OneWorker, qtbot: Any
) -> None:
    section = open_model().device
    connect(section.cluster, qtbot)
    assert section.values["backend"] == "auto"


def test_what_is_wrong_is_told_and_may_be_put_right(
    open_model: Any, worker: OneWorker, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = open_model().device.cluster
    row.button.click()
    assert "Give an address first" in row.problem.text()

    def fail(where: str) -> Any:
        raise BackendError(f"No scheduler answers at {where}; check the address.")

    with monkeypatch.context() as patched:
        patched.setattr(device, "connect", fail)
        connect(row, qtbot)
    assert row.problem.text() == "No scheduler answers at tcp://there:8786; check the address."
    assert (row.button.text(), row.address.isEnabled()) == ("Connect", True)
    connect(row, qtbot)
    assert row.cluster is worker
    assert not row.problem.isVisibleTo(row)
    assert (row.button.text(), row.address.isEnabled()) == ("Leave", False)


def test_a_window_that_closes_meanwhile_leaves_the_cluster(
    open_model: Any, worker: OneWorker, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def slow(where: str) -> Any:
        gate.wait(60)
        return worker

    monkeypatch.setattr(device, "connect", slow)
    panel = open_model()
    panel.device.cluster.address.setText("tcp://there:8786")
    panel.device.cluster.button.click()
    assert panel.device.cluster.button.text() == "Connecting..."
    panel.close_session()
    gate.set()
    qtbot.waitUntil(worker.closed.is_set, timeout=WAIT_MS)
    assert panel.device.cluster.cluster is None
