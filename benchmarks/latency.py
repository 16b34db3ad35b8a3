"""Latency of previews while a seed is dragged: from a move to the new streamlines in the layer.

Without a window: the session, the worker thread, the kernels and the layer are those of the
plugin; drawing the frame is left out. Two ways to drag:

- one move at a time with a given number of streamlines: the next move follows the last preview;
- at a steady rate with Live on and as many streamlines as the panel tracks: of the moves made
  during a preview only the newest is tracked.

Either way all moves are one gesture, as from press to release of the mouse: one step of undo, for
which the streamlines of each move are not kept.

Run as

    python benchmarks/latency.py [--fod FOD] [--brain] [--defaults] [--moves N] [--streamlines N]
        [--hz HZ] [--json] [--knobs [TEXT ...]] [--first]

on a machine with nothing else to do; with no FOD it is the embedded phantom, with --brain
the whole brain of brain_volume.py, and with --defaults the parameters that the panel starts with,
else steps of a quarter of a voxel. With --knobs the same is done with a probability threshold, with
regions, with a mask and with tissues, one after the other, as a table; texts choose among them.
With --first the seed is dragged where nothing was tracked before, once as it is and once after what
the panel tracks ahead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from napari.components import ViewerModel
from qtpy.QtCore import QEventLoop, QTimer
from qtpy.QtWidgets import QApplication

from brain_volume import make_brain, make_tissues
from napari_tractography.files.fods import load_fod
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.regions import Region
from napari_tractography.model.seeding_parameters import SeedingParameters
from napari_tractography.plugin.demo import spread_seeds_mm
from napari_tractography.plugin.layers.tissue_layers import tissue_layer_data
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.session.previews import MOST, Pace
from napari_tractography.plugin.session.run_control import RunControl
from napari_tractography.plugin.session.session import Session
from napari_tractography.tracking.engine import compile_kernel, track_ahead
from napari_tractography.tracking.tables.cache import fod_table, provide_table

STEP_VOXELS = 0.25
WARM_UP = 10
PERCENTILES = (5, 25, 50, 75, 90, 95, 99, 100)
BAR_MS, BAR_WIDTH = 10, 50
THRESHOLD = 0.02
# Radii of regions, of the volume's shortest side: about all of the streamlines meet the one and
# some of them the other.
RADII = {"include": 0.15, "exclude": 0.03}


class Fixed(Pace):
    """Previews of a given number of streamlines, however long they take."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._n = n

    @property
    def n_streamlines(self) -> int:
        """Of the next preview."""
        return self._n


