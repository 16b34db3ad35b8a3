"""How to write and read a tractogram file by its ending; the formats are in :mod:`.formats`.

Called by :mod:`napari_tractography.streamlines.tractogram`, the command and
the plugin. Points are RAS+ mm with voxel centres at integer voxel coordinates on both sides.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path

from ..geometry.grid import Grid
from .damage import telling
from .description import FLOAT32
from .formats import tractogram_format, written_tractogram_format
from .paths import at_home, check_writable, existing_file, explained, written_whole
from .streamline_arrays import StreamlineArrays, joined
from .weights import n_impossible

logger = logging.getLogger(__name__)


def write_streamlines(
    streamlines: StreamlineArrays,
    path: str | PathLike[str],
    grid: Grid | None = None,
    *,
    data_beside: bool = False,
) -> None:
    """Write streamlines, whole or not at all; trk and trx also keep the columns per streamline.

    The ending decides the format. The grid is that of the image that the streamlines belong to, for
    the headers of trk, which needs it, and trx, which says identity without it. With `data_beside`
    values that a .tck file cannot hold are written beside it. Raises FileError when the ending is
    unknown, the grid is missing or a file cannot be written.
    """
    wanted = at_home(path)
    row = written_tractogram_format(wanted)
    if data_beside and row.write_beside is not None and row.lost_beside is not None:
        _warn_of_lost(row.lost_beside(streamlines), wanted)
        with written_whole(wanted) as temporary, row.write_beside(streamlines, temporary, wanted):
            return
    _warn_of_lost(row.lost(streamlines), wanted)
    with written_whole(wanted) as temporary:
        if row.write is not None:
            row.write(streamlines, temporary, grid)
        elif row.stream is not None:
            with row.stream(temporary, grid, FLOAT32) as stream:
                stream.append(streamlines)


def _warn_of_lost(lost: list[str], path: Path) -> None:
    """Warn of what a file cannot hold."""
    if lost:
        logger.warning("%s cannot hold %s; .trx files can.", path.name, ", ".join(lost))


def check_target(path: str | PathLike[str]) -> None:
    """Check, before long work, that a tractogram can be written there.

    Raises FileError when the ending is unknown or the folder is missing or cannot be written.
    """
    written_tractogram_format(path)
    check_writable(path)


def read_streamlines(
    path: str | PathLike[str], warn: Callable[[str], object] = logger.warning
) -> StreamlineArrays:
    """Read streamlines; the ending decides the format.

    `warn` gets a sentence of what was guessed, and where weights of the file are negative or not
    finite: they are another program's, and the streamlines are as good without. Raises FileError
    when the file is missing, truncated, corrupt or of another format.
    """
    file = existing_file(path)
    read = tractogram_format(file).read
    with explained(file), telling(file):
        found = read(file)
    for remark in found.remarks:
        warn(remark)
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

    Of .tck no more than these are in memory; files of the other formats are read whole. Raises
    FileError as :func:`read_streamlines`; where a file is truncated, after what is there.
    """
    file = existing_file(path)
    row = tractogram_format(file)
    if row.iterate is None:
        yield read_streamlines(file)
        return
    found = row.iterate(file, n_streamlines)
    while True:
        # Only while it reads: warnings of the caller are the caller's.
        with explained(file), telling(file):
            block = next(found, None)
        if block is None:
            return
        yield block


@contextlib.contextmanager
def open_stream(
    path: str | PathLike[str],
    grid: Grid | None = None,
    dtype: str = FLOAT32,
    name_in_the_end: Callable[[str], str] = str,
) -> Iterator[Callable[[StreamlineArrays], None]]:
    """Yield a function that appends streamlines to a file, which is whole in the end or not there.

    Parameters are those of :func:`write_streamlines`, the type of the points of a .trx file,
    "float32" or "float16", and :func:`~napari_tractography.files.paths.written_whole`'s last.
    Raises FileError when the ending is unknown, the grid is missing or the disk is full;
    InvalidTractogramError when streamlines for .trk or .trx files have other columns than those
    before.
    """
    wanted = at_home(path)
    row = written_tractogram_format(wanted)
    with written_whole(wanted, name_in_the_end) as temporary:
        if row.stream is None:
            assert row.write is not None
            parts: list[StreamlineArrays] = []
            yield parts.append
            whole = joined(parts)
            _warn_of_lost(row.lost(whole), wanted)
            row.write(whole, temporary, grid)
            return
        is_first = True

        def append(streamlines: StreamlineArrays) -> None:
            nonlocal is_first
            if is_first and streamlines.n_streamlines:
                _warn_of_lost(row.lost(streamlines), wanted)
                is_first = False
            stream.append(streamlines)

        with row.stream(temporary, grid, dtype) as stream:
            yield append
