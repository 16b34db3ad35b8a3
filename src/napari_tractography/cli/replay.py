"""``napari-tractography replay``: the streamlines of a recipe, made again and compared."""

from __future__ import annotations

import argparse
import time
from typing import Any

from .flags import add_execution, execution_from
from .progress import print_result, track_with_progress

EXIT_NOT_THE_SAME = 1


def add_replay(commands: Any) -> None:
    """Add the sub-command to the parser of the command."""
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
    add_execution(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Track again and compare; return the exit code."""
    from ..files.tractograms import check_target
    from ..recipes.recipe import Recipe
    from ..tracking.report import Report

    execution = execution_from(options)
    if options.out:
        check_target(options.out)
    recipe = Recipe.load(options.recipe)
    inputs = recipe.inputs()
    start = time.perf_counter()
    report = Report()
    tractogram = track_with_progress(options, inputs, execution, report)
    seconds = time.perf_counter() - start
    same = recipe.check(tractogram, report.backend)
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
