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
from typing import Any

import nibabel as nib
import numpy as np

import napari_tractography as nt
import scoring
from affines import affine_table
from napari_tractography.benchmark.peers.mrtrix import run_tckgen, write_fod, write_mask
from napari_tractography.benchmark.reporting import machine
from napari_tractography.parameters import parameter_specs
from samplers import sampler_table

ROOT = Path(__file__).resolve().parents[1]
BUNDLES = ("arc1", "arc2", "arc3", "cross60", "cross90")
TCKGEN = ("SD_STREAM", "iFOD1", "iFOD2")

# One setting for all bundles; the sentence under the tables says why.
SETTINGS = {
    "step_mm": 0.1,
    "max_angle_deg": 15.0,
    "min_amplitude": 0.05,
    "gamma_noise": 0.2,
    "max_length_mm": 100.0,
}
WHY = (
    "Settings, the same for all bundles: the tightest arc has a radius of 2.8 mm, so that a step "
    "of 0.1 mm turns by 2 degrees along it, and a cone of 15 degrees has room for that while it "
    "keeps out the other lobe where bundles cross at 60 degrees; amplitudes below 0.05, a third of "
    "the bundles' peak, are not followed; diffusion, which the floor stops rather than steers, "
    "gets little noise (`gamma_noise=0.2`)."
)
EDGES = {
    "voxel": "Streamlines end where the nearest voxel holds no FOD: tckgen's rule, and our default "
    '(`edge="voxel"`).',
    "interpolated": "Streamlines run on until no voxel around holds an FOD: ours with "
    '`edge="interpolated"`, tckgen on a copy of the FOD whose empty voxels hold next to nothing, '
    "but not nothing. On so small a phantom this doubles the share of valid connections, of both.",
}
PADDING = 1e-6  # first coefficient in empty voxels


def algorithms() -> tuple[str, ...]:
    """Return the algorithms that there are."""
    return next(spec.choices for spec in parameter_specs() if spec.name == "algorithm")


# --------------------------------------------------------------------------------- the yoga phantom


def yoga_ends(folder: Path) -> list[scoring.End]:
    """Return both ends of every ground-truth bundle."""
    ends: list[scoring.End] = []
    for name in BUNDLES:
        groups = scoring.split_by_direction(list(nt.load_tractogram(folder / f"{name}.vtk")))
        for number, lines in enumerate(groups):
            ends += scoring.ends_of(f"{name}{'ab'[number]}" if len(groups) > 1 else name, lines)
    return ends


def yoga_table(folder: Path, n: int, edge: str) -> str:
    """Return the table of valid and invalid connections under one rule for the edge."""
    fod = nt.load_fod(folder / "fod_sh8.nii.gz")
    ends = yoga_ends(folder)
    names = list(dict.fromkeys(end.bundle for end in ends))
    rows: dict[str, dict[str, scoring.Score]] = {}
    seeds: dict[str, int] = {}
    for algorithm in algorithms():
        parameters = nt.TrackingParameters(algorithm=algorithm, edge=edge).replace(**SETTINGS)
        rows[algorithm] = _by_bundle(
            ends,
            lambda start, end, p=parameters: nt.track(fod, scoring.draw_seeds(end, n, start), p),
        )
        seeds[algorithm] = n * len(ends)
    ours = len(rows)
    if shutil.which("tckgen"):
        same = {
            "step": SETTINGS["step_mm"],
            "angle": SETTINGS["max_angle_deg"],
            "cutoff": SETTINGS["min_amplitude"],
        }
        with tempfile.TemporaryDirectory() as scratch:
            image = folder / "fod_sh8.nii.gz"
            if edge == "interpolated":
                image = write_fod(_padded(fod), Path(scratch) / "padded.nii")
            for label, settings in (("its defaults", {}), ("our settings", same)):
                for algorithm in TCKGEN:
                    name = f"tckgen {algorithm}, {label}"
                    rows[name], seeds[name] = _tckgen(image, ends, n, algorithm, settings)
    head = " | ".join(names)
    lines = [
        f"| | streamlines | valid | of seeds | invalid | passes one | {head} |",
        "|---|---:|---:|---:|---:|---:|" + "---:|" * len(names),
    ]
    for label, scores in rows.items():
        total = sum(scores.values(), scoring.Score())
        each = " | ".join(
            f"{100 * scores[name].valid_share:.0f} / {100 * scores[name].invalid_share:.1f}"
            for name in names
        )
        lines.append(
            f"| {label} | {total.n_streamlines} | {100 * total.valid_share:.1f} % "
            f"| {100 * total.valid / seeds[label]:.1f} % | {100 * total.invalid_share:.2f} % "
            f"| {100 * total.passing_share:.2f} % | {each} |"
        )
    totals = [sum(scores.values(), scoring.Score()) for scores in rows.values()]
    return f"{EDGES[edge]}\n\n" + "\n".join(lines) + _verdict(list(rows), totals, ours)


