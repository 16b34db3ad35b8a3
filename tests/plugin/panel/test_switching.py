"""From bundle to bundle: what is done is the same among few and many, and all is shown."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from magicgui.widgets import ComboBox
from napari._vispy import canvas

from napari_tractography.model.phantoms import phantom_seeds_mm
from napari_tractography.plugin.document import PlacedSeeds, RegionState, Snapshot
from napari_tractography.plugin.space.layer_list import NO_SEARCH

ONE, OTHER = phantom_seeds_mm("cross")


@pytest.fixture
def open_bundles(open_model: Any, cross: Any, settle: Any) -> Any:
    """Return a panel with so many bundles, each with a seed, a sphere and streamlines."""

    def open_them(n: int) -> Any:
        panel = open_model(cross)
        panel.session.add_seeds_mm(ONE[None])
        panel.run()
        settle(panel)
        tracked, new_id = panel.session.state, panel.session.document.new_id
        panel.bundles.replace_all(
            [
                dataclasses.replace(
                    tracked,
                    name=f"{number}",
                    seeds=PlacedSeeds(ONE[None] + number / n, tracked.seeds.own),
                    regions=(
                        RegionState(
                            new_id(), f"sphere {number}", ("include", "exclude")[number % 2],
                            spheres=np.array([[*OTHER, 4.0 + number / n]]),
                        ),
                    ),
                )
                for number in range(n)
            ]
        )  # fmt: skip
        for number in (*range(n), 0):  # each has been shown
            panel.bundle_list.activate(number)
        return panel

    return open_them


def counted(panel: Any, number: int) -> tuple[Counter[str], Counter[str], int]:
    """What the list of layers and each layer tells while another row is selected.

    And how often choices were looked through.
    """
    listed, heard = Counter[str](), Counter[str]()
    looks, reset = list[Any](), ComboBox.reset_choices
    layers = panel.viewer.layers
    layers.events.connect(lambda event: listed.update([event.type]))
    for layer in layers:
        for name in ("border_color", "face_color", "size", "features", "scale", "set_data"):
            if name in layer.events:
                layer.events[name].connect(lambda event: heard.update([event.type]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ComboBox, "reset_choices", lambda box, *args: looks.append(box) or reset(box, *args)
        )
        panel.bundle_list.activate(number)
    return listed, heard, len(looks)


def test_a_switch_touches_as_many_layers_among_many_bundles_as_among_few(
    open_bundles: Any,
) -> None:
    few, many = (counted(open_bundles(n), 2) for n in (3, 12))
    assert few == many
    listed, heard, n_looks = few
    assert listed == {"thumbnail": 2, "name": 1, "renamed": 1}  # of the seeds and of the sphere
    assert heard == {"set_data": 2, "features": 2}  # napari tells of features with all data
    assert n_looks == 1  # for values of streamlines


def test_spheres_of_another_role_are_drawn_once(open_bundles: Any) -> None:
    panel = open_bundles(2)
    _, heard, _ = counted(panel, 1)
    assert heard == {"set_data": 2, "features": 2}  # with all else
    panel.regions.table.cellWidget(0, 1).setCurrentText("stop")
    assert heard["face_color"] == 1


def test_a_switch_asks_no_step_before_it(
    open_bundles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = open_bundles(3)
    for name in "abcdefgh":
        panel.bundles.rename(panel.bundles.active, name)
    calls, replace = [], Snapshot.replace
    monkeypatch.setattr(
        Snapshot, "replace", lambda *args, **kwargs: calls.append(1) or replace(*args, **kwargs)
    )
    panel.bundle_list.activate(1)
    assert len(calls) <= 1


def test_rows_of_regions_are_used_again_for_those_of_another_bundle(open_bundles: Any) -> None:
    panel = open_bundles(3)
    table = panel.regions.table
    table.selectRow(0)
    widgets = [table.cellWidget(0, column) for column in (1, 2)]
    panel.bundle_list.activate(1)
    assert [table.cellWidget(0, column) for column in (1, 2)] == widgets
    assert not table.selectedItems()
    role, size = widgets
    assert (table.item(0, 0).text(), role.currentText()) == ("sphere 1", "exclude")
    assert size.value() == pytest.approx(4.3)
    size.setValue(7.0)
    role.setCurrentText("stop")
    before, changed, _ = (bundle.state.regions[0] for bundle in panel.bundles.bundles)
    assert (changed.role, changed.spheres[0, 3]) == ("stop", 7.0)
    assert (before.role, before.spheres[0, 3]) == ("include", 4.0)


def test_rows_of_another_kind_are_made_again(open_bundles: Any) -> None:
    panel = open_bundles(2)
    panel.session.regions.add_painting()
    panel.bundle_list.activate(1)
    assert panel.regions.table.rowCount() == 1
    panel.bundle_list.activate(0)
    names = [panel.regions.table.item(row, 0).text() for row in range(2)]
    assert names == ["sphere 0", "Region (empty)"]
    assert panel.regions.table.cellWidget(1, 2).text() == "any label"


def test_a_sphere_has_the_colour_of_its_role_in_each_bundle(open_bundles: Any) -> None:
    panel = open_bundles(4)
    for number in (1, 2, 0, 3):
        panel.bundle_list.activate(number)
        (entry,) = panel.session.regions.entries
        assert entry.layer.colour.startswith(entry.colour)
        assert entry.layer.border_color[0] == pytest.approx(
            [int(entry.colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] + [1.0]
        )
        assert entry.layer.face_color[0, :3] == pytest.approx(entry.layer.border_color[0, :3])


def test_values_that_a_seed_has_of_its_own_stay_in_their_bundle(open_bundles: Any) -> None:
    panel = open_bundles(3)
    panel.session.seeds.set_own([0], "n_per_seed", 7)
    for _ in range(2):
        panel.bundle_list.activate(1)
        layer = panel.session.seeds.layer
        assert np.isnan(layer.features["n_per_seed"]).all()
        assert np.isnan(layer.feature_defaults["n_per_seed"]).all()
        panel.bundle_list.activate(0)
        assert panel.session.seeds.layer.features["n_per_seed"].tolist() == [7.0]


def test_controls_follow_the_layer_of_the_active_bundle_alone(open_bundles: Any) -> None:
    panel = open_bundles(2)
    first, second = (bundle.streamlines_layer for bundle in panel.bundles.bundles)
    panel.bundle_list.activate(1)
    first.opacity = 0.25  # in napari's own controls
    assert panel.appearance.style["opacity"] == 1.0
    second.opacity = 0.5
    assert panel.appearance.style["opacity"] == 0.5
    assert panel.bundles.bundles[1].state.style["opacity"] == 0.5


def test_a_row_shows_its_name_again_where_what_was_typed_is_none(open_bundles: Any) -> None:
    panel = open_bundles(2)
    item = panel.bundle_list.table.item(1, 2)
    item.setText("  ")
    assert item.text() == "1"


@pytest.mark.skipif(sys.platform == "win32", reason="drivers of Windows need the search")
def test_no_garbage_is_searched_where_a_bundle_has_fewer_regions(open_bundles: Any) -> None:
    panel = open_bundles(2)
    panel.session.regions.add_sphere(np.zeros(3), 4.0)
    before, searchers = canvas.gc, list[Any]()
    panel.viewer.layers.events.removed.connect(lambda _event: searchers.append(canvas.gc))
    panel.bundle_list.activate(1)
    assert searchers == [NO_SEARCH]
    assert canvas.gc is before
