"""What a probability threshold costs: the speed with it beside the speed without, in one run.

An FOD is tracked by each algorithm and interpolation with every threshold in turn, several times
over, and the fastest of each counts, in steps a second of processor time, so that what else the
machine does matters little. By default FiberCup's, in the shared data beside the checkout. A
threshold that ends most streamlines early leaves more of the time to seeds that give few steps::

    python benchmarks/knobs.py [--fod FILE] [--n-seeds N] [--repeats N] [--algorithms NAME ...]
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import napari_tractography as nt
from napari_tractography.files.fods import load_fod

ROOT = Path(__file__).resolve().parents[1]
FOD = ROOT.parent / "shared" / "data" / "fibercup" / "fod.nii.gz"
THRESHOLDS = (0.0, 0.001, 0.005, 0.05)
INTERPOLATIONS = ("nearest", "trilinear")
ALGORITHMS = ("probabilistic", "sd_stream", "deterministic")
SETTINGS = {"step_mm": 0.125, "max_angle_deg": 45.0, "min_amplitude": 0.05}


def speeds(fod: nt.Fod, seeds: nt.Seeds, changes: dict[str, object], repeats: int) -> list[float]:
    """Return million steps a second with each threshold, the fastest of some repeats."""
    fastest = [0.0] * len(THRESHOLDS)
    for repeat in range(repeats + 1):  # the first to compile and to fill tables
        for k, threshold in enumerate(THRESHOLDS):
            parameters = nt.TrackingParameters(**SETTINGS, **changes, min_probability=threshold)
            start = time.process_time()
            found = nt.track(fod, seeds, parameters, backend="cpu")
            speed = (len(found.points) - len(found)) / (time.process_time() - start) / 1e6
            fastest[k] = max(fastest[k], speed if repeat else 0.0)
    return fastest


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fod", type=Path, default=FOD)
    parser.add_argument("--n-seeds", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS)
    options = parser.parse_args()
    fod = load_fod(options.fod)
    seeds = nt.Seeds.from_fod(fod, options.n_seeds)
    print("| | without | " + " | ".join(f"{t:g}" for t in THRESHOLDS[1:]) + " |")
    print("|---|---:|" + "---:|" * len(THRESHOLDS[1:]))
    for algorithm, interpolation in itertools.product(options.algorithms, INTERPOLATIONS):
        changes = {"algorithm": algorithm, "interpolation": interpolation}
        first, *others = speeds(fod, seeds, changes, options.repeats)
        cells = " | ".join(f"{first / other:.2f} times" for other in others)
        print(f"| {algorithm}, {interpolation} | {first:.1f} million | {cells} |", flush=True)


if __name__ == "__main__":
    main()
