"""Hours at the panel, in short: as much is held after many moves of the hand as after a few."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from hands import CHUNK, FEW, WAIT_MS

from napari_tractography.runtime.buffers import pool

pytestmark = pytest.mark.slow

# Of these there are as many as are shown, however long a person plays, but for steps of undo.
COUNTED = {"Run", "Request", "Tractogram", "Plan", "Streamlines", "DrawnSubset", "QTimer"}
SLACK_BYTES = 1 << 20  # the odd cache of a library; a run's streamlines are ten times as much


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every byte that is allocated from here on counts, and none is used again.

    A block that waits from an earlier run may be twice as large as what it is used for, and nobody
    counted it: how much is held would depend on which runs met.
    """
    gc.collect()
    monkeypatch.setattr(pool, "_limit", 0)
    monkeypatch.setattr(pool, "_waiting", deque())
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> tuple[Counter[str], int, int]:
    """Objects by class, threads, and bytes that Python and NumPy hold."""
    gc.collect()
    names = Counter(type(each).__name__ for each in gc.get_objects())
    counted = Counter({name: names[name] for name in COUNTED})
    return counted, psutil.Process().num_threads(), tracemalloc.get_traced_memory()[0]


def assert_no_more(
    play: Callable[[int], None], panel: Any, settle: Callable[[Any], None], few: int, many: int
) -> None:
    def played(n: int) -> tuple[Counter[str], int, int]:
        play(n)
        settle(panel)
        # How many runs its steps hold depends on how many arrived between two moves.
        panel.session.document.forget()
        return held()

    before, threads, memory = played(few)
    assert before["Tractogram"]
    after, more_threads, more_memory = played(many)
    assert after <= before + Counter(dict.fromkeys(COUNTED, 2))  # the two ends of a run
    assert more_threads <= threads + 1
    assert more_memory < memory + SLACK_BYTES


@pytest.mark.usefixtures("traced")
def test_live_mode_holds_no_more_after_many_moves(
    open_model: Any, cross: Any, settle: Callable[[Any], None], qtbot: Any
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(np.zeros((1, 3)))
    panel.runs.settle.setInterval(5)
    panel.live.setChecked(True)

    def play(n: int) -> None:
        for k in range(n):
            session.move_seed(0, np.array([0.0, 0.0, 0.1 * (k % 30)]))
            qtbot.wait(2)
            if k % 10 == 9:
                session.released.emit()
                settle(panel)

    assert_no_more(play, panel, settle, 30, 150)


@pytest.mark.usefixtures("traced")
def test_runs_that_are_cancelled_hold_no_more_after_many(
    open_model: Any, cross: Any, settle: Callable[[Any], None], qtbot: Any
) -> None:
    """Run and Cancel, sometimes before anything has arrived and sometimes after."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    told: list[str] = []
    panel.runs.cancelled.connect(lambda _run: told.append("cancelled"))

    def play(n: int) -> None:
        panel.set_parameters(n_per_seed=20 * CHUNK)
        for k in range(n):
            panel.run()
            qtbot.wait(k % 5)
            panel.runs.cancel()
        qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
        settle(panel)
        # What had arrived of a run is kept, more or less of it: the last one goes to its end.
        panel.set_parameters(n_per_seed=FEW)
        panel.run()
        settle(panel)
        assert len(panel.session.streamlines_layer.tractogram) <= FEW

    assert_no_more(play, panel, settle, 10, 20)
    assert told
