"""Writing 3-D volumes: density maps and masks; and the grid to write them on."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..errors import FileError
from ..geometry.grid import Grid
from .formats import whole_reading, written_volume_format
from .headers import grid_of, read_header
from .paths import check_writable, existing_file


def save_volume(values: ArrayLike, grid: Grid, path: str | PathLike[str]) -> None:
    """Write a 3-D volume, whole or not at all.

    Parameters
    ----------
    values : (x, y, z) array_like
        Bool is written as uint8, 64-bit integers as 32-bit ones, all floats as float32.
    grid : Grid
        Its affine is written as sform and, as far as it goes, as qform, in scanner space.
    path : path-like
        .nii or .nii.gz. An older file is replaced.

    Raises
    ------
    FileError
        When the ending is unknown, the shapes differ, NIfTI cannot hold the shape, the values are
        no real numbers or integers beyond 32 bits, or the file cannot be written.
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
