"""Images as sources: chosen, tracked in, with scales that are sliders, and units of their own."""

from __future__ import annotations

import ast
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import zarr
from hands import WAIT_MS, Mouse, fod_layer
from napari.layers import Labels
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel, QPushButton
from tubes import IN_WALL, choose, draw_tube, image_layer

import napari_tractography
from napari_tractography.fields.block_store import BlockStore
from napari_tractography.fields.structure_tensors import KIND
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.image_phantoms import ImagePhantom
from napari_tractography.model.stop import StopReason
from napari_tractography.plugin.contributions import read_tractogram
from napari_tractography.plugin.export.figures import _legends
from napari_tractography.plugin.layers.sources.image_layers import (
    WorkedOut,
    fod_of_image,
    is_image_source,
    settings_of,
)
from napari_tractography.plugin.layers.volume_layers import mask_of
from napari_tractography.plugin.panel.results import cut_short
from napari_tractography.plugin.panel.sections import image as image_section
from napari_tractography.plugin.panel.widgets.controls import label_of
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.space.orientation_labels import axes_of, edge_labels
from napari_tractography.streamlines.tractogram import load_tractogram

# Of axes (z, y, x), across the first.
IN_PLANE = np.array([[1, 0, 0], [0, 0.8, -0.6], [0, 0.6, 0.8]])


@pytest.fixture(scope="module")
def tube() -> ImagePhantom:
    """A small tube of 20 um voxels, its middle at the origin."""
    return draw_tube()


def pyramid(tube: ImagePhantom) -> list[Any]:
    """Three arrays of the same image, as OME-Zarr readers give them: of Zarr, of Dask."""
    whole = zarr.create_array(
        store={}, shape=tube.image.T.shape, chunks=(16, 16, 16), dtype=tube.image.dtype
    )
    whole[:] = tube.image.T
    coarse = tube.image.T.reshape(10, 2, 24, 2, 24, 2).mean(axis=(1, 3, 5))
    return [whole, dask.array.from_array(coarse.astype(np.uint8), chunks=12)]


def test_an_image_is_tracked_in_where_it_is_clicked(
    open_window: Any, tube: ImagePhantom, settle: Any, notes: list[str]
) -> None:
    panel = open_window()
    choose(panel, image_layer(tube))
    panel.viewer.reset_view()
    panel.set_parameters(n_per_seed=10)
    mouse = Mouse(panel.viewer)
    z = float(panel.viewer.dims.point[0])
    mouse.click((z, 0.0, 300.0), Qt.KeyboardModifier.ShiftModifier)
    np.testing.assert_allclose(panel.session.seeds.positions_mm[0, :2], (0.3, 0.0), atol=0.004)
    panel.run_button.click()
    settle(panel)
    t = panel.session.tractogram
    assert len(t) == 10
    radius = np.linalg.norm(t.points[:, :2], axis=1) / 0.02
    assert radius.min() > 6  # in the wall, within the reach of the filters
    along = np.concatenate([np.diff(line, axis=0) for line in t])
    truth = tube.directions(np.concatenate([line[:-1] for line in t]))
    known = np.isfinite(truth).all(axis=1)
    cosine = np.abs((along * truth).sum(axis=1)) / np.linalg.norm(along, axis=1)
    assert np.median(np.rad2deg(np.arccos(np.clip(cosine[known], 0, 1)))) < 12
    assert "µm" in panel.results.label.text()
    mouse.drag((z, 0.0, 300.0), (z, 300.0, 0.0))
    np.testing.assert_allclose(panel.session.seeds.positions_mm[0, :2], (0.0, 0.3), atol=0.008)
    assert not notes


def test_lengths_are_shown_in_the_unit_of_the_volume(
    open_model: Any, tube: ImagePhantom, cross: Any
) -> None:
    panel = open_model(cross, prepared=False)
    step = next(c for c in panel.tracking.main if c.name == "step_mm")
    radius = next(c for c in panel.seeds.controls if c.name == "radius_mm")
    before = step.box.value(), radius.box.value()
    choose(panel, image_layer(tube))
    assert label_of(panel.tracking.main_form, step).text() == "Step (µm)"
    assert step.box.value() == pytest.approx(1000 * panel.session.parameters.step_mm)
    assert 1 <= step.box.value() <= 20  # a part of a voxel of 20 um
    assert radius.label == "Seed radius (µm)"
    assert radius.box.value() == pytest.approx(20)
    step.box.setValue(7.0)
    assert panel.session.parameters.step_mm == pytest.approx(0.007)
    assert "20 x 20 x 20 µm" in panel.data.kind.text()
    assert [str(unit) for unit in panel.session.seeds.ensure_layer().units] == ["micrometer"] * 3
    panel.tracking.reset.click()
    panel.data.fod_choice.value = panel.viewer.layers[0]
    assert label_of(panel.tracking.main_form, step).text() == "Step (mm)"
    assert (step.box.value(), radius.box.value()) == before
    assert str(panel.session.seeds.layer.units[0]) == "millimeter"


