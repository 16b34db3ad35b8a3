"""Fibre orientations of an image in which fibres are seen, by its structure tensor.

The grey values change least along a fibre: the direction is the eigenvector of the smallest
eigenvalue of the structure tensor (Bigun & Granlund, Proc. ICCV 1987; Krause et al., NDT & E Int.
43, 2010, for fibres in volumes), which the package ``structure-tensor`` works out. Its amplitude is
the linearity (l2 - l3) / l1 of the eigenvalues l1 >= l2 >= l3: 1 for parallel fibres, 0 where no
direction or a plane is seen.

Any part of an image can be worked out by itself, and comes out with the same bits as in one go:
:mod:`.block_store` asks for blocks where streamlines go. Called by
:mod:`napari_tractography.model.fod`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BackendError, FileError, InvalidImageError, InvalidParameterError
from ..geometry.grid import Grid
from ..geometry.units import MM_IN, checked_unit
from ..runtime.arrays import (
    as_native,
    filters_of,
    host_array,
    library_of,
    on_gpu,
    on_its_device,
    to_gpu,
)
from ..runtime.extras import needs_extra
from ..runtime.scalars import is_number
from .input_kind import BLOCKS, InputKind
from .peaks import LOBE_LMAX, largest_lengths, lobe_coefficients

logger = logging.getLogger(__name__)

KIND = InputKind(
    "image",
    "fibres by its structure tensor",
    short="orientations of an image",
    kernel=BLOCKS,
    expanded_for=("followed",),
    lmax=LOBE_LMAX,
    coefficients=lobe_coefficients,
    amplitudes=largest_lengths,
    floor=0.02,
    floor_reason="linearity, of which planes and flat parts have less",
    is_absolute=True,
    strong=1.0,  # the largest there is; to find a smaller one would take all of the image
    # Orientations are averaged over a few voxels, and fibres are long.
    step=0.5,
    radius=1.0,
    min_length=10.0,
    max_length=200.0,
    words=(
        ("seed in white matter", "seed where fibres are seen"),
        (": the half-angle of the cone in which the next direction is sought", ""),
        (" In the FOD's own unit, as tckgen's -cutoff.", ""),
        (
            "0.12 of the FOD's strong peaks; for peaks half of that, but for transport and "
            "diffusion; for ifod2 0.1, as tckgen's, where the FOD is scaled as MRtrix3's",
            "0.02",
        ),
        ("FOD amplitude", "linearity"),
        ("amplitude", "linearity"),
        ("Cone angle", "Largest turn"),
        ("cone angle", "largest turn"),
        ("a cone", "a largest turn"),
        ("cone", "largest turn"),
        ("the FOD is larger", "fibres are clearer"),
        ("an FOD", "an image"),
        ("FOD", "image"),
    ),
)
SIGMA_VOXELS, RHO_VOXELS = 1.0, 3.0  # by default
SMALLEST_SIGMA, SMALLEST_RHO = 0.5, 1.0  # in voxels; below, a Gaussian is no longer one
TRUNCATE = 4.0  # standard deviations after which filters end, as in structure-tensor
# A gradient below this fraction of the grey value is what rounding leaves of a constant.
FLATNESS = 1e-6
# Functions of NumPy may round what is left over after their widest instructions otherwise: with
# lengths that are multiples of this there is nothing left over, whatever the block.
WHOLE_LENGTH = 64
MAX_CHECKED = 1 << 20  # voxels of an array in memory that are checked first


@dataclass(frozen=True, slots=True, eq=False)
class ImageSource:
    """An image and how its orientations are found; made by :func:`image_source`."""

    image: Any  # (x, y, z), with `shape`, `dtype` and slicing
    grid: Grid  # in mm
    # sigma_mm, rho_mm: noise scale and integration scale.
    sigma_mm: float
    rho_mm: float
    # True where fibres are brighter than what is around them, False where darker, None where that
    # does not matter.
    bright: bool | None
    mask: Any  # (x, y, z), neither zero nor NaN inside tissue
    min_linearity: float  # voxels with less have no orientation
    name: str  # for messages
    gpu: int | None = None  # on which structure tensors are worked out, wherever the image lies

    @property
    def scales_vox(self) -> tuple[list[float], list[float]]:
        """Noise and integration scale along each axis, in voxels."""
        sizes = self.grid.voxel_sizes_mm
        return (self.sigma_mm / sizes).tolist(), (self.rho_mm / sizes).tolist()

    @property
    def margin(self) -> tuple[int, int, int]:
        """How many voxels around a part have a say in its orientations, along each axis."""
        x, y, z = (_reach(s) + _reach(r) for s, r in zip(*self.scales_vox, strict=True))
        return x, y, z

    def vectors(self, first: Sequence[int], last: Sequence[int]) -> NDArray[np.float32]:
        """Return the orientations of a box of voxels, (x, y, z, 3) float32, RAS+.

        Lengths are linearities, zero where there is no orientation; the voxels of `last` are not in
        the box. Raises FileError when the image cannot be read there; BackendError when a GPU
        fails.
        """
        low = [max(a - m, 0) for a, m in zip(first, self.margin, strict=True)]
        high = [min(b + m, n) for b, m, n in zip(last, self.margin, self.grid.shape, strict=True)]
        grey = self._read(self.image, low, high)
        if self.gpu is not None:
            grey = to_gpu(grey, self.gpu)
        inside = tuple(slice(a - o, b - o) for a, b, o in zip(first, last, low, strict=True))
        try:
            with on_its_device(grey), np.errstate(all="ignore"):  # NaN stays NaN, and is none
                found = host_array(self._directions(grey.astype(np.float32), inside))
        except Exception as error:
            if isinstance(grey, np.ndarray):
                raise
            raise BackendError(
                f"The GPU failed on {self.name} ({error}); give an array on the host."
            ) from error
        if self.mask is not None:
            tissue = np.nan_to_num(host_array(self._read(self.mask, first, last)))
            found[(tissue == 0).ravel()] = 0
        shape = [b - a for a, b in zip(first, last, strict=True)]
        return found.reshape(*shape, 3)

    def _directions(self, grey: Any, inside: tuple[slice, ...]) -> Any:
        """Return the orientations of the inner part of a box, (n, 3) float32, where it lies."""
        sigma, rho = self.scales_vox
        tensor = _package_of(grey).structure_tensor_3d(grey, sigma, rho, truncate=TRUNCATE)
        tensor = tensor[(slice(None), *inside)].reshape(6, -1).astype(np.float64)
        flat = FLATNESS * grey[inside].ravel()
        is_flat = ~(tensor[:3].sum(axis=0) > flat * flat)
        found = _main_directions(_in_ras(tensor, self.grid), self.min_linearity)
        found[is_flat] = 0
        if self.bright is not None:
            smooth = filters_of(grey).gaussian_filter
            near = smooth(grey, sigma, mode="nearest", truncate=TRUNCATE)
            around = smooth(grey, rho, mode="nearest", truncate=TRUNCATE)
            found[(near > around)[inside].ravel() != self.bright] = 0
        return found

    def _read(self, array: Any, low: Sequence[int], high: Sequence[int]) -> Any:
        """Read a box, as an array of NumPy or, where it lies on a GPU, of CuPy."""
        box = tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
        try:
            part = array[box]
            read = as_native(part.compute() if hasattr(part, "compute") else part)
            if read.shape != tuple(s.stop - s.start for s in box):
                raise ValueError(f"it gave shape {read.shape}")
            return read
        except Exception as error:  # whatever an array of another library raises
            raise FileError(
                f"{self.name} cannot be read from voxel {list(low)} to {list(high)} ({error}); "
                "check the file or the connection, and track again."
            ) from error


def _package_of(array: Any) -> Any:
    """Return the package that works out structure tensors where an array lies."""
    with needs_extra("images", "Fibres in an image take"):
        if isinstance(array, np.ndarray):
            import structure_tensor

            return structure_tensor
        from structure_tensor import cp
    return cp


def _reach(scale_vox: float) -> int:
    """Return the radius of a Gaussian filter in voxels, as SciPy has it."""
    return int(TRUNCATE * scale_vox + 0.5)


def _in_ras(tensor: Any, grid: Grid) -> Any:
    """Turn structure tensors to RAS+ axes and per mm, and divide them by their trace.

    From (6, n) float64 as ``structure-tensor`` has it, the last axis of the image first: zz, yy,
    xx, yz, xz, xy, to xx, yy, zz, xy, xz, yz; NaN where the trace is 0.
    """
    element = ((2, 5, 4), (5, 1, 3), (4, 3, 0))
    to_ras = grid.inverse[:3, :3].T * grid.voxel_mm
    turned = library_of(tensor).zeros_like(tensor)
    # Sums are written out: those of a matrix product may depend on how much there is of it.
    for row, (a, b) in zip(turned, ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)), strict=True):
        for i in range(3):
            for j in range(3):
                factor = float(to_ras[a, i] * to_ras[b, j])
                if factor:
                    row += factor * tensor[element[i][j]]
    return turned / (turned[0] + turned[1] + turned[2])


def _main_directions(tensor: Any, min_linearity: float) -> Any:
    """Return the direction along which (6, n) tensors are smallest, its length the linearity.

    (n, 3) float32, zero where there is none.
    """
    library, n = library_of(tensor), tensor.shape[1]
    whole = library.zeros((6, -(-n // WHOLE_LENGTH) * WHOLE_LENGTH))
    whole[:, :n] = tensor
    values, _ = _package_of(tensor).eig_special_3d(whole)  # largest first
    values = values[:, :n]
    # Its vectors are wrong where fibres run in a plane of two axes. Across two rows of the tensor
    # less the eigenvalue they are right; of the three pairs that with most to it is taken.
    xx, yy, zz, xy, xz, yz = tensor
    xx, yy, zz = xx - values[2], yy - values[2], zz - values[2]
    best, most = library.zeros((3, n)), library.zeros(n)
    for (a, b, c), (d, e, f) in (
        ((xx, xy, xz), (xy, yy, yz)),
        ((xx, xy, xz), (xz, yz, zz)),
        ((xy, yy, yz), (xz, yz, zz)),
    ):
        across = library.stack([b * f - c * e, c * d - a * f, a * e - b * d])
        squares = across[0] * across[0] + across[1] * across[1] + across[2] * across[2]
        best = library.where(squares > most, across, best)
        most = library.maximum(squares, most)
    units = (best / library.sqrt(most)).T
    linearity = library.clip((values[1] - values[2]) / values[0], 0, 1)
    found = (units * linearity[:, None]).astype(np.float32)
    found[~library.isfinite(found).all(axis=1) | ~(linearity >= min_linearity)] = 0
    return found


def image_source(
    image: ArrayLike,
    affine: Grid | ArrayLike | None = None,
    sigma_mm: float | None = None,
    rho_mm: float | None = None,
    *,
    bright: bool | None = None,
    mask: ArrayLike | None = None,
    min_linearity: float = 0.0,
    unit: str = "mm",
    gpu: int | None = None,
    name: str = "image",
) -> ImageSource:
    """Check an image and the scales; see :meth:`napari_tractography.model.fod.Fod.from_image`.

    Raises InvalidImageError when it is not 3-D, holds no numbers, is flat, or a scale, the grid or
    the mask does not suit it; InvalidParameterError when the unit is unknown, a scale no number or
    the linearity no fraction; MissingPackageError when structure-tensor is not installed.
    """
    with needs_extra("images", "Fibres in an image take"):  # raised at once, not at the first block
        import structure_tensor  # noqa: F401
    array = _checked_image(image, name)
    checked_unit(unit)
    if not is_number(min_linearity) or not 0 <= min_linearity <= 1:
        raise InvalidParameterError(
            f"min_linearity = {min_linearity!r} is no fraction; give a number from 0 to 1."
        )
    grid = _grid_in_mm(array.shape, affine, unit, name)
    if mask is not None:
        mask = mask if hasattr(mask, "shape") else np.asarray(mask)
        if tuple(mask.shape) != grid.shape:
            raise InvalidImageError(
                f"The mask has shape {tuple(mask.shape)} but {name} has {grid.shape}; give a mask "
                "on the grid of the image."
            )
    for what, scale in (("sigma_mm", sigma_mm), ("rho_mm", rho_mm)):
        if scale is not None and not is_number(scale):
            raise InvalidParameterError(f"{what} = {scale!r} is no number; give millimetres.")
    voxel_mm = grid.voxel_mm
    sigma_mm = SIGMA_VOXELS * voxel_mm if sigma_mm is None else float(sigma_mm)
    rho_mm = RHO_VOXELS * voxel_mm if rho_mm is None else float(rho_mm)
    for what, scale_mm, least in (
        ("sigma_mm", sigma_mm, SMALLEST_SIGMA),
        ("rho_mm", rho_mm, SMALLEST_RHO),
    ):
        _check_scale(what, scale_mm, least, grid, name)
    return ImageSource(array, grid, sigma_mm, rho_mm, bright, mask, float(min_linearity), name, gpu)


def _check_scale(what: str, scale_mm: float, least: float, grid: Grid, name: str) -> None:
    sizes = grid.voxel_sizes_mm
    smallest, largest = least * float(sizes.max()), float((sizes * grid.shape).min()) / 2
    if not (math.isfinite(scale_mm) and scale_mm >= smallest * (1 - 1e-6)):
        raise InvalidImageError(
            f"{what} = {scale_mm:g} mm is below {least:g} voxel of {name}, {smallest:.3g} mm; "
            "give a larger scale."
        )
    if scale_mm > largest:
        raise InvalidImageError(
            f"{what} = {scale_mm:g} mm is more than half the extent of {name}, {largest:.3g} mm; "
            "give a smaller scale or a larger image."
        )


def _grid_in_mm(
    shape: Sequence[int], affine: Grid | ArrayLike | None, unit: str, name: str
) -> Grid:
    if isinstance(affine, Grid):
        if affine.shape != tuple(shape):
            raise InvalidImageError(
                f"{name} has shape {tuple(shape)} but its grid has {affine.shape}; give the grid "
                "of the image, or its affine."
            )
        return affine
    if affine is None:
        logger.warning("%s has no physical scale: a voxel counts as 1 %s.", name, unit)
        affine = np.eye(4)
    matrix = np.array(affine, dtype=np.float64)
    if matrix.shape == (4, 4):
        matrix[:3] *= MM_IN[unit]
    return Grid(shape, matrix, unit=unit)


def _checked_image(image: Any, name: str) -> Any:
    """Return the image as an array with shape, dtype and slicing, of several scales the finest."""
    if isinstance(image, list | tuple) and image and all(np.ndim(part) == 3 for part in image):
        image = image[0]
    array = image if hasattr(image, "shape") and hasattr(image, "dtype") else host_array(image)
    array = as_native(array) if on_gpu(array) else array
    shape = tuple(int(n) for n in array.shape)
    if len(shape) == 2 or (len(shape) == 3 and min(shape) == 1):
        raise InvalidImageError(
            f"{name} has shape {shape}, a single slice; give a 3-D image, in which fibres can be "
            "followed."
        )
    if len(shape) != 3:
        raise InvalidImageError(
            f"{name} has shape {shape}; give one 3-D image: one time point, and one channel."
        )
    if np.dtype(array.dtype).kind not in "iufb":
        raise InvalidImageError(f"{name} holds {array.dtype} values; give grey values.")
    if isinstance(array, np.ndarray):
        _check_values(array, name)
    return array


def _check_values(array: NDArray[Any], name: str) -> None:
    """Raise where an image in memory is the same everywhere, or holds no number."""
    every = max(1, math.ceil((array.size / MAX_CHECKED) ** (1 / 3)))
    for values in (array[::every, ::every, ::every], array):
        finite = values[np.isfinite(values)]
        if finite.size and finite.min() < finite.max():
            return
    if not finite.size:
        raise InvalidImageError(f"{name} holds no number that is finite; choose another image.")
    raise InvalidImageError(
        f"{name} is {finite.flat[0]} everywhere; choose an image in which fibres are seen."
    )
