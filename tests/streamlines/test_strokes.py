"""Strokes find the streamlines that they cross, seen along the line of sight; axes (z, y, x)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from napari_tractography.streamlines.strokes import crossed
from napari_tractography.streamlines.tractogram import Tractogram


def lines() -> Tractogram:
    """Five lines along x, 4 mm apart along y."""
    x = np.linspace(-20, 20, 41)
    made = [np.stack([x, np.full(41, 4.0 * k - 8), np.zeros(41)], axis=1) for k in range(5)]
    return Tractogram.from_streamlines(made)


@pytest.mark.parametrize(
    ("stroke", "wanted"),
    [
        pytest.param([(0, -9, 0), (0, -3, 0)], [0, 1], id="across two"),
        pytest.param([(0, -9, 0), (0, 9, 0)], [0, 1, 2, 3, 4], id="across all"),
        pytest.param([(0, -7, -10), (0, -7, 10)], [], id="along them"),
        pytest.param([(5, -9, 3), (-7, -3, 3)], [0, 1], id="at other depths"),
        pytest.param([(0, -9, 25), (0, 9, 25)], [], id="beyond their ends"),
        pytest.param([(0, -5, 0), (0, -3, 0), (0, -3, 2), (0, 1, 2)], [1, 2], id="bent"),
    ],
)
def test_a_stroke_finds_what_it_crosses(stroke: Any, wanted: list[int]) -> None:
    """Seen from above."""
    assert crossed(lines().points[:, ::-1], lines().offsets, stroke, (1, 0, 0)).tolist() == wanted


def test_a_slab_hides_what_lies_beside_it() -> None:
    both = Tractogram.concatenate(
        [lines(), Tractogram(lines().points + np.array([0, 0, 9]), lines().offsets)]
    )
    stroke = [(0, -9, 0), (0, -3, 0)]
    assert crossed(both.points[:, ::-1], both.offsets, stroke, (1, 0, 0)).tolist() == [0, 1, 5, 6]
    assert crossed(
        both.points[:, ::-1], both.offsets, stroke, (1, 0, 0), slab=(0, -2, 2)
    ).tolist() == [0, 1]
