"""How a run is spread over devices: batch sizes, memory, order and cancelling.

Knows no CUDA: what it drives is a :class:`Card`, of which :mod:`.run` has the real one
and the tests have others. Every batch goes through two passes, counting and
writing, and while one batch travels to the host the next is tracked: a card has two slots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from ...errors import BackendError
from ...tractogram import Tractogram

MEMORY_LIMIT = 0.8  # of what is free on a GPU, by default
FIRST_BATCH = 1 << 13  # seeds: small, so that the first streamlines show at once
MAX_BATCH = 1 << 20  # seeds
MAX_POINTS = 1 << 24  # of a batch: 200 MB, which are also held in pinned host memory, twice
BATCH_SECONDS = 0.25  # short enough to cancel soon, long enough to hide what a batch costs
MAX_HALVINGS = 8
POINT_BYTES = 12
SLOTS = 2
AHEAD = 4  # batches of each card that may wait for earlier ones of others

Range = tuple[int, int]
Take = Callable[[int], Range | None]


class OutOfDeviceMemoryError(Exception):
    """A card could not get the memory for a batch; says how much it asked for."""


class Card(Protocol):
    """A device, set up for one run."""

    name: str

    def count(self, slot: int, first: int, last: int) -> None:
        """Queue the first pass over seeds; the slot's last batch may still be uncollected."""

    def n_points(self, slot: int) -> int:
        """Wait for the first pass; return how many points there will be."""

    def write(self, slot: int) -> None:
        """Queue the second pass and the way to the host."""

    def collect(self, slot: int) -> Tractogram:
        """Wait for the streamlines of the slot's last write."""

    def release(self) -> None:
        """Give the memory of the slots back, waiting for what is under way."""


