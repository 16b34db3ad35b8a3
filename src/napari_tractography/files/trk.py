"""TrackVis' .trk files, by nibabel, which also converts from and to their corner-based voxel mm.

Nibabel is imported on use: it takes a while to load.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..errors import FileError
from .description import TractogramFormat

if TYPE_CHECKING:
    from nibabel.streamlines import TrkFile

    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays


def write_trk(streamlines: StreamlineArrays, path: Path, grid: Grid | None) -> None:
    """Write points and columns.

    Raises FileError without a grid, or when the image is too large for the header.
    """
    _trk(streamlines, grid).save(path)


@contextlib.contextmanager
def stream_trk(path: Path, grid: Grid | None, dtype: str) -> Iterator[_TrkStream]:
    """Write a file whose streamlines are appended; nibabel makes the bytes of each part.

    Raises FileError as :func:`write_trk`.
    """
    with path.open("wb") as file:
        stream = _TrkStream(file, grid)
        yield stream
        stream.finish()


class _TrkStream:
    """A .trk file: one header, and parts without theirs."""

    def __init__(self, file: BinaryIO, grid: Grid | None) -> None:
        from nibabel.streamlines import Field
        from nibabel.streamlines.trk import header_2_dtype

        from .streamline_arrays import SameColumns

        self._file, self._grid = file, grid
        self._header_bytes = header_2_dtype.itemsize
        self._count_at = header_2_dtype.fields[Field.NB_STREAMLINES][1]  # bytes
        self._columns = SameColumns()
        self._n = 0

    def append(self, streamlines: StreamlineArrays) -> None:
        if not streamlines.n_streamlines:  # whose header would name no columns
            return
        self._columns.check(streamlines)
        part = io.BytesIO()
        _trk(streamlines, self._grid, always_split=True).save(part)
        part.seek(self._header_bytes if self._n else 0)
        shutil.copyfileobj(part, self._file)
        self._n += streamlines.n_streamlines

    def finish(self) -> None:
        import numpy as np

        from .streamline_arrays import NO_STREAMLINES

        if not self._n:
            _trk(NO_STREAMLINES, self._grid).save(self._file)
        self._file.seek(self._count_at)
        self._file.write(np.int32(self._n).astype("<i4").tobytes())


def _trk(streamlines: StreamlineArrays, grid: Grid | None, always_split: bool = False) -> TrkFile:
    """Return nibabel's file; `always_split` writes large and small seed indices alike."""
    if grid is None:
        raise FileError(
            "A .trk file needs the image it belongs to as its reference; give it, or save as .tck."
        )
    import nibabel as nib
    import numpy as np
    from nibabel.streamlines import Field, TrkFile

    from .sequences import LARGEST_WHOLE, image_size, nibabel_tractogram

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

    Raises FileError when fewer streamlines are there than the header says.
    """
    from nibabel.streamlines import Field, TrkFile

    from .sequences import arrays_of

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


TRK = TractogramFormat(
    (".trk",), read_trk, write=write_trk, stream=stream_trk, names_image=True, needs_grid=True
)
