"""Volumes are written as they are, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import FileError, InvalidMaskError, InvalidRegionError
from napari_tractography.files.volume_files import (
    check_volume_target,
    load_grid,
    load_volume,
    save_volume,
)
from napari_tractography.geometry.grid import Grid
from napari_tractography.recipes.volume_sources import VolumeSource

AFFINE = np.array([[0, -2.0, 0, 5], [1.5, 0, 0, -7], [0, 0.0, 3, 1], [0, 0, 0, 1]])
GRID = Grid((2, 3, 4), AFFINE)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (np.bool_, np.uint8),
        (np.uint8, np.uint8),
        (np.int32, np.int32),
        (np.int64, np.int32),
        (np.uint64, np.int32),
        (np.uint32, np.uint32),
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float32),
    ],
)
def test_volume_comes_back(
    tmp_path: Path, ending: str, dtype: type[np.generic], stored: type[np.generic]
) -> None:
    values = (np.arange(24).reshape(2, 3, 4) % 2).astype(dtype)
    save_volume(values, GRID, tmp_path / f"map{ending}")
    image = nib.load(tmp_path / f"map{ending}")
    assert image.get_data_dtype() == stored
    assert np.array_equal(np.asarray(image.dataobj), values)
    assert np.allclose(image.get_sform(), AFFINE)
    assert np.allclose(image.get_qform(), AFFINE, atol=1e-5)
    again, grid = load_volume(tmp_path / f"map{ending}")
    assert np.array_equal(again, values)
    assert grid.same_space(GRID)


def test_sheared_grid_keeps_its_sform(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    affine = AFFINE.copy()
    affine[0, 0] = 0.7
    save_volume(np.ones(GRID.shape), Grid(GRID.shape, affine), tmp_path / "map.nii")
    assert np.allclose(nib.load(tmp_path / "map.nii").affine, affine)
    load_volume(tmp_path / "map.nii")
    assert not caplog.messages  # of forms that contradict each other


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("map.png", "map.png does not end like a volume to write"),
        ("absent/map.nii", "does not exist"),
        ("folder.nii", "is a folder"),
    ],
)
def test_unwritable_target_is_named_and_nothing_left(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder.nii").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileError, match=words):
        save_volume(np.ones(GRID.shape), GRID, tmp_path / name)
    with pytest.raises(FileError, match=words):
        check_volume_target(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_values_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"\(4, 3, 2\)"):
        save_volume(np.ones((4, 3, 2)), GRID, tmp_path / "map.nii")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_large_labels_are_kept_as_far_as_32_bits_go(
    tmp_path: Path, dtype: type[np.generic]
) -> None:
    labels = np.full(GRID.shape, 2**32 - 1, dtype)
    save_volume(labels, GRID, tmp_path / "map.nii")
    assert np.array_equal(load_volume(tmp_path / "map.nii")[0], labels)


LARGE = 576_073_732  # of the Allen atlas; its neighbour is another label


def save_labels(path: Path, dtype: type[np.generic], slope: float = 1.0) -> Path:
    """Write half a volume of one label and half of the next."""
    header = nib.Nifti1Header()
    header.set_data_shape(GRID.shape)
    header.set_data_dtype(dtype)
    header.set_sform(AFFINE, 1)
    header["vox_offset"], header["magic"] = 352, b"n+1"
    header["scl_slope"], header["scl_inter"] = slope, 0 if slope == 1 else 1
    values = np.full(GRID.shape, LARGE / slope)
    values[..., 2:] += 1
    path.write_bytes(header.binaryblock + bytes(4) + values.astype(dtype).tobytes(order="F"))
    return path


@pytest.mark.parametrize(
    ("dtype", "slope", "labels"),
    [
        (np.float64, 1.0, [LARGE, LARGE + 1]),
        (np.int32, 1.0, [LARGE, LARGE + 1]),
        (np.int32, 2.0, [LARGE + 1, LARGE + 3]),
    ],
)
def test_labels_that_float32_cannot_hold_stay_apart(
    tmp_path: Path, dtype: type[np.generic], slope: float, labels: list[int]
) -> None:
    path = save_labels(tmp_path / "atlas.nii", dtype, slope)
    values, grid = load_volume(path)
    assert np.unique(values).tolist() == labels
    region = nt.Region.mask(values, grid, "include", label=labels[0])
    assert region.voxels.sum() == 12
    assert VolumeSource.file(path, label=labels[1]).load()[0].sum() == 12
    lines = nt.Tractogram.from_streamlines([grid.to_mm([[0, 0, 0], [0, 0, 3]])])
    assert nt.connectome(lines, values, grid).labels.tolist() == labels


def test_large_labels_with_nan_around_them_stay_apart(tmp_path: Path) -> None:
    path = save_labels(tmp_path / "atlas.nii", np.float64)
    values = nib.load(path).get_fdata()
    values[0] = np.nan
    nib.save(nib.Nifti1Image(values, AFFINE), tmp_path / "nan.nii")
    assert np.unique(load_volume(tmp_path / "nan.nii")[0]).tolist()[:2] == [LARGE, LARGE + 1]


def test_labels_that_a_file_itself_has_let_fall_together_are_refused(tmp_path: Path) -> None:
    path = save_labels(tmp_path / "atlas.nii", np.float32)
    values, grid = load_volume(path)
    with pytest.raises(InvalidMaskError, match="float32, which cannot tell label 576073733"):
        VolumeSource.file(path, label=LARGE + 1).load()
    with pytest.raises(InvalidRegionError, match="cannot tell label"):
        nt.Region.mask(values, grid, "include", label=LARGE)
    with pytest.raises(InvalidMaskError, match="up to 576073728 as float32"):
        nt.connectome(nt.Tractogram.empty(), values, grid)


def test_scalars_in_64_bits_are_read_as_32(tmp_path: Path) -> None:
    nib.save(nib.Nifti1Image(np.full(GRID.shape, 1e9 + 0.5), AFFINE), tmp_path / "map.nii")
    assert load_volume(tmp_path / "map.nii")[0].dtype == np.float32


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.full(GRID.shape, 2**32), "from 4294967296 to 4294967296"),
        (np.arange(24).reshape(GRID.shape) * 2**31 - 2**31, "from -2147483648 to"),
        (np.full(GRID.shape, 2**64 - 1, np.uint64), "32 bits cannot; renumber"),
        (np.ones(GRID.shape, complex), "complex128 values"),
        (np.full(GRID.shape, "a"), "not real numbers"),
        (np.zeros((1, 40_000, 1), np.uint8), "no more than 32767 voxels"),
    ],
)
def test_what_nifti_cannot_hold_is_said(tmp_path: Path, values: np.ndarray, words: str) -> None:
    with pytest.raises(FileError, match=words):
        save_volume(values, Grid(values.shape, AFFINE), tmp_path / "map.nii")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [nib.Nifti1Pair, nib.AnalyzeImage])
@pytest.mark.parametrize("ending", [".hdr", ".img"])
@pytest.mark.parametrize("read", [load_volume, load_grid, nt.load_fod])
def test_one_file_of_a_pair_is_refused_with_what_makes_one_file_of_both(
    tmp_path: Path, kind: type, ending: str, read: Callable[[Path], object]
) -> None:
    nib.save(kind(np.ones((2, 3, 4), np.float32), np.diag([2.0, 2, 2, 1])), tmp_path / "fa.b.img")
    with pytest.raises(FileError, match=rf"mrconvert \S+fa\.b{ending} \S+fa\.b\.nii\.gz, and"):
        read(tmp_path / f"fa.b{ending}")


@pytest.mark.parametrize(
    ("shape", "told"), [((2, 3), "3-D volume."), ((2, 3, 4, 2), "3-D volume, such as one cut out")]
)
def test_what_is_not_3_d_is_refused_with_what_helps(
    tmp_path: Path, shape: tuple[int, ...], told: str
) -> None:
    nib.save(nib.Nifti1Image(np.ones(shape, np.float32), np.eye(4)), tmp_path / "map.nii")
    with pytest.raises(FileError, match=told):
        load_volume(tmp_path / "map.nii")
