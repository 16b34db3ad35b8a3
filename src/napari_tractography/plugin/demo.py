"""The demonstration: napari with the plugin docked, seeds placed and streamlines tracked.

Called by ``napari-tractography demo``. On a screen the window stays open; with an output folder
it writes a screenshot and the streamlines, prints a summary and ends.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import napari
import numpy as np
from napari.layers import Layer
from napari.qt import get_qapp
from numpy.typing import NDArray
from qtpy.QtWidgets import QApplication

from ..errors import BackendError, FileError
from ..files.fods import fod_reader, load_fod
from ..geometry.grid import Grid
from ..model.fod import Fod
from ..model.phantoms import make_phantom, phantom_seeds_mm
from .export.screenshots import save_screenshot
from .layers.volume_layers import fod_grid_of, fod_layer_data, open_fod
from .panel.panel import TractographyPanel

PHANTOM = "arcs"
N_SEEDS = 40  # positions in an FOD of the user's
N_STREAMLINES = 6000  # in all
WINDOW = (1400, 860)
TIMEOUT_SECONDS = 600
SETTLE_ROUNDS = 25  # of events, for the layout and the last frame: one may take long to draw
SETTLE_SECONDS = 0.02  # between them
SEED_FRACTION = 0.5  # of a seed's usual size: there are many
VOLUME_OPACITY = 0.25  # a hint of the volume behind the streamlines
THIN_VOXELS = 8  # a volume with fewer slices is shown from above
DIRECTED_QUANTILE = 0.85  # seeds lie in the voxels above it


def run_demo(fod_path: str | None, output: Path | None) -> int:
    """Show an FOD, or without one the embedded phantom; return the exit code.

    With a folder for them ``demo.png`` and ``demo.trk`` are written; without it the window stays
    open. Raises TractographyError when the FOD cannot be used or the results cannot be written.
    """
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{output} cannot be made a folder ({error.strerror}).") from None
    if fod_path is not None:
        fod_reader(fod_path)  # no window for what is no FOD
    get_qapp()  # files are opened in the background where there is an event loop
    if fod_path is None:
        volume = fod_layer_data(make_phantom(PHANTOM))
    else:
        volume = open_fod(fod_path) if output is None else fod_layer_data(load_fod(fod_path))
    viewer = napari.Viewer(title="Tractography", show=True)
    viewer.window.resize(*WINDOW)
    viewer.add_layer(Layer.create(*volume))
    panel = TractographyPanel(viewer, remember=False)  # what it sets was not chosen by a person
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    panel.scene.slices.box.setChecked(False)  # they would hide half of the streamlines
    show_in_3d(viewer)
    panel.runs.finished.connect(lambda _run: fit_view(viewer, panel))
    opening = panel.session.opening
    if opening is None:
        place_and_track(panel)
    else:
        opening.ended.connect(lambda _opening: place_and_track(panel))
    if output is None:
        napari.run()
        return 0
    try:
        return _write(viewer, panel, output)
    finally:
        viewer.close()


def place_and_track(panel: TractographyPanel) -> None:
    """Place seeds in the FOD that is chosen, set what suits it, and track."""
    fod = panel.session.fod
    if fod is None:  # it could not be read, or the person has closed it
        return
    if fod.name == PHANTOM:
        seeds_mm = np.asarray(phantom_seeds_mm(PHANTOM), dtype=np.float32)
        radius_mm = 4.0
    else:
        seeds_mm = spread_seeds_mm(fod, N_SEEDS)
        radius_mm = round(float(fod.grid.voxel_sizes_mm.max()), 1)
    panel.set_parameters(radius_mm=radius_mm, n_per_seed=N_STREAMLINES // len(seeds_mm))
    panel.session.add_seeds_mm(seeds_mm)
    seeds = panel.session.seeds.ensure_layer()
    seeds.size = SEED_FRACTION * np.asarray(seeds.size)
    panel.runs.start()


def spread_seeds_mm(fod: Fod, n: int) -> NDArray[np.float32]:
    """Return (n, 3) RAS+ mm seeds spread over the voxels whose FODs are the most directed.

    In a brain they lie between the hemispheres, where corpus callosum and brainstem are; in a
    thin volume everywhere. Each next one is the farthest from those chosen before.
    """
    positions = fod.grid.to_mm(np.argwhere(fod.support))
    directed = np.linalg.norm(fod.values[:, 1:], axis=1)  # all but l = 0
    if not is_thin(fod.grid):
        middle = np.abs(positions[:, 0] - positions[:, 0].mean()) < fod.grid.voxel_sizes_mm.max()
        positions, directed = positions[middle], directed[middle]
    positions = positions[directed >= np.quantile(directed, DIRECTED_QUANTILE)]
    chosen = [0]
    distance = np.linalg.norm(positions - positions[0], axis=1)
    for _ in range(min(n, len(positions)) - 1):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(positions - positions[chosen[-1]], axis=1))
    return np.asarray(positions[chosen], dtype=np.float32)


def is_thin(grid: Grid) -> bool:
    """Return whether a volume has too few slices to be looked at from the side."""
    return min(grid.shape) <= THIN_VOXELS


def show_in_3d(viewer: Any) -> None:
    """Turn to 3-D; a thin volume is seen from above, others from the front left."""
    volume = viewer.layers[0]
    viewer.dims.ndisplay = 3
    volume.opacity = VOLUME_OPACITY
    viewer.reset_view()
    grid = fod_grid_of(volume)
    if grid is not None and not is_thin(grid):
        # From the front, the left and above; more from the left at what a brain has between its
        # hemispheres.
        view = (-0.6, -0.75, 0.4) if volume.name == PHANTOM else (-0.3, -0.35, 0.9)
        viewer.scene.camera.set_view_direction(view, (1.0, 0.0, 0.0))


def fit_view(viewer: Any, panel: TractographyPanel) -> None:
    """Fit the view to the streamlines."""
    layer = panel.session.streamlines_layer
    if layer is not None:
        viewer.fit_to_view(layers=[layer], margin=0.0)


def _write(viewer: Any, panel: TractographyPanel, output: Path) -> int:
    """Wait for the run, write picture and streamlines, print what was done."""
    application = QApplication.instance()
    assert application is not None
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while panel.runs.current is not None:
        application.processEvents()
        time.sleep(0.01)
        if time.monotonic() > deadline:
            raise BackendError(
                f"Tracking did not end within {TIMEOUT_SECONDS} s; try a smaller FOD."
            )
    tractogram = panel.session.tractogram
    if tractogram is None or not len(tractogram):
        raise BackendError(panel.results.label.text())
    for _ in range(SETTLE_ROUNDS):
        application.processEvents()
        time.sleep(SETTLE_SECONDS)
    picture, streamlines = output / "demo.png", output / "demo.trk"
    save_screenshot(viewer, picture, canvas_only=False)
    tractogram.save(streamlines, reference=panel.session.fod)
    print(tractogram.summary())
    print(panel.session.tracking.summary())
    print(panel.session.speed())
    print(f"picture      {picture}\nstreamlines  {streamlines}")
    return 0
