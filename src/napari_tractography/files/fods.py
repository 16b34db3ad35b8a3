"""Reading volumes: FODs, masks, labels and scalar maps from NIfTI and MRtrix files."""

from __future__ import annotations

import logging
import struct
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError
from numpy.typing import NDArray

from ..errors import FileError, InvalidFodError, InvalidGridError, InvalidMaskError
from ..fod import Fod, check_fod_shape
from ..grid import Grid
from .images import StoredImage
from .mif import read_mif_header
from .paths import ending_of, existing_file

logger = logging.getLogger(__name__)


def load_fod(
    path: str | PathLike[str], *, basis: str = "tournier07", frame: str | None = None
) -> Fod:
    """Read an FOD volume.

    Beside the dense float32 coefficients, memory is needed for those of the used voxels only.

    Parameters
    ----------
    path : path-like
        .nii, .nii.gz, .mif, .mif.gz or .mih; 4-D, with SH coefficients along the last axis.
    basis, frame : str
        How to read the coefficients, see :class:`~napari_tractography.fod.Fod`.

    Returns
    -------
    Fod
        Named after the file.

    Raises
    ------
    FileError
        When the file is missing, truncated, corrupt or of another format, or its affine singular.
    InvalidFodError
        When it holds something else than an FOD.
    """
    stored = _header(path)
    shape = _without_trailing_ones(stored.shape, 4)
    check_fod_shape(shape, stored.path.name)  # before gigabytes are read
    grid = _grid(stored)
    _check_numeric(stored, InvalidFodError)
    coefficients = stored.read(np.float32).reshape(shape)
    return Fod(coefficients, grid, basis=basis, frame=frame, name=stored.path.name)


def load_volume(path: str | PathLike[str]) -> tuple[NDArray[Any], Grid]:
    """Read a 3-D volume: a mask, labels or a scalar map.

    Parameters
    ----------
    path : path-like
        .nii, .nii.gz, .mif, .mif.gz or .mih.

    Returns
    -------
    values : (x, y, z) array
        Unscaled integers keep their type, so that labels stay exact; all else is float32.
    grid : Grid

    Raises
    ------
    FileError
        When the file is missing, truncated, corrupt, of another format or not 3-D, or its affine
        singular.
    """
    stored = _header(path)
    shape = _without_trailing_ones(stored.shape, 3)
    if len(shape) != 3:
        raise FileError(
            f"{stored.path} has shape {stored.shape}; give a 3-D volume, such as one cut out "
            "with mrconvert -coord 3 0."
        )
    grid = _grid(stored)
    _check_numeric(stored, FileError)
    whole = stored.dtype.kind in "iub" and not stored.scaled
    dtype = stored.dtype.newbyteorder("=") if whole else np.dtype(np.float32)
    return stored.read(dtype).reshape(shape), grid


def load_mask(path: str | PathLike[str]) -> tuple[NDArray[np.bool_], Grid]:
    """Read a mask: every voxel that is neither zero nor NaN belongs to it.

    Returns
    -------
    inside : (x, y, z) bool
    grid : Grid

    Raises
    ------
    FileError
        As :func:`load_volume`.
    InvalidMaskError
        When no voxel is inside.
    """
    values, grid = load_volume(path)
    inside = values != 0
    if values.dtype.kind == "f":
        inside &= ~np.isnan(values)
    if not inside.any():
        raise InvalidMaskError(
            f"The mask {Path(path).name} has no voxel other than zero; choose another."
        )
    return inside, grid


def volume_shape(path: str | PathLike[str]) -> tuple[int, ...]:
    """Return the shape of a volume, from its header alone and without trailing ones.

    Raises
    ------
    FileError
        When the file is missing or its header makes no sense.
    """
    return _without_trailing_ones(_header(path).shape, 3)


def _nifti_header(path: Path) -> StoredImage:
    try:
        image = nib.load(path)
        header, proxy = image.header, image.dataobj
        placed = bool(header["sform_code"] or header["qform_code"])
        shape, affine, dtype = tuple(map(int, image.shape)), image.affine, np.dtype(proxy.dtype)
        offset, slope, intercept = int(proxy.offset), float(proxy.slope), float(proxy.inter)
    except (
        ImageFileError,
        HeaderDataError,
        OSError,
        EOFError,
        ValueError,
        KeyError,
        AttributeError,
        zlib.error,
        struct.error,
    ) as error:
        raise FileError(
            f"{path} cannot be read as NIfTI ({error}); copy or export it again."
        ) from None
    if not placed:
        logger.warning(
            "%s has neither sform nor qform: where it lies, and which side is left, is a guess.",
            path.name,
        )
    return StoredImage(
        path=path,
        data_path=path,
        offset=offset,
        shape=shape,
        affine=affine,
        dtype=dtype,
        order=tuple(range(len(shape))),
        flipped=(False,) * len(shape),
        slope=slope,
        intercept=intercept,
    )


# Each format is a function from a path to what its header says.
FORMATS = {
    ".nii": _nifti_header,
    ".nii.gz": _nifti_header,
    ".mif": read_mif_header,
    ".mif.gz": read_mif_header,
    ".mih": read_mif_header,
}


def _header(path: str | PathLike[str]) -> StoredImage:
    place = existing_file(path)
    return FORMATS[ending_of(place, FORMATS, "a volume")](place)


def _without_trailing_ones(shape: tuple[int, ...], n_axes: int) -> tuple[int, ...]:
    last = max((axis for axis, extent in enumerate(shape) if extent != 1), default=0)
    return shape[: max(n_axes, last + 1)]


def _check_numeric(stored: StoredImage, error: type[FileError | InvalidFodError]) -> None:
    if stored.dtype.kind not in "biuf":
        raise error(
            f"{stored.path} holds {stored.dtype} values (complex or colours), not real numbers; "
            "convert it, for example with mrcalc -real."
        )


def _grid(stored: StoredImage) -> Grid:
    try:
        return Grid(stored.shape[:3], stored.affine)
    except InvalidGridError as error:
        raise FileError(f"{stored.path}: {error}") from None
