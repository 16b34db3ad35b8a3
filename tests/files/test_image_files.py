"""Images in which fibres are seen, as files have them; written by the libraries of the formats."""

from __future__ import annotations

import shutil
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path

import dask.array
import nibabel as nib
import numpy as np
import pytest
import tifffile
import zarr

from napari_tractography.errors import FileError, MissingPackageError
from napari_tractography.files import image_files
from napari_tractography.files.hashing import sha256_of
from napari_tractography.files.image_files import (
    existing_image,
    found_in,
    image_sha256,
    open_image,
    stored_levels,
)

SHAPE = 22, 20, 18  # x, y, z


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 60000, SHAPE).astype(np.uint16)


def ome_zarr(folder: Path, image: np.ndarray, *, version: str = "0.5", chunk: int = 8) -> Path:
    """Write (z, y, x) and a level of half the size as the OME-Zarr specification has it."""
    root = zarr.open_group(folder, mode="w", zarr_format=3 if version == "0.5" else 2)
    whole = image.T
    levels = {"s0": whole, "s1": whole[::2, ::2, ::2]}
    for name, level in levels.items():
        root.create_array(name, shape=level.shape, chunks=(chunk,) * 3, dtype=level.dtype)[:] = (
            level
        )
    multiscales = [
        {
            "name": "scan",
            "version": version,
            "axes": [{"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"],
            "datasets": [{"path": name} for name in levels],
        }
    ]
    if version == "0.5":
        root.attrs["ome"] = {"version": version, "multiscales": multiscales}
    else:
        root.attrs["multiscales"] = multiscales
    return folder


def test_every_format_gives_the_image_back(tmp_path: Path, image: np.ndarray) -> None:
    tifffile.imwrite(tmp_path / "plain.tif", image.T)
    tifffile.imwrite(tmp_path / "packed.tiff", image.T, compression="zlib")
    np.save(tmp_path / "a.npy", image.T)
    nib.save(nib.Nifti1Image(image, np.eye(4)), tmp_path / "v.nii.gz")
    for name, axes in (
        ("plain.tif", "zyx"),
        ("packed.tiff", "zyx"),
        ("a.npy", "zyx"),
        ("v.nii.gz", "xyz"),
    ):
        path = tmp_path / name
        found = open_image(path, axes=axes)
        np.testing.assert_array_equal(np.asarray(found), image)
        assert found_in(stored_levels(path)[0][0], image, name) == ((), axes)
        assert image_sha256(path, found) == sha256_of(path)
    assert isinstance(stored_levels(tmp_path / "plain.tif")[0][0], np.memmap)


def test_a_zarr_may_lie_in_the_home_folder(
    tmp_path: Path, image: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    ome_zarr(tmp_path / "scan.zarr", image)
    np.testing.assert_array_equal(open_image("~/scan.zarr"), image)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_gives_its_levels(tmp_path: Path, image: np.ndarray, version: str) -> None:
    path = ome_zarr(tmp_path / "scan.ome.zarr", image, version=version)
    levels, key = stored_levels(path)
    assert key == "s0"
    assert [level.shape for level in levels] == [(18, 20, 22), (9, 10, 11)]
    np.testing.assert_array_equal(open_image(path), image)
    np.testing.assert_array_equal(open_image(path, "s1"), image[::2, ::2, ::2])
    assert len(stored_levels(path, "s1")[0]) == 1
    assert stored_levels(path / "s0")[1] == ""  # an array by itself
    assert existing_image(path) == path


def test_a_zarr_is_told_by_what_it_holds_however_it_is_stored(
    tmp_path: Path, image: np.ndarray
) -> None:
    one = ome_zarr(tmp_path / "one.zarr", image, version="0.4", chunk=5)
    other = ome_zarr(tmp_path / "other.zarr", image, chunk=16)
    before = image_sha256(one, open_image(one))
    assert before == image_sha256(other, open_image(other))
    stored = zarr.open(other, mode="r+")["s0"]
    stored[9, 10, 11] = int(stored[9, 10, 11]) ^ 1  # the middle
    assert image_sha256(other, open_image(other)) != before
    assert image_sha256(one, open_image(one).astype(np.uint32)) != before


def test_the_boxes_of_a_zarr_are_read_at_once(
    tmp_path: Path, image: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ome_zarr(tmp_path / "scan.zarr", image)
    opened = open_image(path)
    times: list[int] = []
    compute = dask.compute
    monkeypatch.setattr(dask, "compute", lambda *a, **k: times.append(len(a)) or compute(*a, **k))
    assert image_sha256(path, opened) == image_sha256(path, np.asarray(opened))
    assert times == [27]


def test_a_zarr_is_read_from_an_archive_and_from_a_server(
    tmp_path: Path, image: np.ndarray, served: ThreadingHTTPServer
) -> None:
    folder = ome_zarr(tmp_path / "scan.zarr", image)
    archive = Path(shutil.make_archive(str(folder), "zip", folder))
    address = f"http://127.0.0.1:{served.server_port}/scan.zarr"
    for place in (archive, address):
        levels, key = stored_levels(place)
        assert (key, len(levels)) == ("s0", 2)
        np.testing.assert_array_equal(open_image(place), image)
        assert image_sha256(place, open_image(place)) == image_sha256(folder, open_image(folder))
    far = open_image(address)
    served.shutdown()
    served.server_close()
    with pytest.raises(FileError, match=r"cannot be read at voxel .*check the file or the conn"):
        image_sha256(address, far)
    with pytest.raises(FileError, match=f"{address} cannot be read as Zarr"):
        stored_levels(address)
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(FileError, match=r"scan\.zarr\.zip cannot be read as Zarr"):
        stored_levels(archive)


def test_a_large_file_is_told_by_places(
    tmp_path: Path, image: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "a.npy", image.T)
    by_bytes = image_sha256(tmp_path / "a.npy", image)
    monkeypatch.setattr(image_files, "MOST_BYTES", 1000)
    by_places = image_sha256(tmp_path / "a.npy", image)
    assert by_places != by_bytes
    zarred = ome_zarr(tmp_path / "one.zarr", image)
    assert by_places == image_sha256(zarred, open_image(zarred))


def test_an_image_is_found_among_channels_and_in_either_order(
    tmp_path: Path, image: np.ndarray
) -> None:
    stack = np.stack([image.T // 2, image.T])
    assert found_in(stack, image, "stack") == ((1,), "zyx")
    np.save(tmp_path / "stack.npy", stack)
    np.testing.assert_array_equal(open_image(tmp_path / "stack.npy", index=(1,)), image)
    cube = image[:18, :18, :18]
    assert found_in(np.ascontiguousarray(cube), cube, "cube") == ((), "xyz")
    assert found_in(cube.T, cube, "cube") == ((), "zyx")
    assert found_in(cube[::-1].T, cube, "cube") is None
    assert found_in(image, image.astype(np.float32), "as float") == ((), "xyz")


def test_an_image_in_memory_is_compared_voxel_by_voxel(image: np.ndarray) -> None:
    edited = image.copy()
    edited[-1, 0, 5] ^= 1  # in no box of 16 around the middle
    assert found_in(image.T, edited, "stored") is None
    assert found_in(np.stack([image.T, edited.T]), edited, "stack") == ((1,), "zyx")
    assert found_in(np.stack([image.T, image.T]), image, "twice") == ((0,), "zyx")


def test_a_large_image_that_is_read_in_part_is_compared_in_boxes_all_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_files, "MOST_READ_VOXELS", 1000)
    monkeypatch.setattr(image_files, "BOX_VOXELS", 2)
    image = np.zeros((40, 30, 20), np.uint8)
    image[28:30, 3:6, 9:13] = 1  # on no diagonal
    stack = np.stack([image.T * 0, image.T, image.T])
    lazy = dask.array.from_array(image, chunks=10)
    assert found_in(stack[:2], lazy, "stack") == ((1,), "zyx")
    with pytest.raises(FileError, match=r"stack holds images of \[1\] and \[2\] that are the same"):
        found_in(stack, lazy, "stack")


def test_without_the_package_a_zarr_is_told_with_what_to_install(
    tmp_path: Path, image: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ome_zarr(tmp_path / "scan.zarr", image)
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingPackageError, match=r'pip install "napari-tractography\[zarr\]"\.'):
        stored_levels(path)


def test_an_address_that_takes_another_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingPackageError, match=r's3://a/b\.zarr is out .*"fsspec\[s3\]"\.'):
        stored_levels("s3://a/b.zarr")

    def refuse(*_given: object, **_named: object) -> None:
        raise ImportError("aiohttp")

    monkeypatch.setattr(zarr, "open", refuse)
    said = r'https://a/b\.zarr is out of reach \(aiohttp\); pip install "fsspec\[http\]"\.'
    with pytest.raises(MissingPackageError, match=said):
        stored_levels("https://a/b.zarr")
    with pytest.raises(FileError, match=r"b\.zarr\.zip cannot be read as Zarr"):
        stored_levels("b.zarr.zip")


def test_what_is_no_image_is_told_in_a_sentence(tmp_path: Path, image: np.ndarray) -> None:
    (tmp_path / "broken.tif").write_bytes(b"II*\0 no tiff")
    (tmp_path / "text.txt").write_text("x")
    path = ome_zarr(tmp_path / "scan.zarr", image)
    zarr.open_group(tmp_path / "empty.zarr", mode="w")
    for name, key, said in (
        ("broken.tif", "", "cannot be read"),
        ("text.txt", "", "save it as .tif, .npy, .nii.gz or Zarr"),
        ("gone.tif", "", "does not exist"),
        ("scan.zarr", "s9", "s9"),
        ("empty.zarr", "", "without an image"),
    ):
        with pytest.raises(FileError, match=said) as raised:
            stored_levels(tmp_path / name, key)
        assert str(raised.value).endswith(".")
    with pytest.raises(FileError, match=r"shape \(18, 20, 22\), in which there is no image \(1,\)"):
        open_image(path, index=(1,))
