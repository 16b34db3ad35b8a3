"""``napari-tractography cohort``: in which share of many subjects a place is reached."""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..errors import FileError, InvalidParameterError
from ..files.formats import check_text_name, listed, written_volume_endings
from ..files.subjects import SUBJECT, is_pattern
from .flags import add_execution, add_path, add_warp, execution_of, warp_source
from .progress import progress_line

if TYPE_CHECKING:
    from ..maps.cohort import CohortResult
    from ..recipes.cohort import Cohort
    from ..recipes.recipe import Recipe
    from ..recipes.warp_sources import WarpSource
    from ..tracking.inputs import Execution

TABLE = "cohort.csv"
MEMORY_MB = 2048.0
EXIT_NOT_THE_SAME = 1


HELP = "map in which share of many subjects a place is reached from the same seeds"
DESCRIPTION = (
    "Make the streamlines of a recipe, with its own parameters, in the FODs of "
    "many subjects in one space, or with a warp into one. Map the share of subjects in which a "
    "voxel is reached, and write a table of the subjects, the one that differs most first. "
    "What a subject's streamlines do not come near is not kept in memory. Exits with 1 when "
    "the table was there and streamlines of the same inputs are others."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_path(parser, "recipe", "RECIPE", ".json, as `track` writes it")
    add_path(
        parser,
        "--fod",
        "FOD",
        "FODs of the subjects, or a pattern in quotes such as "
        '"sub-*/wmfod.nii.gz"; those that are not compressed are opened sooner',
        nargs="+",
        action="extend",
        required=True,
    )
    add_path(
        parser,
        "--table",
        "OUT.csv",
        "a row for each subject: how much it is like the others, streamlines, mean length, volume "
        f"and what proves them (default {TABLE})",
        default=TABLE,
    )
    add_path(
        parser,
        "--map",
        "OUT",
        f"also write the share of subjects, 0 to 1: {listed(written_volume_endings())}",
    )
    add_path(parser, "--error", "OUT", "also write the standard error of the share")
    add_path(
        parser,
        "--template",
        "IMAGE",
        "image whose grid the maps shall have (default the first FOD; with --warp that of "
        "--to-template in the recipe, or the FOD of a recipe without a warp)",
    )
    parser.add_argument(
        "--min-streamlines",
        type=int,
        default=1,
        metavar="N",
        help="streamlines of a subject that must pass a voxel for it to be reached (default 1)",
    )
    parser.add_argument(
        "--max-memory",
        type=float,
        default=MEMORY_MB,
        metavar="MB",
        help="of what is kept of FODs, on this machine or on each worker of --cluster (default "
        f"{MEMORY_MB:g})",
    )
    add_warp(
        parser,
        "from the space of each subject to that of the recipe's seeds and regions, in which the "
        f"maps then lie, with {SUBJECT} in it; in place of the recipe's own warp",
    )
    add_execution(parser)


def run(options: argparse.Namespace) -> int:
    """Track in all subjects and write what comes of it; return the exit code."""
    from ..files.paths import check_apart, check_writable
    from ..files.volume_files import check_volume_target, load_grid, save_volume
    from ..recipes.cohort import Cohort
    from ..recipes.recipe import Recipe

    patterns = [fod for fod in options.fod if is_pattern(fod)]
    if patterns and len(options.fod) > 1:
        raise InvalidParameterError(
            f"--fod {patterns[0]} is a pattern beside other FODs; give one pattern alone, or files."
        )
    check_text_name(options.table)
    check_writable(options.table)
    for path in filter(None, (options.map, options.error)):
        check_volume_target(path)
    before = _rows_of(Path(options.table))
    recipe = Recipe.load(options.recipe)
    cohort = Cohort.of_recipe(
        recipe,
        patterns[0] if patterns else options.fod,
        warps=_warps(options),
        max_memory_mb=options.max_memory,
        grid=load_grid(options.template) if options.template else None,
    )
    check_apart(
        options.table,
        options.map,
        options.error,
        read=(options.recipe, options.template, *cohort.fods, *cohort.warp_files),
    )
    with execution_of(options) as execution:
        found = _tracked(options, execution, cohort, recipe)
    found.save(options.table)
    if options.map:
        save_volume(found.share, found.grid, options.map)
    if options.error:
        save_volume(found.standard_error, found.grid, options.error)
    changed = found.changed_since(before)
    for name in changed:
        print(f"{name}: not the streamlines that {options.table} had", file=sys.stderr)
    if not options.quiet:
        written = ", ".join(filter(None, (options.table, options.map, options.error)))
        print(f"{found.summary()}; written to {written}")
    return EXIT_NOT_THE_SAME if changed else 0


def _warps(options: argparse.Namespace) -> Callable[[str], WarpSource] | None:
    """Return what makes the warp of a subject, by its name; None without."""
    if not options.warp:
        warp_source(options)  # which refuses other flags of it
        return None
    return lambda name: cast("WarpSource", warp_source(options, subject=name))


def _tracked(
    options: argparse.Namespace, execution: Execution, cohort: Cohort, recipe: Recipe
) -> CohortResult:
    visible = sys.stderr.isatty() and not options.quiet
    with progress_line(visible) as show:

        def advance(n_done: int) -> None:
            show(f"{100 * n_done // len(cohort):3d} %  {n_done} of {len(cohort)} subjects")

        return cohort.run(
            recipe,
            min_streamlines=options.min_streamlines,
            backend=execution.backend,
            n_threads=execution.n_threads,
            advance=advance,
        )


def _rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table that is there. Raises FileError when it is another table."""
    from ..maps.cohort import COLUMNS

    if not path.exists():
        return []
    rows: list[dict[str, str]] = []
    with (
        contextlib.suppress(OSError, csv.Error),
        path.open(encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        reader = csv.DictReader(file)
        rows = list(reader)
        if tuple(reader.fieldnames or COLUMNS) == COLUMNS:
            return rows
    raise FileError(f"{path} is another table; give another --table.")
