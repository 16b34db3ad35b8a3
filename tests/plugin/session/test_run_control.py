"""Runs: they arrive in chunks, end when told, and the newest wins; no window needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hands import CHUNK, MANY, WAIT_MS, Log

from napari_tractography import Seeds, Tractogram, track
from napari_tractography.plugin.panel import results
from napari_tractography.plugin.session import runs
from napari_tractography.plugin.session.previews import FIRST_GUESS
from napari_tractography.plugin.streamlines.layer import Streamlines

MIDDLE = np.zeros((1, 3))  # where the two bundles of the cross meet


def test_a_run_gives_exactly_what_track_gives(open_model: Any, cross: Any, settle: Any) -> None:
    """From every seed, in their order, with the mask where there is one."""
    panel = open_model(cross)
    places = np.array([[0.0, 0, 0], [-12.0, 6, 0]])
    panel.session.add_seeds_mm(places)
    panel.set_parameters(radius_mm=1.5, random_seed=7, n_per_seed=30)
    panel.run()
    settle(panel)
    seeds = Seeds.concatenate(
        [
            Seeds.in_sphere(place, 1.5, 30, random_seed=7, first=first)
            for place, first in zip(places, (0, 30), strict=True)
        ]
    )
    wanted = track(cross, seeds, panel.session.parameters)
    assert panel.session.tractogram.digest() == wanted.digest()
    assert panel.session.streamlines_layer.tractogram.digest() == wanted.digest()
    assert len(wanted) > 20


@pytest.mark.usefixtures("long_runs")
def test_streamlines_appear_chunk_by_chunk(open_model: Any, cross: Any, settle: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    log = Log(panel.runs)
    shown: list[int] = []
    layer = panel.session.ensure_streamlines_layer()
    layer.events.tractogram.connect(lambda event: shown.append(len(layer.tractogram)))
    panel.set_parameters(n_per_seed=MANY)
    panel.run()
    settle(panel)
    before_the_end = [n for n in shown if 0 < n < len(panel.session.tractogram)]
    assert len(before_the_end) >= 2
    assert before_the_end == sorted(before_the_end)
    assert log.count("advanced") >= 3
    assert log.events[0] == "started"
    assert log.events[-1] == "finished"
    assert log.threads == {threading.get_ident()}  # the viewer is touched by the main thread only


@pytest.mark.usefixtures("long_runs")
def test_a_new_run_takes_the_place_of_the_one_under_way(
    open_model: Any, cross: Any, qtbot: Any, settle: Any
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    log = Log(panel.runs)
    panel.set_parameters(n_per_seed=50 * MANY)
    panel.run()
    qtbot.waitUntil(lambda: log.count("advanced") >= 1, timeout=WAIT_MS)
    panel.set_parameters(n_per_seed=25)
    panel.run()
    settle(panel)
    assert log.count("finished") == 1
    assert session.tractogram.n_seeds == 25
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    assert session.streamlines_layer.tractogram.n_seeds == 25


def test_live_follows_the_hand_and_queues_nothing(
    open_model: Any, cross: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 moves during one preview: one more follows, and all streamlines from the last place."""
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    panel.runs.pace.learn = lambda n, seconds: None  # the same number at any speed
    panel.runs.settle.setInterval(3_600_000)
    panel.set_parameters(n_per_seed=3 * FIRST_GUESS, radius_mm=1.0)
    gate, track_in_thread = threading.Event(), runs.preview_of

    def held(run: Any) -> Tractogram:
        gate.wait(60)
        return track_in_thread(run)

    monkeypatch.setattr(runs, "preview_of", held)
    finished: list[tuple[bool, int]] = []
    panel.runs.finished.connect(
        lambda run: finished.append((run.request.is_preview, session.tractogram.n_seeds))
    )
    panel.live.setChecked(True)
    last = np.array([0.0, 3.4, 12.0])
    for share in np.linspace(0, 1, 60):
        session.move_seed(0, share * last)
    gate.set()
    settle(panel)
    assert finished == [(True, FIRST_GUESS)] * 2
    session.released.emit()
    settle(panel)
    assert finished[2:] == [(False, 3 * FIRST_GUESS)]
    wanted = track(cross, Seeds.in_sphere(last[::-1], 1.0, 3 * FIRST_GUESS), session.parameters)
    assert session.tractogram.digest() == wanted.digest()


