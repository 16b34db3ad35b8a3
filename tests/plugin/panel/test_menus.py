"""Export and More: what they copy, add, write and say."""

from __future__ import annotations

import contextlib
import io

import nibabel as nib
import numpy as np
import pytest
from hands import WAIT_MS, click_in_the_dialog
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QFileDialog, QProgressDialog
from reading import ReadPage

from napari_tractography.errors import FileError, InvalidFodError, InvalidTractogramError
from napari_tractography.maps.profiles import standard_of
from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.model.regions import Region
from napari_tractography.plugin.export import pages
from napari_tractography.plugin.layers import tubes as figures
from napari_tractography.plugin.layers.tubes import TUBE_SIDES
from napari_tractography.plugin.panel import menus as module
from napari_tractography.plugin.panel.display import pictures
from napari_tractography.plugin.panel.display.pictures import OptionsDialog
from napari_tractography.plugin.panel.widgets import busy_dialog
from napari_tractography.plugin.panel.widgets.controls import set_values
from napari_tractography.recipes.project import Project
from napari_tractography.streamlines.tractogram import load_tractogram


def tracked(panel, tmp_path, qtbot):
    """A panel with the cross phantom opened from a file, tracked."""
    phantom = make_phantom("cross", lmax=4)
    path = tmp_path / "fod.nii.gz"
    nib.Nifti1Image(phantom.coefficients, phantom.grid.affine).to_filename(path)
    panel.data.add_fod(path)
    panel.set_parameters(n_per_seed=30, max_length_mm=40.0)
    panel.session.add_seeds_mm(np.asarray(phantom_seeds_mm("cross")))
    with qtbot.waitSignal(panel.runs.finished, timeout=WAIT_MS):
        panel.run()
    return panel


@pytest.fixture
def panel(open_model, tmp_path, qtbot):
    """Without a window."""
    return tracked(open_model(), tmp_path, qtbot)


def run_clipboard():
    """What the script on the clipboard prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(QGuiApplication.clipboard().text(), "copied", "exec"), {})
    return printed.getvalue().strip()


def test_the_copied_script_gives_the_digest_on_the_screen(panel):
    panel.export.copy_python()
    assert run_clipboard() == panel.session.tractogram.digest()
    panel.export.copy_command()
    assert QGuiApplication.clipboard().text().startswith("napari-tractography track ")


def test_a_copied_script_holds_the_edits_or_says_that_it_does_not(panel, monkeypatch):
    told = []
    monkeypatch.setattr(module, "show_info", told.append)
    layer, n = panel.session.streamlines_layer, len(panel.session.tractogram)
    layer.selected = [0, 3, 4, n - 1]
    layer.editor.delete_selected()
    panel.export.copy_python()
    assert f"the {n - 4} streamlines that you kept" in told[-1]
    assert run_clipboard() == panel.session.tractogram.digest() == layer.tractogram.digest()
    panel.export.copy_command()
    assert "without your edits" in told[-1]
    panel.set_parameters(step_mm=0.7)
    panel.export.copy_python()
    assert "settings or seeds were changed" in told[-1]
    assert "kept" not in QGuiApplication.clipboard().text()


def test_edits_of_a_preview_are_not_written_into_a_script(panel, monkeypatch, qtbot):
    """Numbers of a preview's streamlines would name others in the full run."""
    messages = []
    monkeypatch.setattr(module, "show_info", messages.append)
    panel.set_parameters(n_per_seed=3000)
    with qtbot.waitSignal(panel.runs.finished, timeout=WAIT_MS):
        panel.runs.start(preview=True)
    panel.session.streamlines_layer.selected = [0, 3]
    panel.session.streamlines_layer.editor.delete_selected()
    panel.export.copy_python()
    assert "without your edits" in messages[-1]
    assert "made in a preview" in messages[-1]
    assert "kept" not in QGuiApplication.clipboard().text()


def test_a_copied_script_cuts_and_keeps_as_the_screen_does(panel, monkeypatch):
    told = []
    monkeypatch.setattr(module, "show_info", told.append)
    layer = panel.session.streamlines_layer
    layer.editor.cut((1.0, 0.0, 0.0), (1.0, 0.5, 0.0))
    layer.selected = np.arange(0, layer.n_all, 2)
    layer.editor.delete_selected()
    panel.export.copy_python()
    assert f"the {layer.n_all} streamlines that you kept" in told[-1]
    assert run_clipboard() == layer.tractogram.digest()


