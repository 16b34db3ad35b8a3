"""The list of bundles: each has seeds, regions, parameters and streamlines of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import CHUNK, FEW, LEFT_HANDED, OBLIQUE, WAIT_MS, fod_layer
from napari.layers import Layer

from napari_tractography import Fod, Tractogram, track
from napari_tractography.errors import InvalidFodError, TractographyError
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.model.regions import Region
from napari_tractography.plugin.document import Result
from napari_tractography.plugin.layers.spheres import Spheres
from napari_tractography.plugin.layers.volume_layers import fod_layers, mask_layer_data
from napari_tractography.plugin.session import runs
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.tracking.cluster import versions

ONE, OTHER = phantom_seeds_mm("cross")


def same_as_shown(panel: Any) -> str:
    """Digest of what the active bundle's settings give, tracked without the window."""
    request = panel.session.request()
    return str(
        track(request.fod, request.seeds(), request.parameters, regions=request.regions).digest()
    )


@pytest.fixture
def two(open_model: Any, cross: Any, settle: Any) -> Any:
    """A panel with a bundle through one seed and a second, active, through the other."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    panel.run()
    settle(panel)
    panel.bundles.add("second")
    panel.session.add_seeds_mm(OTHER[None])
    panel.set_parameters(max_angle_deg=20.0, n_per_seed=FEW + 5)
    panel.session.regions.add_region(Region.sphere((0, 0, 0), 6.0, "include"))
    panel.run()
    settle(panel)
    return panel


def test_run_fills_the_active_bundle_and_no_other(two: Any, settle: Any) -> None:
    first, second = two.bundles.bundles
    assert first.streamlines_layer is not second.streamlines_layer
    assert [b.tractogram.n_seeds for b in (first, second)] == [FEW, FEW + 5]
    kept, wanted = first.tractogram.digest(), same_as_shown(two)
    assert second.tractogram.digest() == wanted != kept
    assert first.streamlines_layer.tractogram.digest() == kept


def test_switching_brings_back_what_is_a_bundles_own(two: Any) -> None:
    first, second = two.bundles.bundles
    session = two.session
    two.bundles.activate(first)
    np.testing.assert_allclose(session.seeds.positions_mm, ONE[None], atol=1e-4)
    assert session.regions.entries == []
    assert session.seeding.n_per_seed == FEW
    assert session.parameters.max_angle_deg != 20.0
    assert session.tractogram is first.tractogram
    assert session.is_result_current
    names = [layer.name for layer in two.viewer.layers if layer.visible]
    assert names.count("Seeds") == 1
    assert "sphere" not in names
    two.bundles.activate(second)
    np.testing.assert_allclose(session.seeds.positions_mm, OTHER[None], atol=1e-4)
    assert [entry.role for entry in session.regions.entries] == ["include"]
    assert session.seeding.n_per_seed == FEW + 5
    assert session.parameters.max_angle_deg == 20.0
    assert session.is_result_current
    assert "sphere" in [layer.name for layer in two.viewer.layers if layer.visible]


def test_each_bundle_keeps_the_layers_that_it_is_tracked_with(
    open_model: Any, cross: Any, settle: Any
) -> None:
    """Layers that come and go with a bundle do not bring back those of the one before."""
    panel = open_model(cross, make_phantom("cross", lmax=4))
    session, data = panel.session, panel.data
    mask = Layer.create(*mask_layer_data(np.ones(cross.grid.shape), cross.grid, "mask"))
    panel.viewer.add_layer(mask)
    one, other = fod_layers(panel.viewer.layers)
    wanted = [(one, None, None), (other, mask, None), (one, mask, mask)]
    for number, (fod, tracked, seeded) in enumerate(wanted):
        if number:
            panel.bundles.add()
        data.fod_choice.value, data.mask_choice.value = fod, tracked
        panel.seeds.mask_choice.value = seeded
        session.add_seeds_mm(ONE[None])
        session.regions.add_region(Region.sphere((0, 0, 0), 50.0, "include"))
        panel.run()
        settle(panel)
        assert session.is_result_current
    for number in (0, 1, 2, 0, 2, 1):
        panel.bundles.activate(panel.bundles.bundles[number])
        assert tuple(map(session.layer_of, ("fod", "mask", "seed_mask"))) == wanted[number]
        assert session.is_result_current
        controls = data.fod_choice, data.mask_choice, panel.seeds.mask_choice
        assert tuple(control.value for control in controls) == wanted[number]


def test_the_controls_of_the_panel_follow(two: Any) -> None:
    first, second = two.bundles.bundles
    controls = {
        c.name: c for c in [*two.seeds.controls, *two.tracking.controls, *two.appearance.controls]
    }
    controls["colour_by"].value = "length"
    two.bundles.activate(first)
    assert controls["n_per_seed"].value == FEW
    assert controls["max_angle_deg"].value != 20.0
    assert controls["colour_by"].value == "direction" == first.streamlines_layer.colour_by
    controls["width"].value = 6.0
    assert (first.streamlines_layer.width, second.streamlines_layer.width) == (6.0, 2.0)
    text = two.results.label.text()
    assert f"{len(first.tractogram):,} streamlines" in text
    two.bundles.activate(second)
    assert controls["width"].value == 2.0
    assert controls["colour_by"].value == "length" == second.streamlines_layer.colour_by
    assert two.results.label.text() != text


def test_selecting_a_layer_of_streamlines_makes_its_bundle_active(two: Any) -> None:
    first, second = two.bundles.bundles
    two.viewer.layers.selection.active = first.streamlines_layer
    assert two.session.bundle is first
    two.viewer.layers.selection.active = two.viewer.layers[0]
    assert two.session.bundle is first
    two.viewer.layers.selection.active = second.streamlines_layer
    assert two.session.bundle is second


def test_live_tracks_the_active_bundle_only(two: Any, settle: Any, qtbot: Any) -> None:
    first, second = two.bundles.bundles
    before = second.tractogram
    two.live.setChecked(True)
    two.bundles.activate(first)
    assert two.runs.current is None  # nothing has changed
    two.session.move_seed(
        0, two.session.space.to_display((ONE + np.array([2.0, 1.0, 0.0]))[None])[0]
    )
    settle(two)
    qtbot.waitUntil(lambda: two.session.is_result_current, timeout=WAIT_MS)
    settle(two)
    assert first.tractogram.digest() == same_as_shown(two)
    assert second.tractogram is before


@pytest.mark.usefixtures("long_runs")
def test_a_run_goes_on_into_its_own_bundle(two: Any, settle: Any) -> None:
    first, second = two.bundles.bundles
    two.bundles.activate(first)
    kept = second.tractogram
    two.set_parameters(n_per_seed=4 * CHUNK)
    wanted = same_as_shown(two)
    two.run()
    two.bundles.activate(second)
    text = two.results.label.text()
    settle(two)
    assert first.tractogram.digest() == wanted
    assert second.tractogram is kept
    assert two.results.label.text() == text  # that of the bundle that is active
    two.bundles.activate(first)
    assert f"{len(first.tractogram):,} streamlines" in two.results.label.text()


@pytest.mark.parametrize("n_arrived", [0, 1])
def test_a_run_that_fails_in_a_bundle_that_rests_is_told_there(
    two: Any, settle: Any, monkeypatch: Any, notes: list[str], n_arrived: int
) -> None:
    """With what has become of its result; nothing is said of the bundle that is active."""
    first, second = two.bundles.bundles
    gate = threading.Event()

    def broken(*args: Any, **kwargs: Any) -> Iterator[Tractogram]:
        gate.wait(60)
        yield from [Tractogram([[0, 0, 0], [1, 0, 0]], [0, 2], n_seeds=1)] * n_arrived
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(runs, "iter_chunks", broken)
    two.bundles.activate(first)
    before = two.results.label.text()
    two.run()
    two.bundles.activate(second)
    text = two.results.label.text()
    gate.set()
    settle(two)
    assert two.results.label.text() == text
    assert notes[-1].startswith("error: Bundle 1: Tracking failed: the device is gone")
    two.bundles.activate(first)
    problem, _, known = two.results.label.text().partition("<br>")
    assert "the device is gone" in problem
    assert known.startswith("<b>1 streamline</b>") if n_arrived else known == before


@pytest.mark.usefixtures("long_runs")
def test_a_bundle_that_is_deleted_while_it_is_tracked_stays_away(two: Any, settle: Any) -> None:
    _, second = two.bundles.bundles
    two.set_parameters(n_per_seed=4 * CHUNK)
    two.run()
    two.session.delete(second)
    settle(two)
    assert two.bundles.bundles == [two.session.bundle]
    assert sum(isinstance(layer, Streamlines) for layer in two.viewer.layers) == 1


def test_deleting_is_undone_with_everything(two: Any) -> None:
    first, second = two.bundles.bundles
    layers = list(two.viewer.layers)
    wanted, digest = same_as_shown(two), second.tractogram.digest()
    two.session.delete(second)
    assert two.session.bundle is first
    assert second.streamlines_layer not in two.viewer.layers
    two.bundles.history.undo()
    assert two.bundles.bundles == [first, second]
    assert two.session.bundle is second
    assert set(two.viewer.layers) == {*layers[:1], *layers[1:]}
    assert same_as_shown(two) == wanted
    assert second.streamlines_layer.tractogram.digest() == digest
    two.bundles.history.redo()
    assert two.bundles.bundles == [first]


def test_removing_the_layer_deletes_the_bundle_and_is_undone_with_it(two: Any) -> None:
    first, second = two.bundles.bundles
    two.viewer.layers.remove(first.streamlines_layer)
    assert two.bundles.bundles == [second]
    two.bundles.history.undo()
    assert two.bundles.bundles == [first, second]
    assert first.streamlines_layer in two.viewer.layers
    two.bundles.activate(first)
    np.testing.assert_allclose(two.session.seeds.positions_mm, ONE[None], atol=1e-4)


def test_the_only_bundle_keeps_its_seeds_when_its_layer_goes(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    panel.run()
    settle(panel)
    (bundle,) = panel.bundles.bundles
    layer = bundle.streamlines_layer
    told = panel.results.label.text()
    panel.viewer.layers.remove(layer)
    assert len(panel.session.seeds) == 1
    assert panel.session.tractogram is panel.session.state.result_request is None
    assert "streamlines</b>" not in panel.results.label.text()
    assert not panel.save_button.isEnabled()
    panel.bundles.history.undo()
    assert panel.results.label.text() == told
    assert panel.save_button.isEnabled()
    panel.bundles.history.redo()
    assert not panel.save_button.isEnabled()
    panel.run()
    settle(panel)
    panel.bundles.history.undo()  # the run
    assert bundle.streamlines_layer is None
    panel.bundles.history.undo()  # the removal
    assert bundle.streamlines_layer is layer in panel.viewer.layers
    assert sum(isinstance(other, Streamlines) for other in panel.viewer.layers) == 1


def test_deleting_the_last_bundle_leaves_a_blank_one(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    (bundle,) = panel.bundles.bundles
    panel.session.delete(bundle)
    assert len(panel.bundles.bundles) == 1
    assert len(panel.session.seeds) == 0
    panel.bundles.history.undo()
    assert panel.bundles.bundles == [bundle]
    assert len(panel.session.seeds) == 1


def test_a_duplicate_gives_the_same_and_is_edited_by_itself(two: Any, settle: Any) -> None:
    _, second = two.bundles.bundles
    second.streamlines_layer.editor.select(0)
    second.streamlines_layer.editor.delete_selected()
    n = len(second.tractogram)
    wanted = same_as_shown(two)
    copy = two.bundles.duplicate()
    assert two.session.bundle is copy
    assert same_as_shown(two) == wanted
    assert len(copy.tractogram) == n
    copy.streamlines_layer.editor.select(0)
    copy.streamlines_layer.editor.delete_selected()
    assert (len(copy.tractogram), len(second.tractogram)) == (n - 1, n)
    copy.streamlines_layer.editor.undo()
    assert (len(copy.tractogram), len(second.tractogram)) == (n, n)
    two.run()
    settle(two)
    assert copy.tractogram.digest() == wanted
    assert len(second.tractogram) == n


def test_names_of_bundle_and_layer_are_one(two: Any) -> None:
    first, _ = two.bundles.bundles
    two.bundles.rename(first, " CST left ")
    assert (first.name, first.streamlines_layer.name) == ("CST left", "CST left")
    first.streamlines_layer.name = "AF left"
    assert first.name == "AF left"
    two.bundles.history.undo()
    assert (first.name, first.streamlines_layer.name) == ("CST left", "CST left")
    two.bundles.rename(first, "  ")
    assert first.name == "CST left"


def test_bundles_are_reordered_and_that_is_undone(two: Any) -> None:
    first, second = two.bundles.bundles
    two.bundles.move(second, -1)
    assert two.bundles.bundles == [second, first]
    two.bundles.move(second, -1)
    two.bundles.history.undo()
    assert two.bundles.bundles == [first, second]


def opened(n: int = 8) -> Streamlines:
    """A layer as the reader makes it of a file: parallel lines along x."""
    lines = [[(x, y, 0) for x in np.linspace(-20, 20, 21)] for y in range(n)]
    return Streamlines(Tractogram.from_streamlines(lines), name="lines.tck")


def test_an_opened_tractogram_is_a_bundle_that_is_not_tracked(
    open_model: Any, cross: Any, notes: list[str]
) -> None:
    panel = open_model(cross)
    layer = opened()
    panel.viewer.add_layer(layer)
    (bundle,) = panel.bundles.bundles  # in place of the one in which nothing was done
    assert (bundle.name, bundle.streamlines_layer) == ("lines.tck", layer)
    assert panel.session.tractogram is layer.tractogram
    assert "8 streamlines" in panel.results.label.text()
    assert panel.save_button.isEnabled()
    assert not panel.run_button.isEnabled()
    assert "opened from a file" in panel.run_button.toolTip()
    panel.runs.start()
    assert "opened from a file" in panel.results.label.text()
    control = next(c for c in panel.appearance.controls if c.name == "colour_by")
    control.value = "length"
    assert layer.colour_by == "length"


def test_a_seed_beside_opened_streamlines_begins_a_bundle(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.viewer.add_layer(opened())
    (bundle,) = panel.bundles.bundles
    panel.session.add_seeds_mm(ONE[None])
    assert len(panel.bundles.bundles) == 2
    assert panel.session.bundle is not bundle
    assert panel.run_button.isEnabled()
    panel.bundles.activate(bundle)
    assert len(panel.session.seeds) == 0


@pytest.mark.usefixtures("long_runs")
def test_the_first_streamlines_of_a_bundle_that_rests_do_not_make_it_active(
    open_model: Any, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    panel.set_parameters(n_per_seed=4 * CHUNK)
    panel.run()
    first = panel.session.bundle
    second = panel.bundles.add()
    settle(panel)
    assert len(first.streamlines_layer.tractogram) > 0
    assert panel.session.bundle is second


def test_a_copy_of_a_layer_by_napari_is_a_bundle_of_its_own(two: Any) -> None:
    layer = two.session.streamlines_layer
    two.viewer.add_layer(Layer.create(*layer.as_layer_data_tuple()))
    assert len(two.bundles.bundles) == 3
    assert len({id(b.streamlines_layer) for b in two.bundles.bundles}) == 3


@pytest.mark.parametrize("is_edited", [False, True])
def test_the_layer_of_the_only_bundle_is_put_back_with_its_streamlines(
    open_model: Any, cross: Any, settle: Any, is_edited: bool
) -> None:
    """As a script moves it; they are what they were, with what they were tracked from."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(ONE[None])
    panel.run()
    settle(panel)
    (bundle,) = panel.bundles.bundles
    layer, layers = bundle.layer, panel.viewer.layers
    if is_edited:
        layer.editor.select(0)
        layer.editor.delete_selected()
    digest = bundle.tractogram.digest()

    def is_as_before() -> bool:
        shown = [layer.tractogram.digest(), bundle.tractogram.digest()]
        return bundle.streamlines_layer is layer in layers and shown == [digest, digest]

    layers.append(layers.pop(layers.index(layer)))
    assert panel.bundles.bundles == [bundle]
    assert is_as_before()
    assert panel.session.is_result_current
    assert panel.session.has_edits is is_edited
    assert panel.save_button.isEnabled()
    panel.session.document.undo()  # what was put back
    assert layer not in layers
    assert bundle.tractogram is None
    panel.session.document.undo()  # the removal
    assert is_as_before()
    panel.session.document.redo()
    panel.session.document.redo()
    panel.session.add_seeds_mm(OTHER[None])
    assert is_as_before()


