"""Our speed beside other programs', in one run.

Run it in a checkout, with the peers installed that shall take part (Debian's mrtrix3; cuslines from
the package index)::

    python benchmarks/comparison.py [what `napari-tractography bench` takes]

It is that command with more contestants and a table of ratios. Those that are not installed are
named as skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from napari_tractography.cli.bench import add_flags, measured
from napari_tractography.tracking import speed
from napari_tractography.tracking.speed import (
    DETERMINISTIC_NEAREST,
    DETERMINISTIC_TRILINEAR,
    ENDPOINTS_NEAREST,
    PROBABILISTIC_NEAREST,
    PROBABILISTIC_TRILINEAR,
    Contestant,
    Speed,
    conditions,
)
from peers.cuslines import Cuslines
from peers.dipy import Dipy
from peers.mrtrix import MRtrix
from peers.tractography_jl import TractographyJl


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: which of ours against which peer, and the ratio we aim for."""

    what: str
    ours: str
    peer: str
    target: float


CONTESTANTS: tuple[Contestant, ...] = (
    *speed.CONTESTANTS,
    MRtrix("iFOD1"),
    MRtrix("SD_STREAM"),
    Dipy("probabilistic_tracking"),
    Dipy("deterministic_tracking"),
    Cuslines(),
    TractographyJl(),
)
ROWS = (
    Row("probabilistic, nearest", PROBABILISTIC_NEAREST.label, "MRtrix3 iFOD1", 100),
    Row("probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, "MRtrix3 iFOD1", 40),
    Row(
        "probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, "DIPY probabilistic_tracking", 50
    ),
    Row("probabilistic, trilinear", PROBABILISTIC_TRILINEAR.label, Cuslines.label, 15),
    Row("deterministic, nearest", DETERMINISTIC_NEAREST.label, "MRtrix3 SD_STREAM", 50),
    Row(
        "deterministic, trilinear", DETERMINISTIC_TRILINEAR.label, "DIPY deterministic_tracking", 15
    ),
    Row("endpoints only, nearest", ENDPOINTS_NEAREST.label, TractographyJl.label, 8),
)


def ratios(speeds: Sequence[Speed], compared: Sequence[Row] = ROWS) -> list[dict[str, Any]]:
    """Return the rows of the table: speeds, their ratio on the clock and per processor second."""
    by_label = {speed.label: speed for speed in speeds}
    rows = []
    for row in compared:
        ours, peer = by_label[row.ours], by_label[row.peer]
        skipped = peer.skipped or ("" if peer.steps_per_s > 0 else "it made no steps")
        entry: dict[str, Any] = {**asdict(row), "skipped": skipped}
        if not skipped:
            entry |= {
                "ours_steps_per_s": ours.steps_per_s,
                "peer_steps_per_s": peer.steps_per_s,
                "ratio": ours.steps_per_s / peer.steps_per_s,
                "ratio_per_cpu_s": ours.steps_per_cpu_s / peer.steps_per_cpu_s,
            }
        rows.append(entry)
    return rows


def table(figures: dict[str, Any]) -> str:
    """Return the report as Markdown, of the figures with their ``"rows"``."""
    return f"{conditions(figures)}\n\n{rows_table(figures['rows'])}"


def rows_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return what :func:`ratios` gives as Markdown."""
    lines = [
        "| | ours | peer | | ratio | per processor second | at least |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        if row["skipped"]:
            lines.append(f"| {row['what']} | | {row['peer']} | skipped: {row['skipped']} | | | |")
            continue
        lines.append(
            f"| {row['what']} | {row['ours_steps_per_s'] / 1e6:.2f} | {row['peer']} "
            f"| {row['peer_steps_per_s'] / 1e6:.3f} | {row['ratio']:.1f}x "
            f"| {row['ratio_per_cpu_s']:.1f}x | {row['target']:.3g}x |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_flags(parser)
    options = parser.parse_args(arguments)
    figures, speeds = measured(options, CONTESTANTS)
    figures["rows"] = ratios(speeds)
    print(json.dumps(figures, indent=2) if options.json else table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
