"""Do an FOD's lobes look like fibres: the same from all sides?  The score that tells bases apart.

Called by :mod:`.coherence`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..directions import direction_set
from ..fields.sh import BASES, sh_matrix
from ..fod import Fod
from .neighbours import sum_of_neighbours, voxel_blocks

N_LOBES = 2  # a voxel's FOD is compared with: a bundle, and one that crosses it
N_DIRECTIONS = 724  # along which lobes are sought at first
N_FINE_DIRECTIONS = 5792  # and then, 2 degrees apart, around the best of the first
N_AROUND = 24  # of the fine ones, to cover the cell of a coarse one
PIECE_VOXELS = 4096  # so many voxels' amplitudes are in memory at once


def lobe_symmetry(
    fod: Fod, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score each basis by how well a voxel's best symmetric lobes foretell its neighbours' FOD.

    A symmetric lobe along u has coefficients z_l Y_lm(u). Its profile z is estimated from the
    whole volume; in each voxel the lobe that correlates best with the FOD is found, then a second
    one in what remains. The score is the cosine between their sum and the sum of the FODs of the
    six voxels next to it, averaged with weights that do not depend on the basis. Directions that
    are wrong in the image do not change it, for they turn all lobes alike.

    Noise makes any FOD look more like a lobe, and more so in one basis than in another; but what
    is fitted to the noise of one voxel foretells nothing about the next, so that noise lowers the
    score and favours no basis. For the same reason vectors are compared in one metric for all
    bases, and one that lies half-way between those in which the present and the legacy forms are
    orthonormal: in either of these, noise would favour one of the two.

    Parameters
    ----------
    fod : Fod
    rows : (n,) int64
        Rows of `fod.values` to use.

    Returns
    -------
    above, below : (n_blocks, n_bases) float64
        What each block adds to the numerator and to the denominator of the score.
    """
    blocks = voxel_blocks(fod)[rows]
    n_blocks = int(blocks.max()) + 1
    metric = _half_way_metric(fod.lmax)
    # The mean over directions looks alike in all bases.
    own = fod.values[rows, 1:] * metric
    neighbours = sum_of_neighbours(fod, rows)[:, 1:] * metric
    weights = np.linalg.norm(own, axis=1).astype(np.float64)
    below = np.bincount(blocks, weights * np.linalg.norm(neighbours, axis=1), n_blocks)
    above = np.empty((n_blocks, len(BASES)))
    for k, basis in enumerate(BASES):
        lobes = _Lobes(basis, fod.lmax, own, neighbours, metric)
        pieces = [slice(i, i + PIECE_VOXELS) for i in range(0, len(rows), PIECE_VOXELS)]
        fits = [lobes.fit(own[piece]) for piece in pieces]
        products = np.concatenate(
            [
                np.einsum("nk,nk->n", fit, neighbours[piece])
                for fit, piece in zip(fits, pieces, strict=True)
            ]
        )
        lengths = np.concatenate([np.linalg.norm(fit, axis=1) for fit in fits])
        cosines = np.divide(products, lengths, out=np.zeros(len(rows)), where=lengths > 0)
        above[:, k] = np.bincount(blocks, weights * cosines, n_blocks)
    return above, np.repeat(below[:, None], len(BASES), axis=1)


class _Lobes:
    """Symmetric lobes in all directions, in a file's coefficients under one basis.

    Parameters
    ----------
    basis : str
    lmax : int
    own, neighbours : (n, n_coefficients) float32
        Of the voxels in use and of those next to them, in the metric and without degree 0.
    metric : (n_coefficients,) float32
        Factors of the coefficients.
    """

    def __init__(
        self,
        basis: str,
        lmax: int,
        own: NDArray[np.float32],
        neighbours: NDArray[np.float32],
        metric: NDArray[np.float32],
    ) -> None:
        coarse = direction_set(N_DIRECTIONS)[: N_DIRECTIONS // 2].astype(np.float64)
        fine = direction_set(N_FINE_DIRECTIONS)
        harmonics = sh_matrix(fine, lmax, "tournier07")[:, 1:]
        to_orthonormal = np.linalg.pinv(harmonics) @ sh_matrix(fine, lmax, basis)[:, 1:] / metric
        # Power that a voxel shares with the next ones is power without noise.
        shared = to_orthonormal @ (own.T @ neighbours).astype(np.float64) @ to_orthonormal.T
        profile = np.zeros(len(metric))
        degrees = _degrees(lmax)
        for degree in range(2, lmax + 1, 2):
            mine = degrees == degree
            power = max(float(np.diag(shared)[mine].sum()), 0.0)
            profile[mine] = np.sqrt(power / (2 * degree + 1))
        if not profile.any():  # neighbours have nothing in common: any lobe is as good
            profile[:] = 1.0
        from_orthonormal = np.linalg.inv(to_orthonormal)

        def coefficients(amplitudes: NDArray[np.float64]) -> NDArray[np.float32]:
            lobes = (profile * amplitudes) @ from_orthonormal.T
            lobes /= np.linalg.norm(lobes, axis=1, keepdims=True)
            return np.asarray(lobes, dtype=np.float32)

        self.coarse = coefficients(sh_matrix(coarse, lmax, "tournier07")[:, 1:])
        self.fine = coefficients(harmonics)
        self.around = cKDTree(fine).query(coarse, N_AROUND)[1]

    def fit(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the sum of the lobes that lie best in each row of (n, n_coefficients) values."""
        rest = values.copy()
        for _ in range(N_LOBES):
            near = self.around[(rest @ self.coarse.T).argmax(axis=1)]
            products = np.einsum("nk,nik->ni", rest, self.fine[near])
            best = products.argmax(axis=1)[:, None]
            lobes = self.fine[np.take_along_axis(near, best, axis=1)[:, 0]]
            rest -= np.maximum(np.take_along_axis(products, best, axis=1), 0.0) * lobes
        return values - rest


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
