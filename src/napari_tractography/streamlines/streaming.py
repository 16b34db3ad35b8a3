"""Streamlines on their way to a file: chunks are written as they come, and not kept.

Called by the command and by programs that track more than fits into memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import (
    FileError,
    InvalidParameterError,
    InvalidSeedsError,
    InvalidTractogramError,
    UnfinishedError,
)
from ..files.description import FLOAT32
from ..files.formats import (
    all_dtypes,
    default_ending,
    dtype_endings,
    listed,
    tractogram_endings,
    written_tractogram_format,
)
from ..files.paths import at_home, ending_of
from ..files.tractograms import open_stream
from ..geometry.grid import Grid
from ..geometry.warps import Warp
from ..model.fod import Fod
from ..model.outcome import Outcome
from ..model.stop import StopReason
from ..runtime.scalars import as_float, shown
from .tractogram import Tractogram, grid_of
from .warping import tell_lost

SEGMENT_MM = 10.0  # the longest that compression makes, as DIPY's default
UNFINISHED = "unfinished-"  # before the name of a file of a run that ended early


class SavedTractogram(Outcome):
    """What was written to a file: all of a tractogram but its points, which are there."""

    n_streamlines = 0
    n_points = 0  # that were tracked; compressed there are fewer in the file

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tally: dict[StopReason, int] = {}
        self.n_seeds = 0
        self.short_since: StopReason | None = None
        self._seeds_are_known = True
        self._lengths_mm: list[NDArray[np.float32]] = []
        self._reasons: list[NDArray[np.uint8]] = []
        self._counts: list[NDArray[np.int64]] = []
        self._sha = hashlib.sha256()

    def add(self, chunk: Tractogram) -> None:
        """Take note of a chunk."""
        self._seeds_are_known &= bool(chunk.n_seeds or not len(chunk))
        self.n_seeds = self.n_seeds + chunk.n_seeds if self._seeds_are_known else 0
        for reason, count in chunk.tally.items():
            self.tally[reason] = self.tally.get(reason, 0) + count
        self.short_since = chunk.short_since or self.short_since
        if not len(chunk):
            return
        self.n_streamlines += len(chunk)
        self.n_points += chunk.n_points
        self._lengths_mm.append(chunk.lengths_mm.copy())
        self._reasons.append(chunk.stop_reasons.copy())
        self._counts.append(np.diff(chunk.offsets))
        self._sha.update(chunk.points.astype("<f4", copy=False).data)

    @property
    def lengths_mm(self) -> NDArray[np.float32]:
        """(n_streamlines,) float32: lengths in mm."""
        return np.concatenate([np.empty(0, np.float32), *self._lengths_mm])

    @property
    def stop_reasons(self) -> NDArray[np.uint8]:  # type: ignore[override]
        """(n_streamlines, 2) uint8: codes of the first and the last point."""
        return np.concatenate([np.empty((0, 2), np.uint8), *self._reasons])

    def digest(self) -> str:
        """Return that of the streamlines as they were tracked, see :meth:`Tractogram.digest`."""
        sha = self._sha.copy()
        last = np.zeros(1, "<i8")
        sha.update(last.data)
        for counts in self._counts:
            offsets = (last + np.cumsum(counts)).astype("<i8")
            sha.update(offsets.data)
            last = offsets[-1:]
        return sha.hexdigest()


def warped_chunks(chunks: Iterable[Tractogram], warp: Warp) -> Iterator[Tractogram]:
    """Yield chunks in the space that a warp leads to, see :meth:`.Tractogram.warped`.

    What was cut and left out is said once, in the end.
    """
    n_all = n_cut = n_gone = 0
    for chunk in chunks:
        warped, *lost = chunk.through(warp)
        n_all, n_cut, n_gone = n_all + len(chunk), n_cut + lost[0], n_gone + lost[1]
        yield warped
    tell_lost(n_all, n_cut, n_gone)


def save_chunks(
    chunks: Iterable[Tractogram],
    path: str | PathLike[str],
    *,
    reference: Fod | Grid | None = None,
    dtype: str = "float32",
    tolerance_mm: float | None = None,
) -> SavedTractogram:
    """Write streamlines as they come, whole or not at all.

    Where a run ends early, as when a cluster is lost, those that came before are written to a
    file beside it whose name begins with "unfinished-".

    Of .tck, .trk and .trx no more than a chunk is in memory, besides 14 bytes a streamline; .vtk
    is collected first.

    Parameters
    ----------
    chunks : iterable of Tractogram
        Such as :func:`~napari_tractography.tracking.engine.iter_track` gives. RAS+ mm.
    path : path-like
        The ending decides the format.
    reference : Fod or Grid, optional
        The image that the streamlines belong to. Trk and trx store its grid; trk cannot do without.
    dtype : str
        Of the points in a .trx file: "float32", or "float16", which is half as large and puts
        points that are 100 mm from the origin off by up to 0.03 mm.
    tolerance_mm : float, optional
        Leave out points that lie no further than this from the line between those that stay, by
        DIPY's ``compress_streamlines`` (Presseau et al., NeuroImage 109, 2015).

    Raises
    ------
    FileError
        When the ending is unknown, the reference is missing or the file cannot be written.
    InvalidParameterError
        When a number is impossible, or the format has no such points.
    InvalidSeedsError
        When there is not one streamline; nothing is written.
    InvalidTractogramError
        When something else comes in place of chunks, or chunks differ in what they know of each
        streamline, such as weights, and the format holds it: .trk and .trx; nothing is written.
    UnfinishedError
        When the run ended early; says where its streamlines are.
    """
    if isinstance(chunks, Tractogram):
        raise InvalidTractogramError(
            "save_chunks takes chunks, such as iter_track gives, and not one Tractogram; call its "
            "save(path), or give [tractogram]."
        )
    if not isinstance(chunks, Iterable):
        raise InvalidTractogramError(
            f"The chunks are of type {type(chunks).__name__}; give what iter_track returns."
        )
    target = at_home(path)
    ending = ending_of(target, tractogram_endings(), "a tractogram to write")
    check_points(dtype, ending, tolerance_mm)
    grid = grid_of(reference, target)
    if grid is None and written_tractogram_format(target).needs_grid:
        raise FileError(
            f"A {ending} file needs the image it belongs to as its reference; give it, or save as "
            f"{default_ending()}."
        )
    saved = SavedTractogram(target)
    ended: list[UnfinishedError] = []
    with open_stream(
        target, grid, dtype, lambda name: UNFINISHED + name if ended else name
    ) as append:
        for chunk in _until(ended, chunks):
            if not isinstance(chunk, Tractogram):
                raise InvalidTractogramError(
                    f"A chunk is of type {type(chunk).__name__}; give Tractograms, such as "
                    "iter_track gives."
                )
            saved.add(chunk)
            if len(chunk):
                written = chunk if tolerance_mm is None else compressed(chunk, tolerance_mm)
                append(written.arrays())
        if not len(saved):
            for error in ended:
                raise error
            raise InvalidSeedsError(saved.why_empty() + " Nothing was written.")
    for error in ended:
        raise UnfinishedError(
            f"{error} The {len(saved)} streamlines until then are in "
            f"{target.with_name(UNFINISHED + target.name)}.",
            error.tractogram,
        ) from error
    return saved


def _until(ended: list[UnfinishedError], chunks: Iterable[Tractogram]) -> Iterator[Tractogram]:
    """Pass chunks on, until an error ends the run; the error is then in the list."""
    try:
        yield from chunks
    except UnfinishedError as error:
        ended.append(error)


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes each chunk to a file of its own; for the workers of a cluster, which all see a folder.

    To be passed to :meth:`napari_tractography.tracking.cluster.cluster.Cluster.apply`. Files are
    named by their first streamline's seed: a task that is tried again writes the same file.
    """

    folder: str  # that is there, on every worker
    grid: Grid | None = None  # of the image that the streamlines belong to
    ending: str = ".trx"  # the format
    # dtype, tolerance_mm: as of save_chunks.
    dtype: str = "float32"
    tolerance_mm: float | None = None

    def __call__(self, chunk: Tractogram) -> tuple[str, int]:
        """Write a chunk; return the file and how many streamlines are in it, "" where none are."""
        if not len(chunk):
            return "", 0
        path = Path(self.folder) / f"part-{int(chunk.seed_index[0]):012d}{self.ending}"
        save_chunks(
            [chunk], path, reference=self.grid, dtype=self.dtype, tolerance_mm=self.tolerance_mm
        )
        return str(path), len(chunk)


