"""3-D volumes: masks, labels and scalar maps, read and written, and their grids."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FileError, InvalidMaskError
from ..geometry.grid import Grid
from ..runtime.arrays import tells_apart
from .formats import whole_reading, written_volume_format
from .headers import check_numeric, grid_of, read_header, without_trailing_ones
from .paths import check_writable, existing_file
from .stored_images import StoredImage

FEW_VALUES = 16  # other than zero, of a mask or of a few labels
SAMPLED = 100_000  # voxels by which maps are told from masks


def load_volume(path: str | PathLike[str]) -> tuple[NDArray[Any], Grid]:
    """Read a 3-D volume: a mask, labels or a scalar map.

    Raises FileError when the file is missing, truncated, corrupt, of another format or not 3-D, or
    its affine singular.

    Parameters
    ----------
    path : path-like
        .nii, .nii.gz, .mif, .mif.gz, .mih, .mgz or .mgh.

    Returns
    -------
    values : (x, y, z) array
        Unscaled integers keep their type; other whole numbers that float32 cannot hold are int64,
        or float64 where some are NaN, so that labels stay exact. All else is float32.
    grid : Grid
    """
    return read_volume(path, hashed=False)[:2]


def read_volume(path: str | PathLike[str], *, hashed: bool) -> tuple[NDArray[Any], Grid, str]:
    """Read a 3-D volume and, in the same pass, the SHA-256 of its file, "" if not `hashed`.

    See :func:`load_volume`. Of a .mih with its data file, the SHA-256 is the header's.
    """
    stored = read_header(path)
    shape = without_trailing_ones(stored.shape, 3)
    if len(shape) != 3:
        how = ", such as one cut out with mrconvert -coord 3 0" if len(shape) > 3 else ""
        raise FileError(f"{stored.path} has shape {stored.shape}; give a 3-D volume{how}.")
    grid = grid_of(stored)
    check_numeric(stored, FileError)
    whole = stored.dtype.kind in "iub" and not stored.scaled
    dtype = stored.dtype.newbyteorder("=") if whole else np.dtype(np.float32)
    values, sha256 = stored.read_hashed(dtype, hashed=hashed)
    if not whole and (stored.scaled or stored.dtype.itemsize > dtype.itemsize):
        values = _exact_labels(values, stored)
    return values.reshape(shape), grid, sha256


def _exact_labels(values: NDArray[Any], stored: StoredImage) -> NDArray[Any]:
    """Return values as float32, or whole ones that it cannot hold as they are in the file."""
    if tells_apart(values.dtype, _largest(values)):
        return values
    exact = stored.read(np.float64)
    known = ~np.isnan(exact)
    is_whole = (exact[known] == np.rint(exact[known])).all()
    if not (is_whole and tells_apart(exact.dtype, _largest(exact))):
        return values  # a scalar map
    return exact.astype(np.int64) if known.all() else exact


def _largest(values: NDArray[Any]) -> float:
    """Return the largest magnitude of values, NaN aside."""
    return float(max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None)))


def load_mask(path: str | PathLike[str]) -> tuple[NDArray[np.bool_], Grid]:
    """Read a mask, (x, y, z) bool: every voxel that is neither zero nor NaN belongs to it; and its
    grid.

    Raises FileError as :func:`load_volume`; InvalidMaskError when no voxel is inside.
    """
    values, grid = load_volume(path)
    return voxels_inside(values, Path(path).name), grid


def voxels_inside(values: NDArray[Any], name: str) -> NDArray[np.bool_]:
    """Return which voxels of a mask are neither zero nor NaN, (x, y, z) bool.

    Raises InvalidMaskError when none is; with the `name` of the mask.
    """
    inside = values != 0
    if values.dtype.kind == "f":
        inside &= ~np.isnan(values)
    if not inside.any():
        raise InvalidMaskError(f"The mask {name} has no voxel other than zero; choose another.")
    return np.asarray(inside)


def has_many_values(values: NDArray[Any]) -> bool:
    """Return whether a volume holds more values than a mask or a few labels do: it is a map."""
    sample = values.ravel()[:: max(values.size // SAMPLED, 1)]
    return len(np.unique(sample[(sample != 0) & (sample == sample)])) > FEW_VALUES


def volume_shape(path: str | PathLike[str]) -> tuple[int, ...]:
    """Return the shape of a volume, from its header alone and without trailing ones.

    Raises FileError when the file is missing or its header makes no sense.
    """
    return without_trailing_ones(read_header(path).shape, 3)


def save_volume(values: ArrayLike, grid: Grid, path: str | PathLike[str]) -> None:
    """Write a 3-D volume, whole or not at all.

    Raises FileError when the ending is unknown, the shapes differ, NIfTI cannot hold the shape, the
    values are no real numbers or integers beyond 32 bits, or the file cannot be written.

    Parameters
    ----------
    values : (x, y, z) array_like
        Bool is written as uint8, 64-bit integers as 32-bit ones, all floats as float32.
    grid : Grid
        Its affine is written as sform and, unless it shears, as qform, in scanner space.
    path : path-like
        .nii or .nii.gz. An older file is replaced.
    """
    wanted = Path(path)
    write = written_volume_format(wanted).write
    assert write is not None
    array = np.asarray(values)
    if array.shape != grid.shape:
        raise FileError(
            f"The volume for {wanted} has shape {array.shape} but its grid has {grid.shape}."
        )
    write(array, grid, wanted)


def load_grid(path: str | PathLike[str]) -> Grid:
    """Return the grid of an image of any number of volumes, or of DIPY's peaks, by its header.

    Raises FileError when the file is missing, its header makes no sense or its affine is singular.
    """
    whole = whole_reading(path)
    if whole is not None:
        return whole.grid(existing_file(path))
    return grid_of(read_header(path))


def check_volume_target(path: str | PathLike[str]) -> None:
    """Check, before long work, that a volume can be written there.

    Raises FileError when the ending is unknown or the folder is missing or cannot be written.
    """
    written_volume_format(path)
    check_writable(path)
