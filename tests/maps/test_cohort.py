"""What subjects have in common: shares, likeness and ranks of streamlines that are drawn here."""

from __future__ import annotations

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.cohort import COLUMNS, CohortResult, passed_voxels

GRID = Grid((6, 3, 2), np.diag([2.0, 2.0, 2.0, 1.0]))
OBLIQUE = np.array([[1.7, 0.6, 0, -9], [-0.6, 1.7, 0.2, -8], [0, -0.2, 2.1, -7], [0, 0, 0, 1]])


def along_x(*spans: tuple[int, int]) -> nt.Tractogram:
    """A streamline from voxel to voxel of the first row for each span."""
    return nt.Tractogram.from_streamlines(
        [np.array([[2.0 * first, 0, 0], [2.0 * last, 0, 0]]) for first, last in spans]
    )


@pytest.fixture
def found() -> CohortResult:
    r"""Three subjects; the last ends early, and one of its streamlines earlier.

    ::

        a  ======
        b  ======
        c  =-
           012345
    """
    subjects = along_x((0, 5), (0, 5)), along_x((0, 5), (0, 5)), along_x((0, 1), (0, 0))
    return CohortResult(("a", "b", "c"), subjects, GRID)


def test_the_share_counts_subjects_not_streamlines(found: CohortResult) -> None:
    np.testing.assert_array_equal(found.n_reached[:, 0, 0], [3, 3, 2, 2, 2, 2])
    np.testing.assert_allclose(found.share[:, 0, 0], np.array([3, 3, 2, 2, 2, 2]) / 3)
    assert found.n_reached[:, 1:].sum() == found.n_reached[..., 1].sum() == 0
    np.testing.assert_allclose(found.standard_error[2, 0, 0], np.sqrt(2 / 9 / 3))
    assert found.standard_error[0, 0, 0] == found.standard_error[0, 2, 1] == 0


def test_more_streamlines_may_be_asked_for() -> None:
    subjects = along_x((0, 5), (0, 5)), along_x((0, 1), (0, 0))
    found = CohortResult(("a", "c"), subjects, GRID, 2)
    np.testing.assert_array_equal(found.n_reached[:, 0, 0], [2, 1, 1, 1, 1, 1])
    for wrong in (0, 1.5, True):
        with pytest.raises(InvalidParameterError, match="min_streamlines"):
            CohortResult(("a", "c"), subjects, GRID, wrong)


def test_likeness_is_the_overlap_with_the_mean_of_the_others(found: CohortResult) -> None:
    a = np.ones(6)
    c = np.array([1, 0.5, 0, 0, 0, 0])
    others = (a + c) / 2
    wanted = [2 * np.minimum(a, others).sum() / (a.sum() + others.sum())] * 2
    wanted.append(2 * np.minimum(c, a).sum() / (c.sum() + a.sum()))
    np.testing.assert_allclose(found.likeness, wanted)
    assert found.ranks.tolist() == [2, 3, 1]


def test_subjects_without_streamlines_are_like_nobody() -> None:
    nothing = nt.Tractogram.empty()
    found = CohortResult(("a", "b", "none"), (along_x((0, 3)), along_x((0, 3)), nothing), GRID)
    assert found.likeness.tolist() == [pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0]
    assert found.share[0, 0, 0] == pytest.approx(2 / 3)
    row = dict(zip(COLUMNS, found.table().rows[0], strict=True))
    assert (row["subject"], row["n_streamlines"], row["mean_length_mm"]) == ("none", "0", "")
    alone = CohortResult(("a",), (along_x((0, 3)),), GRID)
    assert np.isnan(alone.likeness).all()
    assert alone.table().rows[0][COLUMNS.index("likeness")] == ""
    assert CohortResult(("a", "b"), (nothing, nothing), GRID).n_reached.max() == 0


def test_the_table_has_the_one_that_differs_most_first(found: CohortResult) -> None:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in found.table().rows]
    assert [row["subject"] for row in rows] == ["c", "a", "b"]
    assert [row["volume_mm3"] for row in rows] == ["16", "48", "48"]
    assert rows[1]["mean_length_mm"] == "10"
    assert rows[1]["digest"] == found.tractograms[0].digest()
    assert found.summary(1).endswith("in some of 3 subjects, 2 in all; c differ most")


@pytest.mark.parametrize("seed", range(3))
def test_voxels_are_those_of_density(seed: int) -> None:
    draw = np.random.default_rng(seed)
    lines = [draw.normal(0, 9, (draw.integers(1, 9), 3)) for _ in range(40)]
    tractogram = nt.Tractogram.from_streamlines(lines)
    for grid in (Grid((9, 8, 7), OBLIQUE), Grid((40, 40, 40), OBLIQUE)):
        voxels, counts = passed_voxels(tractogram, grid)
        density = nt.density(tractogram, grid).ravel()
        np.testing.assert_array_equal(voxels, np.flatnonzero(density))
        np.testing.assert_array_equal(counts, density[voxels])
    far = Grid((5, 5, 5), np.diag([1.0, 1, 1, 1]) + 900 * np.eye(4, k=3))
    assert len(passed_voxels(tractogram, far)[0]) == 0
