"""Dissecting: what the mouse draws across or around is selected, planes cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hands import WAIT_MS, Mouse

from napari_tractography import Tractogram


def lines() -> Tractogram:
    """Five lines along x, 4 mm apart along y; the last one bends away at its end."""
    x = np.linspace(-20, 20, 41)
    made = [np.stack([x, np.full(41, 4.0 * k - 8), np.zeros(41)], axis=1) for k in range(5)]
    made[4][30:, 1] += np.linspace(0, 12, 11)
    return Tractogram.from_streamlines(made)


def shown(panel: Any) -> Any:
    """The layer of the active bundle with the lines."""
    layer = panel.session.ensure_streamlines_layer()
    layer.tractogram = lines()
    panel.viewer.dims.set_point(0, 0.0)
    return layer


@pytest.mark.parametrize("n_dims", [2, 3])
def test_a_stroke_with_the_mouse_selects_and_the_camera_stays(
    open_window: Any, cross: Any, n_dims: int
) -> None:
    panel = open_window(cross)
    layer = shown(panel)
    viewer = panel.viewer
    viewer.dims.ndisplay = n_dims
    viewer.reset_view()
    panel.dissection.tools["Lasso"].click()
    centre = viewer.scene.camera.center
    Mouse(viewer).drag((0.0, -9.0, 0.0), (0.0, -2.0, 0.0))
    assert layer.selected.tolist() == [0, 1]
    assert viewer.scene.camera.center == centre
    panel.selection.buttons["Delete"].click()
    assert layer.n_all == 3
    panel.dissection.tools["Sphere"].click()
    assert not panel.dissection.tools["Lasso"].isChecked()
    Mouse(viewer).drag((0.0, 4.0, 0.0), (0.0, 7.0, 0.0))
    assert layer.selected.tolist() == [1]
    panel.session.add_seeds_mm(np.array([[0.0, 4.0, 0.0]]))
    seeds, before = panel.session.seeds.positions_mm, viewer.layers.selection.active
    layer.selected = []
    Mouse(viewer).drag((0.0, 4.0, 0.0), (0.0, 7.0, 0.0))  # from a seed, which stays
    np.testing.assert_array_equal(panel.session.seeds.positions_mm, seeds)
    assert viewer.layers.selection.active is before
    assert layer.selected.tolist() == [1]
    panel.dissection.tools["Sphere"].click()
    assert panel.dissection.tool == ""


def test_what_lies_beyond_the_slice_is_cut_off_and_brought_back(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    layer = shown(panel)
    whole = layer.tractogram.digest()
    panel.viewer.dims.set_point(2, 5.0)
    x = float(layer.space.to_world(np.asarray(panel.viewer.dims.point, float)[None])[0, 0])
    panel.dissection.cut_at_slice(2, 1)
    assert layer.tractogram.points[:, 0].max() == pytest.approx(x, abs=1e-3)
    assert layer.tractogram.points[:, 0].min() == pytest.approx(-20.0)
    assert [edit.kind for edit in layer.editor.edits] == ["cut"]
    layer.selected = [0]
    layer.editor.delete_selected()
    assert [edit.kind for edit in layer.editor.edits] == ["cut", "keep"]
    made = layer.tractogram.digest()
    edits = layer.editor.edits
    layer.editor.undo()
    layer.editor.undo()
    assert layer.tractogram.digest() == whole
    layer.editor.edits = edits
    assert layer.tractogram.digest() == made


def test_more_like_these_and_outliers_select(open_model: Any, cross: Any, qtbot: Any) -> None:
    panel = open_model(cross)
    layer = shown(panel)
    layer.selected = [0]
    panel.dissection.like_mm.value = 4.5
    panel.dissection.like.click()
    assert not panel.dissection.progress.isHidden()
    qtbot.waitUntil(lambda: layer.selected.tolist() == [0, 1], timeout=WAIT_MS)
    assert panel.dissection.progress.isHidden()
    layer.selected = []
    panel.dissection.outlier_mm.value = 4.1
    qtbot.waitUntil(lambda: layer.selected.tolist() == [4], timeout=WAIT_MS)


def test_a_comparison_that_is_cancelled_selects_nothing(
    open_model: Any, cross: Any, qtbot: Any
) -> None:
    panel = open_model(cross)
    layer = shown(panel)
    layer.selected = [0]
    panel.dissection.like.click()
    panel.dissection.progress.cancel.click()
    assert panel.dissection.progress.isHidden()
    assert not panel.dissection.work.is_busy
    qtbot.wait(300)
    assert layer.selected.tolist() == [0]


def test_undo_says_what_was_done_to_streamlines(
    open_model: Any, cross: Any, tmp_path: Path
) -> None:
    panel = open_model(cross)
    layer, document, file = shown(panel), panel.session.document, tmp_path / "weights.txt"
    name = panel.bundles.active.name
    panel.measure.limit_lengths(10.0, 41.0)
    assert document.last == f"Lengths of {name}"
    panel.dissection.cut_at_slice(2, 1)
    assert document.last == f"Cut {name}"
    layer.selected = [0]
    layer.editor.delete_selected()
    assert document.last == "Remove 1 streamline"
    np.savetxt(file, np.arange(5.0))
    panel.dissection.read_weights(file)
    document.undo()  # of their colours
    assert document.last == f"Weights of {name}"


def test_weights_are_read_shown_and_thresholded(
    open_model: Any, cross: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_model(cross)
    layer = shown(panel)
    assert panel.dissection.min_weight.native.isHidden()
    file = tmp_path / "weights.txt"
    np.savetxt(file, [0.5, 1.0, 1.5, 2.0, 2.5])
    layer.selected = [0]
    layer.editor.delete_selected()
    panel.dissection.read_weights(file)
    assert not panel.dissection.min_weight.native.isHidden()
    assert layer.colour_by == "weight"
    assert layer.tractogram.weights.tolist() == [1.0, 1.5, 2.0, 2.5]
    panel.dissection.min_weight.slider.setValue(round(1.9 / panel.dissection.min_weight._increment))
    assert layer.tractogram.weights.tolist() == [2.0, 2.5]
    assert "weight 2" in layer.describe(0)
    panel.dissection.min_weight.value = 0.0
    assert layer.tractogram.weights.tolist() == [1.0, 1.5, 2.0, 2.5]
    np.savetxt(file, [0.5, 1.0])
    panel.dissection.read_weights(file)
    assert "5 streamlines" in notes[-1]
