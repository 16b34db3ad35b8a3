"""The Data section: FODs and masks from layers and from files, and files that are neither."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import FEW, MANY, OBLIQUE, WAIT_MS, fod_layer, save_fod
from napari.layers import Image
from qtpy.QtWidgets import QFileDialog

from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.space.display import DisplaySpace

MIDDLE = np.zeros((1, 3))


def test_the_mask_that_is_chosen_reaches_the_run(
    open_model: Any, cross: Any, tmp_path: Path, settle: Any
) -> None:
    """Only the right half: every streamline ends at its border at the latest."""
    half = np.zeros(cross.grid.shape, np.uint8)
    half[16:] = 1
    path = tmp_path / "right.nii.gz"
    nib.save(nib.Nifti1Image(half, cross.grid.affine), path)
    panel = open_model(cross)
    panel.session.add_seeds_mm([[8.0, 4.0, 0.0]])
    panel.data.add_mask(path)
    assert panel.data.mask_choice.value.name == "right.nii.gz"
    panel.run()
    settle(panel)
    assert panel.session.tractogram.points[:, 0].min() >= cross.grid.to_mm([15.5, 0, 0])[0]
    panel.data.mask_choice.value = None
    panel.run()
    settle(panel)
    assert panel.session.tractogram.points[:, 0].min() < 0


def test_the_volume_is_translucent_in_3d_and_each_view_keeps_its_opacity(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    layer, dims = panel.viewer.layers[0], panel.viewer.dims
    assert layer.opacity == 1
    dims.ndisplay = 3
    assert layer.opacity < 0.5
    layer.opacity = 0.7
    dims.ndisplay = 2
    assert layer.opacity == 1
    dims.ndisplay = 3
    assert layer.opacity == 0.7


def broken_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are no FOD, and what must be said."""
    cross = make_phantom("cross", lmax=2)
    good = save_fod(cross, folder / "good.nii.gz")

    def nifti(name: str, values: np.ndarray) -> Path:
        path = folder / name
        nib.save(nib.Nifti1Image(values, np.eye(4)), path)
        return path

    flat = nib.Nifti1Image(np.ones((4, 4, 4, 6), np.float32), None)
    flat.header.set_sform(np.diag([1.0, 1, 0, 1]), code=1)
    nib.save(flat, folder / "flat.nii")
    text = folder / "text.nii.gz"
    text.write_text("not an image")
    cut = folder / "cut.nii"
    cut.write_bytes(gzip.decompress(good.read_bytes())[:2000])
    return {
        "missing": (folder / "nowhere.nii.gz", "nowhere.nii.gz"),
        "unreadable": (text, "text.nii.gz"),
        "truncated": (cut, "cut.nii"),
        "3-D": (nifti("three.nii", np.ones((4, 4, 4), np.float32)), r"(4, 4, 4)"),
        "5-D": (nifti("five.nii", np.ones((4, 4, 4, 6, 2), np.float32)), "2"),
        "no SH count": (nifti("seven.nii", np.ones((4, 4, 4, 7), np.float32)), "7"),
        "zeros": (nifti("zeros.nii", np.zeros((4, 4, 4, 6), np.float32)), "zeros.nii"),
        "NaN": (nifti("nan.nii", np.full((4, 4, 4, 6), np.nan, np.float32)), "nan.nii"),
        "singular": (folder / "flat.nii", "flat.nii"),
        "ending": (folder / "good.png", "png"),
    }


def test_files_that_are_no_fod(
    open_model: Any, tmp_path: Path, notes: list[str], monkeypatch: Any
) -> None:
    panel = open_model()
    for kind, (path, says) in broken_files(tmp_path).items():
        notes.clear()
        monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *args, p=path: (str(p), ""))
        panel.data.open_fod.click()
        assert len(notes) == 1, kind
        assert notes[0].startswith("error: "), kind
        assert says in notes[0], kind
        assert "\n" not in notes[0], kind
    assert len(panel.viewer.layers) == 0


