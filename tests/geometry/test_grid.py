"""Voxels and millimetres: inverse of each other for any affine, singular ones refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from napari_tractography.errors import InvalidGridError
from napari_tractography.geometry.grid import Grid

SHEARED = np.array([[2, 0.5, 0, -10], [0, 3, 0.2, 5], [0.1, 0, -4, 20], [0, 0, 0, 1.0]])

numbers = st.floats(-5, 5, allow_nan=False, width=32)


@st.composite
def affines(draw):
    linear = draw(arrays(np.float64, (3, 3), elements=numbers))
    edges = np.linalg.norm(linear, axis=0)
    assume(edges.min() > 0.05)
    assume(abs(np.linalg.det(linear / edges)) > 1e-3)
    affine = np.eye(4)
    affine[:3, :3] = linear
    affine[:3, 3] = draw(arrays(np.float64, 3, elements=st.floats(-500, 500)))
    return affine


@given(affines(), arrays(np.float64, (7, 3), elements=st.floats(-300, 300)))
def test_voxel_and_mm_are_inverse(affine, points):
    grid = Grid((10, 20, 30), affine)
    np.testing.assert_allclose(grid.to_voxel(grid.to_mm(points)), points, atol=1e-6)
    np.testing.assert_allclose(grid.to_mm(grid.to_voxel(points)), points, atol=1e-6)


@given(affines())
def test_voxel_centres_are_at_integers(affine):
    grid = Grid((4, 5, 6), affine)
    np.testing.assert_allclose(grid.to_mm([0, 0, 0]), affine[:3, 3])
    np.testing.assert_allclose(grid.to_mm([1, 2, 3]), (affine @ [1, 2, 3, 1])[:3], atol=1e-9)


@given(affines())
def test_axes_are_orthonormal_and_keep_the_handedness(affine):
    axes = Grid((4, 5, 6), affine).axes
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-9)
    assert np.sign(np.linalg.det(axes)) == np.sign(np.linalg.det(affine[:3, :3]))


@pytest.mark.parametrize("mirror", [1, -1], ids=["right-handed", "left-handed"])
def test_axes_of_a_rigid_grid_are_its_normalised_columns(mirror):
    c, s = np.cos(0.7), np.sin(0.7)
    rigid = np.array([[c, 0, s], [0, mirror, 0], [-s, 0, c]])
    affine = np.eye(4)
    affine[:3, :3] = rigid * [1.0, 2.5, 4.0]
    grid = Grid((3, 3, 3), affine)
    np.testing.assert_allclose(grid.axes, rigid, atol=1e-12)
    np.testing.assert_allclose(grid.voxel_sizes_mm, [1.0, 2.5, 4.0])


def test_axes_of_a_sheared_grid_are_no_further_than_any_rotation_near_them():
    """The nearest orthonormal matrix, in the sum of squares."""
    grid = Grid((3, 3, 3), SHEARED)
    columns = SHEARED[:3, :3] / np.linalg.norm(SHEARED[:3, :3], axis=0)
    best = np.linalg.norm(grid.axes - columns)
    random = np.random.default_rng(0)
    for _ in range(200):
        nudge, _ = np.linalg.qr(np.eye(3) + 0.05 * random.normal(size=(3, 3)))
        nudge *= np.sign(np.diag(nudge))
        assert np.linalg.norm(grid.axes @ nudge - columns) >= best - 1e-12


def test_image_ends_half_a_voxel_beyond_the_outer_centres():
    grid = Grid((4, 5, 6), SHEARED)
    inside = [[-0.499, -0.499, -0.499], [3.499, 4.499, 5.499], [0, 0, 0]]
    outside = [[-0.501, 0, 0], [0, 4.501, 0], [0, 0, 5.501], [3.501, 4, 5]]
    assert grid.contains(grid.to_mm(inside)).all()
    assert not grid.contains(grid.to_mm(outside)).any()
    assert grid.contains(grid.to_mm(np.zeros((2, 3, 3)))).shape == (2, 3)


def test_centre_is_the_mean_of_all_voxel_centres():
    grid = Grid((4, 5, 6), SHEARED)
    every = np.indices((4, 5, 6)).reshape(3, -1).T
    np.testing.assert_allclose(grid.centre_mm, grid.to_mm(every).mean(axis=0))


def test_equality_and_same_space():
    grid = Grid((4, 5, 6), SHEARED)
    assert grid == Grid((4, 5, 6), SHEARED)
    assert hash(grid) == hash(Grid((4, 5, 6), SHEARED))
    assert grid != Grid((4, 5, 7), SHEARED)
    assert grid != "grid"
    rounded = SHEARED + 1e-5
    rounded[3] = SHEARED[3]
    assert grid != Grid((4, 5, 6), rounded)
    assert grid.same_space(Grid((4, 5, 6), rounded))
    shifted = SHEARED.copy()
    shifted[0, 3] += 0.1
    assert not grid.same_space(Grid((4, 5, 6), shifted))
    assert not grid.same_space(Grid((4, 5, 7), SHEARED))


@pytest.mark.parametrize("origin_mm", [0.0, 100.0])
def test_small_voxels_far_from_the_origin_are_told_apart(origin_mm):
    affine = np.diag([1e-3, 1e-3, 1e-3, 1.0])
    affine[:3, 3] = origin_mm
    shifted = affine.copy()
    shifted[0, 3] += 1e-3
    grid = Grid((4, 5, 6), affine)
    assert grid.same_space(Grid((4, 5, 6), affine))
    assert not grid.same_space(Grid((4, 5, 6), shifted))


def test_a_point_lies_in_the_voxel_with_the_nearest_centre():
    grid = Grid((2, 3, 1), np.diag([2.0, 1.0, 1.0, 1.0]))
    points = [[0.9, 0.4, 0.0], [1.1, 0.6, np.nextafter(0.5, 0)], [-9.0, 9.0, 9.0]]
    assert grid.nearest_voxels(points).tolist() == [[0, 0, 0], [1, 1, 0], [0, 2, 0]]


def test_arrays_cannot_be_changed():
    grid = Grid((4, 5, 6), SHEARED)
    with pytest.raises(ValueError, match="read-only"):
        grid.affine[0, 0] = 7
    with pytest.raises(ValueError, match="read-only"):
        grid.inverse[0, 0] = 7


@pytest.mark.parametrize(
    "affine",
    [
        pytest.param(np.zeros((4, 4)), id="zeros"),
        pytest.param(np.diag([1.0, 1.0, 0.0, 1.0]), id="flat voxels"),
        pytest.param(
            [[1, 2, 3, 0], [1, 2, 3, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]], id="dependent rows"
        ),
        pytest.param([[1, 1, 0, 0], [1, 1, 1e-9, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]], id="nearly"),
        pytest.param(np.diag([1.0, 1.0, 1.0, 2.0]), id="last row"),
    ],
)
def test_singular_affines_are_refused(affine):
    with pytest.raises(InvalidGridError, match=r"is singular|repair"):
        Grid((3, 3, 3), affine)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_tiny_and_huge_voxels_are_not_singular(scale):
    grid = Grid((3, 3, 3), np.diag([scale, scale, scale, 1.0]))
    np.testing.assert_allclose(grid.to_voxel(grid.to_mm([1, 2, 0.5])), [1, 2, 0.5])


def test_other_bad_grids_are_named():
    with pytest.raises(InvalidGridError, match="1 non-finite"):
        Grid((3, 3, 3), np.diag([1.0, np.nan, 1.0, 1.0]))
    with pytest.raises(InvalidGridError, match=r"shape \(3, 3\)"):
        Grid((3, 3, 3), np.eye(3))
    with pytest.raises(InvalidGridError, match="affine holds complex128 values"):
        Grid((3, 3, 3), np.eye(4) + 0j)
    for shape in (
        (3, 3),
        (3, 3, 3, 1),
        (3, 0, 3),
        (3, -1, 3),
        (3, 2.5, 3),
        (3, 2j, 3),
        (3, "x", 3),
    ):
        with pytest.raises(InvalidGridError, match="three positive sizes"):
            Grid(shape, np.eye(4))


def test_the_nearest_place_of_a_box_is_so_in_mm() -> None:
    sheared = Grid((6, 5, 7), [[2, 0.9, 0, -4], [0, 1.5, 0.8, 3], [0.6, 0, -3, 1], [0, 0, 0, 1]])
    rng = np.random.default_rng(0)
    low, high = np.array([0.5, 1.5, -0.5]), np.array([2.5, 2.5, 3.0])
    every = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 3), axis=-1).reshape(-1, 3)
    box = sheared.to_mm(low + every * (high - low))
    points = sheared.to_mm(rng.uniform(-3, 7, (100, 3)))
    found = sheared.nearest_in_boxes(points, low, high)
    within = sheared.to_voxel(found)
    assert (within > low - 1e-9).all()
    assert (within < high + 1e-9).all()
    gaps = np.linalg.norm(found - points, axis=1)
    dense = np.linalg.norm(box[None] - points[:, None], axis=2).min(axis=1)
    assert (gaps <= dense + 1e-9).all()
    assert (gaps >= dense - 0.15).all()  # half of what lies between two places of the box
    clipped = sheared.to_mm(np.clip(sheared.to_voxel(points), low, high))
    assert (np.linalg.norm(clipped - points, axis=1) - gaps).max() > 0.3
