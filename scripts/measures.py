"""Measure three bundles on each side of a brain: tables, profiles of FA and asymmetry.

``python scripts/measures.py -o OUT`` tracks them in the peaks of a subject, the folder
``../shared/data/subject`` or ``--subject FOLDER`` with ``peaks.nii.gz``, ``fa.nii.gz`` and
``bundles/NAME_left.nii.gz``, ``NAME_left_b.nii.gz``, ``NAME_left_e.nii.gz``: masks of a bundle and
of its two ends on the left. The right side is what the same masks give, mirrored, from as many
seeds; where that brain is not its own mirror image, the right side fares worse. The commands that
are printed measure the same, and what they write is compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.ndimage import binary_dilation

import napari_tractography as nt
from napari_tractography.cli import main as command
from napari_tractography.files.volume_files import load_mask
from napari_tractography.maps.plots import plot_asymmetry, plot_profiles, save_plot
from napari_tractography.maps.scalar_maps import ScalarMap
from napari_tractography.maps.spreadsheets import asymmetry_table, measures_table, profiles_table
from napari_tractography.recipes.mirror import midsagittal_x_mm

SUBJECT = Path(__file__).resolve().parents[2] / "shared" / "data" / "subject"
NAMES = ("AF", "CST", "IFO")
N_SEEDS = 60_000  # a bundle
WIDENED = 1  # voxels: the masks were made for this side, and the other is not its mirror image
# A colour for a bundle, the right side lighter.
COLOURS = ("#d55e00", "#f0a878", "#0072b2", "#7cc4ee", "#007a5a", "#7fd1b3")
NUMBERS = ("n_streamlines", "volume_mm3", "fa_mean")


def subject_bundles(folder: Path, n_seeds: int = N_SEEDS) -> Iterator[tuple[str, nt.Tractogram]]:
    """Yield the bundles by name, left and right in turn."""
    fod = nt.load_fod(folder / "peaks.nii.gz")
    x_mm = midsagittal_x_mm(fod.grid)
    for name in NAMES:
        masks = []
        for part in ("", "_b", "_e"):
            mask, grid = load_mask(folder / "bundles" / f"{name}_left{part}.nii.gz")
            masks.append(binary_dilation(mask, iterations=WIDENED))
        inside, begin, end = masks
        for side in ("left", "right"):
            reflection = np.eye(4)
            if side == "right":
                reflection[0, 0], reflection[0, 3] = -1, 2 * x_mm
            place = nt.Grid(grid.shape, reflection @ grid.affine)
            lines = nt.track(
                fod,
                nt.Seeds.in_mask(inside, place, n_seeds),
                nt.TrackingParameters.for_fod(fod, min_length_mm=30.0),
                regions=[
                    nt.Region.mask(begin, place, "include"),
                    nt.Region.mask(end, place, "include"),
                    nt.Region.mask(~inside, place, "exclude"),
                ],
            )
            yield f"{name}_{side}", lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Track, measure, write, and compare with what the commands write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--subject", type=Path, default=SUBJECT, metavar="FOLDER")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("-n", type=int, default=N_SEEDS, help="seeds a bundle")
    options = parser.parse_args(arguments)
    if not (options.subject / "peaks.nii.gz").exists():
        parser.error(f"{options.subject} has no peaks.nii.gz; give --subject.")
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    fa_file = options.subject / "fa.nii.gz"
    fa = ScalarMap.load(fa_file)
    lines = dict(subject_bundles(options.subject, options.n))
    measures = [nt.measure(t, [fa], name=name) for name, t in lines.items()]
    profiles = [nt.profile(t, fa, name=name) for name, t in lines.items()]
    tables = {
        "bundles": measures_table(measures),
        "asymmetry": asymmetry_table(measures),
        "profiles": profiles_table(profiles),
    }
    for name, table in tables.items():
        table.save(out / f"{name}.csv")
    for ending in ("png", "svg"):
        save_plot(plot_profiles(profiles, COLOURS), out / f"profiles.{ending}")
        save_plot(plot_asymmetry(measures, NUMBERS), out / f"asymmetry.{ending}")
    print(tables["bundles"].aligned(), tables["asymmetry"].aligned(), sep="\n\n")
    files = []
    for name, tractogram in lines.items():
        files.append(str(out / f"{name}.trx"))  # with the lengths that were tracked
        tractogram.save(files[-1], reference=fa.grid)
    again = out / "by_command"
    again.mkdir(exist_ok=True)
    written = {name: str(again / f"{name}.csv") for name in tables}
    for words in (
        ["measure", *files, "--scalar", str(fa_file), "-o", written["bundles"],
         "--asymmetry", written["asymmetry"]],
        ["profile", *files, str(fa_file), "-o", written["profiles"]],
    ):  # fmt: skip
        print("\nnapari-tractography", *words)
        if command(words):
            return 1
    same = {name: Path(path).read_text("utf-8") == tables[name].text()
            for name, path in written.items()}  # fmt: skip
    print("\nequal to the last digit:", ", ".join(f"{name} {ok}" for name, ok in same.items()))
    return 0 if all(same.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