def test_a_hand_that_never_rests_sees_previews_too(
    open_model: Any, cross: Any, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Previews that take longer than the moves are apart still come to their end."""
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    finished: list[Any] = []
    panel.runs.finished.connect(finished.append)
    rng = np.random.default_rng(1)
    panel.runs.settle.setInterval(3_600_000)
    panel.live.setChecked(True)
    deadline = time.monotonic() + WAIT_MS / 1000  # the first may have to compile
    while len(finished) < 3 and time.monotonic() < deadline:
        session.move_seed(0, np.array([0.0, 0.0, 4 * rng.random()]))
        qtbot.wait(1)
    assert len(finished) >= 3
    assert all(run.request.is_preview for run in finished)


def test_live_with_few_streamlines_tracks_once(
    open_model: Any, cross: Any, qtbot: Any, settle: Any
) -> None:
    """A preview that is everything is not followed by the same again."""
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    panel.runs.settle.setInterval(5)
    log = Log(panel.runs)
    panel.live.setChecked(True)
    settle(panel)
    qtbot.waitUntil(lambda: not panel.runs.settle.isActive())
    settle(panel)
    assert log.count("started") == 1


def test_live_follows_parameters(open_model: Any, cross: Any, qtbot: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    finished: list[float] = []
    panel.runs.finished.connect(lambda run: finished.append(run.request.parameters.max_angle_deg))
    panel.live.setChecked(True)
    panel.set_parameters(max_angle_deg=20.0)
    qtbot.waitUntil(lambda: bool(finished) and finished[-1] == 20.0, timeout=WAIT_MS)


def test_live_off_stops_what_was_to_come(
    open_model: Any, cross: Any, qtbot: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=2 * FIRST_GUESS)
    log = Log(panel.runs)
    panel.live.setChecked(True)
    panel.live.setChecked(False)
    panel.runs.settle.setInterval(5)
    qtbot.waitUntil(lambda: not panel.runs.settle.isActive())
    settle(panel)
    assert log.count("started") == 1


@pytest.mark.parametrize("error", [RuntimeError, ValueError, MemoryError])
def test_a_worker_that_fails_is_told_and_the_next_run_works(
    open_model: Any,
    cross: Any,
    qtbot: Any,
    settle: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    notes: list[str],
    error: type[Exception],
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)

    def broken(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        yield Tractogram([[0, 0, 0], [1, 0, 0]], [0, 2], n_seeds=1)
        raise error("the device is gone")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "iter_chunks", broken)
        panel.run()
        settle(panel)
    assert "the device is gone" in panel.results.label.text()
    assert next(note for note in notes if "the device is gone" in note).startswith("error")
    assert "Traceback" in caplog.text  # in the log, not in the face
    assert not panel.cancel_button.isEnabled()
    caplog.clear()
    panel.run()
    settle(panel)
    assert panel.session.tractogram.n_seeds > 1


@pytest.mark.usefixtures("long_runs")
def test_layers_may_be_renamed_and_deleted_while_running(
    open_model: Any, cross: Any, qtbot: Any, settle: Any
) -> None:
    panel = open_model(cross)
    viewer, session = panel.viewer, panel.session
    session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=MANY)
    log = Log(panel.runs)
    panel.run()
    qtbot.waitUntil(lambda: session.streamlines_layer is not None, timeout=WAIT_MS)
    for layer in viewer.layers:
        layer.name = f"my {layer.name}"
    viewer.layers.remove(session.streamlines_layer)
    viewer.layers.remove(session.seeds.layer)
    viewer.layers.remove(session.fod_layer)
    assert session.fod is None
    settle(panel)
    assert log.events[-1] == "finished"
    (layer,) = viewer.layers
    assert isinstance(layer, Streamlines)
    assert layer.tractogram.n_seeds == MANY
    session.add_seeds_mm(MIDDLE)  # and a new layer of seeds comes
    assert [layer.name for layer in viewer.layers] == ["my Bundle 1", "Seeds"]  # its bundle's


# Live and edits by hand.


def delete_some(panel: Any) -> str:
    """Delete the first two streamlines; return the digest of what is left."""
    layer = panel.session.streamlines_layer
    layer.selected = [0, 1]
    layer.editor.delete_selected()
    assert panel.session.has_edits
    return str(panel.session.tractogram.digest())


def live_panel(open_model: Any, cross: Any, settle: Any, n_per_seed: int = 40) -> Any:
    """A panel with Live on that has tracked from one seed."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=n_per_seed)
    panel.live.setChecked(True)
    settle(panel)
    return panel


def test_live_waits_where_the_result_was_edited_and_undo_lets_it_go_on(
    open_model: Any, cross: Any, settle: Any, qtbot: Any
) -> None:
    panel = live_panel(open_model, cross, settle)
    panel.runs.settle.setInterval(5)
    qtbot.waitUntil(lambda: not panel.runs.settle.isActive() and not panel.runs.is_busy)
    whole = panel.session.tractogram.digest()
    edited = delete_some(panel)
    log = Log(panel.runs)
    panel.session.move_seed(0, np.array([0.0, 0.0, 3.0]))
    panel.set_parameters(step_mm=0.7)
    qtbot.wait(50)
    assert log.events == []
    assert panel.runs.is_waiting
    assert panel.session.tractogram.digest() == edited
    assert panel.session.streamlines_layer.tractogram.digest() == edited
    qtbot.waitUntil(lambda: panel.results.notice.text() == results.WAITING)
    panel.session.streamlines_layer.editor.undo()  # the step,
    panel.session.document.undo()  # the seed
    assert not panel.runs.is_waiting
    assert log.events == []
    assert panel.session.tractogram.digest() == edited
    panel.session.document.undo()  # and the edit: all are there again
    assert panel.session.tractogram.digest() == whole
    assert panel.session.is_result_current
    qtbot.wait(50)
    assert log.events == []
    panel.session.move_seed(0, np.array([0.0, 0.0, 3.0]))  # Live goes on
    qtbot.waitUntil(lambda: log.count("finished") > 0, timeout=WAIT_MS)
    settle(panel)
    qtbot.waitUntil(lambda: panel.session.state.result_request.is_whole, timeout=WAIT_MS)
    seeds = Seeds.in_sphere([3.0, 0, 0], 2.0, 40)
    wanted = track(cross, seeds, panel.session.parameters)
    assert panel.session.tractogram.digest() == wanted.digest()


def test_run_drops_edits_and_says_so(open_model: Any, cross: Any, settle: Any, qtbot: Any) -> None:
    panel = live_panel(open_model, cross, settle)
    qtbot.waitUntil(lambda: not panel.runs.settle.isActive())
    whole = panel.session.tractogram.digest()
    delete_some(panel)
    panel.run_button.click()
    settle(panel)
    assert panel.session.tractogram.digest() == whole
    assert "edits of the result before were dropped" in panel.results.label.text()
    panel.run_button.click()
    settle(panel)
    assert "edits" not in panel.results.label.text()


def test_an_edit_of_a_preview_holds_back_the_full_run(
    open_model: Any, cross: Any, settle: Any, qtbot: Any
) -> None:
    """Live was about to track all when the preview was edited."""
    panel = live_panel(open_model, cross, settle, n_per_seed=3 * FIRST_GUESS)
    panel.runs.settle.setInterval(3_600_000)
    panel.session.move_seed(0, np.array([0.0, 0.0, 1.0]))
    settle(panel)
    assert panel.session.state.result_request.is_preview
    edited = delete_some(panel)
    panel.session.released.emit()
    assert not panel.runs.is_busy
    assert panel.runs.is_waiting
    assert panel.session.tractogram.digest() == edited
    panel.session.streamlines_layer.editor.undo()
    settle(panel)
    panel.session.released.emit()
    settle(panel)
    assert panel.session.tractogram.n_seeds == 3 * FIRST_GUESS


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("by", ["Live", "Run"])
def test_an_edit_while_streamlines_arrive_ends_a_run_of_live_but_not_of_a_person(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, by: str
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    n = (50 if by == "Live" else 4) * CHUNK
    panel.set_parameters(n_per_seed=n)
    log = Log(panel.runs)
    if by == "Live":
        panel.live.setChecked(True)
        qtbot.waitUntil(lambda: log.count("finished") > 0, timeout=WAIT_MS)
    else:
        panel.run()
    qtbot.waitUntil(lambda: log.count("advanced") >= 1, timeout=WAIT_MS)
    edited = delete_some(panel)
    settle(panel)
    if by == "Live":
        assert log.events[-1] == "cancelled"
        assert panel.session.tractogram.digest() == edited
        assert "kept" in panel.results.label.text()
        assert panel.runs.is_waiting
        panel.live.setChecked(False)
    else:
        assert panel.session.tractogram.n_seeds == n
        assert not panel.session.has_edits
        assert "edits of the result before were dropped" in panel.results.label.text()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
