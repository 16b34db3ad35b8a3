"""How a run is spread over devices: batch sizes, memory, order and cancelling.

Knows no CUDA: it drives any :class:`BatchDevice`, such as :class:`.device.CudaDevice` and those of
the tests. Each batch is tracked, and then its points are put where they belong. A device tracks
several batches at once, each on a part of it: a part has a batch's streamlines one after the other,
so that it seldom waits for the longest of them. What batches that end leave idle is taken by others
that are queued, while one is copied to the host; hence the number of slots. Used by
:mod:`.cuda_backend`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from ...errors import BackendError
from ...streamlines.tractogram import Tractogram

FIRST_BATCH = 1 << 13  # seeds: few, so that the first streamlines show at once
LAST_BATCH = 1 << 10  # seeds: what each batch takes beside tracking is more than fewer would spare
MAX_BATCH = 1 << 20  # seeds
PLENTY = 1 << 24  # points of a batch, 200 MB: more only where it takes more to fill the device
MAX_POINTS = 3 << 24  # 600 MB, and as much pinned host memory: to lock that takes long
FILLS = 4  # times that a batch has as many streamlines as the device tracks at once
GROWTH = 8  # at most, from one batch to those chosen after it
BATCH_SECONDS = 0.05  # of the whole device; cancelling waits for all that are queued
MAX_HALVINGS = 8  # of a batch for lack of memory, one after the other
POINT_BYTES = 12
POOLED_BYTES = 25  # of a point in the pool, and where it belongs; and of what tells of its block
AT_ONCE = 4  # batches that are tracked at once, and
QUEUED = 3  # those behind them: as measured
SLOTS = AT_ONCE + QUEUED + 1
AHEAD = SLOTS + 2  # batches of each device that may be under way, or wait for those of others

Range = tuple[int, int]  # first seed, and the one after the last
Take = Callable[[int], Range | None]  # hands out the next seeds, at most so many


class OutOfDeviceMemoryError(Exception):
    """A device has too little memory for a batch; says how much was asked for."""


class BatchDevice(Protocol):
    """A device, set up for one run, that tracks batches in :data:`SLOTS` slots.

    `count`, `n_points` and `write` raise OutOfDeviceMemoryError where memory does not suffice, and
    all of them BackendError where the device fails.
    """

    name: str

    @property
    def n_threads(self) -> int:
        """Streamlines that are tracked at once; known once a batch is queued."""

    def count(self, slot: int, first: int, last: int, parts: int = 1) -> None:
        """Queue the tracking of seeds `first` to `last` on one of so many parts of the device.

        The batch that was in the slot before may still be uncollected.
        """

    def n_points(self, slot: int) -> int:
        """Wait for the tracking; return how many points there are."""

    def count_seconds(self, slot: int) -> float:
        """Return how long the tracking took, apart from waiting for those before it."""

    def write(self, slot: int) -> None:
        """Queue the way of the points to where they belong, and to the host."""

    def collect(self, slot: int) -> Tractogram:
        """Wait for the streamlines of the slot's last write, and return them."""

    def release(self) -> None:
        """Give the memory of the slots back, waiting for what is under way."""


