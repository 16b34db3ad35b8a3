"""TrackVis' .trk files, by nibabel, which also converts from and to their corner-based voxel mm."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import nibabel as nib
import numpy as np
from nibabel.streamlines import Field, TrkFile
from nibabel.streamlines.trk import header_2_dtype

from ..errors import FileError
from ..geometry.grid import Grid
from .sequences import LARGEST_WHOLE, arrays_of, image_size, nibabel_tractogram
from .streamline_arrays import NO_STREAMLINES, SameColumns, StreamlineArrays

HEADER_BYTES = header_2_dtype.itemsize
COUNT_AT = header_2_dtype.fields[Field.NB_STREAMLINES][1]  # bytes


def write_trk(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write points and columns.

    Raises
    ------
    FileError
        Without a grid, or when the image is too large for the header.
    """
    _trk(streamlines, grid).save(path)


@contextlib.contextmanager
def stream_trk(path: Path, grid: Grid | None, dtype: str) -> Iterator[_TrkStream]:
    """Write a file whose streamlines are appended; nibabel makes the bytes of each part.

    Raises
    ------
    FileError
        As :func:`write_trk`.
    """
    with path.open("wb") as file:
        stream = _TrkStream(file, grid)
        yield stream
        stream.finish()


class _TrkStream:
    """A .trk file: one header, and parts without theirs."""

    def __init__(self, file: BinaryIO, grid: Grid | None) -> None:
        self._file, self._grid = file, grid
        self._columns = SameColumns()
        self._n = 0

    def append(self, streamlines: StreamlineArrays) -> None:
        if not streamlines.n_streamlines:  # whose header would name no columns
            return
        self._columns.check(streamlines)
        part = io.BytesIO()
        _trk(streamlines, self._grid, always_split=True).save(part)
        part.seek(HEADER_BYTES if self._n else 0)
        shutil.copyfileobj(part, self._file)
        self._n += streamlines.n_streamlines

    def finish(self) -> None:
        if not self._n:
            _trk(NO_STREAMLINES, self._grid).save(self._file)
        self._file.seek(COUNT_AT)
        self._file.write(np.int32(self._n).astype("<i4").tobytes())


def _trk(streamlines: StreamlineArrays, grid: Grid | None, always_split: bool = False) -> TrkFile:
    """Return nibabel's file; `always_split` writes large and small seed indices alike."""
    if grid is None:
        raise FileError(
            "A .trk file needs the image it belongs to as its reference; give it, or save as .tck."
        )
    columns = streamlines.columns()
    if "seed_index" in columns:
        high, low = np.divmod(columns["seed_index"], LARGEST_WHOLE)
        columns["seed_index"] = low
        if always_split or high.any():
            columns["seed_index_high"] = high
    columns = {name: column.astype(np.float32) for name, column in columns.items()}
    header = {
        Field.VOXEL_TO_RASMM: grid.affine.astype(np.float32),
        Field.VOXEL_SIZES: grid.voxel_sizes_mm.astype(np.float32),
        Field.DIMENSIONS: image_size(grid),
        Field.VOXEL_ORDER: "".join(nib.aff2axcodes(grid.affine)),
    }
    return TrkFile(nibabel_tractogram(streamlines, columns), header)


class _Rest(io.BufferedReader):
    """A file of which no more can be asked for than is there: room is made for what is asked for.

    Where a file is damaged any number may stand where the points of a streamline are counted.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._n_bytes = path.stat().st_size

    def read(self, size: int | None = -1) -> bytes:
        whole = size is None or size < 0
        return super().read(-1 if whole else min(size or 0, self._n_bytes))


def read_trk(path: Path) -> StreamlineArrays:
    """Read points and columns.

    Raises
    ------
    FileError
        When fewer streamlines are there than the header says.
    """
    with _Rest(path) as file:
        claimed = int(TrkFile.load(file, lazy_load=True).header[Field.NB_STREAMLINES])
        file.seek(0)
        loaded = TrkFile.load(file).tractogram
    if claimed and claimed != len(loaded.streamlines):
        raise FileError(
            f"{path} is truncated: its header says {claimed} streamlines, "
            f"{len(loaded.streamlines)} are there; copy or export it again."
        )
    return arrays_of(loaded.streamlines, loaded.data_per_streamline)
