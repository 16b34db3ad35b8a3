"""Previews: as many streamlines as the hand has patience for, and the same as the full run's."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, Mouse, tracking_threads
from plans import plan_of

from napari_tractography import Seeds, TrackingParameters, track
from napari_tractography.errors import InvalidParameterError
from napari_tractography.plugin.requests import Request
from napari_tractography.plugin.run_seeding import SeedSpheres
from napari_tractography.plugin.session import runs
from napari_tractography.plugin.session.previews import (
    FEWEST,
    FIRST_GUESS,
    MOST,
    Pace,
)
from napari_tractography.tracking import kernels
from napari_tractography.tracking.previewing import track_preview

PLACES = np.array([[0.0, 0, 0], [-12.0, 6, 0], [9.0, 3, 0]])


def first_x(request: Request) -> float:
    """Where the first seed is, RAS+ mm from left to right."""
    assert isinstance(request.seeding, SeedSpheres)
    return float(request.seeding.positions_mm[0, 0])


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


def test_spheres_do_not_share_their_offsets(cross: Any) -> None:
    """Forty seeds of ten streamlines: four hundred places, not ten repeated forty times."""
    n, each = 40, 10
    centres = np.tile(PLACES[:1], (n, 1))
    spheres = SeedSpheres(centres, np.full(n, 2.0), np.full(n, each))
    offsets = spheres.draw(cross, random_seed=3).positions_mm
    assert len(np.unique(offsets, axis=0)) == n * each


def test_a_preview_has_the_first_seeds_of_each_sphere_of_the_full_run(cross: Any) -> None:
    spheres = SeedSpheres(PLACES, np.array([2.0, 1.0, 3.0]), np.array([50, 6, 70]))
    request = Request(cross, spheres, TrackingParameters(random_seed=5))
    preview = replace(request, n_preview=40)
    assert preview.n_each == [17, 6, 17]
    assert preview.firsts == request.firsts == [0, 50, 56]
    numbers = [
        first + i for first, n in zip(preview.firsts, preview.n_each, strict=True) for i in range(n)
    ]
    full = request.seeds().positions_mm
    np.testing.assert_array_equal(preview.seeds().positions_mm, full[numbers])


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_preview_is_the_beginning_of_the_full_run(cross: Any, n_threads: int) -> None:
    """From each place; numbers and bits are those of the full run."""
    full, some, firsts = [50, 60, 70], [50, 7, 23], [0, 50, 110]
    parameters = TrackingParameters(min_length_mm=10.0, max_length_mm=80.0)

    def seeds(counts: list[int]) -> Seeds:
        return Seeds.concatenate(
            [
                Seeds.in_sphere(place, 3.0, n, first=first)
                for place, n, first in zip(PLACES, counts, firsts, strict=True)
            ]
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


def test_an_empty_preview_says_what_made_its_lines_too_short(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(PLACES[:1])
    panel.set_parameters(n_per_seed=1000, min_length_mm=79.0)
    told: list[str] = []

    def note(run: Any) -> None:
        if run.request.is_preview:
            told.append(panel.results.label.text())

    panel.runs.finished.connect(note)
    panel.live.setChecked(True)
    qtbot.waitUntil(lambda: bool(told), timeout=WAIT_MS)
    assert "most for this reason: reached a voxel without fibres; " in told[0]


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

    panel.runs.finished.connect(note)
    panel.runs.pace.learn(100, 0.01)
    panel.live.setChecked(True)
    qtbot.waitUntil(lambda: len(shown) == 2, timeout=WAIT_MS)
    (run, preview), (_, whole) = shown
    assert run.request.is_preview
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
    panel.runs.settle.setInterval(3_600_000)  # resting alone is not enough
    panel.runs.pace.learn(100, 0.01)
    viewer.dims.ndisplay = ndisplay
    viewer.reset_view()
    panel.live.setChecked(True)
    settle(panel)
    finished: list[tuple[bool, float]] = []
    panel.runs.finished.connect(
        lambda run: finished.append((run.request.is_preview, first_x(run.request)))
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
    (place,) = session.seeds.positions_mm
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
    panel.runs.settle.setInterval(3_600_000)
    panel.runs.pace.learn = lambda n, seconds: None
    gate, track_in_thread = threading.Semaphore(0), runs.preview_of

    def held(run: Any) -> Any:
        gate.acquire(timeout=60)
        return track_in_thread(run)

    monkeypatch.setattr(runs, "preview_of", held)
    finished: list[tuple[bool, float]] = []
    panel.runs.finished.connect(
        lambda run: finished.append((run.request.is_preview, first_x(run.request)))
    )
    panel.live.setChecked(True)
    for n, x in enumerate((2.0, 4.0, 6.0), start=1):
        session.move_seed(0, np.array([0.0, 0.0, x]))
        session.released.emit()
        assert panel.runs.current.request.is_preview  # it goes on
        session.move_seed(0, np.array([0.0, 0.0, x + 1]))  # and the next comes in between
        gate.release()
        qtbot.waitUntil(lambda n=n: len(finished) == n, timeout=WAIT_MS)
    session.released.emit()
    gate.release()
    settle(panel)
    assert [preview for preview, _ in finished] == [True] * 4 + [False]
    assert [x for _, x in finished[-2:]] == [7.0, 7.0]
    assert session.tractogram.n_seeds == 2 * FIRST_GUESS


def test_without_the_kernel_previews_are_the_same(
    cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = TrackingParameters(max_length_mm=30.0)
    plan = plan_of(cross, Seeds.in_sphere((0, 0, 0), 3.0, 60), parameters)
    cancelled = threading.Event()
    wanted = track_preview(plan, [0, 100], [20, 40], cancelled)
    begun = []
    monkeypatch.setattr(kernels, "stands_in", lambda plan: True)
    monkeypatch.setattr(kernels, "begin", begun.append)
    assert track_preview(plan, [0, 100], [20, 40], cancelled).digest() == wanted.digest()
    assert begun == [plan]
    cancelled.set()
    assert not len(track_preview(plan, [0, 100], [20, 40], cancelled))


def test_a_preview_that_waits_for_the_kernel_can_be_given_up(
    cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(cross, Seeds.at(PLACES), TrackingParameters(algorithm="sd_stream"))
    cancelled = threading.Event()

    class Never(threading.Event):
        n_waits = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.n_waits += 1
            assert timeout is not None
            assert self.n_waits < 10, "nobody asks whether it is wanted"
            return super().wait(timeout)

    def begin(_plan: Any) -> threading.Event:
        cancelled.set()
        return Never()

    monkeypatch.setattr(kernels, "is_missing", lambda plan: True)
    monkeypatch.setattr(kernels, "begin", begin)
    monkeypatch.setattr(kernels, "WAIT_SECONDS", 0.01)
    assert track_preview(plan, [0], [3], cancelled).n_seeds == 0
