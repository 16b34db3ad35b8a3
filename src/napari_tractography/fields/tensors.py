"""Diffusion tensors: their main eigenvectors, and the ODF that they stand for.

Called by :class:`napari_tractography.model.fod.Fod` and the formats.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidFodError
from ..geometry.directions import direction_set
from ..geometry.grid import Grid
from .input_kind import EIGENVECTORS, InputKind, Kind, Sample, amplitude_fraction
from .readings import TENSOR_ORDERS
from .sh import sh_matrix
from .vectors import (
    ENDLESS,
    Vectors,
    check_order,
    checked_volume,
    rotation_to_ras,
    used_rows,
)

N_TENSOR, N_KURTOSIS = 6, 15  # elements
MIN_POSITIVE_DEFINITE = 0.5  # of tensors, a fraction of the voxels' amplitudes
LEAST_DIFFUSIVITY = 0.02  # relative to the largest along the axes
# Axes that programs write the elements of their tensors in.
ORDER_AXES = {"mrtrix": "scanner", "fsl": "fsl", "dipy": "voxel"}
ODF_LMAX = 12
# Eigenvalues below this fraction of the largest count as this: with noise they may be negative, and
# the ODFs of sharper tensors need more than degree 12.
LEAST_EIGENVALUE = 0.1
N_DIRECTIONS = 324
VOXELS_A_BLOCK = 1 << 14
FULL = (0, 3, 4, 3, 1, 5, 4, 5, 2)  # places of the elements in a (3, 3) matrix


def chosen_axes(axes: str = "", order: str = "") -> str | None:
    """Return the axes of peaks, or of tensors in an order, that somebody chose; None by default."""
    return axes if axes and axes != ORDER_AXES.get(order, "scanner") else None


def tensors_of_voxels(
    tensors: ArrayLike,
    grid: Grid,
    *,
    order: str = "mrtrix",
    axes: str | None = None,
    name: str = "tensors",
) -> tuple[Vectors, NDArray[np.int32], int]:
    """Bring tensors into RAS+ axes and one order.

    The parameters are those of :meth:`napari_tractography.model.fod.Fod.from_tensors`. Returned are
    the vectors, the row of each voxel in them, (x, y, z) int32, -1 where it is empty, and how many
    voxels count as empty since a number is not finite or one of the diagonal negative. Raises as
    :meth:`~napari_tractography.model.fod.Fod.from_tensors` does.
    """
    check_order(order)
    axes = ORDER_AXES[order] if axes is None else axes
    rotation = rotation_to_ras(axes, grid)
    array = checked_volume(tensors, name, "tensors as (x, y, z, 6)")
    if array.ndim != 4 or array.shape[3] != N_TENSOR:
        raise InvalidFodError(f"{name} has shape {array.shape}; give tensors as (x, y, z, 6).")
    if array.shape[:3] != grid.shape:
        raise InvalidFodError(f"{name} has shape {array.shape} but its grid has {grid.shape}.")
    array = array[..., TENSOR_ORDERS[order]]
    there = (array != 0).any(axis=3)
    finite = (np.abs(array) < ENDLESS).all(axis=3)
    negative = there & finite & (array[..., :3] < 0).any(axis=3)
    if 2 * negative.sum() > (there & finite).sum():
        raise InvalidFodError(
            f"{name} has tensors with a negative diagonal in {int(negative.sum())} of "
            f"{int((there & finite).sum())} voxels; choose another order than {order}, or check "
            "that these are tensors."
        )
    is_used = there & finite & ~negative
    if not is_used.any():
        raise InvalidFodError(f"{name} has no voxel with a tensor; check that it is not empty.")
    full = rotation @ matrices(array[is_used].astype(np.float64)) @ rotation.T
    columns = [FULL.index(k) for k in range(6)]
    numbers = np.ascontiguousarray(full.reshape(-1, 9)[:, columns], dtype=np.float32)
    n_invalid = int((there & (negative | ~finite)).sum())
    return Vectors(KIND, numbers, axes, order), used_rows(is_used), n_invalid


def matrices(elements: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return (n, 6) elements xx, yy, zz, xy, xz, yz as (n, 3, 3) matrices."""
    return elements[:, FULL].reshape(-1, 3, 3)


