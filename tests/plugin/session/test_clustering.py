"""Colours by cluster in the panel: found beside the window, kept while previews come and go."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest
from hands import WAIT_MS, is_let_go

from napari_tractography.plugin.panel.display.appearance import CLUSTER, VOLUME
from napari_tractography.plugin.session import clustering as module
from napari_tractography.plugin.streamlines.colours import UNKNOWN
from napari_tractography.streamlines.tractogram import Tractogram

GREY = list(UNKNOWN[:3])


def two_bundles(n=6, shift_mm=0.0):
    """2 n streamlines along x: even ones around y = 0, odd ones around y = 40."""
    x = np.linspace(-20, 20, 30)
    rows = [40.0 * (i % 2) + 0.1 * i + shift_mm for i in range(2 * n)]
    return Tractogram.from_streamlines(
        [np.stack([x, np.full(30, y), np.zeros(30)], axis=1) for y in rows]
    )


@pytest.fixture
def panel(open_model, cross):
    """A panel without a window whose result are the two bundles."""
    panel = open_model(cross)
    panel.session.ensure_streamlines_layer().tractogram = two_bundles()
    return panel


def control(panel, name):
    return next(c for c in panel.appearance.controls if c.name == name)


def colours(panel):
    """The colour of each streamline."""
    layer = panel.session.streamlines_layer
    first = layer.tractogram.offsets[:-1]
    return [tuple(c) for c in np.round(layer.colours.rgba[first, :3], 3).tolist()]


@pytest.fixture
def rest(panel, qtbot):
    """Wait until colours have come to rest."""
    clustering = panel.appearance.clustering
    return lambda: qtbot.waitUntil(lambda: not clustering.is_busy, timeout=WAIT_MS)


def test_bundles_get_a_colour_each_and_a_legend(panel, rest):
    control(panel, "colour_by").value = CLUSTER
    rest()
    found = colours(panel)
    assert found[::2] == [found[0]] * 6
    assert found[1::2] == [found[1]] * 6
    assert found[0] != found[1]
    legend = panel.appearance.legend.text()
    assert "Cluster 1: 6 streamlines" in legend
    assert "Cluster 2: 6 streamlines" in legend
    control(panel, "cluster_mm").value = 100.0
    rest()
    assert len(set(colours(panel))) == 1


def test_the_work_is_done_in_another_thread(panel, rest, monkeypatch):
    threads = []
    cluster = module.cluster

    def noted(*args, **kwargs):
        threads.append(threading.current_thread())
        return cluster(*args, **kwargs)

    monkeypatch.setattr(module, "cluster", noted)
    control(panel, "colour_by").value = CLUSTER
    rest()
    assert threads
    assert threading.main_thread() not in threads


def test_few_new_streamlines_keep_the_colours_at_once(panel, rest):
    control(panel, "colour_by").value = CLUSTER
    rest()
    before = colours(panel)
    layer = panel.session.streamlines_layer
    layer.tractogram = two_bundles(shift_mm=1.0)
    assert colours(panel) == before
    rest()
    assert colours(panel) == before


def test_many_new_streamlines_are_grey_until_their_clusters_are_found(panel, rest, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 10)
    control(panel, "colour_by").value = CLUSTER
    rest()
    panel.session.streamlines_layer.tractogram = two_bundles(n=20)
    assert set(colours(panel)) == {tuple(np.round(GREY, 3))}
    rest()
    assert len(set(colours(panel))) == 2
    assert tuple(np.round(GREY, 3)) not in colours(panel)


def test_edited_streamlines_keep_their_colours(panel, rest, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 0)
    control(panel, "colour_by").value = CLUSTER
    rest()
    before = colours(panel)
    layer = panel.session.streamlines_layer
    layer.selected = [0, 1, 2]
    layer.editor.delete_selected()
    assert colours(panel) == before[3:]
    layer.editor.undo()
    assert colours(panel) == before
    assert not panel.appearance.clustering.is_busy


def test_what_is_chosen_meanwhile_stays(panel, rest):
    control(panel, "colour_by").value = CLUSTER
    control(panel, "colour_by").value = "length"
    rest()
    layer = panel.session.streamlines_layer
    assert layer.colour_by == "length"
    control(panel, "colour_by").value = CLUSTER
    layer.colour_by = "direction"  # by napari's own control
    rest()
    assert layer.colour_by == "direction"


def test_a_volume_chosen_before_and_after_colours_again(panel, rest):
    panel.appearance.volume_choice.value = panel.session.fod_layer
    control(panel, "colour_by").value = VOLUME
    by_volume = colours(panel)
    control(panel, "colour_by").value = CLUSTER
    rest()
    assert colours(panel) != by_volume
    control(panel, "colour_by").value = VOLUME
    assert colours(panel) == by_volume


def test_clustering_that_fails_says_so_once_until_something_changes(
    panel, rest, monkeypatch, notes, qtbot
):
    calls = []
    cluster = module.cluster

    def failing(drawn, **kwargs):
        calls.append(kwargs["distance_mm"])
        raise MemoryError("no room for clusters")

    monkeypatch.setattr(module, "cluster", failing)
    control(panel, "colour_by").value = CLUSTER
    rest()
    qtbot.wait(3 * module.DELAY_MS)
    assert len(calls) == len(notes) == 1
    assert notes[0].startswith("warning: Clustering failed: no room")
    assert set(colours(panel)) == {tuple(np.round(GREY, 3))}
    panel.session.streamlines_layer.tractogram = two_bundles(shift_mm=1.0)
    rest()
    assert len(calls) == len(notes) == 2
    monkeypatch.setattr(module, "cluster", cluster)
    control(panel, "cluster_mm").value = 12.0
    rest()
    assert len(set(colours(panel))) == 2
    assert len(notes) == 2


def test_a_layer_that_is_removed_is_let_go_of(panel, rest):
    control(panel, "colour_by").value = CLUSTER
    gone = weakref.ref(panel.session.streamlines_layer)
    panel.viewer.layers.remove(panel.session.streamlines_layer)
    panel.bundles.history.forget()  # undo would bring it back
    rest()
    assert is_let_go(gone)
    fresh = panel.session.ensure_streamlines_layer()
    fresh.tractogram = two_bundles()
    rest()
    assert len(set(colours(panel))) == 2
