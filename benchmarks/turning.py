"""How long a frame takes while the mouse turns six bundles in 3-D, and when it rests.

Run as::

    scripts/headless.sh python benchmarks/turning.py [--points N] [--frames N]

on a machine with nothing else to do. Six layers have N points together, as many streamlines of 300
points each as that takes, lit. "turned" is what is drawn while the button of the mouse is down, an
even part of them (plugin/streamlines/turning.py), "at rest" all of them, "empty" neither. A frame
is drawn and read back; the camera turns by five degrees before each.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from typing import Any

import napari
import numpy as np
from qtpy.QtWidgets import QApplication

import napari_tractography as nt
from napari_tractography.plugin.main_window import canvas_of, main_window
from napari_tractography.plugin.streamlines.layer import Streamlines
from napari_tractography.plugin.streamlines.turning import one_of

N_BUNDLES, LINE = 6, 300
STEP_MM, TURN_DEG = 0.4, 5.0


def bundle(number: int, n_lines: int) -> nt.Tractogram:
    """Return streamlines side by side, each of which wanders."""
    rng = np.random.default_rng(number)
    steps = rng.normal(size=(n_lines, LINE, 3)) * 0.3 + np.eye(3)[number % 3]
    points = rng.normal(size=(n_lines, 1, 3)) * 5 + STEP_MM * np.cumsum(steps, axis=1)
    points += (number - N_BUNDLES / 2) * np.roll([0.0, 12.0, 0.0], number)
    return nt.Tractogram(points.reshape(-1, 3), np.arange(n_lines + 1) * LINE)


def frame_ms(viewer: napari.Viewer, canvas: Any, n_frames: int) -> float:
    """Return the median of so many frames."""
    times = []
    for frame in range(n_frames + 2):  # the first have shaders and buffers to make
        elevation, turn = 20.0, TURN_DEG * frame
        viewer.scene.camera.angles = (turn, elevation, 90.0)
        QApplication.processEvents()
        begun = time.perf_counter()
        canvas.grabFramebuffer()
        times.append(time.perf_counter() - begun)
    return 1000 * float(np.median(times[2:]))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=10**6)
    parser.add_argument("--frames", type=int, default=20)
    options = parser.parse_args()
    viewer = napari.Viewer(show=True)
    viewer.window.resize(1440, 900)
    viewer.dims.ndisplay = 3
    canvas = canvas_of(main_window(viewer))
    n_lines = max(options.points // (N_BUNDLES * LINE), 1)
    layers = [Streamlines(bundle(number, n_lines)) for number in range(N_BUNDLES)]
    for layer in layers:
        viewer.add_layer(layer)
    viewer.reset_view()
    at_rest = frame_ms(viewer, canvas, options.frames)
    n_points = sum(len(layer.drawn_points) for layer in layers)
    every = one_of(n_points, layers)
    for layer in layers:
        layer.drawn_every = every
    turned = frame_ms(viewer, canvas, options.frames)
    for layer in layers:
        layer.visible = False
    empty = frame_ms(viewer, canvas, options.frames)
    size = f"{canvas.width()} x {canvas.height()} pixels"
    print(f"{platform.machine()}, {os.cpu_count()} processors, {size}, {n_points:,} points")
    print(f"one of {every} while turned; ms a frame, median of {options.frames}")
    print(f"{'at rest':>8} {at_rest:8.0f}\n{'turned':>8} {turned:8.0f}\n{'empty':>8} {empty:8.0f}")
    viewer.close()


if __name__ == "__main__":
    main()
