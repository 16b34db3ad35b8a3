"""Writing 3-D volumes: density maps and masks, as NIfTI; and the grid to write them on."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import nibabel as nib
import numpy as np
from numpy.typing import ArrayLike

from ..errors import FileError
from ..grid import Grid
from .headers import grid_of, read_header
from .paths import check_writable, ending_of, written_whole

ENDINGS = (".nii", ".nii.gz")


def save_volume(values: ArrayLike, grid: Grid, path: str | PathLike[str]) -> None:
    """Write a 3-D volume, whole or not at all.

    Parameters
    ----------
    values : (x, y, z) array_like
        Bool is written as uint8, int64 as int32 where that loses nothing, float64 as float32.
    grid : Grid
        Its affine is written as sform and, as far as it goes, as qform, in scanner space.
    path : path-like
        .nii or .nii.gz. An older file is replaced.

    Raises
    ------
    FileError
        When the ending is unknown, the shapes differ or the file cannot be written.
    """
    wanted = Path(path)
    ending_of(wanted, ENDINGS, "a volume to write")
    array = np.asarray(values)
    if array.shape != grid.shape:
        raise FileError(
            f"The volume for {wanted} has shape {array.shape} but its grid has {grid.shape}."
        )
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    elif array.dtype == np.int64 and np.array_equal(array, array.astype(np.int32)):
        array = array.astype(np.int32)  # many programs read no 64-bit integers
    elif array.dtype == np.float64:
        array = array.astype(np.float32)
    image = nib.Nifti1Image(array, grid.affine)
    image.set_qform(grid.affine, code=1)
    image.set_sform(grid.affine, code=1)
    image.header.set_xyzt_units(xyz="mm")
    with written_whole(wanted) as temporary:
        nib.save(image, temporary)


def load_grid(path: str | PathLike[str]) -> Grid:
    """Return the grid of an image of any number of volumes, from its header alone.

    Raises
    ------
    FileError
        When the file is missing, its header makes no sense or its affine is singular.
    """
    return grid_of(read_header(path))


def check_volume_target(path: str | PathLike[str]) -> None:
    """Check, before long work, that a volume can be written there.

    Raises
    ------
    FileError
        When the ending is unknown or the folder is missing or cannot be written.
    """
    ending_of(Path(path), ENDINGS, "a volume to write")
    check_writable(path)
