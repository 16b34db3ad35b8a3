"""Polylines in legacy VTK files, as MRtrix3, ParaView, TrackerYoga and DIPY exchange them.

"VTK File Formats", The VTK User's Guide, Kitware. Called by :mod:`.tractograms`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError
from .description import TractogramFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays

INT32_MAX = 2**31 - 1
# In the title, as 3D Slicer writes it and asks for it; without either it takes points for LPS+.
IN_RAS, IN_LPS = "SPACE=RAS", "SPACE=LPS"
# Names of number types in VTK files; binary numbers are big-endian.
DTYPES = {
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
    "vtktypeint64": ">i8",
    "vtktypeuint64": ">u8",
}
CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS")
ATTRIBUTES = ("POINT_DATA", "CELL_DATA")


def write_vtk(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write polylines, RAS+ mm, as binary polydata of version 3.0, which every reader knows.

    Raises FileError when there are more points than the 32-bit indices of the format can number.
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
        stream.write(f"# vtk DataFile Version 3.0\nstreamlines, mm; {IN_RAS}\nBINARY\n".encode())
        stream.write(b"DATASET POLYDATA\n" + f"POINTS {n_points} float\n".encode())
        stream.write(points.astype(">f4").tobytes())
        stream.write(f"\nLINES {n_lines} {n_numbers}\n".encode())
        stream.write(cells.tobytes() + b"\n")


def read_vtk(path: Path) -> StreamlineArrays:
    """Read the polylines of a legacy polydata file, ASCII or binary, versions 1 to 5.

    The file's coordinates are taken as RAS+ mm, but where its title says ``SPACE=LPS``, as that of
    3D Slicer does. Raises FileError when it is something else, truncated or corrupt.
    """
    import numpy as np

    from .streamline_arrays import StreamlineArrays

    scanner = _Scanner(path)
    points = np.empty((0, 3), dtype=np.float32)
    counts, ids = np.empty(0, np.int64), np.empty(0, np.int64)
    while (words := scanner.words()) is not None:
        keyword = words[0].upper()
        if keyword == "POINTS":
            points = scanner.numbers(3 * scanner.whole(words, 1), scanner.dtype(words, 2))
            points = points.astype(np.float32).reshape(-1, 3)
        elif keyword in CELLS:
            cells = scanner.cells(words)
            if keyword == "LINES":
                counts, ids = cells
        elif keyword == "METADATA":
            scanner.skip_block()
        elif keyword == "FIELD":
            for _ in range(scanner.whole(words, 2)):
                array = scanner.words() or []
                count = scanner.whole(array, 1) * scanner.whole(array, 2)
                scanner.numbers(count, scanner.dtype(array, 3))
        elif keyword in ATTRIBUTES:  # colours and scalars come last and are not needed
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
    return StreamlineArrays(points[ids], offsets)


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
        self.is_lps = IN_LPS in title and IN_RAS not in title

    def error(self, what: str) -> FileError:
        return FileError(
            f"{self.path} is no usable legacy VTK polydata: {what}; copy or export it again."
        )

    def _line(self) -> str:
        end = self.data.find(b"\n", self.position)
        end = len(self.data) if end < 0 else end
        line = self.data[self.position : end]
        self.position = end + 1
        return line[:200].decode("latin-1").strip()  # keywords are short; numbers are not read here

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
        """Read `count` numbers."""
        import numpy as np

        if self.binary:
            end = self.position + count * dtype.itemsize
            if end > len(self.data):
                raise self.error(f"it ends {end - len(self.data)} bytes too early")
            values = np.frombuffer(self.data, dtype, count, self.position)
            self.position = end
            return values
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
            return np.array(found, dtype="S").astype(dtype) if found else np.empty(0, dtype)
        except ValueError as problem:
            raise self.error(str(problem)) from None

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


VTK = TractogramFormat((".vtk",), read_vtk, write=write_vtk)
