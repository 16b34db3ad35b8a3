"""Do an FOD's lobes look like fibres: the same from all sides?  The score that tells bases apart.

Called by :mod:`.coherence`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..fields.readings import BASES
from ..fields.sh import sh_matrix
from ..geometry.directions import direction_set
from ..model.fod import Fod
from .neighbours import checkerboard_halves, voxel_blocks

N_LOBES = 3  # as many bundles as a voxel may hold
MAX_VOXELS = 100_000  # in use; more would cost time and decide nothing
N_DIRECTIONS = 724  # along which lobes are sought at first
N_FINE_DIRECTIONS = 5792  # and then, 2 degrees apart, around the best of the first
N_AROUND = 24  # of the fine ones, to cover the cell of a coarse one
PIECE_VOXELS = 4096  # so many voxels' amplitudes are in memory at once


def lobe_symmetry(
    fod: Fod, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score each basis by how well symmetric lobes, fitted to one half, foretell the other.

    A symmetric lobe along u has coefficients z_l Y_lm(u). Its profile z is estimated from the
    whole volume. Around each voxel the FODs of two sets of voxels are summed, see
    :func:`~napari_tractography.maps.neighbours.checkerboard_halves`. To one sum three lobes are
    fitted, each to what the ones before have left. The score is the cosine between the fit and
    the other sum, averaged over both ways and all voxels, with the scalar product of the two sums
    as weights, or 0 where it is negative. Directions that are wrong in the image do not change
    it, for they turn all lobes alike.

    The halves are there because of noise. It makes any FOD look more like a lobe, in one basis
    more than in another; but what is fitted to the noise of one half foretells nothing about the
    other. Each half is a sum over 13 or 14 voxels because a right basis follows lobes that noise
    has tilted more closely than a wrong one does: with single voxels it would lose by that. For
    the same reason vectors are compared in one metric for all bases, and one that lies half-way
    between those in which tournier07 and its legacy form are orthonormal: either of these would
    favour one of the two.

    `rows`, (n,) int64, are those of `fod.values` to use, thinned out where there are more than
    :data:`MAX_VOXELS`. Returned is what each block adds to the numerator and to the denominator of
    the score, (n_blocks, n_bases) float64 each.
    """
    rows = rows[:: -(-len(rows) // MAX_VOXELS)]
    blocks = voxel_blocks(fod)[rows]
    n_blocks = int(blocks.max()) + 1
    metric = _half_way_metric(fod.lmax)
    # The mean over directions looks alike in all bases.
    first, second = checkerboard_halves(fod, rows)[:, :, 1:] * metric
    weights = np.maximum(_row_products(first, second), 0.0).astype(np.float64)
    below = np.bincount(blocks, weights, n_blocks)
    above = np.empty((n_blocks, len(BASES)))
    for k, basis in enumerate(BASES):
        lobes = _Lobes(basis, fod.lmax, first, second, metric)
        cosines = (lobes.cosines(first, second) + lobes.cosines(second, first)) / 2.0
        above[:, k] = np.bincount(blocks, weights * cosines, n_blocks)
    return above, np.repeat(below[:, None], len(BASES), axis=1)


class _Lobes:
    """Symmetric lobes in all directions, in a file's coefficients under one basis.

    `first` and `second`, (n, n_coefficients) float32, are the two halves, in the metric and without
    degree 0; the metric, (n_coefficients,) float32, are factors of the coefficients.
    """

    def __init__(
        self,
        basis: str,
        lmax: int,
        first: NDArray[np.float32],
        second: NDArray[np.float32],
        metric: NDArray[np.float32],
    ) -> None:
        coarse, fine = direction_set(N_DIRECTIONS), direction_set(N_FINE_DIRECTIONS)
        harmonics = _orthonormal(N_DIRECTIONS, lmax)
        fine_harmonics = _orthonormal(N_FINE_DIRECTIONS, lmax)
        to_orthonormal = _change_of_basis(basis, lmax) / metric
        # The power that both halves share is power without noise.
        shared = to_orthonormal @ (first.T @ second).astype(np.float64) @ to_orthonormal.T
        profile = np.zeros(len(metric))
        degrees = _degrees(lmax)
        for degree in range(2, lmax + 1, 2):
            mine = degrees == degree
            power = max(float(np.diag(shared)[mine].sum()), 0.0)
            profile[mine] = np.sqrt(power / (2 * degree + 1))
        if not profile.any():  # the halves have nothing in common: any lobe is as good
            profile[:] = 1.0
        from_orthonormal = np.linalg.inv(to_orthonormal)

        def coefficients(amplitudes: NDArray[np.float64]) -> NDArray[np.float32]:
            lobes = (profile * amplitudes) @ from_orthonormal.T
            lobes /= np.linalg.norm(lobes, axis=1, keepdims=True)
            return np.asarray(lobes, dtype=np.float32)

        half = N_DIRECTIONS // 2
        self.coarse = coefficients(harmonics[:half])
        self.fine = coefficients(fine_harmonics)
        self.around = cKDTree(fine).query(coarse[:half], N_AROUND)[1]

    def cosines(
        self, fitted: NDArray[np.float32], other: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return (n,) float32: how the fit to one half agrees with the other half."""
        result = np.zeros(len(fitted), np.float32)
        for start in range(0, len(fitted), PIECE_VOXELS):
            piece = slice(start, start + PIECE_VOXELS)
            fit = self._fit(fitted[piece])
            lengths = np.linalg.norm(fit, axis=1) * np.linalg.norm(other[piece], axis=1)
            products = _row_products(fit, other[piece])
            np.divide(products, lengths, out=result[piece], where=lengths > 0)
        return result

    def _fit(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the sum of the lobes that lie best in each row of (n, n_coefficients) values."""
        rest = values.copy()
        for _ in range(N_LOBES):
            near = self.around[(rest @ self.coarse.T).argmax(axis=1)]
            products = np.matmul(self.fine[near], rest[:, :, None])[:, :, 0]
            best = products.argmax(axis=1)[:, None]
            lobes = self.fine[np.take_along_axis(near, best, axis=1)[:, 0]]
            rest -= np.maximum(np.take_along_axis(products, best, axis=1), 0.0) * lobes
        return values - rest


def _row_products(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.einsum("nk,nk->n", a, b))


@lru_cache(maxsize=4)
def _orthonormal(n_directions: int, lmax: int) -> NDArray[np.float64]:
    """Return (n_directions, n_coefficients): orthonormal harmonics but the first, on a set."""
    return sh_matrix(direction_set(n_directions), lmax, "tournier07")[:, 1:]


@lru_cache(maxsize=len(BASES))
def _change_of_basis(basis: str, lmax: int) -> NDArray[np.float64]:
    """Return the matrix that gives coefficients of orthonormal harmonics, the first left out."""
    harmonics = _orthonormal(N_DIRECTIONS, lmax)
    others = sh_matrix(direction_set(N_DIRECTIONS), lmax, basis)[:, 1:]
    return np.linalg.pinv(harmonics) @ others


def _degrees(lmax: int) -> NDArray[np.int64]:
    """Return the degree of each coefficient but the first."""
    return np.repeat(np.arange(2, lmax + 1, 2), [2 * n + 1 for n in range(2, lmax + 1, 2)])


def _half_way_metric(lmax: int) -> NDArray[np.float32]:
    """Return factors of all coefficients but the first.

    The harmonics of the two forms of tournier07 differ by the square root of 2 where the order is
    not 0; the metric has half of it.
    """
    orders = np.concatenate([np.arange(-n, n + 1) for n in range(2, lmax + 1, 2)])
    return np.where(orders == 0, 1.0, 2.0**-0.25).astype(np.float32)
