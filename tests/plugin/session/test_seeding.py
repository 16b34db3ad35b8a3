"""What a run starts from and how many it is to accept, frozen; what it is written down as."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import save_fod

from napari_tractography.errors import InvalidSeedsError
from napari_tractography.model.seeding_parameters import SeedingParameters
from napari_tractography.model.stop import StopReason
from napari_tractography.plugin.export.copied_scripts import as_command, as_python
from napari_tractography.plugin.export.layer_files import PATH_KEY
from napari_tractography.plugin.export.recipes import recipe_of
from napari_tractography.plugin.run_seeding import SeedBetween, SeedSpheres
from napari_tractography.plugin.session.project_opening import seeding_of
from napari_tractography.plugin.session.runs import Run, preview_of

ENDS = ((0.0, 0.0, -20.0), (0.0, 0.0, 20.0))  # display mm, (z, y, x)


@pytest.fixture
def panel(open_model: Any, cross: Any, tmp_path: Path) -> Any:
    """Two spheres on one bundle, an exclude region, and a seed."""
    made = open_model(cross)
    session = made.session
    session.fod_layer.metadata[PATH_KEY] = str(save_fod(cross, tmp_path / "fod.nii.gz"))
    for place in ENDS:
        session.regions.add_sphere(np.array(place), 5.0, "include")
    session.regions.add_sphere(np.array((0.0, 10.0, 0.0)), 2.0, "exclude")
    session.add_seeds_mm(np.zeros((1, 3)))
    return made


def test_accepted_streamlines_are_selected(panel: Any) -> None:
    session = panel.session
    assert session.request().select is None
    panel.set_parameters(counted="accepted", n_per_seed=70)
    one = as_command(session.request(), session.fod_layer, region_layers=_layers(panel))
    assert "--select 70" in one
    assert "--n-seeds" not in one  # the command would refuse it
    session.add_seeds_mm(np.ones((1, 3)))
    request = session.request()
    assert request.select == request.tracking_input().select == 140
    assert "select=140" in as_python(request, session.fod_layer, region_layers=_layers(panel))
    command = as_command(request, session.fod_layer, region_layers=_layers(panel))
    assert "--select 140" in command
    assert "--n-seeds 70" in command  # of each in turn
    preview = session.request(n_preview=20)
    assert preview.tracking_input().select is None
    assert not preview.is_whole
    recipe = recipe_of(request, list(panel.viewer.layers))
    assert recipe.select == 140
    assert isinstance(seeding_of(recipe), SeedSpheres)


def test_one_button_tracks_between_two_regions(panel: Any, monkeypatch: Any) -> None:
    session, runs = panel.session, []
    monkeypatch.setattr(panel.runs, "start", lambda: runs.append(session.request()))
    panel.set_parameters(n_total=31)
    section = panel.regions
    assert not section.between.isEnabled()  # of three regions two are to be selected
    for row in (1, 0):
        section.table.selectionModel().select(
            section.table.model().index(row, 0),
            section.table.selectionModel().SelectionFlag.Select
            | section.table.selectionModel().SelectionFlag.Rows,
        )
    section.between.click()
    (request,) = runs
    assert isinstance(request.seeding, SeedBetween)
    assert [region.role for region in request.regions] == ["exclude"]
    there, back = request.tracking_input().halves()
    assert (there.select, back.select) == (16, 15)
    np.testing.assert_allclose(there.regions[-1].center_mm, ENDS[1][::-1])
    np.testing.assert_allclose(back.regions[-1].center_mm, ENDS[0][::-1])
    assert back.parameters.random_seed == there.parameters.random_seed + 1
    # A preview shows those from the first.
    preview = session.request(n_preview=10).tracking_input()
    assert preview.between is None
    assert [r.role for r in preview.regions] == ["exclude", "include", "stop"]
    ends = session.end_layers()
    script = as_python(request, session.fod_layer, region_layers=_layers(panel), end_layers=ends)
    assert "nt.track_between(fod, a, b, 31, parameters, regions=regions" in script
    command = as_command(request, session.fod_layer, region_layers=_layers(panel), end_layers=ends)
    assert command.count("--between=") == 2
    assert "--select 31" in command
    recipe = recipe_of(request, list(panel.viewer.layers))
    given, _ = recipe.read()
    assert isinstance(seeding_of(recipe, given), SeedBetween)
    assert [r.center_mm.tolist() for r in given.between] == [list(e[::-1]) for e in ENDS]


def test_a_duplicate_is_tracked_between_the_same_regions(panel: Any) -> None:
    """Neither the first two nor in their order; a region that is not in use is not copied."""
    session = panel.session
    inactive = session.regions.add_sphere(np.array((0.0, -10.0, 0.0)), 2.0, is_inactive=True)
    last = session.regions.add_sphere(np.array((0.0, 15.0, 0.0)), 3.0, "stop")
    session.regions.choose_between(last, session.regions.entries[1])
    panel.set_parameters(source="between regions")
    wanted = session.make_seeding()
    panel.bundles.duplicate()
    assert inactive not in session.regions.entries
    given = session.make_seeding()
    for before, after in ((wanted.one, given.one), (wanted.other, given.other)):
        assert (after.role, after.radius_mm) == (before.role, before.radius_mm)
        np.testing.assert_allclose(after.center_mm, before.center_mm, atol=1e-4)


def test_a_new_panel_tracks_between_the_same_regions(panel: Any, qtbot: Any) -> None:
    session = panel.session
    session.regions.choose_between(session.regions.entries[2], session.regions.entries[1])
    panel.set_parameters(source="between regions")
    wanted = session.make_seeding()
    panel.close_session()
    again = type(panel)(panel.viewer, remember=False)
    qtbot.addWidget(again)
    given = again.session.make_seeding()
    np.testing.assert_allclose(given.one.center_mm, wanted.one.center_mm, atol=1e-4)
    np.testing.assert_allclose(given.other.center_mm, wanted.other.center_mm, atol=1e-4)
    again.close_session()


def test_what_is_missing_is_said(open_model: Any, cross: Any) -> None:
    session = open_model(cross).session
    for source, what in (
        ("grey-white interface", "There is no tissue image"),
        ("between regions", "There are no two regions"),
    ):
        session.set_seeding(replace(SeedingParameters(), source=source))
        assert not session.can_start
        with pytest.raises(InvalidSeedsError, match=what):
            session.request()


def _layers(panel: Any) -> list[Any]:
    found: list[Any] = panel.session.steering_layers()
    return found


def test_a_preview_between_two_regions_has_those_alone_that_end_in_the_other(panel: Any) -> None:
    session = panel.session
    panel.set_parameters(source="between regions", n_total=2000)
    session.regions.set_rule("any")
    session.regions.add_sphere(np.array(ENDS[0]), 50.0, "include")  # all of them meet it
    preview = preview_of(Run(session.request(n_preview=2000), panel.bundles.active))
    assert not len(preview)  # none goes from one to the other
    assert preview.tally[StopReason.NOT_ENDED] > 10
