"""Real spherical harmonics (SH), even ones or all: the bases in use, and their axes.

Evaluated by DIPY. Read by :mod:`napari_tractography.model.fod`, which holds coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidFodError, InvalidParameterError
from ..geometry.directions import direction_set
from ..runtime.arrays import library_of
from .input_kind import COEFFICIENTS, N_FIRST, UNCLEAR, InputKind, Kind, Sample, amplitude_fraction
from .readings import BASES, DEFAULT_FRAMES, FRAMES

MAX_LMAX = 16
SH_COUNTS = {(lmax + 1) * (lmax + 2) // 2: lmax for lmax in range(0, MAX_LMAX + 1, 2)}

# Of all degrees, odd ones as well, as asymmetric FODs have them. None is in the other table.
FULL_COUNTS = {(lmax + 1) ** 2: lmax for lmax in range(2, MAX_LMAX + 1, 2)}
N_FIRST_FULL = 9  # degrees 0, 1 and 2
MIN_FULL, MARGIN_OF_FULL = 0.95, 1.2  # of the amplitudes, of the power of a degree
UNIT_TOLERANCE = 0.01

# In FODs of `benchmarks/kinds.py` the fraction of the voxels' amplitudes that can be non-negative
# is 0.97 and more, 0.84 where noise is added of a third of the coefficients' size; in peaks of
# several directions 0.6 at most.
MIN_NON_NEGATIVE = 0.75
MIN_ANISOTROPY = 0.01  # below, an FOD has no directions
# Degree 2 of a single fibre direction is twice as large along the fibre as it is negative around
# it; half as large where two directions cross.
MIN_LENGTH_OF_A_LOBE = 1.9
MAX_RESIDUE_OF_PARALLEL = 1e-3  # relative to the root mean square of voxels
N_DIRECTIONS = 200


def degrees_of(n_coefficients: int) -> tuple[int, bool]:
    """Return the largest degree of so many coefficients, and whether odd ones are among them."""
    if n_coefficients in FULL_COUNTS:
        return FULL_COUNTS[n_coefficients], True
    return SH_COUNTS[n_coefficients], False


def n_coefficients_of(lmax: int, is_asymmetric: bool = False) -> int:
    """Return how many coefficients there are up to a degree, of even degrees or of all."""
    return (lmax + 1) ** 2 if is_asymmetric else (lmax + 1) * (lmax + 2) // 2


def even_columns(n_coefficients: int) -> NDArray[np.int64]:
    """Return which of so many coefficients are of even degrees."""
    lmax, is_asymmetric = degrees_of(n_coefficients)
    every = np.arange(0, lmax + 1, 1 if is_asymmetric else 2)
    return np.flatnonzero(np.repeat(every, 2 * every + 1) % 2 == 0)


def sh_matrix(
    units: ArrayLike, lmax: int, basis: str, is_asymmetric: bool = False
) -> NDArray[np.float64]:
    """Evaluate the real spherical harmonics: (n, n_coefficients) float64.

    Parameters
    ----------
    units : (n, 3) array_like
        Unit vectors in the frame of the coefficients.
    lmax : int
        Largest degree, even.
    basis : str
        One of :data:`BASES`. "tournier07" is MRtrix3's (Tournier et al., NeuroImage 202, 2019),
        "descoteaux07" DIPY's (Descoteaux et al., MRM 58, 2007); the legacy forms are those of
        MRtrix 0.2 and of older DIPY.
    is_asymmetric : bool
        All degrees, one after the other, as DIPY's full basis has them; else the even ones.
    """
    x, y, z = np.asarray(units, dtype=np.float64).T
    polar = np.arccos(np.clip(z / np.sqrt(x * x + y * y + z * z), -1.0, 1.0))
    azimuth = np.arctan2(y, x)
    # On use: DIPY takes a third of a second to load, and the command's help wants only the names.
    from dipy.reconst.shm import real_sh_descoteaux, real_sh_tournier

    evaluate = real_sh_tournier if basis.startswith("tournier07") else real_sh_descoteaux
    matrix, orders, _ = evaluate(lmax, polar, azimuth, full_basis=is_asymmetric, legacy=False)
    # DIPY warns at each use of its legacy forms and will drop them: they are the present ones up
    # to a factor a column.
    if basis == "tournier07_legacy":  # not normalised
        matrix = matrix * np.where(orders == 0, 1.0, np.sqrt(0.5))
    elif basis == "descoteaux07_legacy":  # |m| in place of a negative m
        matrix = matrix * np.where((orders < 0) & (orders % 2 == 1), -1.0, 1.0)
    return np.asarray(matrix, dtype=np.float64)


def check_fod_shape(shape: Sequence[int], name: str) -> None:
    """Check that an array of this shape can hold an FOD; `name` is what to call it.

    Raises InvalidFodError when it is not 4-D or its last axis is no SH count.
    """
    if len(shape) == 3:
        raise InvalidFodError(
            f"{name} has shape {tuple(shape)}; an FOD is 4-D, and fibres of a 3-D image are "
            "followed by Fod.from_image, or in napari as an image layer (File > Open)."
        )
    if len(shape) != 4:
        raise InvalidFodError(
            f"{name} has {len(shape)} dimensions of shape {tuple(shape)}; an FOD volume is 4-D, "
            "with spherical-harmonic coefficients along the last axis."
        )
    if not suits(shape[3]):
        raise InvalidFodError(
            f"{name} has {shape[3]} volumes, which is no count of even spherical "
            "harmonics (1, 6, 15, 28, 45, 66, 91, ...) nor of those of all degrees (9, 25, 49, 81, "
            "...); give an FOD such as wmfod.nii.gz."
        )


def used_sh_voxels(data: Any) -> tuple[Any, Any, int]:
    """Return values and rows of the voxels in use, and how many are not finite.

    The arrays stay on the device that `data` is on.
    """
    library = library_of(data)
    finite = library.ones(data.shape[:3], dtype=bool)
    nonzero = library.zeros(data.shape[:3], dtype=bool)
    for k in range(data.shape[3]):  # a volume at a time: no temporary of the whole size
        with np.errstate(over="ignore"):  # what float32 has no room for is not finite then
            volume = data[..., k].astype(np.float32, copy=False)
        finite &= library.isfinite(volume)
        nonzero |= volume != 0
    used = finite & nonzero
    values = library.ascontiguousarray(data[used], dtype=np.float32)
    counted = library.cumsum(used.ravel(), dtype=np.int32).reshape(used.shape)
    rows = library.where(used, counted - 1, -1).astype(np.int32)
    return values, rows, used.size - int(finite.sum())


def checked_reading(basis: str, frame: str | None) -> tuple[str, str]:
    """Return basis and frame; without a frame, the basis's own.

    Raises InvalidParameterError when either is unknown.
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


