"""The figures of a speed comparison: the machine, the speeds and their ratios, as a table."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..version import __version__
from .cases import Case
from .comparison import ROWS, Row
from .measuring import Speed


def machine() -> dict[str, Any]:
    """Return processor, cores, system and versions."""
    from ..tracking.devices import cpu_count  # loads compiled code

    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    versions = {"napari-tractography": __version__, "Python": platform.python_version()}
    for name in ("numpy", "numba", "dipy", "cuslines"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": found[0] if found else model,
        "cores": cpu_count(),
        "system": platform.system(),
        "versions": versions,
    }


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


def figures_of(
    case: Case, speeds: Sequence[Speed], repeats: int, compared: Sequence[Row] = ROWS
) -> dict[str, Any]:
    """Return everything as plain numbers and strings, ready for JSON."""
    return {
        "machine": machine(),
        "fod": case.fod.name,
        "mask_voxels": int(np.count_nonzero(case.mask)),
        "step_mm": case.step_mm,
        "max_angle_deg": case.max_angle_deg,
        "max_length_mm": case.max_length_mm,
        "n_threads": case.n_threads,
        "repeats": repeats,
        "speeds": [asdict(speed) for speed in speeds],
        "rows": ratios(speeds, compared),
    }


def table(figures: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    computer = figures["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in computer["versions"].items())
    lines = [
        f"{computer['processor']}, {computer['cores']} cores, {computer['system']}; {versions}.",
        f"{figures['fod']}, {figures['mask_voxels']} voxels, step {figures['step_mm']:g} mm, "
        f"{figures['max_angle_deg']:g} degrees, {figures['n_threads']} threads, median of "
        f"{figures['repeats']}; million steps a second.",
        "",
        rows_table(figures["rows"]),
    ]
    return "\n".join(lines)


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


def speeds_table(speeds: Sequence[dict[str, Any]]) -> str:
    """Return every contestant's own speed as Markdown; `speeds` are fields of :class:`Speed`."""
    lines = [
        "| | million steps/s | per processor second | processors busy | start-up, s "
        "| steps a seed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for speed in speeds:
        if speed["skipped"]:
            lines.append(f"| {speed['label']} | skipped: {speed['skipped']} | | | | |")
            continue
        busy = speed["steps_per_s"] / speed["steps_per_cpu_s"]
        lines.append(
            f"| {speed['label']} | {speed['steps_per_s'] / 1e6:.3f} "
            f"| {speed['steps_per_cpu_s'] / 1e6:.3f} | {busy:.1f} | {speed['start_up_s']:.2f} "
            f"| {speed['steps_per_seed']:.0f} |"
        )
    return "\n".join(lines)
