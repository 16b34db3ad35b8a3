"""Streamlines a bounded number at a time, wherever they are: in memory, on disk, on their way.

Called by everything that measures, so that memory does not grow with the number of streamlines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, InvalidTractogramError
from ..files.tractograms import iter_streamlines
from ..files.weights import checked_weights, listed_weights
from ..streamlines.tractogram import Tractogram, as_read

Source = Tractogram | Iterable[Tractogram] | str | PathLike[str]

BLOCK = 1 << 12  # streamlines: sums of as many, one after the other, do not depend on the source


def chunks_of(source: Source) -> Iterator[Tractogram]:
    """Yield streamlines as they come, such as those of a file; of a .tck no more than a part is in
    memory.

    Raises FileError when a file is missing, truncated, corrupt or of another format;
    InvalidTractogramError when something else comes in place of streamlines.
    """
    if isinstance(source, str | PathLike):
        for arrays in iter_streamlines(source):
            chunk = as_read(arrays, source)
            chunk.check_finite()
            yield chunk
    else:
        yield from _chunks(source)


def weighted_chunks(
    source: Tractogram | Iterable[Tractogram], weights: ArrayLike | None
) -> Iterator[tuple[Tractogram, NDArray[np.float32] | None]]:
    """Yield streamlines as they come, each chunk with its part of the weights of all, if any.

    Raises InvalidTractogramError when there are more or fewer weights than streamlines, one is not
    a number from 0, or something else comes in place of streamlines, such as a path.
    """
    whole, n = None if weights is None else listed_weights(weights), 0
    if whole is not None and isinstance(source, Tractogram):
        checked_weights(whole, len(source))
    for chunk in _chunks(source):
        part = None if whole is None else checked_weights(whole[n : n + len(chunk)], len(chunk))
        n += len(chunk)
        yield chunk, part
    if whole is not None and len(whole) != n:
        raise InvalidTractogramError(
            f"There are {len(whole)} weights for {n} streamlines; give as many."
        )


def _chunks(source: Any) -> Iterator[Tractogram]:
    is_one = isinstance(source, Tractogram) or not isinstance(source, Iterable)
    for chunk in [source] if is_one else source:
        if not isinstance(chunk, Tractogram):
            raise InvalidTractogramError(
                f"Streamlines are of type {type(chunk).__name__}; give a Tractogram, or chunks of "
                "that type."
            )
        chunk.check_finite()
        yield chunk


def blocks_of(source: Source) -> Iterator[Tractogram]:
    """Yield the same streamlines, :data:`BLOCK` of them at a time and in the end the rest."""
    held: list[Tractogram] = []
    n = 0
    for chunk in chunks_of(source):
        first = 0
        while n + len(chunk) - first >= BLOCK:
            last = first + BLOCK - n
            yield _joined([*held, chunk[first:last]])
            held, n, first = [], 0, last
        if first < len(chunk):
            held.append(chunk[first:])
            n += len(chunk) - first
    if held:
        yield _joined(held)


def check_read_again(source: Source, what: str) -> None:
    """Check that a source gives its streamlines more than once.

    Raises InvalidParameterError when it does not; `what` needs it.
    """
    if isinstance(source, Iterator):
        raise InvalidParameterError(
            f"{what} needs the streamlines twice, and an iterator gives them once; give a "
            "Tractogram or a file."
        )


def _joined(parts: list[Tractogram]) -> Tractogram:
    return parts[0] if len(parts) == 1 else Tractogram.concatenate(parts)
