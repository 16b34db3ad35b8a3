"""Volumes from NIfTI: values, placement, memory and one clear sentence for each bad file."""

from __future__ import annotations

import functools
import gzip
import logging

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.errors import (
    FileError,
    InvalidFodError,
    InvalidMaskError,
    InvalidParameterError,
)
from napari_tractography.files import fods
from napari_tractography.files.stored_images import StoredImage
from napari_tractography.files.volume_files import load_mask, load_volume
from napari_tractography.model.fod import Fod

load_fod = functools.partial(fods.load_fod, kind="sh")  # files of any numbers

AFFINE = np.array(
    [[1.9, 0.3, 0.1, -20.0], [-0.4, 2.1, 0.2, 7.5], [0.2, -0.1, -2.5, 31.0], [0, 0, 0, 1.0]]
)


def _save(path, data, affine=AFFINE, **header):
    image = nib.Nifti1Image(data, affine)
    for key, value in header.items():
        image.header[key] = value
    nib.save(image, path)
    return path


@pytest.fixture
def coefficients():
    return np.random.default_rng(1).normal(size=(5, 4, 3, 15)).astype(np.float32)


@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".NII.GZ"])
def test_fod_is_read_as_written(tmp_path, coefficients, ending):
    path = _save(tmp_path / "fod.nii", coefficients)
    if ending != ".nii":
        path = tmp_path / f"wmfod{ending}"
        path.write_bytes(gzip.compress((tmp_path / "fod.nii").read_bytes()))
    fod = load_fod(path)
    np.testing.assert_array_equal(fod.coefficients, coefficients)
    np.testing.assert_allclose(fod.grid.affine, AFFINE, atol=1e-6)
    assert (fod.lmax, fod.basis, fod.frame, fod.name) == (4, "tournier07", "scanner", path.name)


def test_basis_and_frame_are_passed_on(tmp_path, coefficients):
    path = _save(tmp_path / "fod.nii.gz", coefficients)
    assert load_fod(path, basis="descoteaux07").frame == "voxel"
    assert load_fod(path, basis="descoteaux07_legacy", frame="scanner").frame == "scanner"


@pytest.mark.parametrize(
    "dtype", [np.int16, np.uint8, ">i2", ">f4", np.float64, np.int64], ids=lambda t: np.dtype(t).str
)
def test_every_real_number_type_is_read(tmp_path, coefficients, dtype):
    data = np.abs(coefficients * 40).astype(dtype)
    path = tmp_path / "fod.nii"
    nib.Nifti1Image(
        data, AFFINE, nib.Nifti1Header(endianness="<").as_byteswapped(">"), dtype=data.dtype
    ).to_filename(path)
    np.testing.assert_array_equal(load_fod(path).coefficients, data.astype(np.float32))


@pytest.mark.parametrize("shape", [(5, 4, 3, 1, 15), (5, 4, 3, 1, 15, 1), (5, 4, 3, 15, 1)])
def test_an_fod_along_a_later_axis_is_read(tmp_path, coefficients, shape):
    """As ITK writes vectors."""
    path = _save(tmp_path / "fod.nii", coefficients.reshape(shape))
    np.testing.assert_array_equal(load_fod(path).coefficients, coefficients)


@pytest.mark.parametrize("shape", [(40, 1, 1, 2, 3), (40, 1, 1, 1, 6)])
def test_peaks_along_two_axes_are_read(tmp_path, shape):
    peaks = np.random.default_rng(3).normal(size=(40, 2, 3))
    peaks *= [[[1.0], [0.5]]] / np.linalg.norm(peaks, axis=2, keepdims=True)
    peaks = peaks.astype(np.float32)
    path = _save(tmp_path / "peaks.nii", peaks.reshape(shape))
    fod = fods.load_fod(path)
    assert (fod.kind, fod.n_vectors) == ("peaks", 2)
    wanted = Fod.from_peaks(peaks.reshape(40, 1, 1, 2, 3), AFFINE)
    np.testing.assert_allclose(fod.vectors.numbers, wanted.vectors.numbers, rtol=1e-6)


def test_intensity_scaling_is_applied(tmp_path):
    stored = np.arange(4 * 3 * 2 * 6, dtype=np.int16).reshape(4, 3, 2, 6)
    path = tmp_path / "fod.nii.gz"
    image = nib.Nifti1Image(stored, AFFINE)
    image.header.set_slope_inter(0.25, -3.0)
    image.to_filename(path)
    expected = nib.load(path).get_fdata()
    assert expected.min() < -2.9  # nibabel sees the scaling too
    np.testing.assert_allclose(load_fod(path).coefficients, expected, rtol=1e-6)
    np.testing.assert_allclose(load_fod(path, basis="tournier07").values.max(), expected.max())


