"""The fibre orientation distribution (FOD): spherical-harmonic coefficients on a voxel grid.

Peaks and tensors are FODs as well: kernels follow them as they are, and what else asks for
coefficients gets those of lobes along peaks, or of the tensors' ODFs. So are images in which fibres
are seen: peaks that are worked out where streamlines go.

Made by :mod:`napari_tractography.files.fod_reader` and :mod:`napari_tractography.model.phantoms`;
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
from ..fields.blocks import BlockStore
from ..fields.input_kind import BLOCKS, COEFFICIENTS, InputKind
from ..fields.kinds import IMAGE, PEAKS, SH, TENSOR
from ..fields.sh import SH_COUNTS, check_fod_shape, checked_reading, used_sh_voxels
from ..fields.structure_tensors import image_source
from ..fields.vectors import grid_of
from ..geometry.grid import Grid
from ..runtime.arrays import DeviceArray, as_native, may_be_real, on_its_device
from .defaults import rounded, strong_amplitude
from .orientations import Orientations

logger = logging.getLogger(__name__)


class Fod(Orientations):
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
        When the array is not 4-D or holds no real numbers, its last axis is no SH count or nothing
        in it is usable.
    """

    __slots__ = ()

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
        fod.grid, fod.name, fod.n_invalid_voxels = grid, name, n_invalid
        fod.basis, fod.frame, fod.lmax = "tournier07", "scanner", kind.lmax
        fod.input_kind, fod.blocks, fod._made = kind, None, None
        fod._vectors, fod._rows = vectors, DeviceArray(rows)
        if n_invalid:
            logger.warning("%s", fod.invalid_voxels_message)
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
    def of_blocks(cls, blocks: BlockStore, kind: InputKind = IMAGE) -> Fod:
        """Make an FOD of orientations that are worked out by blocks, where streamlines go."""
        fod = cls.__new__(cls)
        fod.grid, fod.name, fod.n_invalid_voxels = blocks.source.grid, blocks.source.name, 0
        fod.basis, fod.frame, fod.lmax = "tournier07", "scanner", kind.lmax
        fod.input_kind = kind
        fod.blocks, fod._vectors, fod._made, fod._rows = blocks, None, None, None
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
        self.input_kind, self.blocks, self._vectors = SH, None, None
        self._made, self._rows = DeviceArray(values), DeviceArray(rows)
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

    def __repr__(self) -> str:
        what = self.input_kind.short
        if self.n_vectors:
            what = f"{self.n_vectors} {what} a voxel"
        elif self.input_kind.kernel == COEFFICIENTS:
            what = f"lmax={self.lmax}, {self.basis}, {self.frame} axes"
        n_voxels = "" if self.input_kind.kernel == BLOCKS else f", {self.n_voxels} voxels"
        return f"Fod({self.name!r}, {self.grid!r}, {what}{n_voxels})"
