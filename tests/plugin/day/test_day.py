"""What a day in the window met: each thing by itself, on a panel without a window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import OBLIQUE
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QComboBox

from napari_tractography.files.image_files import ZARR_MARKS
from napari_tractography.maps.plots import figure
from napari_tractography.model.image_phantoms import make_image_phantom
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.plugin.layers.volume_layers import mask_layers, mask_of
from napari_tractography.plugin.notices import reason_first
from napari_tractography.plugin.panel import bundle_list
from napari_tractography.plugin.panel.display.clip_controls import SliceControl
from napari_tractography.plugin.panel.measure.outputs import PlotView
from napari_tractography.plugin.panel.widgets.controls import layer_choice
from napari_tractography.plugin.session.seed_mouse import SeedMouse
from napari_tractography.plugin.space.display import DisplaySpace

INSIDE, OUTSIDE = np.zeros(3), np.array([0.0, 20.0, 30.0])  # display (z, y, x), of the cross


def shown(label: Any) -> str:
    """What a label of a panel that is not on a screen says, if it is seen."""
    return "" if label.isHidden() else label.text()


def test_a_mask_says_how_many_voxels_it_has_and_a_map_that_it_is_none(
    open_model: Any, cross: Any, tmp_path: Path
) -> None:
    panel = open_model(cross)
    assert shown(panel.data.mask_summary) == ""
    fa = np.linspace(0, 1, cross.support.size, dtype=np.float32).reshape(cross.grid.shape)
    nib.save(nib.Nifti1Image(fa, cross.grid.affine), tmp_path / "fa.nii")
    nib.save(nib.Nifti1Image(2 * (fa > 0.5).astype("u1"), cross.grid.affine), tmp_path / "wm.nii")
    panel.data.add_mask(tmp_path / "fa.nii")
    told = shown(panel.data.mask_summary)
    assert told.startswith("fa.nii has many values")
    assert f"{fa.size - 1:,} voxels, 100 % of the volume" in told
    panel.data.add_mask(tmp_path / "wm.nii")
    assert shown(panel.data.mask_summary) == f"Mask of {fa.size // 2:,} voxels, 50 % of the volume."
    panel.data.mask_choice.value.data[0] = 0  # as by the brush
    panel.data.mask_choice.value.refresh()
    panel.data.mask_choice.value.events.paint(value=[])
    assert "50 %" not in shown(panel.data.mask_summary)
    layer = panel.session.fod_layer
    same = {name: getattr(layer, name) for name in ("scale", "translate", "units", "metadata")}
    same["metadata"] = {"affine": cross.grid.affine}
    image = Image(np.ascontiguousarray(panel.session.space.volume(fa)), name="FA", **same)
    panel.viewer.add_layer(image)
    panel.data.mask_choice.value = image
    assert shown(panel.data.mask_summary).startswith("FA has many values")
    panel.session.document.undo()
    assert shown(panel.data.mask_summary).startswith("Mask of")


def test_a_seed_outside_the_brain_is_named(open_model: Any, cross: Any) -> None:
    panel, missed = open_model(cross), list[str]()
    mouse = SeedMouse(panel.session, missed.append)
    mouse.add_seed(INSIDE)
    assert not missed
    mouse.add_seed(OUTSIDE)
    assert missed == ["Seed 2 lies outside, where there is no FOD."]
    assert missed[0] in panel.seeds.hint.text()
    panel.session.move_seed(1, INSIDE)
    assert "outside" not in panel.seeds.hint.text()


def test_a_slice_of_an_oblique_volume_is_named_by_its_number(open_model: Any) -> None:
    """Its positions differ from those of the seeds in it."""
    for affine, named in ((None, "S "), (OBLIQUE, "4 of ")):
        panel = open_model(make_phantom("cross", affine=affine, lmax=2))
        control = SliceControl(panel.session, "slice", "Slice", "", lambda: 0)
        first, step = panel.viewer.dims.range[0].start, panel.viewer.dims.range[0].step
        panel.viewer.dims.set_point(0, first + 4 * step)
        control.show()
        assert control.text.text().startswith(named)
        slider = panel.scene.slices.sliders[0]
        slider.show()
        assert slider.text.text() == control.text.text()


def test_an_error_is_told_with_its_reason_first_and_whole_in_the_panel(
    open_model: Any, cross: Any, tmp_path: Path, notes: list[str]
) -> None:
    panel, folder = open_model(cross), tmp_path / "a folder: of, masks"
    folder.mkdir()
    path = folder / "white matter.nii"
    path.write_bytes(b"no image")
    panel.data.add_mask(path)
    (note,) = notes
    assert note.startswith("error: white matter.nii")
    assert note.endswith(f"(in {folder}).")
    assert shown(panel.results.notice) == note.removeprefix("error: ")
    panel.results.refresh_notice()
    assert shown(panel.results.notice)
    panel.session.add_seeds_mm(np.zeros((1, 3)))  # something else is done
    panel.results.refresh_notice()
    assert not shown(panel.results.notice)
    assert reason_first("No path: a/b.") == "No path: a/b."
    assert reason_first(f"{folder}/none.nii does not exist.").startswith(
        "none.nii does not exist ("
    )


def test_a_file_that_was_refused_is_no_more_spoken_of_once_another_is_opened(
    open_model: Any, cross: Any, tmp_path: Path, notes: list[str]
) -> None:
    """The first FOD is chosen by itself, which is no step."""
    panel = open_model()
    path = tmp_path / "white matter.nii"
    path.write_bytes(b"no image")
    panel.data.add_fod(path)
    assert shown(panel.results.notice)
    assert len(notes) == 1
    image = nib.Nifti1Image(cross.coefficients, cross.grid.affine)
    nib.save(image, tmp_path / "fod.nii")
    panel.data.add_fod(tmp_path / "fod.nii")
    panel.results.refresh_notice()
    assert panel.session.fod_layer is not None
    assert not shown(panel.results.notice)


def test_none_stands_first_also_where_layers_are_there_before_the_panel() -> None:
    viewer = ViewerModel()
    viewer.add_labels(np.ones((4, 4, 4), np.uint8), name="labels")
    choice = layer_choice("mask", "Mask", lambda: mask_layers(viewer.layers), "Where.")
    texts = [choice.native.itemText(number) for number in range(choice.native.count())]
    assert texts == ["none", "labels"]
    assert choice.value is None
    viewer.add_labels(np.ones((4, 4, 4), np.uint8), name="others")
    choice.reset_choices()
    assert choice.native.itemText(0) == "none"


def test_a_name_that_has_no_room_is_told_whole() -> None:
    viewer = ViewerModel()
    choice = layer_choice("mask", "Mask", lambda: mask_layers(viewer.layers), "Where <it> is.")
    choice.reset_choices()
    assert choice.native.toolTip() == "<qt>Where &lt;it&gt; is.</qt>"
    name = f"sub-01_{30 * 'long-'}label-A&B_mask.nii.gz"
    layer = viewer.add_labels(np.ones((4, 4, 4), int), name=name)
    choice.reset_choices()
    choice.value = layer
    assert choice.native.toolTip().startswith(f"<qt><b>{name.replace('&', '&amp;')}</b><br>Where")
    choice.value = None
    assert choice.native.toolTip() == "<qt>Where &lt;it&gt; is.</qt>"


@pytest.mark.parametrize("name", ["mask.tif", "mask.zarr"])
def test_a_mask_without_a_voxel_size_lies_on_the_image_that_has_one(
    open_model: Any, tmp_path: Path, notes: list[str], name: str
) -> None:
    panel = open_model()
    tube = make_image_phantom("tube")
    image = np.ascontiguousarray(DisplaySpace.of(tube.grid).volume(tube.image))
    layer = panel.viewer.add_image(image, name="heart", scale=(12.5,) * 3, units=("um",) * 3)
    panel.data.fod_choice.value = layer
    inside = (image > np.median(image)).astype(np.uint8)
    if name.endswith("tif"):
        pytest.importorskip("tifffile").imwrite(tmp_path / name, inside)
        opened = tmp_path / name
    else:
        pytest.importorskip("zarr").save(str(tmp_path / name), inside)
        opened = next(mark for mark in (tmp_path / name).iterdir() if mark.name in ZARR_MARKS)
    panel.data.add_mask(opened)
    mask = panel.data.mask_choice.value
    assert mask.name == name
    np.testing.assert_array_equal(mask.scale, layer.scale)
    assert mask.units == layer.units
    assert notes == [f"info: {name} says no voxel size: it lies on what is tracked in, now."]
    assert mask_of(mask, panel.session.space).sum() == inside.sum()
    bare = panel.viewer.add_labels(inside, name="by napari")  # as File > Open does
    panel.data.mask_choice.value = bare
    np.testing.assert_array_equal(bare.scale, layer.scale)
    panel.viewer.add_labels(inside[1:], name="other")
    panel.data.mask_choice.value = panel.viewer.layers["other"]
    assert len(notes) == 2


def test_one_bundle_is_shown_alone_and_then_all(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    for name in ("two", "three"):
        panel.bundles.add(name)
    one, two, three = panel.bundles.bundles

    def seen() -> list[bool]:
        return [bundle.state.is_visible for bundle in (one, two, three)]

    table = panel.bundle_list.table
    table.resize(300, 200)
    eye = table.visualItemRect(table.item(1, bundle_list.EYE)).center()
    left, control = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier
    QTest.mouseClick(table.viewport(), left, control, eye)
    assert seen() == [False, True, False]
    QTest.mouseClick(table.viewport(), left, control, eye)
    assert seen() == [True] * 3
    panel.bundles.set_visible(two, False)
    panel.menu_kept = panel.bundle_list.menu()  # of the third, which is active
    next(e for e in panel.menu_kept.actions() if e.text().startswith("Show only")).trigger()
    assert seen() == [False, False, True]


def test_the_wheel_over_a_plot_is_left_to_the_panel(qtbot: Any) -> None:
    view = PlotView()
    qtbot.addWidget(view)
    view.show_plot(figure())
    nowhere = QPoint()
    wheel = QWheelEvent(
        QPointF(5, 5), QPointF(5, 5), nowhere, QPoint(0, -120), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view.layout().itemAt(0).widget(), wheel)
    assert not wheel.isAccepted()


def test_all_entries_of_a_choice_are_seen(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    choices = panel.findChildren(QComboBox)
    assert len(choices) > 15
    assert max(choice.count() for choice in choices) > 10  # the ways to colour
    assert all(choice.count() <= choice.maxVisibleItems() for choice in choices)
