"""Warps of registration programs: affines and fields, as maps of points in RAS+ mm.

ITK (ANTs), FSL, MRtrix3 and FreeSurfer's LTA. Whatever a file holds, what is read leads as points
go in registration: from the space of the image on which another was resampled to that of the other.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError, InvalidParameterError, InvalidWarpError
from ..geometry.grid import Grid
from ..geometry.warps import Warp
from ..runtime.arrays import mapped
from ..runtime.extras import needs_extra
from .damage import telling
from .formats import has_ending, volume_formats
from .headers import check_numeric, grid_of, read_header
from .nifti import NIFTI
from .paths import existing_file
from .text import text_of
from .volume_files import load_grid

AUTO = "auto"
KINDS = ("itk", "fsl", "mrtrix3", "lta")
ITK_TEXT = b"#Insight Transform File"
FSL_FIELD = 2006  # intent codes of NIfTI; those that follow are of coefficients
FSL_CODES = range(2006, 2017)
LPS = (-1.0, -1.0, 1.0)  # ITK's axes, of ours
# A field of positions is nearly a map of full rank, one of displacements nearly none: the volume
# that the affine nearest to it gives a unit cube.
LEAST_VOLUME = 0.02
MOST_FITTED = 20_000  # voxels


def load_warp(
    path: str | PathLike[str],
    *,
    kind: str = AUTO,
    fsl_ref: str | PathLike[str] | Grid | None = None,
    fsl_in: str | PathLike[str] | Grid | None = None,
) -> Warp:
    """Read a warp.

    It leads from the space of the image on which another was resampled (fixed, reference,
    template) to the space of that other (moving), whichever program wrote it.

    Parameters
    ----------
    path : path-like
        Of ITK and ANTs .txt, .tfm, .mat and .h5, and fields of displacements (five axes) in .nii or
        .nii.gz; of FSL .mat of flirt, and fields of fnirt and convertwarp; of MRtrix3 deformation
        fields (three volumes, 4-D), and affines in .txt; FreeSurfer's .lta.
    kind : str
        "auto" looks at the file; "itk", "fsl", "mrtrix3" or "lta" where you know better.
    fsl_ref, fsl_in : path-like or Grid, optional
        The images that flirt or fnirt was given as -ref and -in; FSL's files mean nothing without.

    Raises
    ------
    FileError
        When the file is missing, damaged or holds something else.
    InvalidParameterError
        When the kind is unknown, or an image of FSL's is missing.
    MissingPackageError
        When nitransforms is not installed, which reads affines of ITK, FSL and FreeSurfer, and .h5.
    """
    file = existing_file(path)
    if kind not in (AUTO, *KINDS):
        raise InvalidParameterError(
            f"The kind {kind!r} of a warp is unknown; choose {AUTO} or one of {', '.join(KINDS)}."
        )
    is_image = has_ending(file, [end for form in volume_formats() for end in form.endings])
    if kind == AUTO:
        kind = _kind_of_image(file) if is_image else _kind_of_affine(file)
    grids: tuple[Grid | None, Grid | None] = (None, None)
    if kind == "fsl":
        if fsl_ref is None or fsl_in is None:
            raise InvalidParameterError(
                f"{file} is FSL's, and depends on two images; give fsl_ref = IMAGE and fsl_in = "
                "IMAGE, those that were -ref and -in when it was made."
            )
        grids = _grid(fsl_ref), _grid(fsl_in)
    try:
        return _field(file, kind, *grids) if is_image else _affine(file, kind, *grids)
    except InvalidWarpError as error:
        raise FileError(f"{file}: {error}") from None


def _grid(image: str | PathLike[str] | Grid) -> Grid:
    return image if isinstance(image, Grid) else load_grid(image)


def _kind_of_image(file: Path) -> str:
    """Tell which program wrote a field."""
    if len(read_header(file).shape) == 5:
        return "itk"
    return "fsl" if _intent(file) in FSL_CODES else "mrtrix3"


def _intent(file: Path) -> int:
    """Return the intent code of a NIfTI file; 0 of others."""
    if not has_ending(file, NIFTI.endings):
        return 0
    import nibabel  # on use: it takes a while to load

    with telling(file):
        return int(nibabel.load(file).header["intent_code"])


def _kind_of_affine(file: Path) -> str:
    """Tell which program wrote an affine."""
    if has_ending(file, (".lta",)):
        return "lta"
    with telling(file):
        text = text_of(file).read()
    if has_ending(file, (".mat",)):  # FSL's are text, MATLAB's are not
        return "itk" if b"\0" in text else "fsl"
    return "itk" if has_ending(file, (".h5",)) or text.startswith(ITK_TEXT) else "mrtrix3"


def _affine(file: Path, kind: str, reference: Grid | None, moving: Grid | None) -> Warp:
    """Read a file that is no image: affines, or ITK's composites."""
    if kind == "mrtrix3":
        with telling(file):
            matrix = np.loadtxt(text_of(file), np.float64, ndmin=2)
        if matrix.shape not in ((3, 4), (4, 4)):
            raise FileError(
                f"{file} holds numbers of shape {matrix.shape}; give a matrix of 4 x 4, or a file "
                "of ITK, FSL or FreeSurfer."
            )
        return Warp.affine(np.vstack([matrix[:3], (0, 0, 0, 1)]))
    with needs_extra("warps", f"Reading {file.name} takes"):
        from nitransforms.io import fsl, itk, lta
    readers = {
        "itk": itk.ITKLinearTransform,
        "fsl": fsl.FSLLinearTransform,
        "lta": lta.FSLinearTransform,
    }
    with telling(file):
        try:
            if has_ending(file, (".h5",)):
                return _composite(itk.ITKCompositeH5.from_filename(file))
            transform = readers[kind].from_filename(file)
            return Warp.affine(transform.to_ras(moving=moving, reference=reference))
        except (AssertionError, itk.TransformIOError):  # in other parts, of more than one
            raise FileError(
                f"{file} holds no transform that can be read as {kind}, or several; give one "
                "affine, or a composite of affines and fields of displacements (.h5)."
            ) from None


