"""What files say of streamlines besides their points: values, and groups; carried as it is.

Held by :class:`.StreamlineArrays` and by tractograms.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

Values = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class StreamlineData:
    """Values of other programs, by name; those of ours are columns of their own."""

    # mapping of str to (n_streamlines, ...) array
    per_streamline: Values = field(default_factory=dict)
    per_point: Values = field(default_factory=dict)  # mapping of str to (n_points, ...) array
    # mapping of str to (n,) int64: numbers of streamlines, such as those of one bundle.
    groups: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    # Of a group, by the names of group and values.
    per_group: Mapping[str, Values] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.per_streamline or self.per_point or self.groups)

    def picked(
        self, numbers: NDArray[np.int64], of_points: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> StreamlineData:
        """Return the data of other streamlines, each made of the one of that number.

        `of_points` takes values at all points; returns those at the points of the new streamlines.
        """
        if not self:
            return self
        return StreamlineData(
            {name: values[numbers] for name, values in self.per_streamline.items()},
            {name: of_points(values) for name, values in self.per_point.items()},
            {
                name: np.flatnonzero(np.isin(numbers, members))
                for name, members in self.groups.items()
            },
            self.per_group,
        )

    def names(self) -> Iterator[str]:
        """Yield what there is, as messages call it."""
        for what, names in (
            ("per streamline", self.per_streamline), ("per point", self.per_point)
        ):  # fmt: skip
            yield from (f"{name} ({what})" for name in names)
        yield from (f"the group {name}" for name in self.groups)


NO_DATA = StreamlineData()


def are_values(array: NDArray[Any]) -> bool:
    """Tell whether an array has numbers in rows, of types that other programs know."""
    is_number = array.dtype.kind in "biuf" and array.dtype.itemsize <= 8
    return is_number and array.ndim > 0 and 0 not in array.shape[1:]


def joined_data(parts: Sequence[StreamlineData], n_streamlines: Sequence[int]) -> StreamlineData:
    """Return the data of streamlines one after the other: values that all parts have, all groups.

    `n_streamlines` are those of each part; parts without streamlines do not count.
    """
    if not any(parts):
        return NO_DATA
    filled = [part for part, n in zip(parts, n_streamlines, strict=True) if n]
    groups: dict[str, list[NDArray[np.int64]]] = {}
    per_group: dict[str, Values] = {}
    first = 0
    for part, n in zip(parts, n_streamlines, strict=True):
        for name, members in part.groups.items():
            groups.setdefault(name, []).append(members + first)
        per_group |= {name: of for name, of in part.per_group.items() if name not in per_group}
        first += n
    per_streamline = _shared([part.per_streamline for part in filled])
    per_point = _shared([part.per_point for part in filled])
    names = {name for part in filled for name in (*part.per_streamline, *part.per_point)}
    lost = sorted(names - {*per_streamline, *per_point})
    if lost:
        logger.warning(
            "%s: not of all of the streamlines that are joined, and so left out.", ", ".join(lost)
        )
    return StreamlineData(
        per_streamline,
        per_point,
        {name: np.concatenate(members) for name, members in groups.items()},
        per_group,
    )


def _shared(parts: Sequence[Values]) -> Values:
    """Return values that all parts have, and as many of each, one after the other."""
    first, *others = parts or [{}]
    return {
        name: np.concatenate([part[name] for part in parts])
        for name, values in first.items()
        if all(name in part and part[name].shape[1:] == values.shape[1:] for part in others)
    }