def check_points(dtype: str, ending: str, tolerance_mm: float | None) -> None:
    """Check that a format can hold points of a type, and that a tolerance makes sense.

    Raises InvalidParameterError when it cannot, the type is unknown, or the tolerance is not
    positive.
    """
    if dtype not in all_dtypes():
        raise InvalidParameterError(
            f"dtype = {dtype!r} is unknown; choose one of {', '.join(all_dtypes())}."
        )
    if dtype != FLOAT32 and ending not in dtype_endings(dtype):
        raise InvalidParameterError(
            f"{ending} files hold points as {FLOAT32}, not {dtype}; save as "
            f"{listed(dtype_endings(dtype))}."
        )
    if tolerance_mm is not None and not 0 < as_float(tolerance_mm) < math.inf:
        raise InvalidParameterError(
            f"tolerance_mm = {shown(tolerance_mm)} mm is impossible; give a positive number such "
            "as 0.1."
        )


def compressed(tractogram: Tractogram, tolerance_mm: float) -> Tractogram:
    """Return streamlines without the points that a line between their neighbours stands for.

    With all that is known of each streamline; `lengths_mm` stay those that were tracked. See
    :func:`save_chunks`.
    """
    from dipy.tracking.streamlinespeed import compress_streamlines

    lines = compress_streamlines(list(tractogram), tolerance_mm, SEGMENT_MM)
    fewer = Tractogram.from_streamlines(lines)
    arrays = replace(tractogram.arrays(), points=fewer.points, offsets=fewer.offsets)
    converted = Tractogram.of_arrays(arrays)
    converted.tally, converted.n_seeds = tractogram.tally, tractogram.n_seeds
    return converted
