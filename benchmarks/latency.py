"""How long the hand waits: a seed dragged through a brain, from each move to the streamlines.

Without a window: the session, the worker thread, the kernels and the layer are those of the
plugin; what is left out is the drawing of the frame. Each wait runs from the move of the seed to
the streamlines layer that has what was tracked from there. Two ways to drag:

- a number of streamlines that is given, one move at a time: the next when the last is there;
- as many streamlines as the panel takes, with Live on and a hand that does not wait: moves come
  at a steady rate, and of those that come while a preview is under way only the newest counts.

Run as

    python benchmarks/latency.py [--fod FOD] [--moves N] [--streamlines N] [--hz HZ] [--json]

on a machine with nothing else to do; with no FOD it takes the embedded phantom.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from napari.components import ViewerModel
from qtpy.QtCore import QEventLoop, QTimer
from qtpy.QtWidgets import QApplication

from napari_tractography.files.fods import load_fod
from napari_tractography.fod import Fod
from napari_tractography.parameters import SeedingParameters, TrackingParameters
from napari_tractography.phantoms import make_phantom
from napari_tractography.plugin.demo import spread_seeds_mm
from napari_tractography.plugin.layers.volumes import fod_layer_data
from napari_tractography.plugin.session.previews import MOST, Pace
from napari_tractography.plugin.session.run_control import RunControl
from napari_tractography.plugin.session.session import Session

STEP_VOXELS = 0.25
WARM_UP = 10
PERCENTILES = (5, 25, 50, 75, 90, 95, 99, 100)
BAR_MS, BAR_WIDTH = 10, 50


class Fixed(Pace):
    """A preview of a given number, whatever it takes."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n

    @property
    def n_streamlines(self) -> int:
        """Of the next preview."""
        return self._n


