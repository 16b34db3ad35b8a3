"""Phantoms of many subjects: the same each time, a little different in each, some with a lesion."""

from __future__ import annotations

import numpy as np
import pytest

from napari_tractography.errors import InvalidParameterError
from napari_tractography.model.cohorts import make_cohort
from napari_tractography.model.phantoms import make_phantom


def test_subjects_differ_and_are_the_same_each_time() -> None:
    subjects = make_cohort(3, name="cross", lmax=4)
    again = make_cohort(2, name="cross", lmax=4)
    for one, other in zip(subjects, again, strict=False):
        np.testing.assert_array_equal(one.fod.coefficients, other.fod.coefficients)
    supports = [each.fod.support for each in subjects]
    assert not np.array_equal(supports[0], supports[1])
    assert {each.fod.name for each in subjects} == {"cross-01", "cross-02", "cross-03"}
    as_drawn = make_cohort(1, name="cross", displacement_vox=0.0, lmax=4)[0]
    np.testing.assert_array_equal(
        as_drawn.fod.coefficients, make_phantom("cross", lmax=4).coefficients
    )


def test_a_lesion_holds_no_fibres_where_the_bundle_was() -> None:
    subjects = make_cohort(4, lesion_every=2, lmax=2)
    assert [each.has_lesion for each in subjects] == [False, True, False, True]
    for each in subjects:
        before, lesion, beyond = (
            each.fod.support[tuple(each.fod.grid.nearest_voxels(place))] for place in each.places_mm
        )
        assert (before, lesion, beyond) == (True, not each.has_lesion, True)
    assert not any(each.has_lesion for each in make_cohort(3, lesion_every=0, lmax=2))


def test_an_unknown_drawing_is_told() -> None:
    with pytest.raises(InvalidParameterError, match="no phantom 'knot'"):
        make_cohort(1, name="knot")
