"""Voxels that are read again and again: the values that the whole image has."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import FileError
from napari_tractography.files.headers import read_header
from napari_tractography.files.stored_rows import StoredRows, unpacked
from napari_tractography.model.phantoms import make_phantom

AFFINE = np.array([[0, -2.0, 0, 5], [2.0, 0, 0, 1], [0, 0, -2.0, 3], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def fod() -> nt.Fod:
    return make_phantom("arcs", lmax=4)


def save_mif(path: Path, values: np.ndarray, layout: str) -> None:
    order = [int(part[1:]) for part in layout.split(",")]
    signs = [part[0] == "-" for part in layout.split(",")]
    slowest_first = np.argsort(order)[::-1]
    flipped = values[tuple(slice(None, None, -1 if sign else 1) for sign in signs)]
    data = np.ascontiguousarray(flipped.transpose(slowest_first)).astype(">f4").tobytes()
    dim = ",".join(str(n) for n in values.shape)
    head = f"mrtrix image\ndim: {dim}\nvox: 2,2,2,1\nlayout: {layout}\ndatatype: Float32BE\n"
    offset = 512
    text = f"{head}file: . {offset}\nEND\n".encode()
    path.write_bytes(text.ljust(offset, b"\0") + data)


@pytest.mark.parametrize(
    "form", ["nii", "scaled", "mif of voxels", "mif of volumes", "mif backwards"]
)
def test_values_are_those_of_the_whole_file(tmp_path: Path, fod: nt.Fod, form: str) -> None:
    values = fod.coefficients
    path = tmp_path / ("fod.nii" if form in ("nii", "scaled") else "fod.mif")
    if form == "nii":
        nib.save(nib.Nifti1Image(values, AFFINE), path)
    elif form == "scaled":
        image = nib.Nifti1Image(values, AFFINE)
        image.header.set_data_dtype(np.int16)
        nib.save(image, path)
    else:
        layouts = {"voxels": "+1,+2,+3,+0", "volumes": "+0,+1,+2,+3", "backwards": "-2,+0,-1,+3"}
        save_mif(path, values, layouts[form.split()[-1]])
    whole = nt.load_fod(path, kind="sh")
    stored = read_header(path)
    assert StoredRows.can_read(stored)
    voxels = np.flatnonzero(whole.support.ravel())[::7]
    rows = whole.voxel_rows.ravel()[voxels]
    found = StoredRows(stored)(voxels)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, whole.values[rows])


def test_compressed_files_are_not_read_in_place(tmp_path: Path, fod: nt.Fod) -> None:
    nib.save(nib.Nifti1Image(fod.coefficients, AFFINE), tmp_path / "fod.nii.gz")
    assert not StoredRows.can_read(read_header(tmp_path / "fod.nii.gz"))


def test_a_truncated_file_is_told(tmp_path: Path, fod: nt.Fod) -> None:
    path = tmp_path / "fod.nii"
    nib.save(nib.Nifti1Image(fod.coefficients, AFFINE), path)
    stored = read_header(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileError, match="truncated"):
        StoredRows(stored)


def test_what_is_unpacked_leaves_no_file(tmp_path: Path, fod: nt.Fod) -> None:
    found = unpacked(fod.values, tmp_path)
    np.testing.assert_array_equal(found, fod.values)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileError, match="nowhere takes no unpacked FOD"):
        unpacked(fod.values, tmp_path / "nowhere")
