"""Runs that are cancelled: what had come of them is kept, and nothing else changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import MANY, WAIT_MS, Log, save_fod, tracking_threads

from napari_tractography import Project, Region, Tractogram, track
from napari_tractography.errors import TractographyError
from napari_tractography.model.phantoms import phantom_seeds_mm
from napari_tractography.plugin.panel.results import ENDED_EARLY
from napari_tractography.plugin.session import runs

MIDDLE = np.zeros((1, 3))  # where the two bundles of the cross meet


def end_late(patch: pytest.MonkeyPatch) -> threading.Event:
    """Let runs end when this is set and no sooner, as joining millions of streamlines takes."""
    gate, iter_chunks = threading.Event(), runs.iter_chunks

    def ends_late(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        try:
            yield from iter_chunks(*args, **kwargs)
        finally:
            gate.wait(60)

    patch.setattr(runs, "iter_chunks", ends_late)
    return gate


@pytest.fixture
def late(long_runs: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What is set for runs to end that were cancelled."""
    with monkeypatch.context() as patch:
        gate = end_late(patch)
        yield gate
    gate.set()


def run_until_some_arrived(panel: Any, qtbot: Any) -> None:
    panel.set_parameters(n_per_seed=50 * MANY)
    panel.run()
    bundle = panel.session.bundle
    qtbot.waitUntil(lambda: bundle.arriving is not None, timeout=WAIT_MS)


def shows_its_result(bundle: Any) -> bool:
    """Whether the layer of a bundle shows the streamlines that the document has of it."""
    layer = bundle.streamlines_layer
    return layer is not None and layer.tractogram is bundle.tractogram


@pytest.mark.usefixtures("long_runs")
def test_cancel_keeps_what_has_arrived_and_nothing_follows(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=50 * MANY)
    log = Log(panel.runs)
    panel.run()
    qtbot.waitUntil(lambda: log.count("advanced") >= 3, timeout=WAIT_MS)
    advanced = log.count("advanced")
    panel.runs.cancel()
    assert log.events[-1] == "cancelled"  # at once
    assert panel.runs.current is None
    qtbot.waitUntil(lambda: log.count("kept") == 1, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: not tracking_threads() and not panel.runs.working, timeout=WAIT_MS)
    assert log.count("advanced") == advanced
    assert log.count("finished") == 0
    kept = session.tractogram
    assert 0 < kept.n_seeds < 50 * MANY
    assert session.streamlines_layer.tractogram is kept
    whole = track(cross, panel.session.request().seeds()[: kept.n_seeds], session.parameters)
    assert kept.digest() == whole.digest()  # nothing is missing in the middle


