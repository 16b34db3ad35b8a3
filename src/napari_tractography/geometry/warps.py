"""Warps: where a point of one space lies in another, by affines and by fields of positions.

Read from files by :mod:`napari_tractography.files.warp_files`; streamlines, seeds and regions have
a method `warped`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidWarpError
from ..runtime.arrays import mapped, points_of, real_numbers
from .grid import Grid

TOLERANCE_MM = 1e-4  # within which a point that a field is to lead to is met
MOST_ITERATIONS = 50  # of Newton's method; some five are usual
MOST_HALVINGS = 6  # of one step
MOST_STARTS = 50_000  # points of a field among which the first guess is sought
DIFFERENCE = 0.25  # of a voxel, by which slopes are taken

Points = NDArray[np.float64]


class _Step(Protocol):
    """One part of a warp."""

    def apply(self, points: Points) -> Points:
        """Return where (n, 3) points lie in the other space; NaN where that is unknown."""

    def inverse(self) -> _Step:
        """Return the way back."""

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""


class Warp:
    """A map of points from one space into another; made by :meth:`affine` and :meth:`field`.

    What :func:`~napari_tractography.files.warp_files.load_warp` reads leads from the space of the
    image on which another was resampled (fixed, reference, template of the resampling) to the space
    of that other (moving), as points go in registration.
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: Sequence[_Step]) -> None:
        self._steps = tuple(steps)

    @classmethod
    def affine(cls, matrix: ArrayLike) -> Warp:
        """Make a warp of a (4, 4) matrix of RAS+ mm. Raises InvalidWarpError where it is none."""
        return cls((_Affine(real_numbers(matrix, np.float64, "The affine", InvalidWarpError)),))

    @classmethod
    def field(cls, positions_mm: ArrayLike, grid: Grid) -> Warp:
        """Make a warp of where the centre of each voxel lies in the other space.

        Between centres it is trilinear, and in the outer half of the outermost voxels it goes on as
        it is within. Points outside of the grid, or beside a voxel without a position, lie nowhere.

        Parameters
        ----------
        positions_mm : (x, y, z, 3) array_like
            RAS+ mm; NaN where there is none.
        grid : Grid

        Raises
        ------
        InvalidWarpError
            When the shape is another than the grid's, or no position is finite.
        """
        return cls((_Field(positions_mm, grid),))

    @property
    def grid(self) -> Grid | None:
        """Of the field that points go through first, if it is one: it lies where they come from."""
        first = self._steps[0] if self._steps else None
        return first.grid if isinstance(first, _Field) else None

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        return sum(step.n_bytes for step in self._steps)

    def apply(self, points_mm: ArrayLike) -> Points:
        """Return where points lie in the other space.

        Parameters
        ----------
        points_mm : (n, 3) array_like
            RAS+ mm.

        Returns
        -------
        (n, 3) float64
            RAS+ mm; NaN where a field does not say it.
        """
        points = points_of(points_mm, InvalidWarpError)
        for step in self._steps:
            points = step.apply(points)
        return points

    def moved(self, point_mm: ArrayLike, what: str) -> tuple[float, float, float]:
        """Return where one point lies in the other space.

        Raises InvalidWarpError where that is unknown; `what` is there, for the message.
        """
        x, y, z = self.apply(np.reshape(np.asarray(point_mm, np.float64), (1, 3)))[0].tolist()
        if not math.isfinite(x + y + z):
            where = np.asarray(point_mm).round(1).tolist()
            raise InvalidWarpError(
                f"{what} at {where} mm lies outside of the warp; check that it leads from there, "
                "and not the other way."
            )
        return x, y, z

    def inverse(self) -> Warp:
        """Return the way back: of an affine its inverse, of a field by Newton's method.

        That meets a point to :data:`TOLERANCE_MM`, or says that it comes from nowhere. It takes
        some hundred times as long as the field itself.
        """
        return Warp([step.inverse() for step in reversed(self._steps)])

    def then(self, other: Warp) -> Warp:
        """Return this warp and another after it."""
        return Warp([*self._steps, *other._steps])


def check_warp(warp: object) -> None:
    """Raise InvalidWarpError when something is no warp."""
    if not isinstance(warp, Warp):
        raise InvalidWarpError(
            f"The warp is of type {type(warp).__name__}; give a Warp, such as load_warp(path) "
            "returns, or Warp.affine(matrix)."
        )


class _Affine:
    """An affine map."""

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
            raise InvalidWarpError(f"The affine of a warp has shape {matrix.shape}; give 4 x 4.")
        if not np.allclose(matrix[3], (0, 0, 0, 1)) or not np.linalg.det(matrix[:3, :3]):
            raise InvalidWarpError(
                f"The affine {matrix.round(4).tolist()} of a warp cannot be inverted; give one of "
                "RAS+ mm with the last row 0, 0, 0, 1."
            )
        self.matrix = matrix
        self.n_bytes = int(matrix.nbytes)

    def apply(self, points: Points) -> Points:
        return np.stack(mapped(self.matrix, points), axis=1)

    def inverse(self) -> _Affine:
        return _Affine(np.asarray(np.linalg.inv(self.matrix), np.float64))


