"""Writing 3-D volumes: density maps and masks, as NIfTI; and the grid to write them on."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FileError
from ..geometry.grid import Grid
from .headers import grid_of, read_header
from .pam5 import PAM5, pam5_grid
from .paths import check_writable, ending_of, existing_file, written_whole

ENDINGS = (".nii", ".nii.gz")
MOST_ALONG_AXIS = 32767  # voxels, which NIfTI counts with 16 bits


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
    ending_of(wanted, ENDINGS, "a volume to write")
    array = np.asarray(values)
    if array.shape != grid.shape:
        raise FileError(
            f"The volume for {wanted} has shape {array.shape} but its grid has {grid.shape}."
        )
    if max(array.shape) > MOST_ALONG_AXIS:
        raise FileError(
            f"The volume for {wanted} has shape {array.shape}, but NIfTI holds no more than "
            f"{MOST_ALONG_AXIS} voxels along an axis; crop or resample it."
        )
    image = nib.Nifti1Image(_as_stored(array, wanted), grid.affine)
    image.set_qform(grid.affine, code=1)
    image.set_sform(grid.affine, code=1)
    image.header.set_xyzt_units(xyz="mm")
    with written_whole(wanted) as temporary:
        nib.save(image, temporary)


def _as_stored(array: NDArray[Any], wanted: Path) -> NDArray[Any]:
    """Return the numbers of an array in a type that NIfTI has and that many programs read."""
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    if array.dtype.kind not in "iu":
        raise FileError(
            f"The volume for {wanted} holds {array.dtype} values, not real numbers; convert it."
        )
    if array.dtype.itemsize < 8:
        return array
    least, most = int(array.min()), int(array.max())
    for dtype in (np.int32, np.uint32):
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return array.astype(dtype)
    raise FileError(
        f"The volume for {wanted} holds integers from {least} to {most}, which 32 bits cannot; "
        "renumber them, or convert them to float."
    )


def load_grid(path: str | PathLike[str]) -> Grid:
    """Return the grid of an image of any number of volumes, or of DIPY's peaks, by its header.

    Raises
    ------
    FileError
        When the file is missing, its header makes no sense or its affine is singular.
    """
    if str(path).lower().endswith(PAM5):
        return pam5_grid(existing_file(path))
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
