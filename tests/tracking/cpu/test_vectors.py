"""The vectors of numbers of the state against NumPy."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
from numba import njit

from napari_tractography.philox import philox4x32
from napari_tractography.tracking.cpu import vectors
from napari_tractography.tracking.cpu.vectors import N_LANES

ARITHMETIC = ("add", "sub", "mul")
BITWISE = ("and_", "or_", "xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def numbers(kind: type, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors, some of whose numbers are equal."""
    rng = np.random.default_rng(seed)
    if kind is np.float32:
        a, b = rng.normal(size=(2, N_LANES)).astype(kind)
    else:
        limits = np.iinfo(kind)
        a, b = rng.integers(limits.min, limits.max, (2, N_LANES), endpoint=True, dtype=kind)
    b[::5] = a[::5]
    return a, b


def compiled(operation, *, with_number=False):
    """A function of two arrays, or of an array and a number, on vectors."""
    if with_number:
        return njit(lambda a, b, out: vectors.store(out, operation(vectors.load(a), b)))
    return njit(lambda a, b, out: vectors.store(out, operation(vectors.load(a), vectors.load(b))))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *itertools.product([np.float32], ARITHMETIC),
        *itertools.product([np.int32, np.uint32], ARITHMETIC + BITWISE),
    ],
)
def test_arithmetic_is_that_of_numpy(kind, name):
    operation = getattr(operator, name)
    a, b = numbers(kind, 1)
    if name.endswith("shift"):
        b = (b & 31).astype(kind)
    out = np.zeros(N_LANES, kind)
    compiled(operation)(a, b, out)
    np.testing.assert_array_equal(out, operation(a, b))
    compiled(operation, with_number=True)(a, b[3], out)
    np.testing.assert_array_equal(out, operation(a, b[3]))


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint32])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_are_those_of_numpy(kind, name):
    operation = getattr(operator, name)
    a, b = numbers(kind, 2)
    if kind is np.float32:
        a[7] = np.nan
    bits = njit(lambda a, b: vectors.bits_of(operation(vectors.load(a), vectors.load(b))))(a, b)
    wanted = operation(a, b)
    assert wanted.any()
    assert not wanted.all()
    np.testing.assert_array_equal((bits >> np.arange(N_LANES)) & 1, wanted)


def test_truths_choose():
    a, b = numbers(np.int32, 3)
    out = np.zeros(N_LANES, np.int32)
    bits = np.uint32(0x80F00FF1)
    wanted = (int(bits) >> np.arange(N_LANES) & 1).astype(bool)

    @njit
    def choose(a, b, bits, out):
        where = vectors.truths_of(bits)
        vectors.store(out, vectors.select(where, vectors.load(a), vectors.load(b)))
        return vectors.bits_of(~where)

    assert choose(a, b, bits, out) == ~bits & np.uint32(2**32 - 1)
    np.testing.assert_array_equal(out, np.where(wanted, a, b))


def test_a_number_may_take_the_place_of_a_vector():
    a, _ = numbers(np.float32, 4)
    out = np.zeros(N_LANES, np.float32)

    @njit
    def positive(a, out):
        vector = vectors.load(a)
        vectors.store(out, vectors.select(vector > np.float32(0), vector, np.float32(0)))

    positive(a, out)
    np.testing.assert_array_equal(out, np.maximum(a, 0))


def test_vectors_are_converted():
    a, _ = numbers(np.float32, 5)
    a *= 100
    floors, ints, floats = (np.zeros(N_LANES, kind) for kind in (np.float32, np.int32, np.float32))

    @njit
    def convert(a, floors, ints, floats):
        vector = vectors.load(a)
        vectors.store(floors, vectors.floors(vector))
        vectors.store(ints, vectors.to_ints(vectors.floors(vector)))
        vectors.store(floats, vectors.to_floats(vectors.to_ints(vector)))

    convert(a, floors, ints, floats)
    np.testing.assert_array_equal(floors, np.floor(a))
    np.testing.assert_array_equal(ints, np.floor(a).astype(int))
    np.testing.assert_array_equal(floats, np.trunc(a))


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint32, np.uint16, np.uint8])
def test_numbers_are_gathered_from_arrays_of_any_shape(kind):
    rng = np.random.default_rng(6)
    table = (rng.random((5, 4, 12)) * 250).astype(kind)
    at = rng.integers(0, table.size, N_LANES).astype(np.int32)
    at[:2] = 0, table.size - 1
    out = np.zeros(N_LANES, kind if np.dtype(kind).itemsize == 4 else np.int32)
    njit(lambda t, at, out: vectors.store(out, vectors.gather(t, vectors.load(at))))(table, at, out)
    np.testing.assert_array_equal(out, table.ravel()[at])


@pytest.mark.parametrize("key", [0, 0xFFFFFFFF_FFFFFFFF, 0x299F31D0_A4093822])
def test_random_numbers_are_those_of_each_counter(key):
    rng = np.random.default_rng(key & 0xFF)
    counters = rng.integers(0, 2**32, (4, N_LANES), dtype=np.uint32)
    counters[:, 0], counters[:, 1] = 0, 2**32 - 1
    out = np.zeros((4, N_LANES), np.uint32)

    @njit
    def draw(counters, key_0, key_1, out):
        words = vectors.philox(
            vectors.load(counters[0]),
            vectors.load(counters[1]),
            vectors.load(counters[2]),
            vectors.load(counters[3]),
            key_0,
            key_1,
        )
        for k in range(4):
            vectors.store(out[k], words[k])

    draw(counters, np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32), out)
    np.testing.assert_array_equal(out, philox4x32(counters.T, key).T)


def test_words_are_scaled_to_whole_parts_and_the_rest():
    words, _ = numbers(np.uint32, 7)
    words[:2] = 0, 2**32 - 1
    whole, rest = np.zeros((2, N_LANES), np.uint32)

    @njit
    def quantum(words, factor, whole, rest):
        a, b = vectors.scaled(vectors.load(words), factor)
        vectors.store(whole, a)
        vectors.store(rest, b)

    quantum(words, 23, whole, rest)
    product = words.astype(np.uint64) * np.uint64(23)
    np.testing.assert_array_equal(whole, product >> np.uint64(32))
    np.testing.assert_array_equal(rest, product & np.uint64(2**32 - 1))


def test_every_walker_writes_a_point_at_its_slot():
    rng = np.random.default_rng(8)
    points = np.zeros((N_LANES, 9, 3), np.float32)
    slot = rng.integers(0, 9, N_LANES).astype(np.int32)
    x, y, z = rng.normal(size=(3, N_LANES)).astype(np.float32)
    njit(lambda p, s, x, y, z: vectors.put_points(p, s, x, y, z))(points, slot, x, y, z)
    state = np.arange(N_LANES)
    np.testing.assert_array_equal(points[state, slot], np.stack([x, y, z], axis=1))
    points[state, slot] = 0
    assert not points.any()


def test_points_are_copied():
    source = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
    target = np.zeros((9, 3), np.float32)
    njit(lambda s, t: vectors.copy_points(s, 6, t, 2, 4))(source, target)
    np.testing.assert_array_equal(target[2:6], source.reshape(-1, 3)[6:10])
    assert not target[[0, 1, 6, 7, 8]].any()
