"""Spherical harmonics as polynomials, for evaluation inside a kernel.

An even function of degree L on the sphere is a sum over m = 0 ... L of the real and imaginary part
of (x + i y)^m, times z where m is odd, times a polynomial in v = z^2 - s(m). An asymmetric function
has a second such sum, of the odd degrees up to L - 1, with z where m is even. Horner's scheme then
takes one multiplication and one addition a coefficient, there are no poles, and derivatives are
those of polynomials. The shift s(m) = 1 / (m + 2) keeps rounding small: in 32 bits the error is
some 20 (lmax 8) to 500 (lmax 16) times that of a single coefficient; without shifts it would be
150 to 90,000 times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..geometry.directions import direction_set

FIT_DIRECTIONS = 512  # well above the number of coefficients for lmax 16, 153; 289 of all degrees


def shifts(lmax: int, is_asymmetric: bool = False) -> NDArray[np.float32]:
    """Return s(m), (lmax + 1,) float32.

    Of an asymmetric function one more, which is not used: kernels are compiled for how many there
    are, and tell by that whether there are odd degrees.
    """
    return (1.0 / (np.arange(lmax + 1 + is_asymmetric) + 2.0)).astype(np.float32)


def largest_degrees(lmax: int, is_asymmetric: bool = False) -> tuple[int, ...]:
    """Return the largest degree of each sum: of even degrees, then maybe of odd ones."""
    return (lmax, lmax - 1) if is_asymmetric else (lmax,)


def polynomial_matrix(
    units: ArrayLike, lmax: int, is_asymmetric: bool = False
) -> NDArray[np.float64]:
    """Evaluate the polynomial basis, in the order of the kernels: (n, n_coefficients) float64.

    For m = 0 the powers of v come from the highest to 1; for each larger m likewise, the real and
    the imaginary part side by side; then those of odd degrees in the same order. Of (n, 3) unit
    vectors in the frame of the coefficients.
    """
    x, y, z = np.asarray(units, dtype=np.float64).T
    of_orders = shifts(lmax).astype(np.float64)
    columns = []
    for largest in largest_degrees(lmax, is_asymmetric):
        for m, shift in enumerate(of_orders[: largest + 1]):
            power = (x + 1j * y) ** m * (z if (largest - m) % 2 else 1.0)
            for k in range((largest - m) // 2, -1, -1):
                column = (z * z - shift) ** k * power
                columns += [column.real, column.imag] if m else [column.real]
    return np.stack(columns, axis=1)


@lru_cache(maxsize=2)
def _solver(lmax: int, is_asymmetric: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return directions, and the matrix that gives coefficients from values there."""
    units = direction_set(FIT_DIRECTIONS).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    polynomials = polynomial_matrix(units, lmax, is_asymmetric)
    scale = np.linalg.norm(polynomials, axis=0)
    return units, np.linalg.pinv(polynomials / scale) / scale[:, None]


def change_of_basis(
    sample_matrix: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    lmax: int,
    is_asymmetric: bool = False,
) -> NDArray[np.float64]:
    """Return the (n_coefficients, n_coefficients) float64 matrix to the polynomial basis.

    It is solved for on a set of directions, so that the library of the other coefficients stays the
    one source of their conventions, axes included: `sample_matrix` takes (n, 3) unit vectors and
    returns the (n, n_coefficients) matrix that gives amplitudes.
    """
    units, solve = _solver(lmax, is_asymmetric)
    return np.asarray(solve @ sample_matrix(units), dtype=np.float64)
