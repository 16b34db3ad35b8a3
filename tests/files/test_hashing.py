"""The SHA-256 of a file, taken while its numbers are read."""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.files.fods import fod_reader, load_fod
from napari_tractography.files.hashing import sha256_of
from napari_tractography.files.volume_files import load_volume, read_volume

VALUES = np.arange(3 * 4 * 5 * 6, dtype=np.float32).reshape(3, 4, 5, 6) + 1
MIF = """mrtrix image
dim: 3,4,5,6
vox: 2,2,2,1
layout: +0,+1,+2,+3
datatype: Float32LE
file: {file}
END
"""
opened: list[str] = []  # while a test looks; audit hooks cannot be taken away again
looking = False


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if looking and event == "open":
        opened.append(str(arguments[0]))


sys.addaudithook(_note)


def write(folder: Path, ending: str) -> Path:
    """An FOD of six coefficients, in one of the formats, with bytes behind the data."""
    path = folder / f"fod{ending}"
    numbers = VALUES.tobytes(order="F")
    if ending.startswith(".nii"):
        nib.save(nib.Nifti1Image(VALUES, np.eye(4)), path)
    elif ending == ".mih":
        path.write_text(MIF.format(file="fod.dat 0"))
        (folder / "fod.dat").write_bytes(numbers)
    else:
        header = MIF.format(file=". 200").encode()
        whole = header + bytes(200 - len(header)) + numbers + b"more"
        path.write_bytes(gzip.compress(whole) if ending.endswith(".gz") else whole)
    return path


@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".mif", ".mif.gz", ".mih"])
def test_hash_is_of_the_whole_file_and_the_values_are_the_same(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, ending)
    fod, sha256 = fod_reader(path, kind="sh").read(hashed=True)
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == sha256_of(path)
    assert np.array_equal(fod.coefficients, load_fod(path, kind="sh").coefficients)
    assert np.array_equal(fod.coefficients, VALUES)


def test_hashed_volumes_are_those_of_load_volume(tmp_path: Path) -> None:
    labels = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    nib.save(nib.Nifti1Image(labels, np.diag([2.0, 2, 2, 1])), tmp_path / "labels.nii.gz")
    values, grid, sha256 = read_volume(tmp_path / "labels.nii.gz", hashed=True)
    wanted, wanted_grid = load_volume(tmp_path / "labels.nii.gz")
    assert np.array_equal(values, wanted)
    assert values.dtype == wanted.dtype == np.int16
    assert grid == wanted_grid
    assert sha256 == sha256_of(tmp_path / "labels.nii.gz")


def test_hashing_opens_the_numbers_once(tmp_path: Path) -> None:
    global looking
    path = write(tmp_path, ".mif")
    looking = True
    try:
        fod_reader(path, kind="sh").read(hashed=True)
    finally:
        looking = False
        found = [name for name in opened if name == str(path)]
        opened.clear()
    assert len(found) == 2  # the header, and the numbers


@pytest.mark.parametrize("cut", [0.5, 0.99])
def test_truncated_files_are_refused_as_without_a_hash(tmp_path: Path, cut: float) -> None:
    path = write(tmp_path, ".nii.gz")
    raw = path.read_bytes()
    path.write_bytes(raw[: int(cut * len(raw))])
    with pytest.raises(FileError, match="truncated"):
        fod_reader(path, kind="sh").read(hashed=True)


def test_a_missing_file_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        sha256_of(tmp_path / "absent")
