"""Lists of streamline numbers are kept as short text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_tractography.errors import FileError, InvalidParameterError
from napari_tractography.recipes.numbers import numbers_of, text_of


def test_ranges_are_for_the_eye() -> None:
    assert text_of([7, 0, 1, 2, 2, 40, 41]) == "0-2,7,40-41"
    assert text_of([]) == ""


@given(st.sets(st.integers(0, 5000)))
def test_numbers_come_back(numbers: set[int]) -> None:
    found = numbers_of(text_of(np.array(sorted(numbers), dtype=np.int64)))
    assert found.dtype == np.int64
    assert found.tolist() == sorted(numbers)


def test_a_million_streamlines_take_kilobytes() -> None:
    rng = np.random.default_rng(0)
    half = np.flatnonzero(rng.random(1_000_000) < 0.5)
    assert len(text_of(half)) < 170_000  # a bit each, in base64
    few = np.flatnonzero(rng.random(1_000_000) < 0.001)
    assert len(text_of(few)) < 10_000
    assert np.array_equal(numbers_of(text_of(half)), half)


@pytest.mark.parametrize("text", ["a", "1-", "1,,2", "bits:!", "bits:YWJj", "-1", "5-1", "0-3,9-8"])
def test_damaged_text_is_said(text: str) -> None:
    with pytest.raises(FileError, match="damaged"):
        numbers_of(text)


@pytest.mark.parametrize("numbers", [[-1], [0.5], [[1, 2]]])
def test_what_is_no_number_of_a_streamline_is_refused(numbers) -> None:
    with pytest.raises(InvalidParameterError, match="whole numbers"):
        text_of(numbers)
