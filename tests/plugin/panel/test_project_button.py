"""Projects in the window: what is saved comes back, proved by digests; nothing is lost unasked."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hands import FEW, WAIT_MS, fod_layer, save_fod
from qtpy.QtCore import QTimer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QFileDialog, QMessageBox

from napari_tractography import Fod, Project, TrackingParameters, Tractogram
from napari_tractography.errors import FileError
from napari_tractography.files import servers
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.model.regions import Region
from napari_tractography.plugin.background import THREAD_NAME
from napari_tractography.plugin.panel import project_button, project_keeper
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.panel.project_button import ProjectButton
from napari_tractography.plugin.session import project_opening
from napari_tractography.plugin.timers import repeated
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource
from napari_tractography.recipes.warp_sources import WarpSource

ONE, OTHER = phantom_seeds_mm("cross")


@pytest.fixture
def study(open_model: Any, cross: Any, settle: Any, tmp_path: Path) -> Any:
    """Two bundles in an FOD of a file: one with a region and deleted streamlines, one without."""
    panel = open_model()
    panel.data.add_fod(save_fod(cross, tmp_path / "fod.nii.gz"))
    panel.bundles.rename(panel.bundles.active, "CST left")
    panel.session.add_seeds_mm(ONE[None])
    panel.session.regions.add_region(Region.sphere((0, 0, 0), 8.0, "include"))
    panel.run()
    settle(panel)
    panel.session.streamlines_layer.selected = [1, 3]
    panel.session.streamlines_layer.editor.delete_selected()
    panel.bundles.add("CST right")
    panel.session.add_seeds_mm(OTHER[None])
    panel.session.seeds.set_own([0], "n_per_seed", FEW + 3)
    panel.set_parameters(max_angle_deg=30.0)
    panel.run()
    settle(panel)
    panel.set_colour("#4d8fd1")
    return panel


def digests(panel: Any) -> dict[str, str]:
    return {
        b.name: b.streamlines_layer.tractogram.digest()
        for b in panel.bundles.bundles
        if b.streamlines_layer is not None
    }


def open_project(panel: Any, path: Path, qtbot: Any) -> None:
    assert panel.project.open_project(path)
    qtbot.waitUntil(lambda: panel.project.opening is None, timeout=WAIT_MS)


def test_events_are_handled_between_two_bundles_that_are_shown(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    """However fast they are made: keys and mouse need not wait for the last one."""
    path, turns, shown = tmp_path / "study.tracts.json", Counter[str](), list[int]()
    assert study.project.save(path)
    again = open_model(prepared=False)
    again.bundles.followed.connect(lambda _bundle: shown.append(turns["of the loop"]))
    assert again.project.open_project(path)
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join()  # all bundles are made, and none has been heard of
    timer = repeated(again, 0, lambda: turns.update(["of the loop"]))
    timer.start()
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    timer.stop()
    assert len(shown) == 2
    assert shown[0] < shown[1]


def test_a_saved_project_comes_back_with_the_same_digests(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path, notes: list[str]
) -> None:
    path, wanted = tmp_path / "study.tracts.json", digests(study)
    assert study.project.save(path)
    assert path.stat().st_size < 20_000
    again = open_model(prepared=False)
    open_project(again, path, qtbot)
    assert digests(again) == wanted
    assert "2 of 2 bundles have the digest" in notes[-1]
    first, second = again.bundles.bundles
    assert again.session.bundle is second
    assert again.session.is_result_current
    assert second.state.colour == "#4d8fd1"
    assert second.streamlines_layer.colour_by == "one colour"
    assert again.session.parameters.max_angle_deg == 30.0
    assert again.session.seeds.own["n_per_seed"].tolist() == [FEW + 3]
    again.bundles.activate(first)
    assert [entry.role for entry in again.session.regions.entries] == ["include"]
    np.testing.assert_allclose(again.session.seeds.positions_mm, ONE[None], atol=1e-4)
    assert first.streamlines_layer.editor.is_edited
    assert again.bundles.history.last == "Edit CST left"  # what was deleted comes back, too
    first.streamlines_layer.editor.undo()
    assert len(first.tractogram) == len(study.bundles.bundles[0].tractogram) + 2
    assert digests(again)["CST left"] != wanted["CST left"]
    assert not again.bundles.history.can_undo
    again.bundles.history.redo()
    assert digests(again) == wanted


def test_digests_are_taken_while_the_window_goes_on(
    study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file that is mapped all of it is read, for minutes."""
    panel, took, threads = study, Tractogram.digest, list[bool]()

    def noted(tractogram: Tractogram) -> str:
        threads.append(threading.current_thread() is threading.main_thread())
        return took(tractogram)

    lines = str(tmp_path / "lines.tck")
    panel.session.tractogram.save(lines)
    panel.viewer.open(lines, plugin="napari-tractography")
    monkeypatch.setattr(Tractogram, "digest", noted)
    assert panel.project.save(tmp_path / "study.tracts.json")
    assert threads == [False] * 3
    for copy in (panel.project.copy_python, panel.export.copy_python):
        copy()
    panel.export.save_page(tmp_path / "page.html")
    assert len(threads) > 6
    assert not any(threads)