@dataclass(slots=True)
class Sizing:
    """How many seeds the next batch gets.

    Attributes
    ----------
    budget : int
        Bytes that a batch may take on the card.
    seed_bytes : int
        Bytes that a seed takes, but for its points.
    n : int
        Seeds of the next batch.
    largest : int
        What `n` may grow to: less after every lack of memory.
    """

    budget: int
    seed_bytes: int
    n: int = FIRST_BATCH
    largest: int = MAX_BATCH

    def __post_init__(self) -> None:
        self.largest = max(1, min(self.largest, self.budget // max(self.seed_bytes, 1)))
        self.n = min(self.n, self.largest)

    def need(self, n: int, n_points: int) -> int:
        """Return the bytes of a batch."""
        return n * self.seed_bytes + n_points * POINT_BYTES

    def fits(self, n: int, n_points: int) -> bool:
        """Tell whether a batch keeps within its bounds; a single seed always may be n_rejected."""
        return n == 1 or (n_points <= MAX_POINTS and self.need(n, n_points) <= self.budget)

    def learn(self, n: int, n_points: int, seconds: float) -> None:
        """Choose the next size by what the last batch took."""
        each = n_points / n
        by_time = n * BATCH_SECONDS / max(seconds, 1e-6)
        # Batches differ: those that would just fit on average often do not.
        by_memory = 0.7 * self.budget / (self.seed_bytes + each * POINT_BYTES)
        by_points = 0.7 * MAX_POINTS / max(each, 1e-6)
        self.n = int(max(1, min(by_time, by_memory, by_points, 4 * n, self.largest)))

    def halve(self, n: int) -> None:
        """Give way: a batch of `n` seeds did not fit."""
        self.largest = max(1, n // 2)
        self.n = self.largest


class SeedRanges:
    """Hands out seeds in order, to several cards at once."""

    def __init__(self, n_seeds: int) -> None:
        self._n_seeds = n_seeds
        self._next = 0
        self._lock = threading.Lock()

    def take(self, n: int) -> Range | None:
        """Return the next n seeds as (first, last), or None."""
        with self._lock:
            first, last = self._next, min(self._next + n, self._n_seeds)
            self._next = last
        return (first, last) if first < last else None


def run_device(
    card: Card, take: Take, sizing: Sizing
) -> Generator[tuple[Range, Tractogram], None, None]:
    """Track what `take` hands out on one card; yield seed ranges in that order.

    Raises
    ------
    BackendError
        When a batch does not fit, however small.
    """
    left: list[Range] = []  # taken, not begun; the next one last
    waiting: tuple[int, Range] | None = None  # on its way to the host
    halvings = 0
    alone = False  # whether the other slot has been emptied
    slot = 0

    def begin(slot: int) -> Range | None:
        """Queue the first pass of the next batch."""
        seeds = left.pop() if left else take(sizing.n)
        if seeds is None:
            return None
        first, last = seeds
        if last - first > sizing.n:
            left.append((first + sizing.n, last))
            last = first + sizing.n
        try:
            card.count(slot, first, last)
        except OutOfDeviceMemoryError:
            left.append((first, last))
            raise
        return first, last

    counted: Range | None = None
    while True:
        lack: OutOfDeviceMemoryError | None = None
        begun = time.perf_counter()
        upcoming: Range | None = None
        n_rejected = 0
        try:
            if counted is None:
                n_rejected = sizing.n
                counted = begin(slot)
            if counted is not None:
                n = n_rejected = counted[1] - counted[0]
                n_points = card.n_points(slot)
                if not sizing.fits(n, n_points):
                    raise OutOfDeviceMemoryError(f"{sizing.need(n, n_points) / 1e6:.0f} MB")
                card.write(slot)
        except OutOfDeviceMemoryError as error:
            lack = error
        seconds = time.perf_counter() - begun
        if lack is None and counted is None:
            break
        if lack is None:
            try:
                upcoming = begin(1 - slot)
            except OutOfDeviceMemoryError:
                upcoming = None  # n_rejected again when the other slot is empty
        if waiting is not None:
            begun = time.perf_counter()
            chunk = card.collect(waiting[0])
            seconds += time.perf_counter() - begun
            yield waiting[1], chunk
            waiting = None
        if lack is not None:
            halvings += 1
            if counted is not None:
                left.append(counted)
                counted = None
            if alone and (n_rejected <= 1 or halvings > MAX_HALVINGS):
                raise BackendError(
                    f"{card.name} has too little memory: even {n_rejected} seeds at a time need "
                    f"{lack}; free some, raise memory_limit or choose backend = 'cpu'."
                ) from lack
            card.release()
            alone = True
            sizing.halve(n_rejected)
            continue
        assert counted is not None
        alone = False
        halvings = 0
        sizing.learn(n, n_points, seconds)
        waiting = slot, counted
        counted, slot = upcoming, 1 - slot
    if waiting is not None:
        yield waiting[1], card.collect(waiting[0])


def run_devices(
    cards: Sequence[Card], n_seeds: int, sizings: Sequence[Sizing]
) -> Generator[Tractogram, None, None]:
    """Track seeds on all cards at once; yield chunks in seed order.

    Each card takes the next seeds when it has room, so that a faster one does more. Closing the
    generator cancels what is under way and waits for the cards.
    """
    ranges = SeedRanges(n_seeds)
    if len(cards) == 1:
        for _, chunk in run_device(cards[0], ranges.take, sizings[0]):
            yield chunk
        return
    done: dict[int, tuple[int, Tractogram]] = {}  # by first seed
    changed = threading.Condition()
    stopped = threading.Event()
    expected = 0
    failures: list[BaseException] = []

    def work(card: Card, sizing: Sizing) -> None:
        held: list[int] = []  # first seeds of what this card has taken

        def take(n: int) -> Range | None:
            with changed:
                # Seeds not yet handed on are bounded, or a slow card lets the others fill memory.
                changed.wait_for(
                    lambda: stopped.is_set() or sum(f >= expected for f in held) < AHEAD
                )
                if stopped.is_set():
                    return None
                seeds = ranges.take(n)
                if seeds is not None:
                    held.append(seeds[0])
                return seeds

        try:
            for (first, last), chunk in run_device(card, take, sizing):
                with changed:
                    done[first] = last, chunk
                    changed.notify_all()
                if stopped.is_set():
                    return
        except BaseException as error:  # handed to the caller's thread
            with changed:
                failures.append(error)
                changed.notify_all()

    pool = ThreadPoolExecutor(len(cards), thread_name_prefix="tractography-cuda")
    try:
        for card, sizing in zip(cards, sizings, strict=True):
            pool.submit(work, card, sizing)
        while expected < n_seeds:
            with changed:
                while expected not in done:
                    if failures:
                        raise failures[0]
                    changed.wait()
                last, chunk = done.pop(expected)
            yield chunk
            with changed:
                expected = last
                changed.notify_all()
    finally:
        stopped.set()
        with changed:
            changed.notify_all()
        pool.shutdown()
