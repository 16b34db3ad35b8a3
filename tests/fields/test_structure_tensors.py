"""Orientations of images: against known directions, the package on the whole, and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from structure_tensor import eig_special_3d, structure_tensor_3d
from waves import rings, straight

from napari_tractography import Fod
from napari_tractography.errors import FileError, InvalidImageError, InvalidParameterError
from napari_tractography.fields.structure_tensors import image_source
from napari_tractography.geometry.grid import Grid
from napari_tractography.recipes.volume_sources import VolumeSource

SHAPE = 24, 22, 20
ALL = (0, 0, 0), SHAPE
INNER = (slice(6, -6),) * 3
# Along no axis; voxel axes to RAS+ turn, flip and stretch.
ALONG = np.array([1.0, 2.0, -0.7])
AFFINE = np.array([[0, 0, -0.4, 3], [0.5, 0, 0, -7], [0, 0.5, 0, 1], [0, 0, 0, 1.0]])


def angles_deg(vectors, expected):
    """Return the angles of axes, none longer than 90 degrees."""
    lengths = np.linalg.norm(vectors, axis=-1) * np.linalg.norm(expected, axis=-1)
    cosines = np.abs((vectors * expected).sum(axis=-1)) / lengths
    return np.degrees(np.arccos(np.clip(cosines, 0, 1)))


def test_directions_are_those_of_the_fibres_in_ras_axes():
    image = straight(SHAPE, np.linalg.inv(AFFINE[:3, :3]) @ (AFFINE[:3, :3] @ ALONG))
    found = image_source(image, AFFINE).vectors(*ALL)
    assert found.shape == (*SHAPE, 3)
    assert found.dtype == np.float32
    # Filters sample a Gaussian at voxels: off by a degree or so across these waves.
    assert angles_deg(found[INNER], AFFINE[:3, :3] @ ALONG).max() < 2.0
    assert np.linalg.norm(found[INNER], axis=-1).min() > 0.2
    assert np.linalg.norm(found, axis=-1).max() <= 1 + 1e-6


def test_directions_are_the_packages_own_on_the_whole_image():
    image = rings(SHAPE) + np.random.default_rng(1).normal(0, 20, SHAPE).astype(np.float32)
    tensor = structure_tensor_3d(image, 1.0, 3.0).astype(np.float64)
    values, vectors = eig_special_3d(tensor)
    found = image_source(image, np.eye(4)).vectors(*ALL)
    own = np.moveaxis(vectors[::-1], 0, -1)  # the package has the last axis first
    agree = angles_deg(found, own)
    # float32: the cosine of 0.03 degrees. Less where two eigenvalues are nearly the same.
    assert agree[np.linalg.norm(found, axis=-1) > 0.01].max() < 0.1
    linearity = (values[1] - values[2]) / values[0]
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), linearity, atol=1e-5)


@pytest.mark.parametrize("size", [7, 16])
def test_parts_have_the_same_bits_as_the_whole(size):
    image = rings(SHAPE).astype(np.uint16)
    source = image_source(image, AFFINE, 0.5, 1.0, bright=True)
    whole = source.vectors(*ALL)
    parts = np.zeros_like(whole)
    for first in np.ndindex(*(-(-n // size) for n in SHAPE)):
        low = np.array(first) * size
        high = np.minimum(low + size, SHAPE)
        parts[tuple(map(slice, low, high))] = source.vectors(low, high)
    assert whole.any()
    assert np.array_equal(parts, whole)


def test_fibres_along_an_axis_or_in_a_plane_of_two_have_a_direction():
    """There the package's own formula for the vector divides numbers that are next to zero."""
    for along in (np.array([0, 0, 1.0]), np.array([1.0, 0, 0]), np.array([1.0, 1.0, 0])):
        image = straight((16, 16, 16), along)
        image[...] = np.rint(image)
        found = image_source(image, np.eye(4)).vectors((0, 0, 0), (16, 16, 16))
        assert angles_deg(found[INNER], along).max() < 3.0


def test_dark_fibres_have_the_directions_of_bright_ones():
    image = straight(SHAPE, ALONG)
    bright, dark = (image_source(i, np.eye(4)).vectors(*ALL) for i in (image, -image))
    np.testing.assert_allclose(np.abs(bright), np.abs(dark), atol=1e-5)
    halves = [
        image_source(image, np.eye(4), bright=which).vectors(*ALL).any(axis=-1)
        for which in (True, False)
    ]
    assert np.array_equal(halves[0], ~halves[1])


def test_there_is_none_in_flat_parts_near_nan_outside_the_mask_and_below_the_floor():
    image = straight((40, 20, 20), ALONG)
    image[20:] = 1000.0
    image[0, 0, 0] = np.nan
    mask = np.ones(image.shape, np.uint8)
    mask[:, :3] = 0
    box = (0, 0, 0), image.shape
    found = image_source(image, np.eye(4), 0.5, 1.0, mask=mask).vectors(*box)
    assert not found[27:].any()  # both filters reach 6 voxels
    assert not found[:, :3].any()
    assert not found[:7, :7, :7].any()
    assert found[10:18, 3:].any(axis=-1).all()
    floor = image_source(image, np.eye(4), 0.5, 1.0, min_linearity=0.5).vectors(*box)
    lengths = np.linalg.norm(floor, axis=-1)
    assert 0 < (lengths > 0).sum() < (found != 0).any(axis=-1).sum()
    assert lengths[lengths > 0].min() >= 0.5 - 1e-6