def test_streamlines_of_a_file_are_copied_with_what_became_of_them(panel, tmp_path):
    path, weights = tmp_path / "lines.tck", tmp_path / "weights.txt"
    panel.session.tractogram.save(path)
    np.savetxt(weights, np.linspace(0, 2, len(panel.session.tractogram)))
    (layer,) = panel.viewer.open(str(path), plugin="napari-tractography")
    panel.bundles.activate(panel.session.of_layer(layer))
    panel.dissection.read_weights(weights)
    panel.dissection.min_weight.value = 1.0
    panel.session.regions.add_region(Region.sphere((0, 0, 0), 6.0, "include"))
    layer.selected = [1]
    layer.editor.delete_selected()
    assert 0 < layer.n_all < len(layer.editor.whole)
    panel.export.copy_python()
    assert run_clipboard() == layer.tractogram.digest()


def test_tubes_and_paths_of_what_is_selected(panel, monkeypatch):
    monkeypatch.setattr(module, "MAX_PATHS", 7)
    layer = panel.session.streamlines_layer
    layer.selected = [2, 5, 6]
    panel.more.add_paths()
    assert panel.viewer.layers["Paths"].nshapes == 3
    first = layer.space.to_display(layer.tractogram[2].points)[0]
    np.testing.assert_allclose(panel.viewer.layers["Paths"].data[0][0], first, atol=1e-4)
    panel.more.add_tubes()
    n_points = layer.editor.selected_tractogram().n_points
    assert len(panel.viewer.layers["Tubes"].vertices) == n_points * TUBE_SIDES
    monkeypatch.setattr(figures, "MAX_PATHS", 2)
    with pytest.raises(InvalidTractogramError, match="3 streamlines"):
        panel.more.add_paths()


def test_tubes_and_paths_are_added(panel, monkeypatch):
    monkeypatch.setattr(module, "MAX_PATHS", 7)
    panel.more.add_tubes()
    panel.more.add_paths()
    names = [layer.name for layer in panel.viewer.layers]
    assert {"Tubes", "Paths"} <= set(names)
    assert 1 <= panel.viewer.layers["Paths"].nshapes <= 7


def test_the_centroid_is_a_bundle_of_one_streamline_that_can_be_saved(panel, tmp_path):
    layer = panel.session.streamlines_layer
    panel.more.add_centroid()
    first, added = panel.bundles.bundles
    assert panel.bundles.active is added
    assert added.name == f"{first.name} centroid"
    (line,) = added.tractogram
    np.testing.assert_array_equal(line, standard_of(layer.tractogram, 100))
    path = tmp_path / "centroid.trk"
    panel.save(path)
    np.testing.assert_allclose(load_tractogram(path).points, np.asarray(line), atol=1e-4)
    panel.bundles.activate(first)
    layer.selected = [3]
    panel.more.add_centroid()
    (other,) = panel.session.tractogram
    chosen = layer.tractogram[3].points
    ends = np.sort(np.array([other[0], other[-1]]), axis=0)
    np.testing.assert_allclose(ends, np.sort(chosen[[0, -1]], axis=0), atol=1e-4)


def test_a_centroid_is_a_step_of_undo(panel):
    document, first = panel.session.document, panel.bundles.active
    panel.more.add_centroid()
    added = panel.bundles.active
    assert document.last == f"Make {added.name}"
    digest = added.tractogram.digest()
    document.undo()
    assert [bundle.name for bundle in panel.bundles.bundles] == [first.name]
    assert added.layer not in panel.viewer.layers
    document.redo()
    assert panel.bundles.active.name == added.name
    assert panel.session.tractogram.digest() == digest
    assert panel.session.streamlines_layer in panel.viewer.layers


def test_the_check_tells_its_verdict(panel, monkeypatch):
    told = []
    monkeypatch.setattr(module, "show_info", told.append)
    panel.more.check_fod()
    assert "tournier07" in told[0]


@pytest.mark.parametrize("answer", ["Open again", "Cancel"])
def test_the_check_opens_the_file_again_as_what_fits_better(open_window, tmp_path, notes, answer):
    """An FOD whose directions lie in voxel axes, of an image that is turned by 90 degrees."""
    phantom = make_phantom("letter", lmax=4)
    turned = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    path = tmp_path / "fod.nii"
    nib.save(nib.Nifti1Image(phantom.coefficients, turned @ phantom.grid.affine), path)
    panel = open_window()
    panel.data.add_fod(path)
    before = panel.session.fod
    said = click_in_the_dialog(answer)
    panel.more.check_fod()
    assert "read as tournier07, scanner axes, but tournier07, voxel axes fits better" in said[0]
    assert notes == []
    if answer == "Cancel":
        assert panel.session.fod is before
        return
    assert (panel.session.fod.basis, panel.session.fod.frame) == ("tournier07", "voxel")
    assert panel.data.fod_choice.value is panel.session.fod_layer
    assert panel.session.fod_layer.name == "fod.nii as tournier07, voxel axes"
    panel.more.check_fod()
    assert "read as tournier07, voxel axes, and no other reading fits better" in notes[-1]
    panel.session.document.undo()
    assert panel.session.fod is before


