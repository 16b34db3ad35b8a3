"""Real, even spherical harmonics (SH): the bases in use, and the axes they are given in.

Evaluated by DIPY. Read by :mod:`napari_tractography.fod`, which holds coefficients.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

BASES = ("tournier07", "descoteaux07", "tournier07_legacy", "descoteaux07_legacy")
FRAMES = ("scanner", "voxel")
MAX_LMAX = 16
# MRtrix3 works in scanner axes, DIPY in voxel axes.
DEFAULT_FRAMES = {
    "tournier07": "scanner",
    "tournier07_legacy": "scanner",
    "descoteaux07": "voxel",
    "descoteaux07_legacy": "voxel",
}
SH_COUNTS = {(lmax + 1) * (lmax + 2) // 2: lmax for lmax in range(0, MAX_LMAX + 1, 2)}


def sh_matrix(units: ArrayLike, lmax: int, basis: str) -> NDArray[np.float64]:
    """Evaluate the real, even spherical harmonics.

    Parameters
    ----------
    units : (n, 3) array_like
        Unit vectors in the frame of the coefficients.
    lmax : int
        Largest degree, even.
    basis : str
        One of :data:`BASES`. "tournier07" is MRtrix3's (Tournier et al., NeuroImage 202, 2019),
        "descoteaux07" DIPY's (Descoteaux et al., MRM 58, 2007); the legacy forms are those of
        MRtrix 0.2 and of older DIPY.

    Returns
    -------
    (n, n_coefficients) float64
    """
    x, y, z = np.asarray(units, dtype=np.float64).T
    polar = np.arccos(np.clip(z / np.sqrt(x * x + y * y + z * z), -1.0, 1.0))
    azimuth = np.arctan2(y, x)
    # On use: DIPY takes a third of a second to load, and the command's help wants only the names.
    from dipy.reconst.shm import real_sh_descoteaux, real_sh_tournier

    evaluate = real_sh_tournier if basis.startswith("tournier07") else real_sh_descoteaux
    matrix, orders, _ = evaluate(lmax, polar, azimuth, legacy=False)
    # DIPY warns at each use of its legacy forms and will drop them: they are the present ones up
    # to a factor a column.
    if basis == "tournier07_legacy":  # not normalised
        matrix = matrix * np.where(orders == 0, 1.0, np.sqrt(0.5))
    elif basis == "descoteaux07_legacy":  # |m| in place of a negative m
        matrix = matrix * np.where((orders < 0) & (orders % 2 == 1), -1.0, 1.0)
    return np.asarray(matrix, dtype=np.float64)
