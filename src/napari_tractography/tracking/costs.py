"""What a run costs on the CPU and on a GPU, as measured in earlier runs.

The model has four numbers for a device and a kind of run: seconds to start, seconds to upload a
byte of tables, seconds a step of all streamlines together, copying them to the host included, and
millimetres of streamline a seed. They are kept in a small file from one process to the next. Used
by :mod:`.backends`, which chooses, and :mod:`.measuring`, which measures.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ..runtime.caches import cache_folder, write_whole

logger = logging.getLogger(__name__)
# What a file of costs raises that is damaged, or not one.
UNREADABLE = (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError)

FEW_SEEDS = 10_000  # fewer are tracked on the CPU as long as nothing has been measured
# A run that the CPU does in this time uses no GPU that has not been used before, and none is
# searched for.
SHORT_SECONDS = 0.5
LEAST_SECONDS = 0.02  # of a run on a GPU, however short: measured on an H100, 0.007 to 0.013 s
LONG_SECONDS = 2.0  # for a run that takes the CPU longer an unmeasured GPU is tried
NEWEST_WEIGHT = 0.5  # of the newest measurement; all earlier ones share the rest


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run costs on one device."""

    start_s: float  # seconds before the first step, the first time in a process
    upload_s_per_byte: float  # of tables
    s_per_step: float  # seconds a step, of all streamlines together
    mm_per_seed: float  # length of the streamlines over the number of seeds

    def seconds(self, n_steps: float, n_bytes: float = 0.0, *, started: bool = True) -> float:
        """Return how long a run takes; `n_bytes` are those of tables not yet on the device."""
        start = 0.0 if started else self.start_s
        return start + n_bytes * self.upload_s_per_byte + n_steps * self.s_per_step

    def blended(self, newer: Cost) -> Cost:
        """Return this, moved towards a newer measurement."""
        old, new = asdict(self), asdict(newer)
        return Cost(
            **{name: NEWEST_WEIGHT * new[name] + (1 - NEWEST_WEIGHT) * old[name] for name in old}
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to track."""

    n_seeds: int
    step_mm: float
    n_bytes: int = 0  # of tables that would have to be uploaded to a GPU
    started: bool = False  # whether a GPU has been used in this process

    def n_steps(self, mm_per_seed: float) -> float:
        """Return the number of steps to be expected of streamlines of this length a seed."""
        return self.n_seeds * mm_per_seed / self.step_mm


def cpu_is_enough(work: Work, cpu: Cost | None) -> str:
    """Return why there is no need to look for GPUs, or ""."""
    if cpu is None:
        if work.n_seeds < FEW_SEEDS:
            return "one seed is few" if work.n_seeds == 1 else f"{work.n_seeds} seeds are few"
        return ""
    seconds = cpu.seconds(work.n_steps(cpu.mm_per_seed))
    return f"the CPU takes about {seconds:.2g} s" if seconds < SHORT_SECONDS else ""


def decide(work: Work, cpu: Cost | None, gpu: Cost | None) -> tuple[bool, str]:
    """Return whether to take the GPU, and why."""
    enough = cpu_is_enough(work, cpu)
    if enough and (cpu is None or gpu is None or not work.started):
        return False, enough
    if cpu is None:
        return True, f"{work.n_seeds} seeds are many, and neither has been measured yet"
    n_steps = work.n_steps(cpu.mm_per_seed)
    on_cpu = cpu.seconds(n_steps)
    if gpu is None:
        if on_cpu < LONG_SECONDS:
            return False, f"the CPU takes about {on_cpu:.2g} s and the GPU has not been measured"
        return True, f"the CPU takes about {on_cpu:.2g} s and the GPU has yet to be measured"
    on_gpu = max(LEAST_SECONDS, gpu.seconds(n_steps, work.n_bytes, started=work.started))
    return on_gpu < on_cpu, f"the CPU takes about {on_cpu:.2g} s, the GPU {on_gpu:.2g} s"


class PerformanceModel:
    """Measured costs by device and kind of run, in memory and in a file.

    The file is by default ``costs.json`` in :func:`.cache_folder`. Threads may share one: costs are
    never changed but replaced, under a lock.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._costs: Mapping[str, Cost] | None = None  # None until the file has been read
        self._replacing, self._saving = threading.Lock(), threading.Lock()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path or cache_folder() / "costs.json"

    def get(self, key: str) -> Cost | None:
        """Return what is known of a device and a kind of run."""
        return self._known().get(key)

    def learn(self, key: str, cost: Cost) -> None:
        """Blend in a measurement."""
        self._known()
        with self._replacing:
            known = self._known()
            self._costs = {**known, key: known[key].blended(cost) if key in known else cost}

    def save(self) -> None:
        """Write the file, whole or not at all; where that is impossible, costs live in memory."""
        with self._saving:
            text = json.dumps({key: asdict(cost) for key, cost in self._known().items()}, indent=1)
            try:
                write_whole(self.path, text.encode())
            except OSError as error:
                logger.debug("costs are not kept: %s", error)

    def _known(self) -> Mapping[str, Cost]:
        """Return all costs as they are now, from the file when first asked for."""
        known = self._costs
        if known is None:
            read = self._read()
            with self._replacing:
                if self._costs is None:  # else another thread was first, and may have learnt since
                    self._costs = read
                known = self._costs
        return known

    def _read(self) -> Mapping[str, Cost]:
        try:
            content = json.loads(self.path.read_text("utf-8"))
            return {key: _checked(cost) for key, cost in content.items()}
        except FileNotFoundError:
            pass
        except UNREADABLE as error:
            logger.debug("%s is measured again: %s", self.path, error)
        return {}


def _checked(numbers: Mapping[str, float]) -> Cost:
    cost = Cost(**numbers)
    if not all(math.isfinite(value) and value >= 0 for value in asdict(cost).values()):
        raise ValueError(f"{numbers} is no cost")
    return cost
