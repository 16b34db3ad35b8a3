"""While streamlines of a run arrive: what the state says is true of what it says it of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hands import CHUNK, MANY, WAIT_MS, Log

from napari_tractography import Tractogram
from napari_tractography.plugin.export.projects import project_of
from napari_tractography.plugin.panel.display.appearance import placed_seeds
from napari_tractography.plugin.session import runs

MIDDLE = np.zeros((1, 3))  # where the two bundles of the cross meet


@pytest.fixture
def arriving(open_model: Any, cross: Any, settle: Any, qtbot: Any, long_runs: None) -> Any:
    """A panel with a result of seed 0; of a long run of seed 7 some is shown."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    panel.set_parameters(n_per_seed=50 * MANY, random_seed=7)
    panel.run()
    qtbot.waitUntil(lambda: panel.session.bundle.arriving is not None, timeout=WAIT_MS)
    return panel


def told(panel: Any) -> tuple[int, str, bool]:
    """Random seed and digest of the result, and whether that is what the layer shows."""
    session = panel.session
    seed = session.state.result_request.parameters.random_seed
    shown = session.streamlines_layer.tractogram
    return seed, session.tractogram.digest(), session.tractogram is shown


def test_a_run_that_is_refused_leaves_the_one_under_way(arriving: Any) -> None:
    run, log = arriving.runs.current, Log(arriving.runs)
    arriving.session.clear_seeds()
    arriving.run()
    assert log.count("failed: There are no seeds") == 1
    assert arriving.runs.current is run
    assert not run.cancelled.is_set()
    assert arriving.cancel_button.isEnabled()


def test_until_a_run_ends_the_result_is_the_one_before(arriving: Any) -> None:
    before = arriving.session.tractogram
    assert before.n_seeds < CHUNK
    assert told(arriving) == (0, before.digest(), False)
    (saved,) = project_of(arriving.bundles)[0].bundles.values()
    assert saved.source.parameters.random_seed == 7  # what is under way,
    assert saved.source.digest == ""  # and not what it gave


def test_a_run_that_another_replaces_leaves_what_is_shown_of_it(
    arriving: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other fails before anything has come."""

    def broken(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        raise RuntimeError("the device is gone")
        yield

    monkeypatch.setattr(runs, "iter_chunks", broken)
    arriving.run()
    settle(arriving)
    assert told(arriving) == (7, arriving.session.streamlines_layer.tractogram.digest(), True)
    assert "the device is gone" in arriving.results.label.text()


def test_a_duplicate_is_of_what_is_shown(arriving: Any) -> None:
    shown = arriving.session.streamlines_layer.tractogram
    arriving.bundles.duplicate()
    assert told(arriving) == (7, shown.digest(), True)


def test_streamlines_that_arrive_have_the_colours_of_their_seeds(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, long_runs: None
) -> None:
    """Their numbers are those of the run that is under way, which has more from each seed."""
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(np.array([[0.0, 0, 0], [8, 5, 0]]))
    panel.run()
    settle(panel)
    panel.set_parameters(n_per_seed=50 * MANY)
    panel.run()
    qtbot.waitUntil(lambda: session.bundle.arriving is not None, timeout=WAIT_MS)
    seeds = placed_seeds(session.bundle, session.streamlines_layer.tractogram)
    panel.runs.cancel()
    assert set(seeds.tolist()) == {0}
