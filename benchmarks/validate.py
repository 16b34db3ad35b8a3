"""Validation: writes docs/validation.md.

Run it in a checkout with the data folder beside it and, for the comparison, MRtrix3 installed::

    python benchmarks/validate.py [--data FOLDER] [--out docs/validation.md] [--fast]
"""

from __future__ import annotations

import argparse
import datetime
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np

import defaults
import ground_truth
import ifod2
import kinds
import looking_ahead
import napari_tractography as nt
import scoring
import subject
import tissues
from affines import affine_table
from napari_tractography.tracking.speed import machine
from peers.mrtrix import run_tckgen, write_fod, write_mask
from samplers import sampler_table

ROOT = Path(__file__).resolve().parents[1]
IMAGES = "Images: a tube whose helix is known, and a heart"


# ---------------------------------------------------------------------------------------- the brain


def brain_text(path: Path, n: int) -> str:
    """Return the correlation of density maps with iFOD1's, from the same seeds."""
    if not shutil.which("tckgen"):
        return "MRtrix3 is not installed here: this comparison is missing."
    fod = nt.load_fod(path)
    voxel = float(fod.grid.voxel_sizes_mm.mean())
    parameters = nt.TrackingParameters(
        step_mm=round(0.1 * voxel, 2),
        max_angle_deg=15.0,
        min_amplitude=0.1,
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        image = write_fod(fod, folder / "fod.nii")
        seeds_file = folder / "seeds.txt"
        theirs = {}
        for run in range(2):
            theirs[run] = run_tckgen(
                image,
                folder / f"ifod1_{run}.tck",
                {
                    "algorithm": "iFOD1",
                    "select": n,
                    "seeds": 0,
                    "nthreads": 2,
                    "step": parameters.step_mm,
                    "angle": parameters.max_angle_deg,
                    "cutoff": parameters.min_amplitude,
                    "minlength": 0,
                    "maxlength": parameters.max_length_mm,
                    "seed_image": _support(fod, folder / "support.nii"),
                    "output_seeds": seeds_file if run == 0 else folder / "others.txt",
                },
            )
        positions = _seed_positions(seeds_file)
        streamlines = nt.track(fod, nt.Seeds.at(positions), parameters)
        streamlines.save(folder / "ours.tck")
        maps = [
            _density(tck, image, folder / f"map{k}.nii")
            for k, tck in enumerate((folder / "ours.tck", theirs[0], theirs[1]))
        ]
    inside = fod.support

    def correlation(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.corrcoef(a[inside], b[inside])[0, 1])

    alike, themselves = correlation(maps[0], maps[1]), correlation(maps[1], maps[2])
    return (
        f"{n} streamlines of `tckgen -algorithm iFOD1` (step {parameters.step_mm:g} mm, 15 "
        f"degrees, cutoff 0.1), and {len(streamlines)} of our probabilistic algorithm from the "
        f"very same {len(positions)} seeds (`-output_seeds`), with the same step, cone and "
        "floor, mapped by `tckmap` on the template's grid. Pearson correlation over "
        f"the {int(inside.sum())} voxels with an FOD: **{alike:.3f}**; between iFOD1 and a second "
        f"run of itself from other seeds: {themselves:.3f}."
    )


def _support(fod: nt.Fod, path: Path) -> Path:
    return write_mask(fod.support, fod, path)


def _seed_positions(path: Path) -> np.ndarray:
    """Read ``tckgen -output_seeds``: a line of numbers a streamline, the last three x, y and z."""
    rows = [
        [float(x) for x in re.split(r"[,\s]+", line.strip()) if x]
        for line in path.read_text("utf-8").splitlines()
        if line.strip() and not line.startswith("#") and not line[0].isalpha()
    ]
    return np.array([row[-3:] for row in rows])


def _density(tck: Path, template: Path, out: Path) -> np.ndarray:
    subprocess.run(["tckmap", "-quiet", "-template", template, tck, out], check=True)
    return np.asarray(nib.load(out).dataobj, dtype=np.float64)


# ----------------------------------------------------------------------------------------- the page


def written_by_others(page: str) -> list[str]:
    """Return the sections that benchmarks/defaults.py and benchmarks/image.py are the source of."""
    _, head, rest = page.partition(defaults.HEAD)
    kept = [head + rest.partition(defaults.FOOT)[0] + defaults.FOOT] if head else []
    _, head, rest = page.partition(f"## {IMAGES}\n")
    return [part.strip() for part in (*kept, head + rest.partition("\n## ")[0]) if part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "validation.md")
    parser.add_argument("--fast", action="store_true", help="a tenth of the streamlines and draws")
    options = parser.parse_args()
    scale = 10 if options.fast else 1
    yoga = options.data / "yoga"
    template = options.data / "brain" / "fod_template.mif.gz"
    n_end, n_brain, n_draws = 1000 // scale, 50_000 // scale, 100_000 // scale
    computer = machine()
    versions = ", ".join(f"{name} {number}" for name, number in computer["versions"].items())
    mrtrix = ground_truth.tckgen_version()
    parts = [
        "# Validation",
        f"Written by `python benchmarks/validate.py` on {datetime.date.today().isoformat()}: "
        f"{computer['processor']}, {computer['cores']} cores, {platform.system()}; {versions}"
        + (f", MRtrix3 {mrtrix}." if mrtrix else "."),
        "## Ground truth: the TrackerYoga phantom",
        f"{n_end} seeds at each of the two ends of every ground-truth bundle: in balls of "
        f"{scoring.SEED_RADIUS_MM:g} mm around the points {scoring.INSIDE_MM:g} mm inside the ends "
        "of its 100 true streamlines, tracked both ways. A streamline is **valid** when it ends "
        f"within {scoring.REACH_MM:g} mm of where true streamlines of its bundle end on the other "
        "side, **invalid** when it ends as near to an end of another bundle (*passes one* when any "
        "of its points comes as near). Shares are of streamlines, that is of seeds from which "
        "tracking could start, and then of all seeds. tckgen gets as many seeds from the same "
        "balls (`-seed_sphere`, once for each), each tried once (`-seeds`), without a minimum "
        "length: at its defaults; at our settings; and at the settings of a grid that give it most "
        "valid connections by streamline "
        f"({looking_ahead.grid_text()}), which we do for nothing but how "
        "far to look ahead. By bundle: valid / invalid in per cent.",
        *(ground_truth.table(yoga, n_end, edge) for edge in ground_truth.EDGES),
        ground_truth.WHY,
        "## Looking ahead",
        looking_ahead.text(yoga, options.data / "subject", n_end),
        looking_ahead.cost_text(template, 20_000 // scale),
        "## A brain: density beside iFOD1",
        brain_text(template, n_brain),
        "## iFOD2 beside tckgen's",
        ifod2.text(options.data, fast=options.fast),
        "## Affines: streamlines turn with the phantom",
        affine_table(2000 // scale),
        "## Samplers: chi-square",
        sampler_table(n_draws),
        "## Tissues: what is accepted beside `tckgen -act`",
        tissues.section(options.data, 10_000 // scale),
        f"## {subject.TITLE}",
        subject.section(options.data / "subject", 2000 // scale),
        "## Which file is what",
        kinds.section(only_every=scale),
    ]
    parts += written_by_others(options.out.read_text("utf-8") if options.out.exists() else "")
    options.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(options.out.read_text("utf-8"))


if __name__ == "__main__":
    main()
