"""Scalar maps, such as FA, and their values along streamlines.

Called by the measures of bundles and by profiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..files.formats import volume_endings
from ..files.volume_files import load_volume
from ..geometry.grid import Grid
from ..runtime.arrays import real_numbers
from ..streamlines.tractogram import Tractogram


@dataclass(frozen=True, slots=True, eq=False)
class ScalarMap:
    """A volume of numbers.

    Raises InvalidParameterError when the values are not on the grid.
    """

    values: NDArray[np.float32]  # (x, y, z) float32: NaN or infinite where there is none
    grid: Grid
    name: str = "scalar"  # such as "FA"

    def __post_init__(self) -> None:
        if self.values.shape != self.grid.shape:
            raise InvalidParameterError(
                f"The scalar map {self.name} has shape {self.values.shape}, but its grid has "
                f"{self.grid.shape}; give a 3-D volume with its affine."
            )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ScalarMap:
        """Read a map, named like its file.

        Raises FileError when the file is missing, corrupt or not 3-D.
        """
        values, grid = load_volume(path)
        return cls(values.astype(np.float32, copy=False), grid, name_of(path))

    @classmethod
    def of(cls, scalar: Any) -> ScalarMap:
        """Return the map that is meant by a map, a path, or a pair of values and affine or Grid."""
        if isinstance(scalar, ScalarMap):
            return scalar
        if isinstance(scalar, str | PathLike):
            return cls.load(scalar)
        try:
            values, affine = scalar
        except (TypeError, ValueError):
            raise InvalidParameterError(
                f"A scalar map cannot be of type {type(scalar).__name__}; give a path, or a pair "
                "of a 3-D array and its affine."
            ) from None
        return cls.from_array(values, affine)

    @classmethod
    def from_array(
        cls, values: ArrayLike, affine: ArrayLike | Grid, name: str = "scalar"
    ) -> ScalarMap:
        """Return the map of a 3-D array; (4, 4) `affine`: voxel to RAS+ mm.

        Raises InvalidParameterError when it holds no real numbers.
        """
        what = f"The scalar map {name}"
        array = real_numbers(values, np.float32, what, InvalidParameterError)
        return cls(array, affine if isinstance(affine, Grid) else Grid(array.shape, affine), name)

    def at(self, points_mm: ArrayLike) -> NDArray[np.float64]:
        """Return values at (n, 3) RAS+ mm points, trilinear: (n,) float64.

        NaN outside the volume, which ends half a voxel beyond the outer voxel centres, and where a
        NaN or an infinite value has a weight: not at the centre of a voxel beside it, where
        ``tcksample`` has NaN on one of both sides.
        """
        from scipy.ndimage import map_coordinates  # on use: it takes a while to load

        vox = self.grid.to_voxel(points_mm)
        last = np.array(self.grid.shape) - 1
        inside = ((vox >= -0.5) & (vox < last + 0.5)).all(axis=1)
        found = np.full(len(vox), np.nan)
        where = np.clip(vox[inside], 0, last).T
        here = map_coordinates(
            self.values, where, output=np.float64, order=1, mode="nearest", prefilter=False
        )
        unknown = ~np.isfinite(here)  # also where the NaN is multiplied by zero
        here[unknown] = _of_corners_with_weight(self.values, where[:, unknown])
        found[inside] = np.where(np.isfinite(here), here, np.nan)
        return found

    def means_along(self, tractogram: Tractogram) -> NDArray[np.float64]:
        """Return the mean along each streamline, (n_streamlines,) float64.

        A point counts as half the segments that it joins are long, as in ``tcksample -stat_tck
        mean``; a streamline of one point has the value there. NaN without a value.
        """
        points, offsets = tractogram.points, tractogram.offsets
        n = len(tractogram)
        owners = np.repeat(np.arange(n), np.diff(offsets))
        steps = np.linalg.norm(np.diff(points, axis=0).astype(np.float64), axis=1)
        steps = np.where(owners[1:] == owners[:-1], steps, 0.0)  # between streamlines is no path
        weights = np.zeros(len(points))
        weights[:-1] += steps / 2
        weights[1:] += steps / 2
        no_path = np.bincount(owners, weights, n) == 0
        weights[no_path[owners]] = 1.0
        values = self.at(points)
        known = ~np.isnan(values)
        owners, weights, values = owners[known], weights[known], values[known]
        total = np.bincount(owners, weights, n)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.bincount(owners, weights * values, n) / total)


def _of_corners_with_weight(
    values: NDArray[np.float32], vox: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return values at (3, n) voxel coordinates, trilinear, of the voxels that have a weight."""
    first = np.floor(vox).astype(np.int64)
    part = vox - first
    last = np.array(values.shape)[:, None] - 1
    found = np.zeros(vox.shape[1])
    for corner in np.ndindex(2, 2, 2):
        far = np.array(corner)[:, None]
        weight = np.where(far, part, 1 - part).prod(axis=0)
        x, y, z = np.minimum(first + far, last)
        with np.errstate(invalid="ignore"):  # of infinite values with both signs
            found += weight * np.where(weight > 0, values[x, y, z], 0.0)
    return found


def name_of(path: str | PathLike[str]) -> str:
    """Return the name of a file without its folder and the ending of a volume."""
    name = Path(path).name
    longest_first = sorted(volume_endings(), key=len, reverse=True)
    ending = next((e for e in longest_first if name.lower().endswith(e)), "")
    return name[: len(name) - len(ending)] if ending else name
