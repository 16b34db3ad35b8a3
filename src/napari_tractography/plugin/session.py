"""What the person is doing: which FOD, seeds and parameters, the run under way, its result.

The only mutable state of the plugin, without a widget. The panel changes it and listens to its
signals; a run is started from a frozen :class:`Request`, so that nothing changes under it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from napari.layers import Layer, Points
from napari.layers.base import ActionType
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from ..errors import InvalidFodError, InvalidSeedsError, TractographyError
from ..fod import Fod
from ..parameters import SeedingParameters, TrackingParameters
from ..tractogram import Tractogram
from .display import UNITS, DisplaySpace
from .runs import Failure, Finished, Request, Run, work
from .streamlines import Streamlines
from .volumes import fod_of, mask_of

PREVIEW_STREAMLINES = 1000  # in all, while a hand moves
SETTLE_MS = 250  # after the last change, before the full number is tracked
CLOSE_SECONDS = 0.5  # a chunk takes less; what compiles the engine cannot be waited for
SEEDS_KEY = "seeds_in"  # layer.metadata[SEEDS_KEY] is the display space of a layer of seeds
SEED_COLOUR = "#ffd166"
SEED_VOXELS = 1.5  # diameter of a seed on the screen, at least
SEED_SHARE = 1 / 60  # and of the longest side of the volume


class Session:
    """The state behind one panel.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel

    Attributes
    ----------
    fod_layer, mask_layer : Layer or None
        What to track in; :meth:`choose_fod` changes the first.
    space : DisplaySpace
        Where seeds and streamlines are shown: the space of the FOD chosen last.
    parameters : TrackingParameters
    seeding : SeedingParameters
    live : bool
        Track again when something changes, a preview at once and all when it settles.
    tractogram : Tractogram or None
        The last result, complete or not.
    """

    run_started = Signal(object)  # Run
    run_advanced = Signal(object)  # Run
    run_finished = Signal(object)  # Run
    run_cancelled = Signal(object)  # Run, the very moment
    run_kept = Signal(object)  # Run, cancelled before: what has arrived is the result
    failed = Signal(str, bool)  # a sentence, and whether it was but a preview
    seeds_changed = Signal()
    layer_made = Signal(object)  # Streamlines, for the results
    seeds_drawn = Signal(list)  # numbers of the seeds that the add tool of the layer placed

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.fod_layer: Layer | None = None
        self.mask_layer: Layer | None = None
        self.space = DisplaySpace.identity()
        self.parameters = TrackingParameters()
        self.seeding = SeedingParameters()
        self.live = False
        self.tractogram: Tractogram | None = None
        self.seconds = 0.0  # that the last result took
        self.step_mm = self.parameters.step_mm  # that it was tracked with
        self.seeds_layer: Points | None = None
        self.streamlines_layer: Streamlines | None = None
        self.run: Run | None = None
        self._ending: Run | None = None  # cancelled, and its result is on the way
        self._shown_run: Run | None = None  # whose beginning the layer shows
        self._adding = False  # whether a seed that appears is placed by this object
        self._number = 0
        self._outdated = False  # whether something changed since the preview under way began
        self._settled = False  # whether the last run gave all that was asked for
        self._workers: set[Any] = set()
        self._settle = QTimer()
        self._settle.setSingleShot(True)
        self._settle.setInterval(SETTLE_MS)
        self._settle.timeout.connect(self._run_settled)
        for layer in viewer.layers:  # left by a panel that was closed
            if isinstance(layer, Points) and isinstance(
                layer.metadata.get(SEEDS_KEY), DisplaySpace
            ):
                self._take_seeds_layer(layer)
                self.space = layer.metadata[SEEDS_KEY]

    # -- seeds ---------------------------------------------------------------------------------

    @property
    def fod(self) -> Fod | None:
        """The chosen FOD."""
        return fod_of(self.fod_layer)

    def choose_fod(self, layer: Layer | None) -> None:
        """Track in the FOD of a layer; seeds and streamlines move into its display space."""
        if layer is self.fod_layer:
            return
        seeds_mm = self.seed_positions_mm()
        self.fod_layer = layer
        fod = self.fod
        if fod is not None:  # without one everything stays where it is
            self.space = DisplaySpace.of(fod.grid)
            for shown in self.viewer.layers:
                if isinstance(shown, Streamlines) and shown.space != self.space:
                    shown.space = self.space
            if self.seeds_layer is not None:
                with self.seeds_layer.events.data.blocker():
                    self._place_seeds(self.seeds_layer, seeds_mm)
        self.seeds_changed.emit()
        self.changed()

    def seed_positions_mm(self) -> NDArray[np.float64]:
        """Return the seeds as (n, 3) RAS+ mm."""
        layer = self.seeds_layer
        if layer is None or not len(layer.data):
            return np.empty((0, 3))
        voxels = np.asarray(layer.data, dtype=float)
        return self.space.to_world(voxels * layer.scale + layer.translate)

    def add_seed(self, position_zyx: NDArray[np.float64]) -> None:
        """Add a seed at a display position, (z, y, x) mm."""
        self._add_seeds(np.asarray(position_zyx, dtype=float)[None])

    def add_seeds_mm(self, points_mm: NDArray[np.floating]) -> None:
        """Add seeds at (n, 3) RAS+ mm."""
        self._add_seeds(np.asarray(self.space.to_display(points_mm), dtype=float))

    def _add_seeds(self, positions_zyx: NDArray[np.float64]) -> None:
        layer = self.ensure_seeds_layer()
        self._adding = True
        try:
            layer.add((positions_zyx - layer.translate) / layer.scale)
        finally:
            self._adding = False
        layer.selected_data = set()

    def owns(self, layer: Layer) -> bool:
        """Tell whether a layer is that of the seeds."""
        return layer is self.seeds_layer

    def move_seed(self, index: int, position_zyx: NDArray[np.float64]) -> None:
        """Move a seed to a display position, (z, y, x) mm."""
        layer = self.seeds_layer
        assert layer is not None
        voxels = np.array(layer.data, dtype=float)
        voxels[index] = (position_zyx - layer.translate) / layer.scale
        layer.data = voxels

    def remove_seeds(self, indices: Iterable[int]) -> None:
        """Remove seeds by their numbers."""
        if self.seeds_layer is not None:
            self.seeds_layer.selected_data = set(indices)
            self.seeds_layer.remove_selected()

    def clear_seeds(self) -> None:
        """Remove all seeds."""
        if self.seeds_layer is not None:
            self.remove_seeds(range(len(self.seeds_layer.data)))

    def ensure_seeds_layer(self) -> Points:
        """Return the layer of seeds, a new one on top when there is none.

        Its data are voxels of the volume on the screen: a seed shows in the slice it lies in.
        """
        if self.seeds_layer is None:
            layer = Points(
                np.empty((0, 3)),
                ndim=3,
                name="Seeds",
                face_color=SEED_COLOUR,
                border_color="black",
                border_width=0.1,
                blending="translucent_no_depth",  # in front of streamlines in 3-D, to be grabbed
                units=UNITS,
            )
            self._place_seeds(layer, np.empty((0, 3)))
            layer.current_size = seed_size_voxels(self.space)
            active = self.viewer.layers.selection.active
            self.viewer.add_layer(layer)
            if active is not None:  # the contrast of the image stays at hand
                self.viewer.layers.selection.active = active
            self._take_seeds_layer(layer)
        assert self.seeds_layer is not None
        return self.seeds_layer

    def _take_seeds_layer(self, layer: Points) -> None:
        self.seeds_layer = layer
        layer.events.data.connect(self._on_seeds_moved)

    def _place_seeds(self, layer: Points, seeds_mm: NDArray[np.float64]) -> None:
        layer.metadata[SEEDS_KEY] = self.space
        layer.scale, layer.translate = np.abs(self.space.scale), self.space.translate
        if len(layer.data):
            positions = np.asarray(self.space.to_display(seeds_mm), dtype=float)
            layer.data = (positions - layer.translate) / layer.scale
            layer.size = seed_size_voxels(self.space)

    def _on_seeds_moved(self, event: Any) -> None:
        if event.action not in (ActionType.ADDED, ActionType.REMOVED, ActionType.CHANGED):
            return  # each is told twice, before and after
        if event.action == ActionType.ADDED and not self._adding:
            n = len(event.value)
            self.seeds_drawn.emit([int(index) % n for index in event.data_indices])
        self.seeds_changed.emit()
        self.changed()

    def _on_layer_removed(self, event: Any) -> None:
        self._forget(event.value)

    def _forget(self, layer: Layer) -> None:
        if layer is self.seeds_layer:
            self.seeds_layer = None
            self.seeds_changed.emit()
        elif layer is self.streamlines_layer:
            self.streamlines_layer = None

    # -- running -------------------------------------------------------------------------------

    def request(self, *, preview: bool = False) -> Request:
        """Freeze what is to be tracked.

        Raises
        ------
        TractographyError
            When something is missing or wrong.
        """
        fod = self.fod
        if fod is None:
            raise InvalidFodError("There is no FOD; open one (File > Open) or choose its layer.")
        positions = self.seed_positions_mm()
        if not len(positions):
            raise InvalidSeedsError(
                "There are no seeds; hold Shift and click where fibres should start."
            )
        n = self.seeding.n_per_seed
        if preview:
            n = max(1, min(n, PREVIEW_STREAMLINES // len(positions)))
        mask = None if self.mask_layer is None else mask_of(self.mask_layer, self.space)
        return Request(
            fod=fod,
            positions_mm=positions,
            n_per_seed=n,
            radius_mm=self.seeding.radius_mm,
            parameters=self.parameters,
            mask=mask,
            preview=preview,
            whole=n == self.seeding.n_per_seed,
        )

    def start(self, *, preview: bool = False) -> Run | None:
        """Start a run; the one under way is given up. Failures go to the signal `failed`."""
        self._settle.stop()
        self._abandon()
        try:
            request = self.request(preview=preview)
        except TractographyError as error:
            self.failed.emit(str(error), preview)
            return None
        self._number += 1
        run = Run(self._number, request)
        self.run = run
        self._outdated = self._settled = False
        worker = work(run)
        worker.yielded.connect(lambda item: self._on_yield(run, item))
        worker.finished.connect(lambda: self._on_worker_done(run, worker))
        self._workers.add(worker)
        worker.start()
        self.run_started.emit(run)
        return run

    def cancel(self) -> None:
        """Give up the run under way; what has arrived stays, and `run_kept` follows."""
        self._settle.stop()
        run = self.run
        if run is None:
            return
        if run.parts:
            run.kept = True
            self._ending = run
        self._abandon()
        self.run_cancelled.emit(run)

    def open(self) -> None:
        """Listen to the viewer."""
        self.viewer.layers.events.removed.connect(self._on_layer_removed)
        for layer in (self.seeds_layer, self.streamlines_layer):
            if layer is not None and layer not in self.viewer.layers:
                self._forget(layer)

    def close(self) -> None:
        """Let go of the viewer and give up what is under way; wait a moment for threads to end."""
        self.viewer.layers.events.removed.disconnect(self._on_layer_removed)
        self.live = False
        runs = [run for run in (self.run, self._ending) if run is not None]
        self._ending = None
        self._abandon()
        for run in runs:
            run.kept = False
            run.ended.wait(CLOSE_SECONDS)

    def changed(self) -> None:
        """Note that seeds or parameters changed: with `live`, track again.

        A preview under way is not given up, or a hand that never rests would never see one; the
        next begins when it is there.
        """
        if not self.live or self.fod is None or not len(self.seed_positions_mm()):
            return
        if self.run is not None and self.run.request.preview:
            self._outdated = True
        else:
            self.start(preview=True)
        self._settle.start()

    def _run_settled(self) -> None:
        run = self.run
        everything = self._settled if run is None else run.request.whole
        if everything or not self.live:
            return  # the preview was everything
        self.start()

    def _abandon(self) -> None:
        if self.run is not None:
            self.run.cancelled.set()
            self.run = None

    def _on_worker_done(self, run: Run, worker: Any) -> None:
        self._workers.discard(worker)
        if self.run is run:  # it ended without a word
            self.run = None

    def _on_yield(self, run: Run, item: Tractogram | Finished | Failure) -> None:
        if self._ending is run and isinstance(item, Finished):
            self._ending = None
            if self._shown_run in (None, run):  # nothing newer is on the screen
                run.n_done, run.n_streamlines = item.tractogram.n_seeds, len(item.tractogram)
                self._keep(run, item.tractogram)
                self.run_kept.emit(run)
        if self.run is not run:
            return  # a newer run has taken over
        if isinstance(item, Failure):
            self.run = None
            self._keep(run)
            self.failed.emit(item.message, run.request.preview)
        elif isinstance(item, Finished):
            self.run = None
            self._settled = run.request.whole
            self._keep(run, item.tractogram)
            self.run_finished.emit(run)
            if self._outdated and self.live and run.request.preview:
                self.start(preview=True)
                self._settle.start()
        else:
            run.take(item)
            if not run.request.preview and run.is_redraw_due():
                self._show_fresh(run)
            self.run_advanced.emit(run)

    def _show_fresh(self, run: Run) -> None:
        """Bring what has arrived to the screen, as long as it has room for all."""
        layer = self._ensure_streamlines_layer()
        if run.n_points > layer.max_vertices:
            return  # the end of the run shows an even subset
        if run.n_parts_shown and self._shown_run is run:
            layer.append(Tractogram.concatenate(run.parts[run.n_parts_shown :]))
        else:
            layer.tractogram = Tractogram.concatenate(run.parts)
        self._shown_run = run
        run.note_redraw()

    def _keep(self, run: Run, tractogram: Tractogram | None = None) -> None:
        """Keep and show the result of a run that ended or was given up; none if there is none."""
        if not run.parts:
            return
        layer = self._ensure_streamlines_layer()
        self.tractogram = Tractogram.concatenate(run.parts) if tractogram is None else tractogram
        layer.tractogram = self.tractogram
        self._shown_run = None
        self.seconds = run.seconds
        self.step_mm = run.request.parameters.step_mm

    def _ensure_streamlines_layer(self) -> Streamlines:
        """Return the layer of results, a new one below the seeds when there is none."""
        layer = self.streamlines_layer
        if layer is None:
            layer = Streamlines(space=self.space, name="Streamlines")
            self._shown_run = None
            active = self.viewer.layers.selection.active
            seeds, layers = self.seeds_layer, self.viewer.layers
            layers.insert(layers.index(seeds) if seeds in layers else len(layers), layer)
            if active is not None:
                self.viewer.layers.selection.active = active
            self.streamlines_layer = layer
            self.layer_made.emit(layer)
        return layer

    def speed(self) -> str:
        """Return how long the last result took and how fast it was, in words."""
        if self.tractogram is None:
            return ""
        steps = float(self.tractogram.lengths_mm.sum()) / self.step_mm
        rate = steps / max(self.seconds, 1e-9) / 1e6
        return f"{self.seconds:.2f} s, {rate:.2f} million steps/s"


def seed_size_voxels(space: DisplaySpace) -> float:
    """Return the diameter of a seed on the screen, big enough to be grabbed, in voxels along x."""
    if space.grid is None:
        return 4.0
    sizes = space.grid.voxel_sizes_mm
    longest = float((sizes * space.grid.shape).max())
    return max(SEED_VOXELS * float(sizes.min()), SEED_SHARE * longest) / abs(space.scale[-1])
