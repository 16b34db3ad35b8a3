"""Make docs/images/drag.gif: a seed dragged through a brain with Live on, as a person does.

``make pictures`` runs it on a virtual screen. It needs the FOD template of a brain in
``../shared/data/brain`` (or ``--brain FOD``). Each frame is the canvas once the preview of its
place is there: the film shows what is tracked, not how fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import napari
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from qtpy.QtTest import QTest

import napari_tractography as nt
from napari_tractography.maps.direction_colours import direction_colours
from napari_tractography.plugin.export.screenshots import canvas_picture
from napari_tractography.plugin.layers.planes import SlicePlanes
from napari_tractography.plugin.panel.panel import TractographyPanel
from napari_tractography.plugin.space.views import orient
from pictures.canvas import MARGIN, add_volume, drawn_box, show_docks

ROOT = Path(__file__).resolve().parent.parent
FILM = ROOT / "docs" / "images" / "drag.gif"
BRAIN = ROOT.parent / "shared" / "data" / "brain" / "fod_template.mif.gz"
SIZE = (720, 540)
WIDTH = 600  # pixels of the film
SECONDS_A_FRAME = 0.12
COLOURS = 160
LARGEST = 3_000_000  # bytes
# Where the hand goes, RAS+ mm, on the left: from the midline outwards, to the front, and back.
WAY_MM = ((-6, 2, 24), (-22, -6, 24), (-34, -12, 22), (-32, 4, 4), (-18, 26, 4))
N_FRAMES = 44
RADIUS_MM = 5.0
N_STREAMLINES = 600
SLICES_ZYX_MM = (-22.0, -32.0, 2.0)
ZOOM = 1.75
WAIT_MS = 15
SETTLE_MS = 400
VIEW = (-0.35, -0.45, 0.85)  # where the eye looks, (z, y, x): from the left, the front and above


def places_mm() -> NDArray[np.float64]:
    """Return (n, 3) RAS+ mm along the way, closed, slower at its corners."""
    corners = np.array([*WAY_MM, WAY_MM[0]], dtype=np.float64)
    t = np.linspace(0, len(WAY_MM), N_FRAMES, endpoint=False)
    k = t.astype(int)
    eased = 0.5 - 0.5 * np.cos(np.pi * (t - k))
    return np.asarray(corners[k] + eased[:, None] * (corners[k + 1] - corners[k]))


def wait_for(panel: TractographyPanel) -> None:
    """Wait until what is tracked is shown."""
    while panel.runs.is_busy:
        QTest.qWait(WAIT_MS)
    QTest.qWait(WAIT_MS)


def film(fod: nt.Fod) -> list[NDArray[np.uint8]]:
    """Return the frames, (height, width, 3) uint8."""
    viewer: Any = napari.Viewer(show=True)
    try:
        viewer.theme = "dark"
        viewer.window.resize(*SIZE)
        show_docks(viewer, False)
        panel = TractographyPanel(viewer, remember=False)
        dock = viewer.window.add_dock_widget(panel, name="Tractography", area="right")
        dock.setVisible(False)
        set_up(viewer, panel, fod)
        frames = []
        for place in places_mm():
            panel.session.move_seed(0, panel.session.space.to_display(place[None])[0])
            wait_for(panel)
            frames.append(canvas_picture(viewer)[..., :3])
        panel.close_session()
        return frames
    finally:
        viewer.close()


def set_up(viewer: Any, panel: TractographyPanel, fod: nt.Fod) -> None:
    """Show three slices of the FOD, and a seed with its streamlines."""
    layer = add_volume(viewer, fod)
    space = panel.session.space
    colours = (255 * direction_colours(fod)).astype(np.uint8)
    planes = viewer.add_image(
        np.ascontiguousarray(space.volume(colours)), rgb=True, name="FOD directions",
        **space.layer_kwargs,
    )  # fmt: skip
    panel.set_parameters(
        n_per_seed=N_STREAMLINES, radius_mm=RADIUS_MM, algorithm="deterministic",
        max_angle_deg=25.0, min_length_mm=25.0, max_length_mm=160.0,
    )  # fmt: skip
    panel.session.add_seeds_mm(np.array(WAY_MM[:1], dtype=np.float64))
    panel.run()
    wait_for(panel)
    orient(viewer)
    viewer.dims.point = SLICES_ZYX_MM
    SlicePlanes(viewer, planes)
    layer.visible = False
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    viewer.scene.camera.set_view_direction(VIEW, (1.0, 0.0, 0.0))
    viewer.scene.camera.zoom *= ZOOM
    panel.session.streamlines_layer.width = 1.4
    panel.live.setChecked(True)
    QTest.qWait(SETTLE_MS)


def write(frames: Sequence[NDArray[np.uint8]], path: Path) -> None:
    """Write frames as one GIF with one palette, so that little changes between them."""
    (top, bottom), (left, right) = drawn_box(np.max(frames, axis=0))
    seen = np.s_[max(top - MARGIN, 0) : bottom + MARGIN, max(left - MARGIN, 0) : right + MARGIN]
    images = [Image.fromarray(np.ascontiguousarray(frame[seen])) for frame in frames]
    height = round(WIDTH * images[0].height / images[0].width)
    images = [image.resize((WIDTH, height), Image.Resampling.LANCZOS) for image in images]
    looked_at = images[::4]
    strip = Image.new("RGB", (WIDTH, height * len(looked_at)))
    for k, image in enumerate(looked_at):
        strip.paste(image, (0, k * height))
    palette = strip.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
    shown = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    shown[0].save(
        path, save_all=True, append_images=shown[1:], loop=0, optimize=True,
        duration=round(1000 * SECONDS_A_FRAME),
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the film; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brain", type=Path, default=BRAIN, metavar="FOD")
    options = parser.parse_args(arguments)
    if not options.brain.exists():
        print(f"{FILM.name}: left as it is, {options.brain} does not exist")
        return 0
    FILM.parent.mkdir(parents=True, exist_ok=True)
    write(film(nt.load_fod(options.brain)), FILM)
    n_bytes = FILM.stat().st_size
    print(f"{FILM.relative_to(ROOT)}: {n_bytes / 1e6:.1f} MB")
    return 0 if n_bytes <= LARGEST else 1


if __name__ == "__main__":
    sys.exit(main())