def test_a_movie_is_written_or_cancelled(open_window, tmp_path, monkeypatch, qtbot):
    panel = tracked(open_window(), tmp_path, qtbot)
    monkeypatch.setattr(pictures, "show_info", lambda _text: None)
    panel.viewer.dims.ndisplay = 3
    path = tmp_path / "turn.gif"
    assert panel.pictures.write_movie(path, n_frames=3)
    assert path.exists()
    monkeypatch.setattr(QProgressDialog, "wasCanceled", lambda _self: True)
    assert not panel.pictures.write_movie(tmp_path / "other.gif", n_frames=3)
    assert not (tmp_path / "other.gif").exists()
    with pytest.raises(FileError, match=r"turn\.avi"):
        panel.pictures.write_movie(tmp_path / "turn.avi", n_frames=3)


def test_the_window_is_written_as_a_page(panel, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(module, "show_info", said.append)
    monkeypatch.setattr(busy_dialog, "show_error", said.append)
    panel.export.save_page(tmp_path / "page.html", title="Two fibres cross")
    assert f"Saved the page to {tmp_path / 'page.html'}" in said[0]
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>Two fibres cross</title>" in text
    assert panel.session.tractogram.digest() in text
    panel.export.save_page(tmp_path / "page.txt")
    assert "does not end in .html" in said[1]
    assert not (tmp_path / "page.txt").exists()


def test_what_a_page_shows_is_not_called_left_out(panel, tmp_path, monkeypatch, notes):
    """Of a volume that is in no file the streamlines are in the page; how they were made is not."""
    left_out = "Bundle 1 is left out: its volume is in no file."
    nothing = Project(), [left_out], lambda: None
    monkeypatch.setattr(pages, "project_to_prove", lambda _bundles: nothing)
    path = tmp_path / "page.html"
    panel.export.save_page(path)
    assert [bundle["name"] for bundle in ReadPage(path).content["bundles"]] == ["Bundle 1"]
    (warning,) = [note for note in notes if note.startswith("warning")]
    assert warning == f"warning: The page shows all, but the recipe in it is not whole: {left_out}"


def test_a_page_is_asked_for_what_it_says_and_what_is_in_it(panel, tmp_path, monkeypatch):
    said, asked = [], []
    monkeypatch.setattr(module, "show_info", said.append)
    monkeypatch.setattr(busy_dialog, "show_error", said.append)
    path = tmp_path / "page.html"

    def answer(is_wanted):
        def exec_(dialog):
            controls = {control.name: control for control in panel.export.page_controls}
            assert dialog.isAncestorOf(controls["live"].native)
            asked.append(controls["live"].native.text())
            values = {"title": " A page ", "caption": "What is seen.", "every": 3, "live": True}
            set_values(controls.values(), values)
            dialog.done(is_wanted)
            return is_wanted

        monkeypatch.setattr(OptionsDialog, "exec", exec_)

    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    answer(OptionsDialog.DialogCode.Rejected)
    panel.export.ask_page()
    assert not path.exists()
    answer(OptionsDialog.DialogCode.Accepted)
    panel.export.ask_page()
    assert asked == [f"Seeds of {panel.bundles.active.name} can be dragged"] * 2
    assert len(said) == 1
    page = ReadPage(path)
    (bundle,) = page.content["bundles"]
    assert bundle["counts"]["rows"] == -(-bundle["n_all"] // 3)
    assert "<title>A page</title>" in page.text
    assert "What is seen." in page.text
    assert page.content["live"]["digest"] == bundle["digest"]


def test_without_an_fod_or_streamlines_it_says_so(open_model, monkeypatch):
    panel = open_model()
    for action, error in (
        (panel.more.add_tubes, InvalidTractogramError),
        (panel.more.check_fod, InvalidFodError),
        (panel.export.copy_python, InvalidFodError),
    ):
        with pytest.raises(error):
            action()
    told = []
    monkeypatch.setattr(busy_dialog, "show_error", told.append)
    for entry in (*panel.export.menu().actions(), *panel.more.menu().actions()):
        if not entry.text().endswith("..."):  # those ask for a file
            entry.trigger()
    assert len(told) == 6


def test_the_display_section_keeps_its_look_for_a_layer_made_anew(panel, qtbot):
    width = next(c for c in panel.appearance.controls if c.name == "width")
    width.value = 7.0
    assert panel.session.streamlines_layer.width == 7.0
    assert panel.session.streamlines_layer.slab_mm == pytest.approx(
        next(c for c in panel.appearance.controls if c.name == "slab_mm").value
    )
    panel.viewer.layers.remove(panel.session.streamlines_layer)
    with qtbot.waitSignal(panel.runs.finished, timeout=WAIT_MS):
        panel.run()
    assert panel.session.streamlines_layer.width == 7.0
