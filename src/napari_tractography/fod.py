"""The fibre orientation distribution (FOD): spherical-harmonic coefficients on a voxel grid.

Peaks and tensors are FODs as well: kernels follow them as they are, and what else asks for
coefficients gets those of lobes along peaks, or of the tensors' ODFs.

Made by :mod:`napari_tractography.files.fod_reader` and :mod:`napari_tractography.phantoms`;
tabulated by :mod:`napari_tractography.tracking.tables.builders`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import DeviceArray, as_native, on_its_device
from .errors import InvalidFodError, InvalidParameterError
from .fields import peaks as peak_fields
from .fields import tensors as tensor_fields
from .fields.kinds import SH
from .fields.sh import (
    BASES,
    DEFAULT_FRAMES,
    FRAMES,
    SH_COUNTS,
    check_fod_shape,
    sh_matrix,
    used_sh_voxels,
)
from .fields.vectors import Vectors, grid_of
from .grid import Grid

logger = logging.getLogger(__name__)


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
        "_made",
        "basis",
        "device_rows",
        "frame",
        "grid",
        "lmax",
        "n_invalid_voxels",
        "name",
        "vectors",
    )

    vectors: Vectors | None
    """Peaks or tensors; None for an FOD of SH coefficients."""
    _made: DeviceArray | None

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
            values, rows, n_invalid = used_sh_voxels(data)
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

    @classmethod
    def from_peaks(
        cls,
        peaks: ArrayLike,
        grid: Grid | ArrayLike,
        *,
        axes: str = "scanner",
        name: str = "peaks",
    ) -> Fod:
        """Make an FOD of peaks, which are followed as they are.

        Parameters
        ----------
        peaks : (x, y, z, k, 3) or (x, y, z, 3 k) array_like
            Vectors whose lengths are amplitudes. NaN or zeros: no peak.
        grid : Grid or (4, 4) array_like
            The voxel grid, or just its affine.
        axes : str
            Of the vectors: "scanner" (RAS+), "voxel", or "fsl", voxel axes with x turned round
            where the determinant of the affine is positive.
        name : str
            What to call it in messages and layers.

        Raises
        ------
        InvalidFodError
            When the shape makes no sense or there is no peak.
        InvalidParameterError
            When the axes are unknown.
        """
        grid = grid_of(peaks, grid)
        return cls._of_vectors(
            *peak_fields.peaks_of_voxels(peaks, grid, axes=axes, name=name), grid, name
        )

    @classmethod
    def from_tensors(
        cls,
        tensors: ArrayLike,
        grid: Grid | ArrayLike,
        *,
        order: str = "mrtrix",
        axes: str | None = None,
        name: str = "tensors",
    ) -> Fod:
        """Make an FOD of diffusion tensors.

        Probabilistic tracking draws from their ODFs, whose largest amplitude is the FA; the other
        algorithms follow the main eigenvector of the interpolated tensor.

        Parameters
        ----------
        tensors : (x, y, z, 6) array_like
            In mm2/s or any other unit.
        grid : Grid or (4, 4) array_like
            The voxel grid, or just its affine.
        order : str
            Of the elements: "mrtrix" xx, yy, zz, xy, xz, yz; "fsl" xx, xy, xz, yy, yz, zz; "dipy"
            xx, xy, yy, xz, yz, zz.
        axes : str, optional
            As of :meth:`from_peaks`; by default "scanner" for mrtrix, "fsl" for fsl and "voxel"
            for dipy.
        name : str
            What to call it in messages and layers.

        Raises
        ------
        InvalidFodError
            When the shape makes no sense, no tensor is usable or most have a negative diagonal.
        InvalidParameterError
            When order or axes are unknown.
        """
        grid = grid_of(tensors, grid)
        found = tensor_fields.tensors_of_voxels(tensors, grid, order=order, axes=axes, name=name)
        return cls._of_vectors(*found, grid, name)

    @classmethod
    def from_function(
        cls,
        function: Callable[[NDArray[np.float64]], ArrayLike],
        grid: Grid,
        *,
        name: str = "function",
    ) -> Fod:
        """Make an FOD of the orientations that a function gives at the voxel centres of a grid.

        Parameters
        ----------
        function : callable
            Of (n, 3) float64 positions, RAS+ mm; returns (n, 3) or (n, k, 3) vectors, RAS+, whose
            lengths are amplitudes; NaN or zeros where there is no fibre.
        grid : Grid
        name : str
            What to call it in messages and layers.

        Raises
        ------
        InvalidFodError
            When the function returns another shape or no vector.
        """
        return cls.from_peaks(peak_fields.sampled_on_grid(function, grid), grid, name=name)

    @classmethod
    def _of_vectors(
        cls, vectors: Vectors, rows: NDArray[np.int32], n_invalid: int, grid: Grid, name: str
    ) -> Fod:
        fod = cls.__new__(cls)
        fod.grid, fod.name, fod.n_invalid_voxels = grid, name, n_invalid
        fod.basis, fod.frame = "tournier07", "scanner"
        fod.lmax = _EXPANSIONS[vectors.kind][0]
        fod.vectors, fod._made, fod.device_rows = vectors, None, DeviceArray(rows)
        if n_invalid:
            logger.warning("%s", fod.invalid_voxels_message)
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
        self.vectors, self._made, self.device_rows = None, DeviceArray(values), DeviceArray(rows)
        if n_invalid:
            logger.warning("%s", self.invalid_voxels_message)

    @property
    def kind(self) -> str:
        """What it was made of: "sh" for SH coefficients, "peaks" or "tensor"."""
        return SH.name if self.vectors is None else self.vectors.kind

    @property
    def device_values(self) -> DeviceArray:
        """`values`, where they lie; those of peaks and tensors are made when first asked for."""
        if self._made is None:
            assert self.vectors is not None
            self._made = DeviceArray(_EXPANSIONS[self.vectors.kind][1](self.vectors.numbers))
        return self._made

    @property
    def values(self) -> NDArray[np.float32]:
        """(n_voxels, n_coefficients) float32: the coefficients of voxels that hold an FOD.

        Of peaks those of lobes, cos^8 of the angle; of tensors those of their ODFs.
        """
        return self.device_values.host

    @property
    def voxel_rows(self) -> NDArray[np.int32]:
        """(x, y, z) int32: the row of each voxel in `values`, -1 where it is empty."""
        return self.device_rows.host

    @property
    def n_voxels(self) -> int:
        """Number of voxels that hold an FOD."""
        return len(self.device_values) if self.vectors is None else len(self.vectors.numbers)

    @property
    def invalid_voxels_message(self) -> str:
        """One sentence on voxels with NaN or infinite coefficients, or ""."""
        if not self.n_invalid_voxels:
            return ""
        total = int(np.prod(self.grid.shape))
        return (
            f"{self.name}: {self.n_invalid_voxels} of {total} voxels have NaN or infinite "
            "coefficients and count as empty."
            if self.vectors is None
            else f"{self.name}: {self.n_invalid_voxels} of {total} voxels have {self.kind} with "
            "NaN, infinity or a negative diagonal, which count as none."
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
        if self.vectors is not None:
            raise InvalidParameterError(
                f"{self.name} holds {self.kind}, which have no basis and no frame; read them again "
                "with other axes."
            )
        if basis is None:
            basis, frame = self.basis, frame or self.frame
        other = copy(self)
        other.basis, other.frame = checked_reading(basis, frame)
        return other

    def overview(self) -> NDArray[np.float32]:
        """Return the (x, y, z) float32 map that shows the volume best.

        The l = 0 coefficient of an FOD, the largest amplitude of peaks, the FA of tensors.
        """
        return np.asarray(self.dense(self.overview_values()))

    def overview_values(self) -> NDArray[np.float32]:
        """Return what :meth:`overview` shows, (n_voxels,) float32."""
        if self.vectors is None:
            return self.values[:, 0]
        numbers = self.vectors.numbers
        if self.kind == tensor_fields.NAME:
            return tensor_fields.fractional_anisotropy(numbers).astype(np.float32)
        return np.asarray(np.linalg.norm(numbers[:, :3], axis=1))

    def isotropic(self) -> NDArray[np.float32]:
        """Return the (x, y, z) float32 map of the l = 0 coefficient, the FOD's mean times
        sqrt(4 pi)."""
        return np.asarray(self.dense(self.values[:, 0]))

    def __repr__(self) -> str:
        if self.vectors is not None:
            n = self.vectors.numbers.shape[1] // 3
            what = f"{n} peaks a voxel" if self.kind == peak_fields.NAME else "tensors"
            return f"Fod({self.name!r}, {self.grid!r}, {what}, {self.n_voxels} voxels)"
        return (
            f"Fod({self.name!r}, {self.grid!r}, lmax={self.lmax}, {self.basis}, "
            f"{self.frame} axes, {self.n_voxels} voxels)"
        )


# Of each kind: the largest degree, and what gives the coefficients.
_EXPANSIONS: dict[str, tuple[int, Callable[[NDArray[np.float32]], NDArray[np.float32]]]] = {
    peak_fields.NAME: (peak_fields.LOBE_LMAX, peak_fields.lobe_coefficients),
    tensor_fields.NAME: (tensor_fields.ODF_LMAX, tensor_fields.odf_coefficients),
}


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
