"""Vectors of a number for each lane, against NumPy."""

from __future__ import annotations

import numpy as np
from numba import njit

from napari_tractography.tracking.cpu import llvm, vectors
from napari_tractography.tracking.cpu.vectors import N_LANES


def test_words_are_scaled_to_whole_parts_and_the_rest():
    words = np.random.default_rng(7).integers(0, 2**32, N_LANES, dtype=np.uint32)
    words[:2] = 0, 2**32 - 1
    whole, rest = np.zeros((2, N_LANES), np.uint32)

    @njit
    def scale(words, factor, whole, rest):
        a, b = vectors.scaled(vectors.load(words), factor)
        llvm.store(whole, a)
        llvm.store(rest, b)

    scale(words, 23, whole, rest)
    product = words.astype(np.uint64) * np.uint64(23)
    np.testing.assert_array_equal(whole, product >> np.uint64(32))
    np.testing.assert_array_equal(rest, product & np.uint64(2**32 - 1))


def test_every_lane_writes_a_point_at_its_cursor():
    rng = np.random.default_rng(8)
    points = np.zeros((N_LANES, 9, 3), np.float32)
    cursor = rng.integers(0, 9, N_LANES).astype(np.int32)
    x, y, z = rng.normal(size=(3, N_LANES)).astype(np.float32)
    njit(lambda p, c, x, y, z: vectors.put_points(p, c, x, y, z))(points, cursor, x, y, z)
    lanes = np.arange(N_LANES)
    np.testing.assert_array_equal(points[lanes, cursor], np.stack([x, y, z], axis=1))
    points[lanes, cursor] = 0
    assert not points.any()


def test_points_are_copied():
    source = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
    target = np.zeros((9, 3), np.float32)
    njit(lambda s, t: vectors.copy_points(s, 6, t, 2, 4))(source, target)
    np.testing.assert_array_equal(target[2:6], source.reshape(-1, 3)[6:10])
    assert not target[[0, 1, 6, 7, 8]].any()


def test_streamlines_are_put_in_the_order_of_their_seeds():
    points = np.arange(36, dtype=np.float32).reshape(12, 3)
    firsts, counts = np.array([7, 0, 2]), np.array([3, 0, 4])
    ordered = np.zeros((7, 3), np.float32)
    vectors.in_order(points, firsts, counts, ordered)
    np.testing.assert_array_equal(ordered, points[[7, 8, 9, 2, 3, 4, 5]])
