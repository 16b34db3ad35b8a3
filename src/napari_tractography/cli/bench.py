"""``napari-tractography bench``: our speed beside other programs', in one run."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..errors import InvalidParameterError
from .flags import add_reading, expanded

BAR_CELLS = 30
POSITIVE = ("threads", "repeats", "seconds")  # flags


def add_bench(commands: Any) -> None:
    """Add the sub-command to the parser of the command."""
    parser = commands.add_parser(
        "bench", help="measure the speed on this machine, beside other programs'"
    )
    parser.add_argument(
        "--fod", type=expanded, metavar="FOD", help="track in this FOD instead of a phantom"
    )
    parser.add_argument(
        "--mask", type=expanded, metavar="IMAGE", help="where to track; by default all of the FOD"
    )
    add_reading(parser)
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="(default 5)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="about what a run takes (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print the table; return the exit code."""
    for name in POSITIVE:
        if not getattr(options, name) > 0:
            raise InvalidParameterError(
                f"--{name} {getattr(options, name):g} is impossible; give a positive number."
            )
    from ..benchmark.cases import make_case
    from ..benchmark.comparison import CONTESTANTS
    from ..benchmark.measuring import measure
    from ..benchmark.reporting import figures_of, table

    case = make_case(
        options.fod,
        options.mask,
        kind=options.kind,
        basis=options.basis,
        frame=options.frame,
        n_threads=options.threads,
    )
    progress = _show_progress if sys.stderr.isatty() else (lambda done, total, label: None)
    speeds = measure(
        case, CONTESTANTS, repeats=options.repeats, seconds=options.seconds, progress=progress
    )
    figures = figures_of(case, speeds, options.repeats)
    print(json.dumps(figures, indent=2) if options.json else table(figures))
    return 0


def _show_progress(done: int, total: int, label: str) -> None:
    filled = BAR_CELLS * done // max(total, 1)
    bar = "#" * filled + "." * (BAR_CELLS - filled)
    end = "\n" if done == total else ""
    print(f"\r[{bar}] {done}/{total} {label:<36}", end=end, file=sys.stderr, flush=True)
