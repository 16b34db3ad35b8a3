"""Coefficients of some voxels of an FOD, read from where they lie, again and again.

An image that is not compressed is mapped into memory, and the system keeps what is read often. What
is used of a compressed one is unpacked into a temporary file. Called by
:mod:`napari_tractography.recipes.cohort`.
"""

from __future__ import annotations

import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError
from .damage import readable
from .stored_images import StoredImage


class StoredRows:
    """The values of voxels of an image with volumes that is not compressed.

    Raises FileError when the file is truncated or cannot be read.
    """

    def __init__(self, stored: StoredImage) -> None:
        self._stored = stored.with_volumes()
        self._stored.check_size()
        with readable(stored.path):
            numbers = np.memmap(
                stored.data_path,
                stored.dtype,
                "r",
                stored.offset,
                (stored.n_bytes // stored.dtype.itemsize,),
            )
        self._image: NDArray[Any] = self._stored.arranged(numbers, 4)

    @staticmethod
    def can_read(stored: StoredImage) -> bool:
        """Tell whether the numbers lie in the file as they are."""
        return not stored.is_compressed and stored.dtype != np.bool_

    def __call__(self, voxels: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return (n, n_volumes) values of (n,) voxels, which are numbered in C order."""
        numbers = np.asarray(self._image[np.unravel_index(voxels, self._image.shape[:3])])
        if self._stored.scaled:
            numbers = numbers.astype(np.float64) * self._stored.slope + self._stored.intercept
        return numbers.astype(np.float32)


def unpacked(
    values: NDArray[np.float32], folder: str | PathLike[str] | None = None
) -> NDArray[np.float32]:
    """Return an (n, n_coefficients) array that lies in a temporary file, which ends with it.

    By default in the system's folder for these. Raises FileError when there is no room, or no such
    folder.
    """
    where = None if folder is None else Path(folder)
    try:
        with tempfile.TemporaryFile(dir=where) as file:
            values.tofile(file)
            file.flush()
            return np.memmap(file, np.float32, "r", 0, values.shape)
    except OSError as error:
        raise FileError(
            f"{where or tempfile.gettempdir()} takes no unpacked FOD of {values.nbytes / 1e6:.0f} "
            f"MB ({error.strerror or error}); make room, give another folder, or unpack the FODs "
            "(mrconvert)."
        ) from None
