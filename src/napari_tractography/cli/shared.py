"""Sub-commands on what was tracked, and what all sub-commands share; called by :mod:`.cli`.

Each imports what it needs when it runs, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..fod import Fod
    from ..maps.coherence import Coherence
    from ..parameters import TrackingParameters
    from ..tracking.backends import Report
    from ..tracking.inputs import TrackingInput
    from ..tractogram import Tractogram

PROGRAM = "napari-tractography"
EXIT_NOT_THE_SAME = 1
PROGRESS_SECONDS = 0.2
PROGRESS_WIDTH = 79
SHOWN_READINGS = 10


# -- shared ------------------------------------------------------------------------------------


def add_fod(parser: argparse.ArgumentParser) -> None:
    """Add the FOD and how to read it."""
    from ..fields.sh import BASES, FRAMES

    parser.add_argument("fod", metavar="FOD", help="FOD volume: .nii, .nii.gz, .mif or .mif.gz")
    parser.add_argument(
        "--basis", default=BASES[0], help=f"{', '.join(BASES)} (default {BASES[0]})"
    )
    parser.add_argument(
        "--frame", help=f"axes of the directions: {', '.join(FRAMES)} (default by basis)"
    )


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add where and how loudly to track."""
    from ..tracking.cuda.scheduler import MEMORY_LIMIT

    parser.add_argument(
        "--backend",
        default="auto",
        help="auto, cpu, cuda for the GPU with most free memory, cuda:N for another, or cuda:all "
        "(default auto)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads; all by default")
    parser.add_argument(
        "--memory-limit",
        type=float,
        default=MEMORY_LIMIT,
        metavar="X",
        help="what to take of each GPU: up to 1 the share of its free memory, above it bytes "
        f"(default {MEMORY_LIMIT})",
    )
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor summary")


def load(options: argparse.Namespace) -> Fod:
    """Read the FOD that the options name."""
    from ..files.fods import load_fod

    return load_fod(options.fod, basis=options.basis, frame=options.frame)


def track_with_progress(
    options: argparse.Namespace, inputs: TrackingInput, report: Report | None = None
) -> Tractogram:
    """Track, and tell on a terminal how far it is."""
    from ..tracking.engine import PREPARING, iter_chunks
    from ..tracking.inputs import Execution
    from ..tractogram import Tractogram

    execution = Execution(
        backend=options.backend, n_threads=options.threads, memory_limit=options.memory_limit
    )
    with _progress_line(sys.stderr.isatty() and not options.quiet) as tell:
        tell(PREPARING)
        chunks = iter_chunks(inputs, execution, report=report)
        n_seeds = len(inputs.seeds)
        return Tractogram.concatenate(_telling(chunks, n_seeds, tell), n_seeds=n_seeds)


def _telling(
    chunks: Iterator[Tractogram], n_seeds: int, tell: Callable[[str], None]
) -> Iterator[Tractogram]:
    """Hand chunks on, and tell how far they are."""
    done, told = 0, 0.0
    for chunk in chunks:
        done += chunk.n_seeds
        if time.perf_counter() - told > PROGRESS_SECONDS:
            told = time.perf_counter()
            share = 100 * done // n_seeds
            tell(f"{share:3d} %  {done} of {n_seeds} seeds")
        yield chunk


