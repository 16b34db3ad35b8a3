"""Peaks: vectors along the fibres of each voxel, whose lengths are amplitudes.

Of TractSeg, ``sh2peaks``, ``fixel2peaks``, FSL's ``dyads`` and ``V1``, DIPY; tract orientation maps
have one a voxel. Called by :class:`napari_tractography.model.fod.Fod` and the formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidFodError
from ..geometry.grid import Grid
from .input_kind import VECTORS, InputKind, Kind, Sample, amplitude_fraction
from .sh import sh_matrix
from .vectors import ENDLESS, Vectors, checked_volume, rotation_to_ras, used_rows

# Lobes that stand for peaks where SH coefficients are asked for: cos^8 of the angle, which has no
# degree above 8, is nowhere negative and is 1 along the peak.
LOBE_LMAX = 8
VOXELS_A_BLOCK = 1 << 15
# Of vectors that come one by one: how far from a grid they may be, of its spacing, and how many
# voxels it may have for each.
MAX_OFF_GRID = 0.02
MAX_SPARSENESS = 1000
MIN_NEGATIVE = 0.05  # of the sum of absolute values
MIN_ALIKE = 0.9  # of the voxels' amplitudes, so much looks like peaks
UNIT_TOLERANCE = 0.01
ROUNDING = 1e-6  # of the extent: coordinates that differ by less are the same


def peaks_of_voxels(
    peaks: ArrayLike,
    grid: Grid,
    *,
    axes: str | None = None,
    order: str = "",
    name: str = "peaks",
) -> tuple[Vectors, NDArray[np.int32], int]:
    """Bring peaks into RAS+ axes, the largest of each voxel first.

    The parameters are those of :meth:`napari_tractography.model.fod.Fod.from_peaks`, and `order`
    has no meaning; a peak with a NaN or an infinity is none. Returned are the vectors, the row of
    each voxel in them, (x, y, z) int32, -1 without peaks, and how many voxels have a peak that is
    infinite, or NaN in some places only. Raises as
    :meth:`~napari_tractography.model.fod.Fod.from_peaks` does.
    """
    axes = "scanner" if axes is None else axes
    rotation = rotation_to_ras(axes, grid)
    what = "peaks as (x, y, z, k, 3) or (x, y, z, 3 k)"
    array = checked_volume(peaks, name, what)
    if array.ndim > 5 or (array.ndim == 5 and array.shape[4] != 3):
        raise InvalidFodError(f"{name} has shape {array.shape}; give {what}.")
    if array.ndim == 4 and (array.shape[3] % 3 or not array.shape[3]):
        raise InvalidFodError(
            f"{name} has {array.shape[3]} volumes, which is no multiple of 3; give three for each "
            "peak: x, y and z."
        )
    if array.shape[:3] != grid.shape:
        raise InvalidFodError(f"{name} has shape {array.shape} but its grid has {grid.shape}.")
    array = array.reshape(*array.shape[:3], -1, 3)
    usable = (array < ENDLESS) & (array > -ENDLESS)
    whole = usable.all(axis=4)
    broken = (~whole & ~np.isnan(array).all(axis=4)).any(axis=3)
    is_peak = whole & (array != 0).any(axis=4)
    is_used = is_peak.any(axis=3)
    if not is_used.any():
        raise InvalidFodError(
            f"{name} has no voxel with a peak; check that it holds vectors and is not empty."
        )
    found = np.where(is_peak[is_used][..., None], array[is_used], 0.0) @ rotation.T
    by_size = np.argsort(-np.square(found).sum(axis=2), axis=1, kind="stable")
    found = np.take_along_axis(found, by_size[..., None], axis=1)
    n_peaks = int(is_peak.sum(axis=3).max())
    numbers = np.ascontiguousarray(found[:, :n_peaks].reshape(len(found), -1), dtype=np.float32)
    return Vectors(KIND, numbers, axes), used_rows(is_used), int(broken.sum())


def stacked(
    directions: Sequence[ArrayLike], amplitudes: Sequence[ArrayLike] | None = None
) -> NDArray[np.float32]:
    """Make (x, y, z, k, 3) float32 peaks of volumes of directions, as FSL's dyads and V1 come.

    `directions` are volumes (x, y, z, 3) of unit vectors, in any axes, `amplitudes` volumes (x, y,
    z) such as ``mean_f1samples`` or FA, 1 by default. Raises InvalidFodError when shapes do not
    fit, or there are not as many amplitudes as directions.
    """
    vectors = [np.asarray(part, dtype=np.float32) for part in directions]
    shapes = {part.shape for part in vectors}
    if len(shapes) != 1 or any(len(shape) != 4 or shape[3] != 3 for shape in shapes):
        raise InvalidFodError(
            f"Directions have shapes {sorted(shapes)}; give volumes (x, y, z, 3) of one shape."
        )
    if amplitudes is None:
        return np.stack(vectors, axis=3)
    factors = [np.asarray(part, dtype=np.float32) for part in amplitudes]
    if [part.shape for part in factors] != [vectors[0].shape[:3]] * len(vectors):
        raise InvalidFodError(
            f"{len(factors)} volumes of amplitudes have shapes {[p.shape for p in factors]}; give "
            f"{len(vectors)} of shape {vectors[0].shape[:3]}, one for each volume of directions."
        )
    pairs = zip(vectors, factors, strict=True)
    return np.stack([vector * factor[..., None] for vector, factor in pairs], axis=3)


def sampled_on_grid(
    function: Callable[[NDArray[np.float64]], ArrayLike], grid: Grid
) -> NDArray[np.float64]:
    """Return what a function gives at the voxel centres, as (x, y, z, k, 3) float64 peaks.

    See :meth:`napari_tractography.model.fod.Fod.from_function`. Raises InvalidFodError when the
    function returns another shape, or the grid is none.
    """
    if not isinstance(grid, Grid):
        raise InvalidFodError(
            f"The grid is of type {type(grid).__name__}; give a Grid, whose shape tells how many "
            "voxels there are."
        )
    voxels = np.argwhere(np.ones(grid.shape, np.bool_))
    found = np.asarray(function(grid.to_mm(voxels).astype(np.float64)), dtype=np.float64)
    if found.ndim not in (2, 3) or found.shape[-1] != 3 or len(found) != len(voxels):
        raise InvalidFodError(
            f"The function returned shape {found.shape} for {len(voxels)} positions; let it return "
            f"({len(voxels)}, 3) or ({len(voxels)}, k, 3) vectors."
        )
    return found.reshape(*grid.shape, -1, 3)


def on_regular_grid(
    positions: ArrayLike, vectors: ArrayLike, *, name: str = "vectors"
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return vectors at places of a regular grid as peaks, and where the grid lies.

    Raises InvalidFodError when shapes make no sense, there is no vector, or the positions are on no
    regular grid.

    Parameters
    ----------
    positions, vectors : (n, 3) array_like
        Positions in any axes along which the grid runs, several of which may be the same; of the
        vectors the lengths are amplitudes.

    Returns
    -------
    peaks : (i, j, k, n_peaks, 3) float32
        Along the axes of the positions; zero where there is none.
    affine : (4, 4) float64
        From indices on the grid to positions.
    """
    points = np.asarray(positions, dtype=np.float64)
    values = np.asarray(vectors, dtype=np.float32)
    if points.ndim != 2 or points.shape[1] != 3 or values.shape != points.shape or not len(points):
        raise InvalidFodError(
            f"{name} has positions of shape {points.shape} and vectors of shape {values.shape}; "
            "give (n, 3) of both, and at least one."
        )
    if not np.isfinite(points).all():
        raise InvalidFodError(f"{name} has positions that are not finite; remove them.")
    first, spacings = points.min(axis=0), [_spacing(column) for column in points.T]
    known = [spacing for spacing in spacings if spacing]
    steps = np.array([spacing or min(known, default=1.0) for spacing in spacings])
    index = np.rint((points - first) / steps)
    off = np.abs(points - first - index * steps).max(axis=0) / steps
    shape = index.max(axis=0) + 1
    if (off > MAX_OFF_GRID).any() or np.prod(shape) > MAX_SPARSENESS * len(points) + MAX_SPARSENESS:
        raise InvalidFodError(
            f"{name} has {len(points)} vectors that are on no regular grid; give vectors at voxel "
            "centres, with as much room between neighbours everywhere along each axis."
        )
    sizes = tuple(int(n) for n in shape)
    flat = np.ravel_multi_index(tuple(index.astype(np.int64).T), sizes)
    order = np.argsort(flat, kind="stable")
    starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
    counts = np.diff(np.append(starts, len(flat)))
    slots = np.arange(len(flat)) - np.repeat(starts, counts)
    peaks = np.zeros((int(np.prod(sizes)), int(counts.max()), 3), np.float32)
    peaks[flat[order], slots] = values[order]
    affine = np.diag([*steps, 1.0])
    affine[:3, 3] = first
    return peaks.reshape(*sizes, -1, 3), affine


