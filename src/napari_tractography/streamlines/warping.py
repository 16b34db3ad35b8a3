"""Streamlines through a warp; called by :meth:`.Tractogram.warped`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..geometry.warps import Warp

logger = logging.getLogger(__name__)

BLOCK = 1 << 20  # points that go through it at once


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What a warp makes of streamlines: those parts of them that it leads somewhere."""

    points: NDArray[np.float32]  # (n_points, 3)
    offsets: NDArray[np.int64]  # (n_pieces + 1,)
    parents: NDArray[np.int64]  # (n_pieces,): of which streamline each is a part, rising
    # starts_whole, ends_whole: (n_pieces,), whether it begins, or ends, where the streamline does.
    starts_whole: NDArray[np.bool_]
    ends_whole: NDArray[np.bool_]
    kept: NDArray[np.bool_]  # (n,): which of the points before are in `points`


def through_warp(points: NDArray[Any], offsets: NDArray[np.int64], warp: Warp) -> Pieces:
    """Take streamlines through a warp; what it leads nowhere is cut off.

    A streamline that leaves a field and comes back becomes several. A single point is no
    streamline, unless it was one. One without points stays, so that an affine keeps all numbers.
    """
    moved = np.empty((len(points), 3), np.float32)
    for first in range(0, len(points), BLOCK):
        moved[first : first + BLOCK] = warp.apply(points[first : first + BLOCK])
    stays: NDArray[np.bool_] = np.asarray(np.isfinite(moved).all(axis=1))
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    joined = owner[1:] == owner[:-1]
    begins, ends = np.array(stays), np.array(stays)
    begins[1:] &= ~(joined & stays[:-1])
    ends[:-1] &= ~(joined & stays[1:])
    firsts, lasts = np.flatnonzero(begins), np.flatnonzero(ends)
    parents = owner[firsts]
    starts_whole = firsts == offsets[:-1][parents]
    ends_whole = lasts == offsets[1:][parents] - 1
    chosen = (lasts > firsts) | (starts_whole & ends_whole)
    kept = np.zeros(len(points) + 1, np.int8)
    np.add.at(kept, firsts[chosen], 1)
    np.add.at(kept, lasts[chosen] + 1, -1)
    is_kept = np.cumsum(kept[:-1], dtype=np.int8) > 0
    empty = np.flatnonzero(np.diff(offsets) == 0)
    places = np.searchsorted(parents[chosen], empty)
    counts = np.insert((lasts - firsts + 1)[chosen], places, 0)
    return Pieces(
        moved[is_kept],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.insert(parents[chosen], places, empty),
        np.insert(starts_whole[chosen], places, True),
        np.insert(ends_whole[chosen], places, True),
        is_kept,
    )


def tell_lost(n_streamlines: int, n_cut: int, n_gone: int) -> None:
    """Warn where a warp says nothing of some streamlines."""
    if n_cut or n_gone:
        logger.warning(
            "Of %s streamlines %s leave the warp and were cut there, and %s lie outside of it and "
            "were left out.", f"{n_streamlines:,}", f"{n_cut:,}", f"{n_gone:,}",
        )  # fmt: skip