def test_zarr_dask_and_several_scales_give_the_fibres_of_numpy(tube: ImagePhantom) -> None:
    layer = image_layer(tube)
    settings = settings_of(layer)
    wanted = fod_of_image(layer, settings)
    centre = np.argwhere(tube.fibres)[::97]
    for data in (pyramid(tube)[0], dask.array.from_array(tube.image.T, chunks=16), pyramid(tube)):
        other = image_layer(tube, data=data, multiscale=isinstance(data, list))
        found = fod_of_image(other, settings)
        assert found.grid == wanted.grid
        assert found.grid.unit == "um"
        rows = found.voxel_rows[tuple(centre.T)], wanted.voxel_rows[tuple(centre.T)]
        np.testing.assert_array_equal(rows[0] >= 0, rows[1] >= 0)
        np.testing.assert_array_equal(
            found.vectors.numbers[rows[0]], wanted.vectors.numbers[rows[1]]
        )


def test_a_slider_finds_the_fibres_anew(
    open_model: Any, tube: ImagePhantom, qtbot: Any, notes: list[str]
) -> None:
    panel = open_model()
    layer = image_layer(tube)
    choose(panel, layer)
    image = panel.data.image
    assert not image.isHidden()
    first = panel.session.fod
    changes: list[None] = []
    panel.session.changed.connect(lambda: changes.append(None))
    _, rho, fibres = image.controls
    rho.slider.setValue(rho.slider.value() + 4)
    fibres.value = "bright"
    qtbot.waitUntil(lambda: panel.session.fod is not first)
    assert settings_of(layer).rho_vox == pytest.approx(5.0)
    assert settings_of(layer).fibres == "bright"
    assert changes
    second = panel.session.fod
    rho.box.setValue(40.0)  # beyond the image
    qtbot.waitUntil(lambda: bool(notes))
    assert "rho" in notes[0]
    assert panel.session.fod is second
    assert rho.value == pytest.approx(5.0)
    panel.data.fod_choice.value = None
    assert image.isHidden()


@pytest.mark.parametrize("unit", ["um", "mm"])
def test_an_image_stays_in_view_where_the_unit_alone_is_set(
    open_window: Any, tube: ImagePhantom, unit: str
) -> None:
    """Voxels of 1: the numbers of the sliders stay, and the slice was taken outside."""
    panel = open_window()
    layer = image_layer(tube, scale=(1, 1, 1), translate=(0, 0, 0), units=None)
    choose(panel, layer)
    before = panel.viewer.screenshot(flash=False)[..., :3]
    image = panel.data.image
    image.size.setText("1")
    image.unit.setCurrentIndex(image.unit.findData(unit))
    image.set_size.click()
    after = panel.viewer.screenshot(flash=False)[..., :3]
    assert before.std() > 10
    assert after.std() == pytest.approx(before.std(), rel=0.2)


def test_an_image_without_a_scale_is_asked_for_it_once(open_model: Any, tube: ImagePhantom) -> None:
    panel = open_model()
    layer = image_layer(tube, scale=(1, 1, 1), translate=(0, 0, 0), units=None)
    choose(panel, layer)
    image = panel.data.image
    assert not image.ask.isHidden()
    assert "a voxel counts as 1" in image.ask.text()
    assert panel.session.fod.grid.unit == "voxel"
    step = next(c for c in panel.tracking.main if c.name == "step_mm")
    assert step.label == "Step (vx)"
    inside = Labels(np.ones(layer.data.shape, np.uint8), name="inside", units=layer.units)
    panel.viewer.add_layer(inside)
    panel.data.mask_choice.value = inside
    panel.viewer.dims.set_point(0, 7.0)
    image.size.setText("20")
    image.unit.setCurrentIndex(image.unit.findData("um"))
    image.set_size.click()
    assert image.scale_row.isHidden()
    assert image.ask.isHidden()
    np.testing.assert_allclose(layer.scale, 20)
    assert str(layer.units[0]) == "micrometer"
    grid = panel.session.fod.grid
    assert grid.unit == "um"
    np.testing.assert_allclose(grid.voxel_sizes_mm, 0.02)
    assert step.label == "Step (µm)"
    assert panel.session.space == DisplaySpace.of(grid)
    assert "voxels of 20 x 20 x 20 µm" in panel.data.kind.text()
    assert panel.viewer.dims.point[0] == 140.0  # the same slice
    assert mask_of(inside, panel.session.space).all()  # what lay on the voxels does so now


