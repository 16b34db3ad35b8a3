"""Warps of registration programs, against MRtrix3 and nitransforms, and files written by hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

import napari_tractography as nt
from napari_tractography.errors import FileError, InvalidParameterError
from napari_tractography.geometry.grid import Grid

pytest.importorskip("nitransforms", reason="nitransforms, of the extra warps, is not installed")

Points = NDArray[np.float64]
TURN = np.array([[0.8, -0.6, 0, 20], [0.6, 0.8, 0.1, -30], [0, -0.1, 1.1, 5], [0, 0, 0, 1.0]])
LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
# One as radiologists store images, one as neurologists do; both oblique.
TILT = np.array([[1, 0.1, 0, -20], [-0.1, 1, 0, 10], [0, 0, 1, -8], [0, 0, 0, 1.0]])
REFERENCE = Grid((14, 12, 10), TILT @ np.diag([-2, 2.5, 3, 1]))
MOVING = Grid((11, 13, 9), np.linalg.inv(TILT) @ np.diag([3, 2, 2.5, 1]))


def run(program: str, *arguments: Any) -> None:
    """Run a program of MRtrix3, without a word."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} of MRtrix3 is not installed")
    command = [path, "-quiet", "-force", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def points_in(grid: Grid, n: int = 200) -> Points:
    """Points anywhere between the centres of voxels."""
    high = np.array(grid.shape) - 1.0
    return grid.to_mm(np.random.default_rng(3).uniform(0, high, (n, 3)))


def centres(grid: Grid) -> Points:
    return grid.to_mm(np.moveaxis(np.indices(grid.shape), 0, -1))


def bent(points: Points) -> Points:
    """A smooth map from the space of the reference to that of the moving image."""
    x, y, z = np.moveaxis(points, -1, 0)
    shifted = np.stack([x + 2 * np.sin(y / 9), y, z + 1.5 * np.sin(x / 7)], axis=-1)
    return shifted @ TURN[:3, :3].T + TURN[:3, 3]


def image(grid: Grid, values: Any, path: str, intent: int = 0) -> None:
    made = nib.Nifti1Image(np.asarray(values, np.float32), grid.affine)
    made.header["intent_code"] = intent
    nib.save(made, path)


def mapped(matrix: Points, points: Points) -> Points:
    return points @ matrix[:3, :3].T + matrix[:3, 3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the images ref.nii and in.nii."""
    monkeypatch.chdir(tmp_path)
    image(REFERENCE, np.ones(REFERENCE.shape), "ref.nii")
    image(MOVING, np.ones(MOVING.shape), "in.nii")
    return tmp_path


def write_itk(path: str, matrix: Points, centre: Points, kind: str = "AffineTransform") -> None:
    """Write y = A (x - c) + c + t in LPS, as ITK does."""
    lps = LPS @ matrix @ LPS
    shift = lps[:3, 3] - centre + lps[:3, :3] @ centre
    numbers = " ".join(f"{x:.9g}" for x in [*lps[:3, :3].ravel(), *shift])
    fixed = " ".join(f"{x:.9g}" for x in centre)
    Path(path).write_text(
        f"#Insight Transform File V1.0\n#Transform 0\nTransform: {kind}_double_3_3\n"
        f"Parameters: {numbers}\nFixedParameters: {fixed}\n"
    )


@pytest.mark.parametrize("name", ["a.txt", "a.tfm"])
def test_an_affine_of_itk(name: str) -> None:
    write_itk(name, TURN, np.array([5.0, -7.0, 11.0]), "MatrixOffsetTransformBase")
    points = points_in(REFERENCE)
    assert np.allclose(nt.load_warp(name).apply(points), mapped(TURN, points), atol=1e-4)


def test_an_affine_of_itk_in_a_file_of_matlab() -> None:
    from nitransforms.io.itk import ITKLinearTransform

    ITKLinearTransform.from_ras(TURN).to_filename("0GenericAffine.mat")
    points = points_in(REFERENCE)
    found = nt.load_warp("0GenericAffine.mat").apply(points)
    assert np.allclose(found, mapped(TURN, points), atol=1e-4)


def test_mrtrix3_reads_the_same_of_itk() -> None:
    write_itk("a.txt", TURN, np.array([5.0, -7.0, 11.0]))
    run("transformconvert", "a.txt", "itk_import", "mrtrix.txt")
    points = points_in(REFERENCE)
    found, other = (nt.load_warp(name).apply(points) for name in ("a.txt", "mrtrix.txt"))
    assert np.allclose(found, other, atol=1e-4)


def test_displacements_of_itk() -> None:
    moves = (bent(centres(REFERENCE)) - centres(REFERENCE)) * [-1, -1, 1]
    image(REFERENCE, moves[:, :, :, None], "1Warp.nii.gz", 1007)
    from nitransforms.nonlinear import DenseFieldTransform

    warp = nt.load_warp("1Warp.nii.gz")
    theirs = DenseFieldTransform.from_filename("1Warp.nii.gz", fmt="itk")
    at = centres(REFERENCE).reshape(-1, 3)
    assert np.allclose(warp.apply(at), bent(at), atol=1e-4)
    assert np.allclose(warp.apply(at), theirs.map(at), atol=1e-3)


def test_a_composite_of_itk_goes_from_its_last_part_to_its_first() -> None:
    from nitransforms.manip import TransformChain

    lps = LPS @ TURN @ LPS
    moves = (bent(centres(REFERENCE)) - centres(REFERENCE)) * [-1, -1, 1]
    axes = LPS @ REFERENCE.affine
    zooms = REFERENCE.voxel_sizes_mm
    fixed = [*REFERENCE.shape, *axes[:3, 3], *zooms, *(axes[:3, :3] / zooms).ravel()]
    with h5py.File("Composite.h5", "w") as file:
        group = file.create_group("TransformGroup")
        for number, (kind, parameters, constants) in enumerate(
            [
                (b"CompositeTransform_double_3_3", [], []),
                (b"AffineTransform_double_3_3", [*lps[:3, :3].ravel(), *lps[:3, 3]], [0, 0, 0]),
                (
                    b"DisplacementFieldTransform_double_3_3",
                    np.moveaxis(moves, -1, 0).ravel(order="F"),
                    fixed,
                ),
            ]
        ):
            part = group.create_group(str(number))
            part["TransformType"] = [kind]
            if number:
                part["TransformParameters"] = np.asarray(parameters, np.float64)
                part["TransformFixedParameters"] = np.asarray(constants, np.float64)
    at = centres(REFERENCE).reshape(-1, 3)
    found = nt.load_warp("Composite.h5").apply(at)
    assert np.allclose(found, mapped(TURN, bent(at)), atol=1e-3)
    assert np.allclose(found, TransformChain.from_filename("Composite.h5", fmt="itk").map(at),
                       atol=1e-3)  # fmt: skip


def test_an_affine_of_freesurfer() -> None:
    from nitransforms.io.lta import FSLinearTransform

    images = [nib.load(name) for name in ("in.nii", "ref.nii")]
    FSLinearTransform.from_ras(TURN, *images).to_filename("a.lta")
    points = points_in(REFERENCE)
    assert np.allclose(nt.load_warp("a.lta").apply(points), mapped(TURN, points), atol=1e-3)


def fsl_coordinates(grid: Grid, points: Points) -> Points:
    """mm along the axes of an image, the first from the other end unless it is left-handed."""
    found = grid.to_voxel(points) * grid.voxel_sizes_mm
    if np.linalg.det(grid.affine) > 0:
        found[..., 0] = (grid.shape[0] - 1) * grid.voxel_sizes_mm[0] - found[..., 0]
    return found


def write_flirt(path: str, matrix: Points, reference: Grid, moving: Grid) -> None:
    """Write the matrix that takes FSL's coordinates in -in to those in -ref."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    there = fsl_coordinates(moving, mapped(matrix, corners))
    here = fsl_coordinates(reference, corners)
    wide = [np.hstack([points, np.ones((4, 1))]).T for points in (there, here)]
    np.savetxt(path, wide[1] @ np.linalg.inv(wide[0]), fmt="%.10f")


@pytest.mark.parametrize(("ref", "moving"), [(REFERENCE, MOVING), (MOVING, REFERENCE)])
def test_a_matrix_of_flirt(ref: Grid, moving: Grid) -> None:
    write_flirt("f.mat", TURN, ref, moving)
    points = points_in(ref)
    found = nt.load_warp("f.mat", fsl_ref=ref, fsl_in=moving).apply(points)
    assert np.allclose(found, mapped(TURN, points), atol=1e-4)


def test_mrtrix3_reads_the_same_of_flirt() -> None:
    write_flirt("f.mat", TURN, REFERENCE, MOVING)
    run("transformconvert", "f.mat", "in.nii", "ref.nii", "flirt_import", "mrtrix.txt")
    points = points_in(REFERENCE)
    found = nt.load_warp("f.mat", fsl_ref="ref.nii", fsl_in="in.nii").apply(points)
    assert np.allclose(found, nt.load_warp("mrtrix.txt").apply(points), atol=1e-3)


@pytest.mark.parametrize("is_relative", [True, False])
@pytest.mark.parametrize(("ref", "moving"), [(REFERENCE, MOVING), (MOVING, REFERENCE)])
def test_a_field_of_fnirt(ref: Grid, moving: Grid, is_relative: bool) -> None:
    values = fsl_coordinates(moving, bent(centres(ref)))
    if is_relative:  # of a registration, whose displacements are small beside the image
        near = centres(ref) + bent(centres(ref)) * 0.05
        values = fsl_coordinates(moving, near) - fsl_coordinates(ref, centres(ref))
    wanted = near if is_relative else bent(centres(ref))
    image(ref, values, "field.nii.gz", 2006)
    warp = nt.load_warp("field.nii.gz", fsl_ref=ref, fsl_in=moving)
    assert np.allclose(warp.apply(centres(ref).reshape(-1, 3)), wanted.reshape(-1, 3), atol=1e-3)


def test_what_fsl_lacks_is_said() -> None:
    write_flirt("f.mat", TURN, REFERENCE, MOVING)
    with pytest.raises(InvalidParameterError, match="fsl_ref = IMAGE and fsl_in = "):
        nt.load_warp("f.mat")
    image(REFERENCE, np.zeros((*REFERENCE.shape, 3)), "coefficients.nii.gz", 2007)
    with pytest.raises(FileError, match="fnirtfileutils"):
        nt.load_warp("coefficients.nii.gz", fsl_ref="ref.nii", fsl_in="in.nii")
    image(REFERENCE, np.zeros((*REFERENCE.shape, 3)), "field.nii.gz", 2006)
    with pytest.raises(FileError, match="on which the field was made"):
        nt.load_warp("field.nii.gz", fsl_ref="in.nii", fsl_in="in.nii")


def test_a_deformation_field_of_mrtrix3() -> None:
    """The identity is MRtrix3's; a bent one takes streamlines where tcktransform does."""
    run("warpinit", "ref.nii", "identity.mif")
    points = points_in(REFERENCE)
    assert np.allclose(nt.load_warp("identity.mif").apply(points), points, atol=1e-4)
    image(REFERENCE, bent(centres(REFERENCE)), "bent.nii.gz")
    lines = nt.Tractogram(points, [0, 50, 120, 200])
    lines.save("lines.tck")
    run("tcktransform", "lines.tck", "bent.nii.gz", "theirs.tck")
    theirs = nt.load_tractogram("theirs.tck")
    ours = lines.warped(nt.load_warp("bent.nii.gz"))
    assert ours.offsets.tolist() == theirs.offsets.tolist()
    assert np.abs(ours.points - theirs.points).max() < 1e-3


def test_zeros_are_outside_where_several_are_and_so_is_nan() -> None:
    grid = Grid((5, 5, 5), np.diag([2.0, 2, 2, 1]))  # whose first voxel lies at the origin
    image(grid, centres(grid), "whole.nii.gz")
    assert np.isfinite(nt.load_warp("whole.nii.gz").apply([[0, 0, 0]])).all()
    for nothing in (0.0, np.nan):
        positions = centres(grid)
        positions[4] = nothing
        image(grid, positions, "part.nii.gz")
        found = nt.load_warp("part.nii.gz").apply([[6, 4, 4], [7, 4, 4], [8, 4, 4]])
        assert np.isnan(found).any(axis=1).tolist() == [False, True, True]


def test_fields_that_mean_something_else_are_refused() -> None:
    positions = bent(centres(REFERENCE))
    small = (np.sin(centres(REFERENCE) / 5)).astype(np.float32)
    image(REFERENCE, small, "moves.nii.gz")
    with pytest.raises(FileError, match="displacements"):
        nt.load_warp("moves.nii.gz")
    image(REFERENCE, np.stack([positions] * 4, axis=-1), "full.nii.gz")
    with pytest.raises(FileError, match="warpconvert"):
        nt.load_warp("full.nii.gz", kind="mrtrix3")
    with pytest.raises(FileError, match="shape"):
        nt.load_warp("ref.nii")
    with pytest.raises(FileError, match="no field of lta"):
        nt.load_warp("moves.nii.gz", kind="lta")
    image(REFERENCE, np.full((*REFERENCE.shape, 3), np.nan), "empty.nii.gz")
    with pytest.raises(FileError, match="no position"):
        nt.load_warp("empty.nii.gz")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "1 2 3\n4 5 6\n", "shape"),
        ("a.txt", "no numbers\n", "truncated or corrupt"),
        ("a.txt", "0 0 0 0\n" * 3, "cannot be inverted"),
        ("a.lta", "type = 1\n", "truncated|no transform"),
        ("a.h5", "no HDF5", "a.h5"),
        (
            "a.txt",
            "#Insight Transform File V1.0\n#Transform 0\nTransform: Euler3DTransform_double_3_3\n"
            "Parameters: 0 0 0 1 2 3\nFixedParameters: 0 0 0 0\n",
            "truncated|no transform",
        ),
    ],
)
def test_files_that_hold_no_affine(name: str, text: str, words: str) -> None:
    Path(name).write_text(text)
    with pytest.raises(FileError, match=words):
        nt.load_warp(name)


def test_an_unknown_kind_and_a_missing_file() -> None:
    with pytest.raises(InvalidParameterError, match="mrtrix3"):
        nt.load_warp("ref.nii", kind="spm")
    with pytest.raises(FileError, match=r"nothing\.nii"):
        nt.load_warp("nothing.nii")
