"""NIfTI images, by nibabel, which is imported on use: it takes a while to load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError
from .damage import image_errors, tell_once
from .description import VolumeFormat
from .paths import ending_of, written_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..geometry.grid import Grid
    from .stored_images import StoredImage

ENDINGS = (".nii", ".nii.gz")
SYMMETRIC_MATRIX = 1005  # NIfTI's intent code
UNIT_BITS, OTHER_UNITS = 0x7, {1: "metre", 3: "micrometre"}  # of NIfTI's xyzt_units; 2 is mm
MOST_APART = 0.5  # voxels between the places by qform and sform, which rounding explains
MOST_ALONG_AXIS = 32767  # voxels, which NIfTI counts with 16 bits


def read_nifti_header(path: Path) -> StoredImage:
    """Read the header of a NIfTI image. Raises FileError when it makes no sense."""
    import nibabel as nib
    import numpy as np

    from .stored_images import StoredImage

    try:
        image = nib.load(path.absolute())  # nibabel takes ~ for a user's folder
        header, proxy = image.header, image.dataobj
        has_affine = bool(header["sform_code"] or header["qform_code"])
        shape, affine, dtype = tuple(map(int, image.shape)), image.affine, np.dtype(proxy.dtype)
        offset, slope, intercept = int(proxy.offset), float(proxy.slope), float(proxy.inter)
        apart_mm = _apart_mm(header, shape)
        intent, unit = int(header["intent_code"]), int(header["xyzt_units"]) & UNIT_BITS
    except image_errors() as error:
        raise FileError(
            f"{path} cannot be read as NIfTI ({error}); copy or export it again."
        ) from None
    if min(shape, default=0) < 1:
        raise FileError(f"{path} has shape {shape}, which is none; copy or export it again.")
    if not has_affine:
        tell_once(
            path,
            f"{path.name} has neither sform nor qform: where it lies, and which side is left, is a "
            "guess.",
        )
    if apart_mm > MOST_APART * min(header.get_zooms()[:3], default=0.0):
        tell_once(
            path,
            f"{path.name} lies up to {apart_mm:.3g} mm apart by its qform and by its sform, which "
            "contradict each other; the sform is taken, as by MRtrix3.",
        )
    if unit in OTHER_UNITS:
        tell_once(
            path,
            f"{path.name} names the {OTHER_UNITS[unit]} as its unit, but is read in mm, as MRtrix3 "
            "does; scale its affine.",
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


def _apart_mm(header: Any, shape: tuple[int, ...]) -> float:
    """Return how far apart the two affines put a corner of the image; 0 where one is not there."""
    import numpy as np

    with np.errstate(all="ignore"):  # a damaged header may hold any number
        forms = [header.get_qform(coded=True)[0], header.get_sform(coded=True)[0]]
        if any(form is None for form in forms):
            return 0.0
        corners = np.array([*np.ndindex(2, 2, 2)]) * (np.array([*shape, 1, 1, 1])[:3] - 1)
        off = (forms[0] - forms[1])[:3] @ np.column_stack([corners, np.ones(8)]).T
        return float(np.linalg.norm(off, axis=0).max())


def _declared(path: Path, intent: int, shape: tuple[int, ...]) -> str:
    """Return what volumes are by their intent code, or by a .bval beside them, or ""."""
    if intent == SYMMETRIC_MATRIX:
        return "tensor"
    table = path.with_name(path.name[: -len(ending_of(path, ENDINGS, "a volume"))] + ".bval")
    try:
        return "dwi" if len(table.read_text("utf-8").split()) in shape[3:4] else ""
    except (OSError, ValueError):  # as mostly, there is none
        return ""


def write_nifti(values: NDArray[Any], grid: Grid, path: Path) -> None:
    """Write a 3-D volume, whole or not at all.

    Raises FileError when NIfTI cannot hold the shape, the values are no real numbers or integers
    beyond 32 bits, or the file cannot be written.
    """
    import nibabel as nib

    if max(values.shape) > MOST_ALONG_AXIS:
        raise FileError(
            f"The volume for {path} has shape {values.shape}, but NIfTI holds no more than "
            f"{MOST_ALONG_AXIS} voxels along an axis; crop or resample it."
        )
    image = nib.Nifti1Image(_as_stored(values, path), grid.affine)
    image.set_qform(grid.affine, code=1)
    image.set_sform(grid.affine, code=1)
    if _apart_mm(image.header, values.shape) > MOST_APART * grid.voxel_sizes_mm.min():
        image.header["qform_code"] = 0  # it holds no shear
    image.header.set_xyzt_units(xyz="mm")
    with written_whole(path) as temporary:
        nib.save(image, temporary)


def _as_stored(array: NDArray[Any], path: Path) -> NDArray[Any]:
    """Return the numbers of an array in a type that NIfTI has and that many programs read."""
    import numpy as np

    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    if array.dtype.kind not in "iu":
        raise FileError(
            f"The volume for {path} holds {array.dtype} values, not real numbers; convert it."
        )
    if array.dtype.itemsize < 8:
        return array
    least, most = int(array.min()), int(array.max())
    for dtype in (np.int32, np.uint32):
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return array.astype(dtype)
    raise FileError(
        f"The volume for {path} holds integers from {least} to {most}, which 32 bits cannot; "
        "renumber them, or convert them to float."
    )


NIFTI = VolumeFormat(ENDINGS, header=read_nifti_header, write=write_nifti)
