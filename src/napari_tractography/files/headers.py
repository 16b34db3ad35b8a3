"""Headers of image files: which formats there are, and what all readers of images ask of them.

Called by :mod:`.fods` and :mod:`.volumes`. A new image format is one row of :data:`FORMATS`.
"""

from __future__ import annotations

import logging
import struct
import zlib
from os import PathLike
from pathlib import Path

import nibabel as nib
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.freesurfer.mghformat import MGHError, MGHHeader
from nibabel.openers import ImageOpener
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

from ..errors import FileError, InvalidFodError, InvalidGridError
from ..geometry.grid import Grid
from .mif import ENDINGS as MRTRIX_ENDINGS
from .mif import read_mif_header
from .paths import ending_of, existing_file
from .stored_images import StoredImage

logger = logging.getLogger(__name__)

SYMMETRIC_MATRIX = 1005  # NIfTI's intent code
UNIT_BITS, OTHER_UNITS = 0x7, {1: "metre", 3: "micrometre"}  # of NIfTI's xyzt_units; 2 is mm
MALFORMED = (  # what nibabel raises on damaged headers
    ImageFileError,
    HeaderDataError,
    MGHError,
    WrapStructError,
    OSError,
    EOFError,
    OverflowError,  # an offset of infinity
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    zlib.error,
    struct.error,
)


def _nifti_header(path: Path) -> StoredImage:
    try:
        image = nib.load(path)
        header, proxy = image.header, image.dataobj
        has_affine = bool(header["sform_code"] or header["qform_code"])
        shape, affine, dtype = tuple(map(int, image.shape)), image.affine, np.dtype(proxy.dtype)
        offset, slope, intercept = int(proxy.offset), float(proxy.slope), float(proxy.inter)
        intent, unit = int(header["intent_code"]), int(header["xyzt_units"]) & UNIT_BITS
    except MALFORMED as error:
        raise FileError(
            f"{path} cannot be read as NIfTI ({error}); copy or export it again."
        ) from None
    if not has_affine:
        logger.warning(
            "%s has neither sform nor qform: where it lies, and which side is left, is a guess.",
            path.name,
        )
    if unit in OTHER_UNITS:
        logger.warning(
            "%s names the %s as its unit, but is read in mm, as MRtrix3 does; scale its affine.",
            path.name,
            OTHER_UNITS[unit],
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
        declares=_declared(path, intent, shape),
    )


def _freesurfer_header(path: Path) -> StoredImage:
    try:
        with ImageOpener(path) as stream:  # nib.load leaves the file open
            header = MGHHeader.from_fileobj(stream)
        shape = tuple(map(int, header.get_data_shape()))
        affine, dtype = header.get_affine(), header.get_data_dtype()
        offset = int(header.get_data_offset())
    except MALFORMED as error:
        raise FileError(
            f"{path} cannot be read as FreeSurfer's ({error}); copy or export it again."
        ) from None
    n_axes = len(shape)
    return StoredImage(
        path=path,
        data_path=path,
        offset=offset,
        shape=shape,
        affine=affine,
        dtype=dtype,
        order=tuple(range(n_axes)),
        flipped=(False,) * n_axes,
    )


def _declared(path: Path, intent: int, shape: tuple[int, ...]) -> str:
    """Return what volumes are by their intent code, or by a .bval beside them, or ""."""
    if intent == SYMMETRIC_MATRIX:
        return "tensor"
    table = path.with_name(path.name[: -len(ending_of(path, FORMATS, "a volume"))] + ".bval")
    try:
        return "dwi" if len(table.read_text("utf-8").split()) in shape[3:4] else ""
    except (OSError, ValueError):  # as mostly, there is none
        return ""


# Each format is a function from a path to what its header says. Whatever asks for the endings of
# volumes asks here.
FORMATS = {
    ".nii": _nifti_header,
    ".nii.gz": _nifti_header,
    **dict.fromkeys(MRTRIX_ENDINGS, read_mif_header),
    ".mgz": _freesurfer_header,
    ".mgh": _freesurfer_header,
}


def read_header(path: str | PathLike[str]) -> StoredImage:
    """Read the header of an image.

    Raises
    ------
    FileError
        When the file is missing, of another format, or its header makes no sense.
    """
    file = existing_file(path)
    return FORMATS[ending_of(file, FORMATS, "a volume")](file)


def without_trailing_ones(shape: tuple[int, ...], n_axes: int) -> tuple[int, ...]:
    """Return a shape without the ones at its end, but of at least `n_axes` axes."""
    last = max((axis for axis, extent in enumerate(shape) if extent != 1), default=0)
    return shape[: max(n_axes, last + 1)]


def check_numeric(stored: StoredImage, error: type[FileError | InvalidFodError]) -> None:
    """Raise the `error` when an image does not hold real numbers."""
    if stored.dtype.kind not in "biuf":
        raise error(
            f"{stored.path} holds {stored.dtype} values (complex or colours), not real numbers; "
            "convert it, for example with mrcalc -real."
        )


def grid_of(stored: StoredImage) -> Grid:
    """Return the voxel grid of an image.

    Raises
    ------
    FileError
        When its affine is singular.
    """
    try:
        return Grid(stored.shape[:3], stored.affine)
    except InvalidGridError as error:
        raise FileError(f"{stored.path}: {error}") from None
