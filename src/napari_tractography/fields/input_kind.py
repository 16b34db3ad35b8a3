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


@dataclass(frozen=True, slots=True)
class Kind:
    """What the volumes of a file are.

    Attributes
    ----------
    name : str
        "sh", "peaks", "tensor" and others, see :data:`.kinds.KINDS`.
    text : str
        In words.
    remedy : str
        What to do, where it is not tracked.
    order : str
        Of its elements, where they come in several: the usual one of
        :data:`.readings.TENSOR_ORDERS`.
    """

    name: str
    text: str
    remedy: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputKind(Kind):
    """A kind that is tracked in.

    Attributes
    ----------
    short : str
        What a voxel holds, in a word or two.
    kernel : str
        What follows it: :data:`COEFFICIENTS`, :data:`VECTORS`, :data:`EIGENVECTORS` or
        :data:`BLOCKS`.
    expanded_for : tuple of str
        Ways to choose among vectors, see
        :attr:`~napari_tractography.model.algorithms.row.Algorithm.among_vectors`, for which its
        coefficients are followed instead.
    lmax : int
        Largest degree of those.
    coefficients : callable, optional
        Gives them, (n_voxels, n_coefficients) float32 in tournier07 and RAS+ axes, of the numbers
        of :class:`~.vectors.Vectors`; none where there is nothing else.
    amplitudes : callable, optional
        Gives of the same numbers the largest amplitude of each voxel, (n_voxels,) float32.
    read : callable, optional
        Of the volumes of a file: ``read(values, grid, axes=..., order=..., name=...)`` returns
        Vectors, rows and the number of invalid voxels, as :func:`.peaks.peaks_of_voxels` does.
    suits : callable, optional
        Tells whether so many volumes may hold it; none where no volumes of a file do.
    declared_order : str
        Of its elements, where the header says that it is this kind and values do not tell.
    floor, floor_reason : float and str
        The minimum amplitude where amplitudes are as usual, and why.
    is_absolute : bool
        Whether amplitudes mean the same in whatever unit the input comes.
    strong : float, optional
        Of strong peaks the amplitude, where that need not be measured.
    step, radius, min_length, max_length : float
        That suit it, in voxels; step 0 is the algorithm's.
    """

    short: str
    kernel: str
    expanded_for: tuple[str, ...] = ()
    lmax: int = 0
    coefficients: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
    amplitudes: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
    read: Callable[..., tuple[Any, NDArray[np.int32], int]] | None = None
    suits: Callable[[int], bool] | None = None
    declared_order: str = ""
    floor: float
    floor_reason: str
    is_absolute: bool = False
    strong: float | None = None
    step: float = 0.0
    radius: float = 0.5
    min_length: float = 5.0
    max_length: float = 100.0

    @property
    def has_numbers(self) -> bool:
        """Whether voxels hold numbers of their own beside coefficients, with axes and order."""
        return self.kernel in (VECTORS, EIGENVECTORS)

    def kernel_for(self, among_vectors: str) -> str:
        """Return what follows it where an algorithm chooses in this way among vectors, or ""."""
        if not among_vectors or among_vectors in self.expanded_for:
            return COEFFICIENTS
        return self.kernel
