"""A whole brain is opened: time to its map, to the FOD, to the first streamlines; longest freeze.

Run as::

    scripts/headless.sh python benchmarks/opening.py [FOD] [--ending .nii.gz] [--json]

Without a file it writes one: 145 x 174 x 145 voxels, 45 coefficients, 658 MB of float32. The
volume is opened as File > Open does, in a window with the panel; a seed is placed as soon as the
map is shown, with Live on. The engine's compiled code is loaded before.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import napari
import numpy as np
from napari.qt import get_qapp
from qtpy.QtCore import QTimer

from napari_tractography.files.volume_files import volume_shape
from napari_tractography.plugin.layers.volume_layers import fod_of, opening_of
from napari_tractography.plugin.panel import TractographyPanel
from napari_tractography.tracking.engine import compile_kernel

PLUGIN = "napari-tractography"
SETTLE_SECONDS = 2.0  # of the window, before the file is opened
TIMEOUT_SECONDS = 300
TICK_MS = 5  # between two looks: more would take the processor from the reading
NAMES = {
    "map_s": "map shown, s",
    "fod_s": "FOD read, s",
    "streamlines_s": "first streamlines after the FOD was read, s",
    "call_s": "viewer.open returned, s",
    "freeze_s": "longest time without handling events, s",
    "memory_gb": "largest memory of the process, GB",
}


class Clock:
    """Opens a file and notes when things have happened, and how long events have waited."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.viewer = napari.Viewer(show=True)
        self.panel = TractographyPanel(self.viewer, remember=False)
        self.viewer.window.add_dock_widget(self.panel, area="right")
        self.panel.live.setChecked(True)
        self.panel.runs.finished.connect(lambda _run: self._note("streamlines"))
        self.at: dict[str, float] = {}
        self.freeze_s = 0.0
        self._last = time.perf_counter()
        self._ticks = QTimer()
        self._ticks.setInterval(TICK_MS)
        self._ticks.timeout.connect(self._tick)

    def measure(self) -> dict[str, float]:
        """Return the figures; runs the event loop."""
        QTimer.singleShot(int(1000 * SETTLE_SECONDS), self._open)
        get_qapp().exec()
        begun = self.at["open"]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "map_s": self.at["map"] - begun,
            "fod_s": self.at["fod"] - begun,
            "streamlines_s": self.at["streamlines"] - self.at["fod"],
            "call_s": self.at["call"] - begun,
            "freeze_s": self.freeze_s,
            "memory_gb": memory * (1 if sys.platform == "darwin" else 1024) / 1e9,
        }

    def _note(self, what: str) -> None:
        self.at.setdefault(what, time.perf_counter())

    def _open(self) -> None:
        self._note("open")
        self._last = time.perf_counter()
        self._ticks.start()
        self.viewer.open(self.path, plugin=PLUGIN)
        self._note("call")

    def _tick(self) -> None:
        now = time.perf_counter()
        self.freeze_s = max(self.freeze_s, now - self._last)
        self._last = now
        if "call" not in self.at:
            return
        layer = self.viewer.layers[0]
        opening = opening_of(layer)
        if "map" not in self.at and (opening is None or opening.is_map_shown):
            self._note("map")
            self._click(layer)
        if fod_of(layer) is not None:
            self._note("fod")
        if "streamlines" in self.at or now - self.at["open"] > TIMEOUT_SECONDS:
            self._ticks.stop()
            self.panel.close_session()
            self.viewer.close()
            get_qapp().quit()

    def _click(self, layer: Any) -> None:
        """Place a seed in the middle of the brightest voxels."""
        bright = np.argwhere(layer.data > 0.5 * layer.data.max())
        middle = bright[np.linalg.norm(bright - bright.mean(axis=0), axis=1).argmin()]
        self.panel.session.add_seed(np.asarray(layer.data_to_world(middle)))


def write_brain(folder: str, ending: str) -> str:
    """Write the volume; return its path."""
    import nibabel as nib

    from volume import make_volume

    fod = make_volume()
    path = Path(folder) / f"brain{ending}"
    nib.save(nib.Nifti1Image(np.asfortranarray(fod.coefficients), fod.grid.affine), path)
    return str(path)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fod", nargs="?", help="a volume of your own")
    parser.add_argument("--ending", default=".nii", choices=[".nii", ".nii.gz"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    compile_kernel("probabilistic", "trilinear", lmax=8)
    with tempfile.TemporaryDirectory() as folder:
        path = options.fod or write_brain(folder, options.ending)
        size = " x ".join(map(str, volume_shape(path)))
        figures = Clock(path).measure()
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{Path(path).name}, {size}")
    for name, what in NAMES.items():
        print(f"{what:<48}{figures[name]:8.2f}")


if __name__ == "__main__":
    main()