def test_what_has_been_worked_out_is_shown_as_a_layer(
    open_model: Any, tube: ImagePhantom, settle: Any
) -> None:
    panel = open_model()
    choose(panel, image_layer(tube))
    panel.set_parameters(n_per_seed=5)
    panel.data.image.show_blocks.setChecked(True)
    (layer,) = (x for x in panel.viewer.layers if isinstance(x, WorkedOut))
    assert not layer.data.any()
    low, high = layer.extent.world
    panel.session.add_seeds_mm(np.array([IN_WALL]))
    panel.run_button.click()
    settle(panel)
    assert layer.data.any()
    image = panel.session.fod_layer.extent.world
    assert (low >= image[0] - 1e-3).all()
    assert (high <= image[1] + 1e-3).all()
    panel.data.image.show_blocks.setChecked(False)
    assert layer not in panel.viewer.layers


def test_what_has_been_worked_out_is_shown_while_a_run_goes_on(
    open_model: Any,
    tube: ImagePhantom,
    qtbot: Any,
    settle: Any,
    long_runs: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_section, "REFRESH_MS", 10)
    panel = open_model()
    choose(panel, image_layer(tube))
    panel.set_parameters(n_per_seed=200)
    panel.data.image.show_blocks.setChecked(True)
    (layer,) = (x for x in panel.viewer.layers if isinstance(x, WorkedOut))
    panel.session.add_seeds_mm(np.array([IN_WALL]))
    panel.run_button.click()
    qtbot.waitUntil(lambda: bool(layer.data.any()), timeout=60_000)
    assert panel.runs.is_busy
    panel.runs.cancel()
    settle(panel)


def test_tissue_is_chosen_painted_refused_and_removed(
    open_model: Any, tube: ImagePhantom, qtbot: Any, notes: list[str]
) -> None:
    panel = open_model()
    layer = image_layer(tube)
    choose(panel, layer)
    where = {"scale": layer.scale, "translate": layer.translate, "units": layer.units}
    inside = Labels(np.ascontiguousarray(tube.fibres.T.astype(np.uint8)), name="tissue", **where)
    elsewhere = Labels(np.ones((3, 3, 3), np.uint8), name="elsewhere")
    for each in (inside, elsewhere):
        panel.viewer.add_layer(each)
    session, tissue = panel.session, panel.data.image.tissue
    tissue.value = inside
    qtbot.waitUntil(lambda: settings_of(layer).tissue is inside)
    first = session.fod
    np.testing.assert_array_equal(first.blocks.source.mask, tube.fibres)
    inside.data_setitem(tuple(np.array([n]) for n in (10, 24, 40)), 0)
    qtbot.waitUntil(lambda: session.fod is not first)
    second = session.fod
    assert tube.fibres[40, 24, 10]
    assert not second.blocks.source.mask[40, 24, 10]
    tissue.value = elsewhere
    qtbot.waitUntil(lambda: bool(notes))
    assert "elsewhere has shape (3, 3, 3)" in notes[0]
    assert session.fod is second
    assert tissue.value is inside
    panel.viewer.layers.remove(inside)
    qtbot.waitUntil(lambda: session.fod is not second)
    assert session.fod.blocks.source.mask is None


class Failing:
    """An array of which a part can no longer be read once `is_lost`."""

    def __init__(self, image: np.ndarray) -> None:
        self.image, self.shape, self.dtype, self.ndim = image, image.shape, image.dtype, image.ndim
        self.is_lost = False

    def __getitem__(self, box: Any) -> np.ndarray:
        if self.is_lost and box[2].stop > 80:
            raise OSError("the connection was lost")
        return self.image[box]


