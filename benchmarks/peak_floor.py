"""Why peaks get half the floor of FODs: valid connections and density at several floors.

Peaks are those of ``sh2peaks -num 3``, tracked as ``TrackingParameters.for_fod`` suits them but for
the floor. On the TrackerYoga phantom, with and without noise, valid connections are counted; on the
brain template the density is compared with that of iFOD2 on the FOD, from the same seeds. Prints a
table; needs MRtrix3 and the data folder::

    python benchmarks/peak_floor.py [--data FOLDER] [--n-seeds N]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import ground_truth
import napari_tractography as nt
import scoring
from defaults import grid_seeds, load
from looking_ahead import noisy_copy
from peers.mrtrix import run_tckgen, write_fod, write_mask

ROOT = Path(__file__).resolve().parents[1]
FLOORS = (0.25, 0.5, 0.75, 1.0)  # of that of the FOD that the peaks are of
ALGORITHMS = ("probabilistic", "sd_stream", "transport")
BRAIN = "brain/fod_template.mif.gz"


def peaks_of(fod: nt.Fod, folder: Path) -> nt.Fod:
    """Return the three largest peaks of each voxel, as MRtrix3 finds them."""
    image = write_fod(fod, folder / "fod.nii")
    words = ["sh2peaks", "-quiet", "-force", "-num", "3", image, folder / "peaks.nii"]
    subprocess.run([str(word) for word in words], check=True)
    return nt.load_fod(folder / "peaks.nii", kind="peaks")


def parameters_for(fod: nt.Fod, peaks: nt.Fod, algorithm: str, floor: float) -> Any:
    """Return what suits the peaks, with a floor that is a fraction of the FOD's."""
    return nt.TrackingParameters.for_fod(
        peaks,
        algorithm=algorithm,
        min_amplitude=floor * nt.TrackingParameters.for_fod(fod).min_amplitude,
    )


def valid_shares(fod: nt.Fod, yoga: Path, n: int) -> dict[tuple[str, float], float]:
    """Return the share of streamlines that are valid, by algorithm and floor, on the phantom."""
    ends = ground_truth.ends_of(yoga)
    shares = {}
    with tempfile.TemporaryDirectory() as folder:
        peaks = peaks_of(fod, Path(folder))
    for algorithm in ALGORITHMS:
        for floor in FLOORS:
            parameters = parameters_for(fod, peaks, algorithm, floor)

            def track(start: int, end: scoring.End, parameters: Any = parameters) -> nt.Tractogram:
                return nt.track(peaks, scoring.draw_seeds(end, n, start), parameters)

            scores = ground_truth.by_bundle(ends, track)
            total = sum(score.n_streamlines for score in scores.values())
            valid = sum(score.valid for score in scores.values())
            shares[algorithm, floor] = valid / total
    return shares


def correlations(fod: nt.Fod) -> dict[tuple[str, float], float]:
    """Return Pearson's r of our density on peaks with iFOD2's on the FOD, over its voxels."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        peaks = peaks_of(fod, folder)
        support = write_mask(fod.support, fod, folder / "support.nii")
        arguments = {
            "algorithm": "iFOD2", "select": 0, "nthreads": 2, "seed_grid_per_voxel": (support, 1),
        }  # fmt: skip
        tck = run_tckgen(folder / "fod.nii", folder / "theirs.tck", arguments)
        theirs = nt.density(nt.load_tractogram(tck), fod)[fod.support]
    found = {}
    for algorithm in ALGORITHMS:
        for floor in FLOORS:
            parameters = parameters_for(fod, peaks, algorithm, floor)
            lines = nt.track(peaks, grid_seeds(fod, 1), parameters)
            ours = nt.density(lines, fod)[fod.support]
            found[algorithm, floor] = float(np.corrcoef(ours, theirs)[0, 1])
    return found


def table(columns: dict[str, dict[tuple[str, float], float]]) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        f"| algorithm | floor | {' | '.join(columns)} |",
        f"|---|---:|{'---:|' * len(columns)}",
    ]
    for algorithm in ALGORITHMS:
        for floor in FLOORS:
            cells = " | ".join(f"{column[algorithm, floor]:.3f}" for column in columns.values())
            lines.append(f"| {algorithm} | {floor:g} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--n-seeds", type=int, default=300, help="at each end of a bundle")
    options = parser.parse_args()
    yoga = options.data / "yoga"
    fod = load(yoga / ground_truth.FOD)
    columns = {
        "phantom, valid": valid_shares(fod, yoga, options.n_seeds),
        "with noise, valid": valid_shares(noisy_copy(fod), yoga, options.n_seeds),
        "brain, density, r": correlations(load(options.data / BRAIN)),
    }
    print(table(columns))


if __name__ == "__main__":
    main()
