"""The Device section of the panel: CPU or GPU, its memory, and how long the last run's parts took.

GPUs are looked for, and kernels and the FOD are made ready, in threads: either may take seconds,
during which the window must not block.
"""

from __future__ import annotations

import html
import threading
import time
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any

from magicgui import widgets
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QLabel, QLineEdit, QProgressBar, QWidget

from ....files.paths import GivenUpError
from ....model.parameters import ParameterSpec
from ....runtime.arrays import REMEDY
from ....tracking import devices, engine
from ....tracking.devices import Device, cpu_count
from ....tracking.report import Report
from ...background import Advance, Background
from ...session.run_control import RunControl
from ...session.runs import Run
from ...session.session import Session
from ...timers import delayed
from ..widgets.controls import form, parameter_control, tooltip
from ..widgets.layout import button, row, show_text, shrinkable, stack, wrapped

CLUSTER_HELP = (
    "Where the scheduler of a Dask cluster listens, tcp://HOST:8786, or local:4 for four processes "
    "on this machine; needs the extra dask. Runs are then shared by its workers; previews are "
    "tracked here."
)
CONNECT, CONNECTING, LEAVE = "Connect", "Connecting...", "Leave"


def connect(where: str) -> Any:
    from ....tracking.cluster.connecting import cluster

    return cluster(where)


class ClusterRow(QWidget):  # type: ignore[misc]
    """An address, a button, and a line that says what is wrong; `cluster` is connected, or None."""

    changed = Signal()  # connected, or left

    def __init__(self) -> None:
        super().__init__()
        self.cluster: Any = None
        self.work = Background()
        self.work.failed.connect(self._show)
        self.address = QLineEdit()
        self.address.setPlaceholderText("tcp://HOST:8786 or local:4")
        self.address.setToolTip(f"<qt>{html.escape(CLUSTER_HELP)}</qt>")
        button_help = "Connect to the cluster at this address, or leave it."
        self.button = button(CONNECT, button_help, self._on_button)
        self.problem = wrapped(is_plain=True)
        self.problem.hide()
        text = QLabel("Cluster")
        text.setToolTip(self.address.toolTip())
        text.setBuddy(self.address)
        stack(self, row(text, self.address, self.button), self.problem)
        self.address.returnPressed.connect(self._on_button)

    @property
    def is_connecting(self) -> bool:
        return self.work.is_busy

    def close_row(self) -> None:
        """Leave the cluster; one that is being connected to is left when it answers."""
        self.work.cancel()
        self._leave()

    def _on_button(self) -> None:
        if self.is_connecting:
            return
        where = self.address.text().strip()
        if self.cluster is not None:
            self._leave()
            self._take(None)
        elif where:
            self.work.begin("Connecting", partial(_connect, where), self._take)
            self._show("")
        else:
            self._show("Give an address first, or local:2 for two processes on this machine.")

    def _take(self, created: Any) -> None:
        self.cluster = created
        self._show("")
        self.changed.emit()

    def _leave(self) -> None:
        left, self.cluster = self.cluster, None
        if left is not None:
            # Python waits for it at its end: processes and files are not left behind.
            threading.Thread(target=left.close, name="tractography-cluster").start()

    def _show(self, problem: str) -> None:
        show_text(self.problem, problem)
        self.address.setEnabled(self.cluster is None and not self.is_connecting)
        self.button.setEnabled(not self.is_connecting)
        connected = LEAVE if self.cluster is not None else CONNECT
        self.button.setText(CONNECTING if self.is_connecting else connected)


def _connect(where: str, advance: Advance) -> Any:
    created = connect(where)
    try:
        advance(1.0)
    except GivenUpError:  # the panel has closed meanwhile
        created.close()
        raise
    return created


FIND_AFTER_MS = 1000  # after the window has opened
WARM_AFTER_MS = 0  # after it has opened, or another FOD or algorithm was chosen
AUTO, CPU, CLUSTER = "auto", "cpu", "cluster"
USUAL_LMAX = 8  # of an FOD that is yet to be chosen
PAUSE_SECONDS = 0.05  # until it is asked again whether runs have left the processors

