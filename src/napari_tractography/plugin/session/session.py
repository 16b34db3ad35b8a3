"""What the person is doing: which FOD, seeds and parameters, the run under way, its result.

The only mutable state of the plugin, without a widget. The panel changes it and listens to its
signals; a run is started from a frozen :class:`Request`, so that nothing changes under it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from napari.layers import Layer, Points
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from ...errors import InvalidFodError, InvalidSeedsError, TractographyError
from ...fod import Fod
from ...parameters import SeedingParameters, TrackingParameters
from ...tracking.inputs import Execution
from ...tracking.report import Report
from ...tractogram import Tractogram
from ..layers.layer_watch import Watch
from ..layers.volumes import fod_of, mask_of, voxels_of
from ..space.display import DisplaySpace
from ..space.layer_list import insert_beside
from ..streamlines.layer import Streamlines
from .previews import Pace
from .region_layers import Regions
from .runs import Failure, Finished, Request, Run, work
from .seed_layer import SeedLayer
from .seeding import SeedFod, Seeding, SeedMask

SETTLE_MS = 250  # after the last change, before the full number is tracked
CLOSE_SECONDS = 0.5  # a chunk takes less; what compiles the engine cannot be waited for


class Session:
    """The state behind one panel.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel

    Attributes
    ----------
    fod_layer, mask_layer : Layer or None
        What to track in; :meth:`choose_fod` changes the first.
    seed_mask_layer : Layer or None
        What to start in, where that is a mask and not the one to track in.
    seeds : SeedLayer
        The seeds that were placed, in a layer.
    regions : Regions
        What streamlines must pass or avoid.
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
    edited = Signal()  # the result: streamlines were kept, deleted or brought back
    seeds_drawn = Signal(list)  # numbers of the seeds that the add tool of the layer placed

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.fod_layer: Layer | None = None
        self._mask, self._seed_mask = Watch(self.changed), Watch(self._on_seed_mask)
        self.seeds = SeedLayer(viewer)
        self.regions = Regions(viewer)
        self.space = self.regions.space if self.seeds.layer is None else self.seeds.space
        self.parameters = TrackingParameters()
        self.seeding = SeedingParameters()
        self.live = False
        self.tractogram: Tractogram | None = None
        self.result_request: Request | None = None  # that gave what is shown, before it was edited
        self.seconds = 0.0  # that the last result took
        self.report = Report()
        self.step_mm = self.parameters.step_mm  # that it was tracked with
        self.streamlines_layer: Streamlines | None = None
        self.run: Run | None = None
        self._ending: Run | None = None  # cancelled, and its result is on the way
        self._shown_run: Run | None = None  # whose beginning the layer shows
        self._number = 0
        self.backend = "auto"
        self.n_threads: int | None = None  # of the CPU; one a processor by default
        self.pace = Pace()
        self._changed_at = 0.0  # when what the next preview follows changed
        self._outdated = False  # whether something changed since the preview under way began
        self._settled = False  # whether the last run gave all that was asked for
        self._full_due = False  # whether all is tracked once the preview under way is shown
        self._workers: set[Any] = set()
        self._settle = QTimer()
        self._settle.setSingleShot(True)
        self._settle.setInterval(SETTLE_MS)
        self._settle.timeout.connect(self._run_settled)
        self.seeds.layer_changed.connect(self.seeds_changed.emit)
        self.seeds.points_added.connect(self.seeds_drawn.emit)
        self.seeds.changed.connect(self._on_seeds)
        self.regions.changed.connect(self.changed)

    # -- seeds ---------------------------------------------------------------------------------

    @property
    def fod(self) -> Fod | None:
        """The chosen FOD."""
        return fod_of(self.fod_layer)

    def choose_fod(self, layer: Layer | None) -> None:
        """Track in the FOD of a layer; seeds and streamlines move into its display space."""
        if layer is self.fod_layer:
            return
        self.fod_layer = layer
        fod = self.fod
        if fod is not None:  # without one everything stays where it is
            self.space = DisplaySpace.of(fod.grid)
            for shown in self.viewer.layers:
                if isinstance(shown, Streamlines) and shown.space != self.space:
                    shown.space = self.space
            self.seeds.show_in(self.space)
            self.regions.show_in(self.space)
        self.seeds_changed.emit()
        self.changed()

    @property
    def seeds_layer(self) -> Points | None:
        """The layer of the seeds that were placed."""
        return self.seeds.layer

    def seed_positions_mm(self) -> NDArray[np.float64]:
        """Return the seeds as (n, 3) RAS+ mm."""
        return self.seeds.positions_mm

    def add_seed(self, position_zyx: NDArray[np.float64]) -> None:
        """Add a seed at a display position, (z, y, x) mm."""
        self.seeds.add(np.asarray(position_zyx, dtype=float)[None])

    def add_seeds_mm(self, points_mm: NDArray[np.floating]) -> None:
        """Add seeds at (n, 3) RAS+ mm."""
        self.seeds.add(np.asarray(self.space.to_display(points_mm), dtype=float))

    def owns(self, layer: Layer) -> bool:
        """Tell whether points of a layer are dragged: of that of the seeds, and of balls."""
        return layer is self.seeds_layer or layer in self.regions.spheres

    def move_point(self, layer: Points, index: int, position_zyx: NDArray[np.float64]) -> None:
        """Move a seed or a ball to a display position, (z, y, x) mm."""
        places = np.array(layer.data, dtype=float)
        places[index] = (position_zyx - layer.translate) / layer.scale
        layer.data = places

    def move_seed(self, index: int, position_zyx: NDArray[np.float64]) -> None:
        """Move a seed to a display position, (z, y, x) mm."""
        assert self.seeds_layer is not None
        self.move_point(self.seeds_layer, index, position_zyx)

    def remove_seeds(self, indices: Iterable[int]) -> None:
        """Remove seeds by their numbers."""
        self.seeds.remove(indices)

    def clear_seeds(self) -> None:
        """Remove all seeds."""
        self.seeds.remove(range(len(self.seeds)))

    def ensure_seeds_layer(self) -> Points:
        """Return the layer of seeds, a new one on top when there is none."""
        return self.seeds.ensure_layer()

    def _on_seeds(self) -> None:
        self.seeds_changed.emit()
        self.changed()

    def _on_layer_removed(self, event: Any) -> None:
        self._forget(event.value)
        self.regions.forget(event.value)

    def _forget(self, layer: Layer) -> None:
        if not self.seeds.forget(layer) and layer is self.streamlines_layer:
            self.streamlines_layer = None

    # -- running -------------------------------------------------------------------------------

    @property
    def mask_layer(self) -> Layer | None:
        """What to track in."""
        return self._mask.layer

    @mask_layer.setter
    def mask_layer(self, layer: Layer | None) -> None:
        self._mask.layer = layer

    @property
    def seed_mask_layer(self) -> Layer | None:
        """What to start in."""
        return self._seed_mask.layer

    @seed_mask_layer.setter
    def seed_mask_layer(self, layer: Layer | None) -> None:
        self._seed_mask.layer = layer

    def _on_seed_mask(self) -> None:
        if self.starts_layer is self.seed_mask_layer:
            self.changed()

    @property
    def has_starts(self) -> bool:
        """Whether there is something to start from."""
        if self.seeding.source == "placed seeds":
            return len(self.seeds) > 0
        return self.seeding.source == "whole FOD" or self.starts_layer is not None

    @property
    def starts_layer(self) -> Layer | None:
        """The mask that streamlines start in, where they do: the one in use if none is chosen."""
        if self.seeding.source != "mask":
            return None
        return self.mask_layer if self.seed_mask_layer is None else self.seed_mask_layer

    def starts(self) -> Seeding:
        """Return where streamlines are to start.

        Raises
        ------
        TractographyError
            When there are no seeds, no mask, or a seed has an impossible value.
        """
        seeding = self.seeding
        if seeding.source == "placed seeds":
            return self.seeds.balls(seeding)
        if seeding.source == "whole FOD":
            return SeedFod(seeding.n_total)
        if self.starts_layer is None:
            raise InvalidSeedsError(
                "There is no mask to start from; choose one in Seeds, or start from something else."
            )
        mask, grid = voxels_of(self.starts_layer, self.space)
        return SeedMask(mask.copy(), grid, seeding.n_total)

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
        full = self.starts()
        starts = full.at_most(self.pace.n_streamlines) if preview else full
        mask = None if self.mask_layer is None else mask_of(self.mask_layer, self.space)
        return Request(
            fod=fod,
            starts=starts,
            full=full,
            parameters=self.parameters,
            mask=mask,
            preview=preview,
            regions=tuple(region for _, region in self.regions.frozen()),
            include_rule=self.regions.rule,
            execution=Execution(self.backend, self.n_threads),
        )

    def start(self, *, preview: bool = False) -> Run | None:
        """Start a run; the one under way is given up. Failures go to the signal `failed`."""
        self._settle.stop()
        self._abandon()
        self._full_due &= preview
        try:
            request = self.request(preview=preview)
        except TractographyError as error:
            self.failed.emit(str(error), preview)
            return None
        self._number += 1
        run = Run(self._number, request)
        if preview:
            run.asked = self._changed_at or run.begun
            self._changed_at = 0.0
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
        regions = [entry.layer for entry in self.regions.entries]
        for layer in (self.seeds_layer, self.streamlines_layer, *regions):
            if layer is not None and layer not in self.viewer.layers:
                self._forget(layer)
                self.regions.forget(layer)

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
        if not self.live or self.fod is None or not self.has_starts:
            return
        self._changed_at = time.perf_counter()
        self._full_due = False
        if self.run is not None and self.run.request.preview:
            self._outdated = True
        else:
            self.start(preview=True)
        self._settle.start()

    def released(self) -> None:
        """Track all at once: the hand that moved something let go."""
        if self._settle.isActive():
            self._settle.stop()
            self._run_settled()

    def _run_settled(self) -> None:
        """Track all, after the preview under way: where drawing is slow none would be seen."""
        run = self.run
        if not self.live:
            return
        if run is not None and run.request.preview:
            self._full_due = True
        elif not (self._settled if run is None else run.request.whole):
            self.start()

    def _go_on(self) -> None:
        """Follow a preview that ended with what has to come next."""
        if self._outdated and self.live:
            if self.start(preview=True) is None or not self._full_due:
                self._settle.start()
        elif self._full_due:
            self._full_due = False
            self._run_settled()

    def _abandon(self) -> None:
        if self.run is not None:
            self.run.cancelled.set()
            self.run = None

    def _on_worker_done(self, run: Run, worker: Any) -> None:
        self._workers.discard(worker)
        if self.run is run:  # it ended without a word
            self.run = None
            self._go_on()

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
            if run.request.preview:
                self._go_on()
        elif isinstance(item, Finished):
            self.run = None
            self._settled = run.request.whole
            if run.request.preview:
                run.take(item.tractogram)
            self._keep(run, item.tractogram)
            run.latency = time.perf_counter() - run.asked
            if run.request.preview and not run.table_progress[1]:  # tables are made only once
                self.pace.learn(run.request.n_seeds, run.seconds)
            self.run_finished.emit(run)
            if run.request.preview:
                self._go_on()
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
        self.result_request = run.request
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
        self.result_request = run.request
        layer.tractogram = self.tractogram
        self._shown_run = None
        self.seconds, self.report = run.seconds, run.report
        self.step_mm = run.request.parameters.step_mm

    def _ensure_streamlines_layer(self) -> Streamlines:
        """Return the layer of results, a new one below the seeds when there is none."""
        layer = self.streamlines_layer
        if layer is None:
            layer = Streamlines(space=self.space, name="Streamlines")
            self._shown_run = None
            seeds, layers = self.seeds_layer, self.viewer.layers
            insert_beside(self.viewer, layer, layers.index(seeds) if seeds in layers else None)
            self.streamlines_layer = layer
            layer.editor.edited.connect(self._on_edited)
            self.layer_made.emit(layer)
        return layer

    def _on_edited(self) -> None:
        if self.streamlines_layer is not None:
            self.tractogram = self.streamlines_layer.tractogram
            self.edited.emit()

    def speed(self) -> str:
        """Return how long the last result took and how fast it was, in words."""
        if self.tractogram is None:
            return ""
        steps = float(self.tractogram.lengths_mm.sum()) / self.step_mm
        return self.report.speed(steps, self.seconds)