def test_regions_of_a_project_are_in_the_order_in_which_they_were_added(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    roles = ["stop", "exclude", "include", "end", "include"]
    for number, role in enumerate(roles):
        region = Region.sphere((2 * number, 30, 0), 1.0, role, name=f"Region {number}")
        study.session.regions.add_region(region)
    path = tmp_path / "study.tracts.json"
    assert study.project.save(path)
    panel = open_model()
    open_project(panel, path, qtbot)
    panel.bundles.activate(panel.bundles.bundles[1])
    assert [region.role for region in panel.session.state.regions] == roles
    names = [region.name for region in panel.session.state.regions]
    assert names == [f"Region {number}" for number in range(len(roles))]


def test_seeds_and_regions_of_a_recipe_with_a_warp_open_where_it_puts_them(
    open_model: Any, cross: Any, qtbot: Any, tmp_path: Path, notes: list[str]
) -> None:
    """Streamlines are those that the recipe makes; what is saved then needs no warp."""
    shift = np.eye(4)
    shift[:3, 3] = 30, -20, 10
    np.savetxt(tmp_path / "to_template.txt", shift)
    there = tuple((ONE + shift[:3, 3]).tolist())
    mask = np.ones(cross.grid.shape)
    region = RegionSource("include", "all", volume=VolumeSource.of_array(
        mask, Grid(cross.grid.shape, shift @ cross.grid.affine)
    ))  # fmt: skip
    made = Recipe(
        FodSource.file(save_fod(cross, tmp_path / "fod.nii.gz"), kind="sh"),
        (SeedSource("sphere", FEW, 0, there, 2.0),),
        TrackingParameters.for_fod(cross),
        regions=(region,),
        warp=WarpSource.file(tmp_path / "to_template.txt"),
    )
    wanted = made.run()
    assert len(wanted)
    project = Project()
    project.add("CST", made.with_result(wanted))
    project.save(tmp_path / "study.tracts.json")
    panel = open_model(prepared=False)
    open_project(panel, tmp_path / "study.tracts.json", qtbot)
    assert digests(panel) == {"CST": wanted.digest()}
    assert "1 of 1 bundle has the digest" in notes[-1]
    np.testing.assert_allclose(panel.session.seeds.positions_mm, ONE[None], atol=1e-3)
    ((_, found),) = panel.session.regions.frozen()
    assert found.grid is not None
    assert np.allclose(found.grid.affine, cross.grid.affine, atol=1e-3)
    assert panel.project.save(tmp_path / "again.tracts.json")
    (again,) = Project.load(tmp_path / "again.tracts.json").bundles.values()
    assert isinstance(again.source, Recipe)
    assert again.source.warp is None
    assert again.tractogram().digest() == wanted.digest()


def test_parameters_that_suit_the_fod_are_chosen_by_nobody_once_opened(
    open_model: Any, cross: Any, qtbot: Any, tmp_path: Path
) -> None:
    """Else those of one brain would track in the next one."""
    panel = open_model(prepared=False)
    panel.data.add_fod(save_fod(cross, tmp_path / "fod.nii.gz"))
    panel.set_parameters(n_per_seed=FEW)
    panel.session.add_seeds_mm(ONE[None])
    panel.bundles.add("with one")
    panel.session.add_seeds_mm(ONE[None])
    panel.set_parameters(max_length_mm=80.0)
    assert panel.project.save(tmp_path / "study.tracts.json")
    again = open_model(prepared=False)
    open_project(again, tmp_path / "study.tracts.json", qtbot)
    first, second = again.bundles.bundles
    assert (first.state.chosen, second.state.chosen) == ({}, {"max_length_mm": 80.0})
    coarse = Fod(
        cross.coefficients, Grid(cross.grid.shape, cross.grid.affine @ np.diag([2, 2, 2, 1]))
    )
    again.viewer.add_layer(fod_layer(coarse))
    for bundle, chosen in ((second, {"max_length_mm": 80.0}), (first, {})):
        again.bundles.activate(bundle)
        again.data.fod_choice.value = again.viewer.layers[-1]
        assert again.session.fod is coarse
        assert again.session.parameters == TrackingParameters.for_fod(coarse, **chosen)
    assert "Set by you" not in again.tracking.origin.text()
    assert not again.tracking.reset.isEnabled()
    again.bundles.add()
    assert again.session.parameters == TrackingParameters.for_fod(coarse)


def test_parameters_of_a_project_that_a_script_made_are_chosen_where_they_do_not_suit(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    """Such a project says all of them, and not which were chosen."""
    path, wanted = tmp_path / "study.tracts.json", digests(study)
    study.bundles.activate(study.bundles.bundles[0])
    study.bundles.add("other")
    study.session.add_seeds_mm(ONE[None])
    study.set_parameters(algorithm="diffusion")
    assert study.project.save(path)
    content = json.loads(path.read_text())
    for bundle in content["bundles"]:
        del bundle["look"]
    path.write_text(json.dumps(content))
    again = open_model(prepared=False)
    open_project(again, path, qtbot)
    first, other, second = again.bundles.bundles
    assert first.state.chosen == {"max_length_mm": 80.0}
    assert other.state.chosen == {"max_length_mm": 80.0, "algorithm": "diffusion"}
    assert second.state.chosen == {"max_length_mm": 80.0, "max_angle_deg": 30.0}
    found = digests(again)
    assert {name: found[name] for name in wanted} == wanted


def test_what_bundles_are_coloured_by_comes_back(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    """By direction, too, whatever the panel that opens them has last been set to."""
    first, second = study.bundles.bundles
    by = {"first": "direction", "second": "length"}
    for bundle, mode in ((second, by["second"]), (first, by["first"])):
        study.bundles.activate(bundle)
        colour_by(study).value = "one colour"
        colour_by(study).value = mode
    assert study.project.save(tmp_path / "study.tracts.json")
    again = open_model(prepared=False)
    colour_by(again).value = "one colour"
    open_project(again, tmp_path / "study.tracts.json", qtbot)
    made = dict(zip(by, again.bundles.bundles, strict=True))
    assert {n: b.streamlines_layer.colour_by for n, b in made.items()} == by
    for name, bundle in reversed(made.items()):
        again.bundles.activate(bundle)
        assert colour_by(again).value == by[name]
        assert bundle.streamlines_layer.colour_by == by[name]


def colour_by(panel: Any) -> Any:
    return next(control for control in panel.appearance.controls if control.name == "colour_by")


def test_the_project_gives_the_same_without_a_screen(study: Any, tmp_path: Path) -> None:
    path, wanted = tmp_path / "study.tracts.json", digests(study)
    study.project.save(path)
    found = Project.load(path)
    assert {n: b.tractogram().digest() for n, b in found.bundles.items()} == wanted
    assert all(bundle.is_proven for bundle in found.bundles.values())


def test_nothing_is_not_saved_in_place_of_a_project(
    study: Any, qtbot: Any, tmp_path: Path, notes: list[str]
) -> None:
    path = tmp_path / "study.tracts.json"
    assert study.project.save(path)
    before = path.read_bytes()
    while not study.bundles.active.state.is_blank:
        study.session.delete(study.bundles.active)
    assert not study.project.save(path)
    assert notes[-1] == (
        "error: There is nothing to save: no bundle has seeds or streamlines of a file."
    )
    assert path.read_bytes() == before


def test_what_differs_is_named(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path, notes: list[str]
) -> None:
    path = tmp_path / "study.tracts.json"
    study.project.save(path)
    content = json.loads(path.read_text())
    content["bundles"][1]["recipe"]["digest"] = "0" * 64
    path.write_text(json.dumps(content))
    again = open_model(prepared=False)
    open_project(again, path, qtbot)
    assert "1 of 2" in notes[-1]
    assert "CST right is not as it was saved" in notes[-1]


@pytest.mark.parametrize("is_opened", [False, True])
def test_an_fod_that_was_written_anew_is_named_when_the_project_is_opened(
    study: Any,
    open_model: Any,
    qtbot: Any,
    tmp_path: Path,
    notes: list[str],
    cross: Any,
    is_opened: bool,
) -> None:
    """What was tracked in is what had been read, not what is there when it is saved."""
    path, file = tmp_path / "study.tracts.json", tmp_path / "fod.nii.gz"
    panel = study
    if is_opened:
        assert study.project.save(path)
        panel = open_model(prepared=False)
        open_project(panel, path, qtbot)
    save_fod(Fod(cross.coefficients * 0.7, cross.grid), file)
    assert panel.project.save(path)
    assert Project.load(path).changed_files() == [str(file)]
    again = open_model(prepared=False)
    open_project(again, path, qtbot)
    assert f"The file {file} is not what it was." in notes[-1]


def test_a_file_that_moved_is_asked_for(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    path, wanted = tmp_path / "study.tracts.json", digests(study)
    study.project.save(path)
    moved = tmp_path / "elsewhere" / "other.nii.gz"
    moved.parent.mkdir()
    (tmp_path / "fod.nii.gz").rename(moved)
    asked = []

    def ask(_parent: Any, title: str, _start: str, known: str) -> tuple[str, str]:
        asked.append(title)
        assert "*.nii.gz" in known.partition(";;")[0]  # other.nii.gz is seen
        return str(moved), ""

    monkeypatch.setattr(QFileDialog, "getOpenFileName", ask)
    again = open_model(prepared=False)
    open_project(again, path, qtbot)
    assert asked == ["Where is fod.nii.gz?"]
    assert digests(again) == wanted


def test_opening_can_be_cancelled_and_nothing_of_it_is_lost(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    path = tmp_path / "study.tracts.json"
    study.project.save(path)
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    again.project.opening.cancel()
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert [b.name for b in again.bundles.bundles] == ["CST left", "CST right"]
    other = tmp_path / "other.tracts.json"
    assert again.project.save(other)
    names = [b["name"] for b in json.loads(other.read_text())["bundles"]]
    assert names == ["CST left", "CST right"]


def test_changes_of_a_bundle_that_is_not_made_yet_are_saved(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    path, other = tmp_path / "study.tracts.json", tmp_path / "other.tracts.json"
    assert study.project.save(path)
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    again.project.opening.cancel()
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    unchanged, changed = again.bundles.bundles
    assert again.bundles.active is changed
    again.session.add_seeds_mm(ONE[None])
    again.set_parameters(step_mm=0.7)
    assert is_unsaved(again)
    assert again.project.save(other)
    saved = Project.load(other)
    recipe = saved.bundles[changed.name].source
    assert isinstance(recipe, Recipe)
    assert (len(recipe.seeds), recipe.parameters.step_mm) == (2, 0.7)
    before = Project.load(path).bundles[unchanged.name].source
    assert saved.bundles[unchanged.name].source == before  # with its edits and its digest
    again.bundles.history.undo()
    again.bundles.history.undo()
    assert again.project.save(other)
    sources = [Project.load(each).bundles[changed.name].source for each in (path, other)]
    assert sources[0] == sources[1]


@pytest.fixture
def held_opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The second bundle of a project that is opened is not made until the event is set."""
    one, gate = project_opening._one, threading.Event()

    def held(opening: Any, bundle: Any, execution: Any) -> Iterator[Any]:
        if bundle.name == "CST right":
            assert gate.wait(60)
        yield from one(opening, bundle, execution)

    monkeypatch.setattr(project_opening, "_one", held)
    yield gate
    gate.set()


def test_a_panel_that_is_closed_while_a_project_opens_shows_nothing_more_of_it(
    study: Any,
    open_model: Any,
    qtbot: Any,
    tmp_path: Path,
    held_opening: threading.Event,
    notes: list[str],
) -> None:
    """Its widgets may be gone: the window that closes would end with an error."""
    path = tmp_path / "study.tracts.json"
    assert study.project.save(path)
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    ended = []
    again.project.opening.ended.connect(ended.append)
    notes.clear()
    again.close_session()
    shown = []
    again.project.progress.bar.valueChanged.connect(shown.append)
    held_opening.set()
    qtbot.waitUntil(lambda: bool(ended), timeout=WAIT_MS)
    assert shown == []
    assert again.project.progress.isHidden()
    assert notes == []


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_opening_that_nobody_holds_ends_all_the_same(
    is_cancelled: bool,
    study: Any,
    open_model: Any,
    qtbot: Any,
    tmp_path: Path,
    held_opening: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where what brought the end of its thread is gone before its last turn comes."""
    path, ended = tmp_path / "study.tracts.json", []
    assert study.project.save(path)

    class Forgetful(project_opening.Opening):
        def _on_tracked(self) -> None:
            super()._on_tracked()
            self._turn.stop()
            ref = weakref.ref(self)
            QTimer.singleShot(50, lambda: (opening := ref()) and opening._turn.start())

    monkeypatch.setattr(project_button, "Opening", Forgetful)
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    again.project.opening.ended.connect(lambda _opening: ended.append(True))
    if is_cancelled:
        again.project.opening.cancel()
    again.close_session()
    held_opening.set()
    qtbot.waitUntil(lambda: bool(ended), timeout=WAIT_MS)


def is_unsaved(panel: Any) -> bool:
    panel.project.keeper.compare()
    return bool(panel.viewer.title.endswith("*"))


def test_what_was_tracked_by_hand_while_a_project_opens_stays(
    study: Any,
    open_model: Any,
    qtbot: Any,
    settle: Any,
    tmp_path: Path,
    held_opening: threading.Event,
    notes: list[str],
) -> None:
    path, wanted = tmp_path / "study.tracts.json", digests(study)
    assert study.project.save(path)
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    bundle = again.bundles.active
    assert bundle.name == "CST right"
    again.session.seeds.set_own([0], "n_per_seed", 17)
    again.run()
    settle(again)
    mine = digests(again)["CST right"]
    held_opening.set()
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert digests(again)["CST right"] == mine != wanted["CST right"]
    assert "CST right was changed or tracked meanwhile, and stays so." in notes[-1]
    steps = 0
    while again.bundles.history.last != "Edit CST left":
        again.bundles.history.undo()
        steps += 1
    assert digests(again) == wanted  # before that it is as it was saved
    for _ in range(steps):
        again.bundles.history.redo()
    assert digests(again)["CST right"] == mine


def test_changes_while_a_project_opens_are_unsaved(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path, held_opening: threading.Event
) -> None:
    path = tmp_path / "study.tracts.json"
    assert study.project.save(path)
    again = open_model(prepared=False)
    assert again.project.open_project(path)
    first, _ = again.bundles.bundles
    qtbot.waitUntil(lambda: first.tractogram is not None, timeout=WAIT_MS)
    assert not is_unsaved(again)
    again.bundles.activate(first)
    again.session.add_seeds_mm(OTHER[None])
    assert is_unsaved(again)
    held_opening.set()
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert is_unsaved(again)
    again.bundles.history.undo()
    assert not is_unsaved(again)


def test_nothing_is_unsaved_in_a_project_that_is_only_looked_at(
    study: Any, open_model: Any, qtbot: Any, tmp_path: Path
) -> None:
    """Each bundle in turn, whose regions get layers when it is first shown."""
    path = tmp_path / "study.tracts.json"
    assert study.project.save(path)
    again = open_model(prepared=False)
    open_project(again, path, qtbot)
    for bundle in again.bundles.bundles:
        again.bundles.activate(bundle)
        assert not is_unsaved(again)
    again.bundles.activate(again.bundles.bundles[0])
    again.session.regions.set_radius(again.session.regions.entries[0], 9.0)
    assert is_unsaved(again)


def test_what_was_set_since_streamlines_were_edited_is_told_to_be_left_out(
    study: Any, tmp_path: Path, notes: list[str]
) -> None:
    """They are saved as the run that gave them, which a project has no place beside."""
    path, regions = tmp_path / "study.tracts.json", study.session.regions
    assert study.project.save(path)
    assert len(notes) == 1
    study.bundles.activate(study.bundles.bundles[0])
    regions.add_region(Region.sphere((0, 0, 0), 4.0, "exclude"))
    study.set_parameters(max_angle_deg=20.0)
    notes.clear()
    assert study.project.save(path)
    assert "CST left" in notes[0]
    assert "left out: parameters, regions." in notes[0]
    assert len(notes) == 2
    recipe = Project.load(path).bundles["CST left"].source
    assert isinstance(recipe, Recipe)
    assert [region.role for region in recipe.regions] == ["include"]


def test_a_run_that_is_not_what_is_set_now_is_told_to_be_left_out(
    study: Any, tmp_path: Path, notes: list[str]
) -> None:
    """Its streamlines are on the screen, and come back as what is set gives them."""
    path = tmp_path / "study.tracts.json"
    study.bundles.activate(study.bundles.bundles[1])
    name = study.bundles.active.state.name
    study.set_parameters(random_seed=77)
    assert study.project.save(path)
    said = f"{name} is saved as it is set now; the run whose streamlines are shown is left out, "
    assert f"warning: {said}changed since: parameters." in notes
    recipe = Project.load(path).bundles[name].source
    assert isinstance(recipe, Recipe)
    assert recipe.parameters.random_seed == 77
    study.bundles.history.undo()
    notes.clear()
    assert study.project.save(path)
    assert not any(name in note for note in notes)


def test_a_slab_that_nobody_chose_is_that_of_the_volume_in_a_window_that_was_used(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, tmp_path: Path
) -> None:
    """Voxels of 3 mm show 6 mm about a slice; opening them is no step, and nothing unsaved."""
    crossing = make_phantom("cross", lmax=4)
    affine = np.diag([1.5, 1.5, 1.5, 1.0]) @ crossing.grid.affine
    coarse = Fod(crossing.coefficients, Grid(crossing.grid.shape, affine))
    panel, path = open_model(), tmp_path / "study.tracts.json"
    panel.data.add_fod(save_fod(coarse, tmp_path / "coarse.nii.gz"))
    panel.session.add_seeds_mm(1.5 * ONE[None])
    panel.run()
    settle(panel)
    assert panel.session.streamlines_layer.slab_mm == pytest.approx(6.0)
    assert panel.project.save(path)
    used = open_model()
    used.data.add_fod(save_fod(cross, tmp_path / "fod.nii.gz"))
    used.session.add_seeds_mm(ONE[None])
    used.run()
    settle(used)
    assert used.session.streamlines_layer.slab_mm == pytest.approx(4.0)
    used.project.keeper.note_saved(tmp_path / "other.tracts.json", used.project.keeper.now())
    open_project(used, path, qtbot)
    assert used.session.streamlines_layer.slab_mm == pytest.approx(6.0)
    assert not used.bundles.history.can_undo
    assert not is_unsaved(used)
    slab = next(c for c in used.appearance.controls if c.name == "slab_mm")
    assert slab.value == pytest.approx(6.0)
    slab.value = 9.0
    assert used.bundles.history.last == "Slab"
    used.bundles.history.undo()
    assert used.session.streamlines_layer.slab_mm == slab.value == pytest.approx(6.0)


def test_what_is_changed_while_a_project_is_written_is_unsaved(
    study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.tracts.json"

    def changed_meanwhile(work: Any, _text: str, _parent: Any) -> Any:
        study.session.add_seeds_mm(ONE[None])
        return work()

    monkeypatch.setattr(project_button, "wait_for", changed_meanwhile)
    assert study.project.save(path)
    recipe = Project.load(path).bundles["CST right"].source
    assert isinstance(recipe, Recipe)
    assert len(recipe.seeds) == 1
    assert is_unsaved(study)
    study.bundles.history.undo()
    assert not is_unsaved(study)


def test_what_looks_at_files_may_fail_and_bundles_are_tracked(
    study: Any,
    open_model: Any,
    qtbot: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    notes: list[str],
) -> None:
    path, wanted = tmp_path / "study.tracts.json", digests(study)
    assert study.project.save(path)

    def fail(_project: Project) -> list[str]:
        raise OSError("the disk is gone")

    monkeypatch.setattr(Project, "changed_files", fail)
    again = open_model(prepared=False)
    open_project(again, path, qtbot)
    assert digests(again) == wanted
    assert "Whether its files have changed is unknown: the disk is gone; see the log." in notes[-1]


def test_the_title_says_what_is_unsaved(study: Any, tmp_path: Path) -> None:
    keeper = study.project.keeper
    keeper.compare()
    assert study.viewer.title.endswith("*")
    study.project.save(tmp_path / "study.tracts.json")
    assert study.viewer.title.startswith("study")
    assert not study.viewer.title.endswith("*")
    study.bundles.rename(study.bundles.active, "AF right")
    keeper.compare()
    assert study.viewer.title.endswith("*")


def test_the_title_says_so_while_a_hand_is_still_moving(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    """Not only once nothing has changed for a moment."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))

    def is_said() -> bool:
        panel.session.move_seed(0, np.random.default_rng().uniform(-1, 1, 3))
        return bool(panel.viewer.title.endswith("*"))

    qtbot.waitUntil(is_said, timeout=20_000)


def test_what_can_no_longer_be_saved_is_unsaved(study: Any) -> None:
    """Streamlines whose FOD is gone would be lost as well."""
    study.viewer.layers.remove(study.session.fod_layer)
    study.project.keeper.compare()
    assert study.viewer.title.endswith("*")


def test_a_bundle_that_comes_back_without_streamlines_says_why(
    study: Any, settle: Any, open_model: Any, qtbot: Any, tmp_path: Path, notes: list[str]
) -> None:
    """A run without any left those of before on the screen, which a project does not have."""
    far = study.session.fod.grid.to_mm([0.0, 0.0, 0.0])
    study.session.regions.add_region(Region.sphere(tuple(far), 0.5, "include"))
    study.run()
    settle(study)
    said = notes[-1].removeprefix("warning: ")
    assert "missed an include region" in said
    assert study.project.save(tmp_path / "study.tracts.json")
    again = open_model(prepared=False)
    open_project(again, tmp_path / "study.tracts.json", qtbot)
    assert len(again.session.tractogram) == 0
    assert again.results.label.text() == said
    assert notes[-1] == ("info: 1 of 1 bundle has the digest that was saved; 1 saved without one.")


def test_a_damaged_project_is_to_be_replaced_by_a_project(
    open_model: Any, tmp_path: Path, notes: list[str]
) -> None:
    (tmp_path / "one.tracts.json").write_text('{"x":')
    assert not open_model().project.open_project(tmp_path / "one.tracts.json")
    assert "is no JSON" in notes[0]
    assert "give a recipe or a project" in notes[0]


def test_an_fod_that_is_closed_and_opened_again_leaves_nothing_unsaved(
    study: Any, tmp_path: Path
) -> None:
    assert study.project.save(tmp_path / "study.tracts.json")
    study.viewer.layers.remove(study.session.fod_layer)
    study.data.add_fod(tmp_path / "fod.nii.gz")
    assert not is_unsaved(study)


def test_a_bundle_that_is_left_out_of_a_project_is_unsaved(
    study: Any, cross: Any, tmp_path: Path, monkeypatch: Any, notes: list[str]
) -> None:
    """Save before the window closes keeps that open; without the bundle all is saved."""
    study.bundles.add("AF")
    study.viewer.add_layer(fod_layer(Fod(2 * cross.coefficients, cross.grid, name="mine")))
    study.data.fod_choice.value = study.viewer.layers[-1]
    study.session.add_seeds_mm(ONE[None])
    monkeypatch.setattr(QMessageBox, "question", lambda *_: QMessageBox.StandardButton.Save)
    monkeypatch.setattr(study.project, "ask_save", lambda: study.project.save(tmp_path / "s.json"))
    assert not study.project.may_be_lost()
    assert [note for note in notes if note.startswith("warning: AF is left out")]
    assert study.viewer.title.endswith("*")
    study.session.delete(study.bundles.active)
    assert not is_unsaved(study)
    assert study.project.may_be_lost()


@pytest.mark.parametrize("saved", [False, True])
def test_a_panel_that_is_opened_again_knows_what_is_saved(
    study: Any, qtbot: Any, tmp_path: Path, saved: bool
) -> None:
    path = tmp_path / "study.tracts.json"
    assert not saved or study.project.save(path)
    wanted = digests(study)
    study.close_session()
    assert not study.viewer.title.endswith("*")
    again = TractographyPanel(study.viewer)
    qtbot.addWidget(again)
    assert digests(again) == wanted
    again.project.keeper.compare()
    assert again.project.keeper.has_unsaved is not saved
    assert again.project.keeper.path == (path if saved else None)
    again.close_session()


@pytest.mark.parametrize(
    ("answer", "goes_on"),
    [
        pytest.param(QMessageBox.StandardButton.Cancel, False, id="cancel"),
        pytest.param(QMessageBox.StandardButton.Discard, True, id="discard"),
        pytest.param(QMessageBox.StandardButton.Save, True, id="save"),
    ],
)
def test_what_is_unsaved_is_asked_about(
    study: Any, tmp_path: Path, monkeypatch: Any, answer: Any, goes_on: bool
) -> None:
    path = tmp_path / "study.tracts.json"
    asked = []

    def ask(*args: Any) -> Any:
        asked.append(args[1])
        return answer

    monkeypatch.setattr(QMessageBox, "question", ask)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    assert study.project.may_be_lost() is goes_on
    assert path.exists() is (answer == QMessageBox.StandardButton.Save)
    assert len(asked) == 1
    if path.exists():
        assert study.project.may_be_lost()  # and nothing is asked
        assert len(asked) == 1


def test_nothing_is_asked_of_a_window_in_which_nothing_was_done(
    open_model: Any, cross: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(QMessageBox, "question", lambda *_: pytest.fail("asked"))
    panel = open_model(cross)
    assert panel.project.may_be_lost()


def test_a_crash_loses_nothing_that_was_kept(
    study: Any, open_model: Any, qtbot: Any, settings_folder: Path
) -> None:
    wanted = digests(study)
    assert not project_keeper.left_behind()
    study.project.keeper.autosave()
    (kept,) = (settings_folder / "kept").iterdir()
    assert str(os.getpid()) in kept.name
    assert not project_keeper.left_behind()  # the window is still there
    large = kept.with_name(f"{10**30}-1{project_keeper.ENDING}")  # no process that can be asked for
    kept.rename(large)
    assert not project_keeper.left_behind()
    kept = large
    dead = kept.with_name(f"999999999-1{project_keeper.ENDING}")
    kept.rename(dead)  # as if it had been another process
    again = open_model(prepared=False)
    again.project._show_found()
    assert not again.project.found_row.isHidden()
    again.project.restore.click()
    qtbot.waitUntil(lambda: not dead.exists(), timeout=WAIT_MS)
    (kept,) = (settings_folder / "kept").iterdir()  # there is no moment without
    assert list(Project.load(kept).bundles) == ["CST left", "CST right"]
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert digests(again) == wanted
    assert again.project.keeper.path is None  # Save asks where to


def test_a_project_that_was_kept_stays_until_it_is_kept_anew(
    study: Any, open_model: Any, qtbot: Any, settings_folder: Path, monkeypatch: Any
) -> None:
    study.project.keeper.autosave()
    (kept,) = (settings_folder / "kept").iterdir()
    dead = kept.with_name(f"999999999-1{project_keeper.ENDING}")
    kept.rename(dead)
    again = open_model(prepared=False)

    def fail(*_args: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(project_keeper, "write_json", fail)
    again.project.restore.click()
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert list((settings_folder / "kept").iterdir()) == [dead]


def test_what_is_undone_is_not_kept_for_a_crash(study: Any, settings_folder: Path) -> None:
    study.project.keeper.autosave()
    assert list((settings_folder / "kept").iterdir())
    while study.bundles.history.can_undo:
        study.bundles.history.undo()
    study.project.keeper.autosave()
    assert not list((settings_folder / "kept").iterdir())


def test_a_window_that_closes_in_peace_leaves_no_autosave(
    study: Any, settings_folder: Path
) -> None:
    study.project.keeper.autosave()
    assert len(list((settings_folder / "kept").iterdir())) == 1
    study.close_session()
    assert not list((settings_folder / "kept").iterdir())


def test_opened_streamlines_are_referred_to_with_what_filters_them(
    open_model: Any, cross: Any, qtbot: Any, tmp_path: Path
) -> None:
    lines = [[(x, y, 0) for x in np.linspace(-20, 20, 21)] for y in range(8)]
    file = tmp_path / "lines.tck"
    Tractogram.from_streamlines(lines).save(file)
    panel = open_model(cross)
    from napari_tractography.plugin.contributions import read_tractogram

    layer = read_tractogram(str(file))(str(file))[0]
    layer._source = layer.source.model_copy(update={"path": str(file)})
    panel.viewer.add_layer(layer)
    panel.bundles.activate(panel.session.of_layer(layer))
    entry = panel.session.regions.add_region(Region.sphere((0, 2, 0), 1.2, "include"))
    assert sorted(np.unique(layer.tractogram.points[:, 1])) == [1, 2, 3]
    panel.session.regions.set_role(entry, "exclude")
    assert sorted(np.unique(layer.tractogram.points[:, 1])) == [0, 4, 5, 6, 7]
    layer.selected = [0]
    layer.editor.delete_selected()
    path = tmp_path / "study.tracts.json"
    panel.project.save(path)
    again = open_model(cross, prepared=False)
    open_project(again, path, qtbot)
    (bundle,) = again.bundles.bundles
    assert bundle.state.is_opened
    shown = bundle.streamlines_layer.tractogram
    assert sorted(np.unique(shown.points[:, 1])) == [4, 5, 6, 7]
    assert [e.role for e in again.session.regions.entries] == ["exclude"]
    again.session.regions.remove(again.session.regions.entries[0])
    shown = bundle.streamlines_layer.tractogram
    assert sorted(np.unique(shown.points[:, 1])) == [1, 2, 3, 4, 5, 6, 7]


def test_filters_of_bundles_that_are_not_selected_come_back(
    open_model: Any, cross: Any, qtbot: Any, tmp_path: Path
) -> None:
    """What they show, what is saved again, and what the controls say once they are selected."""
    panel = open_model(cross)
    for n, (file, longest) in enumerate([("short.tck", 12.0), ("all.tck", 40.0)]):
        lines = [[(x, y, n) for x in np.linspace(-2 * y - 1, 2 * y + 1, 21)] for y in range(8)]
        Tractogram.from_streamlines(lines).save(tmp_path / file)
        panel.viewer.open(str(tmp_path / file), plugin="napari-tractography")
        panel.bundles.activate(panel.bundles.bundles[-1])
        panel.set_parameters(max_length_mm=longest, n_per_seed=7)
    wanted = digests(panel)
    path, again_path = tmp_path / "study.tracts.json", tmp_path / "again.tracts.json"
    panel.project.save(path)
    again = open_model(cross, prepared=False)
    open_project(again, path, qtbot)
    short, _ = again.bundles.bundles
    assert again.bundles.active is not short
    assert len(short.streamlines_layer.tractogram) == 3
    assert digests(again) == wanted
    again.project.save(again_path)
    sources = [[b.source for b in Project.load(p).bundles.values()] for p in (path, again_path)]
    assert sources[0] == sources[1]
    again.bundles.activate(short)
    assert digests(again) == wanted
    assert again.session.parameters.max_length_mm == 12.0
    assert again.session.seeding.n_per_seed == 7


def test_the_other_side_is_tracked_with_mirrored_seeds_and_regions(study: Any, settle: Any) -> None:
    first, _ = study.bundles.bundles
    study.bundles.activate(first)
    study.bundle_list.mirror.click()
    settle(study)
    made = study.bundles.active
    assert made.name == "CST right 2"  # there is one already
    np.testing.assert_allclose(study.session.seeds.positions_mm, ONE[None] * [-1, 1, 1], atol=1e-4)
    assert len(made.tractogram) > 0
    assert len(study.bundles.bundles) == 3
    study.bundles.history.undo()  # the run
    assert made.tractogram is None
    assert study.bundles.active is made
    study.bundles.history.undo()
    assert len(study.bundles.bundles) == 2


def test_napari_opens_a_project_and_docks_the_panel(
    make_napari_viewer: Any, study: Any, qtbot: Any, tmp_path: Path
) -> None:
    path, wanted = tmp_path / "study.tracts.json", digests(study)
    study.project.save(path)
    viewer = make_napari_viewer()
    assert viewer.open(str(path), plugin="napari-tractography") == []

    def panel() -> Any:
        return next(iter(viewer.window.dock_widgets.values()))

    qtbot.waitUntil(lambda: len(viewer.window.dock_widgets) == 1, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: len(panel().bundles.bundles) == 2, timeout=WAIT_MS)
    qtbot.waitUntil(lambda: panel().project.opening is None, timeout=WAIT_MS)
    assert digests(panel()) == wanted
    panel().close_session()


def test_save_asks_where_to_once(
    study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    answers = ["", str(tmp_path / "mine"), str(tmp_path / "other.json")]
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *args: (answers.pop(0), ""))
    project = study.project
    assert not project.ask_save()  # it was cancelled
    assert not list(tmp_path.glob("*.tracts.json"))
    assert project.ask_save()
    assert project.ask_save()  # again, to the same file
    assert project.ask_save(is_as=True)
    assert answers == []
    saved = {path.name: Project.load(path) for path in tmp_path.glob("*.tracts.json")}
    assert saved.keys() == {"mine.tracts.json", "other.tracts.json"}
    for each in saved.values():
        assert list(each.bundles) == ["CST left", "CST right"]
    assert notes[-1] == f"info: Saved 2 bundles to {tmp_path / 'other.tracts.json'}."


def test_a_project_that_cannot_be_saved_or_opened_is_told(
    study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    before = digests(study)
    assert not study.project.save(tmp_path / "nowhere" / "study.tracts.json")
    broken = tmp_path / "broken.tracts.json"
    for text in ("{", json.dumps({"format_version": 10**6, "bundles": []})):
        broken.write_text(text, "utf-8")
        assert not study.project.open_project(broken)
    assert [note.startswith("error: ") for note in notes] == [True] * 3
    assert "nowhere" in notes[0]
    assert all("broken.tracts.json" in note for note in notes[1:])
    monkeypatch.setattr(study.project, "may_be_lost", lambda: False)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *args: pytest.fail("asked"))
    study.project.ask_open()
    assert digests(study) == before


def test_the_copied_script_makes_all_bundles_again(
    study: Any, open_model: Any, notes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    study.project.copy_python()
    assert notes[-1] == "info: Copied; it gives the 2 bundles with their digests."
    exec(compile(QGuiApplication.clipboard().text(), "copied", "exec"), {})
    printed = capsys.readouterr().out
    assert all(digest in printed for digest in digests(study).values())
    notes.clear()
    open_model().project.copy_python()
    (note,) = notes
    assert note.startswith("error: There are no bundles to copy")


@pytest.mark.parametrize("says_yes", [True, False])
def test_a_server_is_contacted_once_a_person_says_so(
    monkeypatch: pytest.MonkeyPatch, says_yes: bool
) -> None:
    """Once a server, and of other protocols than https and s3 not at all."""
    monkeypatch.setattr(servers, "_allowed", set())
    asked: list[str] = []

    def question(_parent: object, _title: str, text: str) -> object:
        asked.append(text)
        buttons = QMessageBox.StandardButton
        return buttons.Yes if says_yes else buttons.No

    monkeypatch.setattr(QMessageBox, "question", question)
    at = ["https://a.org/x.zarr", "https://a.org/y.zarr", "s3://b/z.zarr"]
    project = SimpleNamespace(unasked_files=lambda: at)
    button = SimpleNamespace(window=lambda: None)
    if says_yes:
        ProjectButton._ask_servers(button, project)
        assert [text.rpartition("//")[2] for text in asked] == [
            "a.org. Contact that server?", "b. Contact that server?"
        ]  # fmt: skip
        assert all(map(servers.is_allowed, at))
        at[:] = ["ftp://a.org/x.zarr"]
        with pytest.raises(FileError, match="not contacted unless"):
            ProjectButton._ask_servers(button, project)
    else:
        with pytest.raises(FileError, match=r"https://a\.org was not contacted"):
            ProjectButton._ask_servers(button, project)
    assert len(asked) == (2 if says_yes else 1)
