"""Volumes as layers, and masks on the voxels of an FOD."""

from __future__ import annotations

from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hands import LEFT_HANDED, OBLIQUE
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer
from nibabel.processing import resample_from_to

from napari_tractography.errors import InvalidMaskError
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.fod import Fod
from napari_tractography.model.masks import RESAMPLED
from napari_tractography.plugin.layers import volume_layers
from napari_tractography.plugin.layers.volume_layers import (
    fod_layer_data,
    fod_layers,
    fod_mask_of,
    fod_of,
    mask_layer_data,
    mask_layers,
    mask_of,
)
from napari_tractography.plugin.space.display import DisplaySpace

SHAPE = (5, 6, 4)
ALIGNED = np.diag([2.0, 2, 2, 1])
# Which holds much of what an FOD of that shape with the affine OBLIQUE does.
UNTILTED = np.diag([1.7, 1.7, 1.7, 1])
UNTILTED[:3, 3] = Grid(SHAPE, OBLIQUE).centre_mm - 4 * 1.7 + 0.13  # no centre on a border
ONE_BEFORE = np.eye(4)
ONE_BEFORE[:3, 3] = -1
LAS = np.array([[-2.0, 0, 0, 8], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]])
affines = pytest.mark.parametrize(
    "affine",
    [
        pytest.param(ALIGNED, id="aligned"),
        pytest.param(LAS, id="LAS"),
        pytest.param(OBLIQUE, id="oblique"),
        pytest.param(LEFT_HANDED, id="left-handed"),
        pytest.param(ALIGNED[[1, 2, 0, 3]], id="permuted"),
    ],
)


def one_voxel_mask() -> np.ndarray:
    mask = np.zeros(SHAPE, bool)
    mask[1, 4, 3] = True
    return mask


def test_an_fod_layer_shows_the_mean_and_keeps_the_fod() -> None:
    coefficients = np.zeros((*SHAPE, 6), np.float32)
    coefficients[1, 4, 3, 0] = 0.7
    fod = Fod(coefficients, Grid(SHAPE, LAS), name="mine")
    layer = Layer.create(*fod_layer_data(fod))
    assert fod_of(layer) is fod
    assert layer.name == "mine"
    (place,) = np.argwhere(np.asarray(layer.data))
    np.testing.assert_allclose(layer.data_to_world(place)[::-1], (LAS @ [1, 4, 3, 1])[:3])


@affines
def test_a_mask_from_a_file_comes_back_on_its_own_voxels(affine: np.ndarray) -> None:
    grid = Grid(SHAPE, affine)
    layer = Layer.create(*mask_layer_data(one_voxel_mask(), grid, "mask"))
    np.testing.assert_array_equal(mask_of(layer, DisplaySpace.of(grid)), one_voxel_mask())


@affines
@pytest.mark.parametrize(("of_mask", "of_fod"), [("mm", "um"), ("um", "mm"), ("um", "nm")])
def test_a_mask_in_another_unit_lies_where_the_fod_does(
    affine: np.ndarray, of_mask: str, of_fod: str
) -> None:
    layer = Layer.create(*mask_layer_data(one_voxel_mask(), Grid(SHAPE, affine, unit=of_mask), "m"))
    space = DisplaySpace.of(Grid(SHAPE, affine, unit=of_fod))
    np.testing.assert_array_equal(mask_of(layer, space), one_voxel_mask())
    layer.translate = np.array(layer.translate) + np.array(layer.scale)
    with pytest.raises(InvalidMaskError, match="elsewhere"):
        mask_of(layer, space)


@affines
def test_a_mask_may_be_stored_in_another_order_than_the_fod(affine: np.ndarray) -> None:
    """Its first axis runs the other way; the voxels are the same."""
    grid = Grid(SHAPE, affine)
    flip = np.diag([-1.0, 1, 1, 1])
    flip[0, 3] = SHAPE[0] - 1
    stored = one_voxel_mask()[::-1]
    layer = Layer.create(*mask_layer_data(stored, Grid(SHAPE, affine @ flip), "mask"))
    np.testing.assert_array_equal(mask_of(layer, DisplaySpace.of(grid)), one_voxel_mask())


@affines
def test_a_mask_painted_in_napari_covers_the_voxels_under_the_brush(affine: np.ndarray) -> None:
    """napari makes the layer, with no affine; left must not become right."""
    grid = Grid(SHAPE, affine)
    space = DisplaySpace.of(grid)
    viewer = ViewerModel()
    viewer.add_image(space.volume(np.zeros(SHAPE)), **space.layer_kwargs)
    viewer._new_labels()
    labels = viewer.layers[-1]
    assert isinstance(labels, Labels)
    place = space.to_display(affine[:3, :3] @ [1, 4, 3] + affine[:3, 3])[0]
    labels.data_setitem(tuple(np.round(labels.world_to_data(place)).astype(int)[:, None]), 1)
    np.testing.assert_array_equal(mask_of(labels, space), one_voxel_mask())


def test_nan_and_zero_are_outside_and_all_else_inside() -> None:
    values = np.zeros(SHAPE)
    values[0, 0, 0], values[1, 0, 0], values[2, 0, 0] = np.nan, -1, 0.1
    space = DisplaySpace.of(Grid(SHAPE, ALIGNED))
    layer = Image(space.volume(values), **space.layer_kwargs)
    np.testing.assert_array_equal(np.argwhere(mask_of(layer, space)), [[1, 0, 0], [2, 0, 0]])


