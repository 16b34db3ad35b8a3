"""Masks and regions under a transform of their layer's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from napari.layers import Labels

from napari_tractography.geometry.grid import Grid
from napari_tractography.plugin.layers.volume_layers import mask_layer_data, voxels_of
from napari_tractography.plugin.space.display import DisplaySpace

TURN = np.array([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]])
STRAIGHT = np.array([[-2, 0, 0, 10], [0, 0, 3, -7], [0, 2.5, 0, 4], [0, 0, 0, 1.0]])
OBLIQUE = np.eye(4)
OBLIQUE[:3] = np.hstack([2 * TURN, [[5], [6], [7]]])
MOVE = np.array([[0, -1, 0, 3], [1, 0, 0, -4], [0, 0, 1, 5], [0, 0, 0, 1.0]])  # RAS+ mm


def reversed_axes(matrix: np.ndarray) -> np.ndarray:
    """The same transform for axes z, y, x."""
    turned = matrix.copy()
    turned[:3, :3], turned[:3, 3] = matrix[:3, :3][::-1, ::-1], matrix[:3, 3][::-1]
    return turned


def layer_on(affine: np.ndarray, unit: str = "mm") -> Labels:
    values = np.zeros((6, 5, 4))
    values[1, 2, 3] = 1
    data, kwargs, _ = mask_layer_data(values, Grid(values.shape, affine, unit=unit), "mask")
    return Labels(data, **kwargs)


@pytest.mark.parametrize("unit", ["mm", "um"])
def test_a_transform_of_the_layer_moves_what_its_file_says(unit: str) -> None:
    """RAS+ mm where axes are those of the scanner; lengths of a layer are in its unit."""
    layer = layer_on(STRAIGHT, unit)
    space = DisplaySpace.of(Grid((6, 5, 4), STRAIGHT, unit=unit))
    before = voxels_of(layer, space)
    assert before[1] == Grid((6, 5, 4), STRAIGHT)
    move = MOVE.copy()
    move[:3, 3] *= 1000.0 if unit == "um" else 1.0
    layer.affine = reversed_axes(move)
    voxels, grid = voxels_of(layer, space)
    assert np.array_equal(voxels, before[0])
    assert np.allclose(grid.affine, MOVE @ STRAIGHT, atol=1e-5)
    layer.affine = np.eye(4)
    assert voxels_of(layer, space)[1] == before[1]


def test_of_an_oblique_volume_it_is_what_is_seen_beside_the_fod() -> None:
    """Both are shown on their own voxels, without their tilt."""
    layer, space = layer_on(OBLIQUE), DisplaySpace.of(Grid((6, 5, 4), OBLIQUE))
    layer.affine = reversed_axes(MOVE)
    _, grid = voxels_of(layer, space)
    shown = layer.data_to_world([0, 2, 1])[::-1]  # z, y, x of the display
    voxel = voxels_of(layer_on(OBLIQUE), space)[1].to_voxel(OBLIQUE[:3, 3])
    assert np.allclose(voxel, 0)
    own = space.from_volume(np.arange(120).reshape(4, 5, 6))
    at = np.argwhere(own == np.arange(120).reshape(4, 5, 6)[0, 2, 1])[0]
    position = space.world_to_display @ [*grid.to_mm(at), 1.0]
    assert np.allclose(position[:3], shown, atol=1e-4)


def test_a_region_goes_with_its_layer(open_model: Any, cross: Any) -> None:
    panel = open_model(cross)
    regions = panel.session.regions
    mask = np.zeros(cross.grid.shape)
    mask[3:5, 3:5, 3:5] = 1
    data, kwargs, _ = mask_layer_data(mask, cross.grid, "mask")
    layer = panel.viewer.add_layer(Labels(data, **kwargs))
    regions.add_labels(layer, "include")
    ((_, before),) = regions.frozen()
    layer.affine = reversed_axes(MOVE)
    ((_, after),) = regions.frozen()
    assert before.grid is not None
    assert after.grid is not None
    assert np.allclose(after.grid.affine, MOVE @ before.grid.affine)
    inside = before.grid.to_mm(np.argwhere(before.voxels))
    moved = inside @ MOVE[:3, :3].T + MOVE[:3, 3]
    assert after.contains(moved).all()
