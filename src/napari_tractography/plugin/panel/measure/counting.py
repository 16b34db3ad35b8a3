"""Streamlines that count themselves while they are measured. Made by the Measure section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....maps.chunks import blocks_of
from ....streamlines.tractogram import Tractogram
from ...background import Advance


@dataclass
class Counter:
    """How many streamlines of those to be measured have been taken, said to `advance`."""

    advance: Advance
    n_total: int
    n_done: int = 0

    def over(self, tractogram: Tractogram) -> CountedBlocks:
        """Return streamlines that count themselves as they are taken, and end when given up."""
        return CountedBlocks(self, tractogram)


class CountedBlocks:
    """The blocks of a tractogram; each time from the beginning."""

    def __init__(self, counter: Counter, tractogram: Tractogram) -> None:
        self._counter, self._tractogram = counter, tractogram

    def __iter__(self) -> Iterator[Tractogram]:
        counter = self._counter
        for block in blocks_of(self._tractogram):
            counter.advance(min(counter.n_done / max(counter.n_total, 1), 1.0))
            yield block
            counter.n_done += len(block)
