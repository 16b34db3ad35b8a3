"""Next directions, drawn from the interpolated FOD within cones by rejection.

The twin of :mod:`napari_tractography.tracking.cpu.draw`, which says how and why.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...model.philox import blocks_of
from ..codes import (
    COSINE,
    FIRST_PROPOSALS,
    MAX_PROPOSALS,
    PROPOSALS_A_BLOCK,
    SECOND_PROPOSALS,
    SINE,
    UNIT_20,
    UNIT_24,
    Settings,
)
from .evaluation import HALF, ONE, TWO, Array

LIMITS = np.array([FIRST_PROPOSALS, SECOND_PROPOSALS, MAX_PROPOSALS])


def limit_of(n_proposals: Array) -> Any:
    """Return after how many proposals in all the cone is sampled."""
    return LIMITS[np.searchsorted(LIMITS, n_proposals, side="right")]


def random_words(
    settings: Settings, stream: Array, steps: Array, n_proposals: Array, purpose: Array, n: int
) -> tuple[Any, Any]:
    """Return two random words for each of the next `n` proposals of lanes, (n, n_lanes) uint32."""
    blocks = n_proposals // PROPOSALS_A_BLOCK + np.arange(-(-n // PROPOSALS_A_BLOCK))[:, None]
    counter = np.empty((4, *blocks.shape), np.uint64)
    counter[0], counter[1], counter[2], counter[3] = stream, steps, blocks, purpose
    words = blocks_of(counter, int(settings.key_0) | int(settings.key_1) << 32)
    pairs = words.reshape(2, 2, *blocks.shape).transpose(1, 2, 0, 3)  # one block after another
    first, second = pairs.reshape(2, -1, len(stream))[:, :n]
    return first, second


def chances(first: Array, second: Array) -> Any:
    """Return numbers from 0 to 1, of the low 12 bits of two words each."""
    return ((first & 4095) << 12 | second & 4095).astype(np.float32) * UNIT_24


def points_in_cone(first: Array, second: Array, height: Array) -> Any:
    """Return uniformly distributed directions of cones around the z axis, (3, ...) float32.

    `height` is 1 minus the cosine of the half-angle. Takes the high 20 bits of the words.
    """
    down = height * (((first >> 12).astype(np.float32) + HALF) * UNIT_20)
    cosine, sine = _turns(((second >> 12).astype(np.float32) + HALF) * UNIT_20 - HALF)
    radius = np.sqrt(down * (TWO - down))
    return np.array([radius * cosine, radius * sine, ONE - down])


def _turns(t: Array) -> tuple[Any, Any]:
    """Return cosine and sine of 2 pi t, for t from -1/2 to 1/2."""
    square = t * t
    sine, cosine = SINE[0], COSINE[0]
    for factor in SINE[1:]:
        sine = sine * square + factor
    for factor in COSINE[1:]:
        cosine = cosine * square + factor
    sine = t * sine
    return ONE - TWO * sine * sine, TWO * sine * cosine
