"""Tractograms: streamlines as one array of points and one of offsets.

Made by the engine and by the readers; read by the layer, the writers and the maps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .buffers import pool
from .errors import FileError, InvalidTractogramError
from .grid import Grid
from .stop import StopReason

if TYPE_CHECKING:
    from .fod import Fod

MARGIN = 1.1  # of memory for points that are yet to come
GROWTH = 8  # at most at a time: the first few seeds are a poor sample


class Tractogram:
    """Streamlines in space.

    Parameters
    ----------
    points : (n_points, 3) array_like
        Points of all streamlines, one after the other; float32, RAS+ mm, voxel centres at
        integer voxel coordinates.
    offsets : (n_streamlines + 1,) array_like of int
        Streamline i has points ``offsets[i]`` to ``offsets[i + 1]``.
    seed_index : (n_streamlines,) array_like of int, optional
        Which seed each streamline came from; its own number by default.
    stop_reasons : (n_streamlines, 2) array_like of int, optional
        :class:`StopReason` of the first and the last point; 0 (SEED) where unknown.
    lengths_mm : (n_streamlines,) array_like, optional
        Lengths of the paths that were tracked. By default the lengths of the polylines, which
        are shorter where points were left out.
    tally : mapping of StopReason to int, optional
        How often each reason ended a half streamline or rejected a whole one, over all seeds.
    n_seeds : int, optional
        How many seeds were tried; the number of streamlines by default.

    Raises
    ------
    InvalidTractogramError
        When the arrays do not belong together or a point is not finite.
    """

    __slots__ = (
        "_lengths_mm",
        "n_seeds",
        "offsets",
        "points",
        "seed_index",
        "stop_reasons",
        "tally",
    )

    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike,
        *,
        seed_index: ArrayLike | None = None,
        stop_reasons: ArrayLike | None = None,
        lengths_mm: ArrayLike | None = None,
        tally: Mapping[StopReason, int] | None = None,
        n_seeds: int | None = None,
    ) -> None:
        self.points: NDArray[np.float32] = np.ascontiguousarray(points, dtype=np.float32)
        self.offsets: NDArray[np.int64] = np.ascontiguousarray(offsets, dtype=np.int64)
        if self.points.ndim != 2 or self.points.shape[1] != 3:
            raise InvalidTractogramError(
                f"points has shape {self.points.shape}; give (n_points, 3) RAS+ mm."
            )
        if (
            self.offsets.ndim != 1
            or not self.offsets.size
            or self.offsets[0] != 0
            or self.offsets[-1] != len(self.points)
            or (np.diff(self.offsets) < 0).any()
        ):
            raise InvalidTractogramError(
                f"offsets must rise from 0 to the number of points, {len(self.points)}; "
                f"they are {self.offsets[:3]} ... {self.offsets[-1:]}."
            )
        # The extremes show NaN and infinity without a temporary as large as the points.
        if self.points.size and not np.isfinite((self.points.min(), self.points.max())).all():
            raise InvalidTractogramError(
                f"{int((~np.isfinite(self.points)).any(axis=1).sum())} points are not finite; "
                "remove those streamlines."
            )
        n = self.n_streamlines
        self.seed_index: NDArray[np.int64] = (
            np.arange(n) if seed_index is None else np.ascontiguousarray(seed_index, dtype=np.int64)
        )
        self.stop_reasons: NDArray[np.uint8] = (
            np.zeros((n, 2), dtype=np.uint8)
            if stop_reasons is None
            else np.ascontiguousarray(stop_reasons, dtype=np.uint8)
        )
        self._lengths_mm: NDArray[np.float32] | None = (
            None if lengths_mm is None else np.ascontiguousarray(lengths_mm, dtype=np.float32)
        )
        for label, array, shape in (
            ("seed_index", self.seed_index, (n,)),
            ("stop_reasons", self.stop_reasons, (n, 2)),
            ("lengths_mm", self._lengths_mm, (n,)),
        ):
            if array is not None and array.shape != shape:
                raise InvalidTractogramError(
                    f"{label} has shape {array.shape}, but {n} streamlines need {shape}."
                )
        self.tally: dict[StopReason, int] = dict(tally or {})
        self.n_seeds: int = n if n_seeds is None else int(n_seeds)

    @classmethod
    def empty(cls) -> Tractogram:
        """Return a tractogram without streamlines."""
        return cls(np.empty((0, 3), np.float32), np.zeros(1, np.int64))

    @classmethod
    def from_streamlines(cls, streamlines: Iterable[ArrayLike]) -> Tractogram:
        """Make a tractogram of a sequence of (n_points, 3) arrays, RAS+ mm."""
        lines = [np.asarray(line, dtype=np.float32).reshape(-1, 3) for line in streamlines]
        if not lines:
            return cls.empty()
        offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
        return cls(np.concatenate(lines), offsets)

    @classmethod
    def concatenate(cls, parts: Iterable[Tractogram], *, n_seeds: int | None = None) -> Tractogram:
        """Join tractograms, such as the chunks of a run, in the order given.

        An iterator is used up one part at a time: its points are not in memory twice.

        Parameters
        ----------
        parts : iterable of Tractogram
        n_seeds : int, optional
            How many seeds an iterator will have tried in the end: memory is made for as many, and
            not in steps.
        """
        known_parts = list(parts) if isinstance(parts, Sequence) else []
        points = pool.points(sum(part.n_points for part in known_parts))
        counts: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
        seed_index: list[NDArray[np.int64]] = []
        stop_reasons: list[NDArray[np.uint8]] = []
        lengths: list[NDArray[np.float32]] = []
        tally: dict[StopReason, int] = {}
        known = False
        n_points = n_tried = 0
        for part in known_parts or parts:
            first, n_points = n_points, n_points + part.n_points
            if n_points > len(points):
                expected = 2 * n_points
                if n_seeds and n_tried + part.n_seeds:
                    expected = int(MARGIN * n_points * n_seeds / (n_tried + part.n_seeds))
                expected = min(max(expected, n_points), GROWTH * n_points)
                fewer, points = points, pool.points(expected)
                points[:first] = fewer[:first]
                del fewer
            points[first:n_points] = part.points
            counts.append(np.diff(part.offsets))
            seed_index.append(part.seed_index)
            stop_reasons.append(part.stop_reasons)
            known = known or part._lengths_mm is not None
            lengths.append(part.lengths_mm)
            n_tried += part.n_seeds
            for reason, count in part.tally.items():
                tally[reason] = tally.get(reason, 0) + count
        if not seed_index:
            return cls.empty()
        return cls(
            points[:n_points],
            np.cumsum(np.concatenate(counts)),
            seed_index=np.concatenate(seed_index),
            stop_reasons=np.concatenate(stop_reasons),
            lengths_mm=np.concatenate(lengths) if known else None,
            tally=tally,
            n_seeds=n_tried,
        )

    @property
    def n_streamlines(self) -> int:
        """Number of streamlines."""
        return len(self.offsets) - 1

    @property
    def n_points(self) -> int:
        """Number of points of all streamlines."""
        return len(self.points)

    @property
    def lengths_mm(self) -> NDArray[np.float32]:
        """(n_streamlines,) float32: lengths in mm."""
        if self._lengths_mm is None:
            self._lengths_mm = self._polyline_lengths_mm()
        return self._lengths_mm

    def _polyline_lengths_mm(self) -> NDArray[np.float32]:
        segments = np.linalg.norm(np.diff(self.points, axis=0).astype(np.float64), axis=1)
        total = np.concatenate([[0.0], np.cumsum(segments)])
        last = np.maximum(self.offsets[1:] - 1, self.offsets[:-1])
        clip = max(len(total) - 1, 0)
        first = np.minimum(self.offsets[:-1], clip)
        return np.asarray(total[np.minimum(last, clip)] - total[first], dtype=np.float32)

    def __len__(self) -> int:
        return self.n_streamlines

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.points[first:last]

    def __getitem__(self, index: Any) -> Tractogram:
        """Return the streamlines that an integer, a slice, a mask or an index array picks."""
        chosen = np.atleast_1d(np.arange(self.n_streamlines)[index])
        counts = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        take = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], counts)
        return Tractogram(
            self.points[take],
            offsets,
            seed_index=self.seed_index[chosen],
            stop_reasons=self.stop_reasons[chosen],
            lengths_mm=None if self._lengths_mm is None else self._lengths_mm[chosen],
        )

    def digest(self) -> str:
        """Return the SHA-256 of the little-endian float32 points, then the int64 offsets.

        Equal digests mean equal streamlines, bit for bit.
        """
        sha = hashlib.sha256(self.points.astype("<f4", copy=False).tobytes())
        sha.update(self.offsets.astype("<i8", copy=False).tobytes())
        return sha.hexdigest()

    def save(self, path: str | PathLike[str], *, reference: Fod | Grid | None = None) -> None:
        """Write .trk, .tck, .trx or .vtk, whole or not at all.

        Parameters
        ----------
        path : path-like
            The ending decides the format.
        reference : Fod or Grid, optional
            The image that the streamlines belong to. Trk and trx store its grid; trk cannot do
            without.

        Raises
        ------
        FileError
            When the ending is unknown, the reference is missing or the file cannot be written.
        """
        # Formats are imported on use, so that the package loads without nibabel.
        from .files.formats.streamlines import StreamlineArrays
        from .files.tractograms import write_streamlines

        grid = getattr(reference, "grid", reference)
        if grid is not None and not isinstance(grid, Grid):
            raise FileError(
                f"The reference of {path} is of type {type(reference).__name__}; "
                "give the Fod or the Grid that was tracked."
            )
        arrays = StreamlineArrays(
            self.points,
            self.offsets,
            seed_index=self.seed_index,
            stop_reasons=self.stop_reasons,
            lengths_mm=self.lengths_mm,
        )
        write_streamlines(arrays, path, grid)

    def summary(self) -> str:
        """Return the run in words: counts, lengths and why streamlines ended."""
        lines = [
            f"{self.n_streamlines} streamlines from {self.n_seeds} seeds, {self.n_points} points"
        ]
        if self.n_streamlines:
            lengths = self.lengths_mm
            lines.append(
                f"length {lengths.mean():.1f} mm on average, {lengths.min():.1f} to "
                f"{lengths.max():.1f} mm"
            )
        lines += [f"{count:>10}  {reason.text}" for reason, count in self.reasons()]
        return "\n".join(lines)

    def reasons(self) -> list[tuple[StopReason, int]]:
        """Return (reason, count), the commonest first, without zeros and without the seed end."""
        found = [(r, n) for r, n in self.tally.items() if n and r is not StopReason.SEED]
        return sorted(found, key=lambda item: (-item[1], item[0]))

    def why_empty(self) -> str:
        """Return one sentence on why there are no streamlines and what to change, or ""."""
        if self.n_streamlines:
            return ""
        reasons = self.reasons()
        if not reasons:
            return "No streamlines: there were no seeds; place one."
        reason, count = reasons[0]
        remedy = f"; {reason.remedy}" if reason.remedy else ""
        return f"No streamlines from {self.n_seeds} seeds: {count} x {reason.text}{remedy}."

    def __repr__(self) -> str:
        return f"Tractogram({self.n_streamlines} streamlines, {self.n_points} points)"


def tally_from_counts(counts: NDArray[np.int64]) -> dict[StopReason, int]:
    """Turn (N_REASONS,) counts into a mapping without zeros."""
    return {reason: int(counts[reason]) for reason in StopReason if counts[reason]}


def load_tractogram(path: str | PathLike[str]) -> Tractogram:
    """Read a tractogram.

    Parameters
    ----------
    path : path-like
        .tck, .trk, .trx or legacy .vtk (ASCII or binary; coordinates are taken as RAS+ mm).

    Returns
    -------
    Tractogram
        With the seed indices, stop reasons and lengths of trk and trx files that
        :meth:`Tractogram.save` wrote.

    Raises
    ------
    FileError
        When the file is missing, truncated, corrupt or of another format.
    """
    from .files.tractograms import read_streamlines

    arrays = read_streamlines(path)
    try:
        return Tractogram(
            arrays.points,
            arrays.offsets,
            seed_index=arrays.seed_index,
            stop_reasons=arrays.stop_reasons,
            lengths_mm=arrays.lengths_mm,
        )
    except (InvalidTractogramError, OverflowError, TypeError) as error:
        raise FileError(f"{path}: {error}") from None
