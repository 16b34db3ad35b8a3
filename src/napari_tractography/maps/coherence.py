"""Is the file read as it was written? Basis, frame and axes of the directions, by the FOD itself.

A wrong basis, frame or gradient table leaves every picture plausible and every streamline wrong.
Two properties of true FODs give them away, and neither needs a known bundle:

- *Symmetry.* A fibre's lobe is the same from all sides. In the wrong basis lobes come apart, in
  whatever direction they point; so this tells the bases from one another and nothing else. See
  :mod:`.lobes`.
- *Coherence.* Along a fibre, the FOD in the fibre's direction stays the same from one place to
  the next (Reisert & Kiselev, IEEE TMI 30, 2011), while across it bundles end. So this tells how
  the directions lie in the image. It is the idea of the fibre coherence index (Schilling et al.,
  MRI 58, 2019) with all amplitudes in place of peaks.

Both compare voxels with others, whose noise is independent, so that noise favours no reading.
Called by the command and the plugin.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidFodError
from ..fields.readings import BASES, DEFAULT_FRAMES
from ..model.fod import Fod
from .fod_readings import IDENTITY, ReadingKey, distinct_readings, other_rotations, turned_harmonics
from .lobes import lobe_symmetry
from .neighbours import half_offsets, neighbour_rows, voxel_blocks

REACH_VOXELS = 3.0  # how far neighbours are compared: beyond, curved fibres have turned away
MAX_VOXELS = 300_000  # starting voxels in use; more would cost time and decide nothing
# Readings whose scores differ by less are called undecidable.
CLEAR_STANDARD_ERRORS = 3.0
# Scores that differ by less are the same: sums of float32 products are not more exact.
RESOLUTION = 1e-5
# Rotations this far from all readings must not fit better than the best reading: distortions of
# an image turn its directions by less.
N_OTHER_ROTATIONS = 128
OTHER_ANGLE_DEG = 20.0
# At least this fraction of an FOD's power lies in voxels that can be non-negative. Measured: 0.89
# to 1 in files, 0.6 with as much noise as signal, 0.3 in peaks, 0.2 in noise.
MIN_NON_NEGATIVE = 0.5
MAX_STATED_TIES = 3
MAX_STATED_DEFICIT = 100.0  # standard errors; above it, a number says no more


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the file, and how well it fits."""

    # basis, frame, axes: see fod_readings.ReadingKey.
    basis: str
    frame: str
    axes: str
    # Cosine between symmetric lobes and the FOD of voxels that they were not fitted to, at most 1.
    symmetry: float
    coherence: float  # correlation of amplitudes along their own direction, at most 1
    # Standard errors by which it falls short of the best reading: in symmetry where that tells the
    # bases apart, else in coherence.
    deficit: float
    same_as: tuple[str, ...] = ()  # other readings that give the identical FOD, in words

    @property
    def text(self) -> str:
        """The reading in words."""
        return ReadingKey(self.basis, self.frame, self.axes).text

    @property
    def keywords(self) -> dict[str, str]:
        """What :func:`~napari_tractography.files.fods.load_fod` takes to read a file so.

        Empty where axes are flipped or swapped, which it takes nothing for.
        """
        if self.axes != IDENTITY:
            return {}
        in_basis = {"basis": self.basis, "frame": self.frame}
        return in_basis if self.basis in BASES else {"axes": self.frame}

    @property
    def is_tied(self) -> bool:
        """Whether the data cannot tell it from the best."""
        return self.deficit < CLEAR_STANDARD_ERRORS

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        deficit = self.deficit if math.isfinite(self.deficit) else None
        more = {"deficit": deficit, "tied": self.is_tied, "same_as": list(self.same_as)}
        return {"reading": self.text, **asdict(self), **more}


@dataclass(frozen=True, slots=True)
class Coherence:
    """How well each reading of an FOD file fits."""

    name: str  # of the FOD
    readings: tuple[Reading, ...]  # all that differ, the best first
    in_use: Reading  # with which the FOD was read
    # The one that fits best. Among those that the data cannot tell apart, the one in use, or else
    # the simplest: in its basis, with the fewest axes flipped or swapped.
    best: Reading
    # Why the voxels do not tell, in words; "" where they do. Then no reading falls short.
    doubt: str = ""

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
        if self.doubt:
            return f"{read}; its voxels do not tell whether that is right, for {self.doubt}."
        if self.fits:
            text = f"{read}, and no other reading fits better."
        else:
            many = self.in_use.deficit > MAX_STATED_DEFICIT
            apart = f"over {MAX_STATED_DEFICIT:.0f}" if many else f"{self.in_use.deficit:.0f}"
            text = (
                f"{read}, but {self.best.text} fits better: symmetry {self.best.symmetry:.3f} "
                f"against {self.in_use.symmetry:.3f}, coherence {self.best.coherence:.3f} against "
                f"{self.in_use.coherence:.3f}, {apart} standard errors apart."
            )
        if ties:
            several = [r.text for r in ties[:MAX_STATED_TIES]]
            if len(ties) > MAX_STATED_TIES:  # of few directions
                several.append(f"and {len(ties) - MAX_STATED_TIES} more, as in a map of one bundle")
            text += f" Not to be told from it: {'; '.join(several)}."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        return {
            "name": self.name,
            "fits": self.fits,
            "doubt": self.doubt,
            "verdict": self.verdict,
            "in_use": self.in_use.to_dict(),
            "best": self.best.to_dict(),
            "readings": [reading.to_dict() for reading in self.readings],
        }


