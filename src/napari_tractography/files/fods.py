"""Reading FODs, peaks and tensors from whatever file holds them."""

from __future__ import annotations

from os import PathLike
from typing import Unpack

from ..fields.kinds import checked_kind
from ..fields.readings import AUTO
from ..model.fod import Fod
from .fod_reader import FodKeywords, FodReader
from .formats import volume_format
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