def test_a_zarr_that_fails_in_the_middle_of_a_run_leaves_what_was_tracked(
    open_window: Any, tube: ImagePhantom, settle: Any
) -> None:
    """In a real window: the sentence is shown, and streamlines of one side stay.

    Two tubes side by side; the blocks of the first read up to voxel 80.
    """
    panel = open_window()
    array = Failing(np.concatenate([tube.image.T, tube.image.T], axis=2))
    choose(panel, image_layer(tube, data=dask.array.from_array(array, chunks=8, asarray=False)))
    array.is_lost = True
    panel.set_parameters(n_per_seed=10, max_length_mm=0.1)
    far = 0.3 + 48 * 0.02
    panel.session.add_seeds_mm(np.array([[-0.3, 0.0, 0.0], [far, 0.0, 0.0]]))
    panel.run_button.click()
    settle(panel)
    assert "the connection was lost" in panel.results.label.text()
    kept = panel.session.tractogram
    assert len(kept) == 10
    assert (kept.points[:, 0] < 0).all()
    assert panel.session.streamlines_layer in panel.viewer.layers
    array.is_lost = False
    panel.run_button.click()
    settle(panel)
    assert len(panel.session.tractogram) == 20


def test_lengths_that_are_for_a_brain_go_by_the_volume(
    open_model: Any, tube: ImagePhantom, cross: Any, settle: Any
) -> None:
    panel = open_model(cross, prepared=False)
    controls = {c.name: c for c in panel.appearance.controls}
    like = panel.dissection.like_mm
    cluster, slab = controls["cluster_mm"], controls["slab_mm"]
    before = cluster.box.value(), slab.box.value()
    choose(panel, image_layer(tube))
    assert cluster.label == "Cluster distance (µm)"
    assert cluster.box.value() == pytest.approx(100)  # of 10 mm in voxels of 2 mm, here of 20 um
    assert cluster.box.minimum() == pytest.approx(10)
    assert slab.box.value() == pytest.approx(1000 * before[1] * 0.01)
    assert label_of(panel.appearance.form, panel.appearance.clip.position).text() == (
        "Clip at (µm)"
    )
    assert like.box.value() == pytest.approx(60)
    panel.data.fod_choice.value = panel.viewer.layers[0]
    assert (cluster.box.value(), slab.box.value()) == pytest.approx(before)
    assert cluster.label == "Cluster distance (mm)"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"data": np.ones((4, 5, 6, 7))}, "4 dimensions", id="time series"),
        pytest.param({"data": np.eye(9)}, "2 dimensions", id="one slice"),
        pytest.param({"data": np.full((30, 30, 30), 7.0)}, "7.0 everywhere", id="flat"),
        pytest.param({"rotate": IN_PLANE}, "turned or sheared", id="turned"),
        pytest.param({"units": ("um", "um", "mm")}, "give all the same", id="units"),
    ],
)
def test_what_cannot_be_a_source_is_refused_with_a_sentence(
    open_model: Any, tube: ImagePhantom, notes: list[str], change: dict[str, Any], said: str
) -> None:
    panel = open_model()
    if np.ndim(change.get("data", np.ones((1, 1, 1)))) != 3:
        change = {**change, "scale": None, "translate": None, "units": None}
    layer = image_layer(tube, **change)
    choose(panel, layer)
    assert panel.session.fod_layer is None
    assert panel.data.fod_choice.value is None
    assert not is_image_source(layer)
    (note,) = notes
    assert said in note
    assert note.startswith("error: ")


def test_without_its_package_an_image_is_no_source_and_the_extra_is_told(
    open_model: Any, tube: ImagePhantom, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "structure_tensor", None)
    panel = open_model()
    layer = image_layer(tube)
    panel.viewer.add_layer(layer)
    panel.data.fod_choice.value = layer
    assert len(notes) == 1
    assert "structure-tensor, which is not installed; pip install" in notes[0]
    assert notes[0].endswith('"napari-tractography[images]".')
    assert panel.session.fod_layer is None


def test_a_grid_in_micrometres_makes_the_round_trip() -> None:
    affine = np.diag([-0.02, 0.01, 0.03, 1.0])
    grid = Grid((5, 6, 7), affine, unit="um")
    space = DisplaySpace.of(grid)
    np.testing.assert_allclose(space.scale, (30, 10, 20))
    points = np.random.default_rng(2).normal(size=(9, 3))
    np.testing.assert_allclose(space.to_display(points), 1000 * points[:, ::-1], rtol=1e-6)
    np.testing.assert_allclose(space.to_world(space.to_display(points)), points, atol=1e-6)
    assert space.units == ("um",) * 3
    assert replace(space, unit="mm") != space