def _non_negative_fraction(values: NDArray[np.float64], finite: NDArray[np.bool_]) -> float:
    first = values[:, :N_FIRST]
    mean = first[:, 0]
    possible = (mean > 0) & (np.square(first[:, 1:]).sum(axis=1) <= 10.0 * mean**2)
    return amplitude_fraction(possible & finite.all(axis=1), first)


def anisotropy(values: NDArray[np.float64]) -> float:
    """Return the root mean square of degree 2 relative to an FOD of a single direction."""
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


def recognise(sample: Sample) -> Kind | None:
    """Recognise an FOD, which can be non-negative in nearly all voxels.

    The power of degree 2 is then at most five times that of degree 0, twice as much in
    tournier07_legacy.
    """
    if sample.n_volumes in FULL_COUNTS:
        return _recognise_full(sample)
    if sample.n_volumes not in SH_COUNTS:
        return None
    if _non_negative_fraction(sample.values, sample.finite) >= MIN_NON_NEGATIVE:
        if anisotropy(sample.whole) < MIN_ANISOTROPY:
            return ISOTROPIC
        return KIND if not _are_parallel(sample.whole) or _is_a_lobe(sample.whole) else UNCLEAR
    # An FOD of the wrong sign; peaks of one direction look like it, too, but for the lobe.
    is_negative = _non_negative_fraction(-sample.values, sample.finite) >= MIN_NON_NEGATIVE
    if is_negative and (not _are_parallel(sample.whole) or _is_a_lobe(-sample.whole)):
        return UNCLEAR
    return None


def _recognise_full(sample: Sample) -> Kind | None:
    """Recognise an asymmetric FOD; its even degrees are to be an FOD, too."""
    if not _is_full(sample):
        return None
    even = sample.whole[:, even_columns(N_FIRST_FULL)]
    power = np.linalg.norm(sample.whole[:, 1:N_FIRST_FULL])
    if power < MIN_ANISOTROPY * np.linalg.norm(even[:, 0]):
        return ISOTROPIC
    return KIND if not _are_parallel(even) or _is_a_lobe(even) else UNCLEAR


def _is_full(sample: Sample) -> bool:
    """Tell whether volumes are of degrees 0, 1, 2, ... of a function that can be non-negative.

    Three peaks a voxel have nine volumes, too: they point to all sides, or some voxels have fewer.
    """
    values = sample.values[:, :N_FIRST_FULL]
    possible = (values[:, 0] > 0) & sample.finite[:, :N_FIRST_FULL].all(axis=1)
    for degree in (1, 2):
        power = np.square(values[:, degree**2 : (degree + 1) ** 2]).sum(axis=1)
        possible &= power <= MARGIN_OF_FULL * (2 * degree + 1) * values[:, 0] ** 2
    has_fewer = (values[:, -3:] == 0).all(axis=1)
    is_unit = (np.abs(np.linalg.norm(values[:, :3], axis=1) - 1) < UNIT_TOLERANCE).mean() > 0.5
    return bool(
        not is_unit
        and has_fewer.mean() < 1 - MIN_FULL
        and amplitude_fraction(possible, values) >= MIN_FULL
    )


def suits(n_volumes: int) -> bool:
    """Tell whether so many volumes may be coefficients."""
    return n_volumes in SH_COUNTS or n_volumes in FULL_COUNTS


ISOTROPIC = Kind("isotropic", "maps without directions", "check that fibres are seen in it")
KIND = InputKind(
    "sh",
    "SH coefficients",
    short="SH coefficients",
    kernel=COEFFICIENTS,
    suits=suits,
    recognise=recognise,
    floor=0.1,  # tckgen's default cutoff
)
