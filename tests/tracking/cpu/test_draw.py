"""Random numbers and trilinear weights of the kernel, for numbers and for vectors."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from plans import plan_of
from toys import random_fod

from napari_tractography.philox import philox4x32
from napari_tractography.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import draw, llvm, vectors
from napari_tractography.tracking.cpu.lane_state import new_lane_state
from napari_tractography.tracking.cpu.vectors import N_LANES

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
        llvm.widened(vectors.load(counters[0])),
        llvm.widened(vectors.load(counters[1])),
        llvm.widened(vectors.load(counters[2])),
        llvm.widened(vectors.load(counters[3])),
        key_0,
        key_1,
    )
    llvm.store(out[0], llvm.narrowed(w0))
    llvm.store(out[1], llvm.narrowed(w1))
    llvm.store(out[2], llvm.narrowed(w2))
    llvm.store(out[3], llvm.narrowed(w3))


@pytest.mark.parametrize("key", [0, 0xFFFFFFFF_FFFFFFFF, 0x299F31D0_A4093822])
def test_random_numbers_of_lanes_are_those_of_their_counters(key):
    rng = np.random.default_rng(key & 0xFF)
    counters = rng.integers(0, 2**32, (4, N_LANES), dtype=np.uint32)
    counters[:, 0], counters[:, 1] = 0, 2**32 - 1
    out = np.zeros((4, N_LANES), np.uint32)
    draw_for_lanes(counters, np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32), out)
    np.testing.assert_array_equal(out, philox4x32(counters.T, key).T)


@njit
def locate(field, scratch, state, lane, vx, vy, vz):
    return draw.locate(field, 8, scratch, state, lane, vx, vy, vz)


@pytest.mark.parametrize("seed", range(4))
def test_corners_have_trilinear_weights(seed):
    rng = np.random.default_rng(seed)
    field = plan_of(random_fod(4, seed=seed), Seeds.at([1.5, 1.5, 1.5])).field
    scratch, state = codes.new_scratch(field.alias.shape[1]), new_lane_state(0, 0, 1)
    place = rng.uniform(0, 2.99, 3).astype(np.float32)
    assert locate(field, scratch, state, 5, *place)
    one = np.float32(1)
    along = place - np.floor(place)
    x, y, z = ([one - a, a] for a in along)
    wanted = np.array([x[k >> 2] * y[k >> 1 & 1] * z[k & 1] for k in range(8)], np.float32)
    assert wanted.sum() == pytest.approx(1)
    totals, quanta = state.lane_totals[5], state.lane_quanta[5]
    corners = np.floor(place).astype(int) + [[k >> 2, k >> 1 & 1, k & 1] for k in range(8)]
    rows = field.voxel_rows[tuple(corners.T)]
    np.testing.assert_array_equal(totals, np.where(rows >= 0, field.totals[rows], 0))
    np.testing.assert_array_equal(scratch.weights, np.where(totals > 0, wanted, 0))
    np.testing.assert_array_equal(scratch.quanta, wanted * quanta)
    assert scratch.total[0] == np.cumsum(wanted * totals)[-1]  # one after the other
