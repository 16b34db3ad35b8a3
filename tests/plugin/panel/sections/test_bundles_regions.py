"""Regions of bundles: the active one's are shown, a copy has its own, undo brings them back."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from hands import is_let_go

from napari_tractography.plugin.session.region_layers import Entry


def sphere(panel: Any, at_zyx: tuple[float, float, float] = (0.0, 4.0, 8.0)) -> Entry:
    """A sphere of 4 mm at a display position."""
    made: Entry = panel.session.regions.add_sphere(np.array(at_zyx), 4.0, "exclude")
    return made


def painted(panel: Any, value: int = 1) -> Entry:
    """A painted region of some voxels."""
    made: Entry = panel.session.regions.add_painting("stop")
    made.layer.data[2:5, 3:7, 4:8] = value
    made.layer.refresh()
    panel.session.regions.frozen()  # takes note of what no event told
    return made


def shown(panel: Any) -> list[str]:
    """Names of the regions in the table."""
    table = panel.regions.table
    return [table.item(row, 0).text() for row in range(table.rowCount())]


def test_a_copy_has_regions_of_its_own(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    session, regions = panel.session, panel.session.regions
    session.add_seed(np.zeros(3))
    first = sphere(panel), painted(panel)
    regions.choose_between(*first)
    request = session.request()
    panel.bundles.duplicate()
    copied = regions.entries
    assert [entry.role for entry in copied] == ["exclude", "stop"]
    assert not {entry.layer for entry in copied} & {entry.layer for entry in first}
    assert session.request().gives_the_same_as(request)
    assert regions.between == tuple(copied)
    regions.set_radius(copied[0], 9.0)
    copied[1].layer.data[:] = 0
    copied[1].layer.refresh()
    assert not session.request().gives_the_same_as(request)
    panel.bundles.activate(panel.bundles.bundles[0])
    assert session.request().gives_the_same_as(request)
    np.testing.assert_array_equal(first[1].layer.data[2:5, 3:7, 4:8], 1)


def test_undo_of_a_copy_takes_its_layers_away(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    first = sphere(panel), painted(panel)
    before = list(panel.viewer.layers)
    panel.bundles.duplicate()
    copied = [entry.layer for entry in panel.session.regions.entries]
    panel.session.document.undo()
    assert list(panel.viewer.layers) == before
    assert [entry.layer.visible for entry in first] == [True, True]
    panel.session.document.redo()
    assert [entry.layer for entry in panel.session.regions.entries] == copied
    assert all(layer in panel.viewer.layers and layer.visible for layer in copied)


def test_regions_of_the_active_bundle_alone_are_shown(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    layers = panel.viewer.layers
    one, closed = sphere(panel), painted(panel)
    opened = panel.viewer.add_labels(np.ones(closed.layer.data.shape, np.uint8), name="opened")
    panel.session.regions.add_labels(opened)
    closed.layer.visible = False  # by a person
    first = panel.bundles.active
    second = panel.bundles.add()
    other = sphere(panel, (0.0, -4.0, -8.0))
    assert [one.layer.visible, closed.layer.visible, other.layer.visible] == [False, False, True]
    assert opened.visible  # somebody's labels are no mere region
    assert shown(panel) == ["Sphere [1]"]
    assert panel.session.regions.spheres == [other.layer]
    for _ in range(2):
        panel.bundles.activate(first)
        assert [one.layer.visible, closed.layer.visible, other.layer.visible] == [
            True, False, False,
        ]  # fmt: skip
        assert shown(panel) == ["Sphere", "Region", "opened"]
        panel.bundles.activate(second)
        assert [one.layer.visible, closed.layer.visible, other.layer.visible] == [
            False, False, True,
        ]  # fmt: skip
    assert {one.layer, closed.layer, other.layer} <= set(layers)
    assert panel.session.document.last == "Add region Sphere [1]"  # switching is no step


@pytest.mark.parametrize("active", ["deleted", "other"])
def test_a_deleted_bundle_takes_its_regions_away_and_undo_brings_them_back(
    open_model: Any, cross: Any, active: str
) -> None:
    panel = open_model(cross)
    layers, document = panel.viewer.layers, panel.session.document
    kept = sphere(panel)
    first = panel.bundles.active
    second = panel.bundles.add()
    ball, paint = sphere(panel, (0.0, -4.0, -8.0)), painted(panel)
    voxels = paint.layer.data.copy()
    if active == "other":
        panel.bundles.activate(first)
    panel.bundles.remove(second)
    assert ball.layer not in layers
    assert paint.layer not in layers
    assert kept.layer in layers
    assert kept.layer.visible
    document.undo()
    panel.bundles.activate(panel.bundles.bundles[1])
    assert panel.session.regions.entries == [ball, paint]
    assert not kept.layer.visible
    for entry in (ball, paint):
        assert entry.layer in layers
        assert entry.layer.visible
    np.testing.assert_array_equal(paint.layer.data, voxels)
    roles = [region.role for _, region in panel.session.regions.frozen()]
    assert roles == ["exclude", "stop"]
    document.redo()
    assert panel.bundles.active.id == first.id
    assert ball.layer not in layers
    assert kept.layer.visible


def test_the_layers_of_a_deleted_bundle_are_let_go_of_with_its_steps(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    panel.bundles.add()
    entry = painted(panel)
    gone = weakref.ref(entry.layer)
    panel.bundles.remove(panel.bundles.active)
    panel.session.document.undo()
    assert entry.layer in panel.viewer.layers  # as long as there is a way back
    panel.session.document.redo()
    del entry
    panel.viewer.layers.selection.active = panel.session.fod_layer  # napari knows the last one
    panel.session.document.forget()
    assert is_let_go(gone)


def test_a_region_that_is_renamed_goes_by_that_name_through_undo(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    entry = sphere(panel)
    entry.layer.name = "Pons"
    panel.session.regions.set_radius(entry, 7.0)
    panel.session.document.undo()
    assert shown(panel) == [entry.layer.name] == ["Pons"]
    assert panel.session.document.last == "Rename Sphere to Pons"
    panel.session.document.undo()
    assert shown(panel) == [entry.layer.name] == ["Sphere"]


def test_several_regions_are_removed_in_one_step(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    entries = [sphere(panel), painted(panel)]
    panel.session.regions.choose_between(*entries)
    panel.regions.table.selectAll()
    panel.regions.remove.click()
    assert panel.session.regions.entries == []
    assert panel.session.document.last == "Remove 2 regions"
    panel.session.document.undo()
    assert panel.session.regions.entries == entries
    assert panel.session.regions.between == tuple(entries)


def test_a_layer_that_is_removed_takes_its_regions_out_of_every_bundle(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    regions, layers = panel.session.regions, panel.viewer.layers
    shape = panel.session.fod_layer.data.shape
    opened = panel.viewer.add_labels(np.ones(shape, np.uint8), name="opened")
    first = regions.add_labels(opened)
    panel.bundles.add()
    second, ball = regions.add_labels(opened), sphere(panel)
    regions.choose_between(second, ball)
    layers.remove(opened)
    assert [regions.entries, regions.between] == [[ball], None]
    panel.bundles.activate(panel.bundles.bundles[0])
    assert regions.entries == []
    panel.session.document.undo()
    assert opened in layers
    assert regions.entries in ([first], [second, ball])


def test_closing_a_layer_that_nothing_is_tracked_with_changes_nothing(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    other = panel.viewer.add_image(np.zeros((4, 4, 4)))
    told: list[str] = []
    panel.session.changed.connect(lambda: told.append("changed"))
    panel.viewer.layers.remove(other)
    assert told == []
    panel.mask_choice.value = mask = panel.viewer.add_labels(
        np.ones(panel.session.fod_layer.data.shape, np.uint8), name="mask"
    )
    told.clear()
    panel.viewer.layers.remove(mask)
    assert told
    assert panel.session.mask_layer is None