def fractional_anisotropy(elements: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the FA of (n, 6) tensors, 0 for those of zeros, at most 1."""
    mean = elements[:, :3].mean(axis=1)
    squares = np.square(elements[:, :3]).sum(axis=1) + 2 * np.square(elements[:, 3:]).sum(axis=1)
    safe = np.where(squares > 0, squares, 1)
    anisotropic = np.where(squares > 0, 1.5 * (1 - 3 * mean**2 / safe), 0)
    return np.asarray(np.sqrt(np.clip(anisotropic, 0, 1)))


def odf(elements: NDArray[np.floating], units: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the ODFs of tensors along directions, scaled so that the largest amplitude is the FA.

    Of (n, 6) elements xx, yy, zz, xy, xz, yz and (m, 3) units in the same axes they are (n, m)
    float64. The ODF of a tensor, in constant solid angle, is in proportion to (d' D^-1 d)^(-3/2)
    (Aganj et al., MRM 64, 2010). With the FA as its largest amplitude a floor on amplitudes is one
    on FA, and fluid fades.
    """
    values, vectors = np.linalg.eigh(matrices(np.asarray(elements, dtype=np.float64)))
    largest = np.maximum(values[:, 2], np.finfo(np.float64).tiny)
    relative = np.maximum(values / largest[:, None], LEAST_EIGENVALUE)
    along = np.einsum("mi,nij->nmj", units, vectors) ** 2
    inverse = np.einsum("nmj,nj->nm", along, 1.0 / relative)
    return np.asarray(fractional_anisotropy(elements)[:, None] * inverse**-1.5)


def odf_coefficients(elements: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the SH coefficients of :func:`odf`, the least-squares fit of degree 12.

    Of (n_voxels, 6) elements, RAS+, they are (n_voxels, 91) float32 in the basis tournier07. Off by
    1 per cent of the largest amplitude at an FA of 0.77, by 0.2 at 0.64 and by 6 at 0.89:
    tests/fields/test_tensors.py measures it.
    """
    units = direction_set(2 * N_DIRECTIONS)[:N_DIRECTIONS].astype(np.float64)
    fit = np.linalg.pinv(sh_matrix(units, ODF_LMAX, "tournier07")).T
    coefficients = np.empty((len(elements), fit.shape[1]), np.float32)
    for first in range(0, len(elements), VOXELS_A_BLOCK):
        some = slice(first, first + VOXELS_A_BLOCK)
        coefficients[some] = odf(elements[some], units) @ fit
    return coefficients


def _order_of(values: NDArray[np.float64]) -> str:
    """Return in which of :data:`TENSOR_ORDERS` most are positive definite, or ""."""
    if values.shape[1] < N_TENSOR:
        return ""
    fractions = {
        name: _definite_fraction(values[:, order]) for name, order in TENSOR_ORDERS.items()
    }
    best = max(fractions, key=lambda name: fractions[name])
    return best if fractions[best] >= MIN_POSITIVE_DEFINITE else ""


def _definite_fraction(elements: NDArray[np.float64]) -> float:
    xx, yy, zz, xy, xz, yz = elements.T
    diagonal = elements[:, :3]
    minor = xx * yy - xy * xy
    determinant = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
    definite = (minor > 0) & (determinant > 0)
    definite &= diagonal.min(axis=1) > LEAST_DIFFUSIVITY * diagonal.max(axis=1)
    return amplitude_fraction(definite, elements)


def recognise(sample: Sample) -> Kind | None:
    """Recognise tensors, and their order, since most are positive definite; kurtosis as well."""
    order, n_volumes = _order_of(sample.whole), sample.n_volumes
    if order and n_volumes == N_TENSOR:
        return replace(KIND, order=order)
    is_kurtosis = order == "mrtrix" and n_volumes == N_KURTOSIS
    if is_kurtosis and (sample.whole[:, 9:12].mean(axis=0) > 0).all():
        return KURTOSIS
    return None


def suits(n_volumes: int) -> bool:
    """Tell whether so many volumes may be tensors."""
    return n_volumes == N_TENSOR


def _amplitudes(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    return fractional_anisotropy(numbers).astype(np.float32)


KURTOSIS = Kind("kurtosis", "kurtosis tensors", "fit an FOD to the DWI instead, as dwi2fod does")
KIND = InputKind(
    "tensor",
    "diffusion tensors",
    order="mrtrix",
    short="tensors",
    kernel=EIGENVECTORS,
    expanded_for=("drawn", "followed"),
    lmax=ODF_LMAX,
    coefficients=odf_coefficients,
    amplitudes=_amplitudes,
    read=tensors_of_voxels,
    suits=suits,
    recognise=recognise,
    declared_order="dipy",  # NIfTI's, of a symmetric matrix
    floor=0.1,
    floor_reason="FA, as tckgen's",
    is_absolute=True,
    words=(("FOD amplitude below the minimum", "FA below the minimum amplitude"),),
)
