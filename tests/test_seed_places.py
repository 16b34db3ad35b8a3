"""Which voxels seeds are in that take them in turn; the rest is tested as seeds."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.seed_places import in_turn


@pytest.mark.parametrize("n_voxels", [*range(1, 300), 610, 987, 2**20, 10**6])
def test_a_round_has_every_voxel_once(n_voxels: int) -> None:
    """Whatever the number, those of the golden section's own sequence and powers of 2 included."""
    order = in_turn(np.arange(n_voxels, dtype=np.int64), n_voxels)
    assert (np.bincount(order, minlength=n_voxels) == 1).all()


@pytest.mark.parametrize("n_first", [20, 100, 1000])
def test_the_first_are_spread_evenly(n_first: int) -> None:
    first = np.sort(in_turn(np.arange(n_first, dtype=np.int64), 10**6))
    gaps = np.diff([*first, first[0] + 10**6]) * n_first / 10**6
    assert 0.3 < gaps.min()
    assert gaps.max() < 2.0
