"""The streamlines layer against napari's own Tracks: time and memory for a million vertices.

Run it with a display (or under ``xvfb-run -a``)::

    python benchmarks/layer.py [--vertices N] [--repeats N] [--json PATH]

Both layers get the same streamlines, in the same process and window. "build" makes the layer
and adds it to the viewer, "refill" replaces what a layer in the viewer shows; both run until
the buffers are handed to the graphics library, without the drawing itself, which is the same
for both. Memory is what NumPy holds for the layer and its visual beyond the points, per vertex.

"frame" is one picture of the streamlines in 3-D, drawn and read back, with light and without, in
turns; processor time beside the clock, as software OpenGL draws with several threads.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari
import numpy as np

from napari_tractography import Tractogram
from napari_tractography.plugin.streamlines.layer import Streamlines

N_POINTS = 100  # a streamline


def random_walks(n_vertices: int, seed: int) -> Tractogram:
    """Return smooth random streamlines of 100 points inside a positive 200 mm box."""
    rng = np.random.default_rng(seed)
    n = max(n_vertices // N_POINTS, 1)
    turns = rng.normal(scale=0.1, size=(n, N_POINTS, 3)).cumsum(axis=1)
    steps = rng.normal(size=(n, 1, 3)) + turns
    steps /= np.linalg.norm(steps, axis=2, keepdims=True)
    points = 100 + rng.uniform(-50, 50, (n, 1, 3)) + steps.cumsum(axis=1) * 0.5
    offsets = np.arange(n + 1) * N_POINTS
    return Tractogram(np.clip(points, 0, 200).reshape(-1, 3), offsets)


def tracks_data(tractogram: Tractogram) -> np.ndarray:
    """Return the (n_points, 5) array that napari's Tracks needs to keep the order of points.

    The second column counts the points of a streamline, as time.
    """
    counts = np.diff(tractogram.offsets)
    data = np.empty((tractogram.n_points, 5))
    data[:, 0] = np.repeat(np.arange(tractogram.n_streamlines), counts)
    data[:, 1] = np.arange(tractogram.n_points) - np.repeat(tractogram.offsets[:-1], counts)
    data[:, 2:] = tractogram.points[:, ::-1]
    return data


def upload(viewer: Any, layer: Any) -> None:
    """Hand the vertices of a layer to the graphics library, as the next frame would."""
    visual = viewer.window._qt_viewer.canvas.layer_to_visual[layer]
    line = visual.node._subvisuals[0]._line_visual
    line._prepare_draw(line)


def build_and_refill(viewer: Any, make: Callable[[int], Any], fill: Any) -> tuple[float, float]:
    """Return the seconds of one build and one refill."""
    start = time.perf_counter()
    layer = viewer.add_layer(make(0)) or viewer.layers[-1]
    upload(viewer, layer)
    built = time.perf_counter()
    fill(layer)
    upload(viewer, layer)
    filled = time.perf_counter()
    viewer.layers.clear()
    gc.collect()
    return built - start, filled - built


def bytes_per_vertex(viewer: Any, make: Callable[[int], Any], n_vertices: int) -> float:
    """Return what making and showing a layer leaves allocated, per vertex."""
    gc.collect()
    tracemalloc.start()
    layer = viewer.add_layer(make(0)) or viewer.layers[-1]
    viewer.screenshot(flash=False)  # a frame is drawn: the buffers on their way are released
    del layer
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    viewer.layers.clear()
    gc.collect()
    return held / n_vertices


def frames(viewer: Any, layer: Streamlines, repeats: int) -> dict[str, tuple[float, float]]:
    """Return {"lit", "plain": the median seconds of a frame, by the clock and of processors}."""
    native = viewer.window._qt_viewer.canvas.native
    spent: dict[str, list[tuple[float, float]]] = {"lit": [], "plain": []}
    for number in range(2 * (repeats + 1)):
        name = "lit" if number % 2 else "plain"
        layer.lit = name == "lit"
        native.grabFramebuffer()  # shaders are compiled, buffers uploaded
        clock, processor = time.perf_counter(), time.process_time()
        native.grabFramebuffer()
        if number >= 2:  # the first of each warms up
            spent[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return {
        name: (statistics.median(s[0] for s in each), statistics.median(s[1] for s in each))
        for name, each in spent.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vertices", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()

    tractograms = [random_walks(args.vertices, seed) for seed in (0, 1)]
    arrays = [tracks_data(t) for t in tractograms]
    n = tractograms[0].n_points
    viewer = napari.Viewer(show=True)
    viewer.dims.ndisplay = 3

    def fill_ours(layer: Any) -> None:
        layer.tractogram = tractograms[1]

    def fill_theirs(layer: Any) -> None:
        layer.data = arrays[1]

    kinds: dict[str, tuple[Callable[[int], Any], Callable[[Any], None]]] = {
        "Streamlines": (lambda i: Streamlines(tractograms[i]), fill_ours),
        "napari Tracks": (lambda i: napari.layers.Tracks(arrays[i]), fill_theirs),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for _ in range(args.repeats):
        for name, (make, fill) in kinds.items():
            seconds[name].append(build_and_refill(viewer, make, fill))
    memory = {name: bytes_per_vertex(viewer, make, n) for name, (make, _) in kinds.items()}
    layer = Streamlines(tractograms[0])
    viewer.add_layer(layer)
    viewer.fit_to_view()
    frame = frames(viewer, layer, args.repeats)
    viewer.close()

    build = {name: statistics.median(s[0] for s in values) for name, values in seconds.items()}
    refill = {name: statistics.median(s[1] for s in values) for name, values in seconds.items()}
    print(f"{n:,} vertices, median of {args.repeats}, napari {napari.__version__}")
    print(f"{'':>14} {'build':>10} {'refill':>10} {'memory':>12}")
    for name in kinds:
        print(f"{name:>14} {build[name]:>8.3f} s {refill[name]:>8.3f} s {memory[name]:>8.1f} B/v")
    ours, theirs = kinds
    ratio = build[theirs] / build[ours], refill[theirs] / refill[ours]
    print(f"{'ratio':>14} {ratio[0]:>8.1f} x {ratio[1]:>8.1f} x")
    for name, (clock, processor) in frame.items():
        print(f"{name + ' frame':>14} {clock:>8.3f} s {processor:>8.3f} s of processors")
    lit, plain = frame["lit"], frame["plain"]
    print(f"{'ratio':>14} {lit[0] / plain[0]:>8.2f} x {lit[1] / plain[1]:>8.2f} x")
    if args.json:
        figures = {
            "n_vertices": n,
            "build_s": build,
            "refill_s": refill,
            "bytes_per_vertex": memory,
            "build_ratio": ratio[0],
            "refill_ratio": ratio[1],
            "frame_s": {name: clock for name, (clock, _) in frame.items()},
            "frame_processor_s": {name: processor for name, (_, processor) in frame.items()},
        }
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
