"""Spherical harmonics as polynomials, for evaluation inside a kernel.

DIPY's bases, whatever their signs and factors, are brought to one form: with m >= 0,
Q(l, m)(z) Re (x + i y)^m at place l (l + 1) / 2 + m and Q(l, m)(z) Im (x + i y)^m at
l (l + 1) / 2 - m, where Q(l, m) is the m-th derivative of the Legendre polynomial divided by
(2 m - 1)!!. Products of polynomials in x, y and z have gradients without poles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import library_of, on_its_device, synchronize
from ..directions import direction_set
from .sh import sh_matrix

FIT_DIRECTIONS = 512  # well above the number of coefficients for lmax 16, 153


def polynomial_matrix(units: ArrayLike, lmax: int) -> NDArray[np.float64]:
    """Evaluate the polynomial basis.

    Parameters
    ----------
    units : (n, 3) array_like
        Unit vectors in the frame of the coefficients.
    lmax : int
        Largest degree, even.

    Returns
    -------
    (n, n_coefficients) float64
    """
    x, y, z = np.asarray(units, dtype=np.float64).T
    matrix = np.empty((len(x), (lmax + 1) * (lmax + 2) // 2))
    for m in range(lmax + 1):
        power = (x + 1j * y) ** m
        columns = {m: np.ones_like(z), m + 1: (2 * m + 1) * z}
        for degree in range(m + 2, lmax + 1):
            columns[degree] = (
                (2 * degree - 1) * z * columns[degree - 1] - (degree + m - 1) * columns[degree - 2]
            ) / (degree - m)
        for degree in range(m + m % 2, lmax + 1, 2):
            centre = degree * (degree + 1) // 2
            matrix[:, centre + m] = columns[degree] * power.real
            if m:
                matrix[:, centre - m] = columns[degree] * power.imag
    return matrix


def polynomial_coefficients(values: Any, lmax: int, basis: str) -> Any:
    """Return coefficients in the polynomial basis.

    The change of basis is solved for on a set of directions, so that DIPY remains the one source
    of the conventions; it is a factor for each coefficient, and another order of m.

    Parameters
    ----------
    values : (n_voxels, n_coefficients) float32
        NumPy's or CuPy's.
    lmax : int
        Largest degree, even.
    basis : str
        One of :data:`~napari_tractography.fields.sh.BASES`.

    Returns
    -------
    (n_voxels, n_coefficients) float32
        Where `values` lie.
    """
    units = direction_set(FIT_DIRECTIONS).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    polynomials = polynomial_matrix(units, lmax)
    scale = np.linalg.norm(polynomials, axis=0)
    harmonics = sh_matrix(units, lmax, basis)
    change = np.linalg.lstsq(polynomials / scale, harmonics, rcond=None)[0] / scale[:, None]
    order = np.abs(change).argmax(axis=1)
    factors = change[np.arange(len(change)), order].astype(np.float32)
    library = library_of(values)
    with on_its_device(values):
        result = library.ascontiguousarray(values[:, library.asarray(order)])
        result *= library.asarray(factors)
    synchronize(result)
    return result
