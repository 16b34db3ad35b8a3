"""The document behind a window: one immutable snapshot of all bundles, and the way back.

A :class:`Snapshot` says everything about the bundles that a project file says, and their results.
What a person does is an act: a function from snapshot to snapshot with a name (:mod:`.acts`), done
by :meth:`Document.act` and undone in the order in which it was done, whatever it was. Layers and
widgets show the snapshot of now; none of them holds state that matters.

Nothing here knows a viewer, a layer or a widget.
"""

from __future__ import annotations

import dataclasses
import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from ..geometry.grid import Grid
from ..model.regions import Region
from ..model.seeding_parameters import SeedingParameters
from ..recipes.bundle import Source
from ..recipes.tractogram_sources import WeightsSource
from ..streamlines.tractogram import Tractogram
from ..tracking.report import Report
from .flag import Flag
from .requests import Request
from .streamlines.editing import EditState

MAX_STEPS = 200
RESULT_BYTES = 2 * 2**30  # of streamlines that steps may hold beside those of now
SAME_SECONDS = 1.0  # values of one control that follow each other so closely are one step
ANY_KEY = object()  # of a gesture in one control, before it set anything
# Told apart by people with a red-green weakness, on black and on white (Okabe and Ito, 2008).
COLOURS = ("#ffc747", "#56b4e9", "#e0609a", "#2fb88a", "#e8743b", "#8f8df0", "#b5d334", "#4d8fd1")
NO_LIMITS = (0.0, float("inf"))


class LayerRef:
    """Data that a bundle is tracked with, by the layer that shows them; they may be closed.

    The layer is not kept alive: a bundle still says what it was tracked in when that is gone.
    One layer has one reference. Of an FOD that is being read `instead` is what was chosen before,
    should nothing come of it.
    """

    _known: ClassVar[weakref.WeakKeyDictionary[Any, LayerRef]] = weakref.WeakKeyDictionary()

    def __init__(self, layer: Any) -> None:
        self.name = str(layer.name)
        self.path = str(layer.metadata.get("path") or layer.source.path or "")
        self.instead: LayerRef | None = None
        self._reading = _reading_of(layer)
        self._layer = weakref.ref(layer)

    def is_like(self, other: LayerRef | None) -> bool:
        """Return whether both are of one file, and as far as is known read in the same way."""
        if other is None or not self.path or self.path != other.path:
            return False
        return not self._reading or not other._reading or self._reading == other._reading

    @classmethod
    def to(cls, layer: Any) -> Any:
        """Return the reference to a layer; None of None."""
        if layer is None:
            return None
        ref = cls._known.get(layer)
        if ref is None:
            ref = cls._known[layer] = cls(layer)
        return ref

    @classmethod
    def known(cls, layer: Any) -> LayerRef | None:
        """Return the reference to a layer, if there is one."""
        return cls._known.get(layer)

    def layer_in(self, viewer: Any) -> Any:
        """Return the layer, or None where it is no longer in the viewer."""
        layer = self._layer()
        if layer is None or layer not in viewer.layers:
            return None
        self.name, self._reading = str(layer.name), _reading_of(layer)
        return layer


def _reading_of(layer: Any) -> Any:
    """Return how the file of a layer that shows an FOD is read; none while that is not known."""
    held = layer.metadata.get("fod")
    fod = getattr(held, "fod", held)  # of one that was, or is, being read
    return fod and (fod.basis, fod.frame, fod.vector_reading)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedSeeds:
    # (n, 3) float64: RAS+ mm.
    positions_mm: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 3)))
    # mapping of str to (n,) float64: radius and number that seeds have of their own; NaN for the
    # value that all have in common.
    own: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.positions_mm)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RegionState:
    """A region at one time."""

    id: int  # by which its layer knows it
    name: str
    role: str  # what it does, see model.roles.ROLES
    label: int | None = None  # of a labels layer: which label counts; None for all but 0
    is_inactive: bool = False  # it was placed, and neither moved nor confirmed: not in use yet
    # Of spheres, (n, 4) float64: centres, RAS+ mm, and radii, mm; empty for labels.
    spheres: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 4)))
    painted: Painted | None = None  # of labels that were made to be painted
    initial: Region | None = None  # what its layer is made of when the region is first shown