def _padded(fod: nt.Fod) -> nt.Fod:
    """Return the FOD with next to nothing in its empty voxels."""
    coefficients = fod.coefficients
    coefficients[~fod.support, 0] = PADDING
    return nt.Fod(coefficients, fod.grid, basis=fod.basis, frame=fod.frame, name=fod.name)


def _by_bundle(ends: list[scoring.End], track: Any) -> dict[str, scoring.Score]:
    scores: dict[str, scoring.Score] = {}
    for start, end in enumerate(ends):
        found = scoring.score(track(start, end), ends, start)
        scores[end.bundle] = scores.get(end.bundle, scoring.Score()) + found
    return scores


def _tckgen(
    image: Path, ends: list[scoring.End], n: int, algorithm: str, settings: dict[str, Any]
) -> tuple[dict[str, scoring.Score], int]:
    """Return the scores of tckgen, and how many seeds it drew."""
    n_seeds = 0
    with tempfile.TemporaryDirectory() as scratch:

        def track(start: int, end: scoring.End) -> nt.Tractogram:
            nonlocal n_seeds
            spheres = [
                f"{x:.5f},{y:.5f},{z:.5f},{scoring.SEED_RADIUS_MM:g}" for x, y, z in end.seeds_mm
            ]
            out = run_tckgen(
                image,
                Path(scratch) / "out.tck",
                {
                    "algorithm": algorithm,
                    "select": n,
                    "seeds": 0,
                    "nthreads": 2,
                    "minlength": 0,
                    "maxlength": SETTINGS["max_length_mm"],
                    "seed_sphere": spheres,
                    **settings,
                },
            )
            n_seeds += int(nib.streamlines.load(out, lazy_load=True).header["total_count"])
            return nt.load_tractogram(out)

        return _by_bundle(ends, track), n_seeds


def _verdict(labels: list[str], totals: list[scoring.Score], ours: int) -> str:
    if ours == len(labels):
        return "\n\nMRtrix3 is not installed here: its rows are missing."
    best = max(range(ours, len(labels)), key=lambda k: totals[k].valid_share)
    least = totals[best]
    worse = [
        labels[k]
        for k in range(ours)
        if totals[k].valid_share < least.valid_share
        or totals[k].invalid_share > least.invalid_share
    ]
    text = (
        f"\n\nThe best of tckgen's is {labels[best].removeprefix('tckgen ')}: "
        f"{100 * least.valid_share:.1f} % valid, {100 * least.invalid_share:.2f} % invalid. "
    )
    if not worse:
        return text + "Each of ours has at least as many valid and no more invalid connections."
    return text + f"Behind it in one of the two: {', '.join(worse)}."


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "validation.md")
    parser.add_argument("--fast", action="store_true", help="a tenth of the streamlines and draws")
    options = parser.parse_args()
    scale = 10 if options.fast else 1
    n_end, n_brain, n_draws = 1000 // scale, 50_000 // scale, 100_000 // scale
    computer = machine()
    versions = ", ".join(f"{name} {number}" for name, number in computer["versions"].items())
    parts = [
        "# Validation",
        f"Written by `python benchmarks/validate.py` on {datetime.date.today().isoformat()}: "
        f"{computer['processor']}, {computer['cores']} cores, {platform.system()}; {versions}"
        f"{_mrtrix_version()}.",
        "## Ground truth: the TrackerYoga phantom",
        f"{n_end} seeds at each of the two ends of every ground-truth bundle: in balls of "
        f"{scoring.SEED_RADIUS_MM:g} mm around the points {scoring.INSIDE_MM:g} mm inside the ends "
        "of its 100 true streamlines, tracked both ways. A streamline is **valid** when it ends "
        f"within {scoring.REACH_MM:g} mm of where true streamlines of its bundle end on the other "
        "side, **invalid** when it ends as near to an end of another bundle (*passes one* when any "
        "of its points comes as near); shares are of "
        "streamlines, that is of seeds from which tracking could start. tckgen gets the same balls "
        "(`-seed_sphere`, once for each) and draws from them until it has as many streamlines "
        "(`-select`), without a minimum length; *of seeds* counts those that gave nothing, too, of "
        "which tckgen keeps no count. By bundle: valid / invalid in per cent.",
        *(yoga_table(options.data / "yoga", n_end, edge) for edge in EDGES),
        WHY,
        "## A brain: density beside iFOD1",
        brain_text(options.data / "brain" / "fod_template.mif.gz", n_brain),
        "## Affines: streamlines turn with the phantom",
        affine_table(2000 // scale),
        "## Samplers: chi-square",
        sampler_table(n_draws),
    ]
    options.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(options.out.read_text("utf-8"))


def _mrtrix_version() -> str:
    if not shutil.which("tckgen"):
        return ""
    text = subprocess.run(["tckgen", "-version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"tckgen (\S+)", text)
    return f", MRtrix3 {found[1]}" if found else ""


if __name__ == "__main__":
    main()
