"""What a format of files says of itself; of each there is one, in the format's own file.

Collected in :mod:`.formats`. The files of formats are loaded for their endings alone, as by the
command's help, so that they import NumPy and whatever reads their files on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from ..model.fod import Fod
    from .stored_images import StoredImage
    from .streamline_arrays import StreamlineArrays, StreamlineStream

FLOAT32, FLOAT16 = "float32", "float16"  # types of points


@dataclass(frozen=True, slots=True)
class WholeReading:
    """How a library reads the peaks of a file."""

    grid: Callable[[Path], Grid]  # takes the path; returns the voxel grid without reading the rest
    # Takes the path, and the axes of the directions or None for those that the format has.
    read: Callable[[Path, str | None], Fod]


@dataclass(frozen=True, slots=True)
class VolumeFormat:
    """How one kind of file with FODs, peaks, tensors or a volume is read and written.

    Either it has a `header`, by which the package reads the numbers itself, or a library reads it
    `whole`.
    """

    endings: tuple[str, ...]  # in lower case, the commonest first
    # Takes the path; returns what the header says.
    header: Callable[[Path], StoredImage] | None = None
    whole: WholeReading | None = None
    # Takes a 3-D array, its grid and the path; writes whole or not at all.
    write: Callable[[NDArray[Any], Grid, Path], None] | None = None
    holds_fods: bool = True  # whether FODs are looked for in it, in dialogs and by napari


def all_values(streamlines: StreamlineArrays) -> list[str]:
    """Return what a format that holds points alone cannot hold, by name; seeds and ends aside."""
    weights = [] if streamlines.weights is None else ["weights"]
    return [*weights, *streamlines.data.names()]


@dataclass(frozen=True, slots=True)
class TractogramFormat:
    """How one kind of file with streamlines is written and read."""

    endings: tuple[str, ...]  # in lower case, of files that are written and read
    # Takes the path; may raise whatever `damage.telling` turns into one sentence.
    read: Callable[[Path], StreamlineArrays]
    # Takes the path and how many streamlines at a time; yields them as they are read.
    iterate: Callable[[Path, int], Iterator[StreamlineArrays]] | None = None
    # Takes the path, the grid of the image that streamlines belong to or None, and the name of the
    # type of points; a context manager that gives what streamlines are appended to.
    stream: Callable[[Path, Grid | None, str], AbstractContextManager[StreamlineStream]] | None = (
        None
    )
    # Takes the streamlines, the path, and the grid or None: of formats that have no stream, or
    # whose files are others when all streamlines are known.
    write: Callable[[StreamlineArrays, Path, Grid | None], None] | None = None
    # Of formats whose values per streamline can be read without the points. Takes the path; returns
    # their names.
    columns: Callable[[Path], list[str]] | None = None
    # Takes the path and one of these names, or "" for the weights or the only one; returns its
    # values.
    column: Callable[[Path, str], NDArray[np.generic]] | None = None
    # Takes the streamlines; returns the names of what such a file cannot hold of them.
    lost: Callable[[StreamlineArrays], list[str]] = all_values
    # Of formats whose values may lie in files beside. Takes the streamlines, the path and the one
    # that the file has in the end; a context manager: it has written when the block begins, and
    # puts the files beside in their place when it ends.
    write_beside: Callable[[StreamlineArrays, Path, Path], AbstractContextManager[None]] | None = (
        None
    )
    # As `lost`, with such files.
    lost_beside: Callable[[StreamlineArrays], list[str]] | None = None
    names_image: bool = False  # whether it holds the grid
    needs_grid: bool = False  # whether it cannot be written without one
    dtypes: tuple[str, ...] = (FLOAT32,)  # types of points that it holds, the usual one first
    read_only: tuple[str, ...] = ()  # endings of files that are read and not written
