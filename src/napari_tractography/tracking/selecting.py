"""As many seeds as give a number of streamlines, and why too short ones ended.

Called by :mod:`.engine`.

Seeds are tracked round after round in the order of their numbers, and the run ends with the
streamline that was wanted last, so that neither rounds nor chunks decide which streamlines come.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..errors import TractographyError
from ..model.seeds import MAX_SEEDS, Seeds
from ..model.stop import N_REASONS, StopReason
from ..streamlines.tractogram import Tractogram, tally_from_counts
from .inputs import TrackingInput, check_inside

logger = logging.getLogger(__name__)

SEEDS_EACH = 1000  # of a wanted streamline, after which a run gives up, as tckgen's
FIRST_SEEDS, MOST_SEEDS = 1000, 1_000_000  # of a round
FEW_SEEDS = 200  # that tell what ends streamlines, where all were too short
MARGIN = 1.05  # seeds of a round, over what it is likely to need

# Tracks seeds, of which the first has that number; yields chunks in their order.
Track = Callable[[Seeds, int], Generator[Tractogram, None, None]]


def most_seeds(inputs: TrackingInput) -> int:
    """Return after how many seeds a run that selects gives up."""
    assert inputs.select is not None
    most = min(inputs.max_seeds or SEEDS_EACH * inputs.select, MAX_SEEDS)
    return most if inputs.seeds.can_go_on else min(most, len(inputs.seeds))


def iter_selected(inputs: TrackingInput, track: Track) -> Generator[Tractogram, None, None]:
    """Track until as many streamlines are accepted as are wanted, or give up with a warning.

    Raises InvalidSeedsError when all seeds lie outside the image, and not those of one round alone;
    raised by this call, before the first chunk. Chunks come in seed order. The last ends with the
    last seed that was needed: its streamlines, its `n_seeds` and its tally are those of a run of
    just as many seeds.
    """
    check_inside(inputs.seeds, inputs.fod, most_seeds(inputs))
    return _rounds(inputs, track if inputs.goal is None else partial(_reaching, inputs, track))


def _rounds(inputs: TrackingInput, track: Track) -> Generator[Tractogram, None, None]:
    wanted, most = inputs.select, most_seeds(inputs)
    assert wanted is not None
    n_done = n_accepted = 0
    while n_accepted < wanted and n_done < most:
        n = min(_next_round(wanted - n_accepted, n_accepted, n_done), most - n_done)
        chunks = track(_part(inputs.seeds, n, n_done), n_done)
        for chunk in chunks:
            n_missing = wanted - n_accepted
            if len(chunk) < n_missing:
                n_done += chunk.n_seeds
                n_accepted += len(chunk)
                yield chunk
                continue
            chunks.close()
            n_last = int(chunk.seed_index[n_missing - 1]) + 1 - n_done
            if n_last < chunk.n_seeds:  # track those few again, for their tally
                yield from track(_part(inputs.seeds, n_last, n_done), n_done)
            else:
                yield chunk
            n_accepted = wanted
            break
    if n_accepted < wanted:
        logger.warning("%s", _sentence(inputs, n_accepted, n_done))


def _reaching(
    inputs: TrackingInput, track: Track, seeds: Seeds, first: int
) -> Generator[Tractogram, None, None]:
    with contextlib.closing(track(seeds, first)) as chunks:
        for chunk in chunks:
            yield that_reach(inputs, chunk, seeds, first)


def that_reach(
    inputs: TrackingInput, chunk: Tractogram, seeds: Seeds, first: int = 0
) -> Tractogram:
    """Return the streamlines of a chunk that lead to the goal, if there is one; tally the others.

    The seed must not lie in the goal, where regions overlap. By the rule "all" kernels have seen to
    the rest; by another one of the ends that were tracked must lie in the goal. Those of the chunk
    are among `seeds`, of which `first` is the number of the first.
    """
    goal = inputs.goal
    if goal is None or not len(chunk):
        return chunk
    refused = goal.contains(seeds.positions_mm[chunk.seed_index - first])
    if inputs.include_rule != "all":
        ends = np.stack([chunk.offsets[:-1], chunk.offsets[1:] - 1], axis=1)
        stopped = np.isin(chunk.stop_reasons, (StopReason.STOP_REGION, StopReason.END_REGION))
        inside = goal.contains(chunk.points[ends.ravel()]).reshape(ends.shape)
        refused |= ~(stopped & inside).any(axis=1)
    return _without(chunk, refused) if refused.any() else chunk


def _without(chunk: Tractogram, refused: NDArray[np.bool_]) -> Tractogram:
    """Return a chunk as if some of its streamlines had not ended in an end region."""
    counts = -np.bincount(chunk.stop_reasons[refused].ravel(), minlength=N_REASONS)
    counts[StopReason.NOT_ENDED] += refused.sum()
    for reason, count in chunk.tally.items():
        counts[reason] += count
    kept = chunk[~refused]
    kept.tally, kept.n_seeds = tally_from_counts(counts), chunk.n_seeds
    return kept


def telling_why_short(
    inputs: TrackingInput,
    chunks: Generator[Tractogram, None, None],
    track: Callable[[TrackingInput], Iterator[Tractogram]],
) -> Generator[Tractogram, None, None]:
    """Pass the chunks of a run on; say why where none is long enough, and most are too short.

    The tally has no more of those than how many there are. So a few are tracked again, whatever
    their length; a last chunk, without seeds, tells what ended most of them.
    """
    n_accepted, tally = 0, Counter[StopReason]()
    with contextlib.closing(chunks):
        for chunk in chunks:
            n_accepted += len(chunk)
            tally.update(chunk.tally)
            yield chunk
    if n_accepted or not tally or max(tally, key=tally.__getitem__) is not StopReason.TOO_SHORT:
        return
    seeds = inputs.seeds
    if inputs.select is not None and seeds.can_go_on:
        seeds = seeds.more(min(FEW_SEEDS, most_seeds(inputs)), 0)
    stops = [replace(r, role="stop") for r in inputs.regions if r.role in ("stop", "end")]
    unlimited = replace(
        inputs,
        seeds=seeds[:: -(-len(seeds) // FEW_SEEDS)],
        parameters=inputs.parameters.replace(min_length_mm=0.0),
        regions=stops,
        select=None,
        max_seeds=None,
        goal=None,
    )
    with contextlib.suppress(TractographyError):  # nothing hangs on it
        found = Tractogram.concatenate(track(unlimited))
        short = found[found.lengths_mm < inputs.parameters.min_length_mm]
        if ends := short.ends():
            last = Tractogram.empty()
            last.short_since = ends[0][0]
            yield last


def _next_round(n_missing: int, n_accepted: int, n_done: int) -> int:
    """Return how many seeds to track next, by the fraction that was accepted so far."""
    each = n_done / max(n_accepted, 1) if n_done else 2.0
    likely = math.ceil(MARGIN * n_missing * each)
    return max(FIRST_SEEDS, min(likely, max(4 * n_done, 4 * FIRST_SEEDS), MOST_SEEDS))


def _part(seeds: Seeds, n: int, first: int) -> Seeds:
    return seeds.more(n, first) if seeds.can_go_on else seeds[first : first + n]


def _sentence(inputs: TrackingInput, n_accepted: int, n_done: int) -> str:
    remedy = "allow more seeds, seed nearer to where streamlines are accepted, or select fewer"
    if not inputs.seeds.can_go_on:
        remedy = "fixed points have no more of the same; seed in a sphere or in a mask"
    were = "streamline was" if inputs.select == 1 else "streamlines were"
    return (
        f"Only {n_accepted:,} of {inputs.select:,} {were} accepted of {n_done:,} seeds: {remedy}."
    )
