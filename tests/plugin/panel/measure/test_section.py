"""The Measure section: the numbers of Python and command, plots, maps, and lengths that filter."""

from __future__ import annotations

import errno
import sys
import threading
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import WAIT_MS
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QColor, QGuiApplication, QKeyEvent, QPalette
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QFileDialog

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.errors import FileError
from napari_tractography.files.volume_files import save_volume
from napari_tractography.maps import plots
from napari_tractography.maps.spreadsheets import profiles_table
from napari_tractography.plugin.layers.volume_layers import voxels_of
from napari_tractography.plugin.panel.measure import maps
from napari_tractography.plugin.panel.widgets.layout import Section
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.recipes.edits import Edit


def bundle_of(seed: int, n: int) -> nt.Tractogram:
    """Lines along x of 4 to 40 mm, a little bent."""
    rng = np.random.default_rng(seed)
    lines = []
    for length in rng.uniform(4, 40, n):
        x = np.linspace(-length / 2, length / 2, 30)
        lines.append(np.stack([x, 0.02 * x**2 + rng.normal(), 0 * x + rng.normal()], axis=1))
    return nt.Tractogram.from_streamlines(lines)


@pytest.fixture
def panel(open_model: Any, cross: Any) -> Any:
    """Two bundles, CST left and CST right, with an image fa.nii.gz and labels."""
    panel = open_model(cross)
    for name, lines in (("CST left", bundle_of(1, 60)), ("CST right", bundle_of(2, 40))):
        if panel.session.tractogram is not None:
            panel.bundles.add()
        panel.bundles.rename(panel.bundles.active, name)
        layer = panel.session.ensure_streamlines_layer()
        layer.tractogram = lines
    space, shape = panel.session.space, cross.grid.shape
    values = np.random.default_rng(0).random(shape, np.float32)
    panel.viewer.add_image(space.volume(values), name="fa.nii.gz", **space.layer_kwargs)
    labels = np.ones(shape, np.uint8)
    labels[shape[0] // 2 :] = 2
    panel.viewer.add_labels(
        np.ascontiguousarray(space.volume(labels)), name="parcels", **space.layer_kwargs
    )
    panel.measure.scalar.value = panel.viewer.layers["fa.nii.gz"]
    panel.measure.labels.value = panel.viewer.layers["parcels"]
    return panel


def measured(panel: Any, qtbot: Any, kind: str) -> Any:
    panel.measure.kind.value = kind
    panel.measure.measure.click()
    qtbot.waitUntil(lambda: not panel.measure.measuring.is_busy, timeout=WAIT_MS)
    return panel.measure.shown


def test_window_python_and_command_agree_to_the_last_digit(
    panel: Any, qtbot: Any, cross: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).random(cross.grid.shape, np.float32)
    save_volume(values, cross.grid, "fa.nii.gz")
    bundle_of(1, 60).save("CST left.tck")
    bundle_of(2, 40).save("CST right.tck")
    files = ["CST left.tck", "CST right.tck"]
    assert (
        main(["measure", *files, "--scalar", "fa.nii.gz", "-o", "t.csv", "--asymmetry", "a.csv"])
        == 0
    )
    assert main(["profile", *files, "fa.nii.gz", "-o", "p.csv"]) == 0
    shown = measured(panel, qtbot, "Table")
    assert shown.table.text() == Path("t.csv").read_text("utf-8")
    assert measured(panel, qtbot, "Asymmetry").table.text() == Path("a.csv").read_text("utf-8")
    assert measured(panel, qtbot, "Profiles").table.text() == Path("p.csv").read_text("utf-8")
    python = [
        nt.profile(bundle_of(seed, n), (values, cross.grid.affine), name=name)
        for seed, n, name in ((1, 60, "CST left"), (2, 40, "CST right"))
    ]
    rows = [row[3:] for row in profiles_table(python).rows]
    assert rows == [row[3:] for row in panel.measure.shown.table.rows]


def test_bundles_stand_side_by_side_and_are_copied(panel: Any, qtbot: Any) -> None:
    shown = measured(panel, qtbot, "Table")
    table = panel.measure.table
    assert [table.horizontalHeaderItem(k).text() for k in range(2)] == ["CST left", "CST right"]
    assert table.verticalHeaderItem(0).text() == "Streamlines"
    assert [table.item(0, k).text() for k in range(2)] == ["60", "40"]
    assert table.verticalHeaderItem(table.rowCount() - 1).text() == "fa, SD"
    panel.measure.copy.click()
    assert QGuiApplication.clipboard().text() == shown.table.text("\t")
    QGuiApplication.clipboard().setText("")
    press = QEvent.Type.KeyPress
    table.keyPressEvent(QKeyEvent(press, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier))
    assert QGuiApplication.clipboard().text().startswith("bundle\tn_streamlines")


def test_another_kind_does_not_keep_the_plot_of_the_one_before(panel: Any, qtbot: Any) -> None:
    measured(panel, qtbot, "Profiles")
    section = panel.measure
    assert not section.plot.isHidden()
    section.kind.value = "Connectome"
    assert section.plot.isHidden()
    assert section.outputs.isHidden()
    assert section.shown is None


def test_hidden_bundles_are_left_out_and_changes_are_told(panel: Any, qtbot: Any) -> None:
    panel.bundles.set_visible(panel.bundles.bundles[0], False)
    assert len(measured(panel, qtbot, "Table").table.rows) == 1
    assert panel.measure.note.text() == ""
    panel.bundles.set_visible(panel.bundles.bundles[0], True)
    assert "Measure again" in panel.measure.note.text()
    assert len(measured(panel, qtbot, "Table").table.rows) == 2
    assert panel.measure.note.text() == ""


def test_connectome_of_all_that_is_shown(panel: Any, qtbot: Any, cross: Any) -> None:
    both = nt.Tractogram.concatenate([bundle_of(1, 60), bundle_of(2, 40)])
    labels = np.ones(cross.grid.shape, np.uint8)
    labels[cross.grid.shape[0] // 2 :] = 2
    wanted = nt.connectome(both, labels, cross.grid)
    assert measured(panel, qtbot, "Connectome").table == wanted.counts_table
    assert wanted.n_assigned > 20
    note = panel.measure.note.text()
    assert note == f"Labels on both sides: {wanted.n_assigned} of 100 streamlines."
    panel.bundles.set_visible(panel.bundles.bundles[0], False)
    panel.bundles.set_visible(panel.bundles.bundles[0], True)
    assert panel.measure.note.text() == note


def test_a_connectome_without_a_connection_says_so_and_draws_nothing(
    panel: Any, qtbot: Any
) -> None:
    panel.measure.labels.value.data = np.pad(np.uint8([[[1]]]), [(0, n - 1) for n in (10, 24, 32)])
    measured(panel, qtbot, "Connectome")
    assert panel.measure.note.text().startswith(
        "Labels on both sides: 0 of 100 streamlines. Choose"
    )
    assert panel.measure.plot.isHidden()
    assert not panel.measure.picture.isEnabled()


def test_an_error_is_told_no_more_when_something_else_is_measured(panel: Any, qtbot: Any) -> None:
    measured(panel, qtbot, "Resection")
    panel.results.refresh_notice()
    assert panel.results.notice.text().startswith("There is no cavity")
    measured(panel, qtbot, "Lengths")
    panel.results.refresh_notice()
    assert not panel.results.notice.text()


@pytest.mark.parametrize("kind", ["Profiles", "Asymmetry", "Lengths", "Connectome"])
def test_plots_are_drawn_and_saved(panel: Any, qtbot: Any, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib", reason="no Matplotlib to draw with")
    measured(panel, qtbot, kind)
    assert panel.measure.picture.isEnabled()
    panel.measure.shown.save_plot(str(tmp_path / "p.svg"))
    panel.measure.shown.save_plot(str(tmp_path / "p.png"))
    assert "<svg" in (tmp_path / "p.svg").read_text("utf-8")
    assert (tmp_path / "p.png").stat().st_size > 5000


def test_a_plot_for_which_there_is_no_room_is_refused_in_a_sentence(
    panel: Any, qtbot: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="no Matplotlib to draw with")
    measured(panel, qtbot, "Lengths")

    def no_room(path: Path, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", no_room)
    for name in ("p.pdf", "p.svg", "p.png"):
        with pytest.raises(FileError, match="No space left"):
            panel.measure.shown.save_plot(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_numbers_plots_and_maps_say_where_they_were_saved(
    panel: Any, qtbot: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    pytest.importorskip("matplotlib", reason="no Matplotlib to draw with")
    measured(panel, qtbot, "Lengths")
    section, layers = panel.measure, panel.viewer.layers
    layers.selection.active = layers["parcels"]
    for ask, name, what in (
        (section.csv.click, "lengths.csv", "the numbers"),
        (section.picture.click, "lengths.png", "the plot"),
        (section._ask_map, "map.nii.gz", "parcels"),
    ):
        path = tmp_path / name
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, p=path: (str(p), ""))
        notes.clear()
        ask()
        assert path.exists()
        assert notes == [f"info: Saved {what} to {path}."]


def test_without_matplotlib_numbers_are_there_and_a_sentence(
    panel: Any, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    shown = measured(panel, qtbot, "Profiles")
    assert len(shown.table.rows) == 200
    assert "napari-tractography[plots]" in panel.measure.note.text()
    assert not panel.measure.picture.isEnabled()


@pytest.mark.parametrize(
    ("kind", "missing", "said"),
    [
        pytest.param("Profiles", "scalar", "needs a scalar map", id="scalar"),
        pytest.param("Connectome", "labels", "needs labels", id="labels"),
    ],
)
def test_what_is_missing_is_told(
    panel: Any, qtbot: Any, notes: list[str], kind: str, missing: str, said: str
) -> None:
    getattr(panel.measure, missing).value = None
    measured(panel, qtbot, kind)
    assert any(said in note for note in notes)


def test_bundles_without_sides_are_told(panel: Any, qtbot: Any, notes: list[str]) -> None:
    panel.bundles.rename(panel.bundles.bundles[0], "AF left")
    measured(panel, qtbot, "Asymmetry")
    assert any(
        "no pair of a left and a right bundle (AF left, CST right)" in note for note in notes
    )


def test_measuring_is_cancelled_beside_its_progress(panel: Any, qtbot: Any) -> None:
    section, gate = panel.measure, threading.Event()
    section.measuring.begin("Measuring", lambda _advance: gate.wait(60), lambda _found: None)
    assert not section.progress.isHidden()
    section.progress.cancel.click()
    gate.set()
    assert section.progress.isHidden()
    assert not section.measuring.is_busy


@pytest.mark.parametrize("name", list(maps.MAPS))
def test_maps_become_layers_and_files(
    panel: Any, qtbot: Any, cross: Any, tmp_path: Path, name: str
) -> None:
    section, layers = panel.measure, panel.viewer.layers
    cavity = nt.Region.sphere((0.0, 6.0, 0.0), 3.0, "resect", name="cavity")
    panel.session.regions.add_region(cavity)
    before = len(layers)
    section.start_map(name)
    qtbot.waitUntil(lambda: not section.measuring.is_busy, timeout=WAIT_MS)
    added = [layer for layer in layers if layer.name != "Margins"]
    assert len(added) == before + (2 if name == "Visitation" else 1)
    layers.selection.active = added[-1]
    section.save_map(str(tmp_path / "map.nii.gz"))
    saved = nib.load(tmp_path / "map.nii.gz")
    lines = bundle_of(2, 40)
    wanted = {
        "Density": nt.density(lines, cross),
        "Mask": nt.density(lines, cross) > 0,
        "End points": nt.density(lines, cross, ends_only=True),
        "Visitation": nt.visitation(lines, cross).probability.astype(np.float32),
        "Margin": nt.margin_map(lines, cavity, cross),
    }[name]
    assert np.array_equal(np.asarray(saved.dataobj), wanted, equal_nan=wanted.dtype.kind == "f")
    assert np.allclose(saved.affine, cross.grid.affine)


def test_visitation_says_how_well_it_is_known(panel: Any, qtbot: Any) -> None:
    section = panel.measure
    section.start_map("Visitation")
    qtbot.waitUntil(lambda: not section.measuring.is_busy, timeout=WAIT_MS)
    panel.viewer.cursor.position = (0.0, 0.0, 0.0)
    section.show_visitation()
    assert "40 streamlines: " in section.visited.text()
    assert " ± " in section.visited.text()
    assert "takes" in section.visited.text()
    section.error.value = 0.4
    assert "enough for 0.4" in section.visited.text()


def test_maps_are_made_on_the_voxels_that_are_chosen(panel: Any, qtbot: Any, cross: Any) -> None:
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    affine[:3, 3] = (-45, -30, -18)
    grid = nt.Grid((30, 20, 12), affine)
    space = DisplaySpace.of(grid)
    coarse = panel.viewer.add_image(
        space.volume(np.zeros(grid.shape)), name="coarse", **space.layer_kwargs
    )
    panel.measure.refresh_layers()
    panel.measure.grid.value = coarse
    panel.measure.start_map("Density")
    qtbot.waitUntil(lambda: not panel.measure.measuring.is_busy, timeout=WAIT_MS)
    _, found = voxels_of(panel.viewer.layers[-1], panel.session.space)
    assert found.same_space(grid)


def test_handles_of_the_histogram_edit_the_lengths_of_the_bundle(
    open_window: Any, cross: Any
) -> None:
    panel = open_window(cross)
    layer = panel.session.ensure_streamlines_layer()
    lines = bundle_of(1, 60)
    layer.tractogram = lines
    for section in panel.findChildren(Section):
        section.header.setChecked(section.title == "Measure")
    QTest.qWait(50)
    histogram = panel.measure.histogram
    assert histogram.bars.counts.sum() == 60
    histogram.slider.setValue((10.0, 25.0))
    histogram.flush()
    wanted = lines.select(length_mm=(10, 25))
    assert layer.tractogram.digest() == wanted.digest()
    assert layer.editor.edits == (Edit.lengths(10, 25),)
    assert f"{len(wanted)} of 60" in histogram.range_label.text()
    histogram.slider.setValue((8.0, 25.0))
    histogram.flush()
    assert layer.editor.edits == (Edit.lengths(8, 25),)  # not one upon the other
    assert layer.n_all == len(lines.select(length_mm=(8, 25)))
    layer.selected = [0]
    layer.editor.delete_selected()
    histogram.slider.setValue((12.0, histogram.slider.maximum()))
    histogram.flush()
    assert layer.editor.edits[-1] == Edit.lengths(12)
    layer.editor.undo()
    layer.editor.undo()
    assert layer.n_all == len(lines.select(length_mm=(8, 25)))
    assert histogram.limits == (8.0, 25.0)
    histogram.slider.setValue((0.0, 1000.0))
    histogram.flush()
    assert layer.tractogram.digest() == lines.digest()


def test_plots_are_drawn_beside_the_window(
    panel: Any, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="no Matplotlib to draw with")
    drawn_in, draw = [], plots.plot_lengths

    def noted(*given: Any, **named: Any) -> Any:
        drawn_in.append(threading.current_thread())
        return draw(*given, **named)

    monkeypatch.setattr(plots, "plot_lengths", noted)
    measured(panel, qtbot, "Lengths")
    assert len(drawn_in) == 1
    assert drawn_in[0] is not threading.main_thread()
    (axes,) = panel.measure.shown.plot.axes
    assert axes.get_xlabel() == "Length [mm]"


def test_an_open_plot_takes_up_the_colours_of_another_theme(panel: Any, qtbot: Any) -> None:
    pytest.importorskip("matplotlib", reason="no Matplotlib to draw with")
    from matplotlib.colors import to_hex

    measured(panel, qtbot, "Profiles")
    view, plot = panel.measure.plot, panel.measure.shown.plot
    for ink, paper in (("#102030", "#fefdfc"), ("#f0e0d0", "#050607")):
        palette = view.palette()
        palette.setColor(QPalette.ColorRole.WindowText, QColor(ink))
        palette.setColor(QPalette.ColorRole.Window, QColor(paper))
        view.setPalette(palette)
        (axes,) = plot.axes
        assert to_hex(plot.get_facecolor()) == to_hex(axes.get_facecolor()) == paper
        assert to_hex(axes.spines["left"].get_edgecolor()) == ink
        assert axes.xaxis.label.get_color() == ink


def test_a_visitation_map_of_chosen_streamlines_warns(
    panel: Any, qtbot: Any, notes: list[str]
) -> None:
    editor = panel.session.streamlines_layer.editor
    editor.edits = (Edit.lengths(10, 25),)  # a rule that each streamline passes or not
    for n_told, name in enumerate(("Visitation", "Density", "Visitation")):
        panel.measure.start_map(name)
        qtbot.waitUntil(lambda: not panel.measure.measuring.is_busy, timeout=WAIT_MS)
        assert len([note for note in notes if "no independent trials" in note]) == n_told // 2
        if not n_told:
            editor.select(0)
            editor.delete_selected()