@dataclass
class Latencies:
    """What was measured, a row a preview."""

    ms: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)
    streamlines: list[int] = field(default_factory=list)
    points: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)  # streamlines that there are

    def summary(self) -> dict[str, Any]:
        """Return the distribution."""
        first = min(WARM_UP, len(self.ms) // 2)  # slow previews leave few to count
        ms = np.array(self.ms[first:])
        edges = np.arange(0, ms.max() + 2 * BAR_MS, BAR_MS)
        counts = np.histogram(ms, edges)[0]
        return {
            "previews": len(ms),
            "seeds, median": int(np.median(self.streamlines[first:])),
            "streamlines, median": int(np.median(self.shown[first:])),
            "points, median": int(np.median(self.points[first:])),
            "median, ms": round(float(np.median(ms)), 1),
            "95 %, ms": round(float(np.quantile(ms, 0.95)), 1),
            "percentiles, ms": {
                f"{p} %": round(float(np.percentile(ms, p)), 1) for p in PERCENTILES
            },
            "processor time, median, ms": round(float(np.median(self.processor_ms[first:])), 1),
            "histogram, ms": {
                f"{edge:.0f}": int(n) for edge, n in zip(edges[:-1], counts, strict=True)
            },
        }


class SeedDrag:
    """Drags one seed of a session along a path.

    Parameters
    ----------
    fod : Fod
    n_moves : int
    defaults : bool
        Whether to track with the parameters that the session starts with.
    """

    def __init__(self, fod: Fod, n_moves: int, *, defaults: bool = False) -> None:
        self.application = QApplication.instance() or QApplication([])
        self.viewer = ViewerModel()
        layer = self.viewer._add_layer_from_data(*fod_layer_data(fod))[0]
        self.session = Session(self.viewer)
        self.runs = RunControl(self.session)
        self.session.open()
        self.session.choose_fod(layer)
        step_mm = round(STEP_VOXELS * float(fod.grid.voxel_sizes_mm.min()), 3)
        if not defaults:
            self.session.restore_by_hand(TrackingParameters(step_mm=step_mm).to_dict())
        self.session.set_seeding(SeedingParameters(n_per_seed=MOST))
        ends = spread_seeds_mm(fod, 2)
        self.fod, self.path_mm = fod, np.linspace(ends[0], ends[1], n_moves + WARM_UP)
        self.session.add_seeds_mm(self.path_mm[:1])
        self.path: NDArray[np.float32] = self.session.space.to_display(self.path_mm)
        self.loop = QEventLoop()

    def one_at_a_time(self, n_streamlines: int) -> Latencies:
        """Wait for the streamlines of each move before the next."""
        session, runs, latencies = self.session, self.runs, Latencies()
        runs.pace = Fixed(n_streamlines)
        runs.live = False
        runs.finished.connect(self._leave)
        session.document.hold()
        for place in self.path:
            processor, begun = time.process_time(), time.perf_counter()
            session.move_seed(0, place)
            runs.start(preview=True)
            self.loop.exec()  # asleep until it is there: every processor is the engine's
            latencies.ms.append(1000 * (time.perf_counter() - begun))
            latencies.processor_ms.append(1000 * (time.process_time() - processor))
            self._note(latencies)
        session.document.release()
        runs.finished.disconnect(self._leave)
        return latencies

    def at_a_rate(self, hz: float) -> Latencies:
        """Move at a steady rate with Live on; do not wait for the streamlines."""
        session, runs, latencies = self.session, self.runs, Latencies()
        runs.pace = Pace()
        runs.live = True
        places = iter(self.path)
        processor = time.process_time()

        def finished(run: Any) -> None:
            nonlocal processor
            if run.request.is_preview:
                latencies.ms.append(1000 * run.latency)
                now = time.process_time()
                latencies.processor_ms.append(1000 * (now - processor))
                processor = now
                self._note(latencies)

        def move() -> None:
            place = next(places, None)
            if place is None:
                self.loop.quit()
            else:
                session.move_seed(0, place)

        runs.finished.connect(finished)
        session.document.hold()
        timer = QTimer()
        timer.setInterval(round(1000 / hz))
        timer.timeout.connect(move)
        timer.start()
        self.loop.exec()
        timer.stop()
        session.document.release()
        runs.finished.disconnect(finished)
        runs.cancel()
        return latencies

    def close(self) -> None:
        """End what is under way."""
        self.runs.close()
        self.session.close()
        while self.runs.working:  # a thread that outlives the program ends it badly
            self.application.processEvents()

    def _leave(self, _run: Any) -> None:
        self.loop.quit()

    def _note(self, latencies: Latencies) -> None:
        tractogram = self.session.tractogram
        assert tractogram is not None
        latencies.streamlines.append(tractogram.n_seeds)
        latencies.shown.append(len(tractogram))
        latencies.points.append(tractogram.n_points)


def with_threshold(seed_drag: SeedDrag) -> None:
    """Set a probability threshold."""
    session = seed_drag.session
    session.restore_by_hand(session.parameters.replace(min_probability=THRESHOLD).to_dict())


def with_region(seed_drag: SeedDrag, role: str, *, painted: bool) -> None:
    """Add a sphere in the middle of the path, or the same painted."""
    grid, session = seed_drag.fod.grid, seed_drag.session
    middle = seed_drag.path_mm[len(seed_drag.path_mm) // 2]
    radius = RADII[role] * float((np.array(grid.shape) * grid.voxel_sizes_mm).min())
    region = Region.sphere(middle, radius, role)
    if painted:
        voxels = np.moveaxis(np.indices(grid.shape), 0, -1).reshape(-1, 3)
        inside = region.contains(grid.to_mm(voxels)).reshape(grid.shape)
        region = Region.mask(inside, grid, role)
    session.regions.add_region(region)


def with_mask(seed_drag: SeedDrag) -> None:
    """Track in the voxels that hold an FOD."""
    session, fod = seed_drag.session, seed_drag.fod
    voxels = np.ascontiguousarray(session.space.volume(fod.support.astype(np.uint8)))
    session.choose("mask", seed_drag.viewer.add_labels(voxels, **session.space.layer_kwargs))


def with_tissues(seed_drag: SeedDrag) -> None:
    """Track with tissues."""
    layer_data = tissue_layer_data(make_tissues(seed_drag.fod))
    seed_drag.session.choose("tissues", seed_drag.viewer._add_layer_from_data(*layer_data)[0])


KNOBS: dict[str, Callable[[SeedDrag], None]] = {
    "as it is": lambda _: None,
    f"min_probability {THRESHOLD:g}": with_threshold,
    **{
        f"{role}, {'painted' if painted else 'a sphere'}": partial(
            with_region, role=role, painted=painted
        )
        for role in RADII
        for painted in (False, True)
    },
    "mask": with_mask,
    "tissues": with_tissues,
}


def with_all(seed_drag: SeedDrag) -> None:
    """Set a threshold, add a painted include region and track with tissues."""
    with_threshold(seed_drag)
    with_region(seed_drag, "include", painted=True)
    with_tissues(seed_drag)


KNOBS["threshold, include, tissues"] = with_all


def knobs_table(
    fod: Fod,
    n_moves: int,
    n_streamlines: int,
    hz: float,
    *,
    defaults: bool = False,
    only: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    """Drag a seed with each knob; print a table as it grows and return what was measured."""
    rates = "one move at a time", f"{hz:g} moves a second"
    print(
        f"| | streamlines | points | {rates[0]}: median, ms | 95 %, ms | of processors, ms "
        f"| {rates[1]}: median, ms | 95 %, ms |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    found = {}
    for name, turn in KNOBS.items():
        if only and not any(text in name for text in only):
            continue
        found[name] = drag(fod, n_moves, n_streamlines, hz, defaults=defaults, turn=turn)
        one, live = (found[name][rate] for rate in rates)
        print(
            f"| {name} | {one['streamlines, median']:,} | {one['points, median']:,} "
            f"| {one['median, ms']:.0f} | {one['95 %, ms']:.0f} "
            f"| {one['processor time, median, ms']:.0f} "
            f"| {live['median, ms']:.0f} | {live['95 %, ms']:.0f} |",
            flush=True,
        )
    return found


def drag(
    fod: Fod,
    n_moves: int,
    n_streamlines: int,
    hz: float,
    *,
    defaults: bool = False,
    turn: Callable[[SeedDrag], None] = KNOBS["as it is"],
) -> dict[str, Any]:
    """Drag a seed both ways, with a knob turned; return what was measured."""
    seed_drag = SeedDrag(fod, n_moves, defaults=defaults)
    try:
        turn(seed_drag)
        parameters = seed_drag.session.parameters
        compile_kernel(parameters.algorithm, parameters.interpolation, lmax=fod.lmax)
        seed_drag.one_at_a_time(n_streamlines)  # tabulates, computes what is kept
        return {
            "fod": fod.name,
            "machine": f"{platform.machine()}, {os.cpu_count()} processors",
            "step, mm": parameters.step_mm,
            "cone angle, degrees": parameters.max_angle_deg,
            "one move at a time": seed_drag.one_at_a_time(n_streamlines).summary(),
            f"{hz:g} moves a second": seed_drag.at_a_rate(hz).summary(),
        }
    finally:
        seed_drag.close()


def first_drags(
    fod: Fod, n_moves: int, hz: float, *, defaults: bool = False
) -> dict[str, dict[str, float]]:
    """Drag a seed at a rate where nothing was tracked before, and where that was done ahead."""
    print("| | ahead, s | first streamlines, ms | 95 %, ms | streamlines |")
    print("|---|---:|---:|---:|---:|")
    found = {}
    for name, is_ahead in (("nothing tracked before", False), ("tracked ahead", True)):
        provide_table(fod, fod_table(fod).unfilled())
        seed_drag = SeedDrag(fod, n_moves, defaults=defaults)
        try:
            parameters = seed_drag.session.parameters
            compile_kernel(parameters.algorithm, parameters.interpolation, lmax=fod.lmax)
            begun = time.perf_counter()
            if is_ahead:
                track_ahead(fod, parameters)
            seconds = time.perf_counter() - begun if is_ahead else 0.0
            latencies = seed_drag.at_a_rate(hz)
        finally:
            seed_drag.close()
        row = found[name] = {
            "ahead, s": seconds,
            "first streamlines, ms": latencies.ms[0],
            "95 %, ms": float(np.quantile(latencies.ms, 0.95)),
            "streamlines": sum(latencies.shown),
        }
        times = f"{row['first streamlines, ms']:.0f} | {row['95 %, ms']:.0f}"
        print(f"| {name} | {seconds:.1f} | {times} | {row['streamlines']:,} |", flush=True)
    return found


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
    parser.add_argument("--fod", type=Path, help="FOD volume; the embedded phantom by default")
    parser.add_argument(
        "--brain", action="store_true", help="a whole brain, enlarged from --fod if given"
    )
    parser.add_argument(
        "--defaults", action="store_true", help="the parameters that the panel starts with"
    )
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--streamlines", type=int, default=1000, help="of a move (default 1000)")
    parser.add_argument("--hz", type=float, default=60.0, help="moves a second (default 60)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--knobs", nargs="*", metavar="TEXT", help="a table, a row each")
    parser.add_argument("--first", action="store_true", help="where nothing was tracked before")
    options = parser.parse_args()
    if options.brain:
        fod = make_brain(options.fod)
    else:
        fod = make_phantom("arcs") if options.fod is None else load_fod(options.fod)
    how = options.moves, options.streamlines, options.hz
    if options.knobs is not None:
        knobs_table(fod, *how, defaults=options.defaults, only=options.knobs)
        return 0
    if options.first:
        first_drags(fod, options.moves, options.hz, defaults=options.defaults)
        return 0
    result = drag(fod, *how, defaults=options.defaults)
    print(json.dumps(result)) if options.json else write(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
