"""The Device section: what can be chosen, what it says of GPUs, where the time of a run went."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import numpy as np
import pytest
from hands import WAIT_MS, fod_layer, tracking_threads

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.panel.sections import device
from napari_tractography.plugin.panel.sections.device import Found
from napari_tractography.tracking import engine
from napari_tractography.tracking.devices import Device
from napari_tractography.tracking.report import Report

NO_GPU = "There is no NVIDIA GPU here; choose backend = 'cpu'."
HOST = Device("cpu", "x86_64", 8_000_000_000, 16_000_000_000)
SMALL = Device("cuda:0", "A small one", 3_000_000_000, 4_000_000_000, 12)
LARGE = Device("cuda:1", "A large one", 60_000_000_000, 80_000_000_000)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, qtbot: Any) -> Any:
    """Let a section find what is given."""

    def look(section: Any, found: Found) -> None:
        monkeypatch.setattr(device, "find", lambda: found)
        section.find_devices()
        qtbot.waitUntil(lambda: not section.is_finding, timeout=WAIT_MS)
        qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)

    return look


def test_without_a_gpu_it_says_why_and_offers_the_cpu(
    open_model: Any, looks: Any, notes: list[str]
) -> None:
    panel = open_model()
    section = panel.device
    looks(section, Found((HOST,), NO_GPU))
    assert section.problem.text() == "There is no NVIDIA GPU here; choose cpu in Track on."
    assert not section.problem.isHidden()
    assert section.gpu_memory.isHidden()
    assert section.backend.choices == ("auto", "cpu")
    assert not notes


def test_gpus_can_be_chosen_and_show_how_full_they_are(open_model: Any, looks: Any) -> None:
    panel = open_model()
    section = panel.device
    found = Found((HOST, SMALL, LARGE))
    looks(section, found)
    assert section.problem.isHidden()
    assert section.backend.choices == ("auto", "cpu", "cuda:0", "cuda:1")
    assert section.gpu_memory.format() == "20.0 of 80.0 GB used"  # what auto would take
    section.backend.value = "cuda:0"
    assert panel.session.backend == "cuda:0"
    assert section.gpu_memory.value() == 250
    assert section.gpu_memory.format() == "1.0 of 4.0 GB used, 12 % busy"
    section.backend.value = "cpu"
    assert section.gpu_memory.isHidden()
    looks(section, found)
    assert section.backend.value == "cpu"


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(Found((HOST, SMALL)), "cuda:0", id="there"),
        pytest.param(Found((HOST,), NO_GPU), "auto", id="gone"),
    ],
)
def test_a_gpu_that_was_chosen_before_is_taken_when_it_is_found(
    open_model: Any, looks: Any, found: Found, wanted: str
) -> None:
    panel = open_model()
    panel.device.set_values(backend="cuda:0")
    assert panel.session.backend == "auto"  # nothing fails before it is known to be there
    looks(panel.device, found)
    assert panel.session.backend == panel.device.backend.value == wanted


def test_choices_reach_the_run_and_the_run_says_what_it_took(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    session, section = panel.session, panel.device
    session.add_seeds_mm(np.zeros((1, 3)))
    section.backend.value = "cpu"
    section.threads.value = 1
    request = session.request()
    assert (request.execution.backend, request.execution.n_threads) == ("cpu", 1)
    panel.run()
    settle(panel)
    assert section.took.text() == "cpu: asked for."
    assert section.spent.text().startswith("Last run: tables ")
    assert ", tracking " in section.spent.text()
    section.found = Found((HOST,), NO_GPU)
    section.show_report(Report("cpu", NO_GPU))
    assert section.took.text() == "cpu: no GPU can be used."
    spent = {"upload": 0.5, "tracking": 2, "download": 1}
    section.show_report(Report("cuda:0", "faster", spent, held_bytes=420_000_000))
    assert section.spent.text() == (
        "Last run: upload 0.50 s, tracking 2.00 s, download 1.00 s. 0.42 GB stay on it."
    )


def test_kernels_are_made_ready_once_for_each_kind_of_run(
    open_model: Any, cross: Any, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[tuple[str, str, int]] = []

    def warm_up(
        parameters: TrackingParameters, *, lmax: int, fod: Fod | None, heartbeat: Any
    ) -> None:
        heartbeat()
        degree = lmax if fod is None else fod.lmax
        warmed.append((parameters.algorithm, parameters.interpolation, degree))

    monkeypatch.setattr(engine, "warm_up", warm_up)
    monkeypatch.setattr(device, "WARM_AFTER_MS", 0)
    panel = open_model()
    wanted = [("probabilistic", "trilinear", 8)]
    qtbot.waitUntil(lambda: warmed == wanted, timeout=WAIT_MS)
    panel.viewer.add_layer(fod_layer(cross))  # of lmax 6
    wanted.append(("probabilistic", "trilinear", 6))
    qtbot.waitUntil(lambda: warmed == wanted, timeout=WAIT_MS)
    panel.set_parameters(step_mm=0.7)
    panel.set_parameters(interpolation="nearest")
    wanted.append(("probabilistic", "nearest", 6))
    qtbot.waitUntil(lambda: warmed == wanted, timeout=WAIT_MS)


def test_fods_are_tracked_ahead_once_each_while_nothing_else_is(
    open_model: Any, cross: Any, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Fod] = []
    beats: list[int] = []

    def track_ahead(fod: Fod, parameters: TrackingParameters, heartbeat: Any) -> None:
        begun.append(fod)
        while True:  # until the heartbeat ends it
            heartbeat()
            beats.append(len(begun))
            time.sleep(0.001)

    monkeypatch.setattr(engine, "warm_up", lambda *_args, **_more: None)
    monkeypatch.setattr(engine, "track_ahead", track_ahead)
    monkeypatch.setattr(device, "WARM_AFTER_MS", 0)
    panel = open_model()
    panel.viewer.add_layer(fod_layer(cross))
    qtbot.waitUntil(lambda: len(beats) > 2, timeout=WAIT_MS)
    assert begun == [panel.session.fod]
    panel.runs.current = cast(Any, object())  # a run is under way

    def rests() -> bool:
        n_beats = len(beats)
        qtbot.wait(200)
        return len(beats) == n_beats

    qtbot.waitUntil(rests, timeout=WAIT_MS)
    n_beats = len(beats)
    panel.runs.current = None
    qtbot.waitUntil(lambda: len(beats) > n_beats, timeout=WAIT_MS)
    panel.set_parameters(step_mm=0.7)
    panel.session.choose_fod(panel.viewer.add_layer(fod_layer(make_phantom("arcs"))))
    qtbot.waitUntil(lambda: beats[-1] == 2, timeout=WAIT_MS)  # and the one before has ended
    qtbot.waitUntil(lambda: len(tracking_threads()) == 1, timeout=WAIT_MS)
    assert begun[1] is panel.session.fod is not begun[0]
    panel.close_session()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)


def test_a_panel_looks_by_itself_and_closing_does_not_wait(
    open_model: Any, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "FIND_AFTER_MS", 0)
    gate, asked = threading.Event(), threading.Event()

    def slow() -> Found:
        asked.set()
        gate.wait(60)
        return Found((HOST,), NO_GPU)

    monkeypatch.setattr(device, "find", slow)
    panel = open_model()
    qtbot.waitUntil(asked.is_set, timeout=WAIT_MS)
    assert panel.device.found == Found()  # the window is there all the while
    panel.close_session()
    gate.set()
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    assert panel.device.found == Found()
