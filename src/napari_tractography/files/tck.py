"""MRtrix3's .tck files, by nibabel: points, RAS+ mm, nothing per streamline, and no image.

Nibabel is imported on use: it takes a while to load.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..errors import FileError
from .description import TractogramFormat

if TYPE_CHECKING:
    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays

COUNT = b"count: "  # in the header, before ten digits
MAX_HEADER_BYTES = 1 << 20


def read_tck(path: Path) -> StreamlineArrays:
    """Read points; nibabel notices a truncated file by the missing end marker.

    Raises FileError when its numbers have 64 bits.
    """
    from nibabel.streamlines import TckFile

    from .sequences import arrays_of

    _check_numbers(path)
    return arrays_of(TckFile.load(path).tractogram.streamlines, {})


def iter_tck(path: Path, n_streamlines: int) -> Iterator[StreamlineArrays]:
    """Yield the same as :func:`read_tck`, so many streamlines at a time."""
    import numpy as np
    from nibabel.streamlines import TckFile

    from .streamline_arrays import StreamlineArrays

    _check_numbers(path)
    lines = iter(TckFile.load(path, lazy_load=True).tractogram.streamlines)
    while block := list(islice(lines, n_streamlines)):
        counts = [len(line) for line in block]
        points = np.concatenate(block).astype(np.float32, copy=False)
        yield StreamlineArrays(points, np.concatenate([[0], np.cumsum(counts)]))


def _check_numbers(path: Path) -> None:
    """Raise when the numbers are of 64 bits, which MRtrix3 reads and nibabel does not."""
    with path.open("rb") as file:
        header = file.read(MAX_HEADER_BYTES).partition(b"\nEND\n")[0]
    for line in header.split(b"\n"):
        key, _, value = line.partition(b":")
        if key.strip() == b"datatype" and value.strip().lower().startswith(b"float64"):
            raise FileError(
                f"{path} holds numbers of 64 bits, of which only 32 are read; write it again with "
                f"tckconvert {path.name} OUT.tck."
            )


@contextlib.contextmanager
def stream_tck(path: Path, grid: Grid | None, dtype: str) -> Iterator[_TckStream]:
    """Write a file whose streamlines are appended; its header is nibabel's."""
    with path.open("wb") as file:
        stream = _TckStream(file)
        yield stream
        stream.finish()


class _TckStream:
    """A .tck file: after each streamline a row of NaN, in the end one of infinity."""

    def __init__(self, file: BinaryIO) -> None:
        from nibabel.streamlines import TckFile

        from .sequences import nibabel_tractogram
        from .streamline_arrays import NO_STREAMLINES

        empty = io.BytesIO()
        TckFile(nibabel_tractogram(NO_STREAMLINES)).save(empty)
        self._end = TckFile.EOF_DELIMITER.tobytes()
        header = empty.getvalue().removesuffix(self._end)
        self._file = file
        self._count_at = header.index(COUNT) + len(COUNT)
        self._n = 0
        file.write(header)

    def append(self, streamlines: StreamlineArrays) -> None:
        import numpy as np

        counts = np.diff(streamlines.offsets)
        n = len(counts)
        rows = np.full((len(streamlines.points) + n, 3), np.nan, "<f4")
        rows[np.arange(len(streamlines.points)) + np.repeat(np.arange(n), counts)] = (
            streamlines.points
        )
        self._file.write(rows.data)
        self._n += n

    def finish(self) -> None:
        self._file.write(self._end)
        self._file.seek(self._count_at)
        self._file.write(b"%010d" % self._n)


TCK = TractogramFormat((".tck",), read_tck, iterate=iter_tck, stream=stream_tck)
