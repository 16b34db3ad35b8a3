"""What a run costs on the CPU and on a GPU, as measured in earlier runs.

The model has three numbers a device: seconds to start, seconds a byte of tables, and seconds a
step of all streamlines together, copying them to the host included. They are kept in a small file
from one process to the next. Used by :mod:`napari_tractography.tracking.backends`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

FEW_SEEDS = 10_000  # before anything is measured: fewer are the CPU's
SHORT_SECONDS = 0.5  # what the CPU does in this time is not worth a look at GPUs
LONG_SECONDS = 2.0  # what takes the CPU longer is worth trying a GPU that was never measured
FADING = 0.5  # weight of the newest measurement


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost model of one device and algorithm."""

    start_s: float
    upload_s_per_byte: float
    s_per_step: float
    mm_per_seed: float

    def seconds(self, n_steps: float, n_bytes: float = 0.0, *, started: bool = True) -> float:
        """Return how long a run takes; `n_bytes` are those of tables not yet on the device."""
        start = 0.0 if started else self.start_s
        return start + n_bytes * self.upload_s_per_byte + n_steps * self.s_per_step

    def blended(self, newer: Cost) -> Cost:
        """Return this, moved towards a newer measurement."""
        old, new = asdict(self), asdict(newer)
        return Cost(**{name: FADING * new[name] + (1 - FADING) * old[name] for name in old})


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do.

    Attributes
    ----------
    n_seeds : int
    step_mm : float
    n_bytes : int
        Of tables that a GPU would have to be sent.
    started : bool
        Whether a GPU has been used in this process.
    """

    n_seeds: int
    step_mm: float
    n_bytes: int = 0
    started: bool = False

    def n_steps(self, mm_per_seed: float) -> float:
        """Return the number of steps, as far as it can be known before."""
        return self.n_seeds * mm_per_seed / self.step_mm


def cpu_is_enough(work: Work, cpu: Cost | None) -> str:
    """Return why there is no need to look for GPUs, or ""."""
    if cpu is None:
        if work.n_seeds < FEW_SEEDS:
            return f"{work.n_seeds} seeds are few"
        return ""
    seconds = cpu.seconds(work.n_steps(cpu.mm_per_seed))
    return f"the CPU takes about {seconds:.2g} s" if seconds < SHORT_SECONDS else ""


def decide(work: Work, cpu: Cost | None, gpu: Cost | None) -> tuple[bool, str]:
    """Return whether to take the GPU, and why."""
    enough = cpu_is_enough(work, cpu)
    if enough:
        return False, enough
    if cpu is None:
        return True, f"{work.n_seeds} seeds are many, and neither has been measured yet"
    n_steps = work.n_steps(cpu.mm_per_seed)
    on_cpu = cpu.seconds(n_steps)
    if gpu is None:
        if on_cpu < LONG_SECONDS:
            return False, f"the CPU takes about {on_cpu:.2g} s and the GPU has not been measured"
        return True, f"the CPU takes about {on_cpu:.2g} s and the GPU has yet to be measured"
    on_gpu = gpu.seconds(n_steps, work.n_bytes, started=work.started)
    return on_gpu < on_cpu, f"the CPU takes about {on_cpu:.2g} s, the GPU {on_gpu:.2g} s"


def crossing_seeds(work: Work, cpu: Cost, gpu: Cost) -> float:
    """Return from how many seeds on the GPU is faster; infinity where it never is."""
    each = work.n_steps(cpu.mm_per_seed) / work.n_seeds
    gain = each * (cpu.s_per_step - gpu.s_per_step)
    fixed = gpu.seconds(0.0, work.n_bytes, started=work.started)
    return max(fixed, 0.0) / gain if gain > 0 else math.inf


class PerformanceModel:
    """Measured costs by device and algorithm, in memory and in a file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._costs: dict[str, Cost] | None = None

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path or cache_folder() / "costs.json"

    def get(self, key: str) -> Cost | None:
        """Return what is known of a device and algorithm."""
        return self._read().get(key)

    def learn(self, key: str, cost: Cost) -> None:
        """Take in a measurement."""
        costs = self._read()
        costs[key] = costs[key].blended(cost) if key in costs else cost

    def save(self) -> None:
        """Write the file, whole or not at all; where that is impossible, costs live in memory."""
        text = json.dumps({key: asdict(cost) for key, cost in self._read().items()}, indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self.path.parent, suffix=".json", delete=False, encoding="utf-8"
            ) as file:
                file.write(text)
            os.replace(file.name, self.path)
        except OSError as error:
            logger.debug("costs are not kept: %s", error)

    def _read(self) -> dict[str, Cost]:
        if self._costs is None:
            self._costs = {}
            try:
                held = json.loads(self.path.read_text("utf-8"))
                self._costs = {key: _checked(cost) for key, cost in held.items()}
            except FileNotFoundError:
                pass
            except (OSError, ValueError, TypeError, AttributeError) as error:
                logger.debug("%s is measured anew: %s", self.path, error)
        return self._costs


def _checked(held: Mapping[str, float]) -> Cost:
    cost = Cost(**held)
    if not all(math.isfinite(value) and value >= 0 for value in asdict(cost).values()):
        raise ValueError(f"{held} is no cost")
    return cost


def cache_folder() -> Path:
    """Return the folder for files that may be lost, by the customs of the system."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "napari-tractography"
