"""The first click: from a click to the first streamlines where nothing has been compiled yet.

Run as::

    scripts/headless.sh python benchmarks/first_click.py [FOD] [--n-seeds N] [--json]

Each figure is of a fresh process. On the first start Numba's cache is an empty folder, on the
second it holds what the first has compiled. In a window with the panel the FOD is there already,
the default one being the embedded phantom; a seed is placed with Live on as soon as the panel is
open. The command tracks from seeds in the whole FOD; its figure has Python's start, imports and
reading in it, too. Last comes how fast WebAssembly tracks, which does until the kernel is there, of
one thread of the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from napari_tractography.files.fods import load_fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking.cpu import cpu_backend
from napari_tractography.tracking.engine import make_plan
from napari_tractography.tracking.inputs import TrackingInput
from napari_tractography.tracking.wasm import wasm_backend

TICK_MS = 5  # between two looks at the clock
SETTLE_SECONDS = 2.0  # of the window, before the panel is opened
COMMAND = "import sys; from napari_tractography.cli import main; sys.exit(main())"
COMPILE = """
import sys
from napari_tractography.tracking.engine import compile_kernel
compile_kernel("probabilistic", "trilinear", lmax=int(sys.argv[1]))
"""
SPEED_SEEDS = 2000
NAMES = {
    "opened_s": "panel opened to the click, s",
    "click_s": "click to the first streamlines, s",
    "n_streamlines": "how many",
    "freeze_s": "longest time without handling events meanwhile, s",
    "later_freeze_s": "the same from then on, until the kernel is ready, s",
    "kernel_s": "click to the kernel, s",
    "command_s": "`napari-tractography track`, s",
}


class Click:
    """Opens the panel beside an FOD, places a seed and notes when things have happened."""

    def __init__(self, path: str) -> None:
        import napari
        from qtpy.QtCore import QTimer

        from napari_tractography.plugin.layers.volume_layers import fod_layer_data

        self.fod = load_fod(path)
        self.viewer = napari.Viewer(show=True)
        self.viewer._add_layer_from_data(*fod_layer_data(self.fod))
        self.at: dict[str, float] = {}
        self.n_streamlines = 0
        self.freezes = {"freeze_s": 0.0, "later_freeze_s": 0.0}
        self._ticks = QTimer()
        self._ticks.setInterval(TICK_MS)
        self._ticks.timeout.connect(self._tick)

    def measure(self) -> dict[str, float]:
        """Return the figures; runs the event loop."""
        from napari.qt import get_qapp
        from qtpy.QtCore import QTimer

        QTimer.singleShot(int(1000 * SETTLE_SECONDS), self._open)
        get_qapp().exec()
        at = self.at
        return {
            "opened_s": at["click"] - at["open"],
            "click_s": at["streamlines"] - at["click"],
            "n_streamlines": self.n_streamlines,
            **self.freezes,
            "kernel_s": at["kernel"] - at["click"],
        }

    def _open(self) -> None:
        from napari_tractography.plugin.panel import TractographyPanel

        self.at["open"] = time.perf_counter()
        self.panel = TractographyPanel(self.viewer, remember=False)
        self.viewer.window.add_dock_widget(self.panel, area="right")
        self.panel.live.setChecked(True)
        self.panel.runs.finished.connect(self._on_finished)
        strong = np.abs(self.fod.values[:, 0])
        i, j, k = (axis[strong.argmax()] for axis in np.nonzero(self.fod.voxel_rows >= 0))
        place = self.fod.grid.affine @ (i, j, k, 1)
        self.at["click"] = self._last = time.perf_counter()
        self._ticks.start()
        self.panel.session.add_seeds_mm(place[None, :3])
        self.plan = make_plan(self.panel.session.request().tracking_input())

    def _on_finished(self, _run: Any) -> None:
        if "streamlines" not in self.at:
            self.at["streamlines"] = time.perf_counter()
            self.n_streamlines = len(self.panel.session.tractogram)

    def _tick(self) -> None:
        from napari.qt import get_qapp

        now = time.perf_counter()
        which = "later_freeze_s" if "streamlines" in self.at else "freeze_s"
        self.freezes[which] = max(self.freezes[which], now - self._last)
        self._last = now
        if "kernel" not in self.at and cpu_backend.is_loaded(self.plan):
            self.at["kernel"] = now
        if {"kernel", "streamlines"} <= self.at.keys():
            self._ticks.stop()
            self.panel.close_session()
            while self.panel.runs.working:  # a thread that outlives the program ends it badly
                get_qapp().processEvents()
            self.viewer.close()
            get_qapp().quit()


def in_fresh_processes(path: str, n_seeds: int) -> dict[str, dict[str, float]]:
    """Measure the first start and the second."""
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as window, tempfile.TemporaryDirectory() as command:
        for start in ("first start", "second start"):
            clicked = _run(window, __file__, path, "--window", capture_output=True)
            figures[start] = json.loads(clicked.stdout.splitlines()[-1])
            out = str(Path(command) / "out.tck")
            begun = time.perf_counter()
            track = ("track", path, "-o", out, "--seed-fod", "--n-seeds", str(n_seeds), "--quiet")
            _run(command, "-c", COMMAND, *track)
            figures[start]["command_s"] = time.perf_counter() - begun
            _run(command, "-c", COMPILE, str(load_fod(path).lmax))
    figures["first start"]["wasm"] = speed_in_webassembly(path)
    return figures


def speed_in_webassembly(path: str) -> float:
    """Return how fast WebAssembly tracks, of one thread of the kernel: the same seeds, in turn."""
    fod = load_fod(path)
    seeds = Seeds.from_fod(fod, SPEED_SEEDS)
    plan = make_plan(TrackingInput(fod, seeds, TrackingParameters.for_fod(fod)))
    cpu_backend.make_ready(plan)
    never, buffers = np.zeros(1, np.uint8), cpu_backend.ThreadBuffers()
    ways = {
        "wasm": lambda: wasm_backend.track_range(plan, 0, SPEED_SEEDS, never),
        "kernel": lambda: cpu_backend.track_range(plan, 0, SPEED_SEEDS, never, buffers),
    }
    seconds: dict[str, float] = dict.fromkeys(ways, np.inf)
    for _ in range(4):  # of which the first fills tables
        for name, track in ways.items():
            begun = time.perf_counter()
            track()
            seconds[name] = min(seconds[name], time.perf_counter() - begun)
    return seconds["kernel"] / seconds["wasm"]


def _run(cache: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run Python with a cache of compiled code."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, text=True, **options
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fod", nargs="?", help="a volume of your own")
    parser.add_argument("--n-seeds", type=int, default=1000, help="of the command (default 1000)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--window", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.window:
        print(json.dumps(Click(options.fod).measure()))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.fod
        if path is None:
            fod, path = make_phantom("arcs"), f"{folder}/arcs.nii.gz"
            nib.save(nib.Nifti1Image(fod.coefficients, fod.grid.affine), path)
        figures = in_fresh_processes(path, options.n_seeds)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{platform.machine()}, {os.cpu_count()} processors; {Path(path).name}")
    print(f"{'':<60}" + "".join(f"{start:>14}" for start in figures))
    for name, what in NAMES.items():
        print(f"{what:<60}" + "".join(f"{each[name]:14.2f}" for each in figures.values()))
    what, speed = (
        "speed in WebAssembly, of one thread of the kernel",
        figures["first start"]["wasm"],
    )
    print(f"{what:<60}{speed:14.2f}")


if __name__ == "__main__":
    main()
