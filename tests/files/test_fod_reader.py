"""Reading an FOD in pieces: the same voxels as from the dense array, in far less memory."""

from __future__ import annotations

import tracemalloc

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.fields.sh import sh_matrix
from napari_tractography.files.fods import FodReader, load_fod
from napari_tractography.files.paths import GivenUpError
from napari_tractography.files.stored_images import NumberStream
from napari_tractography.model.fod import Fod


def save(path, data):
    nib.save(nib.Nifti1Image(data, np.eye(4)), path)
    return path


def write_mif(path, data, layout):
    """Write a .mif with the axes in the order of a layout such as "+1,+2,+3,+0"."""
    signs = [-1 if text[0] == "-" else 1 for text in layout.split(",")]
    ranks = [int(text[1]) for text in layout.split(",")]
    turned = data[tuple(slice(None, None, sign) for sign in signs)]
    kind = {"f4": "Float32LE", "f8": "Float64LE"}[data.dtype.str[1:]]
    header = (
        f"mrtrix image\ndim: {','.join(map(str, data.shape))}\nvox: 1,1,1,1\nlayout: {layout}\n"
        f"datatype: {kind}\ntransform: 1,0,0,0\ntransform: 0,1,0,0\ntransform: 0,0,1,0\n"
        "file: . 300\nEND\n"
    )
    stored = turned.transpose(np.argsort(ranks)[::-1])
    path.write_bytes(header.encode().ljust(300, b"\0") + stored.tobytes())
    return path


@pytest.fixture
def coefficients():
    return np.random.default_rng(1).normal(size=(5, 4, 3, 15)).astype(np.float32)


@pytest.mark.parametrize("layout", ["by volume", "by volume, compressed", "by voxel"])
def test_reading_needs_no_dense_array(tmp_path, layout):
    data = np.zeros((64, 64, 40, 45), dtype=np.float64)
    data[20:24, 20:24, 10:14] = sh_matrix(np.array([[0.6, 0.0, 0.8]]), 8, "tournier07")[0]
    if layout == "by voxel":
        path = write_mif(tmp_path / "fod.mif", data, "+1,+2,+3,+0")
    else:
        path = save(tmp_path / ("fod.nii.gz" if "compressed" in layout else "fod.nii"), data)
    n_voxels = data[..., 0].size
    del data
    load_fod(path)  # imports and caches are not counted
    tracemalloc.start()
    fod = load_fod(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fod.n_voxels == 64
    # a few values a voxel, not 45, and a few pieces of 2^20 numbers of 8 bytes
    assert peak < 64 * n_voxels + 4 * 8 * 2**20 < n_voxels * 45 * 4 * 1.5


def by_dense_array(path):
    """What Fod makes of the whole array as nibabel reads it, which is the reference."""
    image = nib.load(path)
    return Fod(np.asarray(image.dataobj, dtype=np.float32), image.affine)


def strange_voxels():
    """An FOD of which voxels are empty, not finite, or without the first coefficients."""
    data = np.random.default_rng(2).normal(size=(6, 5, 4, 15)).astype(np.float32)
    data[data[..., 0] < 0] = 0
    data[1, 2, 3] = [0] * 9 + [1] * 6
    data[5, 0, 1] = [0] * 14 + [-1]
    data[0, 0, 0] = [0] * 3 + [np.nan] + [1] * 11
    data[2, 2, 2, 0] = np.nan
    data[3, 3, 3, 14] = -np.inf
    data[4, 4, 1] = -0.0
    return data


@pytest.mark.parametrize("dtype", [np.float32, ">f8"])
def test_used_voxels_are_those_of_the_dense_array(tmp_path, dtype):
    """Found volume by volume; rows number them in the same order, which draws seeds."""
    path = tmp_path / "fod.nii"
    header = nib.Nifti1Header(endianness="<" if dtype == np.float32 else ">")
    nib.Nifti1Image(strange_voxels().astype(dtype), np.eye(4), header, dtype=dtype).to_filename(
        path
    )
    found, wanted = load_fod(path, kind="sh"), by_dense_array(path)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.voxel_rows, wanted.voxel_rows)
    assert found.n_invalid_voxels == wanted.n_invalid_voxels == 3
    assert found.values.flags.c_contiguous


LAYOUTS = ["+0,+1,+2,+3", "+1,+2,+3,+0", "-2,+0,-1,+3", "-3,+1,-2,+0", "+0,+2,+3,+1", "+0,+1,+2,-3"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_a_file_changes_nothing(tmp_path, layout, monkeypatch):
    """Coefficients slowest, fastest, in the middle and backwards; pieces smaller than a volume."""
    monkeypatch.setattr("napari_tractography.files.stored_images.CHUNK_VALUES", 32)
    monkeypatch.setattr("napari_tractography.files.packing.BUFFER_VALUES", 32)
    data = strange_voxels()
    reader = FodReader(write_mif(tmp_path / "fod.mif", data, layout), kind="sh")
    found, wanted = reader.read()[0], Fod(data, np.eye(4))
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.voxel_rows, wanted.voxel_rows)
    np.testing.assert_array_equal(reader.isotropic, wanted.isotropic())
    assert reader.map_read.is_set()
    assert found.n_invalid_voxels == 3


def test_the_map_is_there_after_the_first_volume(tmp_path, coefficients, monkeypatch):
    """Of a NIfTI file, whose coefficients lie one after the other."""
    reader = FodReader(save(tmp_path / "fod.nii", coefficients), kind="sh")
    assert (reader.progress, reader.map_read.is_set()) == (0.0, False)
    read, seen = NumberStream.read, []

    def look(self, values):
        seen.append((reader.map_read.is_set(), reader.isotropic.copy()))
        read(self, values)

    monkeypatch.setattr(NumberStream, "read", look)
    fod, _ = reader.read()
    assert [ready for ready, _ in seen] == [False] + [True] * 14
    np.testing.assert_array_equal(seen[1][1], fod.isotropic())
    assert reader.progress == 1.0


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_reading_can_be_cancelled(tmp_path, coefficients, ending):
    reader = FodReader(save(tmp_path / f"fod{ending}", coefficients), kind="sh")
    reader.cancelled.set()
    with pytest.raises(GivenUpError):
        reader.read()
    assert reader.progress == 0.0