def test_when_the_chosen_fod_is_removed_one_that_is_left_is_chosen(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    first = panel.session.fod_layer
    other = panel.viewer.add_layer(fod_layer(make_phantom("letter", lmax=4)))
    panel.data.fod_choice.value = other
    panel.viewer.layers.remove(other)
    assert panel.session.fod_layer is panel.data.fod_choice.value is first


def test_an_fod_of_another_name_is_the_same(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    document, now = panel.session.document, panel.session.document.now
    for name in ("another name", "cross"):
        panel.session.fod_layer.name = name
        assert panel.data.fod_choice.native.currentText() == name
        assert document.now is now
    assert document.last == "Place 1 seed"


@pytest.mark.parametrize("kind", ["sh", "peaks", "by a project"])
def test_streamlines_are_still_those_of_an_fod_that_was_closed_and_opened_again(
    open_model: Any, cross: Any, settle: Any, qtbot: Any, tmp_path: Path, kind: str
) -> None:
    panel, path = open_model(), save_fod(cross, tmp_path / "fod.nii.gz")
    if kind == "peaks":
        peaks = np.tile(np.float32([0.6, -0.8, 0]), (12, 12, 6, 1))
        nib.save(nib.Nifti1Image(peaks, np.diag([2.0, 2, 2, 1])), path)
    panel.data.add_fod(path)
    panel.session.add_seeds_mm(panel.session.fod.grid.to_mm([[6.0, 6, 3], [16, 12, 5]])[:1])
    panel.run()
    settle(panel)
    if kind == "by a project":
        assert panel.project.save(tmp_path / "one.tracts.json")
        panel.viewer.layers.remove(panel.session.fod_layer)
        assert panel.project.open_project(tmp_path / "one.tracts.json")
        qtbot.waitUntil(lambda: panel.project.opening is None, timeout=WAIT_MS)
    shown = panel.session.tractogram
    panel.viewer.layers.remove(panel.session.fod_layer)
    panel.data.add_fod(path)
    assert panel.session.tractogram is shown
    assert panel.session.changes() == []
    panel.results.refresh_notice()
    assert panel.results.notice.text() == ""


def test_nothing_is_said_of_an_fod_that_was_closed(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))  # so that no other is taken
    assert panel.data.kind.text() == cross.description
    panel.viewer.layers.remove(panel.session.fod_layer)
    assert panel.seeds.hint.text().startswith("The FOD cross was closed: open it again")
    assert panel.data.kind.isHidden()
    assert panel.data.kind.text() == ""


def test_the_same_file_read_in_other_axes_does_not_stand_in_for_one_that_was_closed(
    open_model: Any, tmp_path: Path
) -> None:
    peaks = np.tile(np.float32([0.6, -0.8, 0]), (12, 12, 6, 1))
    nib.save(nib.Nifti1Image(peaks, np.diag([2.0, 2, 2, 1])), tmp_path / "vectors.nii")
    panel = open_model()
    for axes in ("scanner", "fsl"):
        panel.data.add_fod(tmp_path / "vectors.nii", axes=axes)
    session, (first, second) = panel.session, panel.viewer.layers
    session.add_seeds_mm(np.array([[11.0, 11, 5]]))
    assert session.fod_layer is second
    panel.viewer.layers.remove(second)
    assert session.fod_layer is None
    assert session.closed_fod
    panel.data.add_fod(tmp_path / "vectors.nii", axes="fsl")  # the same again
    assert session.fod.vector_reading["axes"] == "fsl"
    panel.viewer.layers.remove(session.fod_layer)
    panel.data.fod_choice.value = first  # as a person may choose
    assert session.document.last == f"Track in {first.name}"


def test_undo_goes_back_beyond_an_fod_that_was_closed_and_redo_comes_again(
    open_model: Any, cross: Any
) -> None:
    """Where nothing is left that was placed, any FOD that is there is taken, which is no step."""
    panel = open_model(cross)
    history, layers = panel.session.document, panel.viewer.layers
    panel.session.add_seeds_mm(MIDDLE)
    layers.remove(panel.session.fod_layer)
    other = panel.viewer.add_layer(fod_layer(make_phantom("letter", lmax=4)))
    panel.data.fod_choice.value = other
    panel.session.add_seeds_mm(MIDDLE + 1.0)
    steps = []
    for _ in range(3):
        steps.append(history.last)
        history.undo()
        panel.data.refresh_layers()  # as where a layer comes or goes
    assert not history.can_undo
    assert steps == ["Place 1 seed", f"Track in {other.name}", "Place 1 seed"]
    assert panel.session.fod_layer is other
    for step in reversed(steps):
        assert history.next == step
        history.redo()
    assert len(panel.session.seeds.positions_mm) == 2


def test_no_seeds_that_are_removed_are_no_step(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(MIDDLE)
    panel.session.clear_seeds()
    panel.session.document.forget()
    panel.viewer.layers.remove(panel.session.seeds.layer)
    assert not panel.session.document.can_undo


def test_what_the_fod_was_taken_for_is_shown(open_model: Any, cross: Any, tmp_path: Path) -> None:
    panel = open_model()
    data = panel.data
    assert data.kind.isHidden()
    panel.data.add_fod(save_fod(cross, tmp_path / "wm.nii"))
    assert not data.kind.isHidden()
    assert data.kind.text() == f"FOD of SH coefficients, lmax {cross.lmax}, tournier07"
    panel.data.fod_choice.value = None
    assert data.kind.isHidden()


def test_volumes_that_are_opened_here_lie_below_the_streamlines(
    open_model: Any, cross: Any, settle: Any, tmp_path: Path
) -> None:
    """On top, they would hide them in slices."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(np.zeros((1, 3)))
    panel.run()
    settle(panel)
    ours = [panel.session.streamlines_layer, panel.session.seeds.layer]
    path = save_fod(cross, tmp_path / "fod.nii.gz")
    panel.data.add_fod(path)
    nib.save(nib.Nifti1Image(np.ones(cross.grid.shape), cross.grid.affine), tmp_path / "m.nii.gz")
    panel.data.add_mask(tmp_path / "m.nii.gz")
    assert [layer.name for layer in panel.viewer.layers[:3]] == ["cross", "fod.nii.gz", "m.nii.gz"]
    assert list(panel.viewer.layers[3:]) == ours


@pytest.mark.parametrize("opened_by", ["the panel", "napari"])
def test_streamlines_within_a_mask_are_seen_in_3d(
    open_window: Any, cross: Any, settle: Any, tmp_path: Path, opened_by: str
) -> None:
    """The colours of directions are saturated; those of a mask over black are not, as much."""

    def n_coloured() -> int:
        picture = panel.viewer.screenshot(flash=False)[..., :3].astype(int)
        return int((np.ptp(picture, axis=-1) > 120).sum())

    panel = open_window(cross)
    everywhere = np.ones(cross.grid.shape, np.uint8)
    if opened_by == "napari":
        space = DisplaySpace.of(cross.grid)
        mask = panel.viewer.add_labels(space.volume(everywhere), **space.layer_kwargs)
        panel.data.mask_choice.value = mask
    else:
        nib.save(nib.Nifti1Image(everywhere, cross.grid.affine), tmp_path / "mask.nii.gz")
        panel.data.add_mask(tmp_path / "mask.nii.gz")
    panel.session.add_seeds_mm(MIDDLE)
    panel.set_parameters(n_per_seed=200)
    panel.run()
    settle(panel)
    panel.viewer.dims.ndisplay = 3
    panel.session.seeds.layer.visible = False
    within = n_coloured()
    panel.session.layer_of("mask").visible = False
    assert within > n_coloured() / 2 > 100


@pytest.mark.parametrize("choice", ["tissue", "scalar", "grid", "volume_choice"])
def test_a_layer_that_is_renamed_stays_chosen(open_model: Any, cross: Any, choice: str) -> None:
    panel = open_model(cross)
    for name in ("a", "b"):
        image = Image(np.random.default_rng(1).random(cross.grid.shape[::-1]), name=name)
        panel.viewer.add_layer(image)
    section = {"tissue": panel.data.image, "volume_choice": panel.appearance}
    control = getattr(section.get(choice, panel.measure), choice)
    control.value = image
    image.name = "renamed"
    assert control.value is image


def test_files_that_are_no_mask(
    open_model: Any, cross: Any, tmp_path: Path, notes: list[str], monkeypatch: Any
) -> None:
    panel = open_model(cross)
    empty = tmp_path / "empty.nii"
    nib.save(nib.Nifti1Image(np.zeros(cross.grid.shape, np.uint8), cross.grid.affine), empty)
    broken = broken_files(tmp_path)
    for path in (empty, broken["missing"][0], broken["unreadable"][0], broken["no SH count"][0]):
        notes.clear()
        monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *args, p=path: (str(p), ""))
        panel.data.open_mask.click()
        (note,) = notes
        assert note.startswith("error: ")
        assert path.name in note
    assert panel.data.mask_choice.value is None


def test_voxels_that_are_not_finite_are_mentioned_once(
    open_model: Any, tmp_path: Path, notes: list[str], settle: Any
) -> None:
    fod = make_phantom("cross", lmax=2)
    values = np.array(fod.coefficients)
    values[0, :3, 0] = np.nan
    path = tmp_path / "template.nii.gz"
    nib.save(nib.Nifti1Image(values, fod.grid.affine), path)
    panel = open_model()
    panel.data.add_fod(path)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    (note,) = notes
    assert note.startswith("info: ")
    assert "3" in note


def test_seeds_are_placed_and_run_is_pressed_while_the_fod_is_read(
    open_model: Any, held_reading: Any, tmp_path: Path, settle: Any, qtbot: Any, notes: list[str]
) -> None:
    """They start where they were placed; what is pressed twice runs once."""
    fod = make_phantom("cross", affine=OBLIQUE, lmax=4)
    panel = open_model()
    began = []
    panel.runs.started.connect(began.append)
    panel.data.add_fod(save_fod(fod, tmp_path / "wm.nii", axes="LPS"))
    assert panel.session.fod is None
    assert panel.session.space.shape_zyx == panel.viewer.layers[0].data.shape
    assert not panel.data.reading.isHidden()
    assert "Shift-click" in panel.seeds.hint.text()
    centre = fod.grid.centre_mm[None]
    panel.session.add_seeds_mm(centre)
    for _ in range(2):
        panel.run_button.click()
    assert "Reading the FOD" in panel.results.notice.text()
    assert panel.cancel_button.isEnabled()
    assert panel.runs.is_awaiting
    assert not began
    held_reading.set()
    qtbot.waitUntil(lambda: bool(began), timeout=WAIT_MS)
    settle(panel)
    assert len(began) == 1
    assert not panel.runs.is_awaiting
    assert panel.data.reading.isHidden()
    assert "Reading" not in panel.results.notice.text()
    tractogram = panel.session.tractogram
    assert tractogram.n_seeds == FEW
    firsts = np.linalg.norm(panel.session.seeds.positions_mm - centre, axis=1)
    np.testing.assert_allclose(firsts, 0, atol=1e-3)
    distance = np.linalg.norm(tractogram.points - centre, axis=1)
    assert distance.min() < 2.0
    assert not notes


def test_a_run_that_waits_for_the_fod_can_be_taken_back(
    open_model: Any, held_reading: Any, cross: Any, tmp_path: Path, qtbot: Any
) -> None:
    panel = open_model()
    panel.data.add_fod(save_fod(cross, tmp_path / "wm.nii"))
    panel.session.add_seeds_mm(MIDDLE)
    panel.run_button.click()
    panel.cancel_button.click()
    assert not panel.cancel_button.isEnabled()
    assert "Reading" not in panel.results.notice.text()
    held_reading.set()
    qtbot.waitUntil(lambda: panel.session.fod is not None, timeout=WAIT_MS)
    assert panel.runs.current is None
    assert panel.session.tractogram is None


def test_run_in_an_fod_that_is_being_read_ends_the_run_in_another(
    open_model: Any,
    held_reading: Any,
    long_runs: None,
    cross: Any,
    tmp_path: Path,
    settle: Any,
    qtbot: Any,
) -> None:
    panel = open_model(cross)
    panel.set_parameters(n_per_seed=MANY)
    panel.session.add_seeds_mm(MIDDLE)
    cancelled: list[Any] = []
    panel.runs.cancelled.connect(cancelled.append)
    panel.run_button.click()
    first = panel.runs.current
    qtbot.waitUntil(lambda: first.n_done > 0, timeout=WAIT_MS)
    panel.data.add_fod(save_fod(cross, tmp_path / "wm.nii"))
    panel.set_parameters(n_per_seed=FEW)
    panel.run_button.click()
    settle(panel)
    assert cancelled == [first]
    assert panel.runs.is_awaiting
    assert panel.cancel_button.isEnabled()
    held_reading.set()
    qtbot.waitUntil(lambda: panel.session.tractogram.n_seeds == FEW, timeout=WAIT_MS)
    assert panel.session.state.result_request.fod.name == "wm.nii"


def test_without_seeds_run_says_so_while_the_fod_is_read(
    open_model: Any, held_reading: Any, cross: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_model()
    panel.data.add_fod(save_fod(cross, tmp_path / "wm.nii"))
    panel.run_button.click()
    assert not panel.runs.is_awaiting
    assert "no seeds" in notes[0]


def test_live_begins_when_the_fod_has_been_read(
    open_model: Any, held_reading: Any, cross: Any, tmp_path: Path, settle: Any, qtbot: Any
) -> None:
    panel = open_model()
    panel.live.setChecked(True)
    panel.data.add_fod(save_fod(cross, tmp_path / "wm.nii"))
    panel.session.add_seeds_mm(MIDDLE)
    assert panel.runs.current is None
    held_reading.set()
    qtbot.waitUntil(lambda: panel.session.tractogram is not None, timeout=WAIT_MS)
    settle(panel)
    assert len(panel.session.tractogram)


def test_a_panel_that_is_closed_hears_nothing_of_an_fod_and_finds_it_when_it_opens_again(
    open_model: Any, held_reading: Any, cross: Any, tmp_path: Path, qtbot: Any
) -> None:
    panel = open_model()
    heard: list[str] = []
    panel.session.changed.connect(lambda: heard.append("changed"))
    panel.data.add_fod(save_fod(cross, tmp_path / "wm.nii"))
    panel.close_session()
    panel.open_session()
    assert not panel.data.reading.isHidden()
    panel.close_session()
    heard.clear()
    held_reading.set()
    qtbot.waitUntil(lambda: panel.session.fod is not None, timeout=WAIT_MS)
    assert not heard
    panel.open_session()
    assert panel.data.reading.isHidden()


def test_cancel_removes_an_fod_that_is_being_read(
    open_model: Any, held_reading: Any, cross: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_model(cross)
    panel.data.add_fod(save_fod(cross, tmp_path / "wm.nii"))
    assert panel.data.fod_choice.value.name == "wm.nii"
    panel.session.add_seeds_mm(MIDDLE)
    panel.run_button.click()
    panel.data.reading.cancel.click()
    assert panel.session.fod is cross
    assert panel.data.reading.isHidden()
    assert not panel.runs.is_awaiting
    assert panel.runs.current is None
    assert not notes
