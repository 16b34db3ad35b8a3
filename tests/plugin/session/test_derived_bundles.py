"""Bundles made of others: split off, mirrored, of foreign tracks; and those of a closed panel."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, fod_layer, is_let_go
from napari.layers import Tracks

from napari_tractography import Project, Recipe, TrackingParameters, Tractogram
from napari_tractography.errors import InvalidTractogramError
from napari_tractography.files.streamline_data import StreamlineData
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.model.regions import Region
from napari_tractography.plugin import document
from napari_tractography.plugin.export.projects import project_of
from napari_tractography.plugin.export.recipes import recipe_of
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.session import filtering
from napari_tractography.plugin.session.derived_bundles import bundles_of_groups, groups_of
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource

ONE, OTHER = phantom_seeds_mm("cross")


def lines(n: int = 8) -> Tractogram:
    """Lines along x, 1 mm apart along y."""
    x = np.linspace(2, 20, 19)
    return Tractogram.from_streamlines([[(a, y, 0) for a in x] for y in range(n)])


@pytest.fixture
def opened(open_model: Any, cross: Any) -> Any:
    """A panel with lines that a file could have held, active."""
    panel = open_model(cross)
    panel.viewer.add_layer(Streamlines(lines(), space=panel.session.space, name="AF left"))
    (bundle,) = (b for b in panel.bundles.bundles if b.state.is_opened)
    panel.bundles.activate(bundle)
    return panel


def ys(layer: Streamlines) -> list[float]:
    """Where the lines of a layer lie."""
    return sorted(np.unique(layer.tractogram.points[:, 1]).tolist())


def test_a_selection_is_split_off_and_the_rest_stays(opened: Any) -> None:
    layer = opened.session.streamlines_layer
    layer.selected = [1, 4]
    opened.dissection.split.click()
    made = opened.bundles.active
    assert "2 of 8 streamlines" in opened.results.label.text()
    assert made.name == "AF left part"
    assert ys(made.streamlines_layer) == [1, 4]
    assert ys(layer) == [0, 2, 3, 5, 6, 7]
    opened.bundles.history.undo()
    assert made not in opened.bundles.bundles
    assert ys(layer) == list(range(8))
    assert not opened.bundles.history.can_undo  # it was one step
    opened.bundles.history.redo()
    assert ys(opened.bundles.active.streamlines_layer) == [1, 4]
    assert ys(layer) == [0, 2, 3, 5, 6, 7]


def test_a_deleted_bundle_is_let_go_of_with_the_step_that_would_bring_it_back(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MAX_STEPS", 3)
    session, history = opened.session, opened.bundles.history
    bundle = opened.bundles.active
    gone, number = weakref.ref(bundle), bundle.id
    session.delete(bundle)
    del bundle
    for name in "ab":
        opened.bundles.rename(opened.bundles.active, name)
    history.undo()
    history.undo()
    history.undo()
    assert ys(session.open_bundle(number).streamlines_layer) == list(range(8))
    history.redo()
    for name in "cde":
        opened.bundles.rename(opened.bundles.active, name)
    selection = opened.viewer.layers.selection  # which holds what was active before
    for layer in (session.fod_layer, opened.viewer.layers[-1], session.fod_layer):
        selection.active = layer
    assert is_let_go(gone)


def test_groups_of_a_file_become_bundles(opened: Any) -> None:
    layer, source = opened.session.streamlines_layer, opened.bundles.active
    assert not groups_of(opened.bundles)
    with pytest.raises(InvalidTractogramError, match="AF left has no groups"):
        bundles_of_groups(opened.bundles)
    groups = {"CST.left": np.array([0, 3]), "none": np.empty(0, int), "rest": np.array([3, 5, 7])}
    data = StreamlineData({}, {}, groups)
    layer.tractogram = Tractogram(layer.tractogram.points, layer.tractogram.offsets, data=data)
    parts = bundles_of_groups(opened.bundles)
    assert [part.name for part in parts] == ["CST.left", "rest"]
    assert [ys(part.streamlines_layer) for part in parts] == [[0, 3], [3, 5, 7]]
    assert len({part.state.colour for part in [source, *parts]}) == 3
    assert ys(layer) == list(range(8))
    opened.bundles.history.undo()
    assert opened.bundles.bundles == [source]


def test_nothing_selected_is_said(opened: Any, notes: list[str]) -> None:
    opened.dissection.split.click()
    assert "Nothing is selected" in notes[-1]
    assert len(opened.bundles.bundles) == 1


def test_the_other_side_of_opened_streamlines_is_filtered_there(opened: Any) -> None:
    both = [line * (side, 1, 1) for side in (1, -1) for line in lines()]
    opened.session.streamlines_layer.tractogram = Tractogram.from_streamlines(both)
    opened.session.regions.add_region(Region.sphere((10, 2, 0), 1.2, "include"))
    left = opened.session.streamlines_layer
    assert ys(left) == [1, 2, 3]
    assert left.tractogram.points[:, 0].min() > 0
    opened.bundle_list.mirror.click()
    made = opened.bundles.active
    assert made.name == "AF right"
    assert made.streamlines_layer.tractogram.points[:, 0].max() < 0
    assert ys(made.streamlines_layer) == [1, 2, 3]
    assert len(left.tractogram) == 3


def test_foreign_tracks_become_a_bundle_in_the_order_of_time(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    path = np.array([[3.0, 1, 5], [2, 1, 6], [4, 2, 7]])  # z falls and rises: not sorted by it
    rows = [[7, t, *zyx] for t, zyx in enumerate(path)] + [[9, t, 0, 0, t] for t in range(4)]
    layer = panel.viewer.add_layer(Tracks(np.array(rows), name="Cells", scale=(1, 2, 2, 2)))
    assert not panel.bundle_list.offer.isHidden()
    panel.bundle_list.offer.linkActivated.emit("take")
    made = panel.bundles.active.streamlines_layer
    assert panel.bundles.active.name == "Cells bundle"
    assert not layer.visible
    assert panel.bundle_list.offer.isHidden()
    np.testing.assert_allclose(
        made.space.to_display(made.tractogram[0].points), 2 * path, atol=1e-4
    )
    assert np.diff(made.tractogram.offsets).tolist() == [3, 4]


def test_tracks_without_a_third_dimension_are_refused(
    open_model: Any, cross: Any, notes: list[str]
) -> None:
    panel = open_model(cross)
    panel.viewer.add_layer(Tracks(np.array([[0, 0, 1, 1], [0, 1, 2, 2.0]]), name="Flat"))
    panel.bundle_list.take_tracks()
    assert "Flat have 3 coordinates" in notes[-1]


def test_an_index_shows_how_far_it_is_and_may_be_cancelled(
    opened: Any, qtbot: Any, monkeypatch: Any
) -> None:
    prepare, released = filtering._prepare, threading.Event()

    def held_up(whole: Tractogram, advance: Callable[[float], None]) -> None:
        while not released.wait(0.001):
            advance(0.5)
        prepare(whole, advance)

    monkeypatch.setattr(filtering, "_prepare", held_up)
    monkeypatch.setattr(filtering, "INDEX_FROM", 4)
    layer = opened.session.streamlines_layer
    entry = opened.session.regions.add_region(Region.sphere((10, 2, 0), 1.2, "include"))
    assert not opened.indexing.isHidden()
    opened.indexing.cancel.click()
    assert opened.indexing.isHidden()
    assert "index" in opened.results.label.text()
    assert len(layer.tractogram) == 8
    released.set()
    opened.session.regions.set_role(entry, "exclude")  # which begins again
    qtbot.waitUntil(lambda: len(layer.tractogram) == 5, timeout=WAIT_MS)
    assert layer.editor.base.has_index


def test_while_an_index_is_made_no_move_looks_at_all_streamlines(
    opened: Any, qtbot: Any, monkeypatch: Any
) -> None:
    """What is set meanwhile is followed once, when the index is there."""
    prepare, released = filtering._prepare, threading.Event()
    select, with_index = Tractogram.select_numbers, []

    def held_up(whole: Tractogram, advance: Callable[[float], None]) -> None:
        assert released.wait(60)
        prepare(whole, advance)

    def noted(self: Tractogram, **criteria: Any) -> Any:
        with_index.append(self.has_index)
        return select(self, **criteria)

    monkeypatch.setattr(filtering, "_prepare", held_up)
    monkeypatch.setattr(filtering, "INDEX_FROM", 4)
    monkeypatch.setattr(Tractogram, "select_numbers", noted)
    layer, regions = opened.session.streamlines_layer, opened.session.regions
    entry = regions.add_region(Region.sphere((10, 2, 0), 1.2, "include"))
    regions.set_radius(entry, 2.2)
    regions.set_radius(entry, 0.5)
    assert with_index == []
    released.set()
    qtbot.waitUntil(lambda: ys(layer) == [2], timeout=WAIT_MS)
    assert with_index == [True]


def test_bundles_without_streamlines_survive_a_second_panel(
    open_model: Any, cross: Any, settle: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    panel.bundles.rename(panel.bundles.active, "only seeds")
    panel.bundles.add("tracked")
    panel.session.add_seeds_mm(OTHER[None])
    panel.set_parameters(max_angle_deg=20.0)
    panel.run()
    settle(panel)
    panel.close_session()
    again = TractographyPanel(panel.viewer, remember=False)
    qtbot.addWidget(again)
    assert [b.name for b in again.bundles.bundles] == ["only seeds", "tracked"]
    assert again.bundles.active.name == "tracked"
    assert again.session.parameters.max_angle_deg == 20.0
    assert again.session.is_result_current
    again.bundles.activate(again.bundles.bundles[0])
    np.testing.assert_allclose(again.session.seeds.positions_mm, ONE[None], atol=1e-4)
    again.close_session()


def test_a_phantom_of_another_lmax_is_saved_as_it_is(
    open_model: Any, cross: Any, settle: Any, tmp_path: Any
) -> None:
    assert cross.lmax != make_phantom("cross").lmax
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    panel.run()
    settle(panel)
    project, _ = project_of(panel.bundles)
    project.save(tmp_path / "a.tracts.json")
    (bundle,) = Project.load(tmp_path / "a.tracts.json").bundles.values()
    assert bundle.tractogram().digest() == panel.session.tractogram.digest()
    assert bundle.is_proven


def test_a_seed_shows_the_hidden_layer_that_it_lands_in(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    panel.session.seeds.layer.visible = False
    panel.session.add_seeds_mm(OTHER[None])
    assert panel.session.seeds.layer.visible


def test_resting_bundles_are_clipped_at_the_slice_too(opened: Any) -> None:
    resting = opened.session.streamlines_layer
    resting.clip = "coronal"
    opened.bundles.add("another")
    opened.viewer.dims.set_point(1, 7.0)
    assert resting.clip_at_mm == pytest.approx(float(opened.viewer.dims.point[1]))


@pytest.mark.parametrize(("kind", "n"), [("mask", 20), ("voxels", 2)])
def test_a_project_with_masks_of_seeds_and_regions_is_as_it_was_saved(
    open_model: Any, cross: Any, qtbot: Any, tmp_path: Any, kind: str, n: int
) -> None:
    inside = np.zeros(cross.grid.shape)
    inside[10:22, 8:16, 3:7] = 1
    volume = VolumeSource.of_array(inside, cross.grid)
    project = Project()
    for name in ("one", "two"):
        recipe = Recipe(
            FodSource.of_phantom(cross),
            (SeedSource(kind, n, volume=volume),),
            TrackingParameters(max_length_mm=40.0),
            regions=(RegionSource("include", "all of it", volume=volume),),
        )
        project.add(name, recipe)
    project.save(tmp_path / "a.tracts.json")
    panel = open_model(cross, prepared=False)
    panel.project.open_project(tmp_path / "a.tracts.json")
    qtbot.waitUntil(lambda: panel.project.opening is None, timeout=WAIT_MS)
    for bundle in panel.bundles.bundles:
        panel.bundles.activate(bundle)
        assert panel.seeds.mask_choice.value is panel.session.layer_of("seed_mask") is not None
        assert panel.session.is_result_current
        saved = recipe_of(panel.session.request(), list(panel.viewer.layers)).seeds[0]
        assert (saved.kind, saved.n) == (kind, n)


def test_spheres_of_a_project_stay_where_it_has_them_to_the_bit(
    open_model: Any, cross: Any, qtbot: Any, tmp_path: Any
) -> None:
    """In a duplicate, and after another look at the volume: the digest stays proven."""
    recipe = Recipe(
        FodSource.of_phantom(cross),
        (SeedSource("sphere", n=30, center_mm=(0.1 / 3, 0.0, 0.0), radius_mm=2.0),),
        TrackingParameters(max_length_mm=40.0),
        regions=(RegionSource("include", "ball", (10 / 3, 1e-7 / 3, 0.0), 10 / 3),),
    )
    made = recipe.run()
    project = Project()
    project.add("one", recipe.with_result(made, "cpu"))
    project.save(tmp_path / "a.tracts.json")
    panel = open_model(prepared=False)
    panel.project.open_project(tmp_path / "a.tracts.json")
    qtbot.waitUntil(lambda: panel.project.opening is None, timeout=WAIT_MS)
    assert panel.session.is_result_current
    panel.bundles.duplicate()
    assert panel.session.is_result_current
    panel.viewer.add_layer(fod_layer(cross))
    panel.data.fod_choice.value = panel.viewer.layers[-1]
    panel.session.document.undo()
    assert panel.session.is_result_current
    assert panel.project.save(tmp_path / "b.tracts.json")
    for bundle in Project.load(tmp_path / "b.tracts.json").bundles.values():
        assert bundle.source.digest == made.digest()
        (ball,) = bundle.source.regions
        assert (ball.center_mm, ball.radius_mm) == ((10 / 3, 1e-7 / 3, 0.0), 10 / 3)


def menu_of(panel: TractographyPanel, title: str) -> Any:
    """Open one of the menus below that of the active bundle; kept as long as the panel."""
    panel.menu_kept = panel.bundle_list.menu()
    (action,) = (a for a in panel.menu_kept.actions() if a.text() == title)
    return action.menu()


def test_a_bundle_without_another_and_what_both_have_in_common(
    opened: Any, notes: list[str]
) -> None:
    first = opened.bundles.active
    some = lines()[[1, 4]]
    # The same points once more, and beside them one that differs in the last bit of a number.
    near = some.points.copy()
    near[-1, 0] = np.nextafter(near[-1, 0], np.float32(99))
    near = Tractogram(near, some.offsets)
    layer = Streamlines(near, space=opened.session.space, name="other & more")
    opened.viewer.add_layer(layer)
    opened.bundles.activate(first)
    (entry,) = menu_of(opened, "In common with").actions()
    assert entry.text() == "other && more"
    entry.trigger()
    common = opened.bundles.active
    assert common.name == "AF left and other & more"
    assert ys(common.streamlines_layer) == [1]
    assert opened.bundles.history.last == "Make AF left and other & more"
    opened.bundles.activate(first)
    menu_of(opened, "Without").actions()[-1].trigger()  # common lies between the two
    rest = opened.bundles.active
    assert ys(rest.streamlines_layer) == [0, 2, 3, 4, 5, 6, 7]
    assert ys(first.streamlines_layer) == list(range(8))
    opened.bundles.history.undo()
    assert rest not in opened.bundles.bundles
    opened.bundles.history.undo()
    assert common not in opened.bundles.bundles
    opened.bundles.activate(first)
    first.streamlines_layer.selected = [1]
    first.streamlines_layer.editor.delete_selected()
    n = len(opened.bundles.bundles)
    menu_of(opened, "In common with").actions()[0].trigger()
    assert notes[-1].startswith("error: None of the streamlines of AF left is in other & more")
    assert len(opened.bundles.bundles) == n


def test_of_one_run_a_streamline_that_is_cut_is_the_same(opened: Any) -> None:
    first = opened.bundles.active
    copy = opened.bundles.duplicate()
    copy.streamlines_layer.selected = [0, 1, 2]
    copy.streamlines_layer.editor.keep_selected()
    copy.streamlines_layer.editor.cut((9.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    opened.bundles.activate(first)
    menu_of(opened, "Without").actions()[0].trigger()
    assert ys(opened.bundles.active.streamlines_layer) == [3, 4, 5, 6, 7]
    opened.bundles.activate(copy)
    menu_of(opened, "In common with").actions()[0].trigger()
    made = opened.bundles.active
    assert ys(made.streamlines_layer) == [0, 1, 2]
    assert made.tractogram.points[:, 0].max() == 9.0