def test_real_fods_equal_nibabel(shared_data):
    for name in ("fibercup/fod.nii.gz", "cross/fod.nii.gz", "yoga/fod_sh8.nii.gz"):
        fod = load_fod(shared_data / name)
        image = nib.load(shared_data / name)
        np.testing.assert_array_equal(fod.coefficients, image.get_fdata(dtype=np.float32))
        np.testing.assert_array_equal(fod.grid.affine, image.affine)


def test_trailing_axes_of_length_one_are_dropped(tmp_path, coefficients):
    path = _save(tmp_path / "fod.nii", coefficients[..., np.newaxis])
    assert load_fod(path).grid.shape == (5, 4, 3)
    mask = _save(tmp_path / "mask.nii", np.ones((5, 4, 3, 1), np.uint8))
    assert load_mask(mask)[0].shape == (5, 4, 3)


def test_labels_keep_their_integers(tmp_path):
    labels = np.zeros((4, 4, 4), np.int32)
    labels[1, 2, 3] = 2**24 + 1  # float32 cannot hold it
    values, grid = load_volume(_save(tmp_path / "labels.nii.gz", labels))
    assert values.dtype == np.int32
    assert values[1, 2, 3] == 2**24 + 1
    np.testing.assert_allclose(grid.affine, AFFINE, atol=1e-6)


def test_scalars_are_float32(tmp_path):
    values, _ = load_volume(_save(tmp_path / "fa.nii", np.full((2, 3, 4), 0.25)))
    assert values.dtype == np.float32
    assert (values == 0.25).all()


def test_mask_takes_what_is_neither_zero_nor_nan(tmp_path):
    data = np.array([0.0, 1.0, -2.0, np.nan], np.float32).reshape(4, 1, 1)
    inside, _ = load_mask(_save(tmp_path / "mask.nii", data))
    assert inside.ravel().tolist() == [False, True, True, False]
    assert inside.dtype == np.bool_


def test_empty_mask_is_refused(tmp_path):
    path = _save(tmp_path / "mask.nii", np.zeros((3, 3, 3), np.uint8))
    with pytest.raises(InvalidMaskError, match=r"mask\.nii has no voxel"):
        load_mask(path)


def test_missing_orientation_is_mentioned(tmp_path, coefficients, caplog):
    image = nib.Nifti1Image(coefficients, None)
    assert image.header["sform_code"] == image.header["qform_code"] == 0
    image.to_filename(tmp_path / "fod.nii")
    with caplog.at_level(logging.WARNING):
        load_fod(tmp_path / "fod.nii")
    assert "neither sform nor qform" in caplog.text


@pytest.mark.parametrize(("shift_mm", "is_told"), [(50.0, True), (0.5, False)])
def test_affines_that_contradict_each_other_are_told_once(tmp_path, caplog, shift_mm, is_told):
    image = nib.Nifti1Image(np.ones((4, 5, 6), np.float32), np.diag([2.0, 2.0, 2.0, 1.0]))
    image.set_qform(image.affine, 1)
    moved = image.affine.copy()
    moved[0, 3] += shift_mm
    image.set_sform(moved, 2)
    nib.save(image, tmp_path / "t1.nii")
    for _ in range(2):
        assert load_volume(tmp_path / "t1.nii")[1].affine[0, 3] == shift_mm
    assert (
        caplog.text.count("t1.nii lies up to 50 mm apart by its qform and by its sform") == is_told
    )


def test_a_negative_extent_is_refused(tmp_path):
    path = _save(tmp_path / "fod.nii", np.ones((4, 3, 2, 6), np.float32))
    raw = bytearray(path.read_bytes())
    raw[48:50] = (-3).to_bytes(2, "little", signed=True)  # dim[4]
    path.write_bytes(raw)
    for load in (load_fod, load_volume, fods.load_fod):
        with pytest.raises(FileError, match=r"fod\.nii"):
            load(path)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        pytest.param((5, 4, 3), r"dwi.* has shape \(5, 4, 3\); .*File > Open", id="3-D"),
        pytest.param((5, 4, 3, 2, 15), "5 dimensions", id="5-D"),
        pytest.param((5, 4, 3, 44), "44 volumes", id="no SH count"),
    ],
)
def test_volumes_that_are_no_fod_are_refused(tmp_path, shape, message):
    path = _save(tmp_path / "dwi.nii.gz", np.ones(shape, np.float32))
    with pytest.raises(InvalidFodError, match=message):
        load_fod(path)


@pytest.mark.parametrize("fill", [np.nan, np.inf, 0.0])
def test_nothing_usable_is_refused(tmp_path, fill):
    path = _save(tmp_path / "fod.nii", np.full((3, 3, 3, 6), fill, np.float32))
    with pytest.raises(InvalidFodError, match=r"fod\.nii has no voxel with finite"):
        load_fod(path)


