"""Threads of the plugin: what they hold is let go when they are done, the newest work wins."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, is_let_go, tracking_threads

from napari_tractography.errors import TractographyError
from napari_tractography.plugin.background import Background, iterate
from napari_tractography.plugin.session.runs import Run

MANY = 20_000  # streamlines: no run comes to its end


class Large:
    """What is handed to a thread."""


def runs_kept() -> int:
    gc.collect()
    return sum(type(each) is Run for each in gc.get_objects())


def test_runs_that_are_started_and_cancelled_are_let_go(
    open_window: Callable[..., Any], cross: Any, settle: Callable[[Any], None], qtbot: Any
) -> None:
    before = runs_kept()  # of other tests in this process
    panel = open_window(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.set_parameters(n_per_seed=MANY)
    started: list[Run] = []
    panel.runs.started.connect(started.append)
    for wait_ms in (0, 5, 10, 15, 0, 20, 5, 0):
        panel.run()
        qtbot.wait(wait_ms)
        panel.runs.cancel()
    settle(panel)
    qtbot.waitUntil(lambda: not panel.runs.working and not tracking_threads(), timeout=WAIT_MS)
    assert len(started) == 8
    references = [weakref.ref(run) for run in started]
    started.clear()
    assert all(is_let_go(reference) for reference in references)
    assert runs_kept() <= before


def work_of(large: Large) -> str:
    return type(large).__name__


def fails_with(large: Large) -> str:
    raise TractographyError(f"{type(large).__name__} fails.")


def items_of(large: Large) -> Iterator[str]:
    yield type(large).__name__


def test_a_thread_keeps_neither_what_it_is_given_nor_whom_it_calls(qtbot: Any) -> None:
    large, heard, ended = Large(), [], []

    def hear(item: str, _with: Large = large) -> None:
        heard.append(item)

    iterate(partial(items_of, large), hear, lambda: ended.append(True))
    kept = weakref.ref(large)
    del large, hear
    qtbot.waitUntil(lambda: bool(ended), timeout=WAIT_MS)
    assert heard == ["Large"]
    assert is_let_go(kept)


@pytest.mark.parametrize(
    ("work", "wanted"),
    [
        pytest.param(work_of, "Large", id="done"),
        pytest.param(fails_with, "Large fails.", id="failed"),
    ],
)
def test_work_in_the_background_keeps_nothing(work: Any, wanted: str, qtbot: Any) -> None:
    background, large, heard = Background(), Large(), []
    background.failed.connect(heard.append)
    background.begin("Counting", lambda _advance, large=large: work(large), heard.append)
    kept = weakref.ref(large)
    del large
    assert background.is_busy
    qtbot.waitUntil(lambda: not background.is_busy, timeout=WAIT_MS)
    assert heard == [wanted]
    assert is_let_go(kept)


def test_a_defect_is_logged_in_full_and_told_in_a_sentence(qtbot: Any, caplog: Any) -> None:
    background, heard = Background(), []
    background.failed.connect(heard.append)
    background.begin("Counting", lambda _advance: 1 / 0, heard.append)
    qtbot.waitUntil(lambda: not background.is_busy, timeout=WAIT_MS)
    assert heard == ["Counting failed: division by zero."]
    assert "Traceback" in caplog.text


def test_the_newest_work_wins_and_what_is_cancelled_ends(qtbot: Any) -> None:
    background, gate, done, ended = Background(), threading.Event(), [], []
    background.ended.connect(lambda: ended.append(True))

    def work(name: str, advance: Any) -> str:
        assert gate.wait(60)
        advance(0.5)
        return name

    for name in ("first", "second"):
        background.begin("Waiting", partial(work, name), done.append)
    gate.set()
    qtbot.waitUntil(lambda: not background.is_busy, timeout=WAIT_MS)
    assert (done, len(ended)) == (["second"], 1)
    gate.clear()
    background.begin("Waiting", partial(work, "third"), done.append)
    background.cancel()
    gate.set()
    assert not background.is_busy
    qtbot.waitUntil(lambda: not tracking_threads(), timeout=WAIT_MS)
    assert (done, len(ended)) == (["second"], 2)
