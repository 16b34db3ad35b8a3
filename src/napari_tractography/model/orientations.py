"""What an FOD holds: orientations on a voxel grid, as they are and as SH coefficients.

The base of :class:`napari_tractography.model.fod.Fod`, which is how they are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..fields import peaks as peak_fields
from ..fields.blocks import BlockStore
from ..fields.input_kind import BLOCKS, VECTORS, InputKind
from ..fields.sh import sh_matrix
from ..fields.vectors import Vectors
from ..geometry.grid import Grid
from ..geometry.units import per_mm, symbol
from ..runtime.arrays import DeviceArray


class Orientations:
    """The voxels that hold orientations of whatever kind; immutable."""

    __slots__ = (
        "__weakref__",
        "_made",
        "_rows",
        "_vectors",
        "basis",
        "blocks",
        "frame",
        "grid",
        "input_kind",
        "lmax",
        "n_invalid_voxels",
        "name",
    )

    input_kind: InputKind
    """What is known of the kind of input that it was made of."""
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
        return self.input_kind.name

    @property
    def vectors(self) -> Vectors | None:
        """The numbers of an input that is followed by them; None for SH coefficients.

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

    @property
    def vector_reading(self) -> dict[str, str]:
        """Axes and order in which numbers of the voxels came, by name; empty without such."""
        if not self.input_kind.has_numbers or self.vectors is None:
            return {}
        return {"axes": self.vectors.axes, "order": self.vectors.order}

    @property
    def description(self) -> str:
        """What the input was taken for, in one line without a full stop."""
        text = self.input_kind.text
        if self.input_kind.kernel == BLOCKS:
            size = " x ".join(f"{n:.4g}" for n in self.grid.voxel_sizes_mm * per_mm(self.grid.unit))
            return f"Image, voxels of {size} {symbol(self.grid.unit)}: {text}"
        if not self.input_kind.has_numbers:
            return f"FOD of {text}, lmax {self.lmax}, {self.basis}"
        reading = self.vector_reading
        order = f", order of {reading['order']}" if reading["order"] else ""
        return f"{text.capitalize()}{order}, {reading['axes']} axes"

    @property
    def n_vectors(self) -> int:
        """How many vectors a voxel holds at most; 0 where it holds anything else."""
        if self.input_kind.kernel != VECTORS or self.vectors is None:
            return 0
        return int(self.vectors.numbers.shape[1]) // 3

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
        """`values`, where they lie; those of `vectors` are made when first asked for."""
        if self._made is None:
            assert self.vectors is not None
            assert self.input_kind.coefficients is not None
            self._made = DeviceArray(self.input_kind.coefficients(self.vectors.numbers))
        return self._made

    @property
    def values(self) -> NDArray[np.float32]:
        """(n_voxels, n_coefficients) float32: the coefficients of voxels that hold an FOD.

        Of `vectors` those of what their kind stands for, see
        :attr:`~napari_tractography.fields.input_kind.InputKind.coefficients`.
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

        The l = 0 coefficient of an FOD, else the amplitudes of its kind: of peaks the largest, of
        tensors the FA.
        """
        return np.asarray(self.dense(self.overview_values()))

    def overview_values(self) -> NDArray[np.float32]:
        """Return what :meth:`overview` shows, (n_voxels,) float32."""
        if self.vectors is None or self.input_kind.amplitudes is None:
            return self.values[:, 0]
        return self.input_kind.amplitudes(self.vectors.numbers)

    def isotropic(self) -> NDArray[np.float32]:
        """Return the (x, y, z) float32 map of the l = 0 coefficient, the FOD's mean times
        sqrt(4 pi)."""
        return np.asarray(self.dense(self.values[:, 0]))
