"""Polylines in VTK's XML files of polydata, .vtp, as DSI Studio's users and 3D Slicer have them.

"VTK XML Formats", the documentation of VTK; read only. Called by :mod:`.tractograms`.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ..errors import FileError
from .description import TractogramFormat
from .vtk import UNSAID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .streamline_arrays import StreamlineArrays

DTYPES = {
    f"{kind}{8 * n}": f"{letter}{n}"
    for kind, letter, sizes in (
        ("Int", "i", (1, 2, 4, 8)), ("UInt", "u", (1, 2, 4, 8)), ("Float", "f", (4, 8))
    )
    for n in sizes
}  # fmt: skip
APPENDED = re.compile(rb"<AppendedData[^>]*>")
MARK = b"_"  # before the first byte of appended data
ZLIB = "vtkZLibDataCompressor"


def read_vtp(path: Path) -> StreamlineArrays:
    """Read the lines of all pieces, with values at points and of lines.

    The file's coordinates are taken as RAS+ mm, but where a text called SPACE among the values of
    the whole says LPS, as 3D Slicer writes it. Raises FileError when it is something else, or
    packed in another way than by zlib.
    """
    import numpy as np

    from .streamline_arrays import StreamlineArrays, joined
    from .streamline_data import StreamlineData

    file = _File(path)
    space = file.text("SPACE")
    signs = np.array([-1, -1, 1] if space == "LPS" else [1, 1, 1], np.float32)
    parts = []
    for piece in file.root.iter("Piece"):
        n_points, n_verts, n_lines, n_strips, n_polys = (
            int(piece.get(f"NumberOf{what}", "0"))
            for what in ("Points", "Verts", "Lines", "Strips", "Polys")
        )
        arrays = {
            section: file.arrays(piece.find(section))
            for section in ("Points", "Lines", "PointData", "CellData")
        }
        points = next(iter(arrays["Points"].values()), np.empty((0, 3), np.float32))
        if points.shape != (n_points, 3):
            raise ValueError(f"{n_points} points, of shape {points.shape}")
        ids = arrays["Lines"].get("connectivity", np.empty((0, 1), np.int64)).ravel()
        ends = arrays["Lines"].get("offsets", np.empty((0, 1), np.int64)).ravel()
        offsets = np.concatenate([np.zeros(1, np.int64), ends.astype(np.int64)])
        if len(ends) != n_lines or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
            raise ValueError(f"{n_lines} lines with {len(ids)} points, offsets {ends[-3:]}")
        if len(ids) and not 0 <= ids.min() <= ids.max() < n_points:
            raise ValueError(f"a line uses point {ids.max()} of {n_points}")
        of_points = {
            name: values[ids]
            for name, values in arrays["PointData"].items()
            if len(values) == n_points
        }
        of_lines = {
            name: values[n_verts : n_verts + n_lines]
            for name, values in arrays["CellData"].items()
            if len(values) == n_verts + n_lines + n_strips + n_polys
        }
        parts.append(
            StreamlineArrays(
                points[ids].astype(np.float32) * signs,
                offsets,
                data=StreamlineData(of_lines, of_points),
            )
        )
    return replace(joined(parts), remarks=() if space else (UNSAID.format(path.name),))


class _File:
    """The XML of a file, and the bytes that are appended to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = path.read_bytes()
        begin = APPENDED.search(data)
        self._appended = b""
        if begin is not None:  # which need not be XML
            end = data.rfind(b"</AppendedData>")
            self._appended = data[begin.end() : end].lstrip()
            data = data[: begin.end()] + data[end:]
        try:
            self.root = ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            raise self._error(f"it is no XML ({error})") from None
        if self.root.tag != "VTKFile" or self.root.get("type") != "PolyData":
            raise self._error(f"it holds {self.root.get('type', self.root.tag)}")
        compressor = self.root.get("compressor", "")
        if compressor not in ("", ZLIB):
            raise self._error(f"it is packed by {compressor}, not by zlib")
        self._is_packed = bool(compressor)
        self._order = ">" if self.root.get("byte_order") == "BigEndian" else "<"
        self._header = self._order + DTYPES[self.root.get("header_type", "UInt32")]
        appended = self.root.find("AppendedData")
        self._is_raw = appended is not None and appended.get("encoding") == "raw"
        if self._appended and not self._appended.startswith(MARK):
            raise self._error("its appended data do not begin with _")

    def _error(self, what: str) -> FileError:
        return FileError(
            f"{self.path} is no usable VTK polydata: {what}; save it as legacy .vtk, or in another "
            "format."
        )

    def arrays(self, section: Any) -> dict[str, NDArray[Any]]:
        """Return the arrays of numbers of a section by name, (n, components) each."""
        found = {}
        for number, element in enumerate(() if section is None else section.iter("DataArray")):
            if element.get("type") in DTYPES:  # and no texts
                values = self._array(element, DTYPES[element.get("type")])
                n = int(element.get("NumberOfComponents", "1"))
                found[element.get("Name", str(number))] = values.reshape(-1, n)
        return found

    def text(self, name: str) -> str:
        """Return the first text of a name among the values of the file as a whole, or ""."""
        found = self.root.findall(f"PolyData/FieldData/Array[@type='String'][@Name='{name}']")
        whole = bytes(self._array(found[0], "u1")) if found else b""
        return whole.partition(b"\0")[0].decode("latin-1")

    def _array(self, element: Any, kind: str) -> NDArray[Any]:
        import numpy as np

        dtype = np.dtype(self._order + kind)
        native = dtype.newbyteorder("=")  # which pandas asks for
        form = element.get("format", "ascii")
        if form == "ascii":
            return np.array((element.text or "").split(), dtype="S").astype(native)
        if form == "appended":
            first = len(MARK) + int(element.get("offset", "0"))
            data = self._unpacked(self._appended[first:], is_raw=self._is_raw)
        else:
            data = self._unpacked((element.text or "").strip().encode(), is_raw=False)
        return np.frombuffer(data, dtype).astype(native)

    def _unpacked(self, data: bytes, *, is_raw: bool) -> bytes:
        """Return the bytes of an array: its size and itself, or packed blocks after their sizes."""
        import numpy as np

        from .stored_images import check_memory

        size = np.dtype(self._header).itemsize

        def numbers(n: int) -> NDArray[np.int64]:
            raw = data[: n * size] if is_raw else b64decode(data[: _letters(n * size)])
            return np.frombuffer(raw, self._header, n).astype(np.int64)

        if not self._is_packed:
            n = int(numbers(1)[0])
            if is_raw:
                return _whole(data[size : size + n], n)
            return _whole(b64decode(data[: _letters(size + n)])[size:], n)
        n_blocks, block, last = numbers(3).tolist()
        if n_blocks == 0:
            return b""
        check_memory(self.path, (n_blocks,), n_blocks * block, "check the file")
        packed = numbers(3 + n_blocks)[3:].tolist()
        head = (3 + n_blocks) * size
        rest = data[head:] if is_raw else data[_letters(head) :]
        rest = rest[: sum(packed)] if is_raw else b64decode(rest[: _letters(sum(packed))])
        parts, first = [], 0
        for number, n in enumerate(packed):
            most = last if number == n_blocks - 1 and last else block
            stream = zlib.decompressobj()
            parts.append(_whole(stream.decompress(rest[first : first + n], most), most))
            first += n
        return b"".join(parts)


def _letters(n_bytes: int) -> int:
    """Return how many letters of base64 hold so many bytes."""
    return -(-n_bytes // 3) * 4


def _whole(data: bytes, n: int) -> bytes:
    if len(data) != n:
        raise EOFError(f"an array has {len(data)} of {n} bytes")
    return data


VTP = TractogramFormat((), read_vtp, read_only=(".vtp",))
