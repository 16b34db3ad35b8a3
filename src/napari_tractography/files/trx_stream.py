"""A .trx file that streamlines are appended to.

A .trx file is a zip archive of arrays. Each grows in a nameless temporary file beside it, which is
gone whatever ends the program, and all are packed in the end, uncompressed and at addresses that
readers can map into memory.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from ..geometry.grid import Grid
from .axes_mark import axes_fields
from .paths import quoted
from .sequences import image_size, no_grid
from .streamline_arrays import SameColumns, StreamlineArrays

ALIGNMENT = 64  # bytes, of each array in the archive
LOCAL_HEADER = 30  # bytes of a zip entry before its name
EXTRA_HEADER = 4  # bytes of an extra field before its content
ZIP64_EXTRA = 20  # bytes of the extra field of entries that may be large
PADDING = 0xD935  # the extra field that is made for alignment
BLOCK = 1 << 22
REFUSED = "[./%]"  # in names: folders, and what parts a name from its columns and its type


@contextlib.contextmanager
def stream_trx(path: Path, grid: Grid | None, dtype: str) -> Iterator[_TrxStream]:
    """Write a file whose streamlines are appended.

    Without a grid the header has that of the streamlines, or says identity.

    Raises FileError when the image is too large for the header.
    """
    with contextlib.ExitStack() as files:
        stream = _TrxStream(path, grid, dtype, files)
        yield stream
        stream.finish()


class _TrxStream:
    def __init__(
        self, path: Path, grid: Grid | None, dtype: str, files: contextlib.ExitStack
    ) -> None:
        self._path = path
        self._files = files
        self._grid = grid
        if grid is not None:
            image_size(grid)  # where it is too large, before long work
        self._dtype = dtype
        self._arrays: dict[str, IO[bytes]] = {}  # by name in the archive
        self._counts = self._temporary()  # points of each streamline, int64
        self._columns = SameColumns()
        self._n_points = self._n_streamlines = 0
        self._groups: dict[str, list[np.ndarray]] = {}
        self._per_group: dict[str, Mapping[str, np.ndarray]] = {}

    def append(self, streamlines: StreamlineArrays) -> None:
        self._columns.check(streamlines)
        self._grid = self._grid or streamlines.grid
        points = streamlines.points.astype(np.dtype(self._dtype).newbyteorder("<"), copy=False)
        self._add(f"positions.3.{self._dtype}", np.ascontiguousarray(points))
        self._counts.write(np.diff(streamlines.offsets).astype(np.int64).data)
        data = streamlines.data
        columns = {**streamlines.stored_columns(points), **data.per_streamline}
        for folder, values in (("dps", columns), ("dpv", data.per_point)):
            for name, array in values.items():
                self._add(f"{folder}/{_file_of(name, array)}", _stored(array))
        for name, members in data.groups.items():
            self._groups.setdefault(name, []).append(members + self._n_streamlines)
        self._per_group |= data.per_group
        self._n_points += len(points)
        self._n_streamlines += streamlines.n_streamlines

    def finish(self) -> None:
        image = self._grid or no_grid()
        header = {
            "DIMENSIONS": image_size(image).tolist(),
            "VOXEL_TO_RASMM": image.affine.astype(np.float32).tolist(),
            "NB_VERTICES": self._n_points,
            "NB_STREAMLINES": self._n_streamlines,
            **axes_fields(self._grid),
        }
        with zipfile.ZipFile(self._path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("header.json", json.dumps(header))
            for name, file in self._arrays.items():
                file.seek(0)
                with _entry(archive, name) as entry:
                    shutil.copyfileobj(file, entry, BLOCK)
            for name, parts in self._groups.items():
                with _entry(archive, f"groups/{quoted(name, REFUSED)}.uint32") as entry:
                    entry.write(np.concatenate(parts).astype("<u4").data)
            for group, values in self._per_group.items():
                folder = f"dpg/{quoted(group, REFUSED)}"
                for name, array in values.items():
                    row = np.reshape(array, (1, -1))
                    with _entry(archive, f"{folder}/{_file_of(name, row)}") as entry:
                        entry.write(_stored(row).data)
            if self._n_streamlines:
                dtype = np.dtype("uint64" if self._n_points >= 2**32 else "uint32")
                with _entry(archive, f"offsets.{dtype}") as entry:
                    self._write_offsets(entry, dtype.newbyteorder("<"))

    def _write_offsets(self, entry: IO[bytes], dtype: np.dtype[np.unsignedinteger]) -> None:
        """Write where each streamline begins, and where the last ends."""
        self._counts.seek(0)
        last = 0
        entry.write(np.zeros(1, dtype).data)
        while block := self._counts.read(BLOCK):
            ends = last + np.cumsum(np.frombuffer(block, np.int64))
            last = int(ends[-1])
            entry.write(ends.astype(dtype).data)

    def _add(self, name: str, array: np.ndarray) -> None:
        if name not in self._arrays:
            self._arrays[name] = self._temporary()
        self._arrays[name].write(array.data)

    def _temporary(self) -> IO[bytes]:
        return self._files.enter_context(tempfile.TemporaryFile(dir=self._path.parent))


def _file_of(name: str, values: np.ndarray) -> str:
    """Return the name of the file of values: name.columns.dtype."""
    n_columns = math.prod(values.shape[1:])
    width = "" if n_columns == 1 else f".{n_columns}"
    dtype = "bit" if values.dtype == np.bool_ else values.dtype.name
    return f"{quoted(name, REFUSED)}{width}.{dtype}"


def _stored(values: np.ndarray) -> np.ndarray:
    """Return values as a file holds them: little-endian, whatever they were."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


@contextlib.contextmanager
def _entry(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """Yield an entry of an archive to write to, whose content begins at an aligned address."""
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    begins = archive.fp.tell() + LOCAL_HEADER + len(name.encode()) + ZIP64_EXTRA + EXTRA_HEADER
    n = -begins % ALIGNMENT
    info.extra = PADDING.to_bytes(2, "little") + n.to_bytes(2, "little") + bytes(n)
    with archive.open(info, "w", force_zip64=True) as entry:
        yield entry
