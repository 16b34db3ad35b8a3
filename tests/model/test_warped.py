"""Seeds and regions through warps."""

from __future__ import annotations

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidWarpError

TURN = np.array([[0.8, -0.6, 0, 20], [0.6, 0.8, 0, -30], [0, 0, 1, 5], [0, 0, 0, 1.0]])
SUBJECT = nt.Grid((20, 22, 18), np.diag([2.5, 2.5, 2.5, 1]))
FINE = nt.Grid((70, 72, 60), [[1, 0, 0, -20], [0, 1, 0, -30], [0, 0, 1, -2], [0, 0, 0, 1]])


def bent(points: np.ndarray) -> np.ndarray:
    """From the subject to the template."""
    x, y, z = np.moveaxis(points, -1, 0)
    moved = np.stack([x + 2 * np.sin(y / 9), y, z + 1.5 * np.sin(x / 7)], axis=-1)
    return moved @ TURN[:3, :3].T + TURN[:3, 3]


@pytest.fixture(scope="module")
def to_template() -> nt.Warp:
    at = SUBJECT.to_mm(np.moveaxis(np.indices(SUBJECT.shape), 0, -1))
    return nt.Warp.field(bent(at), SUBJECT)


def template_ball(centre: np.ndarray, radius: float) -> np.ndarray:
    voxels = FINE.to_mm(np.moveaxis(np.indices(FINE.shape), 0, -1))
    return np.linalg.norm(voxels - centre, axis=-1) <= radius


def test_a_mask_is_where_the_warp_leads_into_it(to_template: nt.Warp) -> None:
    """Voxels that are divided as the mask's are, no coarser, and cropped."""
    centre = bent(np.array([25.0, 28.0, 22.0]))
    region = nt.Region.mask(template_ball(centre, 6.0), FINE, "include", name="ball")
    found = region.warped(to_template.inverse(), SUBJECT)
    assert (found.role, found.name) == ("include", "ball")
    assert found.grid is not None
    assert found.voxels is not None
    assert np.allclose(found.grid.voxel_sizes_mm, 2.5 / 3)
    assert max(found.grid.shape) < 20
    # Where voxels lie is that of the grid of before.
    corner = SUBJECT.to_voxel(found.grid.to_mm([-0.5, -0.5, -0.5])) + 0.5
    assert np.allclose(corner * 3, np.round(corner * 3))
    points = SUBJECT.to_mm(np.random.default_rng(0).uniform(6, 16, (5000, 3)))
    distance = np.linalg.norm(to_template.apply(points) - centre, axis=1)
    inside = found.contains(points)
    assert inside[distance < 4.5].all()
    assert not inside[distance > 7.5].any()
    assert (distance < 4.5).sum() > 50


def test_a_plane_of_one_voxel_stays_closed(to_template: nt.Warp) -> None:
    """Streamlines must not slip through a thin region whose voxels are smaller than the FOD's."""
    plane = np.zeros(FINE.shape)
    plane[:, :, 24] = 1
    region = nt.Region.mask(plane, FINE, "exclude")
    found = region.warped(to_template.inverse(), SUBJECT)
    z = np.linspace(5, 40, 400)
    for x, y in np.random.default_rng(1).uniform(10, 35, (50, 2)):
        line = nt.Tractogram(np.column_stack([np.full(400, x), np.full(400, y), z]), [0, 400])
        assert not len(line.select(regions=[found]))


def test_a_sphere_goes_with_its_centre(to_template: nt.Warp) -> None:
    centre = np.array([25.0, 28.0, 22.0])
    there = to_template.apply([centre])[0]
    found = nt.Region.sphere(there, 4.0, "end", name="ball").warped(to_template.inverse(), SUBJECT)
    assert found.center_mm is not None
    assert np.allclose(found.center_mm, centre, atol=1e-3)
    assert (found.radius_mm, found.role, found.name) == (4.0, "end", "ball")


def test_seeds_and_their_directions(to_template: nt.Warp) -> None:
    points = np.array([[25.0, 28.0, 22.0], [20.0, 20.0, 20.0]])
    there = nt.Seeds.at(to_template.apply(points)).warped(to_template.inverse())
    assert np.allclose(there.positions_mm, points, atol=1e-3)
    assert there.directions is None
    assert not there.can_go_on
    turned = nt.Seeds.at(points, np.eye(3)[:2]).warped(nt.Warp.affine(TURN))
    assert turned.directions is not None
    assert np.allclose(turned.directions, TURN[:3, :2].T, atol=1e-4)


def test_a_direction_at_the_edge_of_a_field_has_one_side() -> None:
    grid = nt.Grid((3, 3, 3), np.eye(4))
    positions = np.moveaxis(np.indices(grid.shape), 0, -1) @ TURN[:3, :3].T
    edge = nt.Seeds.at([[2.49, 1, 1]], [[1, 0, 0]]).warped(nt.Warp.field(positions, grid))
    assert edge.directions is not None
    assert np.allclose(edge.directions, TURN[:3, 0], atol=1e-3)


def test_what_has_no_place_there_is_refused(to_template: nt.Warp) -> None:
    back = to_template.inverse()
    with pytest.raises(InvalidWarpError, match="1 of 2 seeds"):
        nt.Seeds.at([[1e4, 0, 0], bent(np.array([25.0, 28, 22]))]).warped(back)
    with pytest.raises(InvalidWarpError, match="far"):
        nt.Region.sphere([1e4, 0, 0], 3.0, "include", name="far").warped(back, SUBJECT)
    affine = [[1, 0, 0, 900], *np.eye(4)[1:]]
    far = nt.Region.mask(np.ones((2, 2, 2)), affine, "include", name="far")
    with pytest.raises(InvalidWarpError, match="far"):
        far.warped(back, SUBJECT)