@pytest.mark.parametrize(
    ("shape", "affine", "says"),
    [
        pytest.param((5, 6, 3), OBLIQUE, r"shape \(5, 6, 3\).*\(5, 6, 4\).*mrgrid", id="shape"),
        pytest.param(SHAPE, OBLIQUE + np.eye(4, k=3) * 2, r"elsewhere.*mm.*mrgrid", id="shifted"),
        pytest.param(SHAPE, OBLIQUE[:, [0, 1, 2, 3]] * [1, 1, 1.5, 1], r"elsewhere", id="scaled"),
        pytest.param(SHAPE, None, r"elsewhere", id="turned"),
    ],
)
def test_a_mask_on_other_voxels_does_not_lie_voxel_by_voxel(
    shape: tuple[int, int, int], affine: Any, says: str
) -> None:
    grid = Grid(SHAPE, OBLIQUE)
    if affine is None:  # about the middle, so that it looks the same on the screen
        turn = np.eye(4)
        turn[:2, :2] = [[np.cos(0.2), -np.sin(0.2)], [np.sin(0.2), np.cos(0.2)]]
        middle = np.eye(4)
        middle[:3, 3] = grid.centre_mm
        affine = middle @ turn @ np.linalg.inv(middle) @ OBLIQUE
    layer = Layer.create(*mask_layer_data(np.ones(shape), Grid(shape, affine), "mine"))
    with pytest.raises(InvalidMaskError, match=f"mine.*{says}"):
        mask_of(layer, DisplaySpace.of(grid))


@pytest.mark.parametrize(
    ("shape", "affine"),
    [
        pytest.param((5, 6, 3), OBLIQUE, id="shape"),
        pytest.param(SHAPE, OBLIQUE + np.eye(4, k=3) * 2, id="shifted"),
        pytest.param((11, 13, 9), OBLIQUE @ np.diag([0.45, 0.45, 0.45, 1]), id="finer"),
        pytest.param((9, 9, 9), UNTILTED, id="untilted"),
    ],
)
@pytest.mark.parametrize("unit", ["mm", "um"])
def test_a_mask_from_a_file_on_another_grid_is_resampled_as_by_the_command(
    shape: tuple[int, int, int], affine: np.ndarray, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a word, once. SciPy's images end at the last voxel centres: zeros around move them."""
    told: list[str] = []
    monkeypatch.setattr(volume_layers, "show_warning", told.append)
    values = np.random.default_rng(3).integers(0, 2, shape).astype(bool)
    layer = Layer.create(*mask_layer_data(values, Grid(shape, affine, unit=unit), "mine"))
    for origin in (0.0, 0.25):  # of the FOD: another one is asked for
        fod = Grid(SHAPE, OBLIQUE + np.eye(4, k=3) * origin)
        around = nib.Nifti1Image(np.pad(values.astype(np.uint8), 1), affine @ ONE_BEFORE)
        wanted = resample_from_to(around, (SHAPE, fod.affine), order=0).get_fdata()
        for _ in range(2):
            found = fod_mask_of(layer, DisplaySpace.of(fod))
            np.testing.assert_array_equal(found, wanted)
    layer.data = np.zeros_like(layer.data)
    with pytest.raises(InvalidMaskError, match="no voxel in common"):
        fod_mask_of(layer, DisplaySpace.of(fod))
    assert told == [RESAMPLED.format("mine")]


def test_a_mask_that_was_moved_or_painted_elsewhere_is_refused_still() -> None:
    """It is not shown where its file has it, or there is no file that says so."""
    grid, fine = Grid(SHAPE, OBLIQUE), Grid((11, 13, 9), OBLIQUE @ np.diag([0.45, 0.45, 0.45, 1]))
    moved = Layer.create(*mask_layer_data(np.ones(fine.shape), fine, "moved"))
    moved.translate = np.array(moved.translate) + 1
    painted = Labels(np.ones((4, 6, 5), int), name="painted")
    for layer in (moved, painted):
        with pytest.raises(InvalidMaskError, match=f"The mask {layer.name}.*mrgrid"):
            fod_mask_of(layer, DisplaySpace.of(grid))


def test_layers_are_offered_for_what_they_can_be() -> None:
    fod = Layer.create(*fod_layer_data(Fod(np.ones((*SHAPE, 6)), Grid(SHAPE, ALIGNED))))
    labels, image = Labels(np.zeros(SHAPE, int)), Image(np.zeros(SHAPE))
    others = [
        Labels(np.zeros((4, 4), int)),
        Image(np.zeros((2, 3, 4, 5))),
        Image(np.zeros((3, 4, 5, 3)), rgb=True),
        Image([np.zeros((8, 8, 8)), np.zeros((4, 4, 4))], multiscale=True),
    ]
    others[:0] = [Image(np.zeros((4, 4)), metadata=fod.metadata)]  # as napari splits a stack
    assert fod_layers([fod, labels, image, *others]) == [fod]
    labels.metadata.update(fod.metadata)  # as napari converts it
    assert mask_layers([fod, labels, image, *others]) == [labels, image]
