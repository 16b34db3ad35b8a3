"""A whole brain's worth of FOD: time to start, time to start again, memory.

Each figure comes from a fresh process::

    python benchmarks/volume.py [--repeats N] [--json]

The volume is made by code: 145 x 174 x 145 voxels of 1.25 mm, lmax 8, of which 250,000 around the
middle hold curved fibres, a third of them crossing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

SHAPE = (145, 174, 145)
N_VOXELS = 250_000
VOXEL_MM = 1.25
LMAX = 8
N_STREAMLINES = 1_000_000
TARGETS = {
    "table_s": 10.0,
    "changed_step_s": 0.2,
    "changed_angle_s": 0.2,
    "changed_threshold_s": 0.2,
    "peak_gb": 2.0,
    "start_s": 2.0,
}
NAMES = {
    "table_s": "tables ready, s",
    "changed_step_s": "first streamlines after a changed step, s",
    "changed_angle_s": "after a changed cone angle, s",
    "changed_threshold_s": "after a changed probability threshold, s",
    "peak_gb": "peak memory of 1,000,000 endpoints-only streamlines, GB",
    "start_s": "first streamlines after importing the package, second start of the program, s",
}


def make_volume() -> Any:
    """Return the FOD."""
    from napari_tractography import Fod
    from napari_tractography.fields.sh import sh_matrix

    middle = (np.array(SHAPE) - 1) / 2
    position = np.indices(SHAPE, dtype=np.float32).reshape(3, -1).T - middle.astype(np.float32)
    radius = np.linalg.norm(position, axis=1)
    used = np.sort(np.argpartition(radius, N_VOXELS)[:N_VOXELS])
    x, y, z = position[used].T
    around = np.stack([-y, x, 0.3 * np.abs(z)], axis=1) + np.float32(0.1)
    across = np.stack([np.cos(z / 20), np.sin(z / 20), 0.2 * np.ones_like(z)], axis=1)
    degrees = np.concatenate([np.full(2 * deg + 1, deg) for deg in range(0, LMAX + 1, 2)])
    lobe = 0.5 * np.exp(-0.02 * degrees * (degrees + 1))
    values = np.zeros((N_VOXELS, degrees.size), np.float32)
    for vectors, fraction in ((around, 1.0), (across, 0.7)):
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        crossing = np.ones(N_VOXELS, bool) if fraction == 1.0 else np.arange(N_VOXELS) % 3 == 0
        values[crossing] += fraction * lobe * sh_matrix(units[crossing], LMAX, "tournier07")
    # Stored as an image is: a volume a coefficient, which is also what a NIfTI file gives.
    coefficients = np.zeros((degrees.size, int(np.prod(SHAPE))), np.float32)
    coefficients[:, used] = values.T
    affine = np.diag([VOXEL_MM, VOXEL_MM, VOXEL_MM, 1.0])
    affine[:3, 3] = -VOXEL_MM * middle
    volume = np.moveaxis(coefficients.reshape(degrees.size, *SHAPE), 0, -1)
    return Fod(volume, affine, name="made by code")


def parameters(**changes: Any) -> Any:
    """Return the settings of all runs."""
    from napari_tractography import TrackingParameters

    return TrackingParameters(step_mm=0.5, interpolation="nearest").replace(**changes)


def first_chunk_s(fod: Any, seeds: Any, settings: Any) -> float:
    """Return the seconds from the call to the first streamlines."""
    from napari_tractography import iter_track

    begun = time.perf_counter()
    chunks = iter_track(fod, seeds, settings)
    next(chunks)
    seconds = time.perf_counter() - begun
    chunks.close()
    return seconds


def measure_starts() -> dict[str, float]:
    """Return the time of the tables and of starts after changes."""
    from napari_tractography import Seeds

    small = _small()
    fod = make_volume()
    seeds = Seeds.from_fod(fod, 10_000)
    first_chunk_s(*small)  # compiled code is loaded
    table = first_chunk_s(fod, seeds, parameters())
    list_of = {
        "changed_step_s": parameters(step_mm=0.4),
        "changed_angle_s": parameters(step_mm=0.4, max_angle_deg=40.0),
        "changed_threshold_s": parameters(step_mm=0.4, max_angle_deg=40.0, min_probability=0.02),
    }
    return {"table_s": table} | {
        name: first_chunk_s(fod, seeds, settings) for name, settings in list_of.items()
    }


def measure_memory() -> dict[str, float]:
    """Return the peak memory of the process and what was there before tracking."""
    from napari_tractography import Seeds

    fod = make_volume()
    return peak_of(fod, Seeds.from_fod(fod, N_STREAMLINES), parameters(output="endpoints"))


def peak_of(fod: Any, seeds: Any, settings: Any) -> dict[str, float]:
    """Track; return the peak memory of this process meanwhile and what was there before."""
    import psutil

    from napari_tractography import track

    before = psutil.Process().memory_info().rss
    reset_peak()
    begun = time.perf_counter()
    streamlines = track(fod, seeds, settings)
    seconds = time.perf_counter() - begun
    return {
        "peak_gb": peak_bytes() / 1e9,
        "before_gb": before / 1e9,
        "streamlines": len(streamlines),
        "track_s": seconds,
    }


def measure_second_start() -> dict[str, float]:
    """Return the seconds from the import of the package to streamlines, compiled code on disk."""
    begun = time.perf_counter()
    import napari_tractography as nt
    from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm

    imported = time.perf_counter()
    fod = make_phantom("arcs")
    made = time.perf_counter() - imported
    nt.track(fod, nt.Seeds.at(phantom_seeds_mm("arcs")), nt.TrackingParameters())
    return {"start_s": time.perf_counter() - begun - made}


def _small() -> tuple[Any, Any, Any]:
    from napari_tractography import Seeds
    from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm

    return make_phantom("arcs"), Seeds.at(phantom_seeds_mm("arcs")), parameters()


def reset_peak() -> None:
    """Let the peak of the process begin at what it holds now, where the system can (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return


def peak_bytes() -> float:
    """Return the largest resident memory so far."""
    import resource

    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) * (1 if sys.platform == "darwin" else 1024)


PARTS = {
    "starts": measure_starts,
    "memory": measure_memory,
    "second-start": measure_second_start,
}


def measure(repeats: int) -> dict[str, float]:
    """Return the median of each figure over fresh processes; memory, which repeats, once."""
    from napari_tractography.tracking.engine import compile_kernel

    for interpolation in ("nearest", "trilinear"):
        compile_kernel("probabilistic", interpolation, lmax=LMAX)
    found: dict[str, list[float]] = {}
    for part in PARTS:
        for _ in range(1 if part == "memory" else repeats):
            output = subprocess.run(
                [sys.executable, __file__, "--part", part],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for name, value in json.loads(output).items():
                found.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def table(figures: dict[str, float]) -> str:
    """Return the figures as Markdown."""
    lines = ["| | measured | at most |", "|---|---:|---:|"]
    lines += [f"| {NAMES[n]} | {figures[n]:.2f} | {TARGETS[n]:g} |" for n in NAMES]
    lines.append("")
    lines.append(
        f"The process held {figures['before_gb']:.2f} GB before tracking, the FOD and the seeds; "
        f"the {figures['streamlines']:.0f} streamlines took {figures['track_s']:.1f} s, tables "
        "included."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", choices=tuple(PARTS), help="one measurement in this process")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part]()))
        return
    figures = measure(options.repeats)
    print(json.dumps(figures, indent=2) if options.json else table(figures))


if __name__ == "__main__":
    main()
