"""MRtrix3's .tck files whose numbers are others than ours."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.files import tck
from napari_tractography.files.tractograms import iter_streamlines
from napari_tractography.streamlines.tractogram import load_tractogram

LINES = [np.arange(9.0).reshape(3, 3), -np.ones((2, 3))]
DTYPES = {"float32le": "<f4", "float32be": ">f4", "float64le": "<f8", "float64be": ">f8"}


def write(path: Path, datatype: str, lines: Any = LINES, comment: bytes = b"a: b") -> None:
    """Write lines as the format is described in MRtrix3's manual."""
    header = b"mrtrix tracks\ncount: %d\n%s\ndatatype: %s\nfile: . 100\nEND\n" % (
        len(lines), comment, datatype.encode()
    )  # fmt: skip
    rows = [np.vstack([line, np.full((1, 3), np.nan)]) for line in lines]
    numbers = np.vstack([*rows, np.full((1, 3), np.inf)]).astype(DTYPES[datatype.lower()])
    path.write_bytes(header.ljust(100, b"\0") + numbers.tobytes())


@pytest.mark.parametrize("datatype", ["Float32LE", "Float32BE"])
def test_either_order_of_bytes_is_read(tmp_path: Path, datatype: str) -> None:
    write(tmp_path / "t.tck", datatype)
    found = list(load_tractogram(tmp_path / "t.tck"))
    assert all(np.array_equal(a, b) for a, b in zip(found, LINES, strict=True))


@pytest.mark.parametrize("datatype", ["Float64LE", "Float64BE", "float64le", "FLOAT32be"])
def test_any_spelling_and_numbers_of_64_bits_are_read(tmp_path: Path, datatype: str) -> None:
    """As MRtrix3 reads them."""
    write(tmp_path / "t.tck", datatype)
    found = list(load_tractogram(tmp_path / "t.tck"))
    assert all(np.array_equal(a, b) for a, b in zip(found, LINES, strict=True))
    assert found[0].dtype == np.float32


def test_streamlines_without_points_keep_their_numbers(tmp_path: Path) -> None:
    lines = [LINES[0][:0], LINES[0], LINES[0][:0], LINES[0][:0], LINES[1], LINES[0][:0]]
    write(tmp_path / "t.tck", "Float32LE", lines)
    for n in (1, 2, 4, 6, 9):
        blocks = list(iter_streamlines(tmp_path / "t.tck", n))
        assert [block.n_streamlines for block in blocks[:-1]] == [n] * (len(blocks) - 1)
        found = [line for block in blocks for line in block.lines()]
        assert all(np.array_equal(a, b) for a, b in zip(found, lines, strict=True))


def test_blocks_of_rows_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A streamline may go over the border of what is read at once."""
    monkeypatch.setattr(tck, "BLOCK_ROWS", 2)
    write(tmp_path / "t.tck", "Float32LE")
    for n in (1, 2, 5):
        found = [
            line for block in iter_streamlines(tmp_path / "t.tck", n) for line in block.lines()
        ]
        assert all(np.array_equal(a, b) for a, b in zip(found, LINES, strict=True))


def test_a_header_with_comments_of_another_encoding_is_read(tmp_path: Path) -> None:
    write(tmp_path / "t.tck", "Float32LE", comment="roi: größe".encode("latin-1"))
    assert load_tractogram(tmp_path / "t.tck").n_streamlines == 2


def test_packed_files_are_read_to_their_checksum(tmp_path: Path) -> None:
    write(tmp_path / "t.tck", "Float32LE")
    raw = gzip.compress((tmp_path / "t.tck").read_bytes() + bytes(100))
    (tmp_path / "t.tck.gz").write_bytes(raw)
    assert load_tractogram(tmp_path / "t.tck.gz").n_points == 5
    (tmp_path / "t.tck.gz").write_bytes(raw[:-8] + bytes([raw[-8] ^ 1]) + raw[-7:])
    with pytest.raises(FileError, match=r"t\.tck\.gz is truncated or corrupt"):
        load_tractogram(tmp_path / "t.tck.gz")
    with pytest.raises(FileError, match=r"does not end like a tractogram to write"):
        load_tractogram(tmp_path / "t.tck").save(tmp_path / "out.tck.gz")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"mrtrix tracks", b"mrtrix image ", "does not begin with 'mrtrix tracks'"),
        (b"Float32LE", b"Float16LE", "makes no sense"),
        (b"file: . 100", b"file: . 1  ", "makes no sense"),
        (b"\nEND\n", b"\nXND\n", "without END"),
    ],
)
def test_headers_that_make_no_sense(tmp_path: Path, old: bytes, new: bytes, words: str) -> None:
    write(tmp_path / "t.tck", "Float32LE")
    raw = (tmp_path / "t.tck").read_bytes()
    assert old in raw
    (tmp_path / "t.tck").write_bytes(raw.replace(old, new))
    with pytest.raises(FileError, match=words):
        load_tractogram(tmp_path / "t.tck")