def test_a_layer_that_a_script_moves_by_taking_it_out_stays_that_of_its_bundle(two: Any) -> None:
    first, second = two.bundles.bundles
    layer, digest, wanted = second.layer, second.tractogram.digest(), same_as_shown(two)
    layers = two.viewer.layers
    layers.insert(0, layers.pop(layers.index(layer)))
    assert two.bundles.bundles == [second, first]
    assert layers[0] is layer is second.streamlines_layer
    assert two.session.bundle is second
    assert second.tractogram.digest() == digest == layer.tractogram.digest()
    assert same_as_shown(two) == wanted
    layer.editor.select(0)
    layer.editor.delete_selected()  # it is listened to
    assert second.tractogram is layer.tractogram
    for _ in range(3):  # the edit, what was put back, the removal
        two.bundles.history.undo()
    assert two.bundles.bundles == [first, second]
    assert layer is second.streamlines_layer in layers
    two.bundles.history.redo()
    assert layer not in layers
    two.bundles.history.redo()
    assert two.bundles.bundles == [second, first]
    two.session.add_seeds_mm(ONE[None])
    assert two.bundles.bundles == [second, first]


def test_an_opened_layer_that_is_put_back_is_the_bundle_of_its_file(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    panel.viewer.add_layer(opened())
    (bundle,) = panel.bundles.bundles
    layers = panel.viewer.layers
    layers.append(layers.pop(layers.index(bundle.layer)))
    assert panel.bundles.bundles == [bundle]
    assert bundle.tractogram is bundle.streamlines_layer.tractogram


def test_a_layer_that_comes_back_with_other_streamlines_is_another_bundle(two: Any) -> None:
    first, second = two.bundles.bundles
    layer, before, layers = second.layer, second.tractogram, two.viewer.layers
    layers.remove(layer)
    layer.tractogram = before[:3]
    layers.append(layer)
    _, created = two.bundles.bundles
    assert created is not second
    assert created.tractogram is layer.tractogram
    two.bundles.history.undo()  # the removal
    assert two.bundles.bundles == [first, second, created]
    assert second.streamlines_layer is not layer
    assert second.tractogram is before is second.streamlines_layer.tractogram
    assert len(created.tractogram) == len(created.streamlines_layer.tractogram) == 3
    two.session.add_seeds_mm(ONE[None])


@pytest.mark.parametrize("affine", [OBLIQUE, LEFT_HANDED], ids=["oblique", "left-handed"])
def test_a_duplicate_starts_at_the_same_places_to_the_bit(
    open_model: Any, cross: Any, affine: Any
) -> None:
    """As a person places them: somewhere in a slice, and not at rounded coordinates."""
    panel = open_model(Fod(cross.coefficients, affine))
    session = panel.session
    for at in np.random.default_rng(3).uniform(-9, 9, (20, 3)):
        session.add_seed(at)
        session.regions.add_sphere(at, 4.0 + at[0] / 7)
    session.keep_result(session.bundle, Result(Tractogram.empty(), session.request()))
    for _ in range(2):
        panel.bundles.duplicate()
        assert session.is_result_current


def test_switching_puts_no_layer_in_and_takes_none_out(
    open_model: Any, cross: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of bundles: one frame, in which no package is looked up either."""
    panel = open_model(cross)
    session = panel.session
    for x in range(6):
        if x:
            panel.bundles.add()
        session.add_seeds_mm(np.array([[x, 0.0, 0.0]]))
        session.regions.add_region(Region.sphere((x, 1, 2), 2.0 + x, "include"))
    changed: list[str] = []
    for name in ("inserted", "removed", "moved"):
        panel.viewer.layers.events[name].connect(lambda _e, name=name: changed.append(name))
    monkeypatch.setattr(versions, "version", lambda name: changed.append(name) or "1")
    versions._version.cache_clear()
    for bundle in (*panel.bundles.bundles, panel.bundles.bundles[2]):
        panel.bundles.activate(bundle)
        panel.project.keeper.compare()
        (entry,) = session.regions.entries
        assert entry.layer.visible
        x = session.seeds.positions_mm[0, 0]
        (region,) = session.regions.of(entry)
        np.testing.assert_allclose(region.center_mm, (x, 1, 2), atol=1e-4)
        np.testing.assert_allclose(entry.layer.radius_mm, 2.0 + x, atol=1e-4)
    assert changed == []
    assert sum(isinstance(layer, Spheres) for layer in panel.viewer.layers) == 1


def test_a_bundle_says_in_what_it_was_tracked_when_that_is_closed(
    open_model: Any, cross: Any, settle: Any
) -> None:
    """And no other FOD is chosen for it, though there is one."""
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(ONE[None])
    panel.run()
    settle(panel)
    shown = session.tractogram
    panel.viewer.add_layer(fod_layer(make_phantom("cross", lmax=4)))
    panel.viewer.layers.remove(session.fod_layer)
    assert session.fod_layer is None
    assert session.closed_fod == "cross"
    assert panel.data.fod_choice.value is None
    assert session.tractogram is shown
    with pytest.raises(InvalidFodError, match="The FOD cross was closed; open it again"):
        session.request()
    panel.run()
    settle(panel)
    assert session.tractogram is shown
    (other,) = fod_layers(panel.viewer.layers)
    panel.data.fod_choice.value = other  # what a person chooses is tracked in
    assert session.fod_layer is other
    session.document.undo()
    assert session.closed_fod == "cross"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("mask", "The mask part was closed; open it again", id="mask"),
        pytest.param("seed_mask", "The seed mask part was closed", id="seed mask"),
        pytest.param("tissues", "The tissue image part was closed", id="tissues"),
    ],
)
def test_a_bundle_is_not_tracked_without_what_was_closed(
    open_model: Any, cross: Any, settle: Any, tmp_path: Path, name: str, sentence: str
) -> None:
    """Nothing is dropped in silence: what was chosen is still chosen, until a person says none."""
    panel = open_model(cross)
    session, viewer = panel.session, panel.viewer
    session.add_seeds_mm(ONE[None])
    choice = {
        "mask": panel.data.mask_choice,
        "seed_mask": panel.seeds.mask_choice,
        "tissues": panel.tissues.choice,
    }[name]
    if name == "seed_mask":
        panel.set_parameters(source="mask")

    def opened() -> Any:
        layer = Layer.create(*mask_layer_data(np.ones(cross.grid.shape), cross.grid, "part"))
        layer.data = np.where(np.arange(layer.data.shape[2]) < 28, 2, 3) * layer.data  # FreeSurfer
        layer.metadata["path"] = str(tmp_path / "part.nii.gz")
        return viewer.add_layer(layer)

    choice.value = layer = opened()
    before = session.parameters
    panel.run()
    settle(panel)
    shown = session.tractogram
    assert len(shown)
    viewer.layers.remove(layer)
    assert choice.value is session.chosen_input(name)
    assert choice.current_choice == "part (closed)"
    assert session.parameters == before
    with pytest.raises(TractographyError, match=sentence):
        session.request()
    panel.run()
    settle(panel)
    assert session.tractogram is shown
    again = opened()  # from the same file
    assert choice.value is again
    assert session.is_result_current
    viewer.layers.remove(again)
    choice.value = None
    assert session.chosen_input(name) is None
    assert "part (closed)" not in choice._widget._mgui_get_choices()
    session.document.undo()
    assert choice.current_choice == "part (closed)"


def test_a_blank_bundle_takes_the_fod_that_is_opened(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.viewer.layers.remove(panel.session.fod_layer)
    other = panel.viewer.add_layer(fod_layer(make_phantom("cross", lmax=4)))
    assert panel.session.fod_layer is other


def test_a_run_that_gives_nothing_leaves_what_was_there_and_says_so(
    open_model: Any, cross: Any, settle: Any, notes: list[str]
) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(ONE[None])
    panel.run()
    settle(panel)
    shown, n = session.tractogram, len(session.tractogram)
    panel.set_parameters(min_length_mm=79.9)
    panel.run()
    settle(panel)
    assert session.tractogram is shown is session.streamlines_layer.tractogram
    assert "Those of before were kept" in panel.results.label.text()
    assert f"{n:,} streamlines" in panel.results.label.text()
    assert any(note.startswith("warning") for note in notes)


def test_a_run_is_an_act_that_can_be_undone(open_model: Any, cross: Any, settle: Any) -> None:
    panel = open_model(cross)
    session = panel.session
    session.add_seeds_mm(ONE[None])
    panel.run()
    settle(panel)
    first = session.tractogram
    panel.set_parameters(max_angle_deg=20.0)
    panel.run()
    settle(panel)
    second = session.tractogram
    session.document.undo()
    assert session.streamlines_layer.tractogram is first
    assert not session.is_result_current
    session.document.undo()  # the angle
    assert session.is_result_current
    session.document.redo()
    session.document.redo()
    assert session.streamlines_layer.tractogram is second


def test_a_preview_goes_when_undo_removes_the_last_seed(
    open_model: Any, cross: Any, settle: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    panel.live.setChecked(True)
    panel.session.add_seeds_mm(ONE[None])
    settle(panel)
    qtbot.waitUntil(lambda: panel.session.tractogram is not None, timeout=WAIT_MS)
    assert panel.bundle_list.table.item(0, 3).text() != "–"
    panel.session.document.undo()
    settle(panel)
    assert panel.session.tractogram is None
    assert panel.session.streamlines_layer is None
    assert panel.bundle_list.table.item(0, 3).text() == "–"
    panel.session.document.redo()
    assert panel.session.tractogram is not None


def test_spheres_of_a_bundle_stay_in_place_while_another_fod_is_shown(
    open_model: Any, cross: Any
) -> None:
    """The space of the window changed while the bundle was not active, and its FOD was closed."""
    panel = open_model(cross)
    session, first = panel.session, panel.session.bundle
    session.regions.add_region(Region.sphere((4, 2, 6), 3.0, "include"))
    panel.bundles.add()
    turned = make_phantom("cross", affine=OBLIQUE, lmax=2)
    known = session.fod_layer
    panel.data.fod_choice.value = panel.viewer.add_layer(fod_layer(turned))
    panel.viewer.layers.remove(known)
    panel.bundles.activate(first)
    (entry,) = session.regions.entries
    assert session.closed_fod == "cross"
    np.testing.assert_allclose(session.space.positions_at(entry.layer.data), [(4, 2, 6)], atol=1e-3)
