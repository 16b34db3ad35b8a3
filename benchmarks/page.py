"""How quick an interactive page is in a browser: to open, to turn, and while a seed is dragged.

Run as::

    python benchmarks/page.py [--fod FOD] [--streamlines N] [--opened N] [--moves N]
        [--graphics-card] [--keep FOLDER]

on a machine with nothing else to do, where there is Chromium. Two pages are made of the whole
brain of brain_volume.py, or of an FOD: one of six bundles of N streamlines and a volume of 1 mm,
the other of one bundle whose seeds are dragged. Chromium opens them without a screen and without a
network, and is driven by its devtools:

- opened: from the beginning of the navigation to the first picture with streamlines, and to that
  with all there is;
- turned: frames while a pointer turns the view, once a frame;
- dragged: from a move of the seeds to the frame with the first streamlines of that place. After one
  move the next follows when all is tracked; or 60 moves a second follow each other, of which those
  that are overtaken give no frame.

A frame counts once a pixel of it can be read. Without a graphics card Chromium draws by software,
which takes longer than all else: then what is drawn is left out of the figures but for "turned".
``--graphics-card`` takes the card there is, and draws.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

import napari_tractography as nt
from brain_volume import make_brain
from napari_tractography.files.fods import load_fod
from napari_tractography.geometry.grid import Grid
from napari_tractography.pages.live import live_of
from napari_tractography.pages.page import PageBundle, PageVolume, save_page
from napari_tractography.tracking.inputs import TrackingInput

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "pages"))

from browser import BY_SOFTWARE, Browser, why_none  # noqa: E402

SIZE = 1280, 800
COLOURS = "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "direction"
RADIUS_MM, MIN_LENGTH_MM = 4.0, 20.0
N_LIVE = 1000
NOISE = 0.02  # of the largest value of the volume: standard deviation
TURNED_S, WARM_UP_S, DRAGGED_HZ = 6.0, 2.0, 60
RATE = f"{DRAGGED_HZ} moves a second"
MEGABYTE = 10**6

# Before the scripts of a page: when frames with streamlines are there, and when requests are sent
# to the worker that tracks, and answered.
WATCH = """
const seen = window.seen = { first: 0, all: 0, frames: [] };
for (const what of ["sent", "answered", "drawn", "done"]) seen[what] = {};
{
  const gl = WebGL2RenderingContext.prototype, { drawArrays, texSubImage2D } = gl;
  let waiting = false, answered = 0, isNew = false;
  const { port1, port2 } = new MessageChannel();
  const now = () => performance.now();
  let context = null;
  port2.onmessage = () => {
    waiting = false;
    context.readPixels(0, 0, 1, 1, context.RGBA, context.UNSIGNED_BYTE, new Uint8Array(4));
    const time = now();
    seen.first ||= time;
    if (document.documentElement.dataset.state) seen.all ||= time;
    seen.frames.push(time);
    if (isNew) seen.drawn[answered] ??= time;
    isNew = false;
  };
  gl.drawArrays = function (...rest) {
    context = this;
    if (!waiting) port1.postMessage(0);
    waiting = true;
    if (DRAWS) drawArrays.apply(this, rest);
  };
  for (const name of ["texSubImage2D", "texImage2D"]) {
    const before = gl[name];
    gl[name] = function (...rest) {
      if (rest.includes(this.RGBA_INTEGER)) isNew = answered > 0;
      return before.apply(this, rest);
    };
  }
  const Before = Worker;
  window.Worker = class extends Before {
    constructor(...rest) {
      super(...rest);
      this.addEventListener("message", ({ data }) => {
        if (data.texels) seen.answered[(answered = data.id)] ??= now();
        const { isDone, id, n_points, n_lines } = data;
        if (isDone) seen.done[id] = { time: now(), n_points, n_lines };
      });
    }
    postMessage(data, ...rest) {
      if (data.id) seen.sent[data.id] = now();
      super.postMessage(data, ...rest);
    }
  };
}
"""
CARD = """
(() => {
  const gl = document.createElement("canvas").getContext("webgl2");
  return gl.getParameter(gl.getExtension("WEBGL_debug_renderer_info").UNMASKED_RENDERER_WEBGL);
})()
"""
TURN = """
new Promise((resolve) => {
  const canvas = document.getElementById("canvas"), until = performance.now() + 1000 * SECONDS;
  canvas.setPointerCapture = () => {};
  const event = (name, x) => canvas.dispatchEvent(
    new PointerEvent(name, { pointerId: 1, clientX: x, clientY: 300, buttons: 1 }));
  let x = 300;
  event("pointerdown", x);
  const next = () => {
    event("pointermove", (x += 3));
    if (performance.now() < until) requestAnimationFrame(next);
    else { event("pointerup", x); resolve(); }
  };
  seen.frames.length = 0;
  next();
})
"""
DRAG = """
(async () => {
  const ring = document.getElementById("seed");
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  ring.setPointerCapture = () => {};
  const event = (name, x) => ring.dispatchEvent(new PointerEvent(name, { clientX: x, clientY: 0 }));
  const last = () => Math.max(...Object.keys(seen.sent).map(Number));
  const answered = async () => {
    while (!seen.done[last()] || !seen.drawn[last()]) await pause(5);
  };
  let x = 0;
  event("pointerdown", x);
  for (let move = 0; move < MOVES; move++) {
    event("pointermove", (x += move % 20 < 10 ? 2 : -2));
    await (PERIOD ? pause(PERIOD) : answered());
  }
  event("pointerup", x);
  await answered();
})()
"""


def volume_of(fod: nt.Fod) -> PageVolume:
    """Return a volume of 1 mm: how much FOD there is, with noise."""
    coarse = np.asarray(fod.coefficients[..., 0], np.float32)
    zooms = fod.grid.voxel_sizes_mm
    fine = ndimage.zoom(coarse, zooms, order=1, mode="grid-constant", grid_mode=True)
    rng = np.random.default_rng(0)
    fine += (fine > 0) * rng.normal(0, NOISE * fine.max(), fine.shape)
    return PageVolume("Volume", fine, Grid(fine.shape, fod.grid.affine @ np.diag([*1 / zooms, 1])))


def write_pages(folder: Path, fod: nt.Fod, n_streamlines: int) -> tuple[Path, Path, dict[str, Any]]:
    """Write both pages; return their paths, and how large they are."""
    mask = fod.coefficients[..., 0] > 0.5 * fod.coefficients[..., 0].max()
    middles = nt.Seeds.in_mask(mask, fod.grid, len(COLOURS)).positions_mm
    parameters = nt.TrackingParameters.for_fod(fod, min_length_mm=MIN_LENGTH_MM, record_every=3)
    bundles, found = [], {}
    for number, (middle, colour) in enumerate(zip(middles, COLOURS, strict=True), 1):
        seeds = nt.Seeds.in_sphere(middle, RADIUS_MM, 2 * n_streamlines)
        lines = nt.track(fod, seeds, parameters, select=n_streamlines)
        bundles.append(PageBundle(f"Bundle {number}", lines, colour))
    still, live = folder / "bundles.html", folder / "live.html"
    found["bundles, MB"] = save_page(still, bundles, volume=volume_of(fod)) / MEGABYTE
    found["streamlines"] = sum(len(each.tractogram) for each in bundles)
    found["points"] = sum(each.tractogram.n_points for each in bundles)
    seeds = nt.Seeds.in_sphere(middles[0], RADIUS_MM, N_LIVE)
    inputs = TrackingInput(fod, seeds, nt.TrackingParameters.for_fod(fod))
    lines = nt.track(fod, seeds, inputs.parameters)
    dragged = PageBundle("Bundle", lines, digest=lines.digest())
    found["live, MB"] = (
        save_page(live, [dragged], live=("Bundle", live_of(inputs, lines))) / MEGABYTE
    )
    return still, live, found


def at_rest(browser: Browser, page: Path, watch: str) -> None:
    """Open a page, and wait until all is drawn."""
    assert browser.open(page, before=watch) == "ready", browser.text("status")
    while not browser.evaluate("seen.all"):
        time.sleep(0.05)


def opened(browser: Browser, page: Path, watch: str, times: int) -> dict[str, Any]:
    """Open a page so many times."""
    found = []
    for _ in range(times):
        at_rest(browser, page, watch)
        found.append(browser.evaluate("[seen.first, seen.all]"))
    first, whole = np.array(found).T
    return {"first picture": spread(first), "all there is": spread(whole)}


def turned(browser: Browser, page: Path, watch: str) -> dict[str, Any]:
    """Turn the view of a page."""
    at_rest(browser, page, watch)
    browser.evaluate(TURN.replace("SECONDS", str(TURNED_S)))
    ms = np.array(browser.evaluate("seen.frames"))
    between = np.diff(ms[ms > ms[0] + 1000 * WARM_UP_S])  # it learns how much it can draw
    return {"frames a second": float(1000 / between.mean()), "between frames": spread(between)}


def dragged(browser: Browser, page: Path, watch: str, n_moves: int) -> dict[str, Any]:
    """Drag the seeds of a page."""
    found: dict[str, Any] = {}
    for name, period_ms in (("one move at a time", 0), (RATE, 1000 / DRAGGED_HZ)):
        at_rest(browser, page, watch)
        while "digest" not in browser.text("live-told"):
            time.sleep(0.05)
        assert "the same as the recipe's" in browser.text("live-told")
        own = browser.evaluate("({ ...seen.done[1], sent: seen.sent[1] })")
        steps_a_ms = (own["n_points"] - own["n_lines"]) / (own["time"] - own["sent"])
        found["steps a second, of the recipe"] = round(1000 * steps_a_ms)
        browser.evaluate(DRAG.replace("MOVES", str(n_moves)).replace("PERIOD", str(period_ms)))
        seen = browser.evaluate("seen")
        for what in ("answered", "drawn"):
            ms = np.array([seen[what][each] - seen["sent"][each] for each in seen[what]])
            found[f"{name}, {what}"] = spread(ms)
        found[f"{name}: drawn, of {n_moves}"] = len(ms)
    return found


def spread(ms: NDArray[np.float64]) -> str:
    """Return the median and what 95 % stay below."""
    return f"median {np.median(ms):.0f} ms, 95 % {np.quantile(ms, 0.95):.0f} ms"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fod", type=Path)
    parser.add_argument("--streamlines", type=int, default=5000, help="of each bundle")
    parser.add_argument("--opened", type=int, default=7, help="how many times")
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--graphics-card", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder for the pages, to look at")
    options = parser.parse_args()
    if why_none():
        sys.exit(why_none())
    fod = load_fod(options.fod) if options.fod else make_brain()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        still, live, found = write_pages(folder, fod, options.streamlines)
        graphics = ("--enable-gpu",) if options.graphics_card else BY_SOFTWARE
        watch = WATCH.replace("DRAWS", str(int(options.graphics_card)))
        opening = Browser(Path(scratch) / "browser", size=SIZE, graphics=graphics)
        with contextlib.closing(opening) as browser:
            found["opened"] = opened(browser, still, watch, options.opened)
            found["drawn by"] = browser.evaluate(CARD)
            found["browser"] = browser.evaluate("navigator.userAgent")
            found["turned"] = turned(browser, still, WATCH.replace("DRAWS", "1"))
            found["dragged"] = dragged(browser, live, watch, options.moves)
    print(f"{platform.machine()}, {os.cpu_count()} processors")
    for name, value in found.items():
        for part, figure in value.items() if isinstance(value, dict) else [("", value)]:
            told = f"{figure:,.1f}" if isinstance(figure, float) else figure
            print(f"{name}{', ' * bool(part)}{part}: {told}")


if __name__ == "__main__":
    main()
