"""The readings of a file: which there are, what they are called, and what is none of them."""

from __future__ import annotations

import numpy as np

from napari_tractography.maps.fod_readings import (
    IDENTITY,
    PERMUTATIONS,
    ReadingKey,
    distinct_readings,
    other_rotations,
)
from napari_tractography.model.phantoms import make_phantom


def test_permutations_differ_for_symmetric_fods() -> None:
    matrices = np.array(list(PERMUTATIONS.values())).reshape(24, 9)
    assert len(np.unique(np.concatenate([matrices, -matrices]), axis=0)) == 48


def test_words_name_what_is_changed() -> None:
    assert ReadingKey("tournier07", "scanner", IDENTITY).text == "tournier07, scanner axes"
    assert ReadingKey("tournier07", "voxel", "+x-y+z").text == "tournier07, voxel axes, y flipped"
    swapped = ReadingKey("descoteaux07", "voxel", "+y+x-z")
    assert swapped.text == "descoteaux07, voxel axes, x y z being y x -z"
    assert swapped.n_changes == 3


def test_reading_in_use_comes_first() -> None:
    fod = make_phantom("arcs-oblique", lmax=2).reread(basis="descoteaux07", frame="scanner")
    keys, same = distinct_readings(fod)
    assert keys[0] == ReadingKey("descoteaux07", "scanner", IDENTITY)
    assert len(keys) == len(same) == len(set(keys))


def test_other_rotations_are_far_from_all_given() -> None:
    given = np.array(list(PERMUTATIONS.values()))
    others = other_rotations(given, 64, 20.0)
    assert 32 < len(others) < 64
    np.testing.assert_allclose(
        others @ others.transpose(0, 2, 1), np.broadcast_to(np.eye(3), others.shape), atol=1e-12
    )
    for sign in (1.0, -1.0):
        between = np.einsum("nij,mij->nm", others, sign * given)
        angles = np.rad2deg(np.arccos(np.clip((between - 1.0) / 2.0, -1.0, 1.0)))
        assert angles.min() >= 20.0