class _Field:
    """A field of positions."""

    def __init__(self, positions_mm: ArrayLike, grid: Grid) -> None:
        positions = real_numbers(positions_mm, np.float32, "The field", InvalidWarpError)
        if positions.shape != (*grid.shape, 3):
            raise InvalidWarpError(
                f"The field of a warp has shape {positions.shape}; give {(*grid.shape, 3)}."
            )
        if not np.isfinite(positions).all(axis=-1).any():
            raise InvalidWarpError("The field of a warp has no position; export it again.")
        self.positions, self.grid = positions, grid
        self.n_bytes = int(positions.nbytes)

    def apply(self, points: Points) -> Points:
        return self.at_voxels(np.stack(mapped(self.grid.inverse, points), axis=1))

    def at_voxels(self, voxels: Points) -> Points:
        """Return positions at (n, 3) voxel coordinates."""
        from .trilinear import interpolate  # on use: Numba takes a while to load

        found = np.empty_like(voxels)
        interpolate(self.positions, voxels, found)
        return found

    def inverse(self) -> _Inverted:
        return _Inverted(self)


class _Inverted:
    """The way back through a field."""

    def __init__(self, field: _Field) -> None:
        self.field = field
        self._starts: tuple[Any, Points] | None = None

    @property
    def n_bytes(self) -> int:
        starts = 0 if self._starts is None else self._starts[0].data.nbytes + self._starts[1].nbytes
        return self.field.n_bytes + int(starts)

    def inverse(self) -> _Field:
        return self.field

    def apply(self, points: Points) -> Points:
        voxels = np.full(points.shape, np.nan)
        known = np.flatnonzero(np.isfinite(points).all(axis=1))
        if len(known):
            voxels[known] = self._solved(points[known])
        return np.stack(mapped(self.field.grid.affine, voxels), axis=1)

    def _solved(self, targets: Points) -> Points:
        """Return the voxel coordinates that lead to (n, 3) points, NaN where none are found."""
        tree, starts = self._tree()
        voxels: Points = starts[tree.query(targets)[1]]
        miss = self.field.at_voxels(voxels) - targets
        open_ = np.flatnonzero(_lengths(miss) > TOLERANCE_MM)
        for _ in range(MOST_ITERATIONS):
            if not len(open_):
                break
            open_ = self._improved(voxels, miss, targets, open_)
        voxels[~(_lengths(miss) <= TOLERANCE_MM)] = np.nan
        return voxels

    def _improved(
        self, voxels: Points, miss: Points, targets: Points, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Take a step of Newton's for some rows, in place; return those that it helps further.

        A step that does not come nearer is halved: it may have left the field.
        """
        steps = _solutions(self._slopes(voxels[rows]), miss[rows])
        better = np.zeros(len(rows), bool)
        for halving in range(MOST_HALVINGS):
            trial = np.flatnonzero(~better)
            if not len(trial):
                break
            at = rows[trial]
            tried = voxels[at] - 0.5**halving * steps[trial]
            missed = self.field.at_voxels(tried) - targets[at]
            nearer = _lengths(missed) < _lengths(miss[at])  # of NaN never
            voxels[at[nearer]], miss[at[nearer]] = tried[nearer], missed[nearer]
            better[trial[nearer]] = True
        return rows[better & (_lengths(miss[rows]) > TOLERANCE_MM)]

    def _slopes(self, voxels: Points) -> Points:
        """Return (n, 3, 3) derivatives by voxel coordinates, the last axis; one-sided at edges."""
        here = self.field.at_voxels(voxels)
        slopes = np.empty((len(voxels), 3, 3))
        for axis in range(3):
            ends, sides = [], np.zeros(len(voxels))
            for sign in (1, -1):
                beside = voxels.copy()
                beside[:, axis] += sign * DIFFERENCE
                end = self.field.at_voxels(beside)
                outside = np.isnan(end[:, 0])
                end[outside] = here[outside]
                ends.append(end)
                sides += ~outside
            difference = ends[0] - ends[1]
            slopes[:, :, axis] = difference / np.maximum(sides, 1)[:, None] / DIFFERENCE
        return slopes

    def _tree(self) -> tuple[Any, Points]:
        """Return a tree of some positions, and their voxels."""
        if self._starts is None:
            from scipy.spatial import KDTree  # on use: SciPy takes a while to load

            shape = self.field.grid.shape
            stride = max(1, math.ceil((math.prod(shape) / MOST_STARTS) ** (1 / 3)))
            every = np.stack(
                np.meshgrid(*(np.arange(0, n, stride) for n in shape), indexing="ij"), axis=-1
            ).reshape(-1, 3)
            positions = self.field.positions[tuple(every.T)]
            known = np.isfinite(positions).all(axis=1)
            if not known.any():  # few voxels, all between those
                every = np.argwhere(np.isfinite(self.field.positions).all(axis=-1))
                positions = self.field.positions[tuple(every.T)]
                known = np.ones(len(every), bool)
            self._starts = KDTree(positions[known]), every[known].astype(np.float64)
        return self._starts[0], self._starts[1]


def _lengths(vectors: Points) -> NDArray[np.float64]:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=1)))


def _solutions(matrices: Points, right: Points) -> Points:
    """Return x of (n, 3, 3) matrices times x = (n, 3) right, zero where there is none.

    By Cramer's rule, so that machines agree.
    """
    a, b, c = (matrices[:, :, axis] for axis in range(3))
    crossed = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
    determinant = (a * crossed[:, 0]).sum(axis=1)
    above = (crossed * right[:, None]).sum(axis=2)
    singular = determinant == 0
    found = above / np.where(singular, 1.0, determinant)[:, None]
    found[singular] = 0.0
    return np.asarray(found)
