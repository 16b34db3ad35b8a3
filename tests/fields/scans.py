"""A made scan, and what DIPY computes from it: tensors, kurtosis, FODs and peaks.

Each voxel holds one to three fibres in any direction, or none.
"""

from __future__ import annotations

import functools

import numpy as np
from dipy.core.gradients import gradient_table
from dipy.data import default_sphere
from dipy.direction import peaks_from_model
from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel
from dipy.reconst.dki import DiffusionKurtosisModel
from dipy.reconst.dti import TensorModel
from dipy.reconst.shm import CsaOdfModel
from numpy.typing import NDArray

from napari_tractography.geometry.directions import direction_set

Values = NDArray[np.float32]

N_VOXELS = 150
ALONG, ACROSS, FREE = 1.7e-3, 0.3e-3, 2.5e-3  # diffusivities, mm^2/s
# Places of DIPY's lower triangle, xx xy yy xz yz zz, in the other orders.
FROM_DIPY = {"mrtrix": [0, 2, 5, 1, 3, 4], "fsl": [0, 1, 3, 2, 4, 5], "dipy": [0, 1, 2, 3, 4, 5]}


def signals(
    bvals: NDArray[np.float64], units: NDArray[np.float64], snr: float = 30.0
) -> NDArray[np.float64]:
    """Return (N_VOXELS, n) signals, relative to b = 0, with Rician noise."""
    rng = np.random.default_rng(0)
    fibres = rng.normal(size=(N_VOXELS, 3, 3))
    fibres /= np.linalg.norm(fibres, axis=2, keepdims=True)
    cosines = np.einsum("vki,ni->vkn", fibres, units)
    decay = np.exp(-bvals * (ACROSS + (ALONG - ACROSS) * cosines**2))
    weights = rng.dirichlet([0.4] * 4, N_VOXELS)  # mostly one of them, or free water
    clean = np.einsum("vk,vkn->vn", weights[:, :3], decay)
    clean += weights[:, 3:] * np.exp(-bvals * FREE)
    real, imaginary = rng.normal(size=(2, *clean.shape)) / snr
    return np.hypot(clean + real, imaginary) * rng.uniform(500, 1500, (N_VOXELS, 1))


@functools.cache
def scan(*shells: float, n: int = 60):
    """Return the gradient table and the signals: b = 0 first, then n directions a shell."""
    units = np.concatenate([[[0.0, 0, 1]], *[direction_set(2 * n)[:n] for _ in shells]])
    bvals = np.concatenate([[0.0], np.repeat(shells, n)])
    return gradient_table(bvals, bvecs=units), signals(bvals, units)


def dwi(n: int) -> Values:
    """Return n volumes, the first at b = 0."""
    return scan(1000.0, n=n - 1)[1].astype(np.float32)


@functools.cache
def tensors() -> Values:
    table, data = scan(1000.0)
    return TensorModel(table).fit(data).lower_triangular().astype(np.float32)


def kurtosis() -> Values:
    table, data = scan(1000.0, 2000.0)
    return DiffusionKurtosisModel(table).fit(data).kt.astype(np.float32)


def csd_model(lmax: int) -> ConstrainedSphericalDeconvModel:
    response = (np.array([ALONG, ACROSS, ACROSS]), 1000.0)
    return ConstrainedSphericalDeconvModel(scan(3000.0)[0], response, sh_order_max=lmax)


def csd(lmax: int) -> Values:
    """Return the coefficients of FODs, in a basis of DIPY."""
    return csd_model(lmax).fit(scan(3000.0)[1]).shm_coeff.astype(np.float32)


def csa(lmax: int) -> Values:
    """Return the coefficients of diffusion ODFs."""
    table, data = scan(3000.0)
    return CsaOdfModel(table, sh_order_max=lmax).fit(data).shm_coeff.astype(np.float32)


@functools.cache
def peaks(n: int, *, unit: bool) -> Values:
    """Return n peaks a voxel, of length 1 or as long as the FOD is large."""
    found = peaks_from_model(
        csd_model(8), scan(3000.0)[1], default_sphere, 0.3, 25, npeaks=n, normalize_peaks=True
    )
    lengths = np.ones_like(found.peak_values) if unit else found.peak_values
    return (found.peak_dirs * lengths[..., None]).reshape(N_VOXELS, -1).astype(np.float32)
