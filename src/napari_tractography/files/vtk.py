"""Polylines in legacy VTK files, as MRtrix3, ParaView, TrackerYoga and DIPY exchange them.

"VTK File Formats", The VTK User's Guide, Kitware. Called by :mod:`.tractograms`.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from ..errors import FileError
from .axes_mark import as_noted, axes_text
from .description import TractogramFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays

INT32_MAX = 2**31 - 1
# In the title, as 3D Slicer writes it and asks for it; without either it takes points for LPS+.
IN_RAS, IN_LPS = "SPACE=RAS", "SPACE=LPS"
OF_MRTRIX = "Data values for Tracks"  # the title of tckconvert, which writes RAS+
UNSAID = (
    "{} does not say which way its axes run: RAS+ is a guess, and so is which side is left; DIPY's "
    "older versions and MITK write LPS+."
)
# Names of number types in VTK files; binary numbers are big-endian.
DTYPES = {
    "vtktypefloat32": ">f4",
    "vtktypefloat64": ">f8",
    **{f"vtktypeint{8 * n}": f">i{n}" for n in (1, 2, 4, 8)},
    **{f"vtktypeuint{8 * n}": f">u{n}" for n in (1, 2, 4, 8)},
    "signed_char": ">i1",
    "float": ">f4",
    "double": ">f8",
    "char": ">i1",
    "unsigned_char": ">u1",
    "short": ">i2",
    "unsigned_short": ">u2",
    "int": ">i4",
    "unsigned_int": ">u4",
    "long": ">i8",
    "unsigned_long": ">u8",
    "vtkidtype": ">i4",
}
TEXT = "string"
VECTORS = {
    "VECTORS": 3, "NORMALS": 3, "TENSORS": 9, "TENSORS6": 6, "GLOBAL_IDS": 1, "PEDIGREE_IDS": 1,
}  # fmt: skip
# Of values that are written, by NumPy's names; what has 64 bits not all readers call the same.
NAMES = {
    "b1": "unsigned_char", "f4": "float", "f8": "double", "i1": "char", "u1": "unsigned_char",
    "i2": "short", "u2": "unsigned_short", "i4": "int", "u4": "unsigned_int", "i8": "int",
    "u8": "int",
}  # fmt: skip
CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS")
ATTRIBUTES = ("POINT_DATA", "CELL_DATA")
PLAIN = string.punctuation.replace('"', "").replace("%", "")  # in names; VTK writes others as %20
LONGEST_NAME = 255  # bytes that VTK reads


def write_vtk(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write polylines, RAS+ mm, as binary polydata of version 3.0, which every reader knows.

    Values per point and per streamline follow as fields. Raises FileError when there are more
    points than the 32-bit indices of the format can number.
    """
    import numpy as np

    points, offsets = streamlines.points, streamlines.offsets
    n_lines, n_points = len(offsets) - 1, len(points)
    n_numbers = n_lines + n_points
    if n_numbers > INT32_MAX:
        raise FileError(f"A .vtk file cannot number {n_points} points; save as .tck or .trx.")
    counts = np.diff(offsets)
    cells = np.empty(n_numbers, dtype=">i4")  # for each line its count, then its point numbers
    heads = offsets[:-1] + np.arange(n_lines)
    is_head = np.zeros(n_numbers, dtype=bool)
    is_head[heads] = True
    cells[heads] = counts
    cells[~is_head] = np.arange(n_points)
    with open(path, "wb") as stream:
        noted = axes_text(grid, with_grid=True)
        title = "; ".join(filter(None, ["streamlines, mm", IN_RAS, noted]))
        stream.write(f"# vtk DataFile Version 3.0\n{title}\nBINARY\n".encode())
        stream.write(b"DATASET POLYDATA\n" + f"POINTS {n_points} float\n".encode())
        stream.write(points.astype(">f4").tobytes())
        stream.write(f"\nLINES {n_lines} {n_numbers}\n".encode())
        stream.write(cells.tobytes() + b"\n")
        data = streamlines.data
        for section, n, values in (
            ("POINT_DATA", n_points, data.per_point), ("CELL_DATA", n_lines, data.per_streamline)
        ):  # fmt: skip
            held = {name: array for name, array in values.items() if n and _fits(name, array)}
            if held:
                stream.write(f"{section} {n}\nFIELD FieldData {len(held)}\n".encode())
            for name, array in held.items():
                rows = array.reshape(n, -1)
                kind = NAMES[rows.dtype.str[1:]]
                stream.write(f"{quote(name, PLAIN)} {rows.shape[1]} {n} {kind}\n".encode())
                stream.write(rows.astype(DTYPES[kind]).tobytes() + b"\n")


