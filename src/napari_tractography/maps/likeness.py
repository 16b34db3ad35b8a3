"""How alike streamlines run: mean closest distances, for outliers and for "more like these".

The distance of two streamlines is the mean, over the points of both, of the distance to the nearest
point of the other (Corouge et al., Towards a shape model of white matter fiber bundles using
diffusion tensor MRI, ISBI 2004); DIPY computes it, on points that are thinned evenly. Called by the
recipes and the plugin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..streamlines.tractogram import Tractogram
from .clusters import evenly_thinned

MAX_SAMPLE = 200  # streamlines that stand for a bundle
NEAR_FRACTION = 0.1  # of the bundle
MAX_EXAMPLES = 50
_BLOCK = 2048  # streamlines at a time
_PAIRS = 1 << 15  # of streamlines at a time: DIPY lets no other thread of Python run meanwhile

Advance = Callable[[float], None]  # gets the fraction that is done; may raise to end the work


def mean_closest_distances(
    tractogram: Tractogram, others: Tractogram, *, advance: Advance = lambda _fraction: None
) -> NDArray[np.float32]:
    """Return the mean closest distance of each streamline to each other one, mm.

    (n_streamlines, n_others) float32, infinite for streamlines without points. `advance` is called
    with the fraction that is done, now and then; an exception that it raises ends the work.
    """
    from dipy.tracking.distances import bundles_distances_mam  # on use: it takes a while to load

    lines, standards = evenly_thinned(tractogram), evenly_thinned(others)
    found = np.full((len(lines), len(standards)), np.inf, np.float32)
    if not len(standards):
        return found
    rows = np.flatnonzero(np.diff(tractogram.offsets) > 0)
    columns = np.flatnonzero(np.diff(others.offsets) > 0)
    standard = list(standards[columns])
    block = max(_PAIRS // max(len(standard), 1), 1)
    for first in range(0, len(rows) if standard else 0, block):
        here = rows[first : first + block]
        found[np.ix_(here, columns)] = bundles_distances_mam(list(lines[here]), standard, "avg")
        advance(min((first + block) / len(rows), 1.0))
    return found


def distances_to_bundle(
    tractogram: Tractogram, *, advance: Advance = lambda _fraction: None
) -> NDArray[np.float32]:
    """Return how far each streamline lies from its bundle: (n_streamlines,) float32 mean closest
    mm.

    That is the distance within which a tenth of the bundle lies, so that two strands of one bundle
    both belong to it and a stray does not; infinite for streamlines without points. Of more than
    :data:`MAX_SAMPLE` streamlines so many, evenly by number, stand for the bundle.
    """
    n = len(tractogram)
    if n == 0:
        return np.empty(0, np.float32)
    sample = np.unique(np.linspace(0, n - 1, min(n, MAX_SAMPLE)).round().astype(np.int64))
    distances = mean_closest_distances(tractogram, tractogram[sample], advance=advance)
    # A streamline of the sample is at 0 from itself, which says nothing.
    distances[sample, np.arange(len(sample))] = np.inf
    rank = min(int(np.ceil(NEAR_FRACTION * (len(sample) - 1))), len(sample)) - 1
    if rank < 0:
        return np.zeros(n, np.float32)  # of a bundle of one
    return np.asarray(np.partition(distances, rank, axis=1)[:, rank])


def like_these(
    tractogram: Tractogram,
    numbers: ArrayLike,
    *,
    max_distance_mm: float,
    advance: Advance = lambda _fraction: None,
) -> NDArray[np.int64]:
    """Return the streamlines that run like some of them, those included: (n,) int64, rising.

    By the mean closest distance to the nearest of (n,) numbers of examples; of more than
    :data:`MAX_EXAMPLES` so many, evenly taken, count. Raises InvalidParameterError when there are
    no examples or the distance is not positive.
    """
    examples = np.unique(np.asarray(numbers, dtype=np.int64))
    if not len(examples):
        raise InvalidParameterError("There are no examples; select at least one streamline.")
    if not max_distance_mm > 0:
        raise InvalidParameterError(
            f"max_distance_mm = {max_distance_mm:g} mm is out of range; give a positive number."
        )
    chosen = np.linspace(0, len(examples) - 1, min(len(examples), MAX_EXAMPLES)).round()
    standard = tractogram[examples[chosen.astype(np.int64)]]
    near = [examples]
    for first in range(0, len(tractogram), _BLOCK):
        part = tractogram[first : first + _BLOCK]
        distances = mean_closest_distances(part, standard).min(axis=1)
        near.append(first + np.flatnonzero(distances <= max_distance_mm))
        advance(min((first + _BLOCK) / len(tractogram), 1.0))
    return np.unique(np.concatenate(near))
