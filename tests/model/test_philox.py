"""Philox4x32-10 against the known answers that Random123 publishes (kat_vectors)."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.model.philox import Purpose, philox4x32, uniforms


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        pytest.param(
            "00000000 00000000 00000000 00000000",
            "00000000 00000000",
            "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
            id="zeros",
        ),
        pytest.param(
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
            id="ones",
        ),
        pytest.param(
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
            id="pi",
        ),
    ],
)
def test_known_answers(counter, key, expected):
    low, high = words(key)
    block = philox4x32(words(counter), low | high << 32)
    assert block.dtype == np.uint32
    assert block.tolist() == words(expected)


def test_blocks_do_not_depend_on_their_neighbours():
    counters = np.random.default_rng(0).integers(0, 2**32, size=(5, 7, 4))
    together = philox4x32(counters, 12345)
    assert together.shape == (5, 7, 4)
    np.testing.assert_array_equal(together[3, 2], philox4x32(counters[3, 2], 12345))


def test_uniforms_are_the_words_of_the_documented_counter():
    """Counter: (id, 0, draw, purpose), value: word / 2^32."""
    ids = np.array([0, 7, 2**32 - 1])
    numbers = uniforms(ids, 5, Purpose.SEED_POSITION, 99)
    expected = philox4x32([[i, 0, 5, 4] for i in ids], 99) / 2**32
    np.testing.assert_array_equal(numbers, expected)
    assert (numbers >= 0).all()
    assert (numbers < 1).all()


def test_uniforms_look_uniform_and_uncorrelated():
    numbers = uniforms(np.arange(100_000), 0, Purpose.SEED_VOXEL, 1)
    counts = [np.histogram(column, 16, (0, 1))[0] for column in numbers.T]
    for observed in counts:
        chi2 = ((observed - 6250.0) ** 2 / 6250.0).sum()
        assert chi2 < 37.7  # 0.999 quantile of 15 degrees of freedom
    assert np.abs(np.corrcoef(numbers.T) - np.eye(4)).max() < 0.015


def test_purposes_draws_and_keys_differ():
    ids = np.arange(50)
    first = uniforms(ids, 0, Purpose.SEED_VOXEL, 1)
    for other in (
        uniforms(ids, 1, Purpose.SEED_VOXEL, 1),
        uniforms(ids, 0, Purpose.SEED_POSITION, 1),
        uniforms(ids, 0, Purpose.SEED_VOXEL, 2),
        uniforms(ids, 0, Purpose.SEED_VOXEL, 1 + 2**32),
    ):
        assert not np.intersect1d(first, other).size