BACKEND_SPEC = ParameterSpec(
    name="backend",
    label="Track on",
    default=AUTO,
    help="auto chooses the device that is likely to finish first, and says below which and why. "
    "The streamlines are the same. Previews are tracked on the CPU.",
)
THREADS_SPEC = ParameterSpec(
    name="n_threads",
    label="CPU threads",
    default=cpu_count(),
    minimum=1,
    maximum=cpu_count(),
    increment=1,
    help="How many threads track on the CPU; fewer leave processors to other programs.",
)


@dataclass(frozen=True, slots=True)
class Found:
    """The devices of this machine."""

    devices: tuple[Device, ...] = ()  # the CPU and all GPUs
    problem: str = ""  # one sentence on why there is no GPU, or ""


def find() -> Found:
    problem = devices.cuda_problem()
    return Found(tuple(devices.devices()), problem)


class DeviceSection(QWidget):  # type: ignore[misc]
    """Choice of device and threads, memory of a GPU, times of the parts of the last run."""

    def __init__(self, session: Session, runs: RunControl) -> None:
        super().__init__()
        self.session = session
        self._runs = runs
        self.found = Found()
        self._wanted = AUTO  # may name a GPU that has not been found yet
        self._finding, self._warming = Background(), Background()
        self._warmed: tuple[Any, ...] | None = None  # see `_kind`
        self.backend = widgets.ComboBox(
            name=BACKEND_SPEC.name,
            label=BACKEND_SPEC.label,
            tooltip=tooltip(BACKEND_SPEC),
            choices=[(AUTO, AUTO), (CPU, CPU)],
            value=AUTO,
        )
        shrinkable(self.backend.native)
        self.threads = parameter_control(THREADS_SPEC)
        self.controls = [self.backend, self.threads]
        self.form = form(self.controls)
        self.cluster = ClusterRow()
        self.gpu_memory = QProgressBar()
        self.gpu_memory.setToolTip("Memory of the GPU that is in use, by all programs together.")
        self.problem, self.took, self.spent = texts = [
            wrapped(tooltip=tip, is_selectable=True, is_plain=True)
            for tip in (
                "Why there is no GPU to choose.",
                "What the last run was tracked on, and why.",
                "Seconds that the last run spent in each part; on a GPU parts run side by side.",
            )
        ]
        for each in texts:
            each.hide()
        stack(self, self.form, self.cluster, self.gpu_memory, *texts)
        self.backend.changed.connect(self._on_backend)
        self.threads.changed.connect(self._on_threads)
        self.cluster.changed.connect(
            lambda: self._offer(AUTO if self.cluster.cluster is None else CLUSTER)
        )
        runs.finished.connect(self._on_run_finished)
        self._later = delayed(self, FIND_AFTER_MS, self.find_devices)
        self._soon = delayed(self, WARM_AFTER_MS, self.warm_up)
        self._show()

    def open(self) -> None:
        """Look for GPUs, and make the kernels ready soon, so that the first run need not wait."""
        self._later.start()
        self._warm_up_soon()
        self.session.changed.connect(self._warm_up_soon)

    def close_section(self) -> None:
        """Look no more; threads that are at work end by themselves."""
        self.session.changed.disconnect(self._warm_up_soon)
        self._soon.stop()
        self._later.stop()
        self._finding.cancel()
        self._warming.cancel()
        self.cluster.close_row()

    @property
    def is_finding(self) -> bool:
        return self._finding.is_busy

    def find_devices(self) -> None:
        """Look for devices and their memory, in a thread."""
        if not self.is_finding:
            self._finding.begin("Looking for devices", lambda _advance: find(), self._take)

    def warm_up(self) -> None:
        """Make the kernels for what is chosen ready, and the FOD, unless that was begun.

        In a thread, which goes on with the FOD only while nothing else is tracked.
        """
        if self._warmed == self._kind:
            return
        self._warmed = self._kind
        parameters, fod = self.session.parameters, self.session.fod

        def give_way(advance: Advance) -> None:
            advance(0.0)
            while self._runs.is_busy:
                time.sleep(PAUSE_SECONDS)
                advance(0.0)

        def work(advance: Advance) -> None:
            engine.warm_up(parameters, lmax=USUAL_LMAX, fod=fod, heartbeat=lambda: advance(0.0))
            if fod is not None:
                engine.track_ahead(fod, parameters, lambda: give_way(advance))

        self._warming.begin("Preparing the engine", work, lambda _none: None)

    @property
    def _kind(self) -> tuple[Any, ...]:
        """What preparing depends on: the algorithm, the interpolation and the FOD."""
        parameters, fod = self.session.parameters, self.session.fod
        which = None if fod is None else weakref.ref(fod)
        return parameters.algorithm, parameters.interpolation, which

    def _warm_up_soon(self) -> None:
        if self._warmed != self._kind:
            self._soon.start()

    def _take(self, found: Found) -> None:
        self.found = found
        self._offer(self._wanted)

    @property
    def values(self) -> dict[str, Any]:
        """What is chosen, by name; a cluster is there only as long as the window."""
        backend = AUTO if self._wanted == CLUSTER else self._wanted
        return {"backend": backend, "n_threads": self.threads.value}

    def set_values(self, backend: str = AUTO, n_threads: int | None = None) -> None:
        """Choose; a GPU that is yet to be found is chosen when it is."""
        self._wanted = backend
        if backend in self.backend.choices:
            self.backend.value = backend
        self.threads.value = min(max(n_threads or cpu_count(), 1), cpu_count())
        self.session.n_threads = self.threads.value

    def _offer(self, wanted: str) -> None:
        """Offer what there is, and choose what is wanted where it is there."""
        gpus = [one for one in self.found.devices if one.name != CPU]
        connected = self.cluster.cluster is not None
        self.backend.choices = [
            (AUTO, AUTO),
            (CPU, CPU),
            *((f"{one.name}: {one.model}", one.name) for one in gpus),
            *([(CLUSTER, CLUSTER)] if connected else []),
        ]
        self.backend.value = wanted if wanted in self.backend.choices else AUTO
        self._show()

    def _on_backend(self, value: str) -> None:
        self._wanted = value
        self.session.backend = self.cluster.cluster if value == CLUSTER else value
        self._show()

    def _on_threads(self, value: int) -> None:
        self.session.n_threads = int(value)

    def _on_run_finished(self, run: Run) -> None:
        if run.request.is_preview:
            return
        self.show_report(run.report)
        if not self.found.problem and len(self.found.devices) > 1:
            self.find_devices()  # at the memory in use now

    def show_report(self, report: Report) -> None:
        reason = report.reason.removesuffix(".")
        if reason and self.found.problem.startswith(reason):  # which is said above
            reason = "no GPU can be used"
        show_text(self.took, f"{report.backend}: {reason}." if report.backend else "")
        parts = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in report.seconds.items())
        kept = f" {report.held_bytes / 1e9:.2f} GB stay on it." if report.held_bytes else ""
        show_text(self.spent, f"Last run: {parts}.{kept}" if parts else "")

    def _show(self) -> None:
        here = f"choose {CPU} in {BACKEND_SPEC.label}"  # what is "backend" in Python
        show_text(self.problem, self.found.problem.replace(REMEDY, here))
        gpus = {one.name: one for one in self.found.devices if one.name != CPU}
        roomiest = max(gpus.values(), key=lambda one: one.free_bytes, default=None)
        gpu = roomiest if self.backend.value == AUTO else gpus.get(self.backend.value)
        self.gpu_memory.setVisible(bool(gpu and gpu.total_bytes))
        if gpu and gpu.total_bytes:
            used, total = (gpu.total_bytes - gpu.free_bytes) / 1e9, gpu.total_bytes / 1e9
            self.gpu_memory.setRange(0, 1000)
            self.gpu_memory.setValue(round(1000 * used / total))
            busy = "" if gpu.utilisation_percent is None else f", {gpu.utilisation_percent} % busy"
            self.gpu_memory.setFormat(f"{used:.1f} of {total:.1f} GB used{busy}")
