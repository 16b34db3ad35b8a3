"""What the person is doing: which FOD, seeds, regions and parameters, and the last result.

The only mutable state of the plugin, without a widget and without runs: :mod:`.run_control`
carries out requests and brings results here. The panel changes the state and listens to its
signals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from napari.layers import Layer, Points
from numpy.typing import NDArray
from psygnal import Signal

from ...errors import (
    InvalidFodError,
    InvalidParameterError,
    InvalidSeedsError,
    TractographyError,
)
from ...model.fod import Fod
from ...model.parameters import TrackingParameters
from ...model.regions import Region
from ...model.seeding import ACCEPTED, EVERY_VOXEL, SeedingParameters
from ...model.tissues import Tissues, check_tissues
from ...tracking.execution import Execution, Runner
from ..layers.frames import show_in
from ..layers.layer_watch import Watch
from ..layers.opening import FodOpening
from ..layers.region_entries import Entry
from ..layers.tissues import tissues_of
from ..layers.volumes import fod_grid_of, fod_of, mask_of, opening_of, see_within
from ..space.display import DisplaySpace
from ..space.extent import sliders_kept
from ..streamlines.layer import Streamlines
from .bundles.results import Results
from .history import History
from .region_layers import Regions
from .requests import Request
from .seed_layer import SeedLayer
from .seeding import SeedBetween, Seeding, SeedVoxels, chosen_ends, frozen_seeding
from .tracking_values import TrackingValues


class Session(Results):
    """The state behind one panel.

    Parameters
    ----------
    viewer : napari.viewer.ViewerModel

    Attributes
    ----------
    fod_layer : Layer or None
        What to track in; :meth:`choose_fod` changes it.
    seeds, regions : SeedLayer, Regions
        The seeds that were placed, in a layer; what streamlines must pass or avoid.
    history : History
        Undo and redo of what is done to seeds and regions.
    space : DisplaySpace
        Where seeds and streamlines are shown: the space of the FOD chosen last.
    tracking : TrackingValues
        Which tracking parameters a person set; the others suit the FOD.
    parameters : TrackingParameters
        With which a run is tracked: the last of :attr:`tracking` that were possible.
    seeding : SeedingParameters
    backend, n_threads : str or Runner, int or None
        What the full run is tracked on; see
        :class:`~napari_tractography.tracking.inputs.Execution`.
    bundle : BundleState
        The bundle that is active: all of the above is its own, but for the device.
    tractogram, result_request, result_grid, seconds, report, streamlines_layer
        The last result of the active bundle, see :class:`.bundles.state.BundleState`.
    """

    changed = Signal()  # what would be tracked: FOD, seeds, regions, masks or parameters
    released = Signal()  # the mouse let go of a seed or a sphere that it moved
    seeds_changed = Signal()
    parameters_suited = Signal()  # to another FOD: values that nobody set may have changed
    streamlines_removed = Signal(object)  # Streamlines, from the viewer, by whoever
    adding_seeds = Signal()  # seeds are about to be placed

    def __init__(self, viewer: Any) -> None:
        super().__init__(viewer)
        self._is_open = False
        self.fod_layer: Layer | None = None
        self._followed: FodOpening | None = None  # of the FOD that is chosen
        self._mask, self._seed_mask = Watch(self.changed.emit), Watch(self._on_seed_mask)
        self._tissue_layer: Layer | None = None
        self.tissues: Tissues | None = None  # what that layer holds
        self.seeds = SeedLayer(viewer)
        self.regions = Regions(viewer)
        self.history = History(self.seeds, self.regions)
        self.space = self.regions.space if self.seeds.layer is None else self.seeds.space
        self.tracking = TrackingValues()
        self.parameters = self.tracking.parameters()
        self.seeding = SeedingParameters()
        self.backend: str | Runner = "auto"
        self.n_threads: int | None = None
        self.seeds.layer_changed.connect(self.seeds_changed.emit)
        self.seeds.changed.connect(self._on_seeds)
        self.regions.changed.connect(self.changed.emit)
        self.released.connect(self.history.settle)
        self.refused.connect(self.history.act)

    def open(self) -> None:
        """Listen to the viewer."""
        self._is_open = True
        self.viewer.layers.events.removed.connect(self._on_layer_removed)
        self._follow_opening()
        regions = [entry.layer for entry in self.regions.entries]
        for layer in (self.seeds_layer, self.streamlines_layer, *regions):
            if layer is not None and layer not in self.viewer.layers:
                self._forget(layer)
                self.regions.forget(layer)

    def close(self) -> None:
        """Stop listening to the viewer."""
        if not self._is_open:
            return
        self._is_open = False
        self.viewer.layers.events.removed.disconnect(self._on_layer_removed)
        self.regions.close()
        self.history.close()
        if self._followed is not None:
            self._followed.ended.disconnect(self._on_opening_ended)
            self._followed = None

    # -- what to track in ----------------------------------------------------------------------

    @property
    def fod(self) -> Fod | None:
        """The chosen FOD; None while it is being read."""
        return fod_of(self.fod_layer)

    @property
    def opening(self) -> FodOpening | None:
        """The opening of the chosen FOD while its file is being read."""
        return opening_of(self.fod_layer)

    def choose_fod(self, layer: Layer | None) -> None:
        """Track in the FOD of a layer; seeds and streamlines move into its display space."""
        if layer is not self.fod_layer:
            self.fod_layer = layer
            self._follow_opening()
            self.retake_fod()

    def retake_fod(self) -> None:
        """Track in what the chosen layer holds now: another FOD, or one that was made anew."""
        grid = fod_grid_of(self.fod_layer)
        if grid is not None:  # without one everything stays where it is
            show_in(self, DisplaySpace.of(grid))
            self.suit_parameters()
        self.seeds_changed.emit()
        self.changed.emit()

    def _follow_opening(self) -> None:
        """Learn when the FOD that is chosen has been read, if it is being read, and no other."""
        if self._followed is not None:
            self._followed.ended.disconnect(self._on_opening_ended)
        self._followed = self.opening
        if self._followed is not None:
            self._followed.viewer = self.viewer
            self._followed.ended.connect(self._on_opening_ended)

    def _on_opening_ended(self, opening: FodOpening) -> None:
        if opening.fod is not None and opening.fod is self.fod:
            self.suit_parameters()
            self.seeds_changed.emit()
            self.changed.emit()

    @property
    def mask_layer(self) -> Layer | None:
        """The mask to track in; none tracks everywhere."""
        return self._mask.layer

    @mask_layer.setter
    def mask_layer(self, layer: Layer | None) -> None:
        if layer is not self._mask.layer:
            self._mask.layer = see_within(layer)
            self.changed.emit()

    @property
    def seed_mask_layer(self) -> Layer | None:
        """The mask to start in, where that is not the one to track in."""
        return self._seed_mask.layer

    @seed_mask_layer.setter
    def seed_mask_layer(self, layer: Layer | None) -> None:
        if layer is not self._seed_mask.layer:
            self._seed_mask.layer = see_within(layer)
            self.changed.emit()

    @property
    def tissue_layer(self) -> Layer | None:
        """What holds the tissue image to track with; none tracks without."""
        return self._tissue_layer

    def choose_tissues(self, layer: Layer | None) -> None:
        """Track with the tissue image that a layer holds, or without.

        Raises
        ------
        TractographyError
            When it holds none, or one that does not overlap the FOD; then nothing changes.
        """
        if layer is self._tissue_layer:
            return
        tissues = None if layer is None else tissues_of(layer, self.space)
        grid = fod_grid_of(self.fod_layer)
        if tissues is not None and grid is not None:
            check_tissues(tissues, grid)
        self._tissue_layer, self.tissues = layer, tissues
        self.tracking.with_tissues = tissues is not None
        self.suit_parameters()
        self.seeds_changed.emit()
        self.changed.emit()

    def _on_seed_mask(self) -> None:
        if self.seed_mask_in_use is self.seed_mask_layer:
            self.changed.emit()

    def suit_parameters(self) -> None:
        """Let the FOD decide the tracking parameters that nobody set."""
        self.tracking.fod = self.fod or self.tracking.fod  # until another has been read
        with contextlib.suppress(InvalidParameterError):  # told when it was set, and on Run
            self.parameters = self.tracking.parameters()
        self.parameters_suited.emit()

    def set_by_hand(self, values: Mapping[str, Any]) -> None:
        """Set tracking parameters by name, as a person does: they stay when the FOD changes.

        Raises
        ------
        InvalidParameterError
            When a value is out of range or contradicts another; tracking then goes on with the
            parameters before.
        """
        self.tracking.set(values)
        self._take_parameters()

    def forget_by_hand(self, names: Iterable[str]) -> None:
        """Let the FOD, or the defaults, decide some tracking parameters again.

        Raises
        ------
        InvalidParameterError
            When what is left contradicts itself.
        """
        self.tracking.forget(names)
        self._take_parameters()

    def _take_parameters(self) -> None:
        parameters = self.tracking.parameters()
        if parameters != self.parameters:
            self.parameters = parameters
            self.changed.emit()

    def restore_parameters(self, by_hand: Mapping[str, Any], seeding: SeedingParameters) -> None:
        """Set what a person had set before, and nothing else, as when a bundle becomes active."""
        self.tracking.by_hand = dict(by_hand)
        self.seeding = seeding
        with contextlib.suppress(InvalidParameterError):  # told when it was set, and on Run
            self.parameters = self.tracking.parameters()
        self.parameters_suited.emit()

    def set_parameters(
        self,
        parameters: TrackingParameters | None = None,
        seeding: SeedingParameters | None = None,
    ) -> None:
        """Change parameters of tracking, of seeding, or both; None leaves them as they are."""
        before = self.parameters, self.seeding
        if parameters is not None:
            self.parameters = parameters
            self.tracking.by_hand = parameters.to_dict()
        self.seeding = self.seeding if seeding is None else seeding
        if (self.parameters, self.seeding) != before:
            self.changed.emit()

    # -- seeds ---------------------------------------------------------------------------------

    @property
    def seeds_layer(self) -> Points | None:
        """The layer of the seeds that were placed."""
        return self.seeds.layer

    def seed_positions_mm(self) -> NDArray[np.float64]:
        """Return the seeds as (n, 3) RAS+ mm."""
        return self.seeds.positions_mm

    def add_seed(self, position_zyx: NDArray[np.float64]) -> None:
        """Add a seed at a display position, (z, y, x) mm."""
        self.adding_seeds.emit()
        self.seeds.add(np.asarray(position_zyx, dtype=float)[None])

    def add_seeds_mm(self, points_mm: NDArray[np.floating]) -> None:
        """Add seeds at (n, 3) RAS+ mm."""
        self.adding_seeds.emit()
        self.seeds.add(self.space.shown_at(points_mm))

    def owns(self, layer: Layer) -> bool:
        """Tell whether the mouse may drag points of a layer: seeds, and spheres of regions."""
        return layer is self.seeds_layer or layer in self.regions.spheres

    def move_point(self, layer: Points, index: int, position_zyx: NDArray[np.float64]) -> None:
        """Move a seed or the sphere of a region to a display position, (z, y, x) mm."""
        places = np.array(layer.data, dtype=float)
        places[index] = (position_zyx - layer.translate) / layer.scale
        with sliders_kept(self.viewer, layer):
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
        self.changed.emit()

    def _on_layer_removed(self, event: Any) -> None:
        self._forget(event.value)
        self.regions.forget(event.value)

    def _forget(self, layer: Layer) -> None:
        if not self.seeds.forget(layer) and isinstance(layer, Streamlines):
            self.streamlines_removed.emit(layer)
            if layer is self.streamlines_layer:
                self.streamlines_layer = None

    # -- what would be tracked -----------------------------------------------------------------

    @property
    def can_start(self) -> bool:
        """Whether there is something to start from: seeds, a mask, or the whole FOD."""
        source = self.seeding.source
        if source == "placed seeds":
            return len(self.seeds) > 0
        if source == "grey-white interface":
            return self.tissues is not None
        if source == "between regions":
            return chosen_ends(self.regions) is not None
        return source == "whole FOD" or self.seed_mask_in_use is not None

    @property
    def seed_mask_in_use(self) -> Layer | None:
        """The mask that streamlines start in: the one to track in if no other is chosen.

        None where streamlines do not start from a mask.
        """
        if self.seeding.source not in ("mask", EVERY_VOXEL):
            return None
        return self.mask_layer if self.seed_mask_layer is None else self.seed_mask_layer

    def make_seeding(self) -> Seeding:
        """Return where streamlines are to start, frozen; see :func:`.seeding.frozen_seeding`."""
        return frozen_seeding(self)

    def steering(self) -> list[tuple[Entry, Region]]:
        """Return the regions in use, but for those that are tracked between."""
        return [(e, region) for e, region in self.regions.frozen() if e not in self.ends]

    @property
    def ends(self) -> Sequence[Entry]:
        """The two regions that are tracked between, or none."""
        is_between = self.seeding.source == "between regions"
        return (chosen_ends(self.regions) or ()) if is_between else ()

    def request(self, *, n_preview: int | None = None) -> Request:
        """Freeze what is to be tracked.

        Parameters
        ----------
        n_preview : int, optional
            About how many streamlines a preview has; None for the full run.

        Raises
        ------
        TractographyError
            When something is missing or wrong.
        """
        if self.bundle.is_opened:
            raise InvalidSeedsError(
                f"{self.bundle.name} was opened from a file and cannot be tracked; press New in "
                "Bundles, then place seeds."
            )
        fod = self.fod
        if self.opening is not None:
            raise InvalidFodError(f"{self.opening.name} is still being read; wait a moment.")
        if fod is None:
            raise InvalidFodError("There is no FOD; open one (File > Open) or choose its layer.")
        seeding = self.make_seeding()
        mask = None if self.mask_layer is None else mask_of(self.mask_layer, self.space)
        selects = self.seeding.counted == ACCEPTED and not isinstance(seeding, SeedVoxels)
        selects = selects or isinstance(seeding, SeedBetween)
        return Request(
            fod=fod,
            seeding=seeding,
            parameters=self.parameters,
            mask=mask,
            regions=tuple(region for _, region in self.steering()),
            include_rule=self.regions.rule,
            tissues=self.tissues,
            select=sum(seeding.n_each) if selects else None,
            execution=self.execution,
            n_preview=n_preview,
        )

    @property
    def execution(self) -> Execution:
        """How the full run is done; the threads are those of this machine, not of a cluster's."""
        here = isinstance(self.backend, str)
        return Execution(self.backend, self.n_threads if here else None)

    # -- the result ----------------------------------------------------------------------------

    @property
    def is_result_current(self) -> bool:
        """Whether a run now would track what the result was tracked from."""
        return self.changes() == []

    def changes(self) -> list[str] | None:
        """Return in what a run now would differ from the result's; None where either cannot be."""
        then = self.result_request
        try:
            return None if then is None else then.differences(self.request())
        except TractographyError:  # something is missing or wrong that was not
            return None
