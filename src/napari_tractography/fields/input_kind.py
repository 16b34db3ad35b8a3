"""What is known of a kind of input: the one thing that all else asks about it.

Each file of this room that gives orientations has one :class:`InputKind`, which an
:class:`~napari_tractography.model.fod.Fod` brings along as ``fod.input_kind``: tracking asks it for
a kernel, defaults for the floor, maps for amplitudes, texts for words. None of them knows a kind by
its name. :mod:`.kinds` lists those that files are read as.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What kernels follow, by name: SH coefficients; vectors, each a peak; the main eigenvectors of
# tensors; vectors that are worked out by blocks, where streamlines go.
COEFFICIENTS, VECTORS, EIGENVECTORS, BLOCKS = "coefficients", "vectors", "eigenvectors", "blocks"

# Degrees 0 and 2 of an FOD, a whole tensor or two peaks: all kinds differ in these, unless all
# fibres run in one direction.
N_FIRST = 6


@dataclass(frozen=True, slots=True)
class Kind:
    """What the volumes of a file are."""

    name: str  # "sh", "peaks", "tensor" and others, see kinds.KINDS
    text: str  # in words
    remedy: str = ""  # what to do, where it is not tracked
    # Of its elements, where they come in several: the usual one of readings.TENSOR_ORDERS.
    order: str = ""


UNCLEAR = Kind(
    "unclear",
    "something unknown, which would be negative along many directions",
    "check how they were made",
)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some voxels of a 4-D file that are not empty, by which kinds are recognised."""

    # (n_voxels, n) float64: all volumes, or the first N_FIRST at least; 0 where they are not
    # finite.
    values: NDArray[np.float64]
    finite: NDArray[np.bool_]  # (n_voxels, n) bool
    whole: NDArray[np.float64]  # (n, n) float64: the voxels all of whose values are finite
    n_volumes: int  # of the file

    @classmethod
    def of(cls, values: NDArray[np.float32], n_volumes: int) -> Sample:
        """Return a sample of (n_voxels, n) values, with NaN as they are in the file."""
        finite = np.isfinite(values)
        numbers = np.where(finite, values, 0.0).astype(np.float64)
        return cls(numbers, finite, numbers[finite.all(axis=1)], n_volumes)


def amplitude_fraction(chosen: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    """Return the fraction of the voxels' amplitudes, (n_voxels, n), that lies in some of them.

    A noisy background says little so.
    """
    amplitudes = np.linalg.norm(values, axis=1)
    return float(amplitudes[chosen].sum() / max(amplitudes.sum(), np.finfo(np.float64).tiny))


@dataclass(frozen=True, slots=True, kw_only=True)
class InputKind(Kind):
    """A kind that is tracked in."""

    short: str  # what a voxel holds, in a word or two
    kernel: str  # what follows it: COEFFICIENTS, VECTORS, EIGENVECTORS or BLOCKS
    algorithm: str = "probabilistic"  # that suits it, of the rows of model/algorithms
    # Ways to choose, of Algorithm.among_vectors, for which its coefficients are followed.
    expanded_for: tuple[str, ...] = ()
    lmax: int = 0  # largest degree of those
    # Gives them, (n_voxels, n_coefficients) float32 in tournier07 and RAS+ axes, of the numbers of
    # Vectors; none where there is nothing else.
    coefficients: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
    # Gives of the same numbers the largest amplitude of each voxel, (n_voxels,) float32.
    amplitudes: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
    # Gives of them an amplitude that noise has, and says of what; below it lobes are not followed.
    noise: Callable[[NDArray[np.float32]], float] | None = None
    noise_reason: str = ""
    # Of the volumes of a file: `read(values, grid, axes=..., order=..., name=...)` returns Vectors,
    # rows and the number of invalid voxels, as peaks.peaks_of_voxels does.
    read: Callable[..., tuple[Any, NDArray[np.int32], int]] | None = None
    # Tells whether so many volumes may hold it; none where no volumes of a file do.
    suits: Callable[[int], bool] | None = None
    # Tells what the volumes of a file are by a Sample of them: this kind, another that is mistaken
    # for it, or None where it is neither.
    recognise: Callable[[Sample], Kind | None] | None = None
    # Of its elements, where the header says that it is this kind and values do not tell.
    declared_order: str = ""
    # The minimum amplitude where amplitudes are as usual, in proportion to which it is unless they
    # are absolute, see model/defaults.py; and why, where it is not an FOD's.
    floor: float
    floor_reason: str = ""
    # The same for algorithms that follow its coefficients, where it is another; noise may raise it.
    floor_expanded: float | None = None
    floor_expanded_reason: str = ""
    is_absolute: bool = False  # whether amplitudes mean the same in whatever unit the input comes
    strong: float | None = None  # of strong peaks the amplitude, where that need not be measured
    # step, radius, min_length, max_length: that suit it, in voxels; step 0 is the algorithm's.
    step: float = 0.0
    radius: float = 0.5
    min_length: float = 5.0
    max_length: float = 100.0
    # What people read of it in place of the words for FODs.
    words: tuple[tuple[str, str], ...] = ()

    @property
    def has_numbers(self) -> bool:
        """Whether voxels hold numbers of their own beside coefficients, with axes and order."""
        return self.kernel in (VECTORS, EIGENVECTORS)

    def in_words(self, text: str) -> str:
        """Return what is said of FODs as it is said of this kind."""
        for usual, own in self.words:
            text = text.replace(usual, own)
        return text

    def kernel_for(self, among_vectors: str) -> str:
        """Return what follows it where an algorithm chooses in this way among vectors, or ""."""
        if not among_vectors or among_vectors in self.expanded_for:
            return COEFFICIENTS
        return self.kernel
