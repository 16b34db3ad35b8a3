"""Tissues beside MRtrix3: what is accepted, and why streamlines are refused, with `tckgen -act`.

Run it in a checkout with the data folder beside it and MRtrix3 installed::

    python benchmarks/tissues.py [--data FOLDER] [--seeds N]

Both programs get seeds of the same law, each tried once: in the voxels of a mask, or on the
interface of grey and white matter, where ours are those that `tckgen -algorithm Seedtest` finds.
iFOD1's chain is that of our probabilistic algorithm; it starts in a direction that is uniform among
those above the cutoff, and so are ours here.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nibabel as nib
import numpy as np

import napari_tractography as nt
from napari_tractography.model.stop import StopReason
from napari_tractography.model.tissues import DEEP, LESION, WHITE

ROOT = Path(__file__).resolve().parents[1]
FOUND, INVALID = "accepted", "Invalid seed point"
# The sentences of `tckgen -info`, and the reasons that are ours for the same.
REASONS = {
    INVALID: (
        StopReason.SEED_IN_WRONG_TISSUE,
        StopReason.SEED_WITHOUT_FOD,
        StopReason.SEED_OUTSIDE_IMAGE,
    ),
    "Shorter than minimum length": (StopReason.TOO_SHORT,),
    "Longer than maximum length": (StopReason.TOO_LONG,),
    "Poor structural termination": (StopReason.ENTERED_FLUID, StopReason.ENDED_IN_WHITE),
    "Failed to traverse white matter": (StopReason.NO_WHITE,),
}
SETTINGS = nt.TrackingParameters(
    step_mm=0.2,
    max_angle_deg=15.0,
    min_amplitude=0.05,
    min_length_mm=4.0,
    max_length_mm=200.0,
    start="given",
)
N_STARTS = 3000  # directions that are tried as starts


@dataclass(frozen=True)
class Case:
    """A tissue image, where seeds lie, and what is set besides.

    `seeds` is "interface", or the number of the tissue in whose voxels they lie.
    """

    name: str
    tissues: nt.Tissues
    seeds: str | int
    changes: dict[str, object] = field(default_factory=dict)


def with_deep_grey(tissues: nt.Tissues) -> nt.Tissues:
    """Turn the middle of both bundles of the phantom into deep grey matter, and a part to lesion.

    ::

        c w w w D D w L L w w c
    """
    fractions = tissues.fractions.copy()
    x = tissues.grid.to_mm(np.argwhere(np.ones(tissues.grid.shape)))[:, 0]
    x = x.reshape(tissues.grid.shape)
    white = fractions[..., WHITE] > 0.5
    for inside, tissue in ((np.abs(x) < 2, DEEP), ((x > 4) & (x < 7), LESION)):
        fractions[white & inside] = np.eye(5, dtype=np.float32)[tissue]
    return nt.Tissues(fractions, tissues.grid, name="with deep grey matter")


def cases(tissues: nt.Tissues) -> list[Case]:
    """Return all that is compared."""
    deep = with_deep_grey(tissues)
    back: dict[str, object] = {"backtrack": True}
    cropped: dict[str, object] = {"crop_at_gmwmi": True}
    short: dict[str, object] = {"max_length_mm": 14.0}
    high: dict[str, object] = {"min_amplitude": 0.25}
    return [
        Case("interface", tissues, "interface"),
        Case("interface, backtrack", tissues, "interface", back),
        Case("interface, crop", tissues, "interface", cropped),
        Case("interface, at most 14 mm", tissues, "interface", short),
        Case("white matter", tissues, WHITE),
        Case("white matter, backtrack", tissues, WHITE, back),
        Case("white matter, cutoff 0.25", tissues, WHITE, high),
        Case("white matter, cutoff 0.25, backtrack", tissues, WHITE, {**high, **back}),
        Case("with deep grey, white matter", deep, WHITE),
        Case("with deep grey, white matter, backtrack", deep, WHITE, back),
        Case("with deep grey, deep grey", deep, DEEP),
        Case("with deep grey, interface", deep, "interface"),
    ]


def ours(
    fod: nt.Fod, case: Case, n: int, interface: nt.Seeds | None = None
) -> tuple[dict[str, int], nt.Tractogram]:
    """Return how many of n seeds came to what, and the streamlines."""
    if case.seeds == "interface":
        seeds = interface or nt.Seeds.on_interface(case.tissues, n)
    else:
        mask = case.tissues.fractions[..., case.seeds] > 0.5
        seeds = nt.Seeds.in_mask(mask, case.tissues.grid, n)
    parameters = SETTINGS.replace(**case.changes)
    starts = start_directions(fod, seeds.positions_mm, parameters.min_amplitude)
    seeds = nt.Seeds.at(seeds.positions_mm, starts)
    found = nt.track(fod, seeds, parameters, tissues=case.tissues, backend="cpu")
    counts = {FOUND: len(found)}
    for sentence, reasons in REASONS.items():
        counts[sentence] = sum(found.tally.get(reason, 0) for reason in reasons)
    return counts, found


def start_directions(fod: nt.Fod, positions_mm: np.ndarray, cutoff: float) -> np.ndarray:
    """Draw (n, 3) directions, uniform where the FOD at (n, 3) positions is above the cutoff."""
    rng = np.random.default_rng(1)
    units = rng.normal(size=(N_STARTS, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    vox = fod.grid.to_voxel(positions_mm)
    matrix = fod.sample_matrix(units)
    mixed = np.zeros((len(vox), matrix.shape[1]))
    first = np.floor(vox).astype(int)
    shape = np.array(fod.grid.shape)
    for far in np.ndindex(2, 2, 2):
        index = first + far
        row = fod.voxel_rows[tuple(np.clip(index, 0, shape - 1).T)]
        held = ((index >= 0) & (index < shape)).all(axis=1) & (row >= 0)
        weight = np.prod(1.0 - np.abs(vox - index), axis=1)
        mixed[held] += weight[held, None] * fod.values[row[held]]
    starts = np.tile([0.0, 0.0, 1.0], (len(vox), 1))
    for n, amplitudes in enumerate(mixed @ matrix.T):
        above = np.flatnonzero(amplitudes > cutoff)
        if len(above):
            starts[n] = units[rng.choice(above)]
    return starts


def theirs(
    fod_path: Path, case: Case, n: int, folder: Path
) -> tuple[dict[str, int], nt.Seeds | None]:
    """Return what tckgen makes of n seeds of the same law, and those it finds on an interface."""
    image = folder / "5tt.nii"
    nib.save(nib.Nifti1Image(case.tissues.fractions, case.tissues.grid.affine), image)
    parameters = SETTINGS.replace(**case.changes)
    seeds = folder / "seeds.nii"
    if case.seeds == "interface":
        subprocess.run(["5tt2gmwmi", "-quiet", "-force", image, seeds], check=True)
    else:
        mask = (case.tissues.fractions[..., case.seeds] > 0.5).astype(np.uint8)
        nib.save(nib.Nifti1Image(mask, case.tissues.grid.affine), seeds)
    seeding = ("-seed_gmwmi" if case.seeds == "interface" else "-seed_image", seeds)
    begin = ("tckgen", "-info", "-force", fod_path, folder / "out.tck", "-act", image, *seeding)
    command = [
        *(*begin, "-algorithm", "iFOD1"),
        *("-seeds", n, "-select", 0, "-step", parameters.step_mm, "-cutoff"),
        *(parameters.min_amplitude, "-angle", parameters.max_angle_deg),
        *("-minlength", parameters.min_length_mm, "-maxlength", parameters.max_length_mm),
        *(["-backtrack"] if parameters.backtrack else []),
        *(["-crop_at_gmwmi"] if parameters.crop_at_gmwmi else []),
    ]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True)
    text = done.stderr.decode("utf-8", "replace")
    counts = {FOUND: int(re.findall(r"(\d+) selected", text)[-1])}
    for sentence in REASONS:
        counts[sentence] = int(re.findall(rf"{sentence}: (\d+)", text)[-1])
    if case.seeds != "interface":
        return counts, None
    command = [*begin, "-algorithm", "Seedtest", "-seeds", n, "-select", 0]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return counts, nt.Seeds.at(nt.load_tractogram(folder / "out.tck").points)


def deviations(here: dict[str, int], there: dict[str, int]) -> dict[str, float]:
    """Return by how many standard deviations counts differ, as shares of their sums."""
    n, m = sum(here.values()), sum(there.values())
    found = {}
    for what in here:
        share = (here[what] + there[what]) / (n + m)
        spread = math.sqrt(max(share * (1 - share), 1 / (n + m)) * (1 / n + 1 / m))
        found[what] = abs(here[what] / n - there[what] / m) / spread
    return found


def comparable(case: Case, counts: dict[str, int]) -> dict[str, int]:
    """Leave invalid seeds out where ours are those that tckgen has found valid."""
    left_out = INVALID if case.seeds == "interface" else ""
    return {what: count for what, count in counts.items() if what != left_out}


def ends_inside(found: nt.Tractogram, ends: np.ndarray, grid: nt.Grid) -> float:
    """Return the share of the ends of streamlines that lie in the voxels of a mask."""
    offsets = found.offsets
    points = found.points[np.concatenate([offsets[:-1], offsets[1:] - 1])]
    index = np.rint(grid.to_voxel(points)).astype(int)
    inside = ((index >= 0) & (index < ends.shape)).all(axis=1)
    index = np.clip(index, 0, np.array(ends.shape) - 1)
    return float((inside & (ends[tuple(index.T)] != 0)).mean())


def section(data: Path, n_seeds: int) -> str:
    """Return the table, and what it shows, in Markdown."""
    if not shutil.which("tckgen"):
        return "MRtrix3 is not installed here: this comparison is missing."
    fod, found = nt.load_fod(data / "act" / "fods.mif"), list(rows(data, n_seeds))
    most = max(far for _, far in found)
    return (
        f"{n_seeds:,} seeds each in the phantom of MRtrix3's own tests "
        f"({' x '.join(map(str, fod.grid.shape))} voxels), by the same law: ours beside those of "
        "`tckgen -act` (iFOD1), by what became of them; in the last column by how many standard "
        f"deviations the count that differs most does, {most:.1f} at most. Of seeds on the "
        "interface ours are those that `tckgen -algorithm Seedtest` finds, and invalid ones are "
        "not compared.\n\n" + "\n".join([*head(), *(row for row, _ in found)])
    )


def head() -> list[str]:
    """Return the first two lines of the table."""
    return [
        f"| | {FOUND} | {' | '.join(REASONS)} | most sigmas |",
        "|---|" + "---:|" * (len(REASONS) + 2),
    ]


def rows(data: Path, n_seeds: int) -> Iterator[tuple[str, float]]:
    """Yield the line of each case, and by how many standard deviations it differs at most."""
    act = data / "act"
    fod = nt.load_fod(act / "fods.mif")
    tissues = nt.load_tissues(act / "5tt.mif")
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases(tissues):
            there, interface = theirs(act / "fods.mif", case, n_seeds, Path(scratch))
            here, _ = ours(fod, case, n_seeds, interface)
            far = max(deviations(comparable(case, here), comparable(case, there)).values())
            cells = " | ".join(f"{here[what]} beside {there[what]}" for what in here)
            yield f"| {case.name} | {cells} | {far:.1f} |", far


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--seeds", type=int, default=20_000)
    options = parser.parse_args()
    if not shutil.which("tckgen"):
        raise SystemExit("MRtrix3 is not installed here: there is nothing to compare with.")
    print("\n".join(head()))
    for row, _ in rows(options.data, options.seeds):
        print(row, flush=True)


if __name__ == "__main__":
    main()
