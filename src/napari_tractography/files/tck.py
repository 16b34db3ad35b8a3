"""MRtrix3's .tck files: points, RAS+ mm, nothing per streamline, and no image.

Values may lie in files :mod:`.beside`.

A streamline without points is a row of NaN on its own, which nibabel leaves out; so its reader is
not used. The format is described in MRtrix3's manual under "Tracks file format".
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import FileError
from .axes_mark import as_noted, axes_text
from .beside import lost_beside, new_timestamp, read_beside, written_beside
from .description import FLOAT32, TractogramFormat
from .inflating import opened
from .track_header import track_header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from .streamline_arrays import StreamlineArrays

MAGIC = b"mrtrix tracks"
AXES = "axes"  # in the header, of an image that says nothing of left and right
COUNT = b"count: "  # in the header, before ten digits
BLOCK_ROWS = 1 << 18  # that are read at once
AT_ONCE = 1 << 16  # streamlines, of a file that is read whole


def read_tck(path: Path) -> StreamlineArrays:
    """Read points, and values from files beside.

    Raises FileError when the header makes no sense, or the end marker is missing.
    """
    from .sequences import with_columns
    from .stored_images import check_memory
    from .streamline_arrays import joined

    parts: list[StreamlineArrays] = []
    entries: dict[bytes, bytes] = {}
    n_points = 0
    for part in iter_tck(path, AT_ONCE, entries):
        parts.append(part)
        n_points += len(part.points)
        check_memory(path, (n_points, 3), 12 * n_points, "check the file")
    whole = joined(parts)
    if AXES.encode() in entries:
        noted = as_noted(None, entries[AXES.encode()].decode("latin-1"))
        whole = replace(whole, grid=noted)
    if b"timestamp" not in entries:  # by which files beside it would be known
        return whole
    per_streamline, per_point, remarks = read_beside(
        path, entries[b"timestamp"].decode("latin-1"), whole.offsets
    )
    return with_columns(
        whole.points,
        whole.offsets,
        per_streamline,
        per_point=per_point,
        grid=whole.grid,
        remarks=remarks,
    )


def iter_tck(
    path: Path, n_streamlines: int, entries: dict[bytes, bytes] | None = None
) -> Iterator[StreamlineArrays]:
    """Yield the points of :func:`read_tck`, so many streamlines at a time.

    `entries` is filled with those of the header.
    """
    import numpy as np

    from .stored_images import check_memory

    with opened(path) as stream:
        dtype, found = track_header(path, stream, MAGIC)
        if entries is not None:
            entries |= found
        held, n_held, is_end = np.empty((0, 3), np.float32), 0, False
        parts = [held]
        while not is_end:
            rows, is_end = _next_rows(path, stream, dtype)
            parts.append(rows)
            n_rows = sum(map(len, parts))  # of a packed file, of which there may be no end
            check_memory(path, (n_rows, 3), 12 * n_rows, "check the file")
            n_held += int(np.isnan(rows).all(axis=1).sum())
            if n_held < n_streamlines and not is_end:
                continue
            held = np.concatenate(parts)
            ends = np.flatnonzero(np.isnan(held).all(axis=1))
            first = 0
            for number in range(0, n_held, n_streamlines):
                some = ends[number : number + n_streamlines]
                if len(some) < n_streamlines and not is_end:
                    break
                yield _between(held[first : some[-1] + 1], some - first)
                first = int(some[-1]) + 1
            parts, n_held = [held[first:]], n_held % n_streamlines
        if first < len(held):
            raise _truncated(path, "its last streamline has no end")


def _between(rows: NDArray[np.float32], ends: NDArray[np.int64]) -> StreamlineArrays:
    """Return the streamlines that end before rows of NaN."""
    import numpy as np

    from .streamline_arrays import StreamlineArrays

    offsets = np.concatenate([[0], ends - np.arange(len(ends))])
    return StreamlineArrays(np.delete(rows, ends, axis=0), offsets)


def _next_rows(
    path: Path, stream: Any, dtype: np.dtype[np.floating]
) -> tuple[NDArray[np.float32], bool]:
    """Return the next rows as float32, and whether the end marker came after them."""
    import numpy as np

    raw, wanted = bytearray(), BLOCK_ROWS * 3 * dtype.itemsize
    while len(raw) < wanted and (data := stream.read(wanted - len(raw))):
        raw += data
    n_rows = len(raw) // (3 * dtype.itemsize)
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused
        rows = np.frombuffer(raw, dtype, 3 * n_rows).reshape(-1, 3).astype(np.float32, copy=False)
    ends = np.flatnonzero(np.isinf(rows).all(axis=1))
    if len(ends):
        return rows[: ends[0]], True
    if len(raw) < wanted:
        raise _truncated(path, "it has no end marker")
    return rows, False


def _truncated(path: Path, what: str) -> FileError:
    return FileError(f"{path} is truncated or corrupt: {what}; copy or export it again.")


@contextlib.contextmanager
def stream_tck(path: Path, grid: Grid | None, dtype: str, **header: str) -> Iterator[_TckStream]:
    """Write a file whose streamlines are appended; its header is nibabel's, with these entries."""
    noted = axes_text(grid, with_grid=True)
    if noted:
        header[AXES] = noted
    with path.open("wb") as file:
        stream = _TckStream(file, header)
        yield stream
        stream.finish()


class _TckStream:
    """A .tck file: after each streamline a row of NaN, in the end one of infinity."""

    def __init__(self, file: BinaryIO, header: dict[str, str]) -> None:
        import numpy as np
        from nibabel.streamlines import TckFile, Tractogram

        empty = io.BytesIO()
        TckFile(Tractogram([], affine_to_rasmm=np.eye(4)), header).save(empty)
        self._end = TckFile.EOF_DELIMITER.tobytes()
        head = empty.getvalue().removesuffix(self._end)
        self._file = file
        self._count_at = head.index(COUNT) + len(COUNT)
        self._n = 0
        file.write(head)

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


@contextlib.contextmanager
def write_tck_beside(streamlines: StreamlineArrays, path: Path, wanted: Path) -> Iterator[None]:
    """Write a file, and its values into files beside the one that is `wanted` in the end."""
    timestamp = new_timestamp()
    with written_beside(streamlines, wanted, timestamp):
        with stream_tck(path, streamlines.grid, FLOAT32, timestamp=timestamp) as stream:
            stream.append(streamlines)
        yield


TCK = TractogramFormat(
    (".tck",),
    read_tck,
    iterate=iter_tck,
    stream=stream_tck,
    write_beside=write_tck_beside,
    lost_beside=lost_beside,
    read_only=(".tck.gz",),
)
