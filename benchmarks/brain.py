"""A whole brain at 1.7 mm, larger than the caches: speed beside tckgen, and memory.

Run it in a checkout with the data folder beside it and MRtrix3 installed::

    python benchmarks/brain.py [--fod TEMPLATE] [--angles DEG ...] [--threads N] [--repeats N]
        [--seconds S] [--quick] [--json]

Without the data folder a volume made by code is tracked (see brain_volume.py); ``--quick`` is one
round of short runs at two cone angles. Settings are tckgen's: step half a voxel, cutoff 0.1, and no
probability threshold, which tckgen has not.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import volume
from brain_volume import make_brain
from comparison import Row, ratios, rows_table
from napari_tractography.model.parameters import parameter_specs
from napari_tractography.tracking.speed import (
    Case,
    Contestant,
    Ours,
    figures_of,
    measure,
    speeds_table,
)
from peers.mrtrix import MRtrix, MRtrixInput

ANGLES_DEG = (10.0, 15.0, 20.0, 30.0, 45.0)
QUICK_ANGLES_DEG = (15.0, 45.0)
DETERMINISTIC_ANGLE_DEG = ARC_ANGLE_DEG = 45.0
FINE = 2896  # directions, beside the default
MIN_AMPLITUDE = 0.1
LEAST_TRILINEAR, LEAST_NEAREST, LEAST_FINE = 40.0, 80.0, 1 / 1.5
LEAST_ARCS = 40.0
N_ENDPOINTS, N_ENDPOINTS_QUICK = 1_000_000, 100_000
MOST_TABLE_MB, MOST_PEAK_GB = 150.0, 2.0
INTRODUCTION = (
    "By `python benchmarks/brain.py`: a volume larger than the caches, at the cone angles that "
    "people use. A human brain's FOD template is enlarged three times along each axis; Gaussian "
    "noise, 0.02 of the largest first coefficient, is added to all coefficients up to lmax 8, and "
    "voxels whose first coefficient is below a fifth of the largest are emptied. Both programs get "
    "the same FOD, mask, step, cone angle, cutoff and limits of length and seed uniformly in the "
    "mask, both ways; seeds without a streamline count with no steps. We stop at no probability "
    "threshold (`min_probability=0`), as tckgen has none, and the rows of nearest voxels stand "
    "beside a tckgen that always interpolates. Half a voxel is a long step: a line turns by the "
    "cone angle with each. Steps a seed tell whether programs track alike; SD_STREAM follows the "
    "peak nearest to its direction and our `deterministic` the largest amplitude in the cone, "
    "which goes on for longer. A step of iFOD2 is a whole arc for both: tckgen writes where arcs "
    "end (its `-downsample` leaves the points within them out), and ours are lengths over "
    "the step."
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Who takes part, in turn, and the rows of the table."""

    contestants: tuple[Contestant, ...]
    rows: tuple[Row, ...]


def make_brain_case(path: Path | None = None, n_threads: int = 2) -> Case:
    """Return the brain, tracked wherever it holds an FOD, with steps of half a voxel."""
    fod = make_brain(path)
    return Case(
        fod,
        fod.support,
        step_mm=round(float(fod.grid.voxel_sizes_mm.min()) / 2, 3),
        min_amplitude=MIN_AMPLITUDE,
        n_threads=n_threads,
    )


def comparison(angles_deg: Sequence[float] = ANGLES_DEG) -> Comparison:
    """Return who is compared with whom; those of one cone angle stand beside each other."""
    contestants: list[Contestant] = []
    rows: list[Row] = []
    files = MRtrixInput()

    def ours(what: str, angle_deg: float, **settings: Any) -> Ours:
        found = Ours(
            f"{what}, {angle_deg:g} degrees",
            max_angle_deg=angle_deg,
            min_probability=0.0,
            **settings,
        )
        contestants.append(found)
        return found

    def peer(algorithm: str, angle_deg: float) -> MRtrix:
        found = MRtrix(algorithm, max_angle_deg=angle_deg, files=files)
        contestants.append(found)
        return found

    for angle in angles_deg:
        ifod1 = peer("iFOD1", angle)
        trilinear = ours("probabilistic, trilinear", angle)
        nearest = ours("probabilistic, nearest", angle, interpolation="nearest")
        fine = ours(f"probabilistic, trilinear, {FINE} directions", angle, n_directions=FINE)
        rows += [
            Row(trilinear.label, trilinear.label, ifod1.label, LEAST_TRILINEAR),
            Row(nearest.label, nearest.label, ifod1.label, LEAST_NEAREST),
            Row(fine.label, fine.label, trilinear.label, LEAST_FINE),
        ]
    sd_stream = peer("SD_STREAM", DETERMINISTIC_ANGLE_DEG)
    for algorithm in deterministic_algorithms():
        mine = ours(f"{algorithm}, trilinear", DETERMINISTIC_ANGLE_DEG, algorithm=algorithm)
        rows.append(Row(mine.label, mine.label, sd_stream.label, LEAST_TRILINEAR))
    ifod2 = peer("iFOD2", ARC_ANGLE_DEG)
    arcs = ours("ifod2, trilinear", ARC_ANGLE_DEG, algorithm="ifod2")
    rows.append(Row(arcs.label, arcs.label, ifod2.label, LEAST_ARCS))
    return Comparison(tuple(contestants), tuple(rows))


