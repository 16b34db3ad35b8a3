"""Which streamlines of a tractogram are drawn, and their points in display mm.

No napari; a part of the streamlines layer. An object does not change once the layer shows it: the
thread that finds what lies under the cursor may still use the one before.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InvalidTractogramError
from ...streamlines.tractogram import Tractogram
from ..space.display import DisplaySpace
from .polylines import Blocks, even_subset, joined_to_next

ABREAST = 256  # points that are compared side by side


class DrawnSubset:
    """The drawn part of a tractogram in a space.

    Above `max_vertices` points it is an even random subset of whole streamlines.
    """

    def __init__(self, tractogram: Tractogram, space: DisplaySpace, max_vertices: int) -> None:
        self._parts = [tractogram]
        self.space = space
        # (n_shown,) int64: which streamlines are drawn; None when all are.
        self.chosen: NDArray[np.int64] | None = None
        self._subset: Tractogram | None = None
        if tractogram.n_points > max_vertices:
            self.chosen = even_subset(tractogram.offsets, max_vertices)
            self._subset = tractogram.chosen(self.chosen)
        drawn = self.tractogram
        self.offsets = drawn.offsets  # (n_shown + 1,) int64: the drawn points of each of them
        # (n_points, 3) float32: drawn points, display mm, axes x, y, z. They are the points of the
        # tractogram itself, not a copy, where display coordinates are RAS+ mm.
        self.xyz = space.to_display_xyz(drawn.points)
        # (n_points,) bool: whether a line leads from a point to the next.
        self.joined = joined_to_next(drawn.offsets)
        # (2, 3) float64: smallest and largest coordinates of the drawn points; NaN without points.
        self.bounds = _bounds(self.xyz)

    @property
    def whole(self) -> Tractogram:
        if len(self._parts) > 1:
            self._parts = [Tractogram.concatenate(self._parts)]
        return self._parts[0]

    @property
    def tractogram(self) -> Tractogram:
        """The streamlines that are drawn."""
        return self.whole if self._subset is None else self._subset

    @property
    def n_all(self) -> int:
        return sum(part.n_streamlines for part in self._parts)

    def with_more(self, chunk: Tractogram) -> DrawnSubset:
        """Return the same with all of a chunk drawn too; only where no subset is drawn."""
        more = DrawnSubset.__new__(DrawnSubset)
        more._parts = [*self._parts, chunk]
        more._subset = more.chosen = None
        more.space = self.space
        added = self.space.to_display_xyz(chunk.points)
        more.xyz = np.concatenate([self.xyz, added])
        both = np.stack([self.bounds, _bounds(added)])
        more.bounds = np.stack([np.fmin(*both[:, 0]), np.fmax(*both[:, 1])])
        more.joined = np.concatenate([self.joined, joined_to_next(chunk.offsets)])
        more.offsets = np.concatenate([self.offsets, chunk.offsets[1:] + self.offsets[-1]])
        return more

    def placed(self, space: DisplaySpace) -> DrawnSubset:
        """Return the same streamlines drawn in another space."""
        moved = copy(self)
        moved.__dict__.pop("blocks", None)
        moved.space = space
        moved.xyz = space.to_display_xyz(self.tractogram.points)
        moved.bounds = _bounds(moved.xyz)
        return moved

    @cached_property
    def blocks(self) -> Blocks:
        """Boxes around runs of points, to find quickly what lies under the cursor."""
        return Blocks.around(self.xyz, self.joined)

    def points_of(self, streamlines: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which drawn points belong to some of the streamlines, given by their numbers."""
        picked = np.zeros(self.n_all, dtype=bool)
        picked[streamlines] = True
        drawn = picked if self.chosen is None else picked[self.chosen]
        return np.asarray(np.repeat(drawn, np.diff(self.offsets)))

    def streamline_of(self, point: int | None) -> int | None:
        """Return the number, among all streamlines, of the one that a drawn point belongs to."""
        if point is None:
            return None
        drawn = int(np.searchsorted(self.offsets, point, side="right")) - 1
        return drawn if self.chosen is None else int(self.chosen[drawn])

    def values_of(self, values: ArrayLike) -> NDArray[np.float32]:
        """Pick, of numbers of all streamlines or of all points, those that are drawn.

        Raises InvalidTractogramError when there are neither as many values as streamlines nor as
        many as points.
        """
        array = np.asarray(values, dtype=np.float32)
        whole = self.whole
        if array.shape not in ((whole.n_streamlines,), (whole.n_points,)):
            raise InvalidTractogramError(
                f"values has shape {array.shape}; give one number for each of the "
                f"{whole.n_streamlines} streamlines or {whole.n_points} points."
            )
        if self.chosen is None:
            return array
        if len(array) == whole.n_streamlines:
            return array[self.chosen]
        return np.asarray(array[self._point_numbers])

    def spread(self, values: ArrayLike) -> NDArray[np.float32]:
        """Return numbers of what is drawn, streamlines or points, as numbers of all of them.

        The inverse of :meth:`values_of`; NaN for what is not drawn.
        """
        array = np.asarray(values, dtype=np.float32)
        if self.chosen is None:
            return array
        is_each = len(array) == len(self.chosen)
        n = self.whole.n_streamlines if is_each else self.whole.n_points
        spread = np.full(n, np.nan, dtype=np.float32)
        spread[self.chosen if is_each else self._point_numbers] = array
        return spread

    @property
    def _point_numbers(self) -> NDArray[np.int64]:
        """(n_points,) int64: the number of each drawn point among all points."""
        assert self.chosen is not None
        shift = self.whole.offsets[self.chosen] - self.offsets[:-1]
        return np.asarray(np.arange(self.offsets[-1]) + np.repeat(shift, np.diff(self.offsets)))


def _bounds(xyz: NDArray[np.float32]) -> NDArray[np.float64]:
    if not len(xyz):
        return np.full((2, 3), np.nan)
    # Many rows at once: NumPy reduces (n, 3) along its long axis 40 times slower.
    n = len(xyz) // ABREAST * ABREAST
    wide = xyz[:n].reshape(-1, 3 * ABREAST)
    ends = []
    for end in (np.min, np.max):
        rows = [end(wide, axis=0).reshape(-1, 3)] if n else []
        ends.append(end(np.concatenate([*rows, xyz[n:]]), axis=0))
    return np.asarray(ends, dtype=np.float64)
