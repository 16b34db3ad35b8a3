"""Is the file read as it was written? Basis, frame and axes of the directions, by the FOD itself.

A wrong basis, frame or gradient table leaves every picture plausible and every streamline wrong.
Two properties of true FODs give them away, and neither needs a known bundle:

- *Symmetry.* A fibre's lobe is the same from all sides. In the wrong basis lobes come apart, in
  whatever direction they point; so this tells the bases from one another and nothing else.
- *Coherence.* Along a fibre, the FOD in the fibre's direction stays the same from one place to
  the next (Reisert & Kiselev, IEEE TMI 30, 2011), while across it bundles end. So this tells how
  the directions lie in the image. It is the idea of the fibre coherence index (Schilling et al.,
  MRI 58, 2019) with all amplitudes in place of peaks.

Called by the command and the plugin.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..directions import direction_set
from ..errors import InvalidFodError
from ..fields.sh import BASES, DEFAULT_FRAMES, FRAMES, sh_matrix
from ..fod import Fod
from .neighbours import half_offsets, voxel_blocks

REACH_VOXELS = 3.0  # how far neighbours are compared: beyond, curved fibres have turned away
MAX_VOXELS = 300_000  # starting voxels in use; more would cost time and decide nothing
N_DIRECTIONS = 724  # on which a lobe's top is sought
PIECE_VOXELS = 16_384  # so many voxels' amplitudes are held at once
# Readings whose scores differ by less are called undecidable.
CLEAR_STANDARD_ERRORS = 3.0
# Readings whose amplitudes differ by less, relative to the largest harmonic, are one reading:
# axes 0.05 degrees apart.
SAME_FOD = 3e-3
IDENTITY = "+x+y+z"


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the file, and how well it fits.

    Attributes
    ----------
    basis, frame : str
        As :class:`~napari_tractography.fod.Fod` takes them.
    axes : str
        What the file's direction axes x, y, z are in truth: "+x+y+z" as they should be, "-x+y+z"
        with x flipped, "+y+x+z" with x and y swapped. Axes of the frame.
    symmetry : float
        Share of the FOD's anisotropic energy that lobes of axial symmetry hold, at most 1.
    coherence : float
        Correlation of amplitudes along their own direction, at most 1.
    deficit : float
        Standard errors by which it falls short of the best reading: in symmetry where that tells
        the bases apart, else in coherence.
    same_as : tuple of str
        Other readings that give the identical FOD, in words.
    """

    basis: str
    frame: str
    axes: str
    symmetry: float
    coherence: float
    deficit: float
    same_as: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The reading in words."""
        return _words(self.basis, self.frame, self.axes)

    @property
    def is_tied(self) -> bool:
        """Whether the data cannot tell it from the best."""
        return self.deficit < CLEAR_STANDARD_ERRORS

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        return {
            "reading": self.text,
            "basis": self.basis,
            "frame": self.frame,
            "axes": self.axes,
            "symmetry": self.symmetry,
            "coherence": self.coherence,
            "deficit": self.deficit if math.isfinite(self.deficit) else None,
            "tied": self.is_tied,
            "same_as": list(self.same_as),
        }


@dataclass(frozen=True, slots=True)
class Coherence:
    """How well each reading of an FOD file fits.

    Attributes
    ----------
    name : str
        Of the FOD.
    readings : tuple of Reading
        All that differ, the best first.
    in_use : Reading
        The one with which the FOD was read.
    best : Reading
        The one that fits best. Among those that the data cannot tell apart, the one in use, or
        else the simplest: in its basis, with the fewest axes flipped or swapped.
    """

    name: str
    readings: tuple[Reading, ...]
    in_use: Reading
    best: Reading

    @property
    def fits(self) -> bool:
        """Whether no other reading is clearly better than the one in use."""
        return self.in_use.is_tied

    @property
    def ambiguous(self) -> tuple[Reading, ...]:
        """The readings besides the best that the data cannot tell from it."""
        return tuple(r for r in self.readings if r.is_tied and r is not self.best)

    @property
    def verdict(self) -> str:
        """Whether the file is read rightly, in plain words."""
        read = f"{self.name} is read as {self.in_use.text}"
        ties = self.ambiguous
        if len(ties) == len(self.readings) - 1:
            return (
                f"{read}; its voxels do not tell whether that is right, for neighbours have no "
                "directions in common."
            )
        if self.fits:
            text = f"{read}, and no other reading fits better."
        else:
            text = (
                f"{read}, but {self.best.text} fits better: symmetry {self.best.symmetry:.3f} "
                f"against {self.in_use.symmetry:.3f}, coherence {self.best.coherence:.3f} against "
                f"{self.in_use.coherence:.3f}, {self.in_use.deficit:.0f} standard errors apart."
            )
        if ties:
            text += f" Not to be told from it: {'; '.join(r.text for r in ties)}."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        return {
            "name": self.name,
            "fits": self.fits,
            "verdict": self.verdict,
            "in_use": self.in_use.to_dict(),
            "best": self.best.to_dict(),
            "readings": [reading.to_dict() for reading in self.readings],
        }


def coherence(fod: Fod) -> Coherence:
    """Score every reading of an FOD: basis, frame, flips and swaps of the direction axes.

    The symmetry of a voxel is the largest value over all directions u of
    sum_l f_l(u) (4 pi P_l / (2 l + 1))^(1/2) / sum_l P_l, with f_l the part of degree l >= 2 of
    the FOD and P_l its power; by the inequality of Cauchy and Schwarz it is 1 only for a single
    lobe symmetric about its axis. Its mean over voxels, weighted by the norm of the stored
    coefficients, does not depend on how the lobes point.

    The coherence is sum f(x, u) f(x + h u, u) / sum f(x, u)^2 over all voxels x and their
    neighbours, where u points from one to the other, so that nothing is interpolated, and
    without the FOD's mean over directions. Pairs that leave the image do not count; a voxel
    without an FOD counts as zero. Being quadratic, it needs one matrix for each neighbour, from
    which all readings follow.

    Standard errors are by the jackknife over 512 blocks of the volume.

    Parameters
    ----------
    fod : Fod

    Returns
    -------
    Coherence

    Raises
    ------
    InvalidFodError
        When the FOD has no directions (lmax 0).
    """
    if fod.lmax < 2 or not fod.values[:, 1:].any():
        raise InvalidFodError(
            f"{fod.name} has lmax {fod.lmax} and the same amplitude in all directions, so that its "
            "axes cannot be judged; give an FOD with lmax 2 or more."
        )
    keys, same = _distinct_readings(fod)
    symmetry = _Scores(*_symmetry(fod))
    aligned = _Scores(*_coherence(fod, keys))

    order = {basis: k for k, basis in enumerate(BASES)}
    basis_of = np.array([order[basis] for basis, _, _ in keys])
    best_basis = int(np.argmax(symmetry.scores))
    basis_deficits = symmetry.deficits(best_basis)
    deficits = np.empty(len(keys))
    for basis in range(len(BASES)):
        mine = np.flatnonzero(basis_of == basis)
        if not len(mine):  # identical with another basis, such as the legacy one at low degrees
            continue
        top = mine[np.argmax(aligned.scores[mine])]
        # Coherence is compared within a basis only: lobes of another shape correlate otherwise.
        clear = basis_deficits[basis] >= CLEAR_STANDARD_ERRORS
        deficits[mine] = basis_deficits[basis] if clear else aligned.deficits(top)[mine]
    peers = deficits[basis_of == best_basis]
    if np.count_nonzero(peers < CLEAR_STANDARD_ERRORS) > len(peers) / 2:
        deficits[:] = 0.0  # no directions to speak of, as in noise: then symmetry means nothing
    readings = [
        Reading(
            *key,
            symmetry=float(symmetry.scores[basis_of[k]]),
            coherence=float(aligned.scores[k]),
            deficit=float(deficits[k]),
            same_as=same[k],
        )
        for k, key in enumerate(keys)
    ]
    in_use = readings[0]

    def simplicity(reading: Reading) -> tuple[bool, int, bool, float]:
        return (
            reading.basis != fod.basis,
            _complexity(reading.axes),
            reading.frame != DEFAULT_FRAMES[reading.basis],
            -reading.coherence,
        )

    best = in_use if in_use.is_tied else min((r for r in readings if r.is_tied), key=simplicity)
    readings.sort(key=lambda r: (r is not best, not r.is_tied, -r.symmetry, -r.coherence))
    return Coherence(fod.name, tuple(readings), in_use, best)


class _Scores:
    """Ratios of sums over blocks, and the standard errors of their differences.

    Parameters
    ----------
    above, below : (n_blocks, n_readings) float64
        What each block adds to the numerator and to the denominator.
    """

    def __init__(self, above: NDArray[np.float64], below: NDArray[np.float64]) -> None:
        used = (below != 0).any(axis=1)
        above, below = above[used], below[used]
        floor = np.finfo(np.float64).tiny
        self.scores = above.sum(axis=0) / np.maximum(below.sum(axis=0), floor)
        rest = np.maximum(below.sum(axis=0) - below, floor)
        self.without = (above.sum(axis=0) - above) / rest

    def deficits(self, best: int) -> NDArray[np.float64]:
        """Return by how many standard errors each reading falls short of the best one."""
        n = len(self.without)
        short = self.scores[best] - self.scores
        if n < 2:
            return np.zeros(len(short))
        varied = self.without[:, best, None] - self.without
        errors = np.sqrt((n - 1) * varied.var(axis=0))
        resolution = np.finfo(np.float32).eps  # of the coefficients: no difference is below it
        return np.asarray(np.where(short > resolution, short / np.maximum(errors, resolution), 0.0))


def _signed_permutations() -> dict[str, NDArray[np.float64]]:
    """Return the 24 ways to swap and flip axes that differ for antipodally symmetric FODs.

    Keys name the true axis of each of the file's; the matrix maps true axes to the file's. Of a
    matrix and its negative, the one with fewer flips.
    """
    found: dict[str, NDArray[np.float64]] = {}
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            if signs.count(-1) > 1:
                continue
            matrix = np.zeros((3, 3))
            matrix[range(3), order] = signs
            key = "".join("+-"[s < 0] + "xyz"[k] for s, k in zip(signs, order, strict=True))
            found[key] = matrix
    return found


PERMUTATIONS = _signed_permutations()


def _words(basis: str, frame: str, axes: str) -> str:
    text = f"{basis}, {frame} axes"
    if axes == IDENTITY:
        return text
    names = [axes[k : k + 2] for k in (0, 2, 4)]
    if axes.replace("-", "+") == IDENTITY:
        return f"{text}, {next(n[1] for n in names if n[0] == '-')} flipped"
    return f"{text}, x y z being {' '.join(n.replace('+', '') for n in names)}"


def _units(units: NDArray[np.float64], fod: Fod, frame: str, axes: str) -> NDArray[np.float64]:
    """Turn (n, 3) RAS+ units into the axes of the file's coefficients, as a reading has them."""
    inside = units @ fod.grid.axes if frame == "voxel" else units
    return np.asarray(inside @ PERMUTATIONS[axes].T)


