"""What the panel says for now, of a run or a problem, and what comes back when that is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hands import MANY, WAIT_MS

from napari_tractography import Tractogram
from napari_tractography.plugin.panel import results
from napari_tractography.plugin.panel.widgets.controls import set_values
from napari_tractography.plugin.session import runs
from napari_tractography.tracking.report import PREPARING

MIDDLE = np.zeros((1, 3))


@pytest.fixture
def held_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Runs and previews are at preparing until the event is set, or they are cancelled."""
    gate, track, preview = threading.Event(), runs.iter_chunks, runs.preview_of

    def held(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        kwargs["report"].phase = PREPARING
        while not gate.wait(0.01):
            yield Tractogram.empty()
        kwargs["report"].phase = ""
        yield from track(*args, **kwargs)

    def held_preview(run: runs.Run) -> Tractogram:
        run.report.phase = PREPARING
        while not gate.wait(0.01):
            if run.cancelled.is_set():
                return Tractogram.empty()
        return preview(run)

    monkeypatch.setattr(results, "PREPARING_SECONDS", 0.0)
    monkeypatch.setattr(runs, "iter_chunks", held)
    monkeypatch.setattr(runs, "preview_of", held_preview)
    yield gate
    gate.set()


@pytest.mark.parametrize("how", ["Run", "Live"])
def test_there_are_no_streamlines_yet_is_not_said_during_the_first_run(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, held_runs: threading.Event, how: str
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    text = panel.results.label.text
    assert text().startswith("No streamlines yet")
    panel.run_button.click() if how == "Run" else panel.live.setChecked(True)
    assert text() == results.BEGUN or text().startswith("Preparing")
    qtbot.waitUntil(lambda: text().startswith("Preparing the engine"), timeout=WAIT_MS)
    held_runs.set()
    settle(panel)
    assert f"<b>{len(panel.session.tractogram)} streamlines</b>" in text()


def test_nothing_stays_of_a_run_that_live_replaces(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, held_runs: threading.Event
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.runs.settle.setInterval(3_600_000)
    held_runs.set()
    panel.run()
    settle(panel)
    before = panel.results.label.text()
    held_runs.clear()
    panel.run()
    qtbot.waitUntil(lambda: "Preparing" in panel.results.label.text(), timeout=WAIT_MS)
    panel.live.setChecked(True)
    assert panel.runs.current.request.is_preview
    assert panel.results.lasting == before
    panel.runs.give_up(panel.session.bundle)
    assert panel.results.label.text() == before


def test_a_problem_is_told_until_it_is_over(open_model: Any, cross: Any, settle: Any) -> None:
    """There is a result, whose text comes back."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    text = panel.results.label.text
    before, layer = text(), panel.data.fod_choice.value
    panel.data.fod_choice.value = None
    panel.run_button.click()
    assert "There is no FOD or image" in text()
    panel.data.fod_choice.value = layer
    assert text() == before
    set_values(panel.tracking.controls, {"min_length_mm": 90.0})
    assert "exceeds" in text()
    panel.set_parameters(min_length_mm=0.0)
    assert text() == before


def test_what_arrived_of_a_run_that_failed_is_told_after_the_problem(
    open_model: Any, cross: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)

    def broken(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        yield Tractogram([[0, 0, 0], [1, 0, 0]], [0, 2], n_seeds=1)
        raise ValueError("the device is gone")

    monkeypatch.setattr(runs, "iter_chunks", broken)
    panel.run()
    settle(panel)
    assert "the device is gone" in panel.results.label.text()
    panel.session.move_seed(0, np.array([0.0, 0.0, 3.0]))
    assert panel.results.label.text().startswith("<b>1 streamline</b>")


@pytest.mark.usefixtures("long_runs")
def test_what_is_kept_of_a_run_before_does_not_put_the_next_to_rest(
    open_model: Any, cross: Any, qtbot: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=MANY)
    panel.run_button.click()
    qtbot.waitUntil(lambda: panel.runs.current.n_done > 0, timeout=WAIT_MS)
    kept: list[bool] = []
    panel.runs.kept.connect(lambda run: kept.append(panel.runs.current is not None))
    gate, track = threading.Event(), runs.iter_chunks

    def late(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        gate.wait(60)  # had it drawn something, nothing would be kept of the first
        yield from track(*args, **kwargs)

    monkeypatch.setattr(runs, "iter_chunks", late)
    try:
        panel.cancel_button.click()
        panel.run_button.click()
        qtbot.waitUntil(lambda: bool(kept), timeout=WAIT_MS)
        assert kept == [True]
        assert panel.cancel_button.isEnabled()
        assert panel.results._poll.isActive()
        assert panel.session.tractogram.n_seeds < MANY
    finally:
        gate.set()
    settle(panel)
    assert panel.session.tractogram.n_seeds == MANY
    assert not panel.cancel_button.isEnabled()
