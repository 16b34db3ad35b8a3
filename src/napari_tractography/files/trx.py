"""The community's .trx files: zip archives of arrays."""

from __future__ import annotations

import json
import struct
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError
from .description import FLOAT16, FLOAT32, TractogramFormat
from .paths import unquoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays, StreamlineStream

FOLDERS = ("", "dps", "dpv", "groups", "dpg")  # of arrays; whatever else there is does not matter
MOST_HEADER_BYTES = 1 << 20
MAPPED_FROM = 1 << 26  # bytes of a file: smaller ones are read at once, with their checksums
LOCAL_HEADER = 30  # bytes of a zip entry before its name


def stream_trx(
    path: Path, grid: Grid | None, dtype: str
) -> AbstractContextManager[StreamlineStream]:
    """Write a file whose streamlines are appended; see :mod:`.trx_stream`."""
    from .trx_stream import stream_trx as stream

    return stream(path, grid, dtype)


def read_trx(path: Path) -> StreamlineArrays:
    """Read points, columns, values and groups; those of large files are mapped, not copied.

    trx-python maps a packed file for writing, which fails where it is read-only, reads compressed
    ones wrongly, and stumbles over whatever else lies in an archive; so its reader is not used.
    Raises FileError when the file unpacks to more than this machine has memory.
    """
    with zipfile.ZipFile(path) as archive:
        return _Archive(path, archive).read()


class _Archive:
    """The arrays in a .trx file, each by its name: folder/name.columns.dtype."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path, self._zip = path, archive
        self._is_mapped = path.stat().st_size >= MAPPED_FROM
        self.remarks: list[str] = []
        self._entries: dict[
            str, dict[str, tuple[zipfile.ZipInfo, int]]
        ] = {}  # and how many columns
        for entry in archive.infolist():
            folder, _, file = entry.filename.rpartition("/")
            if file and not file.startswith(".") and folder.split("/")[0] in FOLDERS:
                parts = file.split(".")
                n = int(parts[-2]) if len(parts) > 2 and parts[-2].isdecimal() else 1
                name = ".".join(parts[: -2 if len(parts) > 2 and parts[-2].isdecimal() else -1])
                self._entries.setdefault(unquoted(folder), {})[unquoted(name)] = entry, n

    def names(self, folder: str) -> list[str]:
        """Return the names of the arrays in a folder."""
        return sorted(self._entries.get(folder, {}))

    def read(self) -> StreamlineArrays:
        import numpy as np

        from .sequences import with_columns

        header, grid = self._header()
        n, n_points = int(header["NB_STREAMLINES"]), int(header["NB_VERTICES"])
        if min(n, n_points) < 0:
            raise ValueError(f"{n} streamlines of {n_points} points")
        self._check_memory(n_points)
        points = np.empty((0, 3), np.float32)
        starts = np.full(n + 1, n_points, np.int64) if not n else None
        if n_points:
            points = self.array("", "positions", n_points)
        if n:
            found = self.array("", "offsets", None).ravel()
            if len(found) not in (n, n + 1):  # some programs add the end, some not
                raise ValueError(f"{n} streamlines and {len(found)} offsets")
            if (found[n:] != n_points).any():
                raise ValueError(f"offsets up to {found[n]} of {n_points} points")
            starts = np.append(found[:n].astype(np.int64), n_points)
        assert starts is not None
        groups = {}
        for name in self.names("groups"):
            members = self.array("groups", name, None).ravel().astype(np.int64)
            if len(members) and not 0 <= members.min() <= members.max() < n:
                raise ValueError(f"the group {name} has streamline {members.max()} of {n}")
            groups[name] = members
        return with_columns(
            points.astype(np.float32) if points.dtype.itemsize > 4 else points,
            starts,
            self._values("dps", n),
            per_point=self._values("dpv", n_points),
            groups=groups,
            per_group={name: self._values(f"dpg/{name}", 1) for name in groups},
            grid=grid,
            remarks=tuple(self.remarks),
        )

    def _values(self, folder: str, n: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of a folder that are numbers, (n, columns) each."""
        found = {}
        for name in self.names(folder) if n else ():
            try:
                found[name] = self.array(folder, name, n)
            except TypeError:
                entry = self._entries[folder][name][0].filename
                self.remarks.append(f"{self._path.name}: {entry} holds no numbers and is left out.")
        return found

    def array(self, folder: str, name: str, n: int | None) -> NDArray[Any]:
        """Return an array as (n, columns), mapped into memory where it can be; any n where None.

        Raises TypeError when its type is unknown, ValueError when it has another size.
        """
        import numpy as np

        if name not in self._entries.get(folder, {}):
            raise KeyError(f"no {name}")
        entry, n_columns = self._entries[folder][name]
        text = entry.filename.rpartition(".")[2]
        dtype = np.dtype(np.bool_ if text == "bit" else text).newbyteorder("<")
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise TypeError(text)
        n_values, rest = divmod(entry.file_size, dtype.itemsize)
        if rest or (n is not None and n_values != n * n_columns):
            raise ValueError(f"{entry.filename} has {entry.file_size} bytes")
        first = _address(self._path, entry) if self._is_mapped else 0
        if (
            self._is_mapped
            and entry.compress_type == zipfile.ZIP_STORED
            and n_values
            and not first % dtype.alignment
        ):
            found: NDArray[Any] = np.memmap(self._path, dtype, "r", first, (n_values,))
        else:
            found = np.frombuffer(self._zip.read(entry), dtype)
        return found.reshape(-1, n_columns)

    def _header(self) -> tuple[dict[str, Any], Grid | None]:
        from ..errors import InvalidGridError
        from ..geometry.grid import Grid
        from .axes_mark import as_noted
        from .sequences import no_grid

        entry = self._zip.getinfo("header.json")
        if entry.file_size > MOST_HEADER_BYTES:
            raise ValueError(f"a header of {entry.file_size} bytes")
        header = json.loads(self._zip.read(entry))
        try:
            grid = Grid(header["DIMENSIONS"], header["VOXEL_TO_RASMM"])
        except (InvalidGridError, KeyError, TypeError):
            return header, None
        fields = {name: str(value) for name, value in header.items()}
        return header, None if grid == no_grid() else as_noted(grid, fields)

    def _check_memory(self, n_points: int) -> None:
        """Check that what is copied fits: a small archive may hold gigabytes."""
        from .stored_images import check_memory

        wanted = sum(
            entry.file_size
            for each in self._entries.values()
            for entry, _ in each.values()
            if not self._is_mapped or entry.compress_type != zipfile.ZIP_STORED
        )
        check_memory(self._path, (n_points, 3), wanted, "check the file")