@contextlib.contextmanager
def _progress_line(shown: bool) -> Iterator[Callable[[str], None]]:
    """Yield what shows a line on the terminal in the place of the last one; clear it in the end."""

    def tell(text: str) -> None:
        if shown:
            print(f"\r{text:<{PROGRESS_WIDTH}}\r", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        tell("")


def print_result(
    tractogram: Tractogram, parameters: TrackingParameters, seconds: float, report: Report
) -> None:
    """Print what a run gave, and how fast."""
    print(tractogram.summary())
    steps = float(tractogram.lengths_mm.sum()) / parameters.step_mm
    print(report.speed(steps, seconds))
    print(f"digest {tractogram.digest()}")


# -- density -----------------------------------------------------------------------------------


def add_density(commands: Any) -> None:
    """Add the sub-command that maps how many streamlines pass each voxel."""
    parser = commands.add_parser(
        "density",
        help="map how many streamlines pass each voxel",
        description="Count the streamlines that pass each voxel, each once in every voxel that it "
        "enters. Segments are followed exactly.",
    )
    parser.add_argument("tractogram", metavar="TCK", help="tractogram: .tck, .trk, .trx or .vtk")
    parser.add_argument("-o", "--out", required=True, metavar="OUT", help=".nii or .nii.gz")
    parser.add_argument(
        "--template", required=True, metavar="IMAGE", help="image whose grid the map shall have"
    )
    parser.add_argument(
        "--ends-only",
        action="store_true",
        help="count first and last points only; for tractograms of endpoints",
    )
    parser.set_defaults(run=_density)


def _density(options: argparse.Namespace) -> int:
    from ..files.volumes import check_volume_target, load_grid, save_volume
    from ..maps.density import density
    from ..tractogram import load_tractogram

    check_volume_target(options.out)
    grid = load_grid(options.template)
    tractogram = load_tractogram(options.tractogram)
    counts = density(tractogram, grid, ends_only=options.ends_only)
    save_volume(counts, grid, options.out)
    print(
        f"{tractogram.n_streamlines} streamlines in {int((counts > 0).sum())} voxels, at most "
        f"{int(counts.max())} in one; written to {options.out}"
    )
    return 0


# -- connectome --------------------------------------------------------------------------------


def add_connectome(commands: Any) -> None:
    """Add the sub-command that counts streamlines between labels."""
    parser = commands.add_parser(
        "connectome",
        help="count the streamlines between each pair of labels",
        description="Count the streamlines between each pair of labels, by their two ends.",
    )
    parser.add_argument("tractogram", metavar="TCK", help="tractogram: .tck, .trk, .trx or .vtk")
    parser.add_argument("labels", metavar="LABELS", help="image of whole numbers, 0 for no label")
    parser.add_argument("-o", "--out", required=True, metavar="OUT.csv", help="counts to write")
    parser.add_argument("--lengths", metavar="OUT.csv", help="also write mean lengths [mm]")
    parser.add_argument(
        "--radius",
        type=float,
        default=0.0,
        metavar="MM",
        help="take the nearest label within this distance [mm] of an end (default 0: that of the "
        "voxel in which it lies)",
    )
    parser.add_argument(
        "--directed",
        action="store_true",
        help="rows are first points, columns last points; symmetric otherwise",
    )
    parser.set_defaults(run=_connectome)


def _connectome(options: argparse.Namespace) -> int:
    from ..files.fods import load_volume
    from ..files.paths import check_writable
    from ..maps.connectome import connectome
    from ..tractogram import load_tractogram

    for path in filter(None, (options.out, options.lengths)):
        check_writable(path)
    labels, grid = load_volume(options.labels)
    tractogram = load_tractogram(options.tractogram)
    found = connectome(
        tractogram, labels, grid, radius_mm=options.radius, directed=options.directed
    )
    found.save_counts(options.out)
    if options.lengths:
        found.save_mean_lengths(options.lengths)
    print(
        f"{found.n_assigned} of {tractogram.n_streamlines} streamlines have both ends at labels, "
        f"of {len(found.labels)} in the image; written to "
        f"{', '.join(filter(None, (options.out, options.lengths)))}"
    )
    return 0


# -- coherence ---------------------------------------------------------------------------------


def add_coherence(commands: Any) -> None:
    """Add the sub-command that judges how an FOD file is read."""
    parser = commands.add_parser(
        "coherence",
        help="check basis, frame and axes of an FOD by the FOD itself",
        description="Score the FOD under each basis, frame, flip and swap of its direction axes, "
        "and say whether another reading of the file fits better than the one in use.",
    )
    add_fod(parser)
    parser.add_argument("--json", action="store_true", help="print all readings as JSON")
    parser.set_defaults(run=_coherence)


def _coherence(options: argparse.Namespace) -> int:
    from ..maps.coherence import coherence

    found = coherence(load(options))
    print(json.dumps(found.to_dict(), indent=1) if options.json else _coherence_table(found))
    return 0


def _coherence_table(found: Coherence) -> str:
    shown = list(found.readings[:SHOWN_READINGS])
    if found.in_use not in shown:
        shown.append(found.in_use)
    width = max(len(reading.text) for reading in shown)
    lines = [f"  {'reading':<{width}}  symmetry  coherence  standard errors below the best"]
    for reading in shown:
        mark = "*" if reading is found.in_use else " "
        lines.append(
            f"{mark} {reading.text:<{width}}  {reading.symmetry:8.4f}  {reading.coherence:9.4f}  "
            f"{reading.deficit:.1f}"
        )
    lines.append(f"* in use; {len(found.readings)} readings differ")
    return "\n".join([*lines, found.verdict])


# -- replay ------------------------------------------------------------------------------------


def add_replay(commands: Any) -> None:
    """Add the sub-command that makes a tractogram again."""
    parser = commands.add_parser(
        "replay",
        help="make the streamlines of a recipe again",
        description="Make the streamlines of a recipe again, and compare inputs and result with "
        "what they were. Exits with 1 when the streamlines are others.",
    )
    parser.add_argument("recipe", metavar="RECIPE", help=".json, as `track` writes it")
    parser.add_argument(
        "-o", "--out", metavar="OUT", help="tractogram to write: .trk, .tck, .trx or .vtk"
    )
    add_run_flags(parser)
    parser.set_defaults(run=_replay)


def _replay(options: argparse.Namespace) -> int:
    from ..files.tractograms import check_target
    from ..recipes.recipe import Recipe
    from ..tracking.backends import Report

    if options.out:
        check_target(options.out)
    recipe = Recipe.load(options.recipe)
    inputs = recipe.inputs()
    begun = time.perf_counter()
    report = Report()
    tractogram = track_with_progress(options, inputs, report)
    seconds = time.perf_counter() - begun
    same = recipe.check(tractogram)
    if options.out:
        tractogram.save(options.out, reference=inputs.fod)
    if not options.quiet:
        print_result(tractogram, recipe.parameters, seconds, report)
        if recipe.digest:
            print(
                "the same streamlines as the recipe's" if same else "not the recipe's streamlines"
            )
        if options.out:
            print(f"written to {options.out}")
    return 0 if same else EXIT_NOT_THE_SAME
