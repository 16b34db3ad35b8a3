"""From bundle to bundle: how long a window takes to show another one's seeds, regions and settings.

Run as::

    scripts/headless.sh python benchmarks/switching.py [--bundles N ...] [--switches N] [--json]

on a machine with nothing else to do. Each bundle has a seed, a sphere of its own size, in every
other one of another role, and streamlines, in all those of one run; another row of the list is
selected, as by a click, first in order and then back. "switched" is until that call returns, when
layers and panel are those of the other bundle, on the clock and of a processor; "handled" is until
the window has done all that follows, the frame among it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import time
from typing import Any

import napari
import numpy as np
from qtpy.QtWidgets import QApplication

from napari_tractography.model.phantoms import make_phantom, phantom_seeds_mm
from napari_tractography.plugin.document import PlacedSeeds, RegionState
from napari_tractography.plugin.layers.volume_layers import fod_layer_data
from napari_tractography.plugin.panel.panel import TractographyPanel

N_STREAMLINES = 100  # of each bundle
WARM_UP = 2


def open_window(n_bundles: int) -> tuple[napari.Viewer, TractographyPanel]:
    """Open a window with so many bundles, each with a seed and a sphere of its own."""
    viewer = napari.Viewer(show=True)
    fod = make_phantom("cross", lmax=6)
    viewer._add_layer_from_data(*fod_layer_data(fod))
    panel = TractographyPanel(viewer, remember=False)
    viewer.window.add_dock_widget(panel, area="right")
    panel.set_parameters(n_per_seed=N_STREAMLINES)
    seeds = np.asarray(phantom_seeds_mm("cross"))
    panel.session.add_seeds_mm(seeds[:1])
    panel.run()
    while panel.runs.is_busy:
        QApplication.processEvents()
    tracked, new_id = panel.session.state, panel.session.document.new_id
    states = []
    for number, shift in enumerate(np.random.default_rng(0).normal(size=(n_bundles, 3))):
        seed, sphere = seeds[number % len(seeds)] + shift, np.array([[*shift, 5 + shift[0]]])
        role = ("include", "exclude")[number % 2]
        region = RegionState(new_id(), f"Sphere {number}", role, spheres=sphere)
        states.append(
            dataclasses.replace(
                tracked,
                name=f"Bundle {number}",
                seeds=PlacedSeeds(seed[None], tracked.seeds.own),
                regions=(region,),
            )
        )
    panel.bundles.replace_all(states)
    QApplication.processEvents()
    return viewer, panel


def switch(panel: TractographyPanel, n_switches: int) -> dict[str, float]:
    """Select one row after the other; return what it takes, in ms."""
    n_bundles = panel.bundle_list.table.rowCount()
    there_and_back = [*range(n_bundles), *range(n_bundles - 2, 0, -1)]
    times = []
    for number in range(n_switches + WARM_UP):
        begun, processor = time.perf_counter(), time.process_time()
        panel.bundle_list.activate(there_and_back[number % len(there_and_back)])
        switched, used = time.perf_counter(), time.process_time() - processor
        QApplication.processEvents()
        times.append((switched - begun, used, time.perf_counter() - begun))
    ms = 1000 * np.array(times[WARM_UP:])
    return {
        f"{what}, {name}, ms": round(float(value), 1)
        for what, column in zip(("switched", "of a processor", "handled"), ms.T, strict=True)
        for name, value in (("median", np.median(column)), ("95 %", np.quantile(column, 0.95)))
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundles", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--switches", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} processors"}
    for n_bundles in options.bundles:
        viewer, panel = open_window(n_bundles)
        result[f"{n_bundles} bundles"] = switch(panel, options.switches)
        panel.close_session()
        viewer.close()
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"\n{name}")
            for what, number in value.items():
                print(f"  {what:<28}{number}")
        else:
            print(f"{name:<28}{value}")


if __name__ == "__main__":
    main()