def _fits(name: str, values: NDArray[Any]) -> bool:
    """Tell whether values can be a field: their name of its length, their type one of VTK's."""
    if not 0 < len(quote(name, PLAIN)) <= LONGEST_NAME or values.dtype.str[1:] not in NAMES:
        return False
    is_long = values.dtype.kind in "iu" and values.dtype.itemsize == 8
    return not (is_long and values.size) or -INT32_MAX <= values.min() <= values.max() <= INT32_MAX


def vtk_lost(streamlines: StreamlineArrays) -> list[str]:
    """Return what a .vtk file cannot hold."""
    data = streamlines.data
    weights = [] if streamlines.weights is None else ["weights"]
    values = *data.per_streamline.items(), *data.per_point.items()
    lost = [name for name, array in values if not _fits(name, array)]
    return [*weights, *lost, *(f"the group {name}" for name in data.groups)]


def read_vtk(path: Path) -> StreamlineArrays:
    """Read the polylines of a legacy polydata file, ASCII or binary, versions 1 to 5.

    The file's coordinates are taken as RAS+ mm, but where its title says ``SPACE=LPS``, as that of
    3D Slicer does. Raises FileError when it is something else, truncated or corrupt.
    """
    import numpy as np

    from .streamline_arrays import StreamlineArrays
    from .streamline_data import StreamlineData

    scanner = _Scanner(path)
    points = np.empty((0, 3), dtype=np.float32)
    counts, ids = np.empty(0, np.int64), np.empty(0, np.int64)
    values: dict[str, dict[str, NDArray[Any]]] = {section: {} for section in ATTRIBUTES}
    n_cells = dict.fromkeys(CELLS, 0)  # whose values follow each other in this order
    while (words := scanner.words()) is not None:
        keyword = words[0].upper()
        if keyword == "POINTS":
            points = scanner.numbers(3 * scanner.whole(words, 1), scanner.dtype(words, 2))
            points = points.astype(np.float32).reshape(-1, 3)
        elif keyword in CELLS:
            cells = scanner.cells(words)
            n_cells[keyword] = len(cells[0])
            if keyword == "LINES":
                counts, ids = cells
        elif keyword == "METADATA":
            scanner.skip_block()
        elif keyword == "FIELD":
            scanner.field(words)
        elif keyword in ATTRIBUTES:
            values = scanner.attributes(words)
            break
        else:
            raise scanner.error(f"it has the unknown section {words[0]!r}")
    if len(ids) and (ids.min() < 0 or ids.max() >= len(points)):
        raise scanner.error(f"a line uses point {ids.max()} of {len(points)}")
    if len(points) and not len(counts):
        raise scanner.error("it has points but no lines")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    if scanner.is_lps:
        points = points * np.array([-1, -1, 1], np.float32)
    of_points = {
        name: array[ids]
        for name, array in values["POINT_DATA"].items()
        if len(array) == len(points)
    }
    lines = slice(n_cells["VERTICES"], n_cells["VERTICES"] + n_cells["LINES"])
    of_lines = {
        name: array[lines]
        for name, array in values["CELL_DATA"].items()
        if len(array) == sum(n_cells.values())
    }
    data = StreamlineData(of_lines, of_points)
    grid = as_noted(None, scanner.title)
    return StreamlineArrays(points[ids], offsets, data=data, grid=grid, remarks=scanner.remarks)


