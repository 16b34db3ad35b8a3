"""Positions in words."""

from __future__ import annotations

import pytest

from napari_tractography.plugin.space.positions import position_numbers, position_text


@pytest.mark.parametrize(
    ("place", "numbers", "text"),
    [
        ((12.34, -4.5, 100.06), "12.3, -4.5, 100.1", "R 12.3, A -4.5, S 100.1 mm"),
        ((-0.01, 0.0, -150.0), "0.0, 0.0, -150.0", "R 0.0, A 0.0, S -150.0 mm"),
    ],
)
def test_positions_have_one_order_and_one_rounding(place, numbers, text):
    assert position_numbers(place) == numbers
    assert position_text(place) == text
