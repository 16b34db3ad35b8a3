"""The fibre orientation distribution (FOD): spherical-harmonic coefficients on a voxel grid.

Made by :mod:`napari_tractography.files.fod_reader` and :mod:`napari_tractography.phantoms`;
tabulated by :mod:`napari_tractography.tracking.tables.builders`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import DeviceArray, as_native, library_of, on_its_device
from .errors import InvalidFodError, InvalidParameterError
from .fields.kinds import SH
from .fields.sh import BASES, DEFAULT_FRAMES, FRAMES, SH_COUNTS, sh_matrix
from .grid import Grid

logger = logging.getLogger(__name__)


def check_fod_shape(shape: Sequence[int], name: str) -> None:
    """Check that an array of this shape can hold an FOD; `name` is what to call it.

    Raises
    ------
    InvalidFodError
        When it is not 4-D or its last axis is no SH count.
    """
    if len(shape) != 4:
        raise InvalidFodError(
            f"{name} has {len(shape)} dimensions of shape {tuple(shape)}; an FOD volume is 4-D, "
            "with spherical-harmonic coefficients along the last axis."
        )
    if shape[3] not in SH_COUNTS:
        raise InvalidFodError(
            f"{name} has {shape[3]} volumes, which is no count of even spherical "
            "harmonics (1, 6, 15, 28, 45, 66, 91, ...); give an FOD such as wmfod.nii.gz."
        )


class Fod:
    """SH coefficients, the grid they live on, and how to read them.

    Only voxels with a finite, non-zero coefficient are stored. Instances are immutable.

    Parameters
    ----------
    coefficients : (x, y, z, n_coefficients) array_like
        SH coefficients; n_coefficients is 1, 6, 15, 28, 45, 66, 91, ... Voxels with a NaN or
        infinite coefficient count as empty. An array on a GPU (CuPy, PyTorch, JAX) stays there,
        and is copied to the host when something there asks for it.
    grid : Grid or (4, 4) array_like
        The voxel grid, or just its affine.
    basis : str
        See :func:`sh_matrix`.
    frame : str, optional
        Axes of the directions: "scanner" (RAS+) or "voxel" (the image's own). By default
        scanner for tournier07 and voxel for descoteaux07.
    name : str
        What to call it in messages and layers.

    Raises
    ------
    InvalidFodError
        When the array is not 4-D, its last axis is no SH count or nothing in it is usable.
    """

    __slots__ = (
        "__weakref__",
        "basis",
        "device_rows",
        "device_values",
        "frame",
        "grid",
        "lmax",
        "n_invalid_voxels",
        "name",
    )

    def __init__(
        self,
        coefficients: ArrayLike,
        grid: Grid | ArrayLike,
        *,
        basis: str = "tournier07",
        frame: str | None = None,
        name: str = "FOD",
    ) -> None:
        data = as_native(coefficients)
        check_fod_shape(data.shape, name)
        basis, frame = checked_reading(basis, frame)
        with on_its_device(data):
            values, rows, n_invalid = _used_voxels(data)
        self._fill(values, rows, grid, basis, frame, name, n_invalid)

    @classmethod
    def of_voxels(
        cls,
        values: NDArray[np.float32],
        voxel_rows: NDArray[np.int32],
        grid: Grid | ArrayLike,
        *,
        basis: str = "tournier07",
        frame: str | None = None,
        name: str = "FOD",
        n_invalid: int = 0,
    ) -> Fod:
        """Make an FOD of the voxels that hold one, without a dense array; neither is copied.

        Parameters
        ----------
        values : (n_voxels, n_coefficients) float32
            SH coefficients, finite and not all zero, contiguous.
        voxel_rows : (x, y, z) int32
            The row of each voxel in `values`, ascending along the array with z fastest; -1 where
            it is empty.
        grid, basis, frame, name
            As of the class.
        n_invalid : int
            Voxels that were left out because a coefficient was not finite.

        Raises
        ------
        InvalidFodError
            As of the class.
        """
        check_fod_shape((*voxel_rows.shape, values.shape[1]), name)
        fod = cls.__new__(cls)
        fod._fill(values, voxel_rows, grid, *checked_reading(basis, frame), name, n_invalid)
        return fod

    def _fill(
        self,
        values: Any,
        rows: Any,
        grid: Grid | ArrayLike,
        basis: str,
        frame: str,
        name: str,
        n_invalid: int,
    ) -> None:
        if not len(values):
            raise InvalidFodError(
                f"{name} has no voxel with finite, non-zero coefficients; "
                "check that it is an FOD and not an empty image."
            )
        self.grid = grid if isinstance(grid, Grid) else Grid(rows.shape, grid)
        if self.grid.shape != rows.shape:
            raise InvalidFodError(
                f"{name} has shape {rows.shape} but its grid has {self.grid.shape}."
            )
        self.lmax = SH_COUNTS[values.shape[1]]
        self.basis = basis
        self.frame = frame
        self.name = name
        self.n_invalid_voxels = n_invalid
        if n_invalid:
            logger.warning("%s", self.invalid_voxels_message)
        self.device_values, self.device_rows = DeviceArray(values), DeviceArray(rows)

    @property
    def kind(self) -> str:
        """What it was read from: "sh", SH coefficients."""
        return SH.name

    @property
    def values(self) -> NDArray[np.float32]:
        """(n_voxels, n_coefficients) float32: the coefficients of voxels that hold an FOD."""
        return self.device_values.host

    @property
    def voxel_rows(self) -> NDArray[np.int32]:
        """(x, y, z) int32: the row of each voxel in `values`, -1 where it is empty."""
        return self.device_rows.host

    @property
    def n_voxels(self) -> int:
        """Number of voxels that hold an FOD."""
        return len(self.device_values)

    @property
    def invalid_voxels_message(self) -> str:
        """One sentence on voxels with NaN or infinite coefficients, or ""."""
        if not self.n_invalid_voxels:
            return ""
        total = int(np.prod(self.grid.shape))
        return (
            f"{self.name}: {self.n_invalid_voxels} of {total} voxels have NaN or infinite "
            "coefficients and count as empty."
        )

    @property
    def support(self) -> NDArray[np.bool_]:
        """(x, y, z) bool: which voxels hold an FOD."""
        return self.voxel_rows >= 0

    @property
    def coefficients(self) -> NDArray[np.float32]:
        """(x, y, z, n_coefficients) float32: a new dense array, zero in empty voxels."""
        return self.dense(self.values)

    def dense(self, values: NDArray[Any]) -> NDArray[Any]:
        """Spread (n_voxels, ...) values over the grid: (x, y, z, ...), zero in empty voxels."""
        volume = np.zeros(self.grid.shape + values.shape[1:], dtype=values.dtype)
        volume[self.support] = values
        return volume

    def sample_matrix(self, unit_directions: ArrayLike) -> NDArray[np.float64]:
        """Return the (n, n_coefficients) float64 matrix that gives amplitudes along RAS+ units."""
        units = np.asarray(unit_directions, dtype=np.float64)
        if units.ndim != 2 or units.shape[1] != 3:
            raise InvalidParameterError(
                f"unit_directions has shape {units.shape}; give (n, 3) unit vectors, RAS+."
            )
        if self.frame == "voxel":
            units = units @ self.grid.axes
        return sh_matrix(units, self.lmax, self.basis)

    def amplitudes(self, unit_directions: ArrayLike) -> NDArray[np.float32]:
        """Evaluate the FOD, without any positivity.

        Parameters
        ----------
        unit_directions : (n, 3) array_like
            Unit vectors in RAS+ axes.

        Returns
        -------
        (x, y, z, n) float32
            Amplitudes, zero in empty voxels.
        """
        matrix = self.sample_matrix(unit_directions).astype(np.float32)
        return np.asarray(self.dense(self.values @ matrix.T))

    def reread(self, *, basis: str | None = None, frame: str | None = None) -> Fod:
        """Return the same coefficients read in another basis or frame.

        Without `frame`, a new basis brings its own default frame. The coefficients are shared, not
        copied.

        Raises
        ------
        InvalidParameterError
            When the basis or the frame is unknown.
        """
        if basis is None:
            basis, frame = self.basis, frame or self.frame
        other = copy(self)
        other.basis, other.frame = checked_reading(basis, frame)
        return other

    def isotropic(self) -> NDArray[np.float32]:
        """Return the (x, y, z) float32 map of the l = 0 coefficient, the FOD's mean times
        sqrt(4 pi)."""
        return np.asarray(self.dense(self.values[:, 0]))

    def __repr__(self) -> str:
        return (
            f"Fod({self.name!r}, {self.grid!r}, lmax={self.lmax}, {self.basis}, "
            f"{self.frame} axes, {self.n_voxels} voxels)"
        )


def checked_reading(basis: str, frame: str | None) -> tuple[str, str]:
    """Return basis and frame; without a frame, the basis's own.

    Raises
    ------
    InvalidParameterError
        When either is unknown.
    """
    if basis not in BASES:
        raise InvalidParameterError(
            f"basis = {basis!r} is unknown; choose one of {', '.join(BASES)}."
        )
    frame = DEFAULT_FRAMES[basis] if frame is None else frame
    if frame not in FRAMES:
        raise InvalidParameterError(
            f"frame = {frame!r} is unknown; choose one of {', '.join(FRAMES)}."
        )
    return basis, frame


def _used_voxels(data: Any) -> tuple[Any, Any, int]:
    """Return values and rows of the voxels in use, and how many are not finite.

    The arrays stay on the device that `data` is on.
    """
    library = library_of(data)
    finite = library.ones(data.shape[:3], dtype=bool)
    nonzero = library.zeros(data.shape[:3], dtype=bool)
    for k in range(data.shape[3]):  # a volume at a time: no temporary of the whole size
        finite &= library.isfinite(data[..., k])
        nonzero |= data[..., k] != 0
    used = finite & nonzero
    values = library.ascontiguousarray(data[used], dtype=np.float32)
    counted = library.cumsum(used.ravel(), dtype=np.int32).reshape(used.shape)
    rows = library.where(used, counted - 1, -1).astype(np.int32)
    return values, rows, used.size - int(finite.sum())
