"""A file of 10,000,000 streamlines is opened in a window: seconds until they are drawn.

Run as::

    scripts/headless.sh python benchmarks/opening_streams.py [FILE] [--streamlines N] [--points N]
        [--dtype float16] [--repeats 3]

Without a file one is written, streamlines by code, and deleted in the end. The window has the
panel, and has opened a small file before, as a window in which somebody works. "Cold" is after the
system was asked to forget the file, "warm" with the file in its memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import napari
from napari.qt import get_qapp

import streams
from napari_tractography.plugin.panel import TractographyPanel

PLUGIN = "napari-tractography"


def own_memory_gb() -> float:
    """Return the memory of this process besides pages of files, of Linux; 0 elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    row = next(row for row in status.read_text().splitlines() if row.startswith("RssAnon"))
    return int(row.split()[1]) / 1e6


def forget(path: Path) -> None:
    """Ask the system to drop a file from its memory."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def opened(viewer: napari.Viewer, path: Path) -> tuple[float, float, str]:
    """Open a file; return seconds until it is drawn, GB that it took, and what is shown."""
    before = own_memory_gb()
    begun = time.perf_counter()
    (layer,) = viewer.open(path, plugin=PLUGIN)
    viewer.screenshot(canvas_only=True, flash=False)  # drawn, and read back
    get_qapp().processEvents()
    seconds = time.perf_counter() - begun
    told = layer.summary
    took = own_memory_gb() - before
    viewer.layers.clear()
    return seconds, took, told


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure the opening of many streamlines.")
    parser.add_argument("file", nargs="?", type=Path, help="a tractogram of your own")
    parser.add_argument("--streamlines", type=int, default=10_000_000)
    parser.add_argument("--points", type=int, default=20, help="of each streamline")
    parser.add_argument("--dtype", default="float32", help="of the points")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where there is room; temporary by default")
    parser.add_argument("--picture", type=Path, help="file for a picture of the window")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        few, path = Path(folder) / "few.trx", options.file or Path(folder) / "whole.trx"
        streams.write(few, 1000, 20)
        if not options.file:
            streams.write(path, options.streamlines, options.points, options.dtype)
        viewer = napari.Viewer(show=True)
        panel = TractographyPanel(viewer, remember=False)
        viewer.window.add_dock_widget(panel, area="right")
        opened(viewer, few)
        print(f"{path.name}, {path.stat().st_size / 1e9:.2f} GB, {sys.platform}")
        for state in ("cold", "warm"):
            runs = []
            for _ in range(options.repeats):
                if state == "cold":
                    forget(path)
                runs.append(opened(viewer, path))
            seconds, took, told = min(runs)
            print(
                f"{state}: {seconds:.2f} s, best of {len(runs)}, load {os.getloadavg()[0]:.1f}; "
                f"{told}; {took:.2f} GB of memory besides the file's pages"
            )
        if options.picture:
            viewer.open(path, plugin=PLUGIN)
            get_qapp().processEvents()
            viewer.screenshot(str(options.picture), canvas_only=False, flash=False)
        panel.close_session()
        viewer.close()


if __name__ == "__main__":
    main()
