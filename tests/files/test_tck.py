"""MRtrix3's .tck files whose numbers are others than ours."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.files.tractograms import iter_streamlines
from napari_tractography.streamlines.tractogram import load_tractogram

LINES = [np.arange(9.0).reshape(3, 3), -np.ones((2, 3))]
DTYPES = {"Float32LE": "<f4", "Float32BE": ">f4", "Float64LE": "<f8", "Float64BE": ">f8"}


def write(path: Path, datatype: str) -> None:
    """Write the lines as the format is described in MRtrix3's manual."""
    header = f"mrtrix tracks\ncount: {len(LINES)}\ndatatype: {datatype}\nfile: . 100\nEND\n"
    rows = [np.vstack([line, np.full((1, 3), np.nan)]) for line in LINES]
    numbers = np.vstack([*rows, np.full((1, 3), np.inf)]).astype(DTYPES[datatype])
    path.write_bytes(header.encode().ljust(100, b"\0") + numbers.tobytes())


@pytest.mark.parametrize("datatype", ["Float32LE", "Float32BE"])
def test_either_order_of_bytes_is_read(tmp_path: Path, datatype: str) -> None:
    write(tmp_path / "t.tck", datatype)
    found = list(load_tractogram(tmp_path / "t.tck"))
    assert all(np.array_equal(a, b) for a, b in zip(found, LINES, strict=True))


@pytest.mark.parametrize("datatype", ["Float64LE", "Float64BE"])
def test_numbers_of_64_bits_are_told_from_damage(tmp_path: Path, datatype: str) -> None:
    """Copying such a file again, as damaged ones are to be, would change nothing."""
    write(tmp_path / "t.tck", datatype)
    told = r"holds numbers of 64 bits.*tckconvert t\.tck"
    with pytest.raises(FileError, match=told):
        load_tractogram(tmp_path / "t.tck")
    with pytest.raises(FileError, match=told):
        list(iter_streamlines(tmp_path / "t.tck"))


@pytest.mark.skipif(shutil.which("tckconvert") is None, reason="MRtrix3 is not installed")
def test_what_is_told_of_64_bits_helps(tmp_path: Path) -> None:
    write(tmp_path / "t.tck", "Float64LE")
    subprocess.run(["tckconvert", "-quiet", "t.tck", "OUT.tck"], cwd=tmp_path, check=True)
    found = list(load_tractogram(tmp_path / "OUT.tck"))
    assert all(np.array_equal(a, b) for a, b in zip(found, LINES, strict=True))
