"""The display space: volumes and points land on the same places, left is left."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from napari.layers import Image
from scipy.spatial.transform import Rotation

from napari_tractography.errors import InvalidGridError
from napari_tractography.geometry.grid import Grid
from napari_tractography.plugin.space.display import (
    DisplaySpace,
    display_space_of_layer,
)
from napari_tractography.plugin.space.views import orient

SHAPE = (4, 5, 6)


def affine_of(
    rotation_vector: tuple[float, float, float], sizes: tuple[float, float, float], shear: float
) -> np.ndarray:
    affine = np.eye(4)
    sheared = np.eye(3)
    sheared[0, 1] = shear
    affine[:3, :3] = Rotation.from_rotvec(rotation_vector).as_matrix() @ sheared * sizes
    affine[:3, 3] = (-7.5, 20.0, 3.25)
    return affine


signed_size = st.floats(0.5, 3.0).flatmap(lambda s: st.sampled_from([s, -s]))
angle = st.floats(-3.0, 3.0)
affines = st.builds(
    affine_of,
    st.tuples(angle, angle, angle),
    st.tuples(signed_size, signed_size, signed_size),
    st.floats(-0.3, 0.3),
)


def where_napari_draws(space: DisplaySpace, index_zyx: np.ndarray) -> np.ndarray:
    return index_zyx * np.array(space.scale) + np.array(space.translate)


@settings(deadline=None, max_examples=60)
@given(affines, st.integers(0, 10_000))
def test_a_voxel_is_drawn_where_its_centre_goes(affine: np.ndarray, seed: int) -> None:
    grid = Grid(SHAPE, affine)
    space = DisplaySpace.of(grid)
    voxel = tuple(np.random.default_rng(seed).integers(0, SHAPE))
    array = np.zeros(SHAPE)
    array[voxel] = 1
    drawn = where_napari_draws(space, np.argwhere(space.volume(array))[0])
    np.testing.assert_allclose(space.to_display([grid.to_mm(voxel)])[0], drawn, atol=1e-4)


@settings(deadline=None, max_examples=60)
@given(affines)
def test_volumes_are_in_the_order_of_nibabels_closest_canonical(affine: np.ndarray) -> None:
    array = np.arange(np.prod(SHAPE), dtype=np.int16).reshape(SHAPE)
    canonical = nib.as_closest_canonical(nib.Nifti1Image(array, affine))
    shown = DisplaySpace.of(Grid(SHAPE, affine)).volume(array)
    np.testing.assert_array_equal(shown, np.asarray(canonical.dataobj).T)


@settings(deadline=None, max_examples=60)
@given(affines)
def test_positions_on_the_screen_go_back_to_world_positions(affine: np.ndarray) -> None:
    space = DisplaySpace.of(Grid(SHAPE, affine))
    points = np.random.default_rng(0).uniform(-30, 30, (20, 3)).astype(np.float32)
    np.testing.assert_allclose(space.to_world(space.to_display(points)), points, atol=1e-3)


@settings(deadline=None, max_examples=60)
@given(affines)
def test_the_centre_of_an_oblique_volume_stays_in_place(affine: np.ndarray) -> None:
    grid = Grid(SHAPE, affine)
    centre = DisplaySpace.of(grid).to_display([grid.centre_mm])[0]
    np.testing.assert_allclose(centre, grid.centre_mm[::-1], atol=1e-4)


@pytest.mark.parametrize(
    "affine",
    [
        pytest.param(np.diag([2.0, 1.5, 3.0, 1.0]), id="RAS"),
        pytest.param(np.diag([-2.0, -1.5, 3.0, 1.0]), id="LPS"),
        pytest.param(
            np.array([[0, 0, 2.0, 5], [-1.0, 0, 0, 7], [0, 3.0, 0, -9], [0, 0, 0, 1]]),
            id="permuted",
        ),
    ],
)
def test_axis_aligned_points_are_ras_millimetres_reversed_and_not_copied(
    affine: np.ndarray,
) -> None:
    space = DisplaySpace.of(Grid(SHAPE, affine))
    points = np.random.default_rng(0).uniform(-9, 9, (7, 3)).astype(np.float32)
    shown = space.to_display(points)
    np.testing.assert_array_equal(shown, points[:, ::-1])
    assert np.shares_memory(shown, points)


def test_volumes_are_views_and_keep_further_axes() -> None:
    affine = affine_of((0.3, 2.0, -1.0), (-1.0, 2.0, 1.5), 0.1)
    space = DisplaySpace.of(Grid(SHAPE, affine))
    array = np.random.default_rng(0).normal(size=(*SHAPE, 3))
    shown = space.volume(array)
    assert np.shares_memory(shown, array)
    assert shown.shape[3] == 3
    np.testing.assert_array_equal(space.from_volume(shown), array)


def test_equal_grids_give_equal_spaces() -> None:
    affine = affine_of((0.1, 0.2, 0.3), (1.0, 2.0, 3.0), 0.0)
    assert DisplaySpace.of(Grid(SHAPE, affine)) == DisplaySpace.of(Grid(SHAPE, affine))
    assert DisplaySpace.of(Grid(SHAPE, affine)) != DisplaySpace.identity()


def test_a_layer_of_ours_gives_back_its_space() -> None:
    grid = Grid(SHAPE, affine_of((0.3, 2.0, -1.0), (-1.0, 2.0, 1.5), 0.1))
    space = DisplaySpace.of(grid)
    layer = Image(space.volume(np.zeros(SHAPE)), **space.layer_kwargs)
    found = display_space_of_layer(layer)
    assert found.grid == grid
    np.testing.assert_allclose(found.world_to_display, space.world_to_display, atol=1e-9)
    assert (found.axes, found.flips) == (space.axes, space.flips)


def test_a_layer_with_negative_scales_and_true_affine_in_the_metadata_is_understood() -> None:
    """napari-nifti shows S, A, R from high to low and keeps the oblique affine."""
    affine = affine_of((0.1, -0.2, 0.05), (2.0, 2.0, 3.0), 0.0)
    grid = Grid(SHAPE, affine)
    array = np.zeros(SHAPE)
    array[3, 1, 2] = 1
    layer = Image(
        array.T, scale=(-3, -2, -2), translate=(15.0, 8.0, 6.0), metadata={"affine": affine}
    )
    space = display_space_of_layer(layer)
    expected = layer.data_to_world(np.argwhere(array.T)[0])
    np.testing.assert_allclose(space.to_display([grid.to_mm((3, 1, 2))])[0], expected, atol=1e-4)


def test_a_layer_without_affine_is_taken_as_it_is_shown() -> None:
    layer = Image(np.zeros((6, 5, 4)), scale=(3, 2, 1), translate=(-1, -2, -3))
    space = display_space_of_layer(layer)
    assert space.grid is not None
    assert space.grid.shape == SHAPE
    np.testing.assert_allclose(space.grid.to_mm((1, 1, 1)), (-2, 0, 2))
    np.testing.assert_allclose(space.to_display([(1, 2, 3)])[0], (3, 2, 1))


@pytest.mark.parametrize(
    ("data", "metadata", "message"),
    [
        pytest.param(np.zeros((4, 4)), {}, "2 dimensions", id="2-D"),
        pytest.param(np.zeros((2, 4, 4, 4)), {}, "4 dimensions", id="4-D"),
        pytest.param(np.zeros((4, 4, 4)), {"affine": np.eye(3)}, r"\(3, 3\)", id="3x3"),
    ],
)
def test_layers_that_are_no_volume_are_refused(
    data: np.ndarray, metadata: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidGridError, match=message):
        display_space_of_layer(Image(data, metadata=metadata))


@pytest.mark.parametrize("first", [pytest.param(2.0, id="R"), pytest.param(-2.0, id="L")])
def test_left_is_on_the_left_and_anterior_up(make_napari_viewer, first: float) -> None:
    """One bright voxel at the left anterior corner of a volume, whichever way it is stored."""
    grid = Grid((9, 9, 3), np.diag([first, 2.0, 2.0, 1.0]))
    corners = np.array([(i, 8, 1) for i in (0, 8)])
    left = corners[np.argmin(grid.to_mm(corners)[:, 0])]
    array = np.zeros(grid.shape, np.float32)
    array[tuple(left)] = 1
    viewer = make_napari_viewer(show=True)
    orient(viewer)
    space = DisplaySpace.of(grid)
    viewer.add_image(space.volume(array), **space.layer_kwargs)
    viewer.dims.set_point(0, space.to_display([grid.to_mm(left)])[0, 0])
    picture = viewer.screenshot(flash=False)[..., :3].sum(axis=2)
    rows, columns = np.nonzero(picture > picture.max() / 2)
    assert columns.mean() < picture.shape[1] / 2
    assert rows.mean() < picture.shape[0] / 2


def test_how_far_apart_spaces_show_a_tilted_volume_has_a_closed_form() -> None:
    """A cube of 80 mm, turned by 20 degrees about its centre: its corners go farthest."""
    turned, angle = np.eye(4), np.deg2rad(20)
    turned[1:3, 1:3] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    affine = turned @ np.diag([2.0, 2, 2, 1]) @ translation(-19.5)
    straight = DisplaySpace.of(Grid((40, 40, 40), np.diag([2.0, 2, 2, 1]) @ translation(-19.5)))
    tilted = DisplaySpace.of(Grid((40, 40, 40), affine))
    far = 2 * np.hypot(40, 40) * np.sin(angle / 2)
    assert straight.apart(tilted) == pytest.approx(far)
    assert straight.apart(straight) == tilted.apart(tilted) == 0
    assert straight.apart(DisplaySpace.identity()) == 0


def translation(by: float) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, 3] = by
    return matrix
