"""The Seeds section: a radius and a number for each seed, and other things to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import FEW, WAIT_MS, Mouse, lie_still, printed_by, save_fod
from qtpy.QtCore import QDeadlineTimer, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QLineEdit, QTableView

from napari_tractography import Seeds, track
from napari_tractography.model.phantoms import make_phantom, phantom_mask
from napari_tractography.plugin.export.copied_scripts import as_command, as_python
from napari_tractography.plugin.layers.volume_layers import mask_layer_data

PLACES = np.array([[0.0, 0, 0], [-12.0, 6, 0], [10.0, -6, 0]])
POSITION, STREAMLINES, RADIUS = range(3)


def type_into(table: Any, row: int, column: int, text: str) -> None:
    """Double-click a cell and type, as a person does."""
    place = table.visualRect(table.model().index(row, column)).center()
    left = Qt.MouseButton.LeftButton
    QTest.mouseClick(table.viewport(), left, pos=place)
    QTest.mouseDClick(table.viewport(), left, pos=place)
    editor = table.viewport().findChild(QLineEdit)
    assert editor is not None
    QTest.keyClick(editor, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(editor, Qt.Key.Key_Delete)
    QTest.keyClicks(editor, text)
    QTest.keyClick(editor, Qt.Key.Key_Return)
    deadline = QDeadlineTimer(WAIT_MS)
    while table.state() == QTableView.State.EditingState and not deadline.hasExpired():
        QTest.qWait(5)  # what is typed is taken when the loop of events turns


def cell(table: Any, row: int, column: int) -> str:
    return str(table.model().data(table.model().index(row, column)))


def test_what_is_typed_changes_the_run(open_window: Any, settle: Any, qtbot: Any) -> None:
    """With Live on, and the copied script gives the same."""
    fod = make_phantom("cross")
    panel = open_window(fod, size=(1280, 800))
    table, session = panel.seeds.table, panel.session
    session.add_seeds_mm(PLACES)
    panel.live.setChecked(True)
    qtbot.waitUntil(lambda: session.tractogram is not None, timeout=WAIT_MS)
    settle(panel)
    assert session.tractogram.n_seeds == 3 * FEW
    type_into(table, 1, STREAMLINES, "7")
    type_into(table, 2, RADIUS, "0.25")
    qtbot.waitUntil(lambda: session.tractogram.n_seeds == 2 * FEW + 7, timeout=WAIT_MS)
    settle(panel)
    drawn = [(2.0, FEW, 0), (2.0, 7, FEW), (0.25, FEW, FEW + 7)]
    seeds = Seeds.concatenate(
        [
            Seeds.in_sphere(place, radius, n, first=first)
            for place, (radius, n, first) in zip(PLACES, drawn, strict=True)
        ]
    )
    wanted = track(fod, seeds, session.parameters).digest()
    qtbot.waitUntil(lambda: session.tractogram.digest() == wanted, timeout=WAIT_MS)
    assert printed_by(as_python(session.request(), session.fod_layer)) == wanted
    session.fod_layer.metadata["path"] = "fod.nii.gz"
    command = as_command(session.request(), session.fod_layer)
    assert [text.rsplit(",", 2)[1:] for text in command.split() if "sphere" in text] == [
        ["2.0", "40"],
        ["2.0", "7"],
        ["0.25", "40"],
    ]
    type_into(table, 1, STREAMLINES, "")  # as all others again
    assert session.request().seeding.n_each == [FEW] * 3
    assert cell(table, 1, STREAMLINES) == str(FEW)


def test_a_position_may_be_typed(open_window: Any, cross: Any) -> None:
    panel = open_window(cross, size=(1280, 800))
    panel.session.add_seeds_mm(PLACES)
    type_into(panel.seeds.table, 1, POSITION, "4, -2.5 1")
    np.testing.assert_allclose(panel.session.seeds.positions_mm[1], [4, -2.5, 1], atol=1e-4)
    assert cell(panel.seeds.table, 1, POSITION) == "4.0, -2.5, 1.0"


def test_no_position_is_cut_off(open_window: Any, cross: Any) -> None:
    panel = open_window(cross, size=(1280, 800))
    table = panel.seeds.table
    far = np.array([[-123.4, 150.0, -88.8], [-77.7, -66.6, -88.8], [99.96, -99.94, -0.01]])
    panel.session.add_seeds_mm(np.concatenate([far, np.zeros((20, 3))]))  # and a scroll bar
    lie_still(panel)
    assert [cell(table, row, POSITION) for row in range(3)] == [
        "-123.4, 150.0, -88.8",
        "-77.7, -66.6, -88.8",
        "100.0, -99.9, 0.0",
    ]
    assert table.verticalScrollBar().isVisible()
    assert table.sizeHintForColumn(POSITION) <= table.columnWidth(POSITION)


@pytest.mark.parametrize(
    ("column", "text", "says"),
    [
        (STREAMLINES, "2.5", "2.5"),
        (STREAMLINES, "0", "out of range"),
        (RADIUS, "wide", "'wide'"),
        (RADIUS, "nan", "nan"),
        (POSITION, "1, 2", "'1, 2' is no position"),
        (POSITION, "1, 2, inf", "not finite"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    open_model: Any, cross: Any, notes: list[str], column: int, text: str, says: str
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(PLACES)
    model = panel.seeds.table.model()
    before = panel.session.request().seeding
    assert not model.setData(model.index(0, column), text)
    (note,) = notes
    assert says in note
    after = panel.session.request().seeding
    assert after.n_each == before.n_each
    np.testing.assert_array_equal(after.radii_mm, before.radii_mm)
    np.testing.assert_array_equal(after.positions_mm, before.positions_mm)


def test_rows_and_points_are_selected_together_and_delete_removes_them(
    open_window: Any, cross: Any
) -> None:
    """What the others have of their own stays with them, also while they are dragged."""
    panel = open_window(cross, size=(1280, 800))
    session, table = panel.session, panel.seeds.table
    session.add_seeds_mm(PLACES)
    session.seeds.set_own([0], "n_per_seed", 5)
    session.seeds.set_own([2], "radius_mm", 9)
    place = table.visualRect(table.model().index(1, POSITION)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert set(session.seeds.layer.selected_data) == {1}
    session.seeds.layer.selected_data = {0, 1}
    assert {index.row() for index in table.selectionModel().selectedRows()} == {0, 1}
    session.seeds.layer.selected_data = {1}
    session.seeds.layer.name = "mine"
    QTest.keyClick(table, Qt.Key.Key_Delete)
    np.testing.assert_allclose(session.seeds.positions_mm, PLACES[[0, 2]], atol=1e-4)
    Mouse(panel.viewer).drag(PLACES[2][::-1], (0.0, 5.0, 2.0))
    starts = session.request().seeding
    assert starts.n_each == [5, FEW]
    np.testing.assert_array_equal(starts.radii_mm, [2, 9])
    np.testing.assert_allclose(starts.positions_mm[1], [2, 5, 0], atol=0.5)
    session.add_seeds_mm(PLACES[1:2])  # has nothing of its own
    assert session.request().seeding.n_each == [5, FEW, FEW]
    panel.seeds.clear.click()
    assert table.model().rowCount() == 0


def test_a_value_that_a_console_made_impossible_is_told(
    open_model: Any, cross: Any, notes: list[str]
) -> None:
    panel = open_model(cross)
    panel.session.add_seeds_mm(PLACES)
    panel.session.seeds.layer.features = {"radius_mm": [1.0, -3.0, 2.0]}
    panel.run_button.click()
    assert notes == ["error: Seed radius = -3 mm is out of range; choose 0 to 500 mm."]


def test_what_is_refused_is_told_by_the_labels_of_the_panel(
    open_model: Any, cross: Any, notes: list[str]
) -> None:
    """And not by the names that Python has for it."""
    panel = open_model(cross)
    panel.session.add_seeds_mm(PLACES)
    model = panel.seeds.table.model()
    model.setData(model.index(0, 1), "many")
    assert notes == ["warning: Streamlines per seed must be a whole number, not 'many'."]
    panel.set_parameters(step_mm=3.0)
    next(c for c in panel.tracking.controls if c.name == "max_length_mm").value = 2.0
    said = "Maximum length = 2 mm is shorter than one step of 3 mm; "
    assert panel.results.label.text().startswith(said)
    panel.run_button.click()
    assert notes[-1].startswith(f"error: {said}")


def test_what_is_missing_to_start_from_is_the_next_step(open_model: Any) -> None:
    fod = make_phantom("cross")
    panel = open_model(fod)
    told, hint = panel.results.label.text, panel.seeds.hint.text
    panel.set_parameters(source="mask")
    panel.session.add_seeds_mm(PLACES)  # as a Shift-click does
    assert told() == "No streamlines yet: choose a mask in Seeds, then Run."
    panel.set_parameters(source="every voxel of a mask")
    assert told() == "No streamlines yet: choose a mask in Seeds, then Run."
    assert hint().startswith("First choose a mask")
    panel.set_parameters(source="mask")
    assert hint().startswith("First choose a mask")
    assert hint().endswith("The seeds that you placed are not used.")
    data, kwargs, _ = mask_layer_data(phantom_mask("cross"), fod.grid, "mask")
    panel.run_button.click()
    assert told().startswith("There is no mask")
    panel.data.mask_choice.value = panel.viewer.add_labels(data, **kwargs)
    assert told() == "No streamlines yet: press Run, or switch on Live."
    assert hint().startswith("Streamlines start in the voxels of the mask.")
    for source, step in (
        ("grey-white interface", "choose a tissue image in Tissues"),
        ("between regions", "add two regions in Regions"),
        ("placed seeds", "press Run"),
    ):
        panel.set_parameters(source=source)
        assert step in told()


def test_streamlines_start_in_a_mask_and_in_the_whole_fod(
    open_model: Any, settle: Any, notes: list[str]
) -> None:
    """The first of many, and what scripts do, are the same as the function's."""
    fod = make_phantom("cross")
    inside = np.asarray(phantom_mask("cross"), dtype=bool).copy()
    inside[: fod.grid.shape[0] // 2] = False
    panel = open_model(fod)
    assert "Shift-click" in panel.results.label.text()
    panel.set_parameters(source="whole FOD", n_total=60)
    assert "press Run" in panel.results.label.text()
    panel.set_parameters(source="mask")
    panel.run_button.click()
    assert notes[0].startswith("error: There is no mask to start from; choose one")
    viewer, session = panel.viewer, panel.session
    data, kwargs, _ = mask_layer_data(inside, fod.grid, "half")
    panel.seeds.mask_choice.value = viewer.add_labels(data, **kwargs)
    for seeds in (Seeds.in_mask(inside, fod.grid, 60), Seeds.from_fod(fod, 60)):
        panel.run_button.click()
        settle(panel)
        wanted = track(fod, seeds, session.parameters).digest()
        assert session.tractogram.digest() == wanted
        script = as_python(
            session.request(), session.fod_layer, seed_layer=panel.session.seed_mask_in_use
        )
        assert printed_by(script) == wanted
        panel.set_parameters(source="whole FOD")
    assert not len(session.seeds)
    panel.set_parameters(source="mask")
    panel.seeds.mask_choice.value = None  # the mask in use, then
    panel.data.mask_choice.value = viewer.layers["half"]
    assert session.seed_mask_in_use is viewer.layers["half"]


def test_every_voxel_of_a_mask_starts_as_many(open_model: Any, settle: Any) -> None:
    fod = make_phantom("cross")
    inside = np.asarray(phantom_mask("cross"), dtype=bool).copy()
    inside[: fod.grid.shape[0] // 2] = False
    panel = open_model(fod)
    data, kwargs, _ = mask_layer_data(inside, fod.grid, "half")
    # "accepted" was chosen for something else and is not offered here.
    panel.set_parameters(source="every voxel of a mask", n_per_voxel=2, counted="accepted")
    panel.seeds.mask_choice.value = panel.viewer.add_labels(data, **kwargs)
    shown = {c.name for c in panel.seeds.controls if not c.native.isHidden()}
    assert "n_per_voxel" in shown
    assert not shown & {"counted", "n_total"}
    seeds = Seeds.in_each_voxel(inside, fod.grid, 2)
    preview = panel.session.request(n_preview=50).seeds()
    np.testing.assert_array_equal(preview.positions_mm, seeds.positions_mm[:50])
    panel.run_button.click()
    settle(panel)
    session = panel.session
    assert session.tractogram.n_seeds == 2 * np.count_nonzero(inside)
    assert session.tractogram.digest() == track(fod, seeds, session.parameters).digest()


@pytest.mark.parametrize("source", ["mask", "every voxel of a mask"])
def test_seeds_by_voxel_go_into_runs_scripts_and_projects(
    open_model: Any, settle: Any, qtbot: Any, tmp_path: Path, source: str
) -> None:
    fod = make_phantom("cross")
    inside = np.asarray(phantom_mask("cross"), dtype=bool)
    panel = open_model()
    panel.data.add_fod(save_fod(fod, tmp_path / "fod.nii.gz"))
    data, kwargs, _ = mask_layer_data(inside, fod.grid, "inside")
    hidden = next(c.native.isHidden for c in panel.seeds.controls if c.name == "drawn_by")
    assert hidden()
    panel.set_parameters(source=source, n_per_voxel=1, n_total=60, drawn_by="voxel")
    assert not hidden()
    panel.seeds.mask_choice.value = panel.viewer.add_labels(data, **kwargs)
    n = 60 if source == "mask" else np.count_nonzero(inside)
    seeds = Seeds.by_voxel(inside, fod.grid, n)
    panel.run_button.click()
    settle(panel)
    session = panel.session
    wanted = track(session.fod, seeds, session.parameters).digest()
    assert session.tractogram.digest() == wanted
    mask_layer = session.seed_mask_in_use
    script = as_python(session.request(), session.fod_layer, seed_layer=mask_layer)
    assert printed_by(script) == wanted
    assert panel.project.save(tmp_path / "p.tracts.json")
    again = open_model(prepared=False)
    assert again.project.open_project(tmp_path / "p.tracts.json")
    qtbot.waitUntil(lambda: again.project.opening is None, timeout=WAIT_MS)
    assert again.session.tractogram.digest() == wanted
    assert again.session.state.seeding.drawn_by == "voxel"
    assert again.session.is_result_current


def test_live_follows_a_number_in_the_whole_fod(open_model: Any, cross: Any, qtbot: Any) -> None:
    panel = open_model(cross)
    panel.set_parameters(source="whole FOD", n_total=80)
    panel.live.setChecked(True)

    def n_seeds() -> int:
        tractogram = panel.session.tractogram
        return 0 if tractogram is None else tractogram.n_seeds

    qtbot.waitUntil(lambda: n_seeds() == 80, timeout=WAIT_MS)
    panel.set_parameters(n_total=90)
    qtbot.waitUntil(lambda: n_seeds() == 90, timeout=WAIT_MS)


def test_live_follows_masks_that_are_painted(open_model: Any, cross: Any, qtbot: Any) -> None:
    """The one to start in and the one to track in, at the same time."""
    panel = open_model(cross)
    data, kwargs, _ = mask_layer_data(np.ones(cross.grid.shape, bool), cross.grid, "all")
    starts, inside = (panel.viewer.add_labels(data.copy(), **kwargs) for _ in range(2))
    panel.seeds.mask_choice.value, panel.data.mask_choice.value = starts, inside
    panel.set_parameters(source="mask", n_total=100)
    panel.live.setChecked(True)

    def reach() -> tuple[float, float]:
        tractogram = panel.session.tractogram
        if tractogram is None or not len(tractogram):
            return 0.0, 0.0
        return tractogram.points[:, 0].min(), tractogram.points[:, 0].max()

    qtbot.waitUntil(lambda: reach()[0] < -20 and reach()[1] > 20, timeout=WAIT_MS)
    right = np.indices(inside.data.shape)[2] >= 16
    inside.data_setitem(np.nonzero(right), 0)  # as the brush does
    qtbot.waitUntil(lambda: reach()[1] < 1 and reach()[0] < -20, timeout=WAIT_MS)
    inside.undo()  # told by a redraw only
    qtbot.waitUntil(lambda: reach()[1] > 20, timeout=WAIT_MS)
    starts.data_setitem(np.nonzero(starts.data), 0)
    qtbot.waitUntil(lambda: "is empty" in panel.results.label.text(), timeout=WAIT_MS)
