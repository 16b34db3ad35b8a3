"""How fast streamlines are tracked on this machine: what is tracked, by whom, and the measuring.

All contestants get the same FOD, mask, step, cone angle, length limit and number of threads, and
run in turn, several times over, so that what else the machine does falls on all alike. Each turn is
two equal runs, of which the second counts: a virtual machine gives memory back that has not been
used for a minute, and getting it again took as long as tracking that fills a gigabyte.

Here are the contestants of this package, for ``napari-tractography bench``; other programs take
part in ``benchmarks/comparison.py`` of the repository.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from ..files.fods import FodKeywords, load_fod
from ..files.volume_files import load_mask
from ..model.fod import Fod
from ..model.masks import mask_on
from ..model.parameters import TrackingParameters
from ..model.phantoms import make_phantom, phantom_mask
from ..model.seeds import Seeds
from ..version import __version__
from .cluster.versions import versions_of
from .devices import cpu_count
from .engine import compile_kernel, track

PHANTOM = "arcs"
FIRST_SEEDS = 200
MAX_SEEDS = 10**7
PACKAGES = ("numpy", "numba", "dipy", "cuslines")  # whose versions are reported


@dataclass(frozen=True, slots=True)
class Case:
    """What every contestant tracks."""

    fod: Fod
    mask: NDArray[np.bool_]  # (x, y, z) bool: where streamlines start and stay
    # step_mm, max_angle_deg, min_amplitude, max_length_mm: as in TrackingParameters.
    step_mm: float = 0.125
    max_angle_deg: float = 45.0
    min_amplitude: float = 0.05
    max_length_mm: float = 250.0
    n_threads: int = 2

    def seeds(self, n: int) -> Seeds:
        """Return `n` seeds, uniform in the mask."""
        return Seeds.in_mask(self.mask, self.fod.grid, n)

    def amplitudes(self, unit_directions: NDArray[Any]) -> NDArray[np.float32]:
        """Return (x, y, z, n) float32 amplitudes of the FOD, clipped at zero."""
        return np.maximum(self.fod.amplitudes(unit_directions), np.float32(0))

    def parameters(self, **changes: Any) -> TrackingParameters:
        """Return the same settings as parameters of our engine."""
        return TrackingParameters(
            step_mm=self.step_mm,
            max_angle_deg=self.max_angle_deg,
            min_amplitude=self.min_amplitude,
            max_length_mm=self.max_length_mm,
        ).replace(**changes)


class Contestant(Protocol):
    """One program with one algorithm; the table calls it by its label."""

    label: str

    def missing(self) -> str:
        """Return why it cannot take part here, or ""."""

    def prepare(self, case: Case) -> None:
        """Do what is not measured: load, tabulate, compile."""

    def make_seeds(self, n: int) -> None:
        """Make the inputs of a run with `n` seeds; not measured."""

    def run(self, n: int) -> Any:
        """Track `n` seeds; measured."""

    def steps(self, result: Any) -> int:
        """Count the steps in what a run returned; not measured."""


def make_case(
    fod_path: str | PathLike[str] | None = None,
    mask_path: str | PathLike[str] | None = None,
    *,
    n_threads: int = 2,
    **reading: Unpack[FodKeywords],
) -> Case:
    """Load what is tracked: an FOD, by default a phantom, and where, by default wherever it is.

    The number of threads is that of every contestant; `reading` says how the FOD is read, as of
    :func:`~napari_tractography.files.fods.load_fod`. Raises TractographyError when a file cannot
    be read, or the mask lies elsewhere than the FOD.
    """
    if fod_path is None:
        fod, mask = make_phantom(PHANTOM), phantom_mask(PHANTOM)
    else:
        fod = load_fod(fod_path, **reading)
        mask = fod.support
    if mask_path is not None:
        mask, grid = load_mask(mask_path)
        mask = mask_on(mask, grid, fod.grid, str(mask_path))
    return Case(fod, mask, n_threads=n_threads)


class Ours:
    """This package as a contestant, with settings that differ from the case's."""

    def __init__(self, label: str, **settings: Any) -> None:
        self.label = label
        self._settings = settings

    def missing(self) -> str:
        return ""

    def prepare(self, case: Case) -> None:
        self._case = case
        self._parameters = case.parameters(**self._settings)
        self._track = track
        kind = self._parameters.algorithm, self._parameters.interpolation
        # Else the first runs would be NumPy's.
        compile_kernel(*kind, lmax=case.fod.lmax, is_asymmetric=case.fod.is_asymmetric)

    def make_seeds(self, n: int) -> None:
        # Tables are kept for the settings of the last run, which may be another contestant's.
        self._seeds = self._case.seeds(1)
        self.run(1)
        self._seeds = self._case.seeds(n)

    def run(self, n: int) -> Any:
        return self._track(
            self._case.fod,
            self._seeds,
            self._parameters,
            mask=self._case.mask,
            n_threads=self._case.n_threads,
            backend="cpu",
        )

    def steps(self, result: Any) -> int:
        return round(float(result.lengths_mm.sum(dtype=np.float64)) / self._case.step_mm)


