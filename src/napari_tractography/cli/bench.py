"""``napari-tractography bench``: the speed on this machine."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidParameterError
from .flags import add_path, add_reading, reading_of, warn_of_reading

if TYPE_CHECKING:
    from ..tracking.speed import Contestant, Speed

HELP = "measure the speed of tracking on this machine"
BAR_CELLS = 30
OTHERS = "Other programs beside it: `python benchmarks/comparison.py`, in a checkout."
POSITIVE = ("threads", "repeats", "seconds")  # flags


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what is tracked and how often, for ``benchmarks/comparison.py`` as well."""
    add_path(parser, "--fod", "FOD", "track in this FOD instead of a phantom")
    add_path(parser, "--mask", "IMAGE", "where to track; by default all of the FOD")
    add_reading(parser)
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="(default 5)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="about what a run takes (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Measure, and print the table; return the exit code."""
    from ..tracking.speed import CONTESTANTS, conditions, speeds_table

    figures, _ = measured(options, CONTESTANTS)
    if options.json:
        print(json.dumps(figures, indent=2))
        return 0
    print(conditions(figures), speeds_table(figures["speeds"]), OTHERS, sep="\n\n")
    return 0


def measured(
    options: argparse.Namespace, contestants: Sequence[Contestant]
) -> tuple[dict[str, Any], list[Speed]]:
    """Measure contestants as the flags say; return the figures, and the speeds among them.

    Raises InvalidParameterError when a number is impossible; TractographyError when a file cannot
    be read.
    """
    for name in POSITIVE:
        if not 0 < getattr(options, name) < math.inf:
            raise InvalidParameterError(
                f"--{name} {getattr(options, name):g} is impossible; give a positive number."
            )
    from ..tracking.speed import figures_of, make_case, measure

    case = make_case(
        options.fod,
        options.mask,
        n_threads=options.threads,
        **reading_of(options),
    )
    progress = _show_progress if sys.stderr.isatty() else (lambda done, total, label: None)
    warn_of_reading(options, case.fod)
    speeds = measure(
        case, contestants, repeats=options.repeats, seconds=options.seconds, progress=progress
    )
    return figures_of(case, speeds, options.repeats), speeds


def _show_progress(done: int, total: int, label: str) -> None:
    filled = BAR_CELLS * done // max(total, 1)
    bar = "#" * filled + "." * (BAR_CELLS - filled)
    end = "\n" if done == total else ""
    print(f"\r[{bar}] {done}/{total} {label:<36}", end=end, file=sys.stderr, flush=True)
