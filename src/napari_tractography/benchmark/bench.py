"""The command ``napari-tractography bench``: our speed beside other programs' in one run.

Everybody gets the same FOD, mask, step, cone angle, length limit and number of threads, and runs
in turn, several times over, so that what else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidMaskError, InvalidParameterError
from ..version import __version__
from .peers import Case, Contestant, Cuslines, Dipy, MRtrix, Ours, TractographyJl

FIBERCUP = Path(__file__).resolve().parents[3] / "shared" / "data" / "fibercup"
PHANTOM = "arcs"
FIRST_SEEDS = 200
BAR_CELLS = 30


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: which of ours against which peer, and the ratio we aim for."""

    what: str
    ours: str
    peer: str
    target: float


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
    MRtrix("iFOD1"),
    MRtrix("SD_STREAM"),
    Dipy("probabilistic_tracking"),
    Dipy("deterministic_tracking"),
    Cuslines(),
    TractographyJl(),
)
ROWS = (
    Row("probabilistic, nearest", PROBABILISTIC_NEAREST.label, "MRtrix3 iFOD1", 100),
    Row("probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, "MRtrix3 iFOD1", 40),
    Row(
        "probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, "DIPY probabilistic_tracking", 50
    ),
    Row("probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, Cuslines.label, 15),
    Row("deterministic, nearest", DETERMINISTIC_NEAREST.label, "MRtrix3 SD_STREAM", 50),
    Row(
        "deterministic, trilinear", DETERMINISTIC_TRILINEAR.label, "DIPY deterministic_tracking", 15
    ),
    Row("endpoints only, nearest", ENDPOINTS_NEAREST.label, TractographyJl.label, 8),
)


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
        What a run without work takes; taken off the others.
    skipped : str
        Why it took no part, or "".
    """

    label: str
    steps_per_s: float = 0.0
    steps_per_cpu_s: float = 0.0
    start_up_s: float = 0.0
    skipped: str = ""


# ------------------------------------------------------------------------------------ measuring


def measure(
    case: Case,
    *,
    repeats: int,
    seconds: float,
    contestants: tuple[Contestant, ...] = CONTESTANTS,
    progress: Callable[[int, int, str], None] = lambda done, total, label: None,
) -> list[Speed]:
    """Let everybody track, in turn.

    Parameters
    ----------
    case : Case
    repeats : int
        Runs of each contestant.
    seconds : float
        About how long a run shall take.
    contestants : tuple of Contestant
    progress : callable
        Called with (runs done, runs in all, label of the next).
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
        for place, contestant in enumerate(taking_part):
            progress((repeat + 1) * len(taking_part) + place, total, contestant.label)
            label = contestant.label
            start_ups.setdefault(label, []).append(measure_run(contestant, 1))
            runs.setdefault(label, []).append(measure_run(contestant, sizes[label]))
    progress(total, total, "")
    return [
        Speed(c.label, skipped=skipped[c.label])
        if skipped[c.label]
        else _speed(c.label, start_ups[c.label], runs[c.label])
        for c in contestants
    ]


def measure_run(contestant: Contestant, n_seeds: int) -> Measurement:
    """Run once."""
    contestant.ready(n_seeds)
    cpu, wall = cpu_seconds(), time.perf_counter()
    result = contestant.run(n_seeds)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return Measurement(contestant.steps(result), wall, cpu)


def cpu_seconds() -> float:
    """Return the processor time of this process and of the children that have ended."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _fitting_size(contestant: Contestant, seconds: float) -> int:
    """Return how many seeds take about so long; runs before it are the warm-up."""
    measure_run(contestant, 1)
    size = FIRST_SEEDS
    while True:
        took = measure_run(contestant, size).wall_s
        if took > seconds / 4 or size > 10**7:
            return max(2, round(size * seconds / max(took, 1e-3)))
        size *= 4


def _speed(label: str, start_ups: list[Measurement], runs: list[Measurement]) -> Speed:
    """Take the start-up off each run and return the medians."""
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
    )


# -------------------------------------------------------------------------------------- reporting


def machine() -> dict[str, Any]:
    """Return processor, cores, system and versions."""
    from importlib.metadata import PackageNotFoundError, version

    from ..tracking.devices import cpu_count

    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    versions = {"napari-tractography": __version__, "Python": platform.python_version()}
    for name in ("numpy", "numba", "dipy", "cuslines"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": found[0] if found else model,
        "cores": cpu_count(),
        "system": platform.system(),
        "versions": versions,
    }


def ratios(speeds: list[Speed]) -> list[dict[str, Any]]:
    """Return the rows of the table: speeds, their ratio on the clock and per processor second."""
    by_label = {speed.label: speed for speed in speeds}
    rows = []
    for row in ROWS:
        ours, peer = by_label[row.ours], by_label[row.peer]
        skipped = peer.skipped or ("" if peer.steps_per_s > 0 else "it made no steps")
        entry: dict[str, Any] = {**asdict(row), "skipped": skipped}
        if not skipped:
            entry |= {
                "ours_steps_per_s": ours.steps_per_s,
                "peer_steps_per_s": peer.steps_per_s,
                "ratio": ours.steps_per_s / peer.steps_per_s,
                "ratio_per_cpu_s": ours.steps_per_cpu_s / peer.steps_per_cpu_s,
            }
        rows.append(entry)
    return rows


def report(case: Case, speeds: list[Speed], repeats: int) -> dict[str, Any]:
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
        "rows": ratios(speeds),
    }


def table(figures: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    computer = figures["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in computer["versions"].items())
    lines = [
        f"{computer['processor']}, {computer['cores']} cores, {computer['system']}; {versions}.",
        f"{figures['fod']}, {figures['mask_voxels']} voxels, step {figures['step_mm']:g} mm, "
        f"{figures['max_angle_deg']:g} degrees, {figures['n_threads']} threads, median of "
        f"{figures['repeats']}; million steps a second.",
        "",
        "| | ours | peer | | ratio | per processor second | at least |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in figures["rows"]:
        if row["skipped"]:
            lines.append(f"| {row['what']} | | {row['peer']} | skipped: {row['skipped']} | | | |")
            continue
        lines.append(
            f"| {row['what']} | {row['ours_steps_per_s'] / 1e6:.2f} | {row['peer']} "
            f"| {row['peer_steps_per_s'] / 1e6:.3f} | {row['ratio']:.1f}x "
            f"| {row['ratio_per_cpu_s']:.1f}x | {row['target']:g}x |"
        )
    return "\n".join(lines)


# ------------------------------------------------------------------------------------ the command


def add_bench(commands: Any) -> None:
    """Add the sub-command to the command's parser."""
    from ..fields.sh import BASES, FRAMES

    parser = commands.add_parser(
        "bench", help="measure the speed on this machine, beside other programs'"
    )
    parser.add_argument("--fod", metavar="FOD", help="instead of FiberCup or a phantom")
    parser.add_argument("--mask", metavar="IMAGE", help="where to track; by default all of the FOD")
    parser.add_argument(
        "--basis", default=BASES[0], help=f"{', '.join(BASES)} (default {BASES[0]})"
    )
    parser.add_argument("--frame", help=f"{', '.join(FRAMES)} (default by basis)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="(default 5)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="about what a run takes (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print the table."""
    for name in ("threads", "repeats", "seconds"):
        if not getattr(options, name) > 0:
            raise InvalidParameterError(
                f"--{name} {getattr(options, name):g} makes no sense; give a positive number."
            )
    case = make_case(options)
    progress = _show_progress if sys.stderr.isatty() else (lambda done, total, label: None)
    speeds = measure(case, repeats=options.repeats, seconds=options.seconds, progress=progress)
    figures = report(case, speeds, options.repeats)
    print(json.dumps(figures, indent=2) if options.json else table(figures))
    return 0


def make_case(options: argparse.Namespace) -> Case:
    """Load what shall be tracked: the given FOD, else FiberCup, else a phantom.

    Raises
    ------
    InvalidMaskError
        When the mask lies on another grid than the FOD.
    """
    from ..files.fods import load_fod, load_mask
    from ..phantoms import make_phantom, phantom_mask

    fod_path, mask_path = options.fod, options.mask
    if fod_path is None and FIBERCUP.is_dir():
        fod_path, mask_path = FIBERCUP / "fod.nii.gz", mask_path or FIBERCUP / "wm.nii.gz"
    if fod_path is None:
        fod = make_phantom(PHANTOM)
        mask = phantom_mask(PHANTOM)
    else:
        fod = load_fod(fod_path, basis=options.basis, frame=options.frame)
        mask = fod.support
    if mask_path is not None:
        mask, grid = load_mask(mask_path)
        if not grid.same_space(fod.grid):
            raise InvalidMaskError(
                f"The mask {mask_path} is {grid} but {fod.name} is {fod.grid}; resample it to the "
                "FOD's grid (mrgrid mask regrid -template fod -interp nearest)."
            )
    return Case(fod, mask, n_threads=options.threads)


def _show_progress(done: int, total: int, label: str) -> None:
    filled = BAR_CELLS * done // max(total, 1)
    bar = "#" * filled + "." * (BAR_CELLS - filled)
    end = "\n" if done == total else ""
    print(f"\r[{bar}] {done}/{total} {label:<36}", end=end, file=sys.stderr, flush=True)