PROBABILISTIC_NEAREST = Ours("probabilistic, nearest", interpolation="nearest")
PROBABILISTIC_TRILINEAR = Ours("probabilistic, trilinear")
DETERMINISTIC_NEAREST = Ours(
    "deterministic, nearest", algorithm="deterministic", interpolation="nearest"
)
DETERMINISTIC_TRILINEAR = Ours("deterministic, trilinear", algorithm="deterministic")
ENDPOINTS_NEAREST = Ours("endpoints only, nearest", interpolation="nearest", output="endpoints")
CONTESTANTS: tuple[Contestant, ...] = (
    PROBABILISTIC_NEAREST,
    PROBABILISTIC_TRILINEAR,
    DETERMINISTIC_NEAREST,
    DETERMINISTIC_TRILINEAR,
    ENDPOINTS_NEAREST,
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run took."""

    steps: int
    # wall_s, cpu_s: seconds on the clock, and of all processors together, child processes included.
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Speed:
    """The median of several runs."""

    label: str
    # steps_per_s, steps_per_cpu_s: zero where it was skipped.
    steps_per_s: float = 0.0
    steps_per_cpu_s: float = 0.0
    start_up_s: float = 0.0  # what a run of one seed takes; taken off the others
    skipped: str = ""  # why it took no part, or ""
    steps_per_seed: float = 0.0  # their mean: about the same for programs that track alike


def measure(
    case: Case,
    contestants: Sequence[Contestant],
    *,
    repeats: int,
    seconds: float,
    progress: Callable[[int, int, str], None] = lambda done, total, label: None,
) -> list[Speed]:
    """Let every contestant track, in turn, so many times, for about so many seconds each.

    `progress` is called with runs done, runs in all, and the label of the next. Returned is one
    Speed for each, in their order.
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


def machine() -> dict[str, Any]:
    """Return processor, cores, system and versions."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    ours = {"napari-tractography": __version__, "Python": platform.python_version()}
    return {
        "processor": found[0] if found else model,
        "cores": cpu_count(),
        "system": platform.system(),
        "versions": {**ours, **versions_of(PACKAGES)},
    }


def figures_of(case: Case, speeds: Sequence[Speed], repeats: int) -> dict[str, Any]:
    """Return everything as plain numbers and strings, ready for JSON."""
    return {
        "machine": machine(),
        "fod": case.fod.name,
        "mask_voxels": int(np.count_nonzero(case.mask)),
        "step_mm": case.step_mm,
        "max_angle_deg": case.max_angle_deg,
        "max_length_mm": case.max_length_mm,
        "n_threads": case.n_threads,
        "repeats": repeats,
        "speeds": [asdict(speed) for speed in speeds],
    }


def conditions(figures: dict[str, Any]) -> str:
    """Return what :func:`figures_of` says of the machine and of what was tracked, as two lines."""
    computer = figures["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in computer["versions"].items())
    return (
        f"{computer['processor']}, {computer['cores']} cores, {computer['system']}; {versions}.\n"
        f"{figures['fod']}, {figures['mask_voxels']} voxels, step {figures['step_mm']:g} mm, "
        f"{figures['max_angle_deg']:g} degrees, {figures['n_threads']} threads, median of "
        f"{figures['repeats']}; million steps a second."
    )


def speeds_table(speeds: Sequence[dict[str, Any]]) -> str:
    """Return every contestant's own speed as Markdown; `speeds` are fields of :class:`Speed`."""
    lines = [
        "| | million steps/s | per processor second | processors busy | start-up, s "
        "| steps a seed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for speed in speeds:
        if speed["skipped"]:
            lines.append(f"| {speed['label']} | skipped: {speed['skipped']} | | | | |")
            continue
        busy = speed["steps_per_s"] / speed["steps_per_cpu_s"]
        lines.append(
            f"| {speed['label']} | {speed['steps_per_s'] / 1e6:.3f} "
            f"| {speed['steps_per_cpu_s'] / 1e6:.3f} | {busy:.1f} | {speed['start_up_s']:.2f} "
            f"| {speed['steps_per_seed']:.0f} |"
        )
    return "\n".join(lines)
