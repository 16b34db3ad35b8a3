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
from numpy.typing import NDArray
from qtpy.QtWidgets import QApplication

from ..directions import direction_set
from ..errors import BackendError, FileError
from ..files.fods import load_fod
from ..fod import Fod
from ..phantoms import make_phantom, phantom_seeds_mm
from .export.screenshots import save_screenshot
from .layers.volumes import fod_layer_data
from .panel.panel import TractographyPanel

PHANTOM = "arcs"
PHANTOM_RADIUS_MM = 4.0
N_SEEDS = 40  # places in an FOD of the user's
N_STREAMLINES = 6000  # in all
WINDOW = (1400, 860)
TIMEOUT_SECONDS = 600
SETTLE_SECONDS = 0.5  # for the last frame to be drawn
SEED_FRACTION = 0.5  # of a seed's usual size: there are many
VOLUME_OPACITY = 0.25  # a hint of the volume behind the streamlines
THIN_VOXELS = 8  # a volume with fewer slices is shown from above
# Where the eye looks, axes (z, y, x): from the front, the left and above; more from the left at
# what a brain has between its hemispheres.
PHANTOM_VIEW = (-0.6, -0.75, 0.4)
BRAIN_VIEW = (-0.3, -0.35, 0.9)
# For an FOD of the user's, in proportion to its voxels and its amplitudes.
STEP_VOXELS = 0.25
FLOOR_FRACTION = 0.1
STRONG_QUANTILE = 0.95
DIRECTED_QUANTILE = 0.85
MAX_LENGTH_MM = 36.0


def run_demo(fod_path: str | None, output: Path | None) -> int:
    """Show the demonstration; return the exit code.

    Parameters
    ----------
    fod_path : str, optional
        FOD volume to show instead of the embedded phantom.
    output : Path, optional
        Folder for ``demo.png`` and ``demo.trk``; without it the window stays open.

    Raises
    ------
    TractographyError
        When the FOD cannot be used or the results cannot be written.
    """
    fod = make_phantom(PHANTOM) if fod_path is None else load_fod(fod_path)
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{output} cannot be made a folder ({error.strerror}).") from None
    viewer = napari.Viewer(title="Tractography", show=True)
    viewer.window.resize(*WINDOW)
    viewer.add_layer(Layer.create(*fod_layer_data(fod)))
    panel = TractographyPanel(viewer, remember=False)  # what it sets is nobody's choice
    viewer.window.add_dock_widget(panel, name="Tractography", area="right")
    if fod_path is None:
        seeds_mm = np.asarray(phantom_seeds_mm(PHANTOM), dtype=np.float32)
        radius_mm = PHANTOM_RADIUS_MM
    else:
        seeds_mm = spread_seeds_mm(fod, N_SEEDS)
        radius_mm = round(float(fod.grid.voxel_sizes_mm.max()), 1)
        panel.set_parameters(
            step_mm=round(STEP_VOXELS * float(fod.grid.voxel_sizes_mm.min()), 2),
            max_length_mm=MAX_LENGTH_MM,
            algorithm="deterministic",  # bundles that can be told apart, from few seeds
            min_amplitude=round(FLOOR_FRACTION * strong_amplitude(fod), 3),
        )
    panel.set_parameters(radius_mm=radius_mm, n_per_seed=N_STREAMLINES // len(seeds_mm))
    panel.session.add_seeds_mm(seeds_mm)
    seeds = panel.session.ensure_seeds_layer()
    seeds.size = SEED_FRACTION * np.asarray(seeds.size)
    show_in_3d(viewer, fod)
    panel.runs.finished.connect(lambda _run: fit_view(viewer, panel))
    panel.runs.start()
    if output is None:
        napari.run()
        return 0
    try:
        return _write(viewer, panel, output)
    finally:
        viewer.close()


def spread_seeds_mm(fod: Fod, n: int) -> NDArray[np.float32]:
    """Return (n, 3) RAS+ mm seeds spread over the voxels whose FODs are the most directed.

    In a brain they lie between the hemispheres, where corpus callosum and brainstem are; in a
    thin volume everywhere. Each next one is the farthest from those chosen before.
    """
    positions = fod.grid.to_mm(np.argwhere(fod.support))
    directed = np.linalg.norm(fod.values[:, 1:], axis=1)  # all but l = 0
    if not is_thin(fod):
        middle = np.abs(positions[:, 0] - positions[:, 0].mean()) < fod.grid.voxel_sizes_mm.max()
        positions, directed = positions[middle], directed[middle]
    positions = positions[directed >= np.quantile(directed, DIRECTED_QUANTILE)]
    chosen = [0]
    distance = np.linalg.norm(positions - positions[0], axis=1)
    for _ in range(min(n, len(positions)) - 1):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(positions - positions[chosen[-1]], axis=1))
    return np.asarray(positions[chosen], dtype=np.float32)


def is_thin(fod: Fod) -> bool:
    """Tell whether a volume has too few slices to be looked at from the side."""
    return min(fod.grid.shape) <= THIN_VOXELS


def strong_amplitude(fod: Fod) -> float:
    """Return an amplitude that only the strongest peaks of an FOD exceed."""
    peaks = (fod.values @ fod.sample_matrix(direction_set(162)).T).max(axis=1)
    return float(np.quantile(peaks, STRONG_QUANTILE))


def show_in_3d(viewer: Any, fod: Fod) -> None:
    """Turn to 3-D; thin volumes are seen from above, others from the front left."""
    viewer.dims.ndisplay = 3
    viewer.layers[0].opacity = VOLUME_OPACITY
    viewer.reset_view()
    if not is_thin(fod):
        view = PHANTOM_VIEW if fod.name == PHANTOM else BRAIN_VIEW
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
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        application.processEvents()
        time.sleep(0.01)
    picture, streamlines = output / "demo.png", output / "demo.trk"
    save_screenshot(viewer, picture, canvas_only=False)
    tractogram.save(streamlines, reference=panel.session.fod)
    print(tractogram.summary())
    print(panel.session.speed())
    print(f"picture      {picture}\nstreamlines  {streamlines}")
    return 0
