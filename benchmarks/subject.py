"""A real person's eight bundles, from peaks: valid connections beside tckgen's; docs/validation.md.

Every program gets as many seeds in each bundle's mask, from the peaks of the whole brain, at one
setting for all bundles. A streamline is a valid connection where it runs from the mask of the
bundle's begin to that of its end, either way, with nine tenths of its points in the bundle's mask.
Run it in a checkout, on the folder of the subject, with Debian's mrtrix3 installed::

    python benchmarks/subject.py SUBJECT [--n-seeds N] [--out docs/validation.md]

It writes a section of the page, and leaves the rest as it is.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np

import napari_tractography as nt

ROOT = Path(__file__).resolve().parents[1]
TITLE = "Bundles of a person, from peaks"
MIN_INSIDE = 0.9  # of a streamline's points
RANDOM_SEED = 1

ALGORITHMS = ("probabilistic", "deterministic", "sd_stream")


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """The masks of one bundle, all on the grid of the peaks."""

    name: str
    whole: Path
    inside: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def read_bundles(folder: Path) -> list[Bundle]:
    """Return the bundles of a folder: NAME.nii.gz, and NAME_b and NAME_e for its ends."""
    found = []
    for path in sorted(folder.glob("*_b.nii.gz")):
        name = path.name.removesuffix("_b.nii.gz")
        whole = folder / f"{name}.nii.gz"
        masks = [np.asarray(nib.load(p).dataobj) > 0 for p in
                 (whole, path, folder / f"{name}_e.nii.gz")]  # fmt: skip
        found.append(Bundle(name, whole, *masks))
    return found


def n_valid(streamlines: nt.Tractogram, bundle: Bundle, grid: nt.Grid) -> int:
    """Return how many streamlines are valid connections of a bundle."""
    if not len(streamlines):
        return 0
    voxels = np.rint(grid.to_voxel(streamlines.points)).astype(np.int64)
    outside = ((voxels < 0) | (voxels >= grid.shape)).any(axis=1)
    voxels[outside] = 0
    where = tuple(voxels.T)
    inside = bundle.inside[where] & ~outside
    share = np.add.reduceat(inside, streamlines.offsets[:-1]) / np.diff(streamlines.offsets)
    first, last = streamlines.offsets[:-1], streamlines.offsets[1:] - 1
    at_begin, at_end = bundle.begin[where] & ~outside, bundle.end[where] & ~outside
    joined = (at_begin[first] & at_end[last]) | (at_end[first] & at_begin[last])
    return int((joined & (share >= MIN_INSIDE)).sum())


def ours(fod: nt.Fod, **changes: object) -> Callable[[Bundle, int], nt.Tractogram]:
    """Return what tracks a bundle with our parameters."""

    def run(bundle: Bundle, n_seeds: int) -> nt.Tractogram:
        seeds = nt.Seeds.in_mask(bundle.inside, fod.grid, n_seeds, random_seed=RANDOM_SEED)
        return nt.track(fod, seeds, nt.TrackingParameters.for_fod(fod, **changes), backend="cpu")

    return run


def tckgen(algorithm: str, image: Path, *options: str) -> Callable[[Bundle, int], nt.Tractogram]:
    """Return what tracks a bundle with tckgen, at its own defaults but for the options."""

    def run(bundle: Bundle, n_seeds: int) -> nt.Tractogram:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "t.tck"
            seeding = ["-seed_image", str(bundle.whole), "-seeds", str(n_seeds)]
            command = ["tckgen", "-quiet", "-algorithm", algorithm, str(image), str(out)]
            subprocess.run([*command, *seeding, *options], check=True)
            return nt.load_tractogram(out)

    return run


def as_images(fod: nt.Fod, folder: Path) -> tuple[Path, Path]:
    """Write what tckgen reads: peaks without NaN, and an FOD of lobes along them."""
    peaks, lobes = folder / "peaks.nii", folder / "fod.nii"
    nib.save(nib.Nifti1Image(fod.dense(fod.vectors.numbers), fod.grid.affine), peaks)
    nib.save(nib.Nifti1Image(fod.coefficients, fod.grid.affine), lobes)
    return peaks, lobes


def measure(subject: Path, n_seeds: int, folder: Path) -> dict[str, dict[str, int]]:
    """Return the number of valid connections by program and bundle."""
    fod = nt.load_fod(subject / "peaks.nii.gz", kind="peaks")
    runs = {f"ours, {name}": ours(fod, algorithm=name) for name in ALGORITHMS}
    if shutil.which("tckgen"):
        peaks, lobes = as_images(fod, folder)
        runs["tckgen FACT on the peaks"] = tckgen("FACT", peaks)
        runs["tckgen iFOD2 on lobes along them"] = tckgen("iFOD2", lobes)
    bundles = read_bundles(subject / "bundles")
    return {
        name: {bundle.name: n_valid(run(bundle, n_seeds), bundle, fod.grid) for bundle in bundles}
        for name, run in runs.items()
    }


def table(found: dict[str, dict[str, int]], n_seeds: int) -> str:
    """Return the numbers of valid connections of 1,000 seeds, in Markdown."""
    bundles = list(next(iter(found.values())))
    lines = [f"| valid of 1,000 seeds | {' | '.join(bundles)} | all |",
             f"|---|{'---|' * (len(bundles) + 1)}"]  # fmt: skip
    for name, counts in found.items():
        shares = [1000 * counts[bundle] / n_seeds for bundle in bundles]
        numbers = " | ".join(f"{share:.0f}" for share in [*shares, np.mean(shares)])
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines)


def section(subject: Path, n_seeds: int) -> str:
    """Return the table and how it was made, in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(subject, n_seeds, Path(folder))
    return "\n\n".join(
        [
            "Three peaks a voxel of a whole brain, as TractSeg takes them, and its masks of eight "
            f"bundles and their ends. Every program gets {n_seeds:,} seeds in the mask of each "
            "bundle; a streamline is valid where it runs from the mask of the begin to that of the "
            "end, with nine tenths of its points in the bundle. Ours are at what "
            "`TrackingParameters.for_fod` gives for these peaks, tckgen at its own defaults; its "
            "FOD is made of lobes along the peaks, cos^8 of the angle.",
            table(found, n_seeds),
        ]
    )


def written(page: str, section: str) -> str:
    """Return a page with a section put in, or in place of the one of the same title."""
    before, _, rest = page.partition(f"\n## {TITLE}\n")
    _, mark, after = rest.partition("\n## ")
    return f"{before.rstrip()}\n\n{section.strip()}\n" + (f"\n## {after}" if mark else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subject", type=Path)
    parser.add_argument("--n-seeds", type=int, default=2000, help="in each bundle")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "validation.md")
    options = parser.parse_args()
    made = "\n\n".join(
        [
            f"## {TITLE}",
            f"Written by `python benchmarks/subject.py SUBJECT --n-seeds {options.n_seeds}` on "
            f"{datetime.date.today().isoformat()}.",
            section(options.subject, options.n_seeds),
        ]
    )
    options.out.write_text(written(options.out.read_text("utf-8"), made), "utf-8")
    print(made)


if __name__ == "__main__":
    main()
