"""Lists of streamline numbers as short text: ranges, or compressed bits where that is shorter.

Called by :mod:`.edits`.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import FileError, InvalidParameterError

BITS = "bits:"
RANGES = re.compile(r"\d{1,15}(-\d{1,15})?(,\d{1,15}(-\d{1,15})?)*")
MOST_NUMBERS = 1 << 27  # no tractogram has as many; a short text could name more than memory holds
SHORT_TEXT = 200  # characters up to which ranges are kept for the eye, whatever bits would take


def text_of(numbers: ArrayLike) -> str:
    """Return numbers as text: "0-41,50,60-99", or their bits, compressed, in base64.

    (n,) whole numbers from 0, in any order; what comes twice is kept once. Raises
    InvalidParameterError of others.
    """
    array = np.asarray(numbers)
    if array.size == 0:
        return ""
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or array.min() < 0:
        raise InvalidParameterError(
            f"Streamline numbers of type {array.dtype}, shape {array.shape} are not whole numbers "
            "from 0; give a list of them."
        )
    rising = np.unique(array)
    gaps = np.flatnonzero(np.diff(rising) != 1)
    firsts = rising[np.concatenate([[0], gaps + 1])].tolist()
    lasts = rising[np.concatenate([gaps, [len(rising) - 1]])].tolist()
    ranges = ",".join(
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(firsts, lasts, strict=True)
    )
    if len(ranges) <= SHORT_TEXT:
        return ranges
    bits = np.zeros(int(rising[-1]) + 1, bool)
    bits[rising] = True
    packed = zlib.compress(np.packbits(bits).tobytes(), 9)
    text = BITS + base64.b64encode(packed).decode("ascii")
    return min(ranges, text, key=len)


def numbers_of(text: str) -> NDArray[np.int64]:
    """Return the (n,) int64 numbers of a text, rising.

    Raises FileError when it is none that :func:`text_of` makes.
    """
    if not text:
        return np.empty(0, np.int64)
    if text.startswith(BITS):
        return np.flatnonzero(np.unpackbits(_packed(text)))
    parts = [np.arange(first, last + 1) for first, last in _ranges(text)]
    rising = all(one[-1] < other[0] for one, other in pairwise(parts))
    return np.concatenate(parts) if rising else np.unique(np.concatenate(parts))


def how_many(text: str) -> int:
    """Return how many numbers a text holds, without making them; see :func:`numbers_of`."""
    if not text:
        return 0
    if text.startswith(BITS):
        return int(np.unpackbits(_packed(text)).sum())
    return sum(last - first + 1 for first, last in _ranges(text))


def largest(text: str) -> int:
    """Return the largest number of a text, -1 of none, without making all of them."""
    if not text:
        return -1
    if text.startswith(BITS):
        packed = _packed(text)
        used = np.flatnonzero(packed)
        if not len(used):
            return -1
        return int(8 * used[-1] + np.flatnonzero(np.unpackbits(packed[used[-1:]]))[-1])
    return max(last for _, last in _ranges(text))


def _packed(text: str) -> NDArray[np.uint8]:
    """Return the bits of a text, eight in each number."""
    try:
        raw = base64.b64decode(text.removeprefix(BITS), validate=True)
        packed = inflated(raw, MOST_NUMBERS // 8)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise FileError(
            f"A list of streamline numbers is damaged ({error}); make the edit again."
        ) from None
    return np.frombuffer(packed, np.uint8)


def _ranges(text: str) -> list[tuple[int, int]]:
    """Return the first and the last number of each range of a text."""
    parts = []
    if RANGES.fullmatch(text):
        ends = [part.split("-") for part in text.split(",")]
        parts = [(int(part[0]), int(part[-1])) for part in ends]
    if not parts or any(last < first for first, last in parts):
        raise FileError(
            f"Streamline numbers {text[:40]!r} are damaged; they look like 0-41,50,60-99."
        )
    if sum(last - first + 1 for first, last in parts) > MOST_NUMBERS:
        raise FileError(
            f"Streamline numbers {text[:40]!r} are more than {MOST_NUMBERS:,}, which is damaged; "
            "make the edit again."
        )
    return parts


def inflated(raw: bytes, most: int) -> bytes:
    """Return what zlib has compressed, if it is at most so many bytes.

    Raises zlib.error when it is damaged; ValueError when it is cut short, or more: a short text can
    hold gigabytes.
    """
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(raw, most + 1)
    if len(data) > most or not unpacking.eof:
        raise ValueError(f"it is cut short, or more than {most} bytes")
    return data