class _Scanner:
    """Walks through the bytes of a legacy VTK file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path.read_bytes()
        self.position = 0
        magic, title, mode, dataset = (self._line() for _ in range(4))
        if not magic.lower().startswith("# vtk datafile"):
            raise self.error("it does not begin with '# vtk DataFile'")
        if mode.upper() not in ("ASCII", "BINARY"):
            raise self.error(f"its third line is {mode!r}, neither ASCII nor BINARY")
        if dataset.upper().split() != ["DATASET", "POLYDATA"]:
            raise self.error(f"its fourth line is {dataset!r}, not DATASET POLYDATA")
        self.binary = mode.upper() == "BINARY"
        self.title = title
        self.is_lps = IN_LPS in title and IN_RAS not in title
        self.remarks: tuple[str, ...] = ()
        if not any(mark in title for mark in (IN_RAS, IN_LPS, OF_MRTRIX)):
            self.remarks = (UNSAID.format(path.name),)

    def error(self, what: str) -> FileError:
        return FileError(
            f"{self.path} is no usable legacy VTK polydata: {what}; copy or export it again."
        )

    def _line(self) -> str:
        end = self.data.find(b"\n", self.position)
        end = len(self.data) if end < 0 else end
        line = self.data[self.position : end]
        self.position = end + 1
        return line[:256].decode("latin-1").strip()  # keywords are short; numbers are not read here

    def words(self) -> list[str] | None:
        """Return the next line that is not empty, in words, or None at the end."""
        while self.position < len(self.data):
            if words := self._line().split():
                return words
        return None

    def skip_block(self) -> None:
        """Skip up to an empty line."""
        while self.position < len(self.data) and self._line():
            pass

    def whole(self, words: list[str], index: int) -> int:
        """Return a word as a number from zero."""
        if index >= len(words) or not words[index].isdecimal():
            raise self.error(f"the line {' '.join(words)!r} has no count")
        return int(words[index])

    def dtype(self, words: list[str], index: int) -> np.dtype[Any]:
        """Return the number type that a word names."""
        import numpy as np

        name = words[index].lower() if index < len(words) else ""
        if name not in DTYPES:
            raise self.error(f"the line {' '.join(words)!r} names no known number type")
        return np.dtype(DTYPES[name])

    def numbers(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Read `count` numbers, in the byte order of this machine, which pandas asks for."""
        import numpy as np

        if self.binary:
            end = self.position + count * dtype.itemsize
            if end > len(self.data):
                raise self.error(f"it ends {end - len(self.data)} bytes too early")
            values = np.frombuffer(self.data, dtype, count, self.position)
            self.position = end
            return values.astype(dtype.newbyteorder("="))
        if count > len(self.data):  # a number takes at least a byte and a space
            raise self.error("it ends too early")
        found: list[bytes] = []
        while len(found) < count:
            if self.position >= len(self.data):
                raise self.error(f"it ends after {len(found)} of {count} numbers")
            end = self.data.find(b"\n", self.position)
            end = len(self.data) if end < 0 else end
            found += self.data[self.position : end].split()
            self.position = end + 1
        if len(found) > count:
            raise self.error(f"a row goes on after the last of {count} numbers")
        try:
            return np.array(found, dtype="S").astype(dtype.newbyteorder("="))
        except ValueError as problem:
            raise self.error(str(problem)) from None

    def field(self, words: list[str]) -> dict[str, NDArray[Any]]:
        """Read a field: its arrays of numbers by name, (n, columns) each; texts are skipped."""
        found, left = {}, self.whole(words, 2)
        while left:
            array = self.words() or []
            if array[:1] == ["METADATA"]:
                self.skip_block()
                continue
            n_columns, n_rows = self.whole(array, 1), self.whole(array, 2)
            if array[3:4] == [TEXT]:
                self._skip_texts(n_columns * n_rows)
            else:
                values = self.numbers(n_columns * n_rows, self.dtype(array, 3))
                rows = values.reshape(n_rows, n_columns) if n_rows else values[:, None]
                if n_columns:
                    found[unquote(array[0])] = rows
            left -= 1
        return found

    def _skip_texts(self, n: int) -> None:
        """Skip texts: lines, or bytes after their length, whose first bits say how long that is."""
        for _ in range(n):
            if not self.binary:
                self._line()
                continue
            if self.position >= len(self.data):
                raise self.error("it ends amid texts")
            n_bytes = {3: 1, 2: 2, 1: 4, 0: 8}[self.data[self.position] >> 6]
            head = self.data[self.position : self.position + n_bytes]
            length = int.from_bytes(head, "big") & ((1 << (8 * n_bytes - 2)) - 1)
            self.position += n_bytes + length

    def attributes(self, words: list[str]) -> dict[str, dict[str, NDArray[Any]]]:
        """Read the values at points and of cells, to the end of the file.

        What comes after something unknown or damaged is left out with a remark: lines are there.
        """
        found: dict[str, dict[str, NDArray[Any]]] = {section: {} for section in ATTRIBUTES}
        section, n = words[0].upper(), self.whole(words, 1)
        try:
            while (line := self.words()) is not None:
                keyword = line[0].upper()
                if keyword in ATTRIBUTES:
                    section, n = keyword, self.whole(line, 1)
                elif keyword == "FIELD":
                    found[section] |= self.field(line)
                elif keyword == "METADATA":
                    self.skip_block()
                elif keyword == "SCALARS":
                    n_columns = self.whole(line, 3) if len(line) > 3 else 1
                    start = self.position
                    if (self.words() or [""])[0].upper() != "LOOKUP_TABLE":
                        self.position = start
                    values = self.numbers(n * n_columns, self.dtype(line, 2))
                    found[section][unquote(line[1])] = values.reshape(n, n_columns)
                elif keyword in VECTORS:
                    values = self.numbers(n * VECTORS[keyword], self.dtype(line, 2))
                    found[section][unquote(line[1])] = values.reshape(n, VECTORS[keyword])
                elif keyword == "TEXTURE_COORDINATES":
                    n_columns = self.whole(line, 2)
                    values = self.numbers(n * n_columns, self.dtype(line, 3))
                    found[section][unquote(line[1])] = values.reshape(n, n_columns)
                elif keyword in ("COLOR_SCALARS", "LOOKUP_TABLE"):
                    rows, n_columns = (n, self.whole(line, 2))
                    if keyword == "LOOKUP_TABLE":
                        rows, n_columns = n_columns, 4
                    kind = "unsigned_char" if self.binary else "float"
                    values = self.numbers(rows * n_columns, self.dtype([kind], 0))
                    if keyword == "COLOR_SCALARS":
                        found[section][unquote(line[1])] = values.reshape(n, n_columns)
                else:
                    raise self.error(f"it has {line[0]!r}")
        except (FileError, IndexError):
            self.remarks += (
                f"{self.path.name}: values per point or per streamline cannot be read from a "
                "section on, and are left out.",
            )
        return found

    def cells(self, words: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Read a section of cells: (n_cells,) counts and all point numbers, int64."""
        import numpy as np

        n_first, n_second = self.whole(words, 1), self.whole(words, 2)
        start = self.position
        following = self.words() if n_first else None
        if following and following[0].upper() == "OFFSETS":  # version 5: two arrays
            offsets = self.numbers(n_first, self.dtype(following, 1)).astype(np.int64)
            following = self.words() or []
            if not following or following[0].upper() != "CONNECTIVITY":
                raise self.error("OFFSETS without CONNECTIVITY")
            ids = self.numbers(n_second, self.dtype(following, 1)).astype(np.int64)
            counts = np.diff(offsets)
            if offsets[0] != 0 or offsets[-1] != len(ids) or (counts < 0).any():
                raise self.error("its OFFSETS do not rise from 0 to the number of indices")
            return counts, ids
        self.position = start
        flat = self.numbers(n_second, np.dtype(">i4")).astype(np.int64)
        is_head = np.zeros(n_second, dtype=bool)
        head = 0
        for _ in range(n_first):
            if not 0 <= head < n_second or flat[head] < 0:
                raise self.error(f"its {words[0]} do not add up to {n_second} numbers")
            is_head[head] = True
            head += int(flat[head]) + 1
        if head != n_second:
            raise self.error(f"its {words[0]} do not add up to {n_second} numbers")
        return flat[is_head], flat[~is_head]


VTK = TractogramFormat((".vtk",), read_vtk, write=write_vtk, lost=vtk_lost)
