"""Random numbers of the kernel, and the directions that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from chi_square import ConeBins
from numba import njit

from napari_tractography.model.philox import philox4x32
from napari_tractography.tracking.cpu import draw, lanes, llvm, memory
from napari_tractography.tracking.cpu.lanes import N_LANES
from napari_tractography.tracking.cpu.sphere import tangents

philox_block = njit(draw.philox_block.py_func)


def philox_in_kernel(counter, key):
    words = philox_block(*(np.uint64(word) for word in (*counter, *key)))
    return [int(word) for word in words]


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        pytest.param(
            (0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8), id="zeros"
        ),
        pytest.param(
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
            id="ones",
        ),
        pytest.param(
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
            id="pi",
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, answer):
    assert tuple(philox_in_kernel(counter, key)) == answer


def test_philox_equals_its_specification():
    rng = np.random.default_rng(0)
    for _ in range(50):
        counter = rng.integers(0, 2**32, 4)
        key = rng.integers(0, 2**32, 2)
        wanted = philox4x32(counter, int(key[0]) | int(key[1]) << 32)
        assert philox_in_kernel(counter, key) == wanted.tolist()


@njit
def draw_for_lanes(counters, key_0, key_1, out):
    w0, w1, w2, w3 = draw.philox_block(
        llvm.widened(lanes.load(counters[0])),
        llvm.widened(lanes.load(counters[1])),
        llvm.widened(lanes.load(counters[2])),
        llvm.widened(lanes.load(counters[3])),
        key_0,
        key_1,
    )
    memory.store(out[0], llvm.narrowed(w0))
    memory.store(out[1], llvm.narrowed(w1))
    memory.store(out[2], llvm.narrowed(w2))
    memory.store(out[3], llvm.narrowed(w3))


@pytest.mark.parametrize("key", [0, 0xFFFFFFFF_FFFFFFFF, 0x299F31D0_A4093822])
def test_random_numbers_of_lanes_are_those_of_their_counters(key):
    rng = np.random.default_rng(key & 0xFF)
    counters = rng.integers(0, 2**32, (4, N_LANES), dtype=np.uint32)
    counters[:, 0], counters[:, 1] = 0, 2**32 - 1
    out = np.zeros((4, N_LANES), np.uint32)
    draw_for_lanes(counters, np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32), out)
    np.testing.assert_array_equal(out, philox4x32(counters.T, key).T)


@njit
def points_for_lanes(words, height, out):
    x, y, z = draw.point_of(
        lanes.load(words[0]), lanes.load(words[1]), lanes.filled(np.float32(height))
    )
    memory.store(out[0], x)
    memory.store(out[1], y)
    memory.store(out[2], z)


def points_of(words, angle_deg):
    """(n, 3) directions of the cone around z that (2, n) random words stand for."""
    found = []
    for first in range(0, words.shape[1], N_LANES):
        out = np.zeros((3, N_LANES), np.float32)
        some = np.ascontiguousarray(words[:, first : first + N_LANES])
        points_for_lanes(some, 1 - np.cos(np.deg2rad(angle_deg)), out)
        found.append(out.T.astype(np.float64))
    return np.concatenate(found)


@pytest.mark.parametrize("angle", [1.0, 15.0, 90.0, 180.0])
def test_directions_that_are_tried_are_uniform_in_the_cone(angle):
    words = np.random.default_rng(1).integers(0, 2**32, (2, 64_000), dtype=np.uint32)
    units = points_of(words, angle)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, atol=1e-6)
    bins = ConeBins(np.array([0.0, 0.0, 1.0]), angle)
    assert bins.p_value(units, lambda u: np.ones(len(u))) > 1e-3


@pytest.mark.parametrize("angle", [15.0, 180.0])
def test_the_ends_of_the_random_words_give_directions_of_the_cone_too(angle):
    ends = np.array([0, 2**12, 2**31, 2**32 - 1], np.uint32)
    words = np.stack(np.meshgrid(ends, ends)).reshape(2, -1)
    units = points_of(np.concatenate([words, words], axis=1), angle)
    assert np.isfinite(units).all()
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, atol=1e-6)
    assert units[:, 2].min() > np.cos(np.deg2rad(angle)) - 1e-6


@njit
def tangents_for_lanes(units, out):
    x, y, z = lanes.load(units[0]), lanes.load(units[1]), lanes.load(units[2])
    found = draw.tangents(x, y, z)
    for k in range(6):
        memory.store(out[k], found[k])
    for lane in range(N_LANES):
        one = tangents.tangents(units[0, lane], units[1, lane], units[2, lane])
        for k in range(6):
            out[6 + k, lane] = one[k]


def test_tangents_are_orthonormal_and_have_the_same_bits_for_numbers_and_vectors():
    units = np.random.default_rng(2).normal(size=(N_LANES, 3))
    units[:6] = np.concatenate([np.eye(3), -np.eye(3)])
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    out = np.zeros((12, N_LANES), np.float32)
    tangents_for_lanes(np.ascontiguousarray(units.T, np.float32), out)
    np.testing.assert_array_equal(out[:6], out[6:])
    a, b = out[:3].T.astype(float), out[3:6].T.astype(float)
    frames = np.stack([units, a, b], axis=1)
    np.testing.assert_allclose(
        frames @ np.swapaxes(frames, 1, 2), np.broadcast_to(np.eye(3), (N_LANES, 3, 3)), atol=1e-6
    )
