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


def test_coefficients_of_lanes_are_put_side_by_side_alone_or_in_blocks():
    rows = np.arange(lanes.N_LANES * 16, dtype=np.float32).reshape(lanes.N_LANES, 16)
    some = [1, lanes.N_LANES - 1]
    bits = np.uint32(sum(1 << lane for lane in some))
    alone, in_blocks = (np.full((16, lanes.N_LANES), -1, np.float32) for _ in range(2))
    njit(lambda r, c, b: lanes.few_side_by_side(r, c, b))(rows, alone, bits)
    njit(lambda r, c, b: lanes.side_by_side(r, c, b))(rows, in_blocks, bits)
    np.testing.assert_array_equal(alone[:, some], rows[some].T)
    np.testing.assert_array_equal(in_blocks[:, some], rows[some].T)
    assert (np.delete(alone, some, axis=1) == -1).all()
