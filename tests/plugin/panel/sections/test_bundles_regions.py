"""Regions of bundles: the active one's are shown, a copy has its own, undo brings them back."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from hands import is_let_go
from napari.layers import Labels

from napari_tractography.plugin.layers.region_entries import Entry
from napari_tractography.plugin.layers.spheres import Spheres


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
    assert session.request().gives_the_same_as(request)
    assert session.state.between == tuple(entry.id for entry in copied)
    regions.set_radius(copied[0], 9.0)
    copied[1].layer.data[:] = 0
    copied[1].layer.refresh()
    assert not session.request().gives_the_same_as(request)
    panel.bundles.activate(panel.bundles.bundles[0])
    assert regions.entries == list(first)
    assert session.request().gives_the_same_as(request)
    np.testing.assert_array_equal(first[1].layer.data[2:5, 3:7, 4:8], 1)


def seen(panel: Any) -> list[tuple[str, bool]]:
    """Names and eyes of the layers of regions in the viewer, the uppermost last."""
    own = (Spheres, Labels)
    return [(x.name, x.visible) for x in panel.viewer.layers if isinstance(x, own)]


def test_undo_of_a_copy_takes_its_layers_away(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    regions = panel.session.regions
    first = sphere(panel), painted(panel)
    before = seen(panel), [region for _, region in regions.frozen()]
    panel.bundles.duplicate()
    copied = regions.entries
    regions.set_radius(copied[0], 9.0)
    panel.session.document.undo()
    panel.session.document.undo()
    assert regions.entries == list(first)
    assert (seen(panel), [region for _, region in regions.frozen()]) == before
    panel.session.document.redo()
    panel.session.document.redo()
    assert regions.entries == copied
    assert len(seen(panel)) == 2
    assert copied[0].layer.radius_mm == pytest.approx(9.0)
    np.testing.assert_array_equal(copied[1].layer.data[2:5, 3:7, 4:8], 1)


def test_regions_of_the_active_bundle_alone_are_shown(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    regions = panel.session.regions
    one, closed = sphere(panel), painted(panel)
    opened = panel.viewer.add_labels(np.ones(closed.layer.data.shape, np.uint8), name="opened")
    regions.add_labels(opened)
    closed.layer.visible = False  # by a person
    first = panel.bundles.active
    second = panel.bundles.add()
    other = sphere(panel, (0.0, -4.0, -8.0))
    place = other.layer.data.copy()
    for _ in range(2):
        assert shown(panel) == ["Sphere"]
        assert sorted(seen(panel)) == [("Sphere", True), ("opened", True)]  # somebody's labels
        assert regions.spheres == [other.layer]
        np.testing.assert_array_equal(other.layer.data, place)
        panel.bundles.activate(first)
        assert shown(panel) == ["Sphere", "Region", "opened"]
        assert sorted(seen(panel)) == [("Region", False), ("Sphere", True), ("opened", True)]
        assert regions.spheres == [one.layer]
        np.testing.assert_allclose(one.layer.data, [(0.0, 4.0, 8.0)], atol=1e-3)
        np.testing.assert_array_equal(closed.layer.data[2:5, 3:7, 4:8], 1)
        panel.bundles.activate(second)
    assert panel.session.document.last == "Add region Sphere"  # switching is no step


def test_what_is_painted_in_other_bundles_is_tracked_with(open_model: Any, cross: Any) -> None:
    """Whatever is painted in the layer that shows it when its bundle is active."""
    panel = open_model(cross)
    session, regions = panel.session, panel.session.regions
    session.add_seed(np.zeros(3))
    painted(panel)
    first = panel.bundles.active
    wanted = session.request().regions[0].voxels.copy()
    panel.bundles.add()
    painted(panel).layer.data[5:, 8:] = 1
    panel.session.retake_fod()  # all is worked out anew
    regions.show_in(session.space)
    (region,) = session.request(first).regions
    np.testing.assert_array_equal(region.voxels, wanted)


@pytest.mark.parametrize("active", ["deleted", "other"])
def test_a_deleted_bundle_takes_its_regions_away_and_undo_brings_them_back(
    open_model: Any, cross: Any, active: str
) -> None:
    panel = open_model(cross)
    document, regions = panel.session.document, panel.session.regions
    kept = sphere(panel)
    first = panel.bundles.active
    second = panel.bundles.add()
    ball, paint = sphere(panel, (0.0, -4.0, -8.0)), painted(panel)
    voxels = paint.layer.data.copy()
    if active == "other":
        panel.bundles.activate(first)
    panel.session.delete(second)
    assert seen(panel) == [("Sphere", True)]
    np.testing.assert_allclose(kept.layer.data, [(0.0, 4.0, 8.0)], atol=1e-3)
    document.undo()
    panel.bundles.activate(panel.bundles.bundles[1])
    assert regions.entries == [ball, paint]
    assert sorted(seen(panel)) == [("Region", True), ("Sphere", True)]
    np.testing.assert_allclose(ball.layer.data, [(0.0, -4.0, -8.0)], atol=1e-3)
    np.testing.assert_array_equal(paint.layer.data, voxels)
    assert [region.role for _, region in regions.frozen()] == ["exclude", "stop"]
    document.redo()
    assert panel.bundles.active.id == first.id
    assert seen(panel) == [("Sphere", True)]


def test_the_layers_of_a_deleted_bundle_are_let_go_of_with_its_steps(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    panel.bundles.add()
    entry = painted(panel)
    gone = weakref.ref(entry.layer)
    panel.session.delete(panel.bundles.active)
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
    assert panel.session.state.between == tuple(entry.id for entry in entries)


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
    assert [regions.entries, panel.session.state.between] == [[ball], None]
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
    panel.data.mask_choice.value = mask = panel.viewer.add_labels(
        np.ones(panel.session.fod_layer.data.shape, np.uint8), name="mask"
    )
    told.clear()
    panel.viewer.layers.remove(mask)
    assert told
    assert panel.session.layer_of("mask") is None
