"""The fibre orientation distribution (FOD): spherical-harmonic coefficients on a voxel grid.

Peaks and tensors are FODs as well: kernels follow them as they are, and what else asks for
coefficients gets those of lobes along peaks, or of the tensors' ODFs. So are images in which fibres
are seen: peaks that are worked out where streamlines go.

Made by :mod:`napari_tractography.files.fods` and :mod:`napari_tractography.model.phantoms`;
tabulated by :mod:`napari_tractography.tracking.tables.builders`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidFodError, InvalidParameterError
from ..fields import odfs as odf_fields
from ..fields import peaks as peak_fields
from ..fields.block_store import BlockStore
from ..fields.input_kind import BLOCKS, COEFFICIENTS, VECTORS, InputKind
from ..fields.kinds import IMAGE, PEAKS, SH, TENSOR
from ..fields.sh import (
    check_fod_shape,
    checked_reading,
    degrees_of,
    even_columns,
    sh_matrix,
    used_sh_voxels,
)
from ..fields.structure_tensors import image_source
from ..fields.vectors import Vectors, grid_of
from ..geometry.grid import Grid
from ..geometry.units import per_mm, symbol
from ..runtime.arrays import DeviceArray, as_native, may_be_real, on_its_device
from .defaults import rounded, strong_amplitude

logger = logging.getLogger(__name__)


class Fod:
    """SH coefficients, the grid they live on, and how to read them.

    Only voxels with a finite, non-zero coefficient are stored. Instances are immutable.

    Parameters
    ----------
    coefficients : (x, y, z, n_coefficients) array_like
        SH coefficients; n_coefficients is 1, 6, 15, 28, 45, 66, 91, ..., or 9, 25, 49, 81, ... of
        an asymmetric FOD, with odd degrees in their order. Voxels with a NaN or infinite
        coefficient count as empty. An array on a GPU (CuPy, PyTorch, JAX) stays there,
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
        When the array is not 4-D or holds no real numbers, its last axis is no SH count or nothing
        in it is usable.
    """

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
        "is_asymmetric",
        "lmax",
        "n_invalid_voxels",
        "name",
    )

    input_kind: InputKind
    """What is known of the kind of input that it was made of."""
    is_asymmetric: bool
    """Whether it has odd degrees, too: amplitudes then differ along opposite directions."""
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
        if not may_be_real(data):
            raise InvalidFodError(f"{name} holds {data.dtype} values; give real numbers.")
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
        return cls.of_input(PEAKS, peaks, grid, axes=axes, name=name)

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
        return cls.of_input(TENSOR, tensors, grid, axes=axes, order=order, name=name)

    @classmethod
    def of_input(
        cls,
        kind: InputKind,
        values: ArrayLike,
        grid: Grid | ArrayLike,
        *,
        axes: str | None = None,
        order: str | None = None,
        name: str = "",
    ) -> Fod:
        """Make an FOD of an input that is followed by numbers of its voxels, whatever its kind.

        Parameters
        ----------
        kind : InputKind
            With a function to read it.
        values : (x, y, z, ...) array_like
        grid : Grid or (4, 4) array_like
            The voxel grid, or just its affine.
        axes, order : str
            In which its numbers come; by default as the kind has them.
        name : str
            What to call it in messages and layers; by default the kind.

        Raises
        ------
        InvalidFodError
            When the values do not suit the kind.
        InvalidParameterError
            When order or axes are unknown.
        """
        assert kind.read is not None, f"{kind.name} has no function to read it"
        grid, name = grid_of(values, grid), name or kind.short
        order = kind.order if order is None else order
        vectors, rows, n_invalid = kind.read(values, grid, axes=axes, order=order, name=name)
        fod = cls.__new__(cls)
        fod._vectors, fod._rows = vectors, DeviceArray(rows)
        fod._describe(kind, grid, name, kind.lmax, n_invalid)
        return fod

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
    def from_image(
        cls,
        image: ArrayLike,
        affine: Grid | ArrayLike | None = None,
        sigma_mm: float | None = None,
        rho_mm: float | None = None,
        *,
        bright: bool | None = None,
        mask: ArrayLike | None = None,
        min_linearity: float = 0.0,
        unit: str = "mm",
        memory_limit: float | None = None,
        odf_voxels: int | None = None,
        progress: Callable[[float], None] | None = None,
        gpu: int | None = None,
        name: str = "image",
    ) -> Fod:
        """Make an FOD of an image in which fibres are seen, by its structure tensor.

        Orientations are worked out by blocks, where streamlines go; see
        :mod:`napari_tractography.fields.structure_tensors`. With `odf_voxels` all of them are, and
        become an FOD of SH coefficients, lmax 8, with larger voxels; see
        :mod:`napari_tractography.fields.odfs`.

        Parameters
        ----------
        image : (x, y, z) array_like
            Grey values, with ``shape``, ``dtype`` and slicing, such as an array of NumPy, Dask or
            Zarr; of a list of scales the first. Where it has NaN, there is no orientation as far
            as the filters reach.
        affine : Grid or (4, 4) array_like, optional
            Voxel coordinates to RAS+, in `unit`, or a grid, in mm; without one a voxel counts as
            1 `unit`.
        sigma_mm : float, optional
            Noise scale, what is smaller is smoothed away; by default the voxel.
        rho_mm : float, optional
            Integration scale, over which orientations are averaged; by default 3 voxels.
        bright : bool, optional
            True: only where the image is brighter than its mean over the integration scale; False:
            only where it is darker. By default everywhere, since a structure tensor is the same
            for bright fibres and for dark ones.
        mask : (x, y, z) array_like, optional
            Non-zero inside tissue; elsewhere there is no orientation. Read by blocks as well.
        min_linearity : float
            From 0 to 1: voxels with less have no orientation.
        unit : str
            Of the affine: "mm", "um" or "nm".
        memory_limit : float, optional
            For what has been worked out, in bytes; by default a quarter of the memory.
        odf_voxels : int, optional
            How many voxels of the image, along each axis, are one of the FOD.
        progress : callable, optional
            With `odf_voxels`, called with the fraction that is done; what it raises ends the work.
        gpu : int, optional
            Number of a GPU on which structure tensors are worked out; by default they are where
            `image` lies. Their last bits are not those of the host.
        name : str
            What to call it in messages and layers.

        Raises
        ------
        InvalidImageError
            When it is not 3-D, holds no numbers, is flat, or a scale, the grid or a number of
            voxels does not suit it.
        InvalidFodError
            With `odf_voxels`, when no voxel of it has an orientation.
        InvalidParameterError
            When the unit is unknown, or linearity or memory limit are impossible.
        FileError
            With `odf_voxels`, when it cannot be read.
        """
        source = image_source(
            image,
            affine,
            sigma_mm,
            rho_mm,
            bright=bright,
            mask=mask,
            min_linearity=min_linearity,
            unit=unit,
            gpu=gpu,
            name=name,
        )
        fod = cls.of_blocks(BlockStore(source, memory_limit))
        return fod if odf_voxels is None else fod.odfs(odf_voxels, progress=progress)

    def odfs(self, odf_voxels: int, *, progress: Callable[[float], None] | None = None) -> Fod:
        """Return the ODFs of blocks of an image; see :meth:`from_image`.

        They are scaled so that strong peaks are about 1, as those of an FOD by MRtrix3 are.

        Raises
        ------
        InvalidParameterError
            When it is no image.
        """
        if self.blocks is None:
            raise InvalidParameterError(
                f"{self.name} holds {self.kind}; ODFs of blocks are made of an image."
            )
        found, grid = odf_fields.block_odfs(self.blocks.source, odf_voxels, progress)
        # Rounded, since the last bits of a quantile are not the same on all machines.
        found /= rounded(strong_amplitude(type(self)(found, grid, name=self.name)), 2)
        return type(self)(found, grid, name=self.name)

    @classmethod
    def of_blocks(cls, blocks: BlockStore) -> Fod:
        """Make an FOD of orientations that are worked out by blocks, where streamlines go."""
        fod = cls.__new__(cls)
        fod._vectors = fod._rows = None
        fod._describe(IMAGE, blocks.source.grid, blocks.source.name, IMAGE.lmax)
        fod.blocks = blocks
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
        own = grid if isinstance(grid, Grid) else Grid(rows.shape, grid)
        if own.shape != rows.shape:
            raise InvalidFodError(f"{name} has shape {rows.shape} but its grid has {own.shape}.")
        self._vectors, self._rows = None, DeviceArray(rows)
        lmax, is_asymmetric = degrees_of(values.shape[1])
        self._describe(SH, own, name, lmax, n_invalid)
        self.is_asymmetric = is_asymmetric
        self.basis, self.frame, self._made = basis, frame, DeviceArray(values)

    def _describe(
        self, kind: InputKind, grid: Grid, name: str, lmax: int, n_invalid: int = 0
    ) -> None:
        """Set all but what voxels hold, as it is of what is expanded to coefficients."""
        self.input_kind, self.grid, self.name, self.lmax = kind, grid, name, lmax
        self.basis, self.frame, self.n_invalid_voxels = "tournier07", "scanner", n_invalid
        self.blocks = self._made = None
        self.is_asymmetric = False
        if n_invalid:
            logger.warning("%s", self.invalid_voxels_message)

    def reread(self, *, basis: str | None = None, frame: str | None = None) -> Fod:
        """Return the same coefficients read in another basis or frame.

        Without `frame`, a new basis brings its own default frame. The coefficients are shared, not
        copied.

        Raises
        ------
        InvalidParameterError
            When the basis or the frame is unknown.
        """
        if self.input_kind.kernel != COEFFICIENTS:
            raise InvalidParameterError(
                f"{self.name} holds {self.kind}, which have no basis and no frame; read them again "
                "with other axes."
            )
        if basis is None:
            basis, frame = self.basis, frame or self.frame
        other = copy(self)
        other.basis, other.frame = checked_reading(basis, frame)
        return other

    def is_same(self, other: Fod) -> bool:
        """Return whether another FOD holds the same numbers on the same grid, read the same way.

        All numbers are compared. What is worked out where streamlines go is never the same.
        """
        one, two = (
            (fod.name, fod.kind, fod.grid, fod.basis, fod.frame, fod.vector_reading)
            for fod in (self, other)
        )
        if one != two or self.blocks is not None:
            return False
        same_rows = np.array_equal(self.voxel_rows, other.voxel_rows)
        return same_rows and np.array_equal(self._numbers, other._numbers)

    @property
    def _numbers(self) -> NDArray[np.float32]:
        """What voxels hold: coefficients, or what kernels follow instead."""
        return self.values if self.vectors is None else self.vectors.numbers

    def symmetric(self) -> Fod:
        """Return the FOD without its odd degrees: the mean of opposite directions."""
        if not self.is_asymmetric:
            return self
        values = np.ascontiguousarray(self.values[:, even_columns(self.values.shape[1])])
        other = copy(self)
        other._made, other.is_asymmetric = DeviceArray(values), False
        return other

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
            what = "Asymmetric FOD" if self.is_asymmetric else "FOD"
            return f"{what} of {text}, lmax {self.lmax}, {self.basis}"
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
        voxels = f"{self.n_invalid_voxels:,} of {int(np.prod(self.grid.shape)):,} voxels"
        return (
            f"{self.name}: {voxels} have NaN or infinite coefficients and count as empty."
            if self.vectors is None
            else f"{self.name}: {voxels} have {self.kind} with NaN, infinity or a negative "
            "diagonal, which count as none."
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
        return sh_matrix(units, self.lmax, self.basis, self.is_asymmetric)

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

    def __repr__(self) -> str:
        what = self.input_kind.short
        if self.n_vectors:
            what = f"{self.n_vectors} {what} a voxel"
        elif self.input_kind.kernel == COEFFICIENTS:
            what = f"lmax={self.lmax}, {self.basis}, {self.frame} axes"
            what = f"asymmetric, {what}" if self.is_asymmetric else what
        n_voxels = "" if self.input_kind.kernel == BLOCKS else f", {self.n_voxels} voxels"
        return f"Fod({self.name!r}, {self.grid!r}, {what}{n_voxels})"
