"""What the volumes of a 4-D file are, by their values: SH coefficients, or something else.

Six volumes may be an FOD, a tensor, two peaks or a DWI, and each of them is tracked without a
word when it is taken for an FOD. Called by :mod:`napari_tractography.files.recognition`.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from ..geometry.directions import direction_set
from . import peaks, sh, structure_tensors, tensors
from .input_kind import InputKind, Kind
from .readings import AUTO, BASES, TENSOR_ORDERS
from .sh import MAX_LMAX, SH_COUNTS, sh_matrix
from .tensors import N_TENSOR

N_KURTOSIS = 15
# Degrees 0 and 2 of an FOD, a whole tensor or two peaks: all kinds differ in these, unless all
# fibres run in one direction.
N_FIRST = 6
# Fractions are of the voxels' amplitudes, so that a noisy background says little.
# In FODs of `benchmarks/kinds.py` the fraction that can be non-negative is 0.97 and more, 0.84
# where noise is added of a third of the coefficients' size; in peaks of several directions 0.6 at
# most.
MIN_NON_NEGATIVE = 0.75
MIN_POSITIVE_DEFINITE = 0.5
# Of the sum of the absolute values that follow the first volume, what is negative: in images a
# little after interpolation, in FODs of fibres in several directions a third or more.
MAX_NEGATIVE_OF_IMAGES = 0.02
# Root mean square of degree 2 relative to an FOD of a single direction; below, it has none.
MIN_ANISOTROPY = 0.01
# The same of a single fibre direction: 0.9 and more. And degree 2 of such is twice as large along
# the fibre as it is negative around it; half as large where two directions cross.
MIN_ANISOTROPY_OF_A_LOBE = 0.5
MIN_LENGTH_OF_A_LOBE = 1.9
MAX_RESIDUE_OF_PARALLEL = 1e-3  # relative to the root mean square of voxels
N_DIRECTIONS = 200
VANISHING, LARGE = 0.01, 0.1  # of all that follows the first volume
MIN_NEGATIVE_OF_PEAKS = 0.05
MIN_ALIKE = 0.9  # of the voxels, so much looks like peaks
UNIT_TOLERANCE = 0.01
LEAST_DIFFUSIVITY = 0.02  # relative to the largest along the axes


SH, PEAKS, TENSOR, IMAGE = sh.KIND, peaks.KIND, tensors.KIND, structure_tensors.KIND
# What is tracked in, and how it is found in a file: a new one is added here.
INPUT_KINDS: tuple[InputKind, ...] = (SH, PEAKS, TENSOR, IMAGE)
KURTOSIS = Kind("kurtosis", "kurtosis tensors", "fit an FOD to the DWI instead, as dwi2fod does")
SERIES = Kind(
    "series",
    "a DWI or another series of images, never negative",
    "fit an FOD to the DWI first, as dwi2fod does",
)
DWI = Kind("dwi", "a DWI, by its gradient table", "fit an FOD to it first, as dwi2fod does")
AMPLITUDES = Kind(
    "amplitudes", "amplitudes along directions", "turn them into coefficients with amp2sh"
)
MASKS = Kind("masks", "masks", "give the FOD here, and masks for seeds and regions")
MAP = Kind("map", "a single map without directions", "give an FOD with 6 volumes or more")
ISOTROPIC = Kind("isotropic", "maps without directions", "check that fibres are seen in it")
UNCLEAR = Kind(
    "unclear",
    "something unknown, which would be negative along many directions",
    "check how they were made",
)
OTHERS = (KURTOSIS, SERIES, DWI, AMPLITUDES, MASKS, MAP, ISOTROPIC, UNCLEAR)
KINDS: dict[str, Kind] = {kind.name: kind for kind in (*INPUT_KINDS, *OTHERS)}


def read_kinds() -> dict[str, InputKind]:
    """Return the kinds that the volumes of a file may be read as, by name."""
    return {kind.name: kind for kind in INPUT_KINDS if kind.suits is not None}


def kinds_of_so_many(n_volumes: int) -> tuple[str, ...]:
    """Return the names of those that a file with so many volumes may be read as."""
    return tuple(
        name for name, kind in read_kinds().items() if kind.suits and kind.suits(n_volumes)
    )


def checked_kind(kind: str) -> str:
    """Return a kind that files may be read as.

    Raises InvalidParameterError when it is neither "auto" nor one of :func:`read_kinds`.
    """
    choices = (AUTO, *read_kinds())
    if kind not in choices:
        raise InvalidParameterError(
            f"kind = {kind!r} is unknown; choose one of {', '.join(choices)}."
        )
    return kind


def recognise(values: NDArray[np.float32], n_volumes: int) -> Kind:
    """Return what volumes are, judged by some of their voxels.

    Where it is an FOD, it can be non-negative in nearly all voxels: the power of degree 2 is at
    most five times that of degree 0, twice as much in tournier07_legacy. What else obeys this is
    recognised by its own traits: images are nowhere negative, tensors positive definite.

    Parameters
    ----------
    values : (n_voxels, n) float32
        All volumes, or the first :data:`N_FIRST` at least, in voxels that are not empty; with NaN
        as they are in the file.
    n_volumes : int
        Of the file.
    """
    if n_volumes == 1:
        return MAP
    finite = np.isfinite(values)
    numbers = np.where(finite, values, 0.0).astype(np.float64)
    whole = numbers[finite.all(axis=1)]
    vectors = PEAKS if n_volumes % 3 == 0 and _are_peaks(numbers, finite) else UNCLEAR
    if not len(whole):  # every voxel lacks a peak
        return vectors
    if _are_masks(whole):
        return MASKS
    if _are_images(whole):
        return SERIES
    order = _tensor_order(whole)
    if order and n_volumes == N_TENSOR:
        return dataclasses.replace(
            TENSOR, text=f"{TENSOR.text}, in the order of {order}", order=order
        )
    if order == "mrtrix" and n_volumes == N_KURTOSIS and (whole[:, 9:12].mean(axis=0) > 0).all():
        return KURTOSIS
    if n_volumes not in SH_COUNTS:
        return vectors
    if _non_negative_fraction(numbers, finite) >= MIN_NON_NEGATIVE:
        if _anisotropy(whole) < MIN_ANISOTROPY:
            return ISOTROPIC
        return SH if not _are_parallel(whole) or _is_a_lobe(whole) else UNCLEAR
    # An FOD of the wrong sign; peaks of one direction look like it, too, but for the lobe.
    if _non_negative_fraction(-numbers, finite) >= MIN_NON_NEGATIVE and (
        not _are_parallel(whole) or _is_a_lobe(-whole)
    ):
        return UNCLEAR
    return vectors


def _are_masks(values: NDArray[np.float64]) -> bool:
    return bool(values.min() >= 0 and len(np.unique(values)) <= 2)


def _are_images(values: NDArray[np.float64]) -> bool:
    """Tell whether hardly anything is negative, where in an FOD much would be.

    No coefficient is negative where all fibres run nearly along z and in a plane with x; but then
    those of order 0 are large, and those of the orders of one sign vanish.
    """
    sizes = np.abs(values[:, 1:]).sum(axis=0)
    orders = np.concatenate([np.arange(-lmax, lmax + 1) for lmax in range(2, MAX_LMAX + 1, 2)])
    orders = np.resize(orders, len(sizes))  # as many as there are, in a DWI any number
    total = sizes.sum()
    of_one_sign = min(sizes[orders < 0].sum(), sizes[orders > 0].sum())
    if (
        of_one_sign <= VANISHING * total
        and sizes[orders == 0].sum() >= LARGE * total
        and _anisotropy(values) >= MIN_ANISOTROPY_OF_A_LOBE
    ):
        return False
    negative = -values[:, 1:].clip(max=0).sum()
    return bool(negative < MAX_NEGATIVE_OF_IMAGES * total)


def _tensor_order(values: NDArray[np.float64]) -> str:
    """Return in which of :data:`TENSOR_ORDERS` most are positive definite, or ""."""
    if values.shape[1] < N_TENSOR:
        return ""
    fractions = {name: _tensor_fraction(values[:, order]) for name, order in TENSOR_ORDERS.items()}
    best = max(fractions, key=lambda name: fractions[name])
    return best if fractions[best] >= MIN_POSITIVE_DEFINITE else ""


def _tensor_fraction(elements: NDArray[np.float64]) -> float:
    xx, yy, zz, xy, xz, yz = elements.T
    diagonal = elements[:, :3]
    minor = xx * yy - xy * xy
    determinant = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
    definite = (minor > 0) & (determinant > 0)
    definite &= diagonal.min(axis=1) > LEAST_DIFFUSIVITY * diagonal.max(axis=1)
    return _fraction(definite, elements)


def _non_negative_fraction(values: NDArray[np.float64], finite: NDArray[np.bool_]) -> float:
    first = values[:, :N_FIRST]
    mean = first[:, 0]
    possible = (mean > 0) & (np.square(first[:, 1:]).sum(axis=1) <= 10.0 * mean**2)
    return _fraction(possible & finite.all(axis=1), first)


def _anisotropy(values: NDArray[np.float64]) -> float:
    degree_2 = np.linalg.norm(values[:, 1:N_FIRST])
    return float(degree_2 / (np.sqrt(5.0) * np.linalg.norm(values[:, 0])))


def _are_parallel(values: NDArray[np.float64]) -> bool:
    """Tell whether all voxels are the same but for a factor, as in a phantom of one fibre."""
    first = values[:, :N_FIRST]
    *rest, largest = np.linalg.eigvalsh(first.T @ first)  # squares of the singular values
    return bool(sum(rest) <= MAX_RESIDUE_OF_PARALLEL**2 * largest)


def _is_a_lobe(values: NDArray[np.float64]) -> bool:
    """Tell whether degree 2, the same in all voxels, can be that of one fibre in some basis.

    Voxels that are all alike tell little: any six numbers are an FOD that is nearly non-negative.
    """
    degree_2 = values[np.abs(values[:, 0]).argmax(), 1:N_FIRST]
    units = direction_set(N_DIRECTIONS)
    for basis in BASES:
        amplitudes = sh_matrix(units, 2, basis)[:, 1:] @ degree_2
        if amplitudes.max() >= MIN_LENGTH_OF_A_LOBE * -amplitudes.min():
            return True
    return False


def _are_peaks(values: NDArray[np.float64], finite: NDArray[np.bool_]) -> bool:
    """Tell whether triples are whole, point to all sides, and have length 1 or are sorted by it."""
    is_there = finite.reshape(len(finite), -1, 3)
    if (is_there.any(axis=2) != is_there.all(axis=2)).any():
        return False
    negative = -values.clip(max=0).sum()
    if finite.all() and negative < MIN_NEGATIVE_OF_PEAKS * np.abs(values).sum():
        return False
    lengths = np.linalg.norm(values.reshape(len(values), -1, 3), axis=2)
    is_unit = (np.abs(lengths - 1.0) < UNIT_TOLERANCE) | (lengths == 0)
    alike = is_unit.all(axis=1) | (lengths[:, :1] >= lengths).all(axis=1)
    return _fraction(alike, values) >= MIN_ALIKE


def _fraction(chosen: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    """Return the fraction of the voxels' amplitudes that lies in some of them."""
    amplitudes = np.linalg.norm(values, axis=1)
    return float(amplitudes[chosen].sum() / max(amplitudes.sum(), np.finfo(np.float64).tiny))