def test_cancel_before_anything_arrived_keeps_the_result_before(
    open_model: Any, cross: Any, settle: Any, monkeypatch: pytest.MonkeyPatch, qtbot: Any
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    before = session.tractogram
    gate = threading.Event()

    def slow(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        gate.wait(60)
        yield from ()

    monkeypatch.setattr(runs, "iter_chunks", slow)
    panel.run()
    panel.runs.cancel()
    gate.set()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    assert session.tractogram is before
    assert session.streamlines_layer.tractogram is before


def test_a_run_that_only_waited_leaves_the_result_before(
    open_model: Any, cross: Any, settle: Any, monkeypatch: pytest.MonkeyPatch, qtbot: Any
) -> None:
    """For workers of a cluster or for the engine: chunks without seeds come meanwhile."""
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    before, log = session.tractogram, Log(panel.runs)
    came = threading.Event()

    def waiting(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        for _ in range(60_000):
            yield Tractogram.empty()
            came.set()
            time.sleep(0.01)

    monkeypatch.setattr(runs, "iter_chunks", waiting)
    monkeypatch.setattr(runs, "REDRAW_SECONDS", 0.0)
    panel.run()
    qtbot.waitUntil(came.is_set, timeout=WAIT_MS)
    qtbot.wait(50)
    assert len(session.streamlines_layer.tractogram) == len(before)
    panel.cancel_button.click()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    assert log.events == ["started", "cancelled"]
    assert session.tractogram is before
    assert session.streamlines_layer.tractogram is before


def test_a_run_that_was_cancelled_as_it_began_does_nothing(
    open_model: Any, cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    begun: list[Any] = []
    monkeypatch.setattr(runs, "iter_chunks", lambda *args, **kwargs: begun.append(args))
    run = runs.Run(panel.session.request(), panel.session.bundle)
    run.cancelled.set()
    assert list(runs.work(run)) == []
    assert run.ended.is_set()
    assert begun == []


@pytest.mark.usefixtures("long_runs")
def test_what_is_kept_of_a_cancelled_run_comes_in_place_of_nothing_newer(
    open_model: Any, cross: Any, monkeypatch: pytest.MonkeyPatch, qtbot: Any
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=MANY)
    log = Log(panel.runs)
    with monkeypatch.context() as patch:
        gate = end_late(patch)
        panel.run()
        qtbot.waitUntil(lambda: log.count("advanced") >= 1, timeout=WAIT_MS)
    panel.runs.cancel()
    panel.set_parameters(n_per_seed=25)
    panel.run()
    qtbot.waitUntil(lambda: log.count("finished") == 1, timeout=WAIT_MS)
    gate.set()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    assert log.count("kept") == 0
    assert session.tractogram.n_seeds == 25
    assert not panel.runs.is_busy


def test_what_has_arrived_is_kept_of_each_bundle_whose_run_is_cancelled(
    open_model: Any, cross: Any, qtbot: Any, late: threading.Event
) -> None:
    """Of the first, which the run of the second cancels, though its end comes after both."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    log = Log(panel.runs)
    run_until_some_arrived(panel, qtbot)
    panel.bundles.add("second")
    panel.session.add_seeds_mm(MIDDLE)
    run_until_some_arrived(panel, qtbot)
    panel.cancel_button.click()
    assert panel.runs.is_busy
    late.set()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    assert log.count("kept") == 2
    assert not panel.runs.is_busy
    for bundle in panel.bundles.bundles:
        assert shows_its_result(bundle)
        panel.bundles.activate(bundle)
        panel.results.refresh_notice()
        assert panel.results.notice.text() == ENDED_EARLY


def test_a_bundle_that_is_deleted_before_the_end_of_its_run_comes_back_with_its_result(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, late: threading.Event
) -> None:
    """With what it had before that run."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    late.set()
    panel.run()
    settle(panel)
    late.clear()
    bundle, before = panel.session.bundle, panel.session.tractogram
    run_until_some_arrived(panel, qtbot)
    panel.runs.cancel()
    panel.session.delete(bundle)
    assert not panel.runs.is_busy
    late.set()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    panel.session.document.undo()
    assert bundle.tractogram is before
    assert shows_its_result(bundle)
    assert bundle.streamlines_layer in panel.viewer.layers


def test_a_run_that_fails_after_it_was_cancelled_is_kept_and_told(
    open_model: Any,
    cross: Any,
    monkeypatch: pytest.MonkeyPatch,
    qtbot: Any,
    late: threading.Event,
    notes: list[str],
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    ends_late = runs.iter_chunks

    def fails_late(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        try:
            yield from ends_late(*args, **kwargs)
        finally:
            raise TractographyError("the device is gone")

    monkeypatch.setattr(runs, "iter_chunks", fails_late)
    run_until_some_arrived(panel, qtbot)
    bundle = panel.session.bundle
    panel.runs.cancel()
    late.set()
    qtbot.waitUntil(lambda: not panel.runs.working, timeout=WAIT_MS)
    assert not panel.runs.is_busy
    assert shows_its_result(bundle)
    assert len(bundle.tractogram) > 0
    assert panel.results.label.text() == "the device is gone"
    assert "error: the device is gone" in notes
    panel.results.refresh_notice()
    assert panel.results.notice.text() == ENDED_EARLY
    panel.session.document.undo()  # the run
    assert bundle.tractogram is bundle.streamlines_layer is None


def two_seeds(panel: Any) -> None:
    panel.session.add_seeds_mm(phantom_seeds_mm("cross"))
    panel.set_parameters(n_per_seed=10 * MANY)


def whole_fod(panel: Any) -> None:
    panel.set_parameters(source="whole FOD", n_total=20 * MANY)


def accepted(panel: Any) -> None:
    panel.set_parameters(source="whole FOD", counted="accepted", n_total=20 * MANY)


def between(panel: Any) -> None:
    for x in (-6.0, 6.0):
        panel.session.regions.add_region(Region.sphere((x, 0, 0), 3.0, "include"))
    panel.set_parameters(source="between regions", n_total=2 * MANY)


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize("start", [two_seeds, whole_fod, accepted, between])
def test_what_is_kept_of_a_cancelled_run_is_saved_as_what_it_is(
    start: Any, open_model: Any, cross: Any, qtbot: Any, tmp_path: Path, notes: list[str]
) -> None:
    """A project gives the streamlines that had arrived: without a screen, in the window, again."""
    panel = open_model()
    panel.data.add_fod(save_fod(cross, tmp_path / "fod.nii.gz"))
    start(panel)
    log = Log(panel.runs)
    panel.run()
    qtbot.waitUntil(lambda: log.count("advanced") >= 3, timeout=WAIT_MS)
    panel.runs.cancel()
    qtbot.waitUntil(lambda: log.count("kept") == 1, timeout=WAIT_MS)
    panel.results.refresh_notice()
    assert panel.results.notice.text() == ENDED_EARLY
    seen = panel.session.tractogram.digest()
    path, again_path = tmp_path / "study.tracts.json", tmp_path / "again.tracts.json"
    assert panel.project.save(path)
    (bundle,) = Project.load(path).bundles.values()
    assert bundle.tractogram().digest() == seen
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert "1 of 1 bundle has the digest" in notes[-1]
    assert again.session.streamlines_layer.tractogram.digest() == seen
    again.results.refresh_notice()
    assert again.results.notice.text() == ("" if start is between else ENDED_EARLY)
    assert again.project.save(again_path)
    (bundle,) = Project.load(again_path).bundles.values()
    assert bundle.tractogram().digest() == seen
    assert bundle.is_proven
