"""Lanes: points copied and put in order, against NumPy."""

from __future__ import annotations

import numpy as np
from numba import njit

from napari_tractography.tracking.cpu import lanes


def test_points_are_copied():
    source = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
    target = np.zeros((9, 3), np.float32)
    njit(lambda s, t: lanes.copy_points(s, 6, t, 2, 4))(source, target)
    np.testing.assert_array_equal(target[2:6], source.reshape(-1, 3)[6:10])
    assert not target[[0, 1, 6, 7, 8]].any()


def test_streamlines_are_put_in_the_order_of_their_seeds():
    points = np.arange(36, dtype=np.float32).reshape(12, 3)
    firsts, counts = np.array([7, 0, 2]), np.array([3, 0, 4])
    ordered = np.zeros((7, 3), np.float32)
    lanes.in_order(points, firsts, counts, ordered)
    np.testing.assert_array_equal(ordered, points[[7, 8, 9, 2, 3, 4, 5]])
