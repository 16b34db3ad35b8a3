"""What an FOD holds: orientations on a voxel grid, as they are and as SH coefficients.

The base of :class:`napari_tractography.model.fod.Fod`, which is how they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..fields import peaks as peak_fields
from ..fields import structure_tensors as image_fields
from ..fields import tensors as tensor_fields
from ..fields.blocks import BlockStore
from ..fields.kinds import SH
from ..fields.sh import sh_matrix
from ..fields.vectors import Vectors
from ..geometry.grid import Grid
from ..runtime.arrays import DeviceArray

# Of each kind: the largest degree, and what gives the coefficients.
EXPANSIONS: dict[str, tuple[int, Callable[[NDArray[np.float32]], NDArray[np.float32]]]] = {
    peak_fields.NAME: (peak_fields.LOBE_LMAX, peak_fields.lobe_coefficients),
    tensor_fields.NAME: (tensor_fields.ODF_LMAX, tensor_fields.odf_coefficients),
}


class Orientations:
    """The voxels that hold an FOD, peaks or tensors, or an image; immutable."""

    __slots__ = (
        "__weakref__",
        "_made",
        "_rows",
        "_vectors",
        "basis",
        "blocks",
        "frame",
        "grid",
        "lmax",
        "n_invalid_voxels",
        "name",
    )

    blocks: BlockStore | None
    """Of an image: orientations that are worked out where streamlines go; else None."""
    _made: DeviceArray | None
    _rows: DeviceArray | None
    _vectors: Vectors | None
    basis: str
    frame: str
    grid: Grid
    lmax: int
    n_invalid_voxels: int
    name: str

    @property
    def kind(self) -> str:
        """What it was made of: "sh" for SH coefficients, "peaks", "tensor" or "image"."""
        if self.blocks is not None:
            return image_fields.NAME
        return SH.name if self._vectors is None else self._vectors.kind

    @property
    def vectors(self) -> Vectors | None:
        """Peaks or tensors; None for an FOD of SH coefficients.

        Of an image all of it is worked out when they are first asked for, which takes a while, and
        raises InvalidFodError where it is too large.
        """
        if self._rows is None:
            self._work_out()
        return self._vectors

    @property
    def device_rows(self) -> DeviceArray:
        """`voxel_rows`, where they lie; of an image as `vectors`."""
        if self._rows is None:
            self._work_out()
        assert self._rows is not None
        return self._rows

    def _work_out(self) -> None:
        assert self.blocks is not None
        found = peak_fields.peaks_of_voxels(self.blocks.whole(), self.grid, name=self.name)
        self._vectors, self._rows = found[0], DeviceArray(found[1])

    def worked_out(self) -> tuple[NDArray[np.bool_], Grid]:
        """Return which blocks of an image have been worked out, and the grid of blocks.

        Returns
        -------
        (x, y, z) bool
        Grid

        Raises
        ------
        InvalidParameterError
            When it is no image.
        """
        if self.blocks is None:
            raise InvalidParameterError(
                f"{self.name} holds {self.kind}, which are there as a whole; give an image."
            )
        return self.blocks.is_made, self.blocks.block_grid

    @property
    def device_values(self) -> DeviceArray:
        """`values`, where they lie; those of peaks and tensors are made when first asked for."""
        if self._made is None:
            assert self.vectors is not None
            self._made = DeviceArray(EXPANSIONS[self.vectors.kind][1](self.vectors.numbers))
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