def deterministic_algorithms() -> tuple[str, ...]:
    """Return those that there are."""
    choices = next(spec.choices for spec in parameter_specs() if spec.name == "algorithm")
    return tuple(name for name in ("deterministic", "sd_stream") if name in choices)


def measure_memory(case: Case, n_streamlines: int) -> dict[str, float]:
    """Return the memory of the tables and the peak of tracking endpoints, in this process."""
    from napari_tractography.tracking.engine import make_plan
    from napari_tractography.tracking.inputs import TrackingInput

    settings = case.parameters(min_probability=0.0, output="endpoints")
    seeds = case.seeds(n_streamlines)
    found = volume.peak_of(case.fod, seeds, settings)
    table = make_plan(TrackingInput(case.fod, seeds, settings)).table
    return {"table_mb": table.n_bytes / 1e6, **found}


def measure_brain(
    path: Path | None,
    *,
    angles_deg: Sequence[float] = ANGLES_DEG,
    n_threads: int = 2,
    repeats: int = 5,
    seconds: float = 3.0,
    n_endpoints: int = N_ENDPOINTS,
) -> dict[str, Any]:
    """Return all figures as plain numbers and strings, ready for JSON."""
    command = [sys.executable, __file__, "--endpoints", str(n_endpoints)]
    command += ["--fod", str(path)] if path else []
    memory = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    case, compared = make_brain_case(path, n_threads), comparison(angles_deg)
    speeds = measure(
        case,
        compared.contestants,
        repeats=repeats,
        seconds=seconds,
        progress=lambda done, total, label: print(f"{done}/{total} {label}", file=sys.stderr),
    )
    return {
        **figures_of(case, speeds, repeats),
        "rows": ratios(speeds, compared.rows),
        "max_angle_deg": list(angles_deg),
        "shape": case.fod.grid.shape,
        "voxel_mm": [round(float(mm), 2) for mm in case.fod.grid.voxel_sizes_mm],
        "lmax": case.fod.lmax,
        "min_amplitude": case.min_amplitude,
        "memory": json.loads(memory),
    }


def misses(figures: dict[str, Any]) -> list[str]:
    """Return which targets are missed."""
    missed = [
        f"{row['what']} beside {row['peer']}: {row['ratio']:.3g}x of {row['target']:.3g}x"
        for row in figures["rows"]
        if not row["skipped"] and row["ratio"] < row["target"]
    ]
    missed += [
        f"{what}: {measured:.3g} of {most:g}"
        for what, measured, most in _memory_rows(figures["memory"])
        if measured > most
    ]
    return missed


def table(figures: dict[str, Any]) -> str:
    """Return the figures as Markdown: what was tracked, speeds beside tckgen's, memory."""
    shape, sizes = (" x ".join(map(str, figures[name])) for name in ("shape", "voxel_mm"))
    lines = [
        f"{figures['fod']}: {shape} voxels of {sizes} mm, of which {figures['mask_voxels']:,} "
        f"hold an FOD, lmax {figures['lmax']}; step {figures['step_mm']:g} mm, cutoff "
        f"{figures['min_amplitude']:g}, lengths 0 to {figures['max_length_mm']:g} mm, "
        f"{figures['n_threads']} threads, median of {figures['repeats']}; million steps a second.",
        "",
        rows_table(figures["rows"]),
        "",
        speeds_table(figures["speeds"]),
        "",
        "| | measured | at most |",
        "|---|---:|---:|",
    ]
    lines += [
        f"| {what} | {measured:.3g} | {most:g} |"
        for what, measured, most in _memory_rows(figures["memory"])
    ]
    return "\n".join(lines)


def _memory_rows(memory: dict[str, float]) -> list[tuple[str, float, float]]:
    """Return what, measured and the most allowed."""
    return [
        ("tables, MB", memory["table_mb"], MOST_TABLE_MB),
        (
            f"peak memory of {memory['streamlines']:,.0f} endpoints-only streamlines, GB",
            memory["peak_gb"],
            MOST_PEAK_GB,
        ),
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fod", type=Path, help="template to enlarge; by default the shared one")
    parser.add_argument("--angles", type=float, nargs="+", metavar="DEG")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, help="about what a run takes")
    parser.add_argument("--quick", action="store_true", help="one round of short runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--endpoints", type=int, metavar="N", help="only the memory of N streamlines, in here"
    )
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # a warm-up of one seed may well find nothing, and says so
    if options.endpoints:
        print(json.dumps(measure_memory(make_brain_case(options.fod), options.endpoints)))
        return
    quick = options.quick
    figures = measure_brain(
        options.fod,
        angles_deg=options.angles or (QUICK_ANGLES_DEG if quick else ANGLES_DEG),
        n_threads=options.threads,
        repeats=options.repeats or (1 if quick else 5),
        seconds=options.seconds or (1.0 if quick else 3.0),
        n_endpoints=N_ENDPOINTS_QUICK if quick else N_ENDPOINTS,
    )
    print(json.dumps(figures, indent=2) if options.json else table(figures))
    for line in misses(figures):
        print(f"missed: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
