"""``napari-tractography coherence``: whether the FOD is read in the right basis and axes."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from .flags import add_fod, load

if TYPE_CHECKING:
    from ..maps.coherence import Coherence

SHOWN_READINGS = 10


HELP = "check basis, frame and axes of an FOD by the FOD itself"
DESCRIPTION = (
    "Score the FOD under each basis, frame, flip and swap of its direction axes, "
    "and say whether another reading of the file fits better than the one in use."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the sub-command."""
    add_fod(parser)
    parser.add_argument("--json", action="store_true", help="print all readings as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the scores; return the exit code."""
    from ..maps.coherence import coherence

    found = coherence(load(options))
    print(json.dumps(found.to_dict(), indent=1) if options.json else _table(found))
    return 0


def _table(found: Coherence) -> str:
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
