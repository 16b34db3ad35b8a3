"""Reading volumes: FODs, masks, labels and scalar maps from NIfTI and MRtrix files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError, InvalidMaskError
from ..fields.kinds import checked_kind
from ..fields.readings import AUTO
from ..geometry.grid import Grid
from ..model.fod import Fod
from .fod_reader import FodKeywords, FodReader
from .formats import volume_format
from .headers import check_numeric, grid_of, read_header, without_trailing_ones
from .paths import existing_file
from .peak_files import PeakReader, reads_peaks


def load_fod(
    path: str | PathLike[str],
    *,
    kind: str = AUTO,
    basis: str = "tournier07",
    frame: str | None = None,
    axes: str | None = None,
    order: str | None = None,
) -> Fod:
    """Read an FOD volume.

    Memory is needed for the coefficients of the used voxels and a few volumes beside; for all of
    them only where the coefficients lie in the middle of the axes of a .mif.

    Parameters
    ----------
    path : path-like
        .nii, .nii.gz, .mif, .mif.gz or .mih; 4-D, with SH coefficients, peaks or tensors along
        the last axis; .pam5, DIPY's peaks; or FSL's dyads1.nii.gz or V1.nii.gz, with which the
        other dyads and the amplitudes beside it are read, see docs/files.md.
    kind : str
        What the volumes are. "auto" tells from the header and some voxels, and refuses what is no
        FOD or unclear, with what it looks like; "sh", "peaks" and "tensor" take them for SH
        coefficients, peaks or tensors in any case.
    basis, frame : str
        How to read the coefficients, see :class:`~napari_tractography.model.fod.Fod`.
    axes : str, optional
        Of peaks and tensors: "scanner", "voxel" or "fsl", see
        :meth:`~napari_tractography.model.fod.Fod.from_peaks`. By default "scanner" for peaks but
        those of FSL and DIPY, which are in their own, and for tensors those of the program whose
        order they are in.
    order : str, optional
        Of the elements of tensors: "mrtrix", "fsl" or "dipy"; by default as their values tell.

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
    InvalidParameterError
        When the kind, the basis, the frame, the axes or the order is unknown.
    """
    reader = fod_reader(path, kind=kind, basis=basis, frame=frame, axes=axes, order=order)
    return reader.read(hashed=False)[0]


def fod_reader(
    path: str | PathLike[str], *, look_later: bool = False, **keywords: Unpack[FodKeywords]
) -> FodReader | PeakReader:
    """Return what reads a file in pieces; the parameters are those of :class:`.FodReader`."""
    if reads_peaks(path, checked_kind(keywords.get("kind", AUTO))):
        return PeakReader(path, axes=keywords.get("axes"))
    volume_format(existing_file(path))
    return FodReader(path, look_later=look_later, **keywords)


def load_volume(path: str | PathLike[str]) -> tuple[NDArray[Any], Grid]:
    """Read a 3-D volume: a mask, labels or a scalar map.

    Parameters
    ----------
    path : path-like
        .nii, .nii.gz, .mif, .mif.gz, .mih, .mgz or .mgh.

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
    return read_volume(path, hashed=False)[:2]


def read_volume(path: str | PathLike[str], *, hashed: bool) -> tuple[NDArray[Any], Grid, str]:
    """Read a 3-D volume and, in the same pass, the SHA-256 of its file, "" if not `hashed`.

    See :func:`load_volume`. Of a .mih with its data file, the SHA-256 is the header's.
    """
    stored = read_header(path)
    shape = without_trailing_ones(stored.shape, 3)
    if len(shape) != 3:
        raise FileError(
            f"{stored.path} has shape {stored.shape}; give a 3-D volume, such as one cut out "
            "with mrconvert -coord 3 0."
        )
    grid = grid_of(stored)
    check_numeric(stored, FileError)
    whole = stored.dtype.kind in "iub" and not stored.scaled
    dtype = stored.dtype.newbyteorder("=") if whole else np.dtype(np.float32)
    values, sha256 = stored.read_hashed(dtype, hashed=hashed)
    return values.reshape(shape), grid, sha256


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


def volume_shape(path: str | PathLike[str]) -> tuple[int, ...]:
    """Return the shape of a volume, from its header alone and without trailing ones.

    Raises FileError when the file is missing or its header makes no sense.
    """
    return without_trailing_ones(read_header(path).shape, 3)