@dataclass
class Waits:
    """What was measured, a row a preview."""

    ms: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)
    streamlines: list[int] = field(default_factory=list)
    points: list[int] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return the distribution."""
        ms = np.array(self.ms[WARM_UP:])
        edges = np.arange(0, ms.max() + 2 * BAR_MS, BAR_MS)
        counts = np.histogram(ms, edges)[0]
        return {
            "previews": len(ms),
            "seeds, median": int(np.median(self.streamlines[WARM_UP:])),
            "points, median": int(np.median(self.points[WARM_UP:])),
            "median, ms": round(float(np.median(ms)), 1),
            "95 %, ms": round(float(np.quantile(ms, 0.95)), 1),
            "percentiles, ms": {
                f"{p} %": round(float(np.percentile(ms, p)), 1) for p in PERCENTILES
            },
            "processor time, median, ms": round(float(np.median(self.processor_ms[WARM_UP:])), 1),
            "histogram, ms": {
                f"{edge:.0f}": int(n) for edge, n in zip(edges[:-1], counts, strict=True)
            },
        }


class Hand:
    """Drags one seed of a session along a path.

    Parameters
    ----------
    fod : Fod
    n_moves : int
    """

    def __init__(self, fod: Fod, n_moves: int) -> None:
        self.application = QApplication.instance() or QApplication([])
        self.viewer = ViewerModel()
        layer = self.viewer._add_layer_from_data(*fod_layer_data(fod))[0]
        self.session = Session(self.viewer)
        self.runs = RunControl(self.session)
        self.session.open()
        self.session.choose_fod(layer)
        self.step_mm = round(STEP_VOXELS * float(fod.grid.voxel_sizes_mm.min()), 3)
        self.session.set_parameters(
            TrackingParameters(step_mm=self.step_mm), SeedingParameters(n_per_seed=MOST)
        )
        ends = spread_seeds_mm(fod, 2)
        path = np.linspace(ends[0], ends[1], n_moves + WARM_UP)
        self.session.add_seeds_mm(path[:1])
        self.path: NDArray[np.float32] = self.session.space.to_display(path)
        self.loop = QEventLoop()

    def one_at_a_time(self, n_streamlines: int) -> Waits:
        """Wait for the streamlines of each move before the next."""
        session, runs, waits = self.session, self.runs, Waits()
        runs.pace = Fixed(n_streamlines)
        runs.live = False
        runs.finished.connect(self._leave)
        for place in self.path:
            processor, begun = time.process_time(), time.perf_counter()
            session.move_seed(0, place)
            runs.start(preview=True)
            self.loop.exec()  # asleep until it is there: every processor is the engine's
            waits.ms.append(1000 * (time.perf_counter() - begun))
            waits.processor_ms.append(1000 * (time.process_time() - processor))
            self._note(waits)
        runs.finished.disconnect(self._leave)
        return waits

    def at_a_rate(self, hz: float) -> Waits:
        """Move on and on with Live on, as a hand does."""
        session, runs, waits = self.session, self.runs, Waits()
        runs.pace = Pace()
        runs.live = True
        places = iter(self.path)
        processor = time.process_time()

        def finished(run: Any) -> None:
            nonlocal processor
            if run.request.is_preview:
                waits.ms.append(1000 * run.latency)
                now = time.process_time()
                waits.processor_ms.append(1000 * (now - processor))
                processor = now
                self._note(waits)

        def move() -> None:
            place = next(places, None)
            if place is None:
                self.loop.quit()
            else:
                session.move_seed(0, place)

        runs.finished.connect(finished)
        timer = QTimer()
        timer.setInterval(round(1000 / hz))
        timer.timeout.connect(move)
        timer.start()
        self.loop.exec()
        timer.stop()
        runs.finished.disconnect(finished)
        runs.cancel()
        return waits

    def close(self) -> None:
        """End what is under way."""
        self.runs.close()
        self.session.close()
        while self.runs.n_workers:  # a thread that outlives the program ends it badly
            self.application.processEvents()

    def _leave(self, _run: Any) -> None:
        self.loop.quit()

    def _note(self, waits: Waits) -> None:
        tractogram = self.session.tractogram
        assert tractogram is not None
        waits.streamlines.append(tractogram.n_seeds)
        waits.points.append(tractogram.n_points)


def drag(fod: Fod, n_moves: int, n_streamlines: int, hz: float) -> dict[str, Any]:
    """Drag a seed both ways; return what was measured."""
    hand = Hand(fod, n_moves)
    try:
        hand.one_at_a_time(n_streamlines)  # compiles, tabulates, computes what is kept
        return {
            "fod": fod.name,
            "machine": f"{platform.machine()}, {os.cpu_count()} processors",
            "step, mm": hand.step_mm,
            "one move at a time": hand.one_at_a_time(n_streamlines).summary(),
            f"{hz:g} moves a second": hand.at_a_rate(hz).summary(),
        }
    finally:
        hand.close()


def write(result: dict[str, Any]) -> None:
    """Print a result for people."""
    for name, value in result.items():
        if not isinstance(value, dict):
            print(f"{name:<28}{value}")
            continue
        print(f"\n{name}")
        for what, number in value.items():
            if what == "histogram, ms":
                top = max(number.values())
                for edge, count in number.items():
                    print(f"  {edge:>5} ms {'#' * round(BAR_WIDTH * count / top)} {count or ''}")
            elif isinstance(number, dict):
                print(f"  {what:<28}" + ", ".join(f"{key}: {ms}" for key, ms in number.items()))
            else:
                print(f"  {what:<28}{number}")


def main() -> int:
    """Print the distribution."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fod", help="FOD volume; the embedded phantom by default")
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--streamlines", type=int, default=1000, help="of a move (default 1000)")
    parser.add_argument("--hz", type=float, default=60.0, help="moves a second (default 60)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    fod = make_phantom("arcs") if options.fod is None else load_fod(options.fod)
    result = drag(fod, options.moves, options.streamlines, options.hz)
    print(json.dumps(result)) if options.json else write(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