def _spacing(column: NDArray[np.float64]) -> float:
    """Return the smallest distance of different coordinates, 0 where all are the same."""
    apart = np.diff(np.unique(column))
    largest = float(np.ptp(column))
    apart = apart[apart > largest * ROUNDING]
    return float(apart.min()) if len(apart) else 0.0


def lobe_coefficients(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return SH coefficients of lobes along peaks, a lobe's largest amplitude being the peak's.

    Of (n_voxels, 3 k) float32 peaks, RAS+, they are (n_voxels, 45) float32 in the basis tournier07.
    """
    of_powers = legendre.poly2leg([0.0] * LOBE_LMAX + [1.0])
    degrees = np.concatenate([[degree] * (2 * degree + 1) for degree in range(0, LOBE_LMAX + 1, 2)])
    factors = (4 * np.pi / (2 * degrees + 1) * of_powers[degrees]).astype(np.float32)
    coefficients = np.zeros((len(numbers), len(degrees)), np.float32)
    for first in range(0, len(numbers), VOXELS_A_BLOCK):
        some = numbers[first : first + VOXELS_A_BLOCK].reshape(-1, numbers.shape[1] // 3, 3)
        lengths = np.linalg.norm(some, axis=2)
        rows, columns = np.nonzero(lengths)
        units = some[rows, columns] / lengths[rows, columns, None]
        lobes = sh_matrix(units, LOBE_LMAX, "tournier07") * lengths[rows, columns, None]
        np.add.at(coefficients, rows + first, lobes * factors)
    return coefficients


def largest_lengths(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the length of the first of (n_voxels, 3 k) peaks, the largest."""
    return np.asarray(np.linalg.norm(numbers[:, :3], axis=1))


def typical_third(numbers: NDArray[np.float32]) -> float:
    """Return the median length of the third of (n_voxels, 3 k) peaks, 0 where it is missing.

    Few voxels hold three bundles: where most have as many peaks, the third is noise.
    """
    third = np.linalg.norm(numbers[:, 6:9], axis=1)
    return float(np.median(third)) if numbers.shape[1] >= 9 else 0.0


def recognise(sample: Sample) -> Kind | None:
    """Recognise whole triples that point to all sides and have length 1 or are sorted by it."""
    if sample.n_volumes % 3:
        return None
    values, finite = sample.values, sample.finite
    is_there = finite.reshape(len(finite), -1, 3)
    if (is_there.any(axis=2) != is_there.all(axis=2)).any():
        return None
    negative = -values.clip(max=0).sum()
    if finite.all() and negative < MIN_NEGATIVE * np.abs(values).sum():
        return None
    lengths = np.linalg.norm(values.reshape(len(values), -1, 3), axis=2)
    is_unit = (np.abs(lengths - 1.0) < UNIT_TOLERANCE) | (lengths == 0)
    alike = is_unit.all(axis=1) | (lengths[:, :1] >= lengths).all(axis=1)
    return KIND if amplitude_fraction(alike, values) >= MIN_ALIKE else None


def suits(n_volumes: int) -> bool:
    """Tell whether so many volumes may be peaks."""
    return n_volumes % 3 == 0


KIND = InputKind(
    "peaks",
    "peaks, vectors of three volumes each",
    short="peaks",
    kernel=VECTORS,
    algorithm="transport",
    lmax=LOBE_LMAX,
    coefficients=lobe_coefficients,
    amplitudes=largest_lengths,
    noise=typical_third,
    noise_reason="the third peaks of half of the voxels are smaller, which are noise",
    read=peaks_of_voxels,
    suits=suits,
    recognise=recognise,
    # Half of an FOD's where peaks are followed, see docs/concepts.md.
    floor=0.05,
    floor_reason="peaks have no side lobes to keep out",
    floor_expanded=0.1,
    floor_expanded_reason="up the gradient lines turn to small peaks, too",
)
