"""Why diffusion and transport have the defaults that they have: noise and drift of several sizes.

On the brain template mean lengths are told, of whole streamlines without a smallest length; on the
TrackerYoga phantom how many of a hundred seeds give a valid connection. Everything else is as
``TrackingParameters.for_fod`` suits the volume. Prints a table; needs the data folder::

    python benchmarks/langevin.py [--data FOLDER] [--n-seeds N] [--n-brain N]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import ground_truth
import napari_tractography as nt
import scoring
from defaults import load

ROOT = Path(__file__).resolve().parents[1]
BRAIN = "brain/fod_template.mif.gz"
NOISES = (1.0, 0.5, 0.3, 0.2)
DRIFTS = (0.5, 1.0, 2.0, 4.0, 8.0)
PROBABILISTIC: dict[str, Any] = {"algorithm": "probabilistic"}
BY_NOISE = [
    PROBABILISTIC,
    *({"algorithm": "diffusion", "gamma_noise": noise} for noise in NOISES),
]
BY_DRIFT = [
    {"algorithm": algorithm, "gamma": drift}
    for algorithm in ("diffusion", "transport")
    for drift in DRIFTS
]


def mean_length_mm(fod: nt.Fod, n: int, settings: dict[str, Any]) -> float:
    """Return the mean length of the streamlines of seeds that follow the FOD."""
    parameters = nt.TrackingParameters.for_fod(
        fod, min_length_mm=0.0, look_ahead_mm=0.0, **settings
    )
    return float(nt.track(fod, nt.Seeds.from_fod(fod, n), parameters).lengths_mm.mean())


def valid_share(fod: nt.Fod, yoga: Path, n: int, settings: dict[str, Any]) -> float:
    """Return the share of seeds on the phantom that give a line to the other end of the bundle."""
    parameters = nt.TrackingParameters.for_fod(fod, look_ahead_mm=0.0, **settings)

    def track(start: int, end: scoring.End) -> nt.Tractogram:
        return nt.track(fod, scoring.draw_seeds(end, n, start), parameters)

    ends = ground_truth.ends_of(yoga)
    scores = ground_truth.by_bundle(ends, track).values()
    return sum(score.valid for score in scores) / (n * len(ends))


def name_of(settings: dict[str, Any]) -> str:
    """Return what a row of a table is called."""
    return ", ".join(f"{k} {v:g}" if k != "algorithm" else v for k, v in settings.items())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--n-seeds", type=int, default=300, help="at each end of a bundle")
    parser.add_argument("--n-brain", type=int, default=3000, help="in the brain")
    options = parser.parse_args()
    brain, yoga = load(options.data / BRAIN), options.data / "yoga"
    phantom = load(yoga / ground_truth.FOD)
    print(
        "| | mean length in the brain, mm | valid on the phantom, of 100 seeds |\n|---|---:|---:|"
    )
    for settings in (*BY_NOISE, *BY_DRIFT):
        length = mean_length_mm(brain, options.n_brain, settings)
        valid = valid_share(phantom, yoga, options.n_seeds, settings)
        print(f"| {name_of(settings)} | {length:.0f} | {100 * valid:.1f} |", flush=True)


if __name__ == "__main__":
    main()
