"""The formats of tractogram files, and how to write and read one by its ending.

A new format is one file of this folder, with a function that writes and one that reads, and one
row of :data:`FORMATS`. Called by :mod:`napari_tractography.streamlines.tractogram`, the command and
the plugin. Points are RAS+ mm with voxel centres at integer voxel coordinates on both sides.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from ..errors import FileError
from ..geometry.grid import Grid
from .damage import telling
from .paths import check_writable, ending_of, existing_file, written_whole
from .streamline_arrays import StreamlineArrays, StreamlineStream, joined
from .tck import iter_tck, read_tck, stream_tck, write_tck
from .trk import read_trk, stream_trk, write_trk
from .trx import read_trx, write_trx
from .trx_stream import stream_trx
from .vtk import read_vtk, write_vtk
from .weights import n_impossible

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TractogramFormat:
    """How one kind of file is written and read.

    Attributes
    ----------
    write : callable
        Takes the streamlines, the path, and the grid of the image they belong to or None.
    read : callable
        Takes the path; may raise whatever
        :func:`~napari_tractography.files.damage.telling` turns into one sentence.
    iterate : callable, optional
        Takes the path and how many streamlines at a time; yields them as they are read.
    stream : callable, optional
        Takes the path, the grid or None, and the name of the type of points; a context manager that
        gives what streamlines are appended to. Formats without one are written all at once.
    """

    write: Callable[[StreamlineArrays, Path, Grid | None], None]
    read: Callable[[Path], StreamlineArrays]
    iterate: Callable[[Path, int], Iterator[StreamlineArrays]] | None = None
    stream: (
        Callable[[Path, Grid | None, str], contextlib.AbstractContextManager[StreamlineStream]]
        | None
    ) = None


DTYPES = ("float32", "float16")  # of points in .trx files; others hold the first
FORMATS = {
    ".tck": TractogramFormat(write_tck, read_tck, iter_tck, stream_tck),
    ".trk": TractogramFormat(write_trk, read_trk, stream=stream_trk),
    ".trx": TractogramFormat(write_trx, read_trx, stream=stream_trx),
    ".vtk": TractogramFormat(write_vtk, read_vtk),
}


def write_streamlines(
    streamlines: StreamlineArrays, path: str | PathLike[str], grid: Grid | None = None
) -> None:
    """Write streamlines, whole or not at all.

    Parameters
    ----------
    streamlines : StreamlineArrays
        Trk and trx also keep the columns per streamline.
    path : path-like
        Ends in one of :data:`FORMATS`. An older file is replaced.
    grid : Grid, optional
        Of the image that the streamlines belong to, for the headers of trk, which needs it, and
        trx, which says identity without it.

    Raises
    ------
    FileError
        When the ending is unknown, the grid is missing or the file cannot be written.
    """
    wanted = Path(path)
    write = FORMATS[ending_of(wanted, FORMATS, "a tractogram")].write
    n_empty = int((np.diff(streamlines.offsets) == 0).sum())
    if n_empty:
        raise FileError(
            f"{n_empty} streamlines have no points, which {wanted} cannot hold; "
            "leave them out, t[np.diff(t.offsets) > 0]."
        )
    with written_whole(wanted) as temporary:
        write(streamlines, temporary, grid)


def check_target(path: str | PathLike[str]) -> None:
    """Check, before long work, that a tractogram can be written there.

    Raises
    ------
    FileError
        When the ending is unknown or the folder is missing or cannot be written.
    """
    ending_of(Path(path), FORMATS, "a tractogram")
    check_writable(path)


def read_streamlines(
    path: str | PathLike[str], warn: Callable[[str], object] = logger.warning
) -> StreamlineArrays:
    """Read streamlines.

    Parameters
    ----------
    path : path-like
        Ends in one of :data:`FORMATS`.
    warn : callable, optional
        Told in a sentence where weights of the file are negative or not finite: they are another
        program's, and the streamlines are as good without.

    Raises
    ------
    FileError
        When the file is missing, truncated, corrupt or of another format.
    """
    file = existing_file(path)
    read = FORMATS[ending_of(file, FORMATS, "a tractogram")].read
    with telling(file):
        found = read(file)
    if found.weights is None or not (n_bad := n_impossible(found.weights)):
        return found
    warn(
        f"{file} is read without its weights: {n_bad} of {len(found.weights)} are negative or not "
        "finite."
    )
    return replace(found, weights=None)


def iter_streamlines(
    path: str | PathLike[str], n_streamlines: int = 1 << 14
) -> Iterator[StreamlineArrays]:
    """Yield the streamlines of a file, a bounded number at a time.

    Of .tck no more than these are in memory; files of the other formats are read whole.

    Parameters
    ----------
    path : path-like
        As :func:`read_streamlines`.
    n_streamlines : int
        At a time.

    Raises
    ------
    FileError
        As :func:`read_streamlines`; where a file is truncated, after what is there.
    """
    file = existing_file(path)
    row = FORMATS[ending_of(file, FORMATS, "a tractogram")]
    if row.iterate is None:
        yield read_streamlines(file)
        return
    found = row.iterate(file, n_streamlines)
    while True:
        with telling(file):  # only while it reads: warnings of the caller are the caller's
            block = next(found, None)
        if block is None:
            return
        yield block


@contextlib.contextmanager
def open_stream(
    path: str | PathLike[str],
    grid: Grid | None = None,
    dtype: str = DTYPES[0],
    name_in_the_end: Callable[[str], str] = str,
) -> Iterator[Callable[[StreamlineArrays], None]]:
    """Yield a function that appends streamlines to a file, which is whole in the end or not there.

    Parameters
    ----------
    path : path-like
        As :func:`write_streamlines`.
    grid : Grid, optional
        As :func:`write_streamlines`.
    dtype : str
        Of the points of a .trx file, one of :data:`DTYPES`.
    name_in_the_end : callable, optional
        As :func:`~napari_tractography.files.paths.written_whole`.

    Raises
    ------
    FileError
        When the ending is unknown, the grid is missing or the disk is full.
    InvalidTractogramError
        When streamlines for .trk or .trx files have other columns than those before.
    """
    wanted = Path(path)
    row = FORMATS[ending_of(wanted, FORMATS, "a tractogram")]
    with written_whole(wanted, name_in_the_end) as temporary:
        if row.stream is None:
            parts: list[StreamlineArrays] = []
            yield parts.append
            row.write(joined(parts), temporary, grid)
            return
        with row.stream(temporary, grid, dtype) as stream:
            yield stream.append