def test_complex_and_colour_data_are_refused(tmp_path):
    complex_path = _save(tmp_path / "complex.nii", np.ones((3, 3, 3, 6), np.complex64))
    with pytest.raises(InvalidFodError, match="complex64"):
        load_fod(complex_path)
    with pytest.raises(FileError, match="complex64"):
        load_volume(_save(tmp_path / "c.nii", np.ones((3, 3, 3), np.complex64)))
    rgb = np.zeros((3, 3, 3, 6), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    with pytest.raises(InvalidFodError, match="colours"):
        load_fod(_save(tmp_path / "rgb.nii", rgb))


def test_singular_affine_is_refused(tmp_path, coefficients):
    affine = AFFINE.copy()
    affine[:3, 2] = affine[:3, 0] + affine[:3, 1]
    image = nib.Nifti1Image(coefficients, None)
    image.header["sform_code"] = 1
    for row, key in enumerate(("srow_x", "srow_y", "srow_z")):
        image.header[key] = affine[row]
    path = tmp_path / "fod.nii"
    path.write_bytes(
        image.header.binaryblock + bytes(4) + coefficients.astype("<f4").tobytes(order="F")
    )
    with pytest.raises(FileError, match=r"fod\.nii.*singular"):
        load_fod(path)


def test_four_dimensional_mask_is_refused(tmp_path):
    path = _save(tmp_path / "mask.nii", np.ones((3, 3, 3, 2), np.uint8))
    with pytest.raises(FileError, match=r"\(3, 3, 3, 2\)"):
        load_mask(path)


def test_missing_folder_unknown_and_unnameable_files_are_refused(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        load_fod(tmp_path / "absent.nii.gz")
    (tmp_path / "folder.nii").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        load_fod(tmp_path / "folder.nii")
    (tmp_path / "fod.nrrd").write_bytes(b"x")
    with pytest.raises(FileError, match=r"use one of \.nii.*, \.pam5 or convert"):
        load_fod(tmp_path / "fod.nrrd")
    with pytest.raises(FileError):
        load_fod("a\0b.nii")
    with pytest.raises(FileError):
        load_fod(tmp_path / ("a" * 5000 + ".nii"))


@pytest.mark.parametrize("compressed", [False, True], ids=["nii", "nii.gz"])
@pytest.mark.parametrize("kept", [0.0, 0.001, 0.02, 0.5, 0.999])
def test_truncated_files_are_refused(tmp_path, coefficients, compressed, kept):
    whole = _save(tmp_path / ("whole.nii.gz" if compressed else "whole.nii"), coefficients)
    raw = whole.read_bytes()
    path = tmp_path / whole.name.replace("whole", "cut")
    path.write_bytes(raw[: int(len(raw) * kept)])
    with pytest.raises(FileError, match="cut"):
        load_fod(path)


def test_every_flipped_byte_gives_an_error_or_a_volume(tmp_path, coefficients):
    """Corruption never lets an exception of zlib, struct or nibabel out."""
    raw = _save(tmp_path / "whole.nii.gz", coefficients[:2, :2, :2]).read_bytes()
    path = tmp_path / "broken.nii.gz"
    refused = 0
    for position in range(0, len(raw), 7):
        broken = bytearray(raw)
        broken[position] ^= 0xFF
        path.write_bytes(broken)
        try:
            load_fod(path)
        except FileError:
            refused += 1
    assert refused > 0.9 * len(range(0, len(raw), 7))  # gzip's checksum covers all but its header


def test_text_with_a_nifti_name_is_refused(tmp_path):
    path = tmp_path / "fod.nii"
    path.write_text("not an image\n" * 100)
    with pytest.raises(FileError, match=r"fod\.nii cannot be read as NIfTI"):
        load_fod(path)


def test_corrupt_header_with_huge_sizes_is_refused_before_memory_is_taken(tmp_path, coefficients):
    path = _save(tmp_path / "fod.nii", coefficients)
    raw = bytearray(path.read_bytes())
    raw[40:56] = np.array([4, 32000, 32000, 32000, 15, 1, 1, 1], "<i2").tobytes()
    path.write_bytes(raw)
    with pytest.raises(FileError, match="truncated"):
        load_fod(path)
    packed = tmp_path / "fod.nii.gz"
    packed.write_bytes(gzip.compress(bytes(raw)))
    with pytest.raises(FileError, match="truncated"):
        load_fod(packed)


@pytest.mark.parametrize("reading", [{"basis": "b"}, {"frame": "f"}, {"axes": "a"}, {"order": "o"}])
def test_an_unknown_reading_is_refused_before_the_numbers_are_read(tmp_path, monkeypatch, reading):
    nib.save(nib.Nifti1Image(np.ones((2, 2, 2, 6), np.float32), np.eye(4)), tmp_path / "fod.nii")
    monkeypatch.setattr(StoredImage, "opened", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(InvalidParameterError, match="is unknown"):
        load_fod(tmp_path / "fod.nii", **reading)
