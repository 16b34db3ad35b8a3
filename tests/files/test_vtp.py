"""VTK's XML files of polydata, as VTK itself writes them in each of its forms."""

from __future__ import annotations

import zlib
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.streamlines.tractogram import load_tractogram

POINTS = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [-1, -2, -3]], np.float32)
IDS, ENDS, FA = np.array([3, 0, 1, 2]), np.array([2, 4]), np.array([0.25, 0.5])
X = POINTS[:, 0].astype(np.float64)


def packed(array: np.ndarray, *, block: int = 0, raw: bool = False, head: str = "<u4") -> bytes:
    """An array after its size, or in blocks that zlib has packed, after theirs."""
    data = array.tobytes()
    if not block:
        content = np.array([len(data)], head).tobytes() + data
        return content if raw else b64encode(content)
    blocks = [data[first : first + block] for first in range(0, len(data), block)]
    small = [zlib.compress(part) for part in blocks]
    last = len(data) % block
    numbers = np.array([len(blocks), block, last, *map(len, small)], head).tobytes()
    rest = b"".join(small)
    return numbers + rest if raw else b64encode(numbers) + b64encode(rest)


def write(path: Path, form: str, *, block: int = 0, head: str = "UInt32") -> Path:
    """Two lines with a value each, and one at each point; the names of lines are texts."""
    appended = b""
    types = {"f4": "Float32", "f8": "Float64", "i8": "Int64"}

    def array(name: str, values: np.ndarray, n: int = 1) -> bytes:
        nonlocal appended
        start = f'<DataArray type="{types[values.dtype.str[1:]]}" Name="{name}" '
        start += f'NumberOfComponents="{n}" '
        dtype = {"UInt32": "<u4", "UInt64": "<u8"}[head]
        if form == "ascii":
            text = " ".join(map(str, values.ravel().tolist()))
            return f'{start}format="ascii">\n{text}\n</DataArray>'.encode()
        if form == "binary":
            text = packed(values, block=block, head=dtype).decode()
            return f'{start}format="binary">\n  {text}\n</DataArray>'.encode()
        start += f'format="appended" offset="{len(appended)}"/>'
        appended += packed(values, block=block, raw=form == "raw", head=dtype)
        return start.encode()

    names = b'<Array type="String" Name="names" format="ascii">0 1</Array>'
    body = b"".join(
        [
            b'<PolyData><Piece NumberOfPoints="4" NumberOfLines="2" NumberOfVerts="0">',
            b"<PointData>", array("x", X), b"</PointData>",
            b"<CellData>", names, array("fa", FA), b"</CellData>",
            b"<Points>", array("Points", POINTS, 3), b"</Points>",
            b"<Lines>", array("connectivity", IDS), array("offsets", ENDS), b"</Lines>",
            b"</Piece></PolyData>",
        ]
    )  # fmt: skip
    compressor = ' compressor="vtkZLibDataCompressor"' if block else ""
    form_text = f'type="PolyData" version="1.0" header_type="{head}" byte_order="LittleEndian"'
    content = f'<?xml version="1.0"?>\n<VTKFile {form_text}{compressor}>'.encode() + body
    if appended:
        encoding = b"raw" if form == "raw" else b"base64"
        content += b'<AppendedData encoding="' + encoding + b'">\n   _' + appended
        content += b"</AppendedData>"
    path.write_bytes(content + b"</VTKFile>")
    return path


@pytest.mark.parametrize("head", ["UInt32", "UInt64"])
@pytest.mark.parametrize(
    ("form", "block"),
    [("ascii", 0), ("binary", 0), ("binary", 16), ("binary", 20), ("raw", 0), ("raw", 16),
     ("base64", 0), ("base64", 20)],
)  # fmt: skip
def test_each_form_is_read(tmp_path: Path, form: str, block: int, head: str) -> None:
    found = load_tractogram(write(tmp_path / "t.vtp", form, block=block, head=head))
    assert found.offsets.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(found.points, POINTS[IDS])
    assert found.data.per_streamline["fa"].ravel().tolist() == FA.tolist()
    assert found.data.per_point["x"].ravel().tolist() == X[IDS].tolist()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"PolyData", b"ImageData", "it holds ImageData"),
        (b"vtkZLib", b"vtkLZ4", "packed by vtkLZ4DataCompressor"),
        (b"</Piece>", b"", "it is no XML"),
        (b'NumberOfPoints="4"', b'NumberOfPoints="5"', "5 points, of shape"),
        (b'NumberOfLines="2"', b'NumberOfLines="3"', "3 lines with 4 points"),
        (b"_", b"", "do not begin with _"),
    ],
)
def test_others_are_told(tmp_path: Path, old: bytes, new: bytes, words: str) -> None:
    path = write(tmp_path / "t.vtp", "raw", block=16)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"   _", b"   ") if old == b"_" else raw.replace(old, new))
    with pytest.raises(FileError, match=words):
        load_tractogram(path)


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.95])
def test_files_that_are_cut_are_refused(tmp_path: Path, kept: float) -> None:
    path = write(tmp_path / "t.vtp", "raw")
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * kept)])
    with pytest.raises(FileError, match=r"t\.vtp"):
        load_tractogram(path)


def test_values_have_the_byte_order_of_this_machine(tmp_path: Path) -> None:
    path = write(tmp_path / "t.vtp", "ascii")
    path.write_bytes(path.read_bytes().replace(b"LittleEndian", b"BigEndian"))
    data = load_tractogram(path).data
    assert data.per_streamline["fa"].dtype.isnative
    assert data.per_point["x"].dtype.isnative


def test_values_of_cells_are_those_of_lines_where_there_are_others(tmp_path: Path) -> None:
    path = write(tmp_path / "t.vtp", "ascii")
    content = path.read_bytes().replace(b'NumberOfVerts="0"', b'NumberOfVerts="1"')
    path.write_bytes(content.replace(b"0.25 0.5", b"-1 0.25 0.5"))
    data = load_tractogram(path).data
    assert data.per_streamline["fa"].ravel().tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    ("form", "text"),
    [("ascii", "76 80 83 0"), ("ascii", "82 65 83 0"), ("binary", "BAAAAExQUwA=")],
    ids=["LPS", "RAS", "LPS in base64"],
)
def test_the_axes_that_slicer_names_are_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str, text: str
) -> None:
    """The field SPACE, as VTK 9.7 writes it of what Slicer adds, for LPS by default."""
    path = write(tmp_path / "t.vtp", "ascii")
    load_tractogram(path)
    assert "t.vtp does not say which way its axes run: RAS+ is a guess" in caplog.messages[0]
    caplog.clear()
    other = '<Array type="String" Name="note" NumberOfTuples="1" format="ascii">76 80 83 0</Array>'
    space = f'<Array type="String" Name="SPACE" NumberOfTuples="1" format="{form}">{text}</Array>'
    field = f"<PolyData><FieldData>{other}\n{space}\n</FieldData>".encode()
    path.write_bytes(path.read_bytes().replace(b"<PolyData>", field))
    signs = [1, 1, 1] if text.startswith("82") else [-1, -1, 1]
    np.testing.assert_array_equal(load_tractogram(path).points, POINTS[IDS] * signs)
    assert not caplog.messages
