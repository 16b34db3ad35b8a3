"""Regions by themselves: what lies inside, what overlaps, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_tractography.errors import InvalidParameterError, InvalidRegionError
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.regions import Region, check_regions
from napari_tractography.model.roles import ROLE_HELP, ROLES

SKEWED = np.array(
    [[-1.9, 0.5, 0.3, 11.0], [0.4, 2.4, -0.2, -7.0], [0.2, 0.6, 1.5, 3.0], [0, 0, 0, 1.0]]
)


def test_a_sphere_holds_the_points_within_its_radius():
    region = Region.sphere((1, 2, 3), 2.0, "include")
    points = [[1, 2, 3], [3, 2, 3], [3.001, 2, 3], [1, 2, 1.001], [2.2, 3.2, 4.2]]
    assert region.contains(points).tolist() == [True, True, False, True, False]
    assert region.contains([1, 2, 3]).tolist() == [True]


def test_a_mask_holds_the_points_of_its_voxels():
    labels = np.zeros((4, 3, 2), int)
    labels[1, 2, 0] = 7
    labels[3, 0, 1] = 4
    every = Region.mask(labels, SKEWED, "include")
    seven = Region.mask(labels, Grid(labels.shape, SKEWED), "include", label=7)
    rng = np.random.default_rng(0)
    vox = rng.uniform(-1.5, 4.5, (4000, 3))
    points = Grid(labels.shape, SKEWED).to_mm(vox)

    def near(*centre):
        return (np.abs(vox - centre) < 0.5).all(axis=1)

    assert near(1, 2, 0).any()
    np.testing.assert_array_equal(seven.contains(points), near(1, 2, 0))
    np.testing.assert_array_equal(every.contains(points), near(1, 2, 0) | near(3, 0, 1))


@given(
    st.integers(1, 40),
    st.sampled_from([-0.5, 0.5]),
    st.sampled_from([-np.inf, np.inf]),
)
def test_points_next_to_the_border_of_the_grid_are_no_error(n, side, towards):
    edge = np.nextafter(-0.5 if side < 0 else n - 0.5, towards)
    region = Region.mask(np.ones((n, n, n), bool), np.eye(4), "stop")
    assert region.contains([[edge, 0, 0], [0, edge, 0], [0, 0, edge]]).tolist() == (
        [-0.5 <= edge < n - 0.5] * 3
    )


def test_not_a_number_in_a_mask_is_outside():
    labels = np.full((2, 2, 2), np.nan)
    labels[0, 0, 0] = 1
    region = Region.mask(labels, np.eye(4), "stop")
    assert region.contains(np.argwhere(np.ones((2, 2, 2)))).tolist() == [True] + [False] * 7


def test_every_role_has_words():
    assert set(ROLE_HELP) == set(ROLES) == {"seed", "include", "exclude", "stop", "end", "resect"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: Region.sphere((0, 0), 1, "stop"), "no point", id="2-D centre"),
        pytest.param(lambda: Region.sphere((0, np.nan, 0), 1, "stop"), "no point", id="NaN"),
        pytest.param(lambda: Region.sphere(("1", 2, 3), 1, "stop"), "no point", id="text"),
        pytest.param(lambda: Region.sphere((0, 0, 0), 0, "stop"), "radius of 0", id="radius 0"),
        pytest.param(lambda: Region.sphere((0, 0, 0), "5", "stop"), "radius of '5'", id="text 5"),
        pytest.param(lambda: Region.sphere((0, 0, 0), None, "stop"), "radius of None", id="None"),
        pytest.param(lambda: Region.sphere((0, 0, 0), np.inf, "stop"), "inf mm; give", id="inf"),
        pytest.param(lambda: Region.sphere((0, 0, 0), 1e308, "stop"), "at most 1e", id="huge"),
        pytest.param(
            lambda: Region.mask(np.zeros((2, 2, 2)), np.eye(4), "stop", name="V1"),
            "Region V1 has no voxel; ",
            id="empty",
        ),
        pytest.param(
            lambda: Region.mask(np.ones((2, 2, 2)), np.eye(4), "stop", label=5),
            "no voxel with label 5",
            id="absent label",
        ),
        pytest.param(
            lambda: Region.mask(np.ones((2, 2)), np.eye(4), "stop"), r"\(2, 2\)", id="2-D"
        ),
        pytest.param(
            lambda: Region.mask(np.full((2, 2, 2), 1j), np.eye(4), "stop"),
            "holds complex128",
            id="complex",
        ),
        pytest.param(
            lambda: Region.mask(np.ones((2, 2, 2)), Grid((3, 2, 2), np.eye(4)), "stop"),
            r"\(2, 2, 2\).*\(3, 2, 2\)",
            id="another grid",
        ),
    ],
)
def test_impossible_regions_are_refused(make, message):
    with pytest.raises(InvalidRegionError, match=message):
        make()


def test_unknown_roles_are_refused():
    with pytest.raises((InvalidRegionError, InvalidParameterError), match="avoid"):
        Region.sphere((0, 0, 0), 1, "avoid")


@pytest.mark.parametrize(
    ("centre", "radius", "overlaps"),
    [
        ((1, 1, 1), 0.1, True),
        ((5, 1, 1), 1.4, False),
        ((5, 1, 1), 1.6, True),
        ((5, 5, 1), 2.0, False),  # the box around the ball would
        ((5, 5, 1), 2.2, True),
        ((1, 1, 1), 100, True),
    ],
)
def test_a_sphere_overlaps_an_image_it_reaches(centre, radius, overlaps):
    """The image spans -0.5 to 3.5 mm."""
    region = Region.sphere(centre, radius, "stop")
    assert region.overlaps(Grid((4, 4, 4), np.eye(4))) is overlaps


def test_a_sphere_overlaps_a_sheared_image_that_it_reaches():
    sheared = Grid((4, 4, 4), [[2, 1.8, 0, 0], [0, 1.5, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]])
    centre = np.array([9.0, 0.0, 0.0])
    inside = sheared.to_mm([3.49, 0.6, 0.0])
    reached = np.linalg.norm(inside - centre) + 0.01
    assert Region.sphere(centre, reached, "stop").overlaps(sheared)
    assert not Region.sphere(centre, reached - 0.3, "stop").overlaps(sheared)


def test_a_mask_overlaps_by_its_voxels_and_not_by_its_grid():
    labels = np.zeros((20, 4, 4))
    labels[15] = 1
    region = Region.mask(labels, np.eye(4), "exclude", name="far end")
    assert not region.overlaps(Grid((4, 4, 4), np.eye(4)))
    assert region.overlaps(Grid((16, 4, 4), np.eye(4)))
    (warning,) = check_regions([region], Grid((4, 4, 4), np.eye(4)))
    assert "far end (exclude) does not overlap" in warning
    assert check_regions([region], Grid((16, 4, 4), np.eye(4))) == []


def test_seeds_are_drawn_in_the_region():
    labels = np.zeros((5, 5, 5), np.uint8)
    labels[1:3, 2, 2:4] = 2
    for region in (
        Region.sphere((5, 6, 7), 2.0, "seed"),
        Region.mask(labels, SKEWED, "seed", label=2),
    ):
        seeds = region.seeds(500, random_seed=3)
        assert len(seeds) == 500
        assert region.contains(seeds.positions_mm).mean() > 0.99  # float32 at the border
