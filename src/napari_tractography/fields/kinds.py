"""What the volumes of a 4-D file are, by their values: SH coefficients, or something else.

Six volumes may be an FOD, a tensor, two peaks or a DWI, and each of them is tracked without a
word when it is taken for an FOD. Called by :mod:`napari_tractography.files.recognition`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from . import peaks, sh, structure_tensors, tensors
from .input_kind import UNCLEAR, InputKind, Kind, Sample
from .readings import AUTO, TRACKED
from .sh import FULL_COUNTS, MAX_LMAX, N_FIRST_FULL, even_columns

# Of the sum of the absolute values that follow the first volume, what is negative: in images a
# little after interpolation, in FODs of fibres in several directions a third or more.
MAX_NEGATIVE_OF_IMAGES = 0.02
# Root mean square of degree 2 relative to an FOD of a single direction: of such 0.9 and more.
MIN_ANISOTROPY_OF_A_LOBE = 0.5
VANISHING, LARGE = 0.01, 0.1  # of all that follows the first volume


SH, PEAKS, TENSOR, IMAGE = sh.KIND, peaks.KIND, tensors.KIND, structure_tensors.KIND
# What is tracked in. By its values a file is the first of these that recognises it: a new one is
# added here, before what it could be taken for.
INPUT_KINDS: tuple[InputKind, ...] = (TENSOR, SH, PEAKS, IMAGE)
SERIES = Kind(
    "series",
    "a DWI or another series of images, never negative",
    "fit an FOD to the DWI first, as dwi2fod does",
)
DWI = Kind("dwi", "a DWI, by its gradient table", "fit an FOD to it first, as dwi2fod does")
AMPLITUDES = Kind(
    "amplitudes", "amplitudes along directions", "turn them into coefficients with amp2sh"
)
MASKS = Kind("masks", "masks", "give the FOD here, and masks for seeds and regions")
MAP = Kind("map", "a single map without directions", "give an FOD with 6 volumes or more")
OTHERS = (
    tensors.KURTOSIS,
    SERIES,
    DWI,
    AMPLITUDES,
    MASKS,
    MAP,
    sh.ISOTROPIC,
    UNCLEAR,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in (*INPUT_KINDS, *OTHERS)}


def read_kinds() -> dict[str, InputKind]:
    """Return the kinds that the volumes of a file may be read as, by name, as people are told."""
    found = {kind.name: kind for kind in INPUT_KINDS if kind.suits is not None}
    return {name: found[name] for name in dict.fromkeys((*TRACKED, *found))}


def kinds_of_so_many(n_volumes: int) -> tuple[str, ...]:
    """Return the names of those that a file with so many volumes may be read as."""
    return tuple(
        name for name, kind in read_kinds().items() if kind.suits and kind.suits(n_volumes)
    )


def checked_kind(kind: str) -> str:
    """Return a kind that files may be read as.

    Raises InvalidParameterError when it is neither "auto" nor one of :func:`read_kinds`.
    """
    choices = (AUTO, *read_kinds())
    if kind not in choices:
        raise InvalidParameterError(
            f"kind = {kind!r} is unknown; choose one of {', '.join(choices)}."
        )
    return kind


def recognise(values: NDArray[np.float32], n_volumes: int) -> Kind:
    """Return what volumes are, judged by some of their voxels that are not empty.

    Each kind of :data:`INPUT_KINDS` has its own traits; images and masks are nowhere negative. The
    values are (n_voxels, n) float32, all `n_volumes` or the first :data:`N_FIRST` at least, with
    NaN as they are in the file.
    """
    if n_volumes == 1:
        return MAP
    sample = Sample.of(values, n_volumes)
    if len(sample.whole) and _are_masks(sample.whole):
        return MASKS
    if len(sample.whole) and _are_images(sample.whole, n_volumes):
        return SERIES
    recognisers = (kind.recognise for kind in INPUT_KINDS if kind.recognise is not None)
    return next((found for recognise in recognisers if (found := recognise(sample))), UNCLEAR)


def _are_masks(values: NDArray[np.float64]) -> bool:
    return bool(values.min() >= 0 and len(np.unique(values)) <= 2)


def _are_images(values: NDArray[np.float64], n_volumes: int) -> bool:
    """Tell whether hardly anything is negative, where in an FOD much would be.

    No coefficient is negative where all fibres run nearly along z and in a plane with x; but then
    those of order 0 are large, and those of the orders of one sign vanish.
    """
    sizes = np.abs(values[:, 1:]).sum(axis=0)
    is_full = n_volumes in FULL_COUNTS
    degrees = range(1, MAX_LMAX + 1) if is_full else range(2, MAX_LMAX + 1, 2)
    orders = np.concatenate([np.arange(-degree, degree + 1) for degree in degrees])
    orders = np.resize(orders, len(sizes))  # as many as there are, in a DWI any number
    total = sizes.sum()
    even = values[:, even_columns(N_FIRST_FULL)] if is_full else values
    of_one_sign = min(sizes[orders < 0].sum(), sizes[orders > 0].sum())
    if (
        of_one_sign <= VANISHING * total
        and sizes[orders == 0].sum() >= LARGE * total
        and sh.anisotropy(even) >= MIN_ANISOTROPY_OF_A_LOBE
    ):
        return False
    negative = -values[:, 1:].clip(max=0).sum()
    return bool(negative < MAX_NEGATIVE_OF_IMAGES * total)
