"""Streamlines as the formats read and write them: arrays, and no more than that.

Below :mod:`napari_tractography.streamlines.tractogram`, which checks what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidTractogramError
from ..geometry.grid import Grid
from ..geometry.polylines import lengths_mm
from .streamline_data import NO_DATA, StreamlineData, joined_data

POLYLINES = "polyline_mm"  # a column of files alone


@dataclass(frozen=True, slots=True, eq=False)
class StreamlineArrays:
    """What a tractogram file holds; columns that a file does not hold are None."""

    # (n_points, 3) float32: points of all streamlines, one after the other; RAS+ mm, voxel centres
    # at integers. Those of a file that is mapped into memory may be float16.
    points: NDArray[np.float32]
    # (n_streamlines + 1,) int64: streamline i has points `offsets[i]` to `offsets[i + 1]`.
    offsets: NDArray[np.int64]
    # (n_streamlines,) int64: which seed each streamline came from.
    seed_index: NDArray[np.int64] | None = None
    # (n_streamlines, 2) uint8: codes of StopReason of the first and the last point.
    stop_reasons: NDArray[np.uint8] | None = None
    # (n_streamlines,) float32: lengths of the paths that were tracked.
    lengths_mm: NDArray[np.float32] | None = None
    # (n_streamlines,) float32: lengths of the polylines when the file was written. Where they are
    # others now, `lengths_mm` are those of streamlines that another program has cut or scaled.
    polyline_mm: NDArray[np.float32] | None = None
    # (n_streamlines,) float32: what each streamline stands for.
    weights: NDArray[np.float32] | None = None
    data: StreamlineData = NO_DATA  # values and groups of other programs
    grid: Grid | None = None  # of the image that they belong to, by the file's header
    remarks: tuple[str, ...] = ()  # what was guessed, or could not be read, in a sentence each

    @property
    def n_streamlines(self) -> int:
        """Number of streamlines."""
        return len(self.offsets) - 1

    def lines(self) -> Iterator[NDArray[np.float32]]:
        """Yield the (n, 3) points of each streamline."""
        for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.points[first:last]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns per streamline by name; none of them without streamlines.

        The formats cannot hold columns without rows.
        """
        named = {
            "seed_index": self.seed_index,
            "stop_reasons": self.stop_reasons,
            "lengths_mm": self.lengths_mm,
            "weights": self.weights,
        }
        return {name: c for name, c in named.items() if c is not None and self.n_streamlines}

    def stored_columns(self, points: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
        """Return the columns that files hold: lengths come with those of the polylines.

        `points` are those that are stored, which may be rounded.
        """
        columns = self.columns()
        if "lengths_mm" in columns:
            columns[POLYLINES] = lengths_mm(points, self.offsets)
        return columns


class StreamlineStream(Protocol):
    """A file that streamlines are appended to; left by ``with``, it is complete."""

    def append(self, streamlines: StreamlineArrays) -> None:
        """Write streamlines.

        Raises InvalidTractogramError when the file holds columns, and these have others than those
        before them.
        """


class SameColumns:
    """The columns of a file that is appended to: those of the streamlines that came first."""

    def __init__(self) -> None:
        self._names: list[str] | None = None

    def check(self, streamlines: StreamlineArrays) -> None:
        """Hold further streamlines to them. Raises InvalidTractogramError when there are others."""
        if not streamlines.n_streamlines:  # which has no columns, and adds none
            return
        data = streamlines.data
        names = sorted([*streamlines.columns(), *data.per_streamline, *data.per_point])
        if self._names is None:
            self._names = names
        if names != self._names:
            raise InvalidTractogramError(
                f"Streamlines with the columns {_listed(names)} cannot follow those with "
                f"{_listed(self._names)} in one file; give all of them the same columns."
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def joined(parts: Sequence[StreamlineArrays]) -> StreamlineArrays:
    """Return streamlines one after the other, with the columns that all of them have."""
    counts = [np.diff(part.offsets) for part in parts]
    columns = [part.columns() for part in parts if part.n_streamlines]
    shared = set.intersection(*map(set, columns)) if columns else set()
    whole: dict[str, Any] = {
        name: np.concatenate([column[name] for column in columns]) for name in shared
    }
    return StreamlineArrays(
        np.concatenate([np.empty((0, 3), np.float32), *(part.points for part in parts)]),
        np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts])),
        data=joined_data([part.data for part in parts], [part.n_streamlines for part in parts]),
        grid=next((part.grid for part in parts if part.grid is not None), None),
        **whole,
    )
