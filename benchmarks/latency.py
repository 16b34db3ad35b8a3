"""How long the hand waits: a seed dragged through a brain, from each move to the streamlines.

Without a window: the session, the worker thread, the kernels and the layer are those of the
plugin; what is left out is the drawing of the frame. Run as

    python benchmarks/latency.py [--fod FOD] [--moves N] [--json]

on a machine with nothing else to do; with no FOD it takes the embedded phantom.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time

import numpy as np

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from napari.components import ViewerModel
from qtpy.QtWidgets import QApplication

from napari_tractography.files.fods import load_fod
from napari_tractography.parameters import SeedingParameters, TrackingParameters
from napari_tractography.phantoms import make_phantom
from napari_tractography.plugin.demo import spread_seeds_mm
from napari_tractography.plugin.session import PREVIEW_STREAMLINES, Session
from napari_tractography.plugin.volumes import fod_layer_data

STEP_VOXELS = 0.25
WARM_UP = 5


def drag(fod_path: str | None, n_moves: int) -> dict[str, float | int | str]:
    """Move a seed along a path; return the distribution of waits."""
    application = QApplication.instance() or QApplication([])
    fod = make_phantom("arcs") if fod_path is None else load_fod(fod_path)
    viewer = ViewerModel()
    layer = viewer._add_layer_from_data(*fod_layer_data(fod))[0]
    session = Session(viewer)
    session.choose_fod(layer)
    step_mm = round(STEP_VOXELS * float(fod.grid.voxel_sizes_mm.min()), 3)
    session.parameters = TrackingParameters(step_mm=step_mm)
    session.seeding = SeedingParameters(n_per_seed=PREVIEW_STREAMLINES)
    ends = spread_seeds_mm(fod, 2)
    path = ends[0] + np.linspace(0.0, 1.0, n_moves + WARM_UP)[:, None] * (ends[1] - ends[0])
    session.add_seeds_mm(path[:1])
    done: list[object] = []
    session.run_finished.connect(done.append)
    waits, points, streamlines = [], [], []
    for place in path:
        session.move_seed(0, session.space.to_display(place[None])[0])
        done.clear()
        begun = time.perf_counter()
        session.start(preview=True)
        while not done:
            application.processEvents()
        waits.append(1000 * (time.perf_counter() - begun))
        assert session.tractogram is not None
        points.append(session.tractogram.n_points)
        streamlines.append(len(session.tractogram))
    session.close()
    waits = waits[WARM_UP:]
    return {
        "fod": fod.name,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "moves": len(waits),
        "streamlines, median": int(np.median(streamlines)),
        "points, median": int(np.median(points)),
        "step, mm": step_mm,
        "median, ms": round(float(np.median(waits)), 1),
        "95 %, ms": round(float(np.quantile(waits, 0.95)), 1),
        "largest, ms": round(float(np.max(waits)), 1),
    }


def main() -> int:
    """Print the distribution."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fod", help="FOD volume; the embedded phantom by default")
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = drag(options.fod, options.moves)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:<22}{value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
