"""Philox4x32-10: the specification of every random number in this package.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A block of
four 32-bit numbers is a pure function of a 128-bit counter and a 64-bit key, so that random
numbers replay anywhere. Here the key is ``random_seed`` and the counter is (streamline id, step,
draw, purpose). This NumPy form draws seeds and is the reference for the kernels' copies.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError
from ..runtime.scalars import as_whole

MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
MASK_32 = 0xFFFFFFFF
LOW, SHIFT = np.uint64(MASK_32), np.uint64(32)
MULTIPLIERS = np.array([MULTIPLIER_0, MULTIPLIER_1], np.uint64)
WEYLS = np.array([WEYL_0, WEYL_1], np.uint64)
ROUNDS = 10


class Purpose(IntEnum):
    """Fourth word of the counter: keeps the uses of random numbers apart."""

    FORWARD = 0
    BACKWARD = 1
    START = 2
    SEED_VOXEL = 3
    SEED_POSITION = 4


def philox4x32(counter: ArrayLike, key: int) -> NDArray[np.uint32]:
    """Return the (..., 4) uint32 random blocks of (..., 4) counters; the key has 64 bits.

    Raises InvalidParameterError when the key is no whole number.
    """
    whole = as_whole(key)
    if whole is None:
        raise InvalidParameterError(
            f"random_seed = {key!r} is impossible; give a whole number, such as 0."
        )
    words = np.moveaxis(np.asarray(counter, dtype=np.uint64), -1, 0)
    return np.moveaxis(blocks_of(words, whole), 0, -1)


def blocks_of(words: NDArray[np.uint64], key: int) -> NDArray[np.uint32]:
    """Return the same with the four words along the first axis: side by side in memory."""
    even, odd = words[::2], words[1::2]
    pair = (2,) + (1,) * (words.ndim - 1)
    multipliers = MULTIPLIERS.reshape(pair)
    first = np.array((key & MASK_32, (key >> 32) & MASK_32), np.uint64)
    keys = (first + np.arange(ROUNDS, dtype=np.uint64)[:, None] * WEYLS) & LOW
    for round_key in keys.reshape(ROUNDS, *pair):
        products = (even * multipliers)[::-1]
        even = products >> SHIFT
        even ^= odd
        even ^= round_key
        odd = products & LOW
    blocks = np.empty(words.shape, np.uint32)
    blocks[::2], blocks[1::2] = even, odd
    return blocks


def uniforms(ids: NDArray[np.int64], draw: int, purpose: Purpose, key: int) -> NDArray[np.float64]:
    """Return (n, 4) float64 in [0, 1), exact multiples of 2^-32, for n ids."""
    counter = np.zeros((len(ids), 4), dtype=np.uint64)
    counter[:, 0] = ids
    counter[:, 2] = draw
    counter[:, 3] = purpose
    return np.asarray(philox4x32(counter, key) * 2.0**-32, dtype=np.float64)
