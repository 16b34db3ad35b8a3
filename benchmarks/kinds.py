"""Files of every kind, and whether they are told from one another.

FODs are those of ``coherence.py``: phantoms and the data folder, noisy, turned and in every basis;
crops of them; and what is no FOD, made by ``coherence_cases.py`` and by MRtrix3. The answer is

- *right*: an FOD is taken for one, something else for what it is;
- *refused*: it is not tracked, but is called something else, or an FOD is refused;
- *wrong*: something else is taken for an FOD.

Run it in a checkout with the data folder beside it, and MRtrix3 installed; what is absent is
skipped::

    python benchmarks/kinds.py
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import nibabel as nib
import numpy as np

from coherence_cases import DATA, FILES, cases, scanned, stored_fod, written
from napari_tractography.errors import TractographyError
from napari_tractography.files.recognition import kind_of
from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom

OUTCOMES = ("right", "refused", "wrong")
COUNTS = (6, 15, 28, 45)
N_CROPS = 40  # of each size and volume
CROPS = (1, 3, 5, 10)  # voxels a side
NO_FOD = {"tensor": "tensor", "DWI": "series", "peaks": "peaks", "noise": "unclear"}


class File(NamedTuple):
    """A file and what it holds: one of the names of kinds."""

    group: str
    label: str
    path: Path
    kinds: tuple[str, ...]


def saved(values: np.ndarray, affine: np.ndarray, folder: Path) -> Path:
    """Write a volume, in place of the one before."""
    path = folder / "case.nii"
    nib.save(nib.Nifti1Image(values.astype(np.float32), affine), path)
    return path


def made_files(folder: Path) -> Iterator[File]:
    """Yield the volumes of ``coherence.py`` but noise on a constant, which might be an FOD."""
    for case in cases(0):
        if "mean 3" in case.label:
            continue
        try:
            fod = case.make()
        except FileNotFoundError as error:
            print(f"skipped    {case.label}: {error}", flush=True)
            continue
        kind = next((NO_FOD[word] for word in NO_FOD if word in case.label), "unclear")
        path = saved(fod.coefficients, fod.grid.affine, folder)
        group = kind if case.basis is None else f"FODs: {case.group}"
        yield File(group, case.label, path, (kind,) if case.basis is None else ("sh",))


def crops(folder: Path) -> Iterator[File]:
    """Yield cubes around voxels whose FOD is more than a tenth of the largest."""
    rng = np.random.default_rng(0)
    sources = {name: partial(stored_fod, name) for name in FILES if (DATA / FILES[name]).exists()}
    for phantom in ("arcs", "letter", "cross"):
        make = partial(make_phantom, phantom, lmax=6)
        sources[phantom] = make
        sources[f"scan of {phantom}"] = partial(scanned, make, 60, 1000.0, 20.0, 0)
    for name, make in sources.items():
        for basis in ("tournier07", "descoteaux07"):
            fod: Fod = written(make, basis, "+x+y+z")
            values = fod.coefficients
            places = np.argwhere(values[..., 0] > 0.1 * values[..., 0].max())
            for size in CROPS:
                for place in rng.choice(places, N_CROPS):
                    first = np.maximum(place - size // 2, 0)
                    cube = tuple(slice(k, k + size) for k in first)
                    path = saved(values[cube], fod.grid.affine, folder)
                    label = f"{name}, {basis}, {size} voxels a side, from {first}"
                    yield File(f"FODs: crops of {size} voxels", label, path, ("sh", "isotropic"))


def mrtrix_files(folder: Path) -> Iterator[File]:
    """Yield what MRtrix3 makes of FODs."""

    def run(*arguments: object) -> Path:
        *first, last = map(str, arguments)
        out = str(folder / last)
        subprocess.run([*first, out, "-quiet", "-force"], check=True, capture_output=True)
        return Path(out)

    for name, file in FILES.items():
        source = DATA / file
        fixels = run("fod2fixel", source, "-peak", "peak.mif", f"fixels of {name}")
        for n in (1, 2, 3, 5):
            for ending in ("mif", "nii.gz"):
                path = run("sh2peaks", source, "-num", n, f"p.{ending}")
                yield File("peaks", f"{name}, sh2peaks {n} {ending}", path, ("peaks",))
                path = run("fixel2peaks", fixels, "-number", n, f"f.{ending}")
                yield File("peaks", f"{name}, fixel2peaks {n} {ending}", path, ("peaks",))
        for n in COUNTS:
            directions = run("dirgen", n, "-niter", 100, "-restarts", 1, "directions.txt")
            path = run("sh2amp", source, directions, "a.mif")
            yield File("amplitudes", f"{name}, sh2amp {n} mif", path, ("amplitudes",))
            for flags in ((), ("-nonnegative",)):
                path = run("sh2amp", source, directions, *flags, "a.nii.gz")
                label = f"{name}, sh2amp {n} {' '.join(flags)}"
                yield File("amplitudes", label, path, ("series", "unclear"))
            mean = run("mrconvert", source, "-coord", 3, 0, "-axes", "0,1,2", "mean.mif")
            path = run("mrcat", *[mean] * n, "-axis", 3, "series.nii")
            yield File("series", f"{name}, {n} repeats", path, ("series", "masks"))
            path = run("mrcalc", path, 0.1, "-gt", "masks.nii.gz")
            yield File("masks", f"{name}, {n} masks", path, ("masks",))
        yield File("map", name, run("mrconvert", mean, "-axes", "0,1,2,-1", "m.nii"), ("map",))
        for last in (5, 14, 27):
            if nib.load(source).shape[3] > last if "nii" in file else last < 15:
                path = run("mrconvert", source, "-coord", 3, f"0:{last}", "low.mif")
                yield File("FODs: cut to a lower lmax", f"{name}, {last + 1}", path, ("sh",))
    for path in [DATA / "subject/peaks.nii.gz", *sorted(DATA.glob("subject/tom/*"))]:
        yield File("peaks", path.name, path, ("peaks",))


Table = dict[str, Counter[str]]


def measure(*, only_every: int = 1) -> tuple[Table, list[str]]:
    """Return how often files were told rightly, by group, and a line on each that was not.

    Parameters
    ----------
    only_every : int
        Look at every so many of them only.
    """
    table: Table = defaultdict(Counter)
    others = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = [made_files(folder), crops(folder)]
        if shutil.which("sh2peaks") and DATA.is_dir():
            sources.append(mrtrix_files(folder))
        for number, file in enumerate(file for source in sources for file in source):
            if number % only_every:
                continue
            try:
                found = kind_of(file.path)
                answer = "empty" if found is None else found.name
            except TractographyError as error:
                answer = str(error)
            is_wrong = answer == "sh" and "sh" not in file.kinds
            outcome = "right" if answer in file.kinds else "wrong" if is_wrong else "refused"
            table[file.group][outcome] += 1
            if outcome != "right":
                others.append(f"{outcome:<10} {file.group}, {file.label}: {answer}")
    return table, others


def markdown(table: Table) -> str:
    """Return the table in Markdown."""
    lines = [f"| | {' | '.join(OUTCOMES)} |", f"|---|{'---:|' * len(OUTCOMES)}"]
    total: Counter[str] = sum(table.values(), Counter())
    for group, counts in [*sorted(table.items()), ("all", total)]:
        lines.append(f"| {group} | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} |")
    return "\n".join(lines)


def section(*, only_every: int = 1) -> str:
    """Return the table and what its columns mean, in Markdown."""
    table, _ = measure(only_every=only_every)
    return (
        "What `load_fod` takes files for, of phantoms, crops of the volumes in the data folder and "
        "what MRtrix3 makes of them: told *rightly*; *refused*, or told as something else that is "
        "no FOD; *wrong*, taken for an FOD that is none.\n\n" + markdown(table)
    )


def main() -> None:
    logging.disable(logging.WARNING)  # empty voxels of the template
    table, others = measure()
    print("\n".join([*others, "", markdown(table)]))


if __name__ == "__main__":
    main()
