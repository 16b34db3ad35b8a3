"""The state: seeds, layers and the result stay where they belong; no window needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hands import LEFT_HANDED, OBLIQUE, fod_layer

from napari_tractography import Tractogram
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.model.regions import Region
from napari_tractography.plugin.export.projects import project_of
from napari_tractography.plugin.streamlines.layer import Streamlines

MIDDLE = np.zeros((1, 3))  # where the two bundles of the cross meet


def test_seeds_and_streamlines_stay_in_place_when_another_fod_is_chosen(
    open_model: Any, settle: Any
) -> None:
    """In RAS mm nothing moves; on the screen all follow the volume."""
    oblique = make_phantom("cross", affine=OBLIQUE, lmax=4)
    panel = open_model(make_phantom("cross", lmax=4), oblique)
    session = panel.session
    places = phantom_seeds_mm("cross", affine=OBLIQUE)
    plain, turned = panel.viewer.layers
    panel.data.fod_choice.value = turned
    session.add_seeds_mm(places)
    panel.run()
    settle(panel)
    for layer in (plain, turned):
        panel.data.fod_choice.value = layer
        np.testing.assert_allclose(session.seeds.positions_mm, places, atol=1e-3)
        assert session.streamlines_layer.space == session.space
        seeds = session.seeds.layer
        shown = np.asarray(seeds.data) * seeds.scale + seeds.translate
        np.testing.assert_allclose(shown, session.space.to_display(places), atol=1e-3)


def test_a_new_panel_takes_over_the_seeds_of_a_closed_one(open_model: Any, qtbot: Any) -> None:
    panel = open_model(make_phantom("cross", affine=LEFT_HANDED, lmax=2))
    places = phantom_seeds_mm("cross", affine=LEFT_HANDED)
    panel.session.add_seeds_mm(places)
    panel.close_session()
    again = type(panel)(panel.viewer)
    qtbot.addWidget(again)
    np.testing.assert_allclose(again.session.seeds.positions_mm, places, atol=1e-3)
    again.session.add_seeds_mm(places[:1])
    assert len(panel.viewer.layers) == 2
    again.close_session()


def test_of_two_panels_the_open_one_alone_takes_what_is_done_to_seeds(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    """napari keeps a panel that was closed."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.close_session()
    again = type(panel)(panel.viewer)
    qtbot.addWidget(again)
    undo = again.seeds.undo
    again.session.document.forget()
    again.session.add_seeds_mm(MIDDLE + 2)
    undo.undo.click()
    np.testing.assert_allclose(again.session.seeds.positions_mm, MIDDLE, atol=1e-3)
    assert not undo.undo.isEnabled()
    undo.redo.click()
    assert len(again.session.seeds) == 2
    again.close_session()


def test_a_panel_that_opens_again_does_without_a_layer_of_seeds_that_is_gone(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    panel.close_session()
    panel.viewer.layers.remove(session.seeds.layer)
    panel.open_session()
    assert len(session.seeds) == len(session.state.seeds) == 0
    session.add_seeds_mm(MIDDLE)
    assert len(session.seeds) == 1
    assert session.seeds.layer in panel.viewer.layers


def test_a_new_panel_follows_layers_that_undo_brings_back(
    open_model: Any, cross: Any, settle: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    panel.bundles.add("second")
    panel.session.delete(panel.bundles.bundles[0])
    panel.close_session()
    again = type(panel)(panel.viewer)
    qtbot.addWidget(again)
    again.session.document.undo()
    bundle = again.bundles.bundles[0]
    bundle.streamlines_layer.name = "CST left"
    assert bundle.name == "CST left"
    again.close_session()


def test_a_new_panel_opens_where_all_streamlines_were_removed(open_model: Any, qtbot: Any) -> None:
    """While no panel was open; they come back by undo."""
    panel = open_model()
    lines = Tractogram.from_streamlines([[(x, 0, 0) for x in range(9)]])
    layer = panel.viewer.add_layer(Streamlines(lines, name="lines.tck"))
    panel.close_session()
    panel.viewer.layers.remove(layer)
    again = type(panel)(panel.viewer)
    qtbot.addWidget(again)
    (bundle,) = again.bundles.bundles
    assert bundle.state.is_blank
    again.session.document.undo()
    (bundle,) = again.bundles.bundles
    assert bundle.streamlines_layer is layer
    assert bundle.tractogram is layer.tractogram
    again.close_session()


def test_the_layer_that_was_active_stays_active(open_model: Any, cross: Any, settle: Any) -> None:
    """Its contrast stays at hand; seeds lie above streamlines, streamlines above the volume."""
    panel = open_model(cross)
    image = panel.viewer.layers[0]
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    assert panel.viewer.layers.selection.active is image
    assert [layer.name for layer in panel.viewer.layers] == [image.name, "Bundle 1", "Seeds"]


def test_many_streamlines_are_shown_in_part_and_kept_in_whole(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    layer = panel.session.ensure_streamlines_layer()
    layer.max_vertices = 20_000
    panel.set_parameters(n_per_seed=5000)
    panel.run()
    settle(panel)
    assert panel.session.tractogram.n_points > 100_000
    assert layer.tractogram is panel.session.tractogram
    assert layer.summary in panel.results.label.text()
    assert layer.n_shown < 5000


def test_the_same_layer_is_filled_again(open_model: Any, cross: Any, settle: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    layer = panel.session.streamlines_layer
    layer.colour_by, layer.width = "length", 5
    panel.set_parameters(random_seed=9)
    panel.run()
    settle(panel)
    assert panel.session.streamlines_layer is layer
    assert (layer.colour_by, layer.width) == ("length", 5)
    panel.viewer.add_layer(fod_layer(cross))  # and a volume that comes later changes nothing
    assert panel.session.streamlines_layer is layer


@pytest.mark.parametrize("kind", ["sphere", "mask"])
def test_the_name_of_a_region_is_saved_and_outdates_nothing(
    open_model: Any, cross: Any, settle: Any, kind: str
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(MIDDLE)
    region = Region.sphere((0, 0, 0), 30.0, "include")
    if kind == "mask":
        region = Region.mask(np.ones(cross.grid.shape), cross.grid, "include")
    entry = session.regions.add_region(region)
    panel.run()
    settle(panel)
    entry.layer.name = "pons"
    assert session.is_result_current
    (saved,) = project_of(panel.bundles)[0].bundles.values()
    assert saved.source.digest == session.tractogram.digest()
    assert [region.name for region in saved.source.regions] == ["pons"]
    session.regions.set_role(entry, "exclude")
    assert not session.is_result_current
