"""Streamlines joined and picked, as arrays; called by the tractogram."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidTractogramError
from ..files.streamline_data import StreamlineData, joined_data
from ..geometry.grid import Grid
from ..model.stop import StopReason
from ..runtime.arrays import real_numbers
from ..runtime.buffers import copy_rows, pool

MARGIN = 1.1  # of memory for points that are yet to come
GROWTH = 8  # at most at a time: the first few seeds are a poor sample

Values = TypeVar("Values")


class OfChosen(Generic[Values]):
    """An attribute with one value a streamline, picked when it is first asked for.

    Of a tractogram that was chosen from another; it is kept in a slot named as the attribute, with
    an underscore. Where a sphere is moved over a million streamlines few of them are tested.
    """

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name, self._slot = name, f"_{name}"

    def __get__(self, tractogram: Any, _owner: type | None = None) -> Values:
        if tractogram is None:  # asked of the class, as documentation does
            return self  # type: ignore[return-value]
        # Before the slot: another thread may fill that, and then drop this.
        origin = tractogram._origin
        values: Any = getattr(tractogram, self._slot)
        if values is None and origin is not None:
            base, rows = origin
            whole = getattr(base, self._name)
            values = None if whole is None else whole[rows]
            setattr(tractogram, self._slot, values)
        return values  # type: ignore[no-any-return]

    def __set__(self, tractogram: Any, values: Values) -> None:
        setattr(tractogram, self._slot, values)


def end_to_end(streamlines: Iterable[ArrayLike]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return points and offsets of streamlines, each (n_points, 3).

    Raises InvalidTractogramError when one has another shape or holds no real numbers, or there is
    no sequence of them.
    """
    if not isinstance(streamlines, Iterable):
        raise InvalidTractogramError(
            f"The streamlines are of type {type(streamlines).__name__}; give a list of (n, 3) "
            "arrays."
        )
    lines = [
        real_numbers(line, np.float32, f"Streamline {number}", InvalidTractogramError)
        for number, line in enumerate(streamlines)
    ]
    for number, line in enumerate(lines):
        if line.size and (line.ndim != 2 or line.shape[1] != 3):
            raise InvalidTractogramError(
                f"Streamline {number} has shape {line.shape}; give (n, 3) positions in RAS+ mm."
            )
    points = [np.empty((0, 3), np.float32), *(line.reshape(-1, 3) for line in lines)]
    offsets = np.cumsum([len(line) for line in points], dtype=np.int64)
    return np.concatenate(points), offsets


class Joining:
    """Tractograms that are put one after the other as they come.

    Memory is made for `n_points`, and then, where it is known that they will have tried `n_seeds`
    in the end, for as many.
    """

    def __init__(self, n_seeds: int | None = None, n_points: int = 0) -> None:
        self._n_seeds = n_seeds
        self._points = pool.points(n_points)
        self._counts: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._seed_index: list[NDArray[np.int64]] = []
        self._stop_reasons: list[NDArray[np.uint8]] = []
        self._lengths: list[NDArray[np.float32]] = []
        self._weights: list[NDArray[np.float32] | None] = []
        self._data: list[StreamlineData] = []
        self._grid: Grid | None = None
        self._tally: dict[StopReason, int] = {}
        self._short_since: StopReason | None = None
        self._has_lengths = False
        self._seeds_are_known = True
        self._n_points = self._n_tried = 0

    def add(self, part: Any) -> NDArray[np.float32]:
        """Copy what a tractogram holds; return its points as they lie in the whole."""
        first, n_points = self._n_points, self._n_points + part.n_points
        if n_points > len(self._points):
            self._grow(n_points, self._n_tried + part.n_seeds)
        points = self._points[first:n_points]
        copy_rows(points, part.points)
        self._n_points = n_points
        self._counts.append(np.diff(part.offsets))
        self._seed_index.append(part.seed_index)
        self._stop_reasons.append(part.stop_reasons)
        self._has_lengths |= part._lengths_mm is not None
        self._lengths.append(part.lengths_mm)
        if len(part) or part.weights is not None:  # of no streamlines nothing need be known
            self._weights.append(part.weights)
        self._data.append(part.data)
        self._grid = part.grid if self._grid is None else self._grid
        self._n_tried += part.n_seeds
        self._seeds_are_known &= bool(part.n_seeds or not len(part))
        for reason, count in part.tally.items():
            self._tally[reason] = self._tally.get(reason, 0) + count
        self._short_since = part.short_since or self._short_since
        return points

    def take(self, part: Any) -> None:
        """Copy what a tractogram holds, and let go of its points but for those in the whole."""
        part._points = self.add(part)

    def _grow(self, n_points: int, n_tried: int) -> None:
        """Make room for so many points, which so many seeds have given, and for those to come."""
        expected = 2 * n_points
        if self._n_seeds and n_tried:
            expected = int(MARGIN * n_points * self._n_seeds / n_tried)
        expected = min(max(expected, n_points), GROWTH * n_points)
        fewer, self._points = self._points, pool.points(expected)
        self._points[: self._n_points] = fewer[: self._n_points]

    def columns(self) -> dict[str, Any] | None:
        """Return the arrays of the whole by name; None where nothing was added."""
        if not self._seed_index:
            return None
        weights = [each for each in self._weights if each is not None]
        is_weighted = weights and len(weights) == len(self._weights)
        return {
            "points": self._points[: self._n_points],
            "offsets": np.cumsum(np.concatenate(self._counts)),
            "seed_index": np.concatenate(self._seed_index),
            "stop_reasons": np.concatenate(self._stop_reasons),
            "lengths_mm": np.concatenate(self._lengths) if self._has_lengths else None,
            "tally": self._tally,
            "short_since": self._short_since,
            "data": joined_data(self._data, [len(each) for each in self._seed_index]),
            "grid": self._grid,
            "n_seeds": self._n_tried if self._seeds_are_known else 0,
            "weights": np.concatenate(weights) if is_weighted else None,
        }


def gathered(
    points: NDArray[np.floating], offsets: NDArray[np.int64], numbers: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the points of some streamlines, one after the other, as float32."""
    return np.asarray(of_points(points, offsets, numbers), dtype=np.float32)


def of_points(
    values: NDArray[Any], offsets: NDArray[np.int64], numbers: NDArray[np.int64]
) -> NDArray[Any]:
    """Return values at the points of some streamlines, one after the other."""
    firsts = offsets[:-1][numbers]
    counts = offsets[1:][numbers] - firsts
    ends = np.cumsum(counts)
    take = np.arange(ends[-1] if len(ends) else 0) + np.repeat(firsts - (ends - counts), counts)
    return np.asarray(values.take(take, axis=0))  # a third of what indexing takes
