"""Everything measured: writes docs/benchmarks.md.

Run it in a checkout, on the FOD and the mask of the FiberCup phantom, with the peers installed that
shall take part (Debian's mrtrix3; cuslines from the package index)::

    python benchmarks/report.py --fod fibercup/fod.nii.gz --mask fibercup/wm.nii.gz
        [--template TEMPLATE] [--repeats N] [--seconds S] [--out docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import Any

import brain
import volume
from comparison import CONTESTANTS, ratios, table
from napari_tractography.tracking.speed import figures_of, make_case, measure, speeds_table

ROOT = Path(__file__).resolve().parents[1]
# Measured by commands of their own, which these sections name; they stay as they are.
OTHERS = (
    "A whole brain on another processor",
    "The first click",
    "A large file opened",
    "A seed dragged live",
    "Turned by the mouse",
    "An interactive page in a browser",
    "A sphere moved over a million streamlines",
    "A seed dragged through many brains",
    "From a click in an image",
)


def verdict(rows: list[dict[str, Any]], figures: dict[str, float], whole: dict[str, Any]) -> str:
    """Return which targets are missed, on the clock."""
    missed = [
        f"{row['what']} against {row['peer']}: {row['ratio']:.0f}x of {row['target']:g}x"
        for row in rows
        if not row["skipped"] and row["ratio"] < row["target"]
    ]
    missed += [
        f"{volume.NAMES[name]}: {figures[name]:.2f} of {most:g}"
        for name, most in volume.TARGETS.items()
        if figures[name] > most
    ]
    missed += brain.misses(whole)
    if not missed:
        return "Every target is met."
    return "Missed:\n\n" + "\n".join(f"- {line}" for line in missed)


def section(page: Path, title: str) -> str:
    """Return what a page says below a title, where a command of its own has measured that."""
    text = page.read_text("utf-8") if page.exists() else ""
    return text.partition(f"## {title}\n\n")[2].partition("\n\n## ")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fod", type=Path, help="FOD volume; by default an embedded phantom")
    parser.add_argument("--mask", type=Path, help="where to track; by default all of the FOD")
    parser.add_argument("--template", type=Path, help="of the whole brain (see brain.py)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    case = make_case(options.fod, options.mask)
    speeds = measure(
        case,
        CONTESTANTS,
        repeats=options.repeats,
        seconds=options.seconds,
        progress=lambda done, total, label: print(f"{done}/{total} {label}", file=sys.stderr),
    )
    figures = figures_of(case, speeds, options.repeats) | {"rows": ratios(speeds)}
    whole = brain.measure_brain(options.template, repeats=options.repeats)
    sizes = volume.measure(min(options.repeats, 3))
    parts = [
        "# Benchmarks",
        f"Written by `python benchmarks/report.py` on {datetime.date.today().isoformat()}. "
        "`python benchmarks/comparison.py` prints the first table on your own machine, `--json` "
        "more of it; `napari-tractography bench` measures ours alone, without a checkout. How many "
        "streamlines are valid is on another page: [Ground truths](truths.md).",
        "## Speed beside other programs",
        table(figures),
        "Every program gets the same FOD, mask, step, cone angle and largest length and seeds "
        "uniformly in the mask; they run in turn, and a run of a single seed is taken off each "
        "(that is what tckgen needs to start and to read its input). Steps are counted in what "
        "comes back: points but one a streamline, or lengths over the step. What is done once is "
        "left out on both sides: our tables, DIPY's and cuslines' amplitudes (362 directions, "
        "DIPY's default sphere), compiling. DIPY gets start directions, so that it need not look "
        "for peaks first. cuslines ends half a streamline at 501 points. tckgen always "
        "interpolates. *Processors busy* below the number of threads is what else the machine did "
        "at the time, which the ratio per processor second leaves out.",
        speeds_table(figures["speeds"]),
        "## Speed on a whole brain",
        brain.INTRODUCTION,
        brain.table(whole),
        "## A whole brain: starts and memory",
        f"{' x '.join(map(str, volume.SHAPE))} voxels of {volume.VOXEL_MM:g} mm, of which "
        f"{volume.N_VOXELS:,} hold fibres, lmax {volume.LMAX}, nearest voxel, made by code; fresh "
        "processes, compiled code on disk (`python benchmarks/volume.py`).",
        volume.table(sizes),
        *(f"## {title}\n\n{section(options.out, title)}" for title in OTHERS),
        "## GPUs",
        "Not measured yet, for want of a GPU; by a command of its own, see [GPUs](gpu.md#speed).",
        "## Targets",
        verdict(figures["rows"], sizes, whole),
    ]
    options.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(options.out.read_text("utf-8"))


if __name__ == "__main__":
    main()
