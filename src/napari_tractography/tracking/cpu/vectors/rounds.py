"""Streamlines in a volume that is worked out by blocks, where they go.

The kernel notes which blocks streamlines came to. Those that came to one that is not there are
tracked again from their seeds once it is, and so on until all have come to an end: the random
numbers of a streamline are counters, so that each time it is the same, and only whole streamlines
come out. Called by :mod:`napari_tractography.tracking.cpu.cpu_backend`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ....errors import FileError, InvalidParameterError, UnfinishedError
from ....fields.block_store import BlockStore
from ....streamlines.tractogram import Tractogram

# Tracks the seeds of some numbers, and notes the blocks that they come to; returns streamlines, and
# the numbers of the seeds that are to be tracked again.
Track = Callable[[NDArray[np.int64], NDArray[np.uint8]], tuple[Tractogram, NDArray[np.int64]]]


def track_in_blocks(
    store: BlockStore, seeds: NDArray[np.int64], track: Track, cancelled: NDArray[np.uint8]
) -> Tractogram:
    """Track seeds until all their streamlines have come to an end.

    While there is room for all blocks that are asked for, several threads do so at once, and none
    is dropped. Where there is not, one does so alone, and drops those that its own streamlines did
    not come to; with fewer streamlines at a time where these want more than there is room for.

    Parameters
    ----------
    store : BlockStore
    seeds : (n,) int64
        In the order in which they are begun.
    track : callable
        See :data:`Track`.
    cancelled : (1,) uint8
        Set to 1 by another thread to end early.

    Returns
    -------
    Tractogram
        In seed order.

    Raises
    ------
    InvalidParameterError
        When a single streamline comes to more blocks than there is room for.
    UnfinishedError
        When the volume cannot be read; it has the streamlines that were finished.
    """
    parts: list[Tractogram] = []
    try:
        with store.reading():
            seeds = _in_company(store, seeds, track, cancelled, parts)
        if len(seeds) and not cancelled[0]:
            with store.alone():
                _alone(store, seeds, track, cancelled, parts)
    except FileError as error:
        raise UnfinishedError(str(error), _in_seed_order(parts)) from error
    return _in_seed_order(parts)


def _in_company(
    store: BlockStore,
    seeds: NDArray[np.int64],
    track: Track,
    cancelled: NDArray[np.uint8],
    parts: list[Tractogram],
) -> NDArray[np.int64]:
    """Track seeds while there is room; return those that are left.

    Where the volume cannot be read in places, streamlines that stay away from them are finished
    before the error is raised.
    """
    failed, error = np.zeros(0, np.int64), None
    while True:
        seeds, blocks = _one_round(store, seeds, track, parts)
        if not len(seeds) or cancelled[0]:
            return seeds
        blocks = np.setdiff1d(store.missing(blocks), failed)
        if error is not None and not len(blocks):
            raise error
        try:
            if not store.make(blocks, cancelled):
                return seeds
        except FileError as problem:
            failed, error = np.concatenate([failed, store.missing(blocks)]), problem


def _alone(
    store: BlockStore,
    seeds: NDArray[np.int64],
    track: Track,
    cancelled: NDArray[np.uint8],
    parts: list[Tractogram],
) -> None:
    """Track seeds, as many at a time as there is room for."""
    n_at_once = len(seeds)
    while len(seeds) and not cancelled[0]:
        left, blocks = _one_round(store, seeds[:n_at_once], track, parts)
        seeds = np.concatenate([left, seeds[n_at_once:]])
        if not len(left):
            n_at_once = min(2 * n_at_once, max(len(seeds), 1))
        elif store.make_room(len(store.missing(blocks)), blocks):
            store.make(blocks, cancelled)
        elif n_at_once > 1:
            n_at_once = max(min(n_at_once, len(left)) // 2, 1)
        else:
            raise InvalidParameterError(
                f"A streamline comes to {len(blocks)} blocks of {store.source.name}, and there is "
                f"room for {store.n_slots}; give a larger memory_limit, or a shorter maximum "
                "length."
            )


def _one_round(
    store: BlockStore, seeds: NDArray[np.int64], track: Track, parts: list[Tractogram]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Track seeds once; return those that are left, and the blocks that all came to."""
    touched = np.zeros(store.shape, np.uint8)
    chunk, left = track(seeds, touched)
    parts.append(chunk)
    blocks = np.flatnonzero(touched)
    store.note_use(blocks)
    return left, blocks


def _in_seed_order(parts: list[Tractogram]) -> Tractogram:
    """Join the streamlines of all rounds."""
    whole = Tractogram.concatenate(parts)
    if len(parts) < 2:
        return whole
    ordered = whole[np.argsort(whole.seed_index, kind="stable")]
    ordered.tally, ordered.n_seeds = whole.tally, whole.n_seeds
    return ordered
