"""Histological ODFs: how the orientations of an image are distributed within blocks of voxels.

A block of k x k x k voxels becomes one voxel of an FOD: the mean of a lobe along the orientation of
each, weighted by its amplitude (after Axer et al., Front. Neuroanat. 10:40, 2016, who add spherical
harmonics of the orientations of polarised-light images). Several directions of one block, such as
those of tows that cross, are then several peaks, which the probabilistic algorithms choose among.

A lobe of degree 8 is a polynomial of that degree, and so the mean lobe is known by the 45 moments
of degree 8 of the orientations, which are sums of products; no harmonic is evaluated for a voxel.
Called by :mod:`napari_tractography.model.fod`.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import product

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from ..errors import InvalidImageError
from ..geometry.directions import direction_set
from ..geometry.grid import Grid
from .block_store import Source
from .sh import sh_matrix

LMAX = 8
# The square of the sum of (2 l + 1) P_l to degree 4 is nowhere negative, has no degree above 8, and
# is narrower than cos^8: half as high at 17 degrees, not at 23.
HALF_LOBE = (1.0, 0.0, 5.0, 0.0, 9.0)
SMALLEST, LARGEST = 2, 64  # voxels along an edge of a block
BOX_VOXELS = 64  # as many along each axis are worked out at a time, as far as blocks fit in
N_DIRECTIONS = 724  # for which polynomials and harmonics are made the same
MOST_BLOCKS = 1 << 23  # 1.5 GB of coefficients

EXPONENTS = tuple(
    (a, b, LMAX - a - b) for a in range(LMAX + 1) for b in range(LMAX + 1 - a)
)  # of x, y and z in a moment

Progress = Callable[[float], None]


def block_odfs(
    source: Source, odf_voxels: int, progress: Progress | None = None
) -> tuple[NDArray[np.float32], Grid]:
    """Work out the ODFs of all blocks of an image.

    See :meth:`napari_tractography.model.fod.Fod.from_image`. Raises InvalidImageError when the edge
    is too small or too large, or there would be too many blocks; FileError when the image cannot be
    read.

    Returns
    -------
    coefficients : (x, y, z, 45) float32
        In the basis tournier07, RAS+ axes; zero where there is no orientation. The amplitude along
        the fibres of a block in which all are parallel is their mean linearity. Blocks at the far
        ends hold what is left.
    grid : Grid
        Whose voxels are the blocks.
    """
    grid = source.grid
    shape = _checked_blocks(odf_voxels, grid, source.name)
    coefficients = np.zeros((*shape, len(EXPONENTS)), np.float32)
    boxes = list(_boxes(shape, max(1, BOX_VOXELS // odf_voxels)))
    for n_done, (box, found) in enumerate(_worked_out(source, odf_voxels, boxes), 1):
        coefficients[box] = found
        if progress is not None:
            progress(n_done / len(boxes))
    to_voxel = np.diag([odf_voxels, odf_voxels, odf_voxels, 1.0])
    to_voxel[:3, 3] = (odf_voxels - 1) / 2
    return coefficients, grid.beside(shape, grid.affine @ to_voxel)


def _checked_blocks(odf_voxels: int, grid: Grid, name: str) -> tuple[int, int, int]:
    """Return how many blocks there are along each axis."""
    if odf_voxels != int(odf_voxels) or not SMALLEST <= odf_voxels <= LARGEST:
        raise InvalidImageError(
            f"odf_voxels = {odf_voxels!r} is no edge of a block; give a whole number from "
            f"{SMALLEST} to {LARGEST}."
        )
    x, y, z = (-(-n // odf_voxels) for n in grid.shape)
    if x * y * z > MOST_BLOCKS:
        raise InvalidImageError(
            f"{name} has {x * y * z:,} blocks of {odf_voxels}^3 voxels, more than "
            f"{MOST_BLOCKS:,}; give larger ones."
        )
    return x, y, z


def _boxes(shape: tuple[int, int, int], size: int) -> Iterator[tuple[slice, slice, slice]]:
    """Return parts of a volume of blocks, of so many along each axis."""
    for x, y, z in product(*(range(0, n, size) for n in shape)):
        ends = (min(a + size, n) for a, n in zip((x, y, z), shape, strict=True))
        a, b, c = (slice(first, last) for first, last in zip((x, y, z), ends, strict=True))
        yield a, b, c


def _worked_out(
    source: Source, k: int, boxes: list[tuple[slice, slice, slice]]
) -> Iterator[tuple[tuple[slice, slice, slice], NDArray[np.float32]]]:
    """Return the coefficients of boxes, in their order; a few at a time are worked out ahead."""
    n_threads = max(1, min(os.cpu_count() or 1, len(boxes)))
    waiting: deque[Future[NDArray[np.float32]]] = deque()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="tractography-odfs") as pool:
        try:
            ahead = iter(boxes)
            for box in boxes:
                while len(waiting) < 2 * n_threads:
                    following = next(ahead, None)
                    if following is None:
                        break
                    waiting.append(pool.submit(_of_box, source, k, following))
                yield box, waiting.popleft().result()
        finally:
            for future in waiting:
                with contextlib.suppress(Exception):
                    future.cancel()


def _of_box(source: Source, k: int, box: tuple[slice, slice, slice]) -> NDArray[np.float32]:
    first = [part.start * k for part in box]
    last = [min(part.stop * k, n) for part, n in zip(box, source.grid.shape, strict=True)]
    return block_coefficients(source.vectors(first, last), k)


def block_coefficients(vectors: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """Return the SH coefficients of the mean lobes of blocks of k voxels along an edge.

    Of (x, y, z, 3) float32 vectors, RAS+, whose lengths are the largest amplitudes of lobes, zero
    without an orientation, they are (x / k, y / k, z / k, 45) float32, rounded up.
    """
    x, y, z = vectors.shape[:3]
    shape = tuple(-(-n // k) for n in (x, y, z))
    whole = np.zeros((*(n * k for n in shape), 3), np.float32)
    whole[:x, :y, :z] = vectors
    lengths = np.linalg.norm(whole, axis=3)
    units = np.divide(whole, lengths[..., None], out=whole, where=lengths[..., None] > 0)
    powers = [_powers(units[..., axis]) for axis in range(3)]
    moments = np.empty((*shape, len(EXPONENTS)), np.float32)
    for column, (a, b, c) in enumerate(EXPONENTS):
        term = lengths * powers[0][a] * powers[1][b] * powers[2][c]
        blocks = term.reshape(shape[0], k, shape[1], k, shape[2], k)
        moments[..., column] = blocks.sum(axis=(1, 3, 5))
    counts = [np.minimum(k, n - k * np.arange(m)) for n, m in zip((x, y, z), shape, strict=True)]
    n_voxels = counts[0][:, None, None] * counts[1][:, None] * counts[2]
    mean = moments.astype(np.float64) / n_voxels[..., None]
    # Not by "@" for all at once: that would wake threads, of which there are enough.
    found = np.einsum("xyzm,cm->xyzc", mean, _of_moments())
    return np.asarray(found, dtype=np.float32)


def _powers(values: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    powers = [np.ones_like(values)]
    for _ in range(LMAX):
        powers.append(powers[-1] * values)
    return powers


@cache
def _of_moments() -> NDArray[np.float64]:
    """Return the matrix from moments of orientations to SH coefficients of the mean lobe.

    A lobe cos^8 along u has at d the amplitude (u . d)^8, a sum of products of moments of u and
    monomials of d; on as many directions the latter are solved for harmonics, whose degrees are
    then given the weights of the narrower lobe.
    """
    directions = direction_set(N_DIRECTIONS).astype(np.float64)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x, y, z = directions.T
    monomials = [
        math.factorial(LMAX)
        / (math.factorial(a) * math.factorial(b) * math.factorial(c))
        * x**a
        * y**b
        * z**c
        for a, b, c in EXPONENTS
    ]
    harmonics = sh_matrix(directions, LMAX, "tournier07")
    solved = np.linalg.pinv(harmonics) @ np.stack(monomials, axis=1)
    lobe = legendre.legmul(HALF_LOBE, HALF_LOBE)
    cosine_power = legendre.poly2leg([0.0] * LMAX + [1.0])
    degrees = np.concatenate([[degree] * (2 * degree + 1) for degree in range(0, LMAX + 1, 2)])
    weights = lobe[degrees] / cosine_power[degrees] / legendre.legval(1.0, lobe)
    return np.asarray(weights[:, None] * solved)
