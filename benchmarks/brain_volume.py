"""A whole brain at the resolution that people scan, made from a template or by code.

Called by the benchmarks that need a volume larger than the caches: brain.py, gpu.py, latency.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import volume

if TYPE_CHECKING:
    from napari_tractography import Fod, Tissues

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT.parent / "shared" / "data" / "reference" / "brain_fod_as_nifti.nii.gz"
ENLARGED = 3  # times, along each axis
LMAX = 8
N_COEFFICIENTS = (LMAX + 1) * (LMAX + 2) // 2
TISSUE = 0.2  # of the largest first coefficient: voxels with less hold no FOD
NOISE = 0.02  # of the largest first coefficient: standard deviation of the noise


def make_brain(path: Path | None = None) -> Fod:
    """Return an FOD of lmax 8 with about 280,000 voxels.

    Parameters
    ----------
    path : Path, optional
        A template to enlarge, tournier07 in scanner axes; by default that of the shared data
        beside the checkout, and a volume made by code where there is none.
    """
    from napari_tractography.files.fods import load_fod

    if path is None and not TEMPLATE.exists():
        made = volume.make_volume()
        return noisy(made.coefficients, made.grid.affine, name=made.name)
    template = load_fod(TEMPLATE if path is None else path)
    return enlarged(template.coefficients, template.grid.affine, name=template.name)


def enlarged(coefficients: NDArray[Any], affine: NDArray[Any], *, name: str) -> Fod:
    """Return the FOD on voxels a third as long, interpolated linearly, with noise.

    The image keeps its place: its edges, not the centres of its outermost voxels, stay where they
    are.

    Parameters
    ----------
    coefficients : (x, y, z, n) array
        SH coefficients, tournier07 in scanner axes, lmax 8 at the most.
    affine : (4, 4) array
        Voxel to RAS+ mm.
    name : str
    """
    from scipy import ndimage

    shape = tuple(ENLARGED * n for n in coefficients.shape[:3])
    fine = np.empty((coefficients.shape[3], *shape), np.float32)
    for one, out in zip(np.moveaxis(coefficients, 3, 0), fine, strict=True):
        ndimage.zoom(one, ENLARGED, out, order=1, mode="grid-constant", grid_mode=True)
    to_coarse = np.diag([1 / ENLARGED] * 3 + [1.0])
    to_coarse[:3, 3] = 0.5 / ENLARGED - 0.5
    return noisy(np.moveaxis(fine, 0, 3), affine @ to_coarse, name=f"{name} enlarged")


def noisy(coefficients: NDArray[Any], affine: NDArray[Any], *, name: str, seed: int = 0) -> Fod:
    """Return the FOD at lmax 8 with noise on every coefficient of the voxels that hold tissue.

    Real FODs are noisy; above the lmax that is given there is nothing but noise. Voxels whose first
    coefficient is below a fifth of the largest are emptied: tissue alone holds fibres.

    Parameters
    ----------
    coefficients : (x, y, z, n) array
    affine : (4, 4) array
    name : str
    seed : int
        Of the noise.
    """
    from napari_tractography import Fod

    largest = float(coefficients[..., 0].max())
    tissue = coefficients[..., 0] > TISSUE * largest
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((np.count_nonzero(tissue), N_COEFFICIENTS), np.float32)
    values = np.float32(NOISE * largest) * noise
    values[:, : coefficients.shape[3]] += coefficients[tissue]
    # Stored as an image is: a volume a coefficient, which is also what a NIfTI file gives.
    stored = np.zeros((N_COEFFICIENTS, *tissue.shape), np.float32)
    stored[:, tissue] = values.T
    return Fod(np.moveaxis(stored, 0, 3), affine, name=name)


def make_tissues(fod: Fod) -> Tissues:
    """Return white matter where there is an FOD, and grey where the outermost voxels of it are."""
    from scipy import ndimage

    from napari_tractography import Tissues
    from napari_tractography.model.tissues import CORTEX, N_TISSUES, WHITE

    white = ndimage.binary_erosion(fod.support)
    fractions = np.zeros((*fod.grid.shape, N_TISSUES), np.float32)
    fractions[white, WHITE] = fractions[fod.support & ~white, CORTEX] = 1
    return Tissues(fractions, fod.grid)


def of_degree(fod: Fod, lmax: int) -> Fod:
    """Return the FOD cut off at a degree, or with zeros above its own."""
    from napari_tractography import Fod

    n = (lmax + 1) * (lmax + 2) // 2
    values = np.asarray(fod.coefficients)[..., :n]
    return Fod(np.pad(values, [(0, 0)] * 3 + [(0, n - values.shape[3])]), fod.grid.affine)


def turned(fod: Fod) -> Fod:
    """Return the FOD with the image turned by 20 degrees about two axes."""
    from napari_tractography import Fod

    c, s = np.cos(np.radians(20)), np.sin(np.radians(20))
    about_z = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    about_x = np.array([[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1]])
    return Fod(np.asarray(fod.coefficients), about_z @ about_x @ fod.grid.affine)
