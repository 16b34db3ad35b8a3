"""cuslines' CUDA tracker on the FOD, the seeds and the settings of a bundle, for `gpu.py`.

    python benchmarks/gpu_cuslines.py bundle.npz ...    prints one JSON; needs cuslines, DIPY, a GPU

In a process of its own: cuslines makes a CUDA context for itself, beside which CuPy's would not go
on. Its copy to the host is part of every run, so that it stands beside our end to end.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_bundle import Run, amplitudes_at, read, with_seeds

SPEED_RUN = "spot-probabilistic-trilinear"  # cuslines always interpolates
SEEDS_A_CHUNK = 25_000
N_SEEDS = 100_000  # at most
REPEATS = 2
TIMEOUT_S = 40


def measure(run: Run, module: Any, vertices: np.ndarray, edges: np.ndarray) -> dict[str, float]:
    """Return the speed of the tracker of `module`, as ``cuslines.cuda_python`` has it.

    Parameters
    ----------
    run : Run
    module : module
        With `GPUTracker` and `ProbDirectionGetter`.
    vertices : (n, 3) array
        Unit vectors over the whole sphere.
    edges : (m, 2) array
        Which of them are neighbours.
    """
    field = run.plan.field
    used = field.voxel_rows >= 0
    volume = np.zeros((*used.shape, len(vertices)), np.float32)
    volume[used] = amplitudes_at(field, vertices)[field.voxel_rows[used]]
    to_voxel = np.asarray(field.to_voxel, float)
    positions = with_seeds(run.plan, min(run.n_timed, N_SEEDS)).positions_mm
    seeds = positions @ to_voxel[:, :3].T + to_voxel[:, 3]
    voxel_mm = float(np.mean(np.linalg.norm(np.linalg.inv(to_voxel[:, :3]), axis=0)))
    best, n_steps, n_lines = np.inf, 0, 0
    with module.GPUTracker(
        module.ProbDirectionGetter(),
        volume,
        used.astype(np.float32),
        0.5,
        vertices,
        edges,
        sphere_symm=True,
        max_angle=np.deg2rad(run.parameters["max_angle_deg"]),
        step_size=run.parameters["step_mm"] / voxel_mm,
        rng_seed=1,
        chunk_size=SEEDS_A_CHUNK,
    ) as tracker:
        for _ in range(REPEATS + 1):  # the first compiles
            n_steps = n_lines = 0
            begun = time.perf_counter()
            for first in range(0, len(seeds), SEEDS_A_CHUNK):
                found = tracker.seed_propagator
                found.propagate(seeds[first : first + SEEDS_A_CHUNK].astype(np.float32))
                for lengths, n in zip(found.sline_lens, found.nSlines, strict=True):
                    n_steps += int((lengths[:n] - 1).sum())
                    n_lines += int(n)
            best = min(best, time.perf_counter() - begun)
    return {"whole_steps_per_s": n_steps / best, "streamlines_per_s": n_lines / best}


def beside(bundles: Sequence[Path]) -> dict[str, Any]:
    """Run this file in a process of its own; return its figures, or why there are none."""
    command = [sys.executable, str(Path(__file__)), *map(str, bundles)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"skipped": f"it took more than {TIMEOUT_S} s"}
    if done.returncode:
        return {"skipped": (done.stderr.strip().splitlines() or ["it ended"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Run the command line."""
    module = importlib.import_module("cuslines.cuda_python")
    sphere = importlib.import_module("dipy.data").default_sphere
    run = read(*map(Path, sys.argv[1:]))[SPEED_RUN]
    print(json.dumps(measure(run, module, sphere.vertices, sphere.edges)))


if __name__ == "__main__":
    main()