def test_the_only_image_is_chosen_by_itself_and_gives_way_to_an_fod(
    open_model: Any, tube: ImagePhantom, cross: Any, notes: list[str]
) -> None:
    panel = open_model()
    assert "open an FOD or an image" in panel.results.label.text()
    layer = panel.viewer.add_layer(image_layer(tube))
    assert panel.data.fod_choice.value is layer
    assert panel.session.fod_layer is layer
    panel.viewer.add_layer(fod_layer(cross))
    assert panel.session.fod_layer is panel.viewer.layers[-1]
    other = open_model()
    flat = other.viewer.add_image(np.zeros((8, 8)))
    assert other.session.fod_layer is None
    other.viewer.layers.remove(flat)
    of_a_body = image_layer(tube)
    of_a_body.metadata["affine"] = tube.grid.affine
    other.viewer.add_layer(of_a_body)
    assert other.session.fod_layer is None
    assert notes == []


def test_of_an_image_nothing_is_said_in_words_of_mri(
    open_model: Any, tube: ImagePhantom, cross: Any, settle: Any
) -> None:
    panel = open_model(cross)
    panel.seeds.source.value = "whole FOD"

    def said() -> str:
        shown = panel.tracking, panel.tracking.more_form, panel.seeds, panel.results
        labels = [label for part in shown for label in part.findChildren(QLabel)]
        buttons = panel.tracking.findChildren(QPushButton)
        texts = [widget.text() for widget in (*labels, *buttons)]
        return " ".join([*texts, panel.seeds.source.native.currentText()])

    words = ("FOD", "amplitude", "cone", "white matter")
    assert all(word.lower() in said().lower() for word in words[:3])
    choose(panel, image_layer(tube))
    panel.session.set_by_hand({"min_amplitude": 0.99})
    panel.set_parameters(n_total=50)
    panel.run_button.click()
    settle(panel)
    assert "linearity" in panel.results.label.text()
    assert not [word for word in words if word.lower() in said().lower()]
    assert panel.seeds.source.value == "whole FOD"
    panel.data.fod_choice.value = panel.viewer.layers[0]
    assert "Minimum amplitude" in said()


