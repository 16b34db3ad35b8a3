"""Previews: as many streamlines as the hand has patience for, and the same as the full run's."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, Mouse, tracking_threads
from plans import plan_of

from napari_tractography import Seeds, TrackingParameters, track
from napari_tractography.errors import InvalidParameterError
from napari_tractography.plugin.session import runs
from napari_tractography.plugin.session.previews import (
    FEWEST,
    FIRST_GUESS,
    MOST,
    Pace,
    track_preview,
)

PLACES = np.array([[0.0, 0, 0], [-12.0, 6, 0], [9.0, 3, 0]])


def settled(pace: Pace, seconds_each: float, fixed: float = 0.0, rounds: int = 20) -> int:
    """Number of streamlines after some previews that take so long."""
    for _ in range(rounds):
        pace.learn(pace.n_streamlines, fixed + seconds_each * pace.n_streamlines)
    return pace.n_streamlines


@pytest.mark.parametrize(
    ("seconds_each", "fixed", "wanted"),
    [
        pytest.param(1e-5, 0.0, 4000, id="in proportion to the speed"),
        pytest.param(1e-5, 0.01, 3000, id="what every preview needs is left out"),
        pytest.param(1e-9, 0.0, MOST, id="never more than can be told apart"),
        pytest.param(1.0, 0.0, FEWEST, id="never fewer than show where the bundle goes"),
    ],
)
def test_as_many_as_come_in_the_time(seconds_each: float, fixed: float, wanted: int) -> None:
    assert settled(Pace(0.04), seconds_each, fixed) == pytest.approx(wanted, rel=0.02)


def test_it_begins_with_a_guess_and_follows_a_change_of_speed() -> None:
    pace = Pace(0.04)
    assert pace.n_streamlines == FIRST_GUESS
    assert settled(pace, 1e-5) == 4000
    assert settled(pace, 4e-5, rounds=3) == 1000


def test_a_preview_that_was_held_up_changes_nothing() -> None:
    pace = Pace(0.04)
    settled(pace, 1e-5)
    pace.learn(4000, 10.0)
    assert pace.n_streamlines == 4000
    first = Pace(0.04)
    first.learn(1000, 30.0)  # compiles the engine
    first.learn(FEWEST, 1e-5 * FEWEST)
    assert first.n_streamlines == 4000


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_preview_is_the_beginning_of_the_full_run(cross: Any, n_threads: int) -> None:
    """From each place; numbers and bits are those of the full run."""
    full, some, firsts = [50, 60, 70], [50, 7, 23], [0, 50, 110]
    parameters = TrackingParameters(min_length_mm=10.0, max_length_mm=80.0)

    def seeds(counts: list[int]) -> Seeds:
        return Seeds.concatenate(
            [Seeds.in_sphere(place, 3.0, n) for place, n in zip(PLACES, counts, strict=True)]
        )

    plan = plan_of(cross, seeds(some), parameters)
    preview = track_preview(plan, firsts, some, threading.Event(), n_threads)
    whole = track(cross, seeds(full), parameters)
    wanted = [
        i for first, n in zip([0, 50, 110], some, strict=True) for i in range(first, first + n)
    ]
    of_whole = whole[np.isin(whole.seed_index, wanted)]
    np.testing.assert_array_equal(preview.seed_index, of_whole.seed_index)
    assert preview.digest() == of_whole.digest()
    assert 40 < len(preview) <= sum(some) == preview.n_seeds


@pytest.mark.parametrize("n_threads", [0, -1, "two"])
def test_a_preview_on_no_threads_is_refused(cross: Any, n_threads: Any) -> None:
    plan = plan_of(cross, Seeds.at(PLACES), TrackingParameters())
    with pytest.raises(InvalidParameterError, match=r"n_threads = .* is impossible"):
        track_preview(plan, [0], [3], threading.Event(), n_threads)


def test_a_preview_that_is_given_up_ends_soon(cross: Any) -> None:
    n = 200_000
    plan = plan_of(cross, Seeds.in_sphere(PLACES[0], 2.0, n), TrackingParameters())
    cancelled = threading.Event()
    cancelled.set()
    assert track_preview(plan, [0], [n], cancelled).n_seeds < n
    assert not tracking_threads()


def test_live_shows_the_beginning_of_the_full_run_and_what_it_took(
    open_model: Any, cross: Any, qtbot: Any, settle: Any
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(PLACES)
    panel.set_parameters(n_per_seed=400)
    shown: list[Any] = []
    texts: list[str] = []

    def note(run: Any) -> None:
        shown.append((run, session.tractogram))
        texts.append(panel.results.label.text())

    session.run_finished.connect(note)
    session.pace.learn(100, 0.01)
    panel.live.setChecked(True)
    qtbot.waitUntil(lambda: len(shown) == 2, timeout=WAIT_MS)
    (run, preview), (_, whole) = shown
    assert run.request.preview
    assert preview.n_seeds < whole.n_seeds == 1200
    same = whole[np.isin(whole.seed_index, preview.seed_index)]
    assert same.digest() == preview.digest()
    assert run.latency > 0
    assert f"preview of {preview.n_seeds:,}, {1000 * run.latency:.0f} ms" in texts[0]
    assert "preview" not in texts[1]


@pytest.mark.parametrize("ndisplay", [2, 3])
def test_a_seed_is_dragged_live_and_all_is_tracked_when_it_is_let_go(
    open_window: Any, cross: Any, qtbot: Any, settle: Any, ndisplay: int
) -> None:
    panel = open_window(cross)
    viewer, session = panel.viewer, panel.session
    session.add_seeds_mm(PLACES[:1])
    panel.set_parameters(n_per_seed=FIRST_GUESS)
    session._settle.setInterval(3_600_000)  # resting alone is not enough
    session.pace.learn(100, 0.01)
    viewer.dims.ndisplay = ndisplay
    panel.live.setChecked(True)
    settle(panel)
    finished: list[tuple[bool, float]] = []
    session.run_finished.connect(
        lambda run: finished.append((run.request.preview, run.request.starts.positions_mm[0, 0]))
    )
    mouse = Mouse(viewer)
    mouse.press((0, 0, 0))
    for x in (2.0, 4.0, 6.0, 8.0):
        mouse.move((0, 0, x))
    qtbot.waitUntil(lambda: bool(finished) and finished[-1][1] > 6.0, timeout=WAIT_MS)
    settle(panel)
    assert all(preview for preview, _ in finished)
    assert len(session.tractogram) < FIRST_GUESS
    mouse.release()
    qtbot.waitUntil(lambda: not finished[-1][0], timeout=WAIT_MS)
    (place,) = session.seed_positions_mm()
    assert place[0] > 6.0
    wanted = track(cross, Seeds.in_sphere(place, 2.0, FIRST_GUESS), session.parameters)
    assert session.tractogram.digest() == wanted.digest()
    assert sum(not preview for preview, _ in finished) == 1


def test_each_preview_is_shown_though_the_hand_seems_to_rest_before_it_is_there(
    open_model: Any, cross: Any, qtbot: Any, settle: Any, monkeypatch: Any
) -> None:
    """As in a window that draws slowly: the time to rest is over at each move."""
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(PLACES[:1])
    panel.set_parameters(n_per_seed=2 * FIRST_GUESS)
    session._settle.setInterval(3_600_000)
    session.pace.learn = lambda n, seconds: None
    gate, track_in_thread = threading.Semaphore(0), runs._preview

    def held(run: Any) -> Any:
        gate.acquire(timeout=60)
        return track_in_thread(run)

    monkeypatch.setattr(runs, "_preview", held)
    finished: list[tuple[bool, float]] = []
    session.run_finished.connect(
        lambda run: finished.append((run.request.preview, run.request.starts.positions_mm[0, 0]))
    )
    panel.live.setChecked(True)
    for n, x in enumerate((2.0, 4.0, 6.0), start=1):
        session.move_seed(0, np.array([0.0, 0.0, x]))
        session._run_settled()
        assert session.run.request.preview  # it goes on
        session.move_seed(0, np.array([0.0, 0.0, x + 1]))  # and the next comes in between
        gate.release()
        qtbot.waitUntil(lambda n=n: len(finished) == n, timeout=WAIT_MS)
    session._run_settled()
    gate.release()
    settle(panel)
    assert [preview for preview, _ in finished] == [True] * 4 + [False]
    assert [x for _, x in finished[-2:]] == [7.0, 7.0]
    assert session.tractogram.n_seeds == 2 * FIRST_GUESS
