"""Is it so in everyone? in the window: the map follows the seed, rows say who differs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, save_fod
from napari.layers import Image

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.model.cohorts import PhantomSubject, make_cohort
from napari_tractography.plugin.panel.measure import cohort as cohort_section
from napari_tractography.plugin.panel.measure.cohort import CohortDialog, suggested_pattern
from napari_tractography.plugin.session import cohort_runs
from napari_tractography.plugin.session.cohort_runs import CohortStep

LAYER = "Share of subjects"
N_SUBJECTS = 3  # the last has a lesion


@pytest.fixture(scope="module")
def subjects() -> list[PhantomSubject]:
    return make_cohort(N_SUBJECTS, lmax=6)


@pytest.fixture(scope="module")
def places_mm(subjects: list[PhantomSubject]) -> np.ndarray:
    return np.mean([each.places_mm for each in subjects], axis=0)


@pytest.fixture
def pattern(subjects: list[PhantomSubject], tmp_path: Path) -> str:
    for number, each in enumerate(subjects, 1):
        (tmp_path / f"sub-{number}").mkdir()
        save_fod(each.fod, tmp_path / f"sub-{number}" / "fod.nii.gz")
    return str(tmp_path / "sub-*" / "fod.nii.gz")


@pytest.fixture
def panel(open_model: Any, pattern: str, places_mm: np.ndarray) -> Any:
    """A panel with the FOD of the first subject, and a seed before the lesion."""
    panel = open_model()
    panel.data.add_fod(pattern.replace("*", "1"))
    panel.set_parameters(n_per_seed=60, radius_mm=3.0)
    panel.session.add_seeds_mm(places_mm[:1])
    return panel


@pytest.fixture
def steps(panel: Any) -> list[CohortStep]:
    found: list[CohortStep] = []
    panel.cohort.runs.stepped.connect(found.append)
    return found


def wait(panel: Any, qtbot: Any) -> None:
    qtbot.waitUntil(lambda: not panel.cohort.runs.is_busy, timeout=WAIT_MS)


def at(panel: Any, grid: nt.Grid, place_mm: np.ndarray) -> float:
    values = panel.session.space.volume(np.zeros(grid.shape))
    assert panel.viewer.layers[LAYER].data.shape == values.shape
    x, y, z = grid.nearest_voxels(place_mm)
    return float(np.asarray(panel.viewer.layers[LAYER].data)[z, y, x])


def test_map_and_rows_are_those_of_python(
    panel: Any, qtbot: Any, pattern: str, places_mm: np.ndarray, steps: list[CohortStep]
) -> None:
    panel.cohort.open_cohort(pattern)
    wait(panel, qtbot)
    layer = panel.viewer.layers[LAYER]
    assert isinstance(layer, Image)
    assert tuple(layer.contrast_limits) == (0.0, 1.0)
    request = panel.session.request()
    found = nt.Cohort(pattern).track(request.seeds(), request.parameters)
    wanted = panel.session.space.volume(found.share)
    np.testing.assert_allclose(np.asarray(layer.data), wanted, atol=1e-6)
    assert at(panel, found.grid, places_mm[0]) == 1.0
    assert at(panel, found.grid, places_mm[2]) == pytest.approx(2 / 3)
    table = panel.cohort.table
    assert [table.item(k, 0).text() for k in range(table.rowCount())] == [
        row[0] for row in found.table().rows
    ]
    assert table.item(0, 0).text() == "sub-3"
    assert table.item(0, 2).text() == str(len(found.tractograms[2]))
    assert f"in some of {N_SUBJECTS} subjects" in panel.cohort.note.text()
    assert steps[-1].result is not None


def test_the_map_follows_the_seed(
    panel: Any, qtbot: Any, pattern: str, places_mm: np.ndarray, steps: list[CohortStep]
) -> None:
    panel.cohort.open_cohort(pattern)
    wait(panel, qtbot)
    layer, before = panel.viewer.layers[LAYER], np.asarray(panel.viewer.layers[LAYER].data)
    steps.clear()
    for step in np.linspace(0, 1, 7):  # a drag: the newest wins
        panel.session.move_seed(0, (places_mm[0] + step * (places_mm[2] - places_mm[0]))[::-1])
    wait(panel, qtbot)
    assert panel.viewer.layers[LAYER] is layer
    assert not np.array_equal(np.asarray(layer.data), before)
    request = panel.session.request()
    found = nt.Cohort(pattern).track(request.seeds(), request.parameters)
    np.testing.assert_allclose(
        np.asarray(layer.data), panel.session.space.volume(found.share), atol=1e-6
    )
    assert sum(step.result is not None for step in steps) <= 3


def test_a_preview_goes_before_all_streamlines(
    panel: Any, qtbot: Any, pattern: str, steps: list[CohortStep], monkeypatch: Any
) -> None:
    monkeypatch.setattr(cohort_runs, "N_PREVIEW", 20)
    panel.cohort.open_cohort(pattern)
    wait(panel, qtbot)
    n_each = [len(s.result.tractograms[0]) for s in steps if s.result is not None]
    assert n_each[-1] > 20 >= n_each[0]
    assert len(n_each) == 2


def test_whatever_goes_wrong_is_said(
    panel: Any, qtbot: Any, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(nt.Cohort, "iter_done", fail)
    panel.cohort.open_cohort(pattern)
    wait(panel, qtbot)
    said = "Tracking in the subjects failed: the disk is gone; the log has the details."
    assert panel.cohort.note.text() == said


def test_a_row_opens_its_subject_with_the_same_seed(panel: Any, qtbot: Any, pattern: str) -> None:
    panel.cohort.open_cohort(pattern)
    wait(panel, qtbot)
    seed = panel.session.state.seeds.positions_mm.copy()
    panel.cohort.table.cellDoubleClicked.emit(0, 1)
    assert panel.session.fod_layer.metadata["path"] == pattern.replace("*", "3")
    np.testing.assert_array_equal(panel.session.state.seeds.positions_mm, seed)
    n_layers = len(panel.viewer.layers)
    at_first = [panel.cohort.table.item(k, 0).text() for k in range(3)].index("sub-1")
    panel.cohort.open_subject(at_first)  # is open already
    assert panel.session.fod_layer.metadata["path"] == pattern.replace("*", "1")
    assert len(panel.viewer.layers) == n_layers
    wait(panel, qtbot)


def test_what_is_saved_is_made_again_by_the_command(
    panel: Any, qtbot: Any, pattern: str, tmp_path: Path
) -> None:
    panel.cohort.open_cohort(pattern)
    wait(panel, qtbot)
    path = tmp_path / "who.csv"
    panel.cohort.save(path)
    before = path.read_bytes()
    rows = list(csv.DictReader(before.decode().splitlines()))
    assert all(row["inputs_sha256"] for row in rows)
    words = ["cohort", str(tmp_path / "who.json"), "--fod", pattern, "--table", str(path)]
    assert main([*words, "--quiet"]) == 0
    assert path.read_bytes() == before
    (tmp_path / "other.json").write_text("{}", "utf-8")
    with pytest.raises(nt.errors.FileError, match="is no recipe"):
        panel.cohort.save(tmp_path / "other.csv")


@pytest.fixture
def far(subjects: list[PhantomSubject], tmp_path: Path) -> tuple[str, str]:
    """Patterns of FODs that lie elsewhere, each by itself, and of affines that lead back."""
    for number, each in enumerate(subjects, 1):
        own = tmp_path / f"far-{number}"
        own.mkdir()
        affine = each.fod.grid.affine.copy()
        affine[:3, 3] += 64.0 * number
        moved = nt.Fod(each.fod.coefficients, nt.Grid(each.fod.grid.shape, affine))
        save_fod(moved, own / "fod.nii.gz")
        back = np.eye(4)
        back[:3, 3] = -64.0 * number
        np.savetxt(own / "back.txt", back)
    return str(tmp_path / "far-*" / "fod.nii.gz"), str(tmp_path / "{subject}" / "back.txt")


def test_with_warps_the_map_lies_where_the_seed_is(
    panel: Any,
    qtbot: Any,
    far: tuple[str, str],
    places_mm: np.ndarray,
    notes: list[str],
    tmp_path: Path,
) -> None:
    fods, warps = far
    region = nt.Region.sphere(places_mm[0], 25.0, "include")
    panel.session.regions.add_region(region)
    panel.cohort.open_cohort(fods, warps)
    wait(panel, qtbot)
    grid = panel.session.fod.grid
    assert at(panel, grid, places_mm[0]) == 1.0
    assert at(panel, grid, places_mm[2]) == pytest.approx(2 / 3)
    request = panel.session.request()
    cohort = nt.Cohort(fods, warps=warps, grid=grid)
    found = cohort.track(request.seeds(), request.parameters, regions=request.regions)
    assert len(request.regions) == 1
    np.testing.assert_allclose(
        np.asarray(panel.viewer.layers[LAYER].data),
        panel.session.space.volume(found.share),
        atol=1e-6,
    )
    n_layers = len(panel.viewer.layers)
    panel.cohort.open_subject(0)
    assert "far-3 lies in a space of its own" in notes[-1]
    assert len(panel.viewer.layers) == n_layers
    path = tmp_path / "who.csv"
    panel.cohort.save(path)
    before = path.read_bytes()
    words = ["cohort", str(path.with_suffix(".json")), "--fod", fods, "--table", str(path)]
    assert main([*words, "--warp", warps, "--quiet"]) == 0
    assert path.read_bytes() == before
    assert [row["digest"] for row in csv.DictReader(before.decode().splitlines())] == [
        row[found.table().header.index("digest")] for row in found.table().rows
    ]


def test_the_dialog_tells_which_warps_are_there(
    qtbot: Any, far: tuple[str, str], tmp_path: Path
) -> None:
    dialog = CohortDialog(far[0])
    qtbot.addWidget(dialog)
    ready = dialog.buttons.button(dialog.buttons.Ok).isEnabled
    assert dialog.found.text() == "3 files found."
    assert dialog.warps() == ""
    assert ready()
    dialog.warp_line.setText(f" {far[1]}")
    assert dialog.found.text() == "3 files and 3 warps found."
    assert dialog.warps() == far[1]
    assert ready()
    (tmp_path / "far-2" / "back.txt").unlink()
    dialog.line.setText("; ".join(far[0].replace("*", str(n)) for n in (1, 2)))
    assert dialog.found.text() == "2 files and 1 warp found."
    assert not ready()


def test_removing_the_map_or_stop_ends_it(panel: Any, qtbot: Any, pattern: str) -> None:
    for end in (
        lambda: panel.viewer.layers.remove(panel.viewer.layers[LAYER]),
        panel.cohort.stop.click,
    ):
        panel.cohort.open_cohort(pattern)
        wait(panel, qtbot)
        assert not panel.cohort.isHidden()
        end()
        assert panel.cohort.isHidden()
        assert panel.cohort.runs.cohort is None
        panel.session.clear_seeds()
        assert not panel.cohort.runs.is_busy
        panel.session.document.undo()


def test_what_is_missing_is_said(
    panel: Any, qtbot: Any, pattern: str, open_model: Any, notes: list[str], tmp_path: Path
) -> None:
    panel.session.clear_seeds()
    panel.cohort.open_cohort(pattern)
    assert "There are no seeds" in panel.cohort.note.text()
    (tmp_path / "sub-2" / "fod.nii.gz").write_bytes(b"no image")
    panel.session.document.undo()
    qtbot.waitUntil(lambda: "sub-2: " in panel.cohort.note.text(), timeout=WAIT_MS)
    other = open_model()
    other.cohort.open_cohort(pattern)
    assert "There is no FOD" in notes[-1]


def test_the_menu_asks_with_the_pattern_of_the_fod(
    panel: Any, qtbot: Any, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(dialog: CohortDialog) -> int:
        asked.append(dialog.line.text())
        dialog.line.setText(pattern)
        assert dialog.found.text() == f"{N_SUBJECTS} files found."
        dialog.deleteLater()
        return int(CohortDialog.DialogCode.Accepted)

    monkeypatch.setattr(cohort_section.CohortDialog, "exec", answer)
    (entry,) = (a for a in panel.more.menu().actions() if a.text() == "Is it so in everyone?...")
    entry.trigger()
    assert asked == [pattern]
    assert panel.cohort.runs.cohort is not None
    wait(panel, qtbot)


def test_patterns_are_those_of_bids() -> None:
    path = "/data/sub-01/dwi/sub-01_fod.mif"
    assert suggested_pattern(path) == "/data/sub-*/dwi/sub-*_fod.mif"
    assert suggested_pattern(None) == ""
