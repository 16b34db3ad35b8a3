"""Which voxels lie near which, and their sums."""

from __future__ import annotations

import numpy as np

from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.neighbours import checkerboard_halves, half_offsets, voxel_blocks
from napari_tractography.model.fod import Fod


def test_half_offsets_are_the_ball_without_opposites() -> None:
    steps = half_offsets(Grid((20, 20, 20), np.eye(4)), 3.0)
    both = {tuple(s) for s in steps.tolist()} | {tuple(-x for x in s) for s in steps.tolist()}
    lattice = np.array(np.meshgrid(*[np.arange(-3, 4)] * 3)).reshape(3, -1).T
    ball = lattice[(np.square(lattice).sum(axis=1) <= 9) & lattice.any(axis=1)]
    assert both == {tuple(s) for s in ball.tolist()}
    assert len(both) == 2 * len(steps)


def test_half_offsets_reach_all_26_neighbours_of_flat_voxels() -> None:
    steps = half_offsets(Grid((20, 20, 20), np.diag([1.0, 1.0, 9.0, 1.0])), 2.0)
    assert (np.abs(steps).max(axis=1) == 1).sum() == 13
    assert np.abs(steps[:, 2]).max() == 1
    assert np.abs(steps[:, 0]).max() == 4  # 2 x the cube root of 9 mm^3


def test_blocks_divide_the_voxels_with_an_fod() -> None:
    coefficients = np.zeros((40, 8, 8, 1))
    coefficients[10:26] = 1.0
    blocks = voxel_blocks(Fod(coefficients, np.eye(4)))
    assert len(np.unique(blocks)) == 8 * 8 * 8
    assert (np.bincount(blocks) == 2).all()


def test_checkerboard_halves_share_no_voxel() -> None:
    # The one voxel that differs from the rest is in exactly one half of each voxel around it.
    coefficients = np.ones((5, 5, 5, 1))
    coefficients[2, 2, 2] = 101.0
    fod = Fod(coefficients, np.eye(4))
    halves = np.array([fod.dense(half[:, 0]) for half in checkerboard_halves(fod, np.arange(125))])
    assert halves[:, 2, 2, 2].tolist() == [113.0, 14.0]  # itself and 12; 14 others
    assert halves[:, 1, 2, 2].tolist() == [13.0, 114.0]  # across a face
    assert halves[:, 1, 1, 2].tolist() == [113.0 - 4.0 + 4.0, 14.0]  # across an edge
    assert halves[:, 1, 1, 1].tolist() == [13.0, 114.0]  # across a corner
    assert halves[:, 0, 0, 0].tolist() == [4.0, 4.0]  # the image ends there
