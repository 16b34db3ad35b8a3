"""The figures of a speed comparison: the machine, the speeds and their ratios, as a table."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ..version import __version__
from .cases import Case
from .comparison import ROWS
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


def ratios(speeds: list[Speed]) -> list[dict[str, Any]]:
    """Return the rows of the table: speeds, their ratio on the clock and per processor second."""
    by_label = {speed.label: speed for speed in speeds}
    rows = []
    for row in ROWS:
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


def figures_of(case: Case, speeds: list[Speed], repeats: int) -> dict[str, Any]:
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
        "rows": ratios(speeds),
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
        "| | ours | peer | | ratio | per processor second | at least |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in figures["rows"]:
        if row["skipped"]:
            lines.append(f"| {row['what']} | | {row['peer']} | skipped: {row['skipped']} | | | |")
            continue
        lines.append(
            f"| {row['what']} | {row['ours_steps_per_s'] / 1e6:.2f} | {row['peer']} "
            f"| {row['peer_steps_per_s'] / 1e6:.3f} | {row['ratio']:.1f}x "
            f"| {row['ratio_per_cpu_s']:.1f}x | {row['target']:g}x |"
        )
    return "\n".join(lines)
