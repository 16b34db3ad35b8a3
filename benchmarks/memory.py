"""Memory of many streamlines of a whole brain in a window: while they are tracked, after, and then.

Run as::

    scripts/headless.sh python benchmarks/memory.py [FOD] [--streamlines N] [--json]

A window with the panel tracks N seeds in the whole FOD, by default the brain of brain_volume.py, at
the parameters that the panel starts with; then the layer is removed, undo is forgotten with the
panel, and the window is closed. Resident memory is the process's, less what it held before the run;
*points* are the bytes of blocks that hold streamlines, those in use and those that wait to be used
again (see :mod:`napari_tractography.runtime.buffers`), counted and not measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import napari
import psutil
from qtpy.QtCore import QEvent
from qtpy.QtWidgets import QApplication

import volume
from brain_volume import make_brain
from napari_tractography.files.fods import load_fod
from napari_tractography.model.fod import Fod
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.runtime.buffers import pool

POINT = 12  # bytes
SAMPLE_SECONDS = 0.005
SETTLE_SECONDS = 1.0


class Points:
    """Samples the bytes of points that are in use, in a thread; the largest counts."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, pool.lent_bytes)

    def end(self) -> int:
        """Return the largest number of bytes so far."""
        self._ended.set()
        self._thread.join()
        return self.peak_bytes


def settled() -> None:
    """Let the window do all that follows, and let go of what nobody holds."""
    for _ in range(2):  # what is let go of may delete widgets, which let go of more
        until = time.perf_counter() + SETTLE_SECONDS
        while time.perf_counter() < until:
            QApplication.processEvents()
            QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # as its own loop does
        gc.collect()


def track(panel: TractographyPanel, n: int) -> None:
    """Track n seeds in the whole FOD."""
    panel.set_parameters(source="whole FOD", n_total=n)
    panel.run()
    while panel.runs.is_busy or panel.runs.working:
        QApplication.processEvents()
    settled()


def measure(fod: Fod, n_streamlines: int) -> dict[str, Any]:
    """Track in a window; return what was held at each stage, in bytes."""
    viewer = napari.Viewer(show=True)
    viewer._add_layer_from_data(*fod_layer_data(fod))
    panel = TractographyPanel(viewer, remember=False)
    viewer.window.add_dock_widget(panel, area="right")
    session = panel.session

    process = psutil.Process()
    track(panel, 200)  # tables, the kernel, shaders
    held_before = process.memory_info().rss
    volume.reset_peak()
    points = Points()
    begun = time.perf_counter()
    track(panel, n_streamlines)
    seconds = time.perf_counter() - begun
    found: dict[str, Any] = {
        "streamlines": len(session.tractogram),
        "points": session.tractogram.n_points,
        "seconds": seconds,
        "before": held_before,
        "peak of the run": volume.peak_bytes(),
        "peak of points": points.end(),
    }

    def note(stage: str) -> None:
        settled()
        found[stage] = process.memory_info().rss
        found[f"{stage}, points"] = pool.lent_bytes
        found[f"{stage}, waiting"] = pool.n_bytes

    note("after")
    viewer.layers.remove(session.streamlines_layer)
    note("layer removed")
    panel.close_session()
    viewer.window.remove_dock_widget(panel)
    panel.deleteLater()
    del panel, session
    note("panel closed")
    viewer.close()
    del viewer
    note("window closed")
    return found


def write(found: dict[str, Any]) -> None:
    """Print the figures for people."""
    own = POINT * found["points"]
    print(
        f"{found['streamlines']:,} streamlines, {found['points']:,} points of {POINT} bytes: "
        f"{own / 1e9:.2f} GB; {found['seconds']:.0f} s; {found['before'] / 1e9:.2f} GB before\n\n"
        "| | resident beyond before, GB | times the points | points, GB | waiting, GB |\n"
        "|---|---:|---:|---:|---:|"
    )
    peak = found["peak of the run"] - found["before"]
    lent = found["peak of points"]
    print(f"| peak of the run | {peak / 1e9:.2f} | {peak / own:.2f} | {lent / 1e9:.2f} | |")
    for stage in ("after", "layer removed", "panel closed", "window closed"):
        more = found[stage] - found["before"]
        print(
            f"| {stage} | {more / 1e9:.2f} | {more / own:.2f} "
            f"| {found[f'{stage}, points'] / 1e9:.2f} | {found[f'{stage}, waiting'] / 1e9:.2f} |"
        )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fod", nargs="?", type=Path, help="a whole brain by default")
    parser.add_argument("--streamlines", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    fod = make_brain() if options.fod is None else load_fod(options.fod)
    found = measure(fod, options.streamlines)
    print(json.dumps(found)) if options.json else write(found)


if __name__ == "__main__":
    main()