def test_the_mask_is_where_it_is_neither_zero_nor_nan():
    image, mask = rings(SHAPE), np.zeros(SHAPE, np.float32)
    mask[4:8], mask[8:12], mask[12:16] = -2, np.nan, 0.5
    found = image_source(image, np.eye(4), mask=mask).vectors(*ALL).any(axis=-1)
    inside = np.isin(np.arange(SHAPE[0]), [*range(4, 8), *range(12, 16)])
    assert found[inside].all()
    assert not found[~inside].any()
    kept, _ = VolumeSource.of_array(mask, Grid(SHAPE, np.eye(4))).load()  # as in a recipe
    assert np.array_equal(kept, found)


def test_micrometres_are_the_same_as_millimetres():
    image = straight(SHAPE, ALONG)
    in_mm = image_source(image, np.diag([0.01, 0.01, 0.02, 1]), 0.02, 0.04)
    in_um = image_source(image, np.diag([10.0, 10.0, 20.0, 1]), 0.02, 0.04, unit="um")
    np.testing.assert_allclose(in_um.grid.affine, in_mm.grid.affine)
    np.testing.assert_allclose(in_um.vectors(*ALL), in_mm.vectors(*ALL), atol=1e-6)
    assert in_um.scales_vox == (pytest.approx([2, 2, 1]), pytest.approx([4, 4, 2]))


@pytest.mark.parametrize(
    ("image", "options", "message"),
    [
        pytest.param(np.zeros((9, 9)), {}, "a single slice", id="2-D"),
        pytest.param(np.zeros((1, 9, 9)), {}, "a single slice", id="one slice"),
        pytest.param(np.zeros((4, 9, 9, 9)), {}, "one time point, and one channel", id="4-D"),
        pytest.param(np.full((9, 9, 9), 3), {}, "is 3 everywhere", id="flat"),
        pytest.param(np.full((9, 9, 9), np.nan), {}, "no number that is finite", id="NaN"),
        pytest.param(np.zeros((9, 9, 9), complex), {}, "give grey values", id="complex"),
        pytest.param(rings(SHAPE), {"sigma_mm": 0.4}, "sigma_mm = 0.4 mm is below", id="sigma"),
        pytest.param(rings(SHAPE), {"rho_mm": 0.9}, "rho_mm = 0.9 mm is below", id="rho"),
        pytest.param(rings(SHAPE), {"rho_mm": 11.0}, "more than half the extent", id="beyond"),
        pytest.param(rings(SHAPE), {"sigma_mm": np.nan}, "sigma_mm = nan", id="scale of NaN"),
        pytest.param(rings(SHAPE), {"mask": np.ones((2, 2, 2))}, "The mask has shape", id="mask"),
    ],
)
def test_what_is_no_image_with_fibres_is_told_in_a_sentence(image, options, message):
    with pytest.raises(InvalidImageError, match=message) as raised:
        Fod.from_image(image, np.eye(4), **options)
    assert str(raised.value).endswith(".")


def test_a_grid_of_another_shape_is_refused():
    with pytest.raises(
        InvalidImageError, match=r"shape \(24, 22, 20\) but its grid has \(9, 9, 9\)"
    ):
        image_source(rings(SHAPE), Grid((9, 9, 9), np.eye(4)))
    assert image_source(rings(SHAPE), Grid(SHAPE, np.eye(4), unit="um")).grid.unit == "um"


def test_other_numbers_that_are_impossible():
    image = rings(SHAPE)
    for options, message in (
        ({"unit": "inch"}, "'inch' is no unit"),
        ({"min_linearity": 2}, "min_linearity = 2 is no fraction"),
        ({"memory_limit": 1000}, "no room for a block"),
        ({"memory_limit": np.nan}, "memory_limit = nan bytes"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            Fod.from_image(image, np.eye(4), **options)


def test_an_image_without_a_scale_is_taken_and_said_so(caplog):
    fod = Fod.from_image(rings(SHAPE), unit="um", name="scan")
    assert "scan has no physical scale: a voxel counts as 1 um" in caplog.text
    np.testing.assert_allclose(fod.grid.voxel_sizes_mm, 1e-3)
    assert fod.worked_out()[1].unit == fod.grid.unit == "um"


def test_an_array_that_cannot_be_read_is_told_with_its_place():
    class Broken:
        shape, dtype = (64, 64, 64), np.dtype(np.uint8)

        def __getitem__(self, box):
            raise KeyError("chunk 0.1.0")

    source = image_source(Broken(), np.eye(4), name="scan")
    with pytest.raises(FileError, match=r"scan cannot be read from voxel \[0, 0, 0\] .*0\.1\.0"):
        source.vectors((0, 0, 0), (8, 8, 8))


@pytest.mark.parametrize("library", ["dask", "zarr"])
def test_arrays_of_other_libraries_are_read_by_blocks(library):
    image = straight(SHAPE, ALONG).astype(np.uint16)
    if library == "dask":
        array = pytest.importorskip("dask.array", reason="Dask is not installed").from_array(
            image, chunks=7
        )
    else:
        array = pytest.importorskip("zarr", reason="zarr is not installed").array(
            image, chunks=(7, 7, 7)
        )
    by_blocks = image_source(array, np.eye(4), 0.5, 1.0).vectors((3, 4, 5), (17, 9, 20))
    assert np.array_equal(
        by_blocks, image_source(image, np.eye(4), 0.5, 1.0).vectors((3, 4, 5), (17, 9, 20))
    )


def test_of_several_scales_the_first_counts():
    image = straight(SHAPE, ALONG)
    assert image_source([image, image[::2, ::2, ::2]], np.eye(4)).grid.shape == SHAPE