def _composite(parts: list[Any]) -> Warp:
    """Return ITK's composite, of which the last part is the first that points go through."""
    warp = Warp([])
    for part in reversed(parts):
        if hasattr(part, "to_ras"):
            warp = warp.then(Warp.affine(part.to_ras()))
        else:  # displacements in RAS+, as an image of nibabel
            grid = Grid(part.shape[:3], part.affine)
            warp = warp.then(Warp.field(_centres(grid) + np.asarray(part.dataobj), grid))
    return warp


def _field(file: Path, kind: str, reference: Grid | None, moving: Grid | None) -> Warp:
    """Read a file that is an image: a field."""
    stored = read_header(file)
    check_numeric(stored, FileError)
    grid, shape = grid_of(stored), stored.shape
    expected = {"itk": (*shape[:3], 1, 3)}.get(kind, (*shape[:3], 3))
    if shape != expected or kind == "lta":
        raise FileError(
            f"{file} has shape {shape}, which is no field of {kind}; give {expected}"
            + ("; warpconvert makes it of a full warp." if len(shape) == 5 else ".")
        )
    values = stored.read(np.float32).reshape(*shape[:3], 3)
    if kind == "itk":
        return Warp.field(_centres(grid) + values * np.asarray(LPS, np.float32), grid)
    if kind == "mrtrix3":
        if _is_of_displacements(values, _centres(grid)):
            raise FileError(
                f"{file} holds displacements, not positions; convert it with warpconvert "
                'displacement2deformation, or say kind="fsl" if it is FSL\'s.'
            )
        outside = ~values.any(axis=-1)
        if outside.sum() > 1:  # of one-to-one maps a single voxel may lie at the origin
            values[outside] = np.nan
        return Warp.field(values, grid)
    assert reference is not None
    assert moving is not None
    if _intent(file) in FSL_CODES and _intent(file) != FSL_FIELD:
        raise FileError(
            f"{file} holds coefficients of splines; make a field of it with fnirtfileutils "
            "--withaff."
        )
    if not grid.same_space(reference):
        raise FileError(
            f"{file} lies on {grid}, and the image of -ref on {reference}; give the image on which "
            "the field was made."
        )
    centres = _through(_of_fsl(grid), _centres(grid), inverse=True)
    if _is_of_displacements(values, centres):
        values = values + centres
    return Warp.field(_through(_of_fsl(moving), values), grid)


def _centres(grid: Grid) -> NDArray[np.float64]:
    """Return where the centres of voxels lie, (x, y, z, 3) RAS+ mm."""
    return _through(grid.affine, np.moveaxis(np.indices(grid.shape), 0, -1))


def _through(
    matrix: NDArray[np.float64], values: NDArray[Any], *, inverse: bool = False
) -> NDArray[np.float64]:
    """Return (x, y, z, 3) points through an affine."""
    used = np.asarray(np.linalg.inv(matrix), np.float64) if inverse else matrix
    return np.stack(mapped(used, values.reshape(-1, 3)), axis=1).reshape(values.shape)


def _of_fsl(grid: Grid) -> NDArray[np.float64]:
    """Return the affine from FSL's coordinates in an image, mm along its axes, to RAS+ mm.

    The first axis is counted from the other end where the image is stored as neurologists see it.
    """
    scaled = np.diag([*grid.voxel_sizes_mm, 1.0])
    if np.linalg.det(grid.affine[:3, :3]) > 0:
        flip = np.diag([-1.0, 1.0, 1.0, 1.0])
        flip[0, 3] = (grid.shape[0] - 1) * scaled[0, 0]
        scaled = flip @ scaled
    return np.asarray(grid.affine @ np.linalg.inv(scaled))


def _is_of_displacements(values: NDArray[Any], centres: NDArray[np.float64]) -> bool:
    """Tell whether a field holds displacements, not positions, by the affine nearest to it."""
    known = np.flatnonzero(np.isfinite(values).all(axis=-1) & values.any(axis=-1))
    if not len(known):
        return False
    chosen = known[:: max(1, len(known) // MOST_FITTED)]
    x, y = (array.reshape(-1, 3)[chosen].astype(np.float64) for array in (centres, values))
    slopes = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(axis=0), rcond=None)[0]
    return bool(abs(np.linalg.det(slopes)) < LEAST_VOLUME)
