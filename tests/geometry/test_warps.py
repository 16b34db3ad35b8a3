"""Warps against maps that are known in closed form, with their inverses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from napari_tractography.errors import InvalidWarpError
from napari_tractography.geometry.grid import Grid
from napari_tractography.geometry.warps import TOLERANCE_MM, Warp

Points = NDArray[np.float64]
TURN = np.array([[0.8, -0.6, 0.0, 20.0], [0.6, 0.8, 0.1, -30.0], [0, -0.1, 1, 5], [0, 0, 0, 1]])
# Oblique, anisotropic and left-handed.
GRID = Grid((30, 25, 20), TURN @ [[-2, 0, 0, 30], [0, 2.5, 0, -25], [0, 0, 3, -30], [0, 0, 0, 1]])


def bent(points: Points) -> Points:
    """Three shears, each along one axis by another coordinate, and a turn: one-to-one."""
    x, y, z = points.T
    y = y + 3 * np.sin(x / 12)
    z = z + 2 * np.sin(y / 15)
    x = x + 4 * np.sin(z / 14)
    return np.stack([x, y, z], axis=1) @ TURN[:3, :3].T + TURN[:3, 3]


def unbent(points: Points) -> Points:
    x, y, z = ((points - TURN[:3, 3]) @ np.linalg.inv(TURN[:3, :3]).T).T
    x = x - 4 * np.sin(z / 14)
    z = z - 2 * np.sin(y / 15)
    y = y - 3 * np.sin(x / 12)
    return np.stack([x, y, z], axis=1)


def centres(grid: Grid) -> Points:
    return grid.to_mm(np.moveaxis(np.indices(grid.shape), 0, -1))


def inside(grid: Grid, n: int = 2000, margin: float = 0.0) -> Points:
    """Points anywhere in a grid, so far in voxels from its ends."""
    low, high = np.full(3, margin - 0.5), np.array(grid.shape) - 0.5 - margin
    return grid.to_mm(np.random.default_rng(1).uniform(low, high, (n, 3)))


@pytest.fixture(scope="module")
def field() -> Warp:
    positions = bent(centres(GRID).reshape(-1, 3)).reshape(*GRID.shape, 3)
    return Warp.field(positions, GRID)


def test_the_closed_form_is_inverse_to_itself() -> None:
    points = inside(GRID)
    assert np.allclose(unbent(bent(points)), points, atol=1e-9)


def test_an_affine_and_its_inverse() -> None:
    points, warp = inside(GRID), Warp.affine(TURN)
    assert np.allclose(warp.apply(points), points @ TURN[:3, :3].T + TURN[:3, 3])
    assert np.allclose(warp.inverse().apply(warp.apply(points)), points)
    assert warp.apply([1, 2, 3]).shape == (1, 3)


def test_a_field_is_between_voxels_what_it_samples(field: Warp) -> None:
    """Trilinear interpolation is off by the second derivative, a few hundredths of a mm."""
    points = inside(GRID, margin=0.5)
    assert np.abs(field.apply(points) - bent(points)).max() < 0.1
    at = centres(GRID).reshape(-1, 3)
    assert np.allclose(field.apply(at), bent(at), atol=1e-4)


def test_a_field_of_an_affine_is_that_affine_to_the_ends_of_its_voxels() -> None:
    warp = Warp.field(centres(GRID) @ TURN[:3, :3].T + TURN[:3, 3], GRID)
    points = np.concatenate([inside(GRID), GRID.to_mm([[-0.499, 24.499, 19.499]])])
    assert np.allclose(warp.apply(points), Warp.affine(TURN).apply(points), atol=1e-4)
    outside = GRID.to_mm([[-0.501, 3, 3], [3, 24.501, 3], [3, 3, -0.51], [1e9, 0, 0]])
    assert np.isnan(warp.apply(outside)).all()
    assert np.isnan(warp.apply([[np.nan, 0, 0]])).all()


def test_the_way_back_through_a_field(field: Warp) -> None:
    back, points = field.inverse(), inside(GRID)
    assert np.abs(back.apply(field.apply(points)) - points).max() < 10 * TOLERANCE_MM
    targets = bent(inside(GRID, margin=1.0))
    assert np.abs(back.apply(targets) - unbent(targets)).max() < 0.1
    assert back.inverse().apply(points).tolist() == field.apply(points).tolist()


def test_what_comes_from_nowhere_is_nowhere(field: Warp) -> None:
    found = field.inverse().apply([[1e4, 0, 0], [np.nan, 0, 0], *bent(inside(GRID, 1))])
    assert np.isnan(found).all(axis=1).tolist() == [True, True, False]


def test_a_chain_goes_one_after_the_other(field: Warp) -> None:
    points = inside(GRID, margin=1.0)
    chain = field.then(Warp.affine(TURN))
    wanted = Warp.affine(TURN).apply(field.apply(points))
    assert chain.apply(points).tolist() == wanted.tolist()
    assert np.abs(chain.inverse().apply(wanted) - points).max() < 10 * TOLERANCE_MM


def test_beside_a_voxel_without_a_position_there_is_none() -> None:
    grid = Grid((4, 3, 3), np.eye(4))
    positions = centres(grid)
    positions[3] = np.nan
    warp = Warp.field(positions, grid)
    found = warp.apply([[1.9, 1, 1], [2, 1, 1], [2.1, 1, 1], [3, 1, 1]])
    assert np.isnan(found).any(axis=1).tolist() == [False, False, True, True]
    assert np.allclose(found[:2], [[1.9, 1, 1], [2, 1, 1]])
    back = warp.inverse().apply([[0.4, 1.2, 1.1], [2.6, 1, 1]])
    assert np.allclose(back[0], [0.4, 1.2, 1.1], atol=1e-3)
    assert np.isnan(back[1]).all()


def test_a_flat_field_is_read_along_its_plane() -> None:
    grid = Grid((5, 4, 1), np.eye(4))
    warp = Warp.field(centres(grid) + np.array([1, 2, 3]), grid)
    assert np.allclose(warp.apply([[1.5, 2.25, 0]]), [[2.5, 4.25, 3]])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.floats(0.0, 0.4))
def test_what_the_way_back_finds_leads_there(seed: int, size: float) -> None:
    """Of any field: a point is met, or said to be nowhere."""
    rng = np.random.default_rng(seed)
    grid = Grid((6, 5, 4), np.eye(4))
    warp = Warp.field(centres(grid) + rng.uniform(-size, size, (*grid.shape, 3)), grid)
    targets = rng.uniform(0.5, (4.5, 3.5, 2.5), (200, 3))
    found = warp.inverse().apply(targets)
    known = np.isfinite(found).all(axis=1)
    assert known.sum() > 150
    miss = np.linalg.norm(warp.apply(found[known]) - targets[known], axis=1)
    assert miss.max() <= 1.001 * TOLERANCE_MM  # voxels to mm and back


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(3), "4 x 4"),
        (np.diag([1, 0, 1, 1]), "cannot be inverted"),
        (np.diag([1, 1, 1, 2]), "cannot be inverted"),
        (np.full((4, 4), np.nan), "4 x 4"),
    ],
)
def test_an_affine_that_is_none_is_refused(matrix: Points, words: str) -> None:
    with pytest.raises(InvalidWarpError, match=words):
        Warp.affine(matrix)


def test_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidWarpError, match="shape"):
        Warp.field(np.zeros((2, 2, 2, 3)), GRID)
    with pytest.raises(InvalidWarpError, match="no position"):
        Warp.field(np.full((*GRID.shape, 3), np.nan), GRID)
    with pytest.raises(InvalidWarpError, match="shape"):
        Warp.affine(TURN).apply(np.zeros((3, 2)))
