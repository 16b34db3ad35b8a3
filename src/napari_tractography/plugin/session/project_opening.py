"""A project in the window: its bundles as states, tracked again in the background, and proved.

Called by the panel, which has read the FODs.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Layer
from psygnal import Signal

from ...errors import InvalidParameterError, InvalidSeedsError, TractographyError
from ...model.fod import Fod
from ...model.regions import Region
from ...model.seeding_parameters import ACCEPTED, EVERY_VOXEL, STARTED, SeedingParameters
from ...recipes.bundle import Bundle, Source
from ...recipes.edits import Edit
from ...recipes.project import Project
from ...recipes.recipe import Recipe
from ...recipes.sources import FodSource, RegionSource
from ...streamlines.tractogram import Tractogram
from ...tracking.engine import iter_chunks
from ...tracking.inputs import Execution, TrackingInput
from ...tracking.report import Report
from .. import acts
from ..background import POLL_MS, iterate
from ..document import (
    COLOURS,
    NO_LIMITS,
    BundleState,
    LayerRef,
    PlacedSeeds,
    RegionState,
    Result,
    Snapshot,
)
from ..layers.volume_layers import fod_of
from ..requests import Arrived, Request
from ..run_seeding import (
    SeedBetween,
    SeedFod,
    Seeding,
    SeedInterface,
    SeedMask,
    SeedSpheres,
    SeedVoxels,
)
from ..streamlines.editing import EditState
from ..streamlines.layer import Streamlines
from ..timers import delayed, repeated
from ..words import plural
from .listing import BundleList
from .open_bundle import OpenBundle
from .session import give_style
from .tracking_values import TrackingValues

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class BundleProgress:
    """What the worker yields: how far a bundle is, and at its end its streamlines."""

    name: str  # of the bundle
    progress: float  # of all bundles, from 0 to 1
    result: Result | None = None  # before edits, when the bundle is done
    edited: EditState | None = None  # what the edits leave of it; None without edits
    problem: str = ""  # why there are no streamlines, or they are not edited


class Opening:
    """The tracking of all bundles of a project that is being opened, one after the other.

    They are shown as they are made, each in a turn of the event loop of its own: between two of
    them the window is drawn, and hears of keys and mouse.

    The list has a state for each bundle, by name. FODs that are on the screen need not be read
    twice. `problems` are sentences on what could not be made or is not as it was.
    """

    progressed = Signal(str, float)  # the bundle that is tracked, and the fraction of all
    arrived = Signal(object)  # an act, which gives a bundle what it has with its streamlines
    ended = Signal(object)  # this object: done or cancelled

    def __init__(
        self, bundles: BundleList, project: Project, fods: Mapping[FodSource, Fod]
    ) -> None:
        self.bundles, self.project = bundles, project
        self.problems: list[str] = []
        self.n_proven = 0
        self.cancelled = threading.Event()
        self._bundles = {bundle.name: bundle for bundle in bundles.bundles}
        self.fods = dict(fods)  # on the screen, by where they come from
        self._last: BundleProgress | None = None  # of which was told
        self._made: deque[BundleProgress] = deque()  # that are still to be shown
        self._is_tracking = False
        self._turn = delayed(None, 0, self._take_one)
        self._poll = repeated(None, POLL_MS, self._tell)  # each time a bar is drawn

    def start(self) -> None:
        """Begin; `ended` is emitted at the end, whoever has let go of this meanwhile."""
        _openings.add(self)
        self._is_tracking = True
        self._poll.start()
        session = self.bundles.session
        iterate(partial(_track, self, session.execution), self._on_progress, self._on_tracked)

    def cancel(self) -> None:
        """Track no more; bundles without streamlines keep their seeds and regions.

        Of a bundle that is being tracked nothing more is told, and its end a moment later.
        """
        self.cancelled.set()
        self._poll.stop()

    def _on_progress(self, progress: BundleProgress) -> None:
        self._last = progress
        if progress.problem or progress.result is not None:
            self._made.append(progress)
            self._turn.start()

    def _on_tracked(self) -> None:
        self._is_tracking = False
        self._turn.start()

    def _tell(self) -> None:
        if self._last is not None:
            self.progressed.emit(self._last.name, self._last.progress)

    def _take_one(self) -> None:
        """Show the next bundle, or end where there is none and will be none."""
        if self._made:
            made = self._made.popleft()
            if made.problem:
                self.problems.append(f"{made.name}: {made.problem}")
            bundle = self._bundles.get(made.name)
            is_there = bundle is not None and bundle.is_there and not self.cancelled.is_set()
            if bundle is not None and made.result is not None and is_there:
                self._take(bundle, self.project.bundles[made.name], made.result, made.edited)
            self._turn.start()
        elif not self._is_tracking:
            self._poll.stop()
            _openings.discard(self)
            self.ended.emit(self)

    def _take(
        self, bundle: OpenBundle, kept: Bundle, result: Result, edited: EditState | None
    ) -> None:
        """Take up the streamlines of a bundle; show them where it was not changed meanwhile."""
        is_as_said = bundle.state.source is not None and bundle.arriving is None
        _, filters = split_filters(kept.source)
        if is_as_said:  # first: what is drawn once need not be drawn again
            give_style(self.bundles.session.ensure_streamlines_layer(bundle), bundle.state)
        values = {
            "result": result,
            "edits": edited,
            "tractogram": result.whole if edited is None else edited.streamlines,
            "weights": kept.weights,
            "min_weight": sum(edit.least for edit in filters if edit.kind == "weights"),
            "source": None,
        }

        def arrive(now: Snapshot) -> Snapshot:
            """Give the bundle its streamlines, if it is as the project says."""
            state = now.bundles.get(bundle.id)
            is_other = state is None or state.source is None
            return now if is_other else now.replace(bundle.id, **values)

        self.bundles.history.amend(arrive, everywhere=True)  # no step: it was always there
        self.arrived.emit(arrive)

        def unedited(first: Snapshot) -> Snapshot:
            state = first.bundles.get(bundle.id)
            is_other = state is None or state.result is not result
            undone = acts.change(bundle.id, edits=None, tractogram=result.whole)
            return first if is_other else undone(first)

        if edited is not None:
            self.bundles.history.precede(f"Edit {bundle.name}", unedited)
        if is_as_said:
            self._show(bundle, kept, result, filters)
        else:
            self.problems.append(f"{bundle.name} was changed or tracked meanwhile, and stays so.")

    def _show(
        self, bundle: OpenBundle, kept: Bundle, result: Result, filters: Sequence[Edit]
    ) -> None:
        """Show the streamlines of a bundle, edited and filtered, and compare their digest."""
        layer = self.bundles.session.ensure_streamlines_layer(bundle)
        give_style(layer, bundle.state)  # colours, too, now that it has streamlines
        try:
            _filter(bundle, layer, filters, kept.source.folder)
        except TractographyError as error:
            self.problems.append(f"{kept.name}: {error}")
        if kept.digest and layer.tractogram.digest() != kept.digest:
            self.problems.append(
                f"{bundle.name} is not as it was saved: its digest differs; the log says more."
            )
            if isinstance(kept.source, Recipe):
                kept.source.check(layer.tractogram, result.report.backend)
        elif kept.digest:
            self.n_proven += 1
        self.bundles.followed.emit(bundle)

    def summary(self) -> str:
        """Return what was proved and what was not, in sentences."""
        n = sum(bool(bundle.digest) for bundle in self.project.bundles.values())
        if self.cancelled.is_set():
            return "Opening was cancelled: bundles without a count can be tracked with Run."
        have = "has" if n == 1 else "have"
        proven = f"{self.n_proven} of {plural(n, 'bundle')} {have} the digest that was saved"
        n_others = len(self.project.bundles) - n
        proven += f"; {n_others:,} saved without one." if n_others else "."
        if not n:
            proven = f"Opened {plural(len(self._bundles), 'bundle')}, saved without digests."
        return "\n".join([proven, *self.problems])


# Under way: of a panel that is closed nobody else has one, and without it the timer that brings its
# end would go as well.
_openings: set[Opening] = set()


def _track(opening: Opening, execution: Execution) -> Iterator[BundleProgress]:
    bundles = list(opening.project.bundles.values())
    yield BundleProgress(bundles[0].name, 0.0)
    try:
        for path in opening.project.changed_files():
            opening.problems.append(f"The file {path} is not what it was.")
        for path in opening.project.unasked_files():
            opening.problems.append(f"{path} was not looked at.")
    except Exception as error:  # the bundles may open all the same, or say what is wrong
        logger.exception("The files of a project could not be compared")
        opening.problems.append(f"Whether its files have changed is unknown: {error}; see the log.")
    for number, bundle in enumerate(bundles):
        if opening.cancelled.is_set():
            return
        yield BundleProgress(bundle.name, number / len(bundles))
        done = (number + 1) / len(bundles)
        try:
            result = None
            for item in _one(opening, bundle, execution):
                if isinstance(item, Result):
                    result = item
                else:
                    yield BundleProgress(bundle.name, (number + item) / len(bundles))
            if result is not None:
                yield _edited(bundle, done, result)
        except TractographyError as error:
            yield BundleProgress(bundle.name, done, problem=str(error))
        except Exception as error:  # a defect: logged in full, shown as a sentence
            logger.exception("%s could not be opened", bundle.name)
            yield BundleProgress(bundle.name, done, problem=f"{error}; see the log.")


def _one(opening: Opening, bundle: Bundle, execution: Execution) -> Iterator[float | Result]:
    """Track one bundle, or read its file; yield the fraction that is done, and at last that."""
    source = bundle.source
    if not isinstance(source, Recipe):
        yield Result(source.read())
        return
    asked = dataclasses.replace(source.fod, sha256="")
    if asked in opening.fods and asked not in bundle.fods:
        bundle.fods[asked] = opening.fods[asked], source.fod
    inputs, _ = source.read(hashed=False, fods=bundle.fods)
    parts: list[Tractogram] = []
    tried, wanted = 0, max(len(inputs.seeds), 1)
    report = Report()
    with closing(iter_chunks(inputs, execution, report=report)) as chunks:
        for chunk in chunks:
            if opening.cancelled.is_set():
                return
            parts.append(chunk)
            tried += chunk.n_seeds
            yield min(tried / wanted, 1.0)
    # Where it gives up early it has what those have that were cancelled.
    gives_up = inputs.max_seeds is not None and inputs.between is None
    seeding = seeding_of(source, inputs)
    if seeding is None:
        raise InvalidSeedsError("its seeds cannot be shown in the panel.")
    request = Request(
        fod=inputs.fod,
        seeding=seeding,
        parameters=inputs.parameters,
        mask=None if inputs.mask is None else np.asarray(inputs.mask, dtype=bool),
        regions=tuple(inputs.regions),
        include_rule=inputs.include_rule,
        tissues=inputs.tissues,
        select=inputs.select,
        execution=execution,
        arrived=Arrived(sum(map(len, parts)), tried) if gives_up else None,
    )
    yield Result(source.weighted(Tractogram.concatenate(parts)), request, report=report)


def _edited(bundle: Bundle, done: float, result: Result) -> BundleProgress:
    """Return streamlines with what the edits of their bundle leave of them."""
    edits, _ = split_filters(bundle.source)
    try:
        edited = EditState.after(result.whole, edits) if edits else None
    except TractographyError as error:
        return BundleProgress(bundle.name, done, result, problem=str(error))
    return BundleProgress(bundle.name, done, result, edited)


def split_filters(source: Source) -> tuple[tuple[Edit, ...], tuple[Edit, ...]]:
    """Return the edits of a bundle, and those at their end that the panel has as filters.

    These are the last regions, lengths and least weight; regions and lengths of a file only, as
    those of a recipe steer the tracking.
    """
    edits = source.edits
    wanted = ["weights"] if isinstance(source, Recipe) else ["weights", "lengths", "regions"]
    n = len(edits)
    while n and wanted and edits[n - 1].kind in wanted:
        last = edits[n - 1]
        if last.kind == "weights" and last.most is not None:
            break
        del wanted[: wanted.index(last.kind) + 1]
        n -= 1
    return edits[:n], edits[n:]


def seeding_of(recipe: Recipe, inputs: TrackingInput | None = None) -> Seeding | None:
    """Return where a recipe starts, as the panel has it; None of what it cannot show.

    Without `inputs`, its FOD, tissues and regions as they were read, only what needs none of them.
    """
    if inputs is not None and inputs.between is not None and inputs.select is not None:
        return SeedBetween(*inputs.between, inputs.select)
    kinds = {source.kind for source in recipe.seeds}
    if kinds == {"sphere"}:
        return SeedSpheres(
            np.array([source.center_mm for source in recipe.seeds], np.float64).reshape(-1, 3),
            np.array([source.radius_mm for source in recipe.seeds], np.float64),
            np.array([source.n for source in recipe.seeds], np.int64),
        )
    if len(recipe.seeds) != 1:
        return None
    (source,) = recipe.seeds
    if source.kind in ("mask", "voxels") and source.volume is not None:
        mask, grid = source.volume.load(recipe.folder)
        make = SeedMask if source.kind == "mask" else SeedVoxels.of
        return make(mask, grid, source.n, source.by or "list")
    if source.kind == "interface" and inputs is not None and inputs.tissues is not None:
        return SeedInterface(inputs.tissues, source.n)
    return SeedFod(source.n) if source.kind == "fod" else None


def state_of(
    bundle: Bundle, number: int, new_id: Callable[[], int], fod_layer: Layer | None = None
) -> BundleState:
    """Return a bundle of a project as the document has it; no streamlines yet.

    `number` is that of its row; `new_id` returns ids for its regions; the layer shows its FOD.
    """
    kept, source = bundle.look, bundle.source
    is_one_colour = bundle.colour.startswith("#")
    swatch = kept.get("swatch") or (bundle.colour if is_one_colour else "")
    # The mode of the bundle is the newer of two.
    mode = "one colour" if is_one_colour else bundle.colour
    chosen, seeds, rule = kept.get("by_hand"), PlacedSeeds(), "all"
    seeding = SeedingParameters(**kept.get("seeding", {}))
    display = dict(kept.get("display", {}))
    if not display.pop("slab_chosen", True):  # of older projects: the number is nobody's
        display["slab_mm"] = None
    regions: list[RegionSource] = []
    if isinstance(source, Recipe):
        regions += [*source.between, *source.regions]  # the first two are tracked between
        rule = source.include_rule
        chosen = _not_suited(source, fod_layer) if chosen is None else chosen
        seeding = seeding if kept.get("seeding") else _seeding_parameters(source)
        seeds = _placed_seeds(seeding_of(source), seeding)
    else:  # streamlines in a file: regions and lengths are what filters them
        chosen = dict(chosen or {})
        for edit in split_filters(source)[1]:
            if edit.kind == "regions":
                regions += edit.regions
                rule = edit.include_rule
            elif edit.kind == "lengths":
                limits = {"min_length_mm": edit.least, "max_length_mm": edit.most}
                chosen |= {name: value for name, value in limits.items() if value is not None}
    created = [region.make(source.folder) for region in regions]
    return BundleState(
        bundle.name,
        swatch or COLOURS[number % len(COLOURS)],
        is_visible=bundle.visible,
        path="" if isinstance(source, Recipe) else source.path,
        fod=LayerRef.to(fod_layer),
        seeds=seeds,
        regions=tuple(RegionState(new_id(), r.name, r.role, initial=r) for r in created),
        rule=rule,
        chosen=dict(chosen),
        seeding=seeding,
        style={**display, "colour_by": mode},
        source=source,
    )


def _placed_seeds(spheres: Seeding | None, seeding: SeedingParameters) -> PlacedSeeds:
    """Return the seeds of a recipe, with radii and numbers that are not those of all."""
    if not isinstance(spheres, SeedSpheres):
        return PlacedSeeds()
    is_radius, counts = spheres.radii_mm == seeding.radius_mm, spheres.counts.astype(np.float64)
    own = {
        "radius_mm": np.where(is_radius, np.nan, spheres.radii_mm),
        "n_per_seed": np.where(spheres.counts == seeding.n_per_seed, np.nan, counts),
    }
    return PlacedSeeds(spheres.positions_mm, own)


def _not_suited(source: Recipe, fod_layer: Layer | None) -> dict[str, Any]:
    """Return which parameters of a recipe do not suit its FOD: somebody chose them.

    All of them where that is unknown.
    """
    wanted, fod = source.parameters.to_dict(), fod_of(fod_layer)
    if fod is None:
        return wanted
    automatic = TrackingValues(fod, source.tissues is not None)
    of_algorithm: dict[str, Any] = {}
    if wanted["algorithm"] != automatic.parameters().algorithm:
        of_algorithm = {"algorithm": wanted["algorithm"]}  # which others go by
    suited = dataclasses.replace(automatic, chosen=of_algorithm).parameters().to_dict()
    differing = {name: value for name, value in wanted.items() if value != suited.get(name, ...)}
    others = {name: value for name, value in differing.items() if value is not None}
    found = dataclasses.replace(automatic, chosen={**of_algorithm, **others})
    try:
        return dict(found.chosen) if found.parameters() == source.parameters else wanted
    except InvalidParameterError:
        return wanted


def _seeding_parameters(recipe: Recipe) -> SeedingParameters:
    counted = STARTED if recipe.select is None else ACCEPTED
    if recipe.between:
        return SeedingParameters(source="between regions", n_total=recipe.select or 1)
    first = recipe.seeds[0]
    by, n = first.by or "list", first.n
    if first.kind == "sphere":
        return SeedingParameters(n_per_seed=n, radius_mm=first.radius_mm, counted=counted)
    if first.kind == "voxels":
        return SeedingParameters(source=EVERY_VOXEL, n_per_voxel=n, drawn_by=by)
    named = {"mask": "mask", "interface": "grey-white interface"}
    source, n = named.get(first.kind, "whole FOD"), recipe.select or n
    return SeedingParameters(source=source, n_total=n, counted=counted, drawn_by=by)


def _filter(
    bundle: OpenBundle, layer: Streamlines, filters: Sequence[Edit], folder: Path | None
) -> None:
    """Show what passes the filters alone, which for the active bundle the controls do as well."""
    base = layer.editor.base
    passing = np.ones(len(base), bool)
    regions: tuple[Region, ...] = ()
    rule, limits = "all", NO_LIMITS
    for edit in filters:
        passing &= np.isin(np.arange(len(base)), edit.kept(base, folder))
        if edit.kind == "regions":
            regions = tuple(region.make(folder) for region in edit.regions)
            rule = edit.include_rule
        elif edit.kind == "lengths":
            limits = edit.least, NO_LIMITS[1] if edit.most is None else edit.most
    layer.editor.filter(passing)
    if bundle.state.is_opened:
        bundle.amend(everywhere=True, filtered_by=(regions, rule, limits))