@dataclass(frozen=True, slots=True, eq=False)
class Painted:
    """What is painted in a layer: the box that is not zero. Shared between snapshots."""

    first: tuple[int, ...]  # where the box begins
    values: NDArray[Any]  # labels in the box, which is as the layer's own array is

    @classmethod
    def of(cls, data: NDArray[Any]) -> Painted:
        """Keep a copy of what is painted."""
        ends = []
        for axis in range(data.ndim):
            others = tuple(other for other in range(data.ndim) if other != axis)
            inside = np.flatnonzero(data.any(axis=others))
            ends.append((int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0))
        values = data[tuple(slice(*end) for end in ends)].copy()
        values.setflags(write=False)
        return cls(tuple(first for first, _ in ends), values)

    def written(self, like: NDArray[Any]) -> NDArray[Any]:
        """Return an array as `like` that holds this and nothing else."""
        array = np.zeros_like(like)
        box = zip(self.first, self.values.shape, strict=True)
        array[tuple(slice(first, first + n) for first, n in box)] = self.values
        return array

    def equals(self, other: Painted | None) -> bool:
        return (
            other is not None
            and self.first == other.first
            and np.array_equal(self.values, other.values)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a run gave, or a file held."""

    whole: Tractogram  # before all edits
    request: Request | None = None  # what gave it; None of a file
    reference: Grid | None = None  # of the FOD in which that of a file was tracked
    seconds: float = 0.0  # how long that took
    report: Report = field(default_factory=Report)  # what tracked it, and where the time went

    @property
    def grid(self) -> Grid | None:
        """Of the FOD in which it was tracked, where that is known."""
        return self.reference if self.request is None else self.request.fod.grid


@dataclass(frozen=True, slots=True, eq=False)
class BundleState:
    """A bundle at one time: all that a project says of it, and its result."""

    name: str = "Bundle 1"
    # "#rrggbb", of its row in the list, and of its streamlines where they have one colour.
    colour: str = COLOURS[0]
    is_visible: bool = True
    # The file that its streamlines were opened from; "" for a bundle that is tracked.
    path: str = ""
    # fod, mask, seed_mask, tissues: what it is tracked in and with.
    fod: LayerRef | None = None
    mask: LayerRef | None = None
    seed_mask: LayerRef | None = None
    tissues: LayerRef | None = None
    n_mask_changes: int = 0  # how often voxels of its masks were painted, which layers alone hold
    seeds: PlacedSeeds = field(default_factory=PlacedSeeds)
    regions: tuple[RegionState, ...] = ()
    rule: str = "all"  # of the include regions, see model.roles.INCLUDE_RULES
    # The regions, by id, that were chosen to be tracked between.
    between: tuple[int, int] | None = None
    # Tracking parameters as a person chose them; all others suit the FOD.
    chosen: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seeding: SeedingParameters = field(default_factory=SeedingParameters)
    # Of the Display section.
    style: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    result: Result | None = None  # what the last run gave
    edits: EditState | None = None  # what was done to the result by hand
    tractogram: Tractogram | None = None  # the result as it is shown, edited and filtered
    weights: WeightsSource | None = None  # where the weights of its streamlines come from
    min_weight: float = 0.0  # streamlines of less are not shown
    # Of streamlines that were opened: the regions, their rule and the lengths in mm that filter out
    # what is shown.
    filtered_by: tuple[tuple[Region, ...], str, tuple[float, float]] = ((), "all", NO_LIMITS)
    summary: str = ""  # what the panel says of the result; "" for no more than can be seen of it
    fruitless: Request | None = None  # the last run without streamlines, which kept those of before
    # What a project says of it, as long as it was neither tracked nor changed here. Of streamlines
    # in a file that is not read yet whatever is changed, as that file is all that there is of them.
    source: Source | None = None

    def blank(self, name: str, colour: str) -> BundleState:
        """Return a bundle without seeds, regions and streamlines, set as this one."""
        kept = ("fod", "mask", "seed_mask", "tissues", "chosen", "seeding", "style")
        return BundleState(name, colour, **{each: getattr(self, each) for each in kept})

    @property
    def is_opened(self) -> bool:
        """Whether its streamlines came from elsewhere: there is nothing to track."""
        return bool(self.path)

    @property
    def is_blank(self) -> bool:
        """Whether nothing was done in it: no seeds, no regions, no streamlines."""
        return not (self.path or len(self.seeds) or self.regions or self.result or self.source)

    @property
    def result_request(self) -> Request | None:
        """What gave its streamlines, before they were edited; None of a file."""
        return None if self.result is None else self.result.request

    @property
    def steering(self) -> tuple[RegionState, ...]:
        """The regions without cavities, which change no streamline."""
        return tuple(region for region in self.regions if region.role != "resect")

    def region(self, number: int) -> RegionState | None:
        return next((region for region in self.regions if region.id == number), None)


# What a run depends on, besides `steering`: where it changes, what is shown is no longer what would
# be tracked.
TRACKED_WITH = (
    "fod", "mask", "seed_mask", "tissues", "seeds", "rule", "between", "chosen", "seeding", "path",
)  # fmt: skip


# What the source of a bundle that is to be tracked says.
SAID_BY_SOURCE = {*TRACKED_WITH, "n_mask_changes", "regions"}


# What a project does not say of a bundle: its streamlines follow from the rest.
NOT_SAVED = {"result", "tractogram", "filtered_by", "summary", "fruitless", "source"}


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All bundles at one time."""

    # By id, in the order of the list, which is that of drawing; never empty.
    bundles: Mapping[int, BundleState]
    active: int  # the bundle that the panel shows and changes

    @property
    def bundle(self) -> BundleState:
        """The active bundle."""
        return self.bundles[self.active]

    def replace(self, number: int | None = None, **changes: Any) -> Snapshot:
        """Return the snapshot with other values of a bundle, by default the active one.

        The same snapshot comes back where nothing differs, or the bundle is not there. A bundle
        that is to be tracked otherwise is no longer as its project says, unless `source` is given.
        """
        number = self.active if number is None else number
        state = self.bundles.get(number)
        if state is None:
            return self
        differing = {n for n, v in changes.items() if not _same(getattr(state, n), v)}
        if not differing:
            return self
        if differing & SAID_BY_SOURCE and not state.is_opened:
            changes.setdefault("source", None)
        changed = dataclasses.replace(state, **changes)
        return Snapshot({**self.bundles, number: changed}, self.active)


def same_project(one: Snapshot, other: Snapshot) -> bool:
    """Return whether two snapshots are saved as the same project, but for the view."""
    if list(one.bundles) != list(other.bundles):
        return False
    return all(
        now is then or _same_saved(now, then)
        for now, then in zip(one.bundles.values(), other.bundles.values(), strict=True)
    )


def _same_saved(one: BundleState, other: BundleState) -> bool:
    names = (each.name for each in dataclasses.fields(BundleState))
    arrived = [s.result and s.result.request and s.result.request.arrived for s in (one, other)]
    # An FOD is saved as its file, from which it may have been opened again.
    is_same_fod = one.fod is not None and one.fod.is_like(other.fod)
    skipped = NOT_SAVED | ({"fod"} if is_same_fod else set())
    return arrived[0] == arrived[1] and all(
        _same(getattr(one, name), getattr(other, name)) for name in names if name not in skipped
    )


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done."""

    text: str  # what, to be read by a person: "Move seed 2"
    other: Snapshot  # how it was before, of what was done; how it is afterwards, of what was undone
    key: Any = None  # of the control that did it, where values of a control follow each other


class Document:
    """The snapshot of now, and the steps to those before and after it."""

    changed = Signal(object, object)  # Snapshot before, Snapshot now
    history_changed = Signal()

    def __init__(self) -> None:
        self._last_id = 0
        first = self.new_id()
        self.now = Snapshot({first: BundleState()}, first)
        self.is_travelling = Flag()  # whether `changed` is emitted for undo or redo
        self._past: list[Step] = []
        self._future: list[Step] = []
        self._held: Step | None = None  # what a gesture under way began with
        self._control: object = None  # in which it is
        self._is_one_step = Flag()  # whether several acts are being made one
        self.no_step = Flag()  # within it acts are no steps, as of controls set to what was kept
        self._acted_at = 0.0

    def new_id(self) -> int:
        """Return a number that no bundle and no region had before."""
        self._last_id += 1
        return self._last_id

    # -- acting --------------------------------------------------------------------------------

    def act(self, text: str, change: Callable[[Snapshot], Snapshot], *, key: Any = None) -> bool:
        """Do something that can be undone; return whether anything changed.

        `text` says what: "Move seed 2". `change` goes from the snapshot of now to the one after it,
        the same one where nothing changes. Values of one `key` that follow each other closely are
        one step.
        """
        before, now = self.now, change(self.now)
        if now is before:
            return False
        if self.no_step:
            self._go(now)
            return True
        if self._held is not None and self._held.key not in (None, ANY_KEY, key):
            self.release()  # something else is done, and the control was not left
        if self._held is None:
            self._note(Step(text, before, key))
        else:
            is_other, is_of_one = text != self._held.text, self._held.key is not None
            self._held = Step(text, self._held.other, key if is_of_one else None)
            if is_other:
                self.history_changed.emit()
        self._go(now)
        self._bound()
        return True

    def amend(self, change: Callable[[Snapshot], Snapshot], *, everywhere: bool = False) -> None:
        """Change what is no step of its own: what follows by itself from what was done.

        Snapshots before and after are changed, too, if it is `everywhere`, so that undo does not
        lose it.
        """
        if everywhere:
            for steps in (self._past, self._future):
                steps[:] = [Step(s.text, change(s.other), s.key) for s in steps]
            if self._held is not None:
                self._held = Step(self._held.text, change(self._held.other), self._held.key)
        self._go(change(self.now))

    def _note(self, step: Step) -> None:
        at, self._acted_at = self._acted_at, time.monotonic()
        last = self._past[-1] if self._past else None
        goes_on = step.key is not None and last is not None and last.key == step.key
        if goes_on and self._acted_at - at < SAME_SECONDS and last is not None:
            step = Step(step.text, last.other, step.key)
            self._past.pop()
        self._past = [*self._past[1 - MAX_STEPS :], step]
        self._future = []
        self._bound()  # of a gesture, after which all is as it is now
        self.history_changed.emit()

    def hold(self, control: object = None) -> None:
        """Begin a gesture: all that is done until :meth:`release` is one step.

        Of a control that is being typed in an act of another key than the first one, and another
        gesture, end this one, too, as there is no telling whether the control is left.
        """
        if control is not self._control:
            self.release()
        if self._held is None:
            self._held = Step("", self.now, None if control is None else ANY_KEY)
            self._control = control

    def release(self, control: object = None) -> None:
        """End a gesture, or that of a control; where nothing was done in it there is no step.

        Acts that are being made one step stay so.
        """
        if self._is_one_step or (control is not None and control is not self._control):
            return
        held, self._held, self._control = self._held, None, None
        if held is not None and held.text and held.other is not self.now:
            self._note(Step(held.text, held.other))

    def take_back(self, control: object) -> None:
        """End the gesture of a control, and bring back what was before it: that is no step."""
        if self._held is None or control is not self._control:
            return
        held, self._held, self._control = self._held, None, None
        if held.text:
            with self.is_travelling:
                self._go(held.other)
            self.history_changed.emit()

    @property
    def is_held(self) -> bool:
        """Whether a gesture is under way."""
        return self._held is not None

    @contextmanager
    def one_step(self, text: str) -> Iterator[None]:
        """Make one step of several acts, by the name of the whole."""
        outer = self.is_held and self._control is None
        if not outer:
            self.hold()
        before = self.now
        try:
            with self._is_one_step if not outer else nullcontext():
                yield
        finally:
            if not outer:
                self._held = None
                if self.now is not before:
                    self._note(Step(text, before))

    # -- the way back --------------------------------------------------------------------------

    @property
    def last(self) -> str:
        """What :meth:`undo` undoes; "" where there is nothing."""
        if self._is_in_gesture and self._held is not None:
            return self._held.text
        return self._past[-1].text if self._past else ""

    @property
    def next(self) -> str:
        """What :meth:`redo` does again; "" where there is nothing."""
        return self._future[-1].text if self.can_redo else ""

    @property
    def can_undo(self) -> bool:
        return bool(self._past) or self._is_in_gesture

    @property
    def can_redo(self) -> bool:
        """Whether something was undone and nothing done since."""
        return bool(self._future) and not self._is_in_gesture

    @property
    def _is_in_gesture(self) -> bool:
        """Whether something was done in a gesture that has not ended."""
        return self._held is not None and bool(self._held.text)

    def undo(self) -> None:
        self.release()
        self._travel(self._past, self._future)

    def redo(self) -> None:
        self.release()
        self._travel(self._future, self._past)

    def _travel(self, away: list[Step], back: list[Step]) -> None:
        if not away:
            return
        step = away.pop()
        back.append(Step(step.text, self.now))
        self._acted_at = -math.inf  # what is done next follows nothing
        with self.is_travelling:
            self._go(step.other)
        self.history_changed.emit()

    def begin(self, now: Snapshot) -> None:
        """Show something else, such as another project; what was done before is forgotten."""
        self._held = self._control = None
        self._past, self._future = [], []
        self._go(now)
        self.history_changed.emit()

    def forget(self) -> None:
        """Let go of all steps, and of what they hold."""
        self._past, self._future, self._held, self._control = [], [], None, None
        self.history_changed.emit()

    def precede(self, text: str, change: Callable[[Snapshot], Snapshot]) -> None:
        """Put a step before all others, such as what was done before a project was saved.

        `change` goes from the first snapshot that there is, which follows that step, to the one
        before it.
        """
        steps = [*self._past, *filter(None, [self._held])]
        first = steps[0].other if steps else self.now
        before = change(first)
        if before is not first:
            self._past = [Step(text, before), *self._past]
            self.history_changed.emit()

    def _go(self, now: Snapshot) -> None:
        before, self.now = self.now, now
        if now is not before:
            self.changed.emit(before, now)

    def bundles_of_all_steps(self) -> Iterator[tuple[int, BundleState]]:
        """Yield each bundle, by its id, as it is now and as any step has it."""
        steps = [*self._past, *self._future, *filter(None, [self._held])]
        known = set[int]()
        for snapshot in (self.now, *(step.other for step in steps)):
            for number, state in snapshot.bundles.items():
                if id(state) not in known:
                    known.add(id(state))
                    yield number, state

    def _bound(self) -> None:
        """Drop the oldest steps where streamlines that they alone hold take too much memory."""
        known = {id(each) for state in self.now.bundles.values() for each in _held_by(state)}
        left = RESULT_BYTES
        for index in range(len(self._past) - 1, -1, -1):
            for state in self._past[index].other.bundles.values():
                for tractogram in _held_by(state):
                    if id(tractogram) not in known:
                        known.add(id(tractogram))
                        left -= tractogram.held_bytes
            if left < 0:
                self._past = self._past[index + 1 :]
                self.history_changed.emit()
                return


def _held_by(state: BundleState) -> Iterator[Tractogram]:
    """Yield a bundle's streamlines, as they were tracked and as they are shown."""
    if state.result is not None:
        yield state.result.whole
    if state.tractogram is not None:
        yield state.tractogram


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return False
    plain = (str, bool, int, float, tuple, SeedingParameters, Mapping)
    return isinstance(one, plain) and isinstance(other, plain) and bool(one == other)
