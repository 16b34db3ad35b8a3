"""Tissue images: what is read, what is refused, and points on the interface."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidSeedsError, InvalidTissuesError
from napari_tractography.files.tissue_files import load_tissues
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.tissues import (
    CORTEX,
    DEEP,
    FLUID,
    FREESURFER_LABELS,
    LESION,
    N_TISSUES,
    WHITE,
    Tissues,
    check_tissues,
)

AFFINE = np.array([[-1.2, 0.1, 0.0, 9.0], [0.1, 1.5, 0.2, -4.0], [0, 0.1, 0.9, 2.0], [0, 0, 0, 1]])


def ball(n=16, radius=4.5, *, affine=AFFINE) -> Tissues:
    """A ball of white matter in cortex, smooth enough for an interface that is a sphere.

    ::

        c c c
        c w c
        c c c
    """
    index = np.indices((n, n, n)).reshape(3, -1).T
    mm = nib.affines.apply_affine(affine, index)
    centre = nib.affines.apply_affine(affine, np.full(3, (n - 1) / 2))
    white = np.clip(0.5 + (radius - np.linalg.norm(mm - centre, axis=1)) / 4, 0, 1)
    fractions = np.zeros((n, n, n, N_TISSUES), np.float32)
    fractions[..., WHITE] = white.reshape(n, n, n)
    fractions[..., CORTEX] = 1 - fractions[..., WHITE]
    return Tissues(fractions, affine, name="ball")


def test_fractions_are_trilinear_between_voxel_centres():
    tissues = ball()
    rng = np.random.default_rng(0)
    vox = rng.uniform(1, 13, (50, 3))
    found = tissues.at(tissues.grid.to_mm(vox))
    from scipy.ndimage import map_coordinates

    for tissue in range(N_TISSUES):
        wanted = map_coordinates(tissues.fractions[..., tissue], vox.T, order=1)
        np.testing.assert_allclose(found[:, tissue], wanted, atol=1e-5)


def test_there_is_no_tissue_outside_the_image_nor_where_the_nearest_voxel_is_empty():
    fractions = np.zeros((4, 3, 3, 5))
    fractions[:2, ..., WHITE] = 1
    tissues = Tissues(fractions, np.eye(4))
    found = tissues.at([(1.4, 1, 1), (1.6, 1, 1), (-0.4, 1, 1), (-0.6, 1, 1)])
    np.testing.assert_allclose(found[:, WHITE], [0.6, 0, 1, 0], atol=1e-6)


def wrong_ones():
    good = ball().fractions
    yield pytest.param(good * 255, "values from 0 to 255", id="not from 0 to 1")
    yield pytest.param(good - 0.6, "no fractions", id="negative")
    yield pytest.param(good * 1j, "holds complex64 values", id="complex")
    yield pytest.param(good * 0.3, "add up to 0.3", id="sums far from 1")
    yield pytest.param(good + 0.4, "no fractions", id="sums above 1")
    yield pytest.param(good[..., :4], "five volumes", id="four volumes")
    yield pytest.param(good[..., 0], "five volumes", id="one volume")
    yield pytest.param(good * 0, "empty", id="empty")
    yield pytest.param(np.full_like(good, np.inf), "no fractions", id="infinite")
    one = good.copy()
    one[0, 0, 0, 0] = np.inf
    yield pytest.param(one, "from 0 to inf", id="infinite in one voxel")
    yield pytest.param(
        np.where(one == np.inf, 1e300, good.astype(float)), "from 0 to inf", id="beyond float32"
    )
    yield pytest.param(np.roll(good, 1, axis=3)[..., ::-1], "no white matter", id="order")


@pytest.mark.parametrize(("values", "message"), list(wrong_ones()))
def test_what_is_no_tissue_image_is_refused_with_what_is_wrong(values, message):
    with pytest.raises(InvalidTissuesError, match=message) as caught:
        Tissues(values, AFFINE, name="5tt.nii")
    assert "5tt.nii" in str(caught.value)


def test_a_few_voxels_may_be_off_as_after_resampling():
    values = ball().fractions.copy()
    values[0, 0, 0] = (1.3, -0.2, 0, 0, 0)
    values[5, 5, 5] = np.nan
    tissues = Tissues(values, AFFINE)
    assert tissues.fractions.min() == 0
    assert tissues.fractions.max() == 1


def test_an_image_elsewhere_is_refused():
    fod = nt.Grid((10, 10, 10), np.diag([2.0, 2, 2, 1]))
    check_tissues(ball(affine=np.eye(4)), fod)
    away = np.eye(4)
    away[:3, 3] = 300
    with pytest.raises(InvalidTissuesError, match="does not overlap the FOD"):
        check_tissues(ball(affine=away), fod)


@pytest.mark.parametrize("end", [0, -1])
def test_an_image_may_overlap_with_one_voxel(end):
    tissues = ball(affine=np.eye(4))
    corner = np.eye(4)
    corner[:3, 3] = np.argwhere(tissues.fractions.any(axis=3))[end]
    check_tissues(tissues, nt.Grid((1, 1, 1), corner))
    corner[:3, 3] += (2 * end + 1) * -1.0
    with pytest.raises(InvalidTissuesError, match="does not overlap"):
        check_tissues(tissues, nt.Grid((1, 1, 1), corner))


def test_labels_of_freesurfer_become_tissues():
    labels = np.array([0, 3, 1024, 2035, 12101, 10, 53, 41, 16, 251, 4, 24, 9999], np.int32)
    tissues = Tissues.from_labels(labels[:, None, None], np.eye(4))
    expected = [-1] + 4 * [CORTEX] + 2 * [DEEP] + 3 * [WHITE] + 2 * [FLUID] + [-1]
    found = np.where(tissues.fractions.any(-1), tissues.fractions.argmax(-1), -1)
    assert found.ravel().tolist() == expected


def test_every_label_of_an_aseg_is_a_tissue():
    """What is none would be outside the brain, where streamlines may end."""
    left = [2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 17, 18, 26, 28, 30, 31]
    right = [41, 42, 43, 44, 46, 47, 49, 50, 51, 52, 53, 54, 58, 60, 62, 63]
    middle = [14, 15, 16, 24, 72, 77, 80, 85, 251, 252, 253, 254, 255]
    members = {label for labels in FREESURFER_LABELS.values() for label in labels}
    assert not {*left, *right, *middle} - members
    # Lesions, and hypointensities outside white matter, as those of 5ttgen.
    assert set(FREESURFER_LABELS[LESION]) == {25, 57, 80, 81, 82}


def test_no_label_counts_as_two_tissues():
    members = [label for labels in FREESURFER_LABELS.values() for label in labels]
    assert len(members) == len(set(members))


def test_labels_may_be_mapped_by_hand():
    mapping = {WHITE: [7], CORTEX: [8], LESION: [9]}
    tissues = Tissues.from_labels(np.array([[[7, 8, 9]]]), np.eye(4), mapping=mapping)
    assert tissues.fractions.argmax(-1).ravel().tolist() == [WHITE, CORTEX, LESION]


@pytest.mark.parametrize(
    "mapping",
    [
        {5: [1]}, {-1: [1]}, {"white": [1]}, {WHITE: 3},
        {WHITE: "12"}, {WHITE: [2.5]}, {WHITE: ["2"]}, {WHITE: [None]}, [[1], [2]], None,
    ],
)  # fmt: skip
def test_mappings_to_no_tissue_are_refused(mapping):
    with pytest.raises(
        InvalidTissuesError, match=r"give a list of labels for each of 0 \(cortical"
    ):
        Tissues.from_labels(np.arange(4)[:, None, None], np.eye(4), mapping=mapping)


def test_other_labels_are_refused():
    with pytest.raises(InvalidTissuesError, match=r"no label of grey matter \(it has 0, 1, 2"):
        Tissues.from_labels(np.arange(3)[:, None, None], np.eye(4))
    with pytest.raises(InvalidTissuesError, match="holds <U2 values"):
        Tissues.from_labels(np.array([["41"], ["42"]])[:, None], np.eye(4))


@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
def test_five_volumes_and_labels_are_read(tmp_path, ending):
    given = ball()
    nib.save(nib.Nifti1Image(given.fractions, AFFINE), tmp_path / f"5tt{ending}")
    found = load_tissues(tmp_path / f"5tt{ending}")
    np.testing.assert_array_equal(found.fractions, given.fractions)
    assert found.grid.same_space(given.grid)
    labels = np.where(given.fractions[..., WHITE] > 0.5, 41, 42).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, AFFINE), tmp_path / f"aseg{ending}")
    aseg = load_tissues(tmp_path / f"aseg{ending}")
    np.testing.assert_array_equal(aseg.fractions[..., WHITE] == 1, labels == 41)


def test_a_file_of_other_volumes_is_refused(tmp_path):
    nib.save(nib.Nifti1Image(np.zeros((4, 4, 4, 6), np.float32), AFFINE), tmp_path / "dwi.nii")
    with pytest.raises(InvalidTissuesError, match="five volumes"):
        load_tissues(tmp_path / "dwi.nii")


def test_mrtrix_images_are_read(shared_data):
    tissues = load_tissues(shared_data / "act" / "5tt.mif")
    assert tissues.fractions.shape == (28, 10, 18, 5)
    assert tissues.fractions.sum(axis=(0, 1, 2)).tolist() == [144, 0, 1152, 1008, 0]


# -- the interface ---------------------------------------------------------------------------------


def test_seeds_lie_on_the_interface_uniformly():
    tissues = ball()
    centre = tissues.grid.to_mm(np.full(3, 7.5))
    away = nt.Seeds.on_interface(tissues, 4000).positions_mm - centre
    fractions = tissues.at(away + centre)
    assert np.abs(fractions[:, WHITE] - fractions[:, CORTEX]).max() < 1e-3
    radius = np.linalg.norm(away, axis=1)
    assert np.abs(radius - 4.5).max() < 0.15
    # Uniform on a sphere: each coordinate is uniform, after Archimedes.
    for along in (away / radius[:, None]).T:
        counts = np.histogram(along, bins=8, range=(-1, 1))[0]
        assert (((counts - 500) ** 2) / 500).sum() < 26  # chi-square of 7: p = 0.0005


@pytest.mark.parametrize("across", [0, 1, 2])
def test_seeds_are_uniform_by_area_where_voxels_are_flat_or_long(across):
    """A block of white matter with faces 12 mm long, of voxels of 0.3 mm and, one way, of 3."""
    edges = np.full(3, 0.3)
    edges[across] = 3.0
    shape = np.round(18 / edges).astype(int)
    grid = Grid(shape, np.diag([*edges, 1.0]))
    middle = grid.centre_mm
    centres = grid.to_mm(np.argwhere(np.ones(shape))).reshape(*shape, 3)
    is_white = (np.abs(centres - middle) < 6).all(axis=3)
    fractions = np.zeros((*shape, 5))
    fractions[..., WHITE], fractions[..., CORTEX] = is_white, ~is_white
    away = nt.Seeds.on_interface(Tissues(fractions, grid), 6000).positions_mm - middle
    # In the middle of each pair of faces, away from edges of the block.
    counts = [(np.abs(np.delete(away, axis, 1)) < 4.4).all(axis=1).sum() for axis in range(3)]
    mean = np.mean(counts)
    assert (((counts - mean) ** 2) / mean).sum() < 15.2  # chi-square of 2: p = 0.0005


def test_seed_i_on_the_interface_does_not_depend_on_how_many_there_are():
    every = nt.Seeds.on_interface(ball(), 60, random_seed=3)
    few = nt.Seeds.on_interface(ball(), 9, random_seed=3)
    np.testing.assert_array_equal(few.positions_mm, every.positions_mm[:9])
    np.testing.assert_array_equal(few.more(20, 31).positions_mm, every.positions_mm[31:51])


def test_without_an_interface_there_are_no_seeds():
    fractions = np.zeros((6, 6, 6, 5))
    fractions[..., WHITE] = 1
    with pytest.raises(InvalidSeedsError, match="do not touch"):
        nt.Seeds.on_interface(Tissues(fractions, np.eye(4)), 3)


def test_cells_that_are_surely_white_are() -> None:
    """Points in them have most of white matter by the interpolated fractions, on its grid."""
    rng = np.random.default_rng(3)
    shape = (7, 6, 5)
    fractions = rng.dirichlet([0.3, 0.3, 4.0, 0.3, 0.3], shape).astype(np.float32)
    fractions[rng.random(shape) < 0.05] = 0  # outside
    tissues = Tissues(fractions, np.eye(4))
    cells = tissues.white_cells
    assert cells.shape == tuple(n + 1 for n in shape)
    points = rng.uniform(-0.5, np.array(shape) - 0.5, (20_000, 3))
    is_white = cells[tuple((np.floor(points).astype(int) + 1).T)] != 0
    assert is_white.sum() > 500
    cortex, deep, white, fluid, lesion = tissues.at(points[is_white]).T
    assert (white > np.maximum(np.maximum(cortex + deep, fluid), lesion)).all()
    assert (white > 0.5).all()
