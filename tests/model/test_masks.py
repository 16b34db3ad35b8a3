"""Masks in another voxel order, or a little off, are those of the FOD's grid all the same."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import InvalidMaskError
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.masks import mask_on

AFFINE = np.array([[-2.0, 0.1, 0, 9], [0, 2.2, 0, -5], [0.1, 0, 3, 1], [0, 0, 0, 1]])
GRID = Grid((4, 5, 3), AFFINE)
MASK = np.random.default_rng(0).random(GRID.shape) > 0.6


def test_a_mask_on_the_same_grid_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert mask_on(MASK, Grid(GRID.shape, AFFINE), GRID, "m") is MASK
    assert not caplog.messages


def test_other_orders_and_small_shifts_give_the_same_voxels(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("napari_tractography.model.masks.SLAB_VOXELS", 30)
    to_flipped = np.eye(4)
    to_flipped[0, 0], to_flipped[0, 3] = -1, 3  # x backwards, then axes in another order
    swap = np.eye(4)[[1, 0, 2, 3]]
    other = Grid((5, 4, 3), AFFINE @ to_flipped @ swap)
    turned = MASK[::-1].transpose(1, 0, 2)
    np.testing.assert_array_equal(mask_on(turned, other, GRID, "turned.nii"), MASK)
    off = AFFINE.copy()
    off[:3, 3] += 0.01
    np.testing.assert_array_equal(mask_on(MASK, Grid(GRID.shape, off), GRID, "off.nii"), MASK)
    assert [text.split()[2] for text in caplog.messages] == ["turned.nii", "off.nii"]


def test_voxels_of_another_size_are_looked_up(caplog: pytest.LogCaptureFixture) -> None:
    half = AFFINE @ np.diag([0.5, 0.5, 0.5, 1])
    half[:3, 3] = (AFFINE @ [-0.25, -0.25, -0.25, 1])[:3]
    fine = MASK.repeat(2, 0).repeat(2, 1).repeat(2, 2)
    np.testing.assert_array_equal(mask_on(fine, Grid(fine.shape, half), GRID, "fine"), MASK)


def test_a_mask_elsewhere_is_refused() -> None:
    away = AFFINE.copy()
    away[0, 3] += 500
    with pytest.raises(InvalidMaskError, match=r"m, Grid.* has no voxel in common with Grid"):
        mask_on(MASK, Grid(GRID.shape, away), GRID, "m")
