"""Streamlines joined and picked, as arrays; called by the tractogram."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def end_to_end(
    streamlines: Iterable[ArrayLike],
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return points and offsets of streamlines, each (n_points, 3).

    Raises InvalidTractogramError when one has another shape, or holds no real numbers.
    """
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


def joined(parts: Iterable[Any], n_seeds: int | None) -> dict[str, Any] | None:
    """Return the arrays of tractograms one after the other, by name; None where there are none.

    See :meth:`~napari_tractography.streamlines.tractogram.Tractogram.concatenate`.
    """
    known_parts = list(parts) if isinstance(parts, Sequence) else []
    points = pool.points(sum(part.n_points for part in known_parts))
    counts: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    seed_index: list[NDArray[np.int64]] = []
    stop_reasons: list[NDArray[np.uint8]] = []
    lengths: list[NDArray[np.float32]] = []
    weights: list[NDArray[np.float32] | None] = []
    data: list[StreamlineData] = []
    grid: Grid | None = None
    tally: dict[StopReason, int] = {}
    short_since: StopReason | None = None
    known = False
    seeds_are_known = True
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
        copy_rows(points[first:n_points], part.points)
        counts.append(np.diff(part.offsets))
        seed_index.append(part.seed_index)
        stop_reasons.append(part.stop_reasons)
        known = known or part._lengths_mm is not None
        lengths.append(part.lengths_mm)
        if len(part) or part.weights is not None:  # of no streamlines nothing need be known
            weights.append(part.weights)
        data.append(part.data)
        grid = part.grid if grid is None else grid
        n_tried += part.n_seeds
        seeds_are_known &= bool(part.n_seeds or not len(part))
        for reason, count in part.tally.items():
            tally[reason] = tally.get(reason, 0) + count
        short_since = part.short_since or short_since
    if not seed_index:
        return None
    weighted = [each for each in weights if each is not None]
    return {
        "points": points[:n_points],
        "offsets": np.cumsum(np.concatenate(counts)),
        "seed_index": np.concatenate(seed_index),
        "stop_reasons": np.concatenate(stop_reasons),
        "lengths_mm": np.concatenate(lengths) if known else None,
        "tally": tally,
        "short_since": short_since,
        "data": joined_data(data, [len(each) for each in seed_index]),
        "grid": grid,
        "n_seeds": n_tried if seeds_are_known else 0,
        "weights": np.concatenate(weighted) if weighted and len(weighted) == len(weights) else None,
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