@pytest.mark.parametrize("usual", [usual for usual, _ in KIND.words])
def test_what_is_put_in_other_words_is_still_said(usual: str) -> None:
    """A help text that is changed would keep its words of MRI for images."""
    source = Path(napari_tractography.__file__).parent
    texts = (
        node.value
        for path in source.rglob("*.py")
        if path.name != "structure_tensors.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert any(usual in text for text in texts)


def test_start_from_does_not_outlive_the_volume_that_it_was_meant_for(
    open_model: Any, tube: ImagePhantom, cross: Any, fresh_settings: Any
) -> None:
    panel = open_model(cross, cross)
    panel.seeds.source.value = "grey-white interface"
    panel.data.fod_choice.value = panel.viewer.layers[0]
    panel.data.fod_choice.value = panel.viewer.layers[1]
    assert panel.seeds.source.value == "grey-white interface"
    choose(panel, image_layer(tube))
    assert panel.session.seeding.source == panel.seeds.source.value == "placed seeds"
    panel.session.document.undo()
    assert panel.session.seeding.source == panel.seeds.source.value == "grey-white interface"
    assert panel.session.fod_layer is panel.viewer.layers[1]
    panel.close_session()
    fresh_settings()
    assert open_model(prepared=False).seeds.source.value == "placed seeds"


def test_live_gives_up_the_preview_of_scales_before_the_newest(
    open_model: Any, tube: ImagePhantom, qtbot: Any, monkeypatch: pytest.MonkeyPatch, settle: Any
) -> None:
    panel = open_model()
    choose(panel, image_layer(tube))
    panel.set_parameters(n_per_seed=5)
    panel.session.add_seeds_mm(IN_WALL)
    panel.run_button.click()
    settle(panel)
    make, work_out, made_for = BlockStore.make, BlockStore._block, []
    stops: dict[int, Any] = {}

    def noting(self: BlockStore, blocks: Any, stop: Any) -> bool:
        stops[id(self)] = stop
        return make(self, blocks, stop)

    def until_given_up(self: BlockStore, block: int) -> Any:
        made_for.append(self)
        if self is made_for[0]:  # as long as it takes until the next is chosen, and this given up
            while not stops[id(self)][0]:
                time.sleep(0.01)
        return work_out(self, block)

    monkeypatch.setattr(BlockStore, "make", noting)
    monkeypatch.setattr(BlockStore, "_block", until_given_up)
    rho = panel.data.image.controls[1]
    panel.live.setChecked(True)
    rho.box.setValue(4.0)
    qtbot.waitUntil(lambda: len(made_for) > 0, timeout=WAIT_MS)
    first = panel.runs.current
    rho.box.setValue(5.0)
    qtbot.waitUntil(lambda: panel.runs.current is not first, timeout=WAIT_MS)
    settle(panel)
    assert first.result is None
    assert panel.session.state.result_request.fod is panel.session.fod


def test_results_say_how_many_were_cut_at_the_maximum_length_and_read_in_mm(
    open_model: Any, tube: ImagePhantom, settle: Any
) -> None:
    panel = open_model(prepared=False)
    layer = image_layer(tube)
    choose(panel, layer)
    panel.set_parameters(n_per_seed=20, min_length_mm=0.0, max_length_mm=0.6)
    panel.session.add_seeds_mm(IN_WALL)
    panel.run_button.click()
    settle(panel)
    reasons = panel.session.tractogram.stop_reasons
    n_cut = int((reasons == StopReason.MAX_LENGTH).any(axis=1).sum())
    assert n_cut >= 2
    text = panel.results.label.text()
    assert f"{100 * n_cut / 20:.0f} %" in text
    assert "maximum length of 600 µm" in text
    said = f"The maximum length of 600 µm cut {n_cut} of them ({100 * n_cut / 20:.0f} %)."
    assert cut_short(panel.session.tractogram, 0.6, "um") == said
    assert "length of 200 mm cut" in cut_short(panel.session.tractogram, 200.0, "um")
    panel.set_parameters(max_length_mm=40.0)
    panel.run_button.click()
    settle(panel)
    assert cut_short(panel.session.tractogram, 40.0, "um") == ""
    assert "maximum length" not in panel.results.label.text()


def write_ome_zarr(path: Path, image: Any, *, unit: str = "micrometer") -> Path:
    """Voxels of 40 x 20 x 20 um (z, y, x), by two scales, and a coarser level."""
    root = zarr.open_group(path, mode="w")
    datasets = []
    for name, level, size in ("0", image, (4, 2, 2)), ("1", image[::2, ::2, ::2], (8, 4, 4)):
        root.create_array(name, data=np.ascontiguousarray(level), chunks=(16, 16, 16))
        scale = [{"type": "scale", "scale": size}]
        datasets.append({"path": name, "coordinateTransformations": scale})
    axes = [{"name": a, "type": "space", "unit": unit} for a in "zyx"]
    whole = [{"type": "scale", "scale": (10, 10, 10)}]
    images = [{"axes": axes, "datasets": datasets, "coordinateTransformations": whole}]
    root.attrs["ome"] = {"version": "0.5", "multiscales": images}
    return path


@pytest.mark.parametrize("part", ["", "0", "1"])
def test_an_ome_zarr_that_napari_opened_has_the_size_that_it_says(
    open_model: Any, tube: ImagePhantom, tmp_path: Path, notes: list[str], part: str
) -> None:
    panel = open_model()
    path = write_ome_zarr(tmp_path / "heart.ome.zarr", tube.image.T)
    (layer,) = panel.viewer.open(str(path / part), plugin="napari")
    assert panel.session.fod_layer is layer
    size = np.array([40.0, 20, 20]) * (2 if part == "1" else 1)
    np.testing.assert_allclose(layer.scale, size)
    assert str(layer.units[0]) == "micrometer"
    assert panel.data.image.scale_row.isHidden()
    x, _, z = size[::-1]
    wanted = f"info: {layer.name} has voxels of {x:g} x {x:g} x {z:g} µm, as its file says."
    assert [note for note in notes if "voxels of" in note] == [wanted]
    np.testing.assert_allclose(panel.session.fod.grid.voxel_sizes_mm, size[::-1] / 1000)


def test_a_zarr_of_an_unknown_unit_is_asked_for_three_numbers(
    open_model: Any, tube: ImagePhantom, tmp_path: Path, notes: list[str]
) -> None:
    panel = open_model()
    path = write_ome_zarr(tmp_path / "heart.ome.zarr", tube.image.T, unit="parsec")
    (layer,) = panel.viewer.open(str(path), plugin="napari")
    image = panel.data.image
    assert not image.scale_row.isHidden()
    for text in ("", "0", "1 2", "1, 2, three", "-1 1 1"):
        image.size.setText(text)
        image.set_size.click()
        assert notes[-1].startswith(f"error: {text!r} is no voxel size")
    assert (layer.scale == 1).all()
    image.size.setText("20 20 635.2")  # along x there is too little to see along z
    image.set_size.click()
    assert "rho" in notes[-1]
    assert (layer.scale == 1).all()
    assert not image.scale_row.isHidden()
    assert settings_of(layer).rho_vox == 3
    image.size.setText("20, 20, 235.2")
    image.set_size.click()
    np.testing.assert_allclose(layer.scale, (235.2, 20, 20))
    np.testing.assert_allclose(panel.session.fod.grid.voxel_sizes_mm, (0.02, 0.02, 0.2352))
    assert settings_of(layer).rho_vox == pytest.approx(5.2)
    assert image.scale_row.isHidden()


def test_where_nothing_says_left_and_right_positions_are_along_x_y_and_z(
    open_window: Any, tube: ImagePhantom, cross: Any, settle: Any
) -> None:
    panel = open_window()
    viewer = panel.viewer
    layer = viewer.add_layer(image_layer(tube))
    panel.set_parameters(n_per_seed=5)
    panel.session.add_seeds_mm(IN_WALL)
    panel.run_button.click()
    settle(panel)
    model = panel.seeds.table.model()

    def said() -> list[str]:
        viewer.mouse_over_canvas = True
        texts = []
        for active in (panel.session.fod_layer, panel.session.streamlines_layer):
            viewer.layers.selection.active = active
            viewer.update_status_from_cursor()
            texts.append(viewer.status["coords"])
        title = model.headerData(0, Qt.Orientation.Horizontal)
        panel.appearance.show_legend()
        legends = [name for colours in _legends(viewer) for name, _ in colours.categories]
        panel.scene.slices.sliders[0].show()
        shown = [*texts, title, panel.scene.slices.sliders[0].text.text()]
        return [*shown, panel.appearance.legend.text(), " ".join(legends)]

    *texts, title, slider, legend, in_figure = said()
    for text in texts:
        assert re.fullmatch(r"x \S+, y \S+, z \S+ µm", text)
    assert title == "x, y, z (µm)"
    assert "axes of the image" in model.headerData(0, Qt.Orientation.Horizontal, 3)
    assert slider.startswith("z ")
    assert tuple(viewer.dims.axis_labels) == ("z", "y", "x")
    assert "along x" in legend
    assert in_figure == "along x along y along z"
    viewer.layers.remove(layer)
    viewer.add_layer(fod_layer(cross))
    panel.data.fod_choice.value = viewer.layers[-1]
    *texts, title, slider, legend, in_figure = said()
    assert all(text.startswith("R ") for text in texts)
    assert title.startswith("R, A, S")
    assert slider.startswith("S ")
    assert tuple(viewer.dims.axis_labels) == ("S", "A", "R")
    assert "left-right" in legend
    assert in_figure.startswith("left-right")


@pytest.mark.parametrize("ending", [".trk", ".tck", ".trx", ".vtk"])
def test_streamlines_of_an_image_say_x_y_z_when_they_are_opened_again(
    open_model: Any, tube: ImagePhantom, settle: Any, tmp_path: Path, ending: str
) -> None:
    panel = open_model()
    panel.viewer.add_layer(image_layer(tube))
    panel.set_parameters(n_per_seed=5)
    panel.session.add_seeds_mm(IN_WALL)
    panel.run_button.click()
    settle(panel)
    path = tmp_path / f"of tube{ending}"
    panel.save(path)
    other = open_model()
    for layer in read_tractogram(str(path))(str(path)):
        other.viewer.add_layer(layer)
    assert len(other.viewer.layers) == 1
    assert axes_of(other.viewer.layers) == ("x", "y", "z")
    assert other.viewer.layers[0].axis_labels == ("z", "y", "x")
    assert edge_labels(other.viewer)["right"] == "x"
    again = tmp_path / "again.tck"  # without the image, as it is
    other.save(again)
    assert not load_tractogram(again).grid.is_anatomical
