"""Voxel grids: the one place where voxel coordinates and RAS+ millimetres meet.

Called by everything that holds a volume.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidGridError
from ..runtime.arrays import real_numbers
from ..runtime.scalars import as_whole
from .units import MM, checked_unit, decimals_for

# A volume spanned by the three voxel axes, relative to a box of the same edge lengths,
# below which an affine cannot be inverted with any accuracy left in float32.
MIN_RELATIVE_DETERMINANT = 1e-4
SWEEPS = 60  # over the axes of a voxel that shears, at most
SETTLED = 1e-11  # voxels, by which no place moves any more


class Grid:
    """A voxel grid in space.

    Voxel centres lie at integer voxel coordinates, so the image ends at -0.5 and n - 0.5.

    Parameters
    ----------
    shape : sequence of 3 int
        Number of voxels along each axis.
    affine : (4, 4) array_like
        Voxel coordinates to RAS+ mm. Any invertible affine: oblique, sheared, anisotropic
        and left-handed ones are normal.
    unit : str
        In which a person reads and sets lengths in this volume, see :mod:`.units`. Numbers stay
        in mm whatever it is.
    is_anatomical : bool
        Whether the axes are those of the body, R, A and S; those of an image that says nothing of
        left and right, such as a TIFF, are x, y and z.

    Raises
    ------
    InvalidGridError
        When the shape is not three positive whole numbers, or the affine holds no real numbers or
        cannot be inverted.
    InvalidParameterError
        When the unit is unknown.
    """

    __slots__ = ("affine", "inverse", "is_anatomical", "shape", "unit")

    def __init__(
        self, shape: Sequence[int], affine: ArrayLike, *, unit: str = MM, is_anatomical: bool = True
    ) -> None:
        extent = tuple(as_whole(n) or 0 for n in shape) if isinstance(shape, Iterable) else ()
        if len(extent) != 3 or min(extent) < 1:
            raise InvalidGridError(
                f"A grid needs three positive sizes, not {shape!r}; give a 3-D volume."
            )
        matrix = real_numbers(affine, np.float64, "The affine", InvalidGridError).copy()
        if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
            raise InvalidGridError(
                f"The affine must be 4 x 4 finite numbers, not of shape {matrix.shape} with "
                f"{int((~np.isfinite(matrix)).sum())} non-finite values; repair the file's header."
            )
        with np.errstate(all="ignore"):  # of numbers that large nothing is left
            edges = np.linalg.norm(matrix[:3, :3], axis=0)
            relative = abs(np.linalg.det(matrix[:3, :3])) / max(float(np.prod(edges)), 1e-300)
            shown = matrix.round(4).tolist()
        if not relative > MIN_RELATIVE_DETERMINANT or not np.allclose(matrix[3], (0, 0, 0, 1)):
            raise InvalidGridError(
                f"The affine {shown} is singular: voxels would have no volume; "
                "repair the file's header (mrinfo or nib-ls show it)."
            )
        matrix.flags.writeable = False
        self.unit = checked_unit(unit)
        self.is_anatomical = bool(is_anatomical)
        self.shape: tuple[int, int, int] = (extent[0], extent[1], extent[2])
        self.affine: NDArray[np.float64] = matrix
        self.inverse: NDArray[np.float64] = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        self.inverse.flags.writeable = False

    def beside(self, shape: Sequence[int], affine: ArrayLike) -> Grid:
        """Return other voxels in the same image, with its unit and its kind of axes."""
        return Grid(shape, affine, unit=self.unit, is_anatomical=self.is_anatomical)

    def divided(self, parts: ArrayLike) -> Grid:
        """Return the same volume in smaller voxels: so many of one along each axis, (3,) int."""
        n = np.asarray(parts, dtype=np.int64)
        smaller = np.eye(4)
        smaller[range(3), range(3)] = 1 / n
        smaller[:3, 3] = 0.5 / n - 0.5  # the first corner stays where it is
        return self.beside(tuple(np.array(self.shape) * n), self.affine @ smaller)

    @property
    def voxel_sizes_mm(self) -> NDArray[np.float64]:
        """(3,) float64: edge lengths of a voxel, mm."""
        return np.asarray(np.linalg.norm(self.affine[:3, :3], axis=0))

    @property
    def voxel_mm(self) -> float:
        """The geometric mean of the edge lengths of a voxel, mm."""
        return math.pow(np.prod(self.voxel_sizes_mm), 1 / 3)

    @property
    def axes(self) -> NDArray[np.float64]:
        """(3, 3) float64: the orthonormal matrix nearest to the voxel axes, as columns in RAS+.

        Polar decomposition; equals the normalised columns of the affine unless it shears.
        Its determinant is -1 for left-handed grids.
        """
        left, _, right = np.linalg.svd(self.affine[:3, :3] / self.voxel_sizes_mm)
        return np.asarray(left @ right)

    @property
    def centre_mm(self) -> NDArray[np.float64]:
        """(3,) float64: the middle of the volume, RAS+ mm."""
        return np.asarray(self.to_mm((np.array(self.shape) - 1) / 2))

    @property
    def orientation(self) -> str:
        """The anatomical directions nearest to the voxel axes, such as "RAS" or "LPS"."""
        from nibabel import aff2axcodes  # on use: nibabel takes a while to load

        return "".join(aff2axcodes(self.affine))

    def bounds_mm(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the corners, (3,) each, of the smallest RAS+ box around the volume, mm."""
        corners = self.corners_mm()
        return corners.min(axis=0), corners.max(axis=0)

    def bounds_text(self, per_mm: float = 1.0) -> str:
        """Return where the volume lies: "(-14.0, -5.0, -9.0) to (14.0, 5.0, 9.0)", RAS+ mm.

        With as many decimals as tell voxels apart; multiplied by `per_mm` for another unit.
        """
        return " to ".join(self.point_text(corner, per_mm) for corner in self.bounds_mm())

    def point_text(self, point_mm: ArrayLike, per_mm: float = 1.0) -> str:
        """Return a (3,) RAS+ mm position as :meth:`bounds_text` does."""
        decimals = decimals_for(per_mm * float(self.voxel_sizes_mm.min()))
        values = (per_mm * np.asarray(point_mm)).round(decimals) + 0.0  # no -0.0
        return f"({', '.join(f'{x:.{decimals}f}' for x in values)})"

    def corners_mm(self) -> NDArray[np.float64]:
        """Return the corners of the volume, of its outermost voxels, (8, 3) RAS+ mm."""
        ends = [(-0.5, n - 0.5) for n in self.shape]
        return self.to_mm(np.array(np.meshgrid(*ends)).reshape(3, 8).T)

    def to_mm(self, points_vox: ArrayLike) -> NDArray[np.float64]:
        """Map (..., 3) voxel coordinates to RAS+ mm, float64."""
        return np.asarray(points_vox, dtype=np.float64) @ self.affine[:3, :3].T + self.affine[:3, 3]

    def to_voxel(self, points_mm: ArrayLike) -> NDArray[np.float64]:
        """Map (..., 3) RAS+ mm to voxel coordinates, float64."""
        return (
            np.asarray(points_mm, dtype=np.float64) @ self.inverse[:3, :3].T + self.inverse[:3, 3]
        )

    def contains(self, points_mm: ArrayLike) -> NDArray[np.bool_]:
        """Tell which of (..., 3) RAS+ mm points lie inside the image, as (...) bool."""
        vox = self.to_voxel(points_mm)
        return np.asarray(((vox >= -0.5) & (vox < np.array(self.shape) - 0.5)).all(axis=-1))

    def nearest_voxels(self, points_mm: ArrayLike) -> NDArray[np.int64]:
        """Return the voxels that (..., 3) RAS+ mm points lie in, (..., 3) int64.

        Of points outside the image, the nearest along each axis.
        """
        vox = np.floor(self.to_voxel(points_mm) + 0.5)
        # Of 0.5 - 1e-17, which is inside, the sum is 1.
        return np.clip(vox, 0, np.array(self.shape) - 1).astype(np.int64)

    def nearest_in_boxes(
        self, points_mm: ArrayLike, low: ArrayLike, high: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the places of boxes of voxels that are nearest to points, (n, 3) RAS+ mm.

        Points are (n, 3) RAS+ mm, the corners of their boxes (3,) or (n, 3) voxel coordinates. What
        is nearest in mm is so along each voxel axis, but where the grid shears.
        """
        axes = self.affine[:3, :3]
        metric = axes.T @ axes
        wanted = self.to_voxel(points_mm)
        lows, highs = np.broadcast_to(low, wanted.shape), np.broadcast_to(high, wanted.shape)
        found = np.clip(wanted, lows, highs)
        off = metric - np.diag(np.diag(metric))
        for _ in range(SWEEPS if off.any() else 0):  # along one axis after the other, again
            before = found.copy()
            for axis in range(3):
                pull = (found - wanted) @ off[axis] / metric[axis, axis]
                found[:, axis] = np.clip(wanted[:, axis] - pull, lows[:, axis], highs[:, axis])
            if np.abs(found - before).max(initial=0.0) <= SETTLED:
                break
        return self.to_mm(found)

    def same_space(self, other: Grid) -> bool:
        """Tell whether two grids put the same voxels at the same places.

        No number of their affines differs by more than 1e-3 mm or, of voxels below 1 mm, a
        thousandth of them.
        """
        most = 1e-3 * min(1.0, float(self.voxel_sizes_mm.min()))
        return self.shape == other.shape and bool(
            (np.abs(self.affine - other.affine) <= most).all()
        )

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        return self.shape == other.shape and np.array_equal(self.affine, other.affine)

    def __hash__(self) -> int:
        return hash((self.shape, self.affine.tobytes()))

    def __repr__(self) -> str:
        sizes = " x ".join(f"{s:.4g}" for s in self.voxel_sizes_mm)
        first = ", ".join(f"{x:.4g}" for x in self.affine[:3, 3])
        return f"Grid(shape={self.shape}, voxels {sizes} mm, the first at {first} mm)"


def middle_first(n: int) -> list[int]:
    """Return the numbers below n from the middle outwards, where an image most likely has any."""
    return sorted(range(n), key=lambda number: abs(2 * number + 1 - n))