def _address(path: Path, entry: zipfile.ZipInfo) -> int:
    """Return where the content of an entry begins in the file, by the header before it."""
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        n_name, n_extra = struct.unpack("<26x2H", file.read(LOCAL_HEADER))
    return int(entry.header_offset + LOCAL_HEADER + n_name + n_extra)


def trx_columns(path: Path) -> list[str]:
    """Return the names of the values per streamline."""
    with zipfile.ZipFile(path) as archive:
        return _Archive(path, archive).names("dps")


def trx_column(path: Path, name: str) -> NDArray[Any]:
    """Read values per streamline by their place in the archive: name.columns.dtype.

    Raises FileError when there are none of that name, or several a streamline.
    """
    with zipfile.ZipFile(path) as archive:
        found = _Archive(path, archive)
        names = found.names("dps")
        wanted = name or ("weights" if "weights" in names else "")
        if not wanted and len(names) == 1:
            (wanted,) = names
        if wanted not in names:
            there = ", ".join(names) or "none"
            raise FileError(
                f"{path} has no values per streamline called {wanted or 'weights'!r}; "
                f"it has {there}."
            )
        try:
            values = found.array("dps", wanted, None)
        except TypeError as error:
            raise FileError(
                f"{path} holds {wanted} as {error}, which are no numbers; export it again."
            ) from None
    if values.shape[1] != 1:
        raise FileError(
            f"{path} holds {values.shape[1]} values per streamline in {wanted}; give one."
        )
    return values[:, 0]


TRX = TractogramFormat(
    (".trx",),
    read_trx,
    stream=stream_trx,
    columns=trx_columns,
    column=trx_column,
    lost=lambda streamlines: [],
    names_image=True,
    dtypes=(FLOAT32, FLOAT16),
)
