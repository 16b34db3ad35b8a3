"""DIPY's peaks: .pam5 files, read by DIPY.

Called by :mod:`.peak_files`.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import FileError
from .damage import MALFORMED
from .description import VolumeFormat, WholeReading

if TYPE_CHECKING:
    from ..geometry.grid import Grid
    from ..model.fod import Fod

NO_PAM5: tuple[type[Exception], ...] = (*MALFORMED, OSError)  # of h5py and DIPY


def pam5_grid(path: Path) -> Grid:
    """Return the voxel grid of a .pam5 file, without its peaks.

    Raises FileError when it is no such file, holds no affine, or more than there is memory for.
    """
    import h5py  # type: ignore[import-untyped]  # on use: most people have no such file

    from ..geometry.grid import Grid
    from .stored_images import check_memory

    try:
        with h5py.File(path, "r") as file:
            group = file["pam"]
            shape = group["peak_dirs"].shape[:3]
            held = [each for each in group.values() if isinstance(each, h5py.Dataset)]
            check_memory(path, shape, sum(each.size * each.dtype.itemsize for each in held))
            affine = group["affine"][()] if "affine" in group else None
    except NO_PAM5 as error:
        raise FileError(f"{path} is no .pam5 file that DIPY reads ({error}).") from error
    if affine is None:
        raise FileError(f"{path} holds no affine; give an affine to DIPY's peaks_from_model.")
    return Grid(shape, affine)


def load_pam5(path: Path, axes: str | None = None) -> Fod:
    """Read the peaks of a .pam5 file, whose amplitudes are its peak values; without such, 1.

    DIPY's directions are in the axes of the image, unless its gradients were turned before. Raises
    FileError when DIPY cannot read it, or it holds no affine; InvalidFodError when it holds no
    peaks.
    """
    import numpy as np
    from dipy.io.peaks import load_pam  # on use: DIPY takes a third of a second to load

    from ..model.fod import Fod

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on the sphere, of which nothing is used
            found = load_pam(str(path), verbose=False)
        peaks = np.asarray(found.peak_dirs, dtype=np.float32)
        if found.peak_values is not None:
            peaks = peaks * np.asarray(found.peak_values, dtype=np.float32)[..., None]
    except NO_PAM5 as error:
        raise FileError(f"{path} is no .pam5 file that DIPY reads ({error}).") from error
    if found.affine is None:
        raise FileError(f"{path} holds no affine; give an affine to DIPY's peaks_from_model.")
    return Fod.from_peaks(peaks, np.asarray(found.affine), axes=axes or "voxel", name=path.name)


PAM5 = VolumeFormat((".pam5",), whole=WholeReading(pam5_grid, load_pam5))
