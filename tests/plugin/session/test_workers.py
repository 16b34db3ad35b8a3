"""Threads of the plugin: what they were given is let go when they are done, in a window too.

napari lists all workers of a window for as long as it is there.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, is_let_go, tracking_threads

from napari_tractography.plugin.session import workers
from napari_tractography.plugin.session.runs import Run

MANY = 20_000  # streamlines: no run comes to its end


class Large:
    """What is handed to a worker."""


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
    qtbot.waitUntil(lambda: not panel.runs.n_workers and not tracking_threads(), timeout=WAIT_MS)
    assert len(started) == 8
    references = [weakref.ref(run) for run in started]
    started.clear()
    assert all(is_let_go(reference) for reference in references)
    assert runs_kept() <= before


def items_of(large: Large) -> Iterator[str]:
    yield type(large).__name__


def fails_with(large: Large) -> None:
    raise RuntimeError(type(large).__name__)


@pytest.mark.parametrize(
    ("begin", "work", "signal"),
    [
        pytest.param(workers.call, lambda large: type(large).__name__, "returned", id="call"),
        pytest.param(workers.call, fails_with, "errored", id="failure"),
        pytest.param(workers.iterate, items_of, "yielded", id="iterate"),
    ],
)
def test_a_worker_keeps_neither_what_it_is_given_nor_whom_it_calls(
    begin: Any, work: Any, signal: str, open_window: Callable[..., Any], qtbot: Any
) -> None:
    open_window()
    large, heard, ended = Large(), [], []

    def hear(told: Any, _with: Large = large) -> None:
        heard.append(str(told))

    begin(partial(work, large), **{signal: hear}, finished=lambda: ended.append(True))
    kept = weakref.ref(large)
    del large, hear
    qtbot.waitUntil(lambda: bool(ended), timeout=WAIT_MS)
    assert heard == ["Large"]
    assert is_let_go(kept)