@dataclass(slots=True)
class Sizing:
    """How many seeds the next batch gets."""

    budget: int  # bytes that a batch may take on the device
    seed_bytes: int  # bytes that a seed takes, without its points
    n_seeds: int = FIRST_BATCH  # seeds of the next batch
    largest: int = MAX_BATCH  # what `n_seeds` may grow to: less after every lack of memory
    max_points: int = MAX_POINTS  # of a batch

    def __post_init__(self) -> None:
        self.largest = max(1, min(self.largest, self.budget // max(self.seed_bytes, 1)))
        self.n_seeds = min(self.n_seeds, self.largest)

    def need(self, n_seeds: int, n_points: int) -> int:
        """Return the bytes of a batch."""
        return n_seeds * self.seed_bytes + n_points * POOLED_BYTES

    def points_beside(self, n_seeds: int) -> int:
        """Return how many points of so many seeds there is room for."""
        room = (self.budget - n_seeds * self.seed_bytes) // POOLED_BYTES
        return max(0, min(room, self.max_points))

    def fits(self, n_seeds: int, n_points: int) -> bool:
        """Tell whether a batch keeps within its bounds; a single seed may always be tried."""
        return n_seeds == 1 or (
            n_points <= self.max_points and self.need(n_seeds, n_points) <= self.budget
        )

    def learn(self, n_seeds: int, n_points: int, seconds: float, n_threads: int = 0) -> None:
        """Choose the next size by the time and the points of the last batch."""
        each = n_points / n_seeds
        by_time = n_seeds * BATCH_SECONDS / max(seconds, 1e-6)
        # Batches differ: one that would just fit on average often does not.
        by_memory = 0.7 * self.budget / (self.seed_bytes + each * POOLED_BYTES)
        by_points = max(0.7 * PLENTY / max(each, 1e-6), FILLS * n_threads)
        by_points = min(by_points, 0.7 * self.max_points / max(each, 1e-6))
        self.n_seeds = int(
            max(1, min(by_time, by_memory, by_points, GROWTH * n_seeds, self.largest))
        )

    def halve(self, n_seeds: int) -> None:
        """Make batches smaller, since one of `n_seeds` seeds did not fit."""
        self.largest = max(1, n_seeds // 2)
        self.n_seeds = self.largest


class SeedRanges:
    """Hands out seeds in order, to several devices at once.

    The last ones in ever smaller ranges, so that all parts of all devices end together.
    """

    def __init__(self, n_seeds: int, n_devices: int = 1) -> None:
        self._n_seeds = n_seeds
        self._n_parts = n_devices * AT_ONCE
        self._next = 0
        self._lock = threading.Lock()

    def take(self, n_seeds: int) -> Range | None:
        """Return the next seeds, at most `n_seeds`, as (first, last), or None."""
        with self._lock:
            first = self._next
            left = self._n_seeds - first
            last = first + min(n_seeds, left, max(LAST_BATCH, -(-left // self._n_parts)))
            self._next = last
        return (first, last) if first < last else None


def run_device(
    device: BatchDevice, take: Take, sizing: Sizing
) -> Generator[tuple[Range, Tractogram], None, None]:
    """Track what `take` hands out on one device; yield seed ranges in that order.

    Raises BackendError when a batch does not fit, however small, or the device fails.
    """
    pending: list[Range] = []  # handed out, not begun; the next one last
    # Batches, by slot and seeds: whose tracking is queued, and which are copied to the host.
    counted: deque[tuple[int, Range]] = deque()
    written: deque[tuple[int, Range]] = deque()
    slot = 0  # of the next batch
    halvings = 0
    is_empty = False  # whether the device holds no batch
    is_first = True
    parts = 1  # of the device; the first batch has it all

    def begin() -> bool:
        """Queue the tracking of the next batch; tell whether there was one."""
        nonlocal slot, parts
        seeds = pending.pop() if pending else take(sizing.n_seeds)
        if seeds is None:
            return False
        first, last = seeds
        if last - first > sizing.n_seeds:
            pending.append((first + sizing.n_seeds, last))
            last = first + sizing.n_seeds
        try:
            device.count(slot, first, last, parts)
        except OutOfDeviceMemoryError:
            pending.append((first, last))
            raise
        counted.append((slot, (first, last)))
        slot, parts = (slot + 1) % SLOTS, AT_ONCE
        return True

    def collected(n_left: int) -> Generator[tuple[Range, Tractogram], None, None]:
        while len(written) > n_left:
            oldest, seeds = written.popleft()
            yield seeds, device.collect(oldest)

    while True:
        shortage: OutOfDeviceMemoryError | None = None
        n_tried = sizing.n_seeds
        try:
            if not counted and not begin():
                break
            current, (first, last) = counted[0]
            n_tried = last - first
            n_points = device.n_points(current)
            if not sizing.fits(n_tried, n_points):
                raise OutOfDeviceMemoryError(f"{sizing.need(n_tried, n_points) / 1e6:.0f} MB")
            device.write(current)
        except OutOfDeviceMemoryError as error:
            shortage = error
        if shortage is not None:
            yield from collected(0)
            pending += [seeds for _, seeds in reversed(counted)]
            counted.clear()
            halvings += 1
            if is_empty and (n_tried <= 1 or halvings > MAX_HALVINGS):
                raise BackendError(
                    f"{device.name} has too little memory: even {n_tried} seeds at a time need "
                    f"{shortage}; free some, raise memory_limit or choose backend = 'cpu'."
                ) from shortage
            device.release()
            is_empty = True
            sizing.halve(n_tried)
            continue
        is_empty = False
        halvings = 0
        sizing.learn(n_tried, n_points, device.count_seconds(current), device.n_threads)
        written.append(counted.popleft())
        try:
            while len(counted) < SLOTS - 1 and begin():
                pass
        except OutOfDeviceMemoryError:  # tried again when it is the only one
            sizing.halve(sizing.n_seeds)
        # The last one travels while the next is tracked, but the first one is shown at once.
        yield from collected(0 if is_first else 1)
        is_first = False
    yield from collected(0)


def run_devices(
    devices: Sequence[BatchDevice], n_seeds: int, sizings: Sequence[Sizing]
) -> Generator[Tractogram, None, None]:
    """Track seeds on all devices at once; yield chunks in seed order.

    Each device gets the next seeds when it has room, so that a faster one does more. Closing
    the generator cancels what is under way and waits for the devices.

    Raises BackendError when a device fails, or a batch does not fit into its memory, however small.
    """
    ranges = SeedRanges(n_seeds, len(devices))
    if len(devices) == 1:
        for _, chunk in run_device(devices[0], ranges.take, sizings[0]):
            yield chunk
        return
    done: dict[int, tuple[int, Tractogram]] = {}  # by first seed
    changed = threading.Condition()
    stopped = threading.Event()
    expected = 0
    failures: list[BaseException] = []

    def work(device: BatchDevice, sizing: Sizing) -> None:
        begun: list[int] = []  # first seeds of this device's batches

        def take(n_seeds: int) -> Range | None:
            with changed:
                # Bounds what is not handed on yet, or a slow device lets the others fill memory.
                changed.wait_for(
                    lambda: stopped.is_set() or sum(f >= expected for f in begun) < AHEAD
                )
                if stopped.is_set():
                    return None
                seeds = ranges.take(n_seeds)
                if seeds is not None:
                    begun.append(seeds[0])
                return seeds

        try:
            for (first, last), chunk in run_device(device, take, sizing):
                with changed:
                    done[first] = last, chunk
                    changed.notify_all()
                if stopped.is_set():
                    return
        except BaseException as error:  # handed to the caller's thread
            with changed:
                failures.append(error)
                changed.notify_all()

    pool = ThreadPoolExecutor(len(devices), thread_name_prefix="tractography-cuda")
    try:
        for device, sizing in zip(devices, sizings, strict=True):
            pool.submit(work, device, sizing)
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
