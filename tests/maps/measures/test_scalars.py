"""Scalar maps: what they are called."""

from __future__ import annotations

import pytest

from napari_tractography.files.headers import FORMATS
from napari_tractography.maps.measures.scalars import name_of


@pytest.mark.parametrize("ending", FORMATS)
def test_a_map_of_any_format_is_named_without_its_ending(ending: str) -> None:
    assert name_of(f"sub-1.dwi/FA.mean{ending}") == "FA.mean"
    assert name_of(f"FA{ending.upper()}") == "FA"


def test_another_ending_is_part_of_the_name() -> None:
    assert name_of("FA [1]") == "FA [1]"
    assert name_of("FA.tif") == "FA.tif"
