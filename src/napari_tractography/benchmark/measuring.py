"""Measuring the speed of contestants, in turn, start-up apart.

All get the same FOD, mask, step, cone angle, length limit and number of threads, and runs
in turn, several times over, so that what else the machine does falls on all alike. Each turn is two
equal runs, of which the second counts: a virtual machine gives memory back that has not been used
for a minute, and getting it again took as long as tracking that fills a gigabyte.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .cases import Case, Contestant

FIRST_SEEDS = 200
MAX_SEEDS = 10**7


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run took.

    Attributes
    ----------
    steps : int
    wall_s, cpu_s : float
        Seconds on the clock, and of all processors together, child processes included.
    """

    steps: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Speed:
    """The median of several runs.

    Attributes
    ----------
    label : str
    steps_per_s, steps_per_cpu_s : float
        Zero where it was skipped.
    start_up_s : float
        What a run of one seed takes; taken off the others.
    skipped : str
        Why it took no part, or "".
    steps_per_seed : float
        Their mean: about the same for programs that track alike.
    """

    label: str
    steps_per_s: float = 0.0
    steps_per_cpu_s: float = 0.0
    start_up_s: float = 0.0
    skipped: str = ""
    steps_per_seed: float = 0.0


def measure(
    case: Case,
    contestants: Sequence[Contestant],
    *,
    repeats: int,
    seconds: float,
    progress: Callable[[int, int, str], None] = lambda done, total, label: None,
) -> list[Speed]:
    """Let every contestant track, in turn.

    Parameters
    ----------
    case : Case
    contestants : sequence of Contestant
    repeats : int
        Runs of each contestant.
    seconds : float
        About how long a run shall take.
    progress : callable
        Called with (runs done, runs in all, label of the next).

    Returns
    -------
    list of Speed
        One a contestant, in their order.
    """
    skipped = {c.label: c.missing() for c in contestants}
    taking_part = [c for c in contestants if not skipped[c.label]]
    total = len(taking_part) * (repeats + 1)
    sizes: dict[str, int] = {}
    start_ups: dict[str, list[Measurement]] = {}
    runs: dict[str, list[Measurement]] = {}
    for done, contestant in enumerate(taking_part):
        progress(done, total, contestant.label)
        contestant.prepare(case)
        sizes[contestant.label] = _fitting_size(contestant, seconds)
    for repeat in range(repeats):
        for turn, contestant in enumerate(taking_part):
            progress((repeat + 1) * len(taking_part) + turn, total, contestant.label)
            label = contestant.label
            start_ups.setdefault(label, []).append(measure_run(contestant, 1))
            measure_run(contestant, sizes[label])  # gets memory; see above
            runs.setdefault(label, []).append(measure_run(contestant, sizes[label]))
    progress(total, total, "")
    return [
        Speed(c.label, skipped=skipped[c.label])
        if skipped[c.label]
        else _speed(c.label, start_ups[c.label], runs[c.label], sizes[c.label])
        for c in contestants
    ]


def measure_run(contestant: Contestant, n_seeds: int) -> Measurement:
    """Run once."""
    contestant.make_seeds(n_seeds)
    cpu, wall = cpu_seconds(), time.perf_counter()
    result = contestant.run(n_seeds)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return Measurement(contestant.steps(result), wall, cpu)


def cpu_seconds() -> float:
    """Return the processor time of this process and of the children that have ended."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _fitting_size(contestant: Contestant, seconds: float) -> int:
    """Return how many seeds take about so many seconds beyond the start-up, or that time again.

    A start-up that is longer than the tracking would hide it: it differs from run to run. The runs
    that find it out warm up: the first one compiles and fills the caches.
    """
    measure_run(contestant, 1)
    start_up = measure_run(contestant, 1).wall_s
    size, seconds = FIRST_SEEDS, max(seconds, start_up)
    while True:
        took = measure_run(contestant, size).wall_s - start_up
        if took > seconds / 3 or size > MAX_SEEDS:
            return max(2, round(size * seconds / max(took, 1e-3)))
        size *= 4


def _speed(
    label: str, start_ups: list[Measurement], runs: list[Measurement], n_seeds: int
) -> Speed:
    """Take the start-up off each run of `n_seeds` seeds and return the medians."""
    start = Measurement(
        int(statistics.median(m.steps for m in start_ups)),
        statistics.median(m.wall_s for m in start_ups),
        statistics.median(m.cpu_s for m in start_ups),
    )
    return Speed(
        label,
        statistics.median(
            (m.steps - start.steps) / max(m.wall_s - start.wall_s, 1e-6) for m in runs
        ),
        statistics.median((m.steps - start.steps) / max(m.cpu_s - start.cpu_s, 1e-6) for m in runs),
        start.wall_s,
        steps_per_seed=statistics.median(m.steps for m in runs) / n_seeds,
    )