def _distinct_readings(
    fod: Fod,
) -> tuple[list[tuple[str, str, str]], list[tuple[str, ...]]]:
    """Return the readings that give different FODs, and for each the others of the same FOD.

    The first is the one in use. Each is named by the plainest of its names.
    """
    units = direction_set(64)[:32].astype(np.float64)
    keys: list[tuple[str, str, str]] = []
    same: list[list[str]] = []
    tables: list[NDArray[np.float64]] = []
    bases = sorted(BASES, key=lambda basis: basis != fod.basis)
    for axes, basis in itertools.product(sorted(PERMUTATIONS, key=_complexity), bases):
        usual = fod.frame if basis == fod.basis else DEFAULT_FRAMES[basis]
        for frame in sorted(FRAMES, key=usual.__ne__):
            table = sh_matrix(_units(units, fod, frame, axes), fod.lmax, basis)
            for k, known in enumerate(tables):
                if np.abs(known - table).max() < SAME_FOD * np.abs(table).max():
                    same[k].append(_words(basis, frame, axes))
                    break
            else:
                tables.append(table)
                keys.append((basis, frame, axes))
                same.append([])
    return keys, [tuple(others) for others in same]


def _complexity(axes: str) -> int:
    return sum(a != b for a, b in zip(axes, IDENTITY, strict=True))


