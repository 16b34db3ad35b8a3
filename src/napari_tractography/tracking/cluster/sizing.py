"""How many seeds a task of the cluster gets; called by :mod:`.cluster`."""

from __future__ import annotations

from .work import Done

FIRST_SEEDS = 256  # few, so that the first streamlines show at once
MOST_SEEDS = 1 << 17  # whose positions, 12 bytes each, pass the scheduler
TASK_SECONDS = 2.0  # long enough to hide what a task costs, short enough to lose and track again
TASK_BYTES = 1 << 26  # of points: workers hold a few of them, the receiver two
SHARE = 2  # of a thread, of what is left, in one task: the last ones end together
GROWTH = 4


class TaskSizing:
    """Hands out seeds in order, as many at a time as take a worker's thread two seconds, or a
    block.
    """

    def __init__(self, n_seeds: int, block: int | None) -> None:
        self.n_seeds = n_seeds
        self.block = block
        self._next = 0
        self._size = FIRST_SEEDS

    @property
    def n_left(self) -> int:
        """Seeds that are yet to be handed out."""
        return self.n_seeds - self._next

    def take(self, n_threads: int) -> tuple[int, int]:
        """Return the next seeds, as first and last + 1; the workers have so many threads."""
        size = self.block or min(self._size, max(self.n_left // (SHARE * n_threads), FIRST_SEEDS))
        first, self._next = self._next, min(self._next + size, self.n_seeds)
        return first, self._next

    def learn(self, done: Done) -> None:
        """Choose the next size by the time and the memory of a result."""
        by_time = done.n_seeds * TASK_SECONDS / max(done.seconds, 1e-6)
        by_bytes = done.n_seeds * TASK_BYTES / max(done.n_bytes, 1)
        self._size = int(max(1, min(by_time, by_bytes, GROWTH * self._size, MOST_SEEDS)))
