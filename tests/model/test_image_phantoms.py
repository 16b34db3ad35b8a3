"""Phantoms as images: the truth is what was drawn, and fibres are seen in the texture."""

from __future__ import annotations

import numpy as np
import pytest
from structure_tensor import eig_special_3d, structure_tensor_3d

from napari_tractography.errors import InvalidParameterError
from napari_tractography.maps.angles import Axis, helix_angles_deg
from napari_tractography.model.image_phantoms import IMAGE_PHANTOMS, Tube, draw, make_image_phantom

SMALL = Tube(shape=(56, 56, 24), inner_vox=9.0, outer_vox=25.0)


def test_the_helix_of_the_tube_turns_evenly_through_the_wall() -> None:
    phantom = draw(SMALL)
    across = np.zeros((5, 3))
    across[:, 0] = np.linspace(9.1, 24.9, 5) * SMALL.voxel_um / 1000  # on a line from the middle
    axis = Axis((0, 0, 0), (0, 0, 1))
    found = helix_angles_deg(across, phantom.directions(across), axis)
    np.testing.assert_allclose(found, 60 - 120 * (np.linspace(9.1, 24.9, 5) - 9) / 16, atol=0.1)


def test_fibres_end_at_the_wall() -> None:
    phantom = draw(SMALL)
    inside, outside = phantom.image[phantom.fibres], phantom.image[~phantom.fibres]
    assert inside.mean() > outside.mean() + 5 * outside.std()
    middle = phantom.directions(phantom.grid.centre_mm[None])
    assert np.isnan(middle).all()
    assert phantom.grid.unit == "um"
    np.testing.assert_allclose(phantom.grid.voxel_sizes_mm, 0.02)
    np.testing.assert_allclose(phantom.grid.centre_mm, 0, atol=1e-12)


@pytest.mark.parametrize("name", IMAGE_PHANTOMS)
def test_the_texture_runs_along_the_fibres(name: str) -> None:
    """By the package structure-tensor; where tows touch, it sees both, hence the median."""
    phantom = draw(SMALL) if name == "tube" else make_image_phantom(name)
    tensor = structure_tensor_3d(phantom.image.astype(np.float32), 1.0, 3.0)
    _, found = eig_special_3d(tensor)  # (z, y, x) of arrays in that order: here of (x, y, z)
    voxels = np.argwhere(phantom.fibres)
    truth = phantom.directions(phantom.grid.to_mm(voxels))
    units = found[::-1][(slice(None), *voxels.T)].T
    away = np.rad2deg(np.arccos(np.clip(np.abs((units * truth).sum(axis=1)), 0, 1)))
    assert np.median(away) < 10


def test_a_seed_makes_the_same_image_again() -> None:
    first, second = draw(SMALL, seed=3), draw(SMALL, seed=3)
    np.testing.assert_array_equal(first.image, second.image)
    assert (draw(SMALL, seed=4).image != first.image).mean() > 0.5


def test_a_phantom_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="no image phantom 'liver'; choose one of tube"):
        make_image_phantom("liver")
