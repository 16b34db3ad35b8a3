"""How well streamlines of `algorithm="ifod2"` agree with tckgen's iFOD2, both at their defaults.

Each FOD is tracked from the same seeds by both, each tried once: a grid in every voxel that holds
an FOD. Called by validate.py; run it alone in a checkout with the data folder beside it and MRtrix3
installed::

    python benchmarks/ifod2.py [--data FOLDER] [--fast] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import napari_tractography as nt
from defaults import ROOT, grid_seeds, lengths_of
from peers.mrtrix import run_tckgen, write_fod, write_mask

# Seeds along each axis of a voxel, and the fewer of a fast run.
FODS = {"brain/fod_template.mif.gz": (2, 1), "yoga/fod_sh8.nii.gz": (2, 1)}
MIN_CORRELATION = 0.98
MAX_LENGTH_DIFFERENCE = 0.05
MISSING = "MRtrix3 is not installed here: this comparison is missing."


@dataclass(frozen=True, slots=True)
class Agreement:
    """Streamlines of both from the same seeds.

    Attributes
    ----------
    fod : str
    n_seeds, n_ours, n_theirs : int
    correlation, among_themselves : float
        Pearson's, of the density maps over the voxels that hold an FOD: with tckgen's, and of
        tckgen's with those of a second run of it.
    length_mm, their_length_mm, their_second_length_mm : float
        Means.
    """

    fod: str
    n_seeds: int
    n_ours: int
    n_theirs: int
    correlation: float
    among_themselves: float
    length_mm: float
    their_length_mm: float
    their_second_length_mm: float

    @property
    def misses(self) -> list[str]:
        """What is missed: a density as alike as two runs of tckgen's counts."""
        enough = min(MIN_CORRELATION, self.among_themselves)
        off = abs(self.length_mm / self.their_length_mm - 1)
        met = {
            "density": round(self.correlation, 3) >= round(enough, 3),
            "mean length": off <= MAX_LENGTH_DIFFERENCE,
        }
        return [name for name, is_met in met.items() if not is_met]


def compare(fod: nt.Fod, per_axis: int) -> Agreement:
    """Track with tckgen, twice, and with our own from the same seeds."""
    seeds = grid_seeds(fod, per_axis)
    ours = nt.track(fod, seeds, nt.TrackingParameters.for_fod(fod, algorithm="ifod2"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        image = write_fod(fod, folder / "fod.nii")
        arguments = {
            "algorithm": "iFOD2",
            "select": 0,
            "nthreads": 2,
            "seed_grid_per_voxel": (write_mask(fod.support, fod, folder / "at.nii"), per_axis),
        }
        theirs, again = (
            nt.load_tractogram(run_tckgen(image, folder / f"{k}.tck", arguments)) for k in range(2)
        )
    maps = [nt.density(one, fod.grid)[fod.support] for one in (ours, theirs, again)]
    lengths = [float(lengths_of(one).mean()) for one in (ours, theirs, again)]
    return Agreement(
        fod=fod.name,
        n_seeds=len(seeds),
        n_ours=len(ours),
        n_theirs=len(theirs),
        correlation=float(np.corrcoef(maps[0], maps[1])[0, 1]),
        among_themselves=float(np.corrcoef(maps[1], maps[2])[0, 1]),
        length_mm=lengths[0],
        their_length_mm=lengths[1],
        their_second_length_mm=lengths[2],
    )


def agreements(data: Path, *, fast: bool = False) -> list[Agreement]:
    """Compare on the FODs of the data folder."""
    return [compare(nt.load_fod(data / name), n[fast]) for name, n in FODS.items()]


def table(found: Sequence[Agreement]) -> str:
    """Return the agreements as a Markdown table."""
    lines = [
        "| FOD | seeds | streamlines, tckgen's | density, r | tckgen with itself, r | mean length, "
        "tckgen's twice |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {one.fod} | {one.n_seeds} | {one.n_ours}, {one.n_theirs} | {one.correlation:.3f} | "
        f"{one.among_themselves:.3f} | {one.length_mm:.1f} mm, {one.their_length_mm:.1f} and "
        f"{one.their_second_length_mm:.1f} mm |"
        for one in found
    ]
    return "\n".join(lines)


def text(data: Path, *, fast: bool = False) -> str:
    """Return what the page of validation says."""
    if not shutil.which("tckgen"):
        return MISSING
    found = agreements(data, fast=fast)
    misses = [f"{one.fod} misses {' and '.join(one.misses)}" for one in found if one.misses]
    return "\n\n".join(
        [
            '`TrackingParameters.for_fod(fod, algorithm="ifod2")` beside `tckgen -algorithm iFOD2` '
            "at its defaults, from the same seeds, a grid in every voxel that holds an FOD, each "
            "tried once by both; `python benchmarks/ifod2.py`. A second run of tckgen, with other "
            "random numbers, tells how alike two can be. Aims: density as alike as tckgen's is to "
            f"itself or r {MIN_CORRELATION}, mean length within {MAX_LENGTH_DIFFERENCE:.0%}.",
            table(found),
            f"{'; '.join(misses)}." if misses else "Both are met.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return 1 when an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--fast", action="store_true", help="fewer seeds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if not shutil.which("tckgen"):
        print(MISSING)
        return 1
    found = agreements(options.data, fast=options.fast)
    print(json.dumps([asdict(one) for one in found], indent=1) if options.json else table(found))
    return int(any(one.misses for one in found))


if __name__ == "__main__":
    sys.exit(main())