def _sampled_rows(fod: Fod) -> NDArray[np.int64]:
    return np.arange(0, fod.n_voxels, -(-fod.n_voxels // MAX_VOXELS))


def _symmetry(fod: Fod) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what (n_blocks, n_bases) add to the two sums of the symmetry of each basis."""
    rows = _sampled_rows(fod)
    blocks = voxel_blocks(fod)[rows]
    n_blocks = int(blocks.max()) + 1
    stored = fod.values[rows]
    weights = np.sqrt(np.square(stored[:, 1:], dtype=np.float64).sum(axis=1))
    degrees = np.repeat(
        np.arange(0, fod.lmax + 1, 2), [2 * n + 1 for n in range(0, fod.lmax + 1, 2)]
    )
    units = direction_set(N_DIRECTIONS).astype(np.float64)
    orthonormal = np.linalg.pinv(sh_matrix(units, fod.lmax, "tournier07"))
    half = sh_matrix(units[: N_DIRECTIONS // 2], fod.lmax, "tournier07").astype(np.float32)
    above = np.empty((n_blocks, len(BASES)))
    for k, basis in enumerate(BASES):
        change = (orthonormal @ sh_matrix(units, fod.lmax, basis)).astype(np.float32)
        coefficients = stored @ change.T
        coefficients[:, 0] = 0.0
        energy = np.zeros(len(rows))
        for degree in range(2, fod.lmax + 1, 2):
            part = coefficients[:, degrees == degree]
            power = np.square(part).sum(axis=1)
            energy += power
            scale = np.sqrt(4.0 * np.pi / (2 * degree + 1) * power)
            coefficients[:, degrees == degree] = part * scale[:, None]
        pieces = range(0, len(rows), PIECE_VOXELS)
        top = np.concatenate(
            [(coefficients[i : i + PIECE_VOXELS] @ half.T).max(axis=1) for i in pieces]
        )
        share = np.divide(top, energy, out=np.zeros(len(rows)), where=energy > 0)
        above[:, k] = np.bincount(blocks, weights * share, n_blocks)
    below = np.bincount(blocks, weights, n_blocks)
    return above, np.repeat(below[:, None], len(BASES), axis=1)


def _coherence(
    fod: Fod, keys: list[tuple[str, str, str]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what (n_blocks, n_readings) add to the two sums of the coherence."""
    rows = _sampled_rows(fod)
    blocks = voxel_blocks(fod)[rows]
    order = np.argsort(blocks, kind="stable")  # a block's voxels side by side: one product each
    rows, blocks = rows[order], blocks[order]
    bounds = np.searchsorted(blocks, np.arange(blocks[-1] + 2))
    voxels = np.argwhere(fod.support)[rows]
    # An isotropic FOD fits all readings alike; a last row of zeros stands for an empty voxel.
    values = np.concatenate([fod.values[:, 1:], np.zeros((1, fod.values.shape[1] - 1), np.float32)])

    offsets = half_offsets(fod.grid, REACH_VOXELS)
    steps = offsets @ fod.grid.affine[:3, :3].T
    units = steps / np.linalg.norm(steps, axis=1, keepdims=True)
    matrices = np.stack(
        [sh_matrix(_units(units, fod, frame, axes), fod.lmax, basis) for basis, frame, axes in keys]
    )[:, :, 1:].astype(np.float32)

    n_blocks, n_values = len(bounds) - 1, values.shape[1]
    above = np.zeros((n_blocks, len(keys)))
    below = np.zeros((n_blocks, len(keys)))
    products = np.zeros((n_blocks, n_values, 2 * n_values), np.float32)
    for k, offset in enumerate(offsets):
        ends = voxels + offset
        inside = ((ends >= 0) & (ends < fod.grid.shape)).all(axis=1)
        targets = np.full(len(rows), -1)
        targets[inside] = fod.voxel_rows[tuple(ends[inside].T)]
        pairs = np.concatenate([values[targets], values[rows]], axis=1)
        pairs[~inside] = 0.0
        for block, (first, last) in enumerate(itertools.pairwise(bounds)):
            np.matmul(pairs[first:last, n_values:].T, pairs[first:last], out=products[block])
        harmonics = matrices[:, k]
        squares = (harmonics[:, :, None] * harmonics[:, None, :]).reshape(len(keys), -1).T
        above += products[:, :, :n_values].reshape(n_blocks, -1) @ squares
        below += products[:, :, n_values:].reshape(n_blocks, -1) @ squares
    return above, below
