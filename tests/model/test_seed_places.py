"""Which voxels seeds are in that take them in turn; the rest is tested as seeds."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.model.seed_places import in_turn


@pytest.mark.parametrize("n_voxels", [*range(1, 300), 610, 987, 2**20, 10**6])
def test_a_round_has_every_voxel_once(n_voxels: int) -> None:
    """Whatever the number, those of the golden section's own sequence and powers of 2 included."""
    order = in_turn(np.arange(n_voxels, dtype=np.int64), n_voxels)
    assert (np.bincount(order, minlength=n_voxels) == 1).all()


@pytest.mark.parametrize("n_voxels", [4430, 65_536, 286_000, 10**6])
@pytest.mark.parametrize("n_first", [20, 100, 1000, 2000])
def test_the_first_leave_no_part_of_the_mask_out(n_first: int, n_voxels: int) -> None:
    first = np.sort(in_turn(np.arange(n_first, dtype=np.int64), n_voxels))
    gaps = np.diff([*first, first[0] + n_voxels])
    assert gaps.max() < max(6 * n_voxels / n_first, 3)