def coherence(fod: Fod) -> Coherence:
    """Score every reading of an FOD: basis, frame, flips and swaps of the direction axes.

    Of peaks and tensors they are the axes that they may be in, with flips and swaps. The symmetry
    is that of :func:`~napari_tractography.maps.lobes.lobe_symmetry`.

    The coherence is sum f(x, u) f(x + h u, u) / sum f(x, u)^2 over all voxels x and their
    neighbours, where u points from one to the other, so that nothing is interpolated, and
    without the FOD's mean over directions. Pairs that leave the image do not count; a voxel
    without an FOD counts as zero. Being quadratic, it needs one matrix for each neighbour, from
    which all readings follow.

    Standard errors are by the jackknife over 512 blocks of the volume.

    Of an asymmetric FOD the even degrees are judged.

    Where the volume cannot be an FOD, where most readings of the best basis are alike, or where
    rotations that no reading has fit better, no reading is preferred; `doubt` says which it is.

    Raises InvalidFodError when the FOD has no directions (lmax 0), or is none.
    """
    if not isinstance(fod, Fod):
        raise InvalidFodError.of_type(fod)
    fod = fod.symmetric()
    if fod.lmax < 2 or not fod.values[:, 1:].any():
        raise InvalidFodError(
            f"{fod.name} has lmax {fod.lmax} and the same amplitude in all directions, so that its "
            "axes cannot be judged; give an FOD with lmax 2 or more."
        )
    keys, same = distinct_readings(fod)
    rows = np.arange(0, fod.n_voxels, -(-fod.n_voxels // MAX_VOXELS))
    symmetry = _Scores(*lobe_symmetry(fod, rows))
    basis_of = np.array([BASES.index(key.sh_basis) for key in keys])
    present = np.unique(basis_of)
    best_basis = int(present[np.argmax(symmetry.scores[present])])
    transforms = [(key.sh_basis, key.rotation(fod)) for key in keys]
    of_best = np.array([rotation for basis, rotation in transforms if basis == BASES[best_basis]])
    others = other_rotations(of_best, N_OTHER_ROTATIONS, OTHER_ANGLE_DEG)
    transforms += [(BASES[best_basis], rotation) for rotation in others]
    aligned = _Scores(*_alignment(fod, rows, transforms))

    deficits = _deficits(symmetry, aligned, basis_of, best_basis)
    doubt = _doubt(fod, aligned, deficits, np.flatnonzero(basis_of == best_basis))
    if doubt:
        deficits[:] = 0.0
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
            reading.basis != in_use.basis,
            ReadingKey(reading.basis, reading.frame, reading.axes).n_changes,
            reading.frame != DEFAULT_FRAMES.get(reading.basis, "scanner"),
            -reading.coherence,
        )

    best = in_use if in_use.is_tied else min((r for r in readings if r.is_tied), key=simplicity)
    readings.sort(key=lambda r: (r is not best, not r.is_tied, -r.symmetry, -r.coherence))
    return Coherence(fod.name, tuple(readings), in_use, best, doubt)


class _Scores:
    """Ratios of sums over blocks, and the standard errors of their differences.

    `above` and `below`, (n_blocks, n_readings) float64, are what each block adds to the numerator
    and to the denominator.
    """

    def __init__(self, above: NDArray[np.float64], below: NDArray[np.float64]) -> None:
        used = (below != 0).any(axis=1)
        above, below = above[used], below[used]
        floor = np.finfo(np.float64).tiny
        self.scores = above.sum(axis=0) / np.maximum(below.sum(axis=0), floor)
        rest = np.maximum(below.sum(axis=0) - below, floor)
        self.without = (above.sum(axis=0) - above) / rest

    def deficits(self, best: int) -> NDArray[np.float64]:
        """Return by how many standard errors each reading falls short of the best one.

        Standard errors that few blocks tell are uncertain themselves: so many as are as improbable
        where they are known, by Student's t.
        """
        from scipy.special import ndtri, stdtr  # on use: SciPy takes a while to load

        n = len(self.without)
        short = self.scores[best] - self.scores
        if n < 2:
            return np.zeros(len(short))
        varied = self.without[:, best, None] - self.without
        errors = np.sqrt((n - 1) * varied.var(axis=0))
        many = np.where(short > RESOLUTION, short / np.maximum(errors, RESOLUTION), 0.0)
        as_known = 0.0 - ndtri(stdtr(n - 1, -many))  # of the best 0.0, not -0.0
        return np.asarray(np.where(np.isfinite(as_known), as_known, many))  # else beyond doubt


def _deficits(
    symmetry: _Scores, aligned: _Scores, basis_of: NDArray[np.int64], best_basis: int
) -> NDArray[np.float64]:
    """Return by how many standard errors each reading falls short of the best, (n_readings,).

    `symmetry` is that of the bases, `aligned` that of the readings and what follows them;
    `basis_of`, (n_readings,) int64, are the bases of the readings.
    """
    deficits = np.empty(len(basis_of))
    of_bases = symmetry.deficits(best_basis)
    for basis in np.unique(basis_of):
        mine = np.flatnonzero(basis_of == basis)
        top = int(mine[np.argmax(aligned.scores[mine])])
        # Coherence is compared within a basis only: lobes of another shape correlate otherwise.
        clear = of_bases[basis] >= CLEAR_STANDARD_ERRORS
        deficits[mine] = of_bases[basis] if clear else aligned.deficits(top)[mine]
    return deficits


def _doubt(
    fod: Fod, aligned: _Scores, deficits: NDArray[np.float64], peers: NDArray[np.int64]
) -> str:
    """Return why the voxels do not tell which reading is right, or "".

    `aligned` are the scores of the readings, then of other rotations in the best basis; `peers` the
    numbers of the readings in that basis.
    """
    if _non_negative_fraction(fod) < MIN_NON_NEGATIVE:
        return (
            "most of its voxels would be negative along many directions, as no FOD is: it may hold "
            "peaks or something else"
        )
    tied = np.count_nonzero(deficits[peers] < CLEAR_STANDARD_ERRORS)
    if tied > len(peers) / 2 or (deficits < CLEAR_STANDARD_ERRORS).all():
        return (  # as in noise, and in a map of a few streamlines
            "most readings fit them alike: they are few, or neighbours have no directions in common"
        )
    n = len(deficits)
    if len(aligned.scores) > n:
        top = int(peers[np.argmax(aligned.scores[peers])])
        other = n + int(np.argmax(aligned.scores[n:]))
        if aligned.deficits(other)[top] >= CLEAR_STANDARD_ERRORS:
            return (
                "directions turned by other angles fit better than any reading: it may be no FOD, "
                "or its gradient table may be turned"
            )
    return ""


def _non_negative_fraction(fod: Fod) -> float:
    """Return the fraction of the power of degree 2 in voxels that can be non-negative in any basis.

    Where a function is nowhere negative, its power of degree l is at most 2 l + 1 times that of
    degree 0; in the coefficients of the legacy form of tournier07, twice that.
    """
    power = np.square(fod.values[:, 1:6], dtype=np.float64).sum(axis=1)
    mean = fod.values[:, 0].astype(np.float64)
    possible = (mean > 0) & (power <= 10.0 * mean**2)
    total = float(power.sum())
    return float(power[possible].sum()) / total if total else 1.0


def _alignment(
    fod: Fod, rows: NDArray[np.int64], transforms: list[tuple[str, NDArray[np.float64]]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what (n_blocks, n_transforms) add to the two sums of the coherence.

    `rows` are those of `fod.values` to start from; a transform is a basis, and the (3, 3) rotation
    from RAS+ to the axes of the file's coefficients.
    """
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
    matrices = turned_harmonics(units, fod.lmax, transforms)[:, :, 1:].astype(np.float32)

    n_blocks, n_values = len(bounds) - 1, values.shape[1]
    above = np.zeros((n_blocks, len(transforms)))
    below = np.zeros((n_blocks, len(transforms)))
    products = np.zeros((n_blocks, n_values, 2 * n_values), np.float32)
    for k, offset in enumerate(offsets):
        targets, inside = neighbour_rows(fod, voxels, offset)
        pairs = np.concatenate([values[targets], values[rows]], axis=1)
        pairs[~inside] = 0.0
        for block, (first, last) in enumerate(itertools.pairwise(bounds)):
            np.matmul(pairs[first:last, n_values:].T, pairs[first:last], out=products[block])
        harmonics = matrices[:, k]
        squares = (harmonics[:, :, None] * harmonics[:, None, :]).reshape(len(transforms), -1).T
        above += products[:, :, :n_values].reshape(n_blocks, -1) @ squares
        below += products[:, :, n_values:].reshape(n_blocks, -1) @ squares
    return above, below
