"""Orientations that are kept as numbers of their own beside SH coefficients: peaks and tensors.

What both have in common: the axes that they come in. Made by :mod:`.peaks` and
:mod:`.tensors`; held by :mod:`napari_tractography.model.fod`, followed by the kernels of
:mod:`napari_tractography.tracking`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidFodError, InvalidParameterError
from ..geometry.grid import Grid
from ..runtime.arrays import as_native, host_array
from .input_kind import InputKind
from .readings import AXES, TENSOR_ORDERS

ENDLESS = 1e18  # numbers from which on lengths are infinite, as float32 has no such squares


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Numbers of the voxels that hold some, and what they are."""

    kind: InputKind
    # (n_voxels, n) float32: RAS+ axes, as the kernel of the kind follows them: vectors one after
    # the other, whose lengths are amplitudes, largest first; or the elements xx, yy, zz, xy, xz and
    # yz.
    numbers: NDArray[np.float32]
    axes: str  # in which they came, one of AXES
    order: str = ""  # in which elements came; "" of vectors


def check_axes(axes: str) -> None:
    """Check the name of axes. Raises InvalidParameterError when they are unknown."""
    if axes not in AXES:
        raise InvalidParameterError(f"axes = {axes!r} is unknown; choose one of {', '.join(AXES)}.")


def check_order(order: str) -> None:
    """Check the name of an order of elements. Raises InvalidParameterError when it is unknown."""
    if order not in TENSOR_ORDERS:
        raise InvalidParameterError(
            f"order = {order!r} is unknown; choose one of {', '.join(TENSOR_ORDERS)}."
        )


def rotation_to_ras(axes: str, grid: Grid) -> NDArray[np.float64]:
    """Return the (3, 3) float64 matrix from the axes of directions to RAS+.

    "scanner" is RAS+, as MRtrix3 and TractSeg write them; "voxel" along the axes of the image, as
    DIPY does; "fsl" the same with x turned round where the determinant of the affine is positive.
    Raises InvalidParameterError when the axes are unknown.
    """
    check_axes(axes)
    if axes == "scanner":
        return np.eye(3)
    rotation = np.array(grid.axes, dtype=np.float64)
    if axes == "fsl" and np.linalg.det(grid.affine[:3, :3]) > 0:
        rotation[:, 0] *= -1.0
    return rotation


def checked_volume(values: ArrayLike, name: str, what: str) -> NDArray[Any]:
    """Return an array on the host, of floats and with four axes or more.

    Raises InvalidFodError when it holds no real numbers or has fewer axes; `what` says what it
    should have held.
    """
    array = np.asarray(host_array(as_native(values)))
    if array.dtype.kind not in "iuf":
        raise InvalidFodError(f"{name} holds {array.dtype} values; give real numbers.")
    if array.ndim < 4:
        raise InvalidFodError(f"{name} has shape {array.shape}; give {what}.")
    return array


def used_rows(is_used: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the number of each voxel among those in use, (x, y, z) int32, -1 for the others."""
    counted = np.cumsum(is_used.ravel(), dtype=np.int32).reshape(is_used.shape)
    return np.where(is_used, counted - 1, -1).astype(np.int32)


def grid_of(values: ArrayLike, grid: Grid | ArrayLike) -> Grid:
    """Return the grid of an array: `grid`, or one with that affine.

    Raises InvalidFodError when the array has fewer than three axes.
    """
    if isinstance(grid, Grid):
        return grid
    shape = tuple(np.shape(values if hasattr(values, "shape") else host_array(values)))[:3]
    if len(shape) < 3:
        raise InvalidFodError(f"The array has shape {shape}; give one with x, y and z first.")
    return Grid(shape, grid)
