"""Choosing among streamlines: keep only, delete, cut, invert, with undo and redo.

Each streamlines layer has an editor; mouse, keys and the panel's buttons call it. The layer shows
the result. Edits are data, :class:`~napari_tractography.recipes.edits.Edit`, which recipes keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from psygnal import Signal

from ...errors import InvalidParameterError
from ...geometry.units import MM, length_text
from ...recipes.edits import BY_NUMBER, Edit
from ...streamlines.tractogram import Tractogram
from ..flag import Flag
from ..words import plural

MAX_UNDO = 50


@dataclass(frozen=True, slots=True, eq=False)
class EditState:
    """What is left after some edits; never changed, so that steps may share it."""

    base: Tractogram  # after the edits `before`
    before: tuple[Edit, ...]  # up to the last one that did more than choose among streamlines
    # (n_streamlines / 8,) uint8: which of the base are kept, packed: an edit of a million takes 125
    # kB.
    kept: NDArray[np.uint8]

    @classmethod
    def of(cls, base: Tractogram, before: tuple[Edit, ...] = ()) -> EditState:
        return cls(base, before, np.packbits(np.ones(len(base), dtype=bool)))

    @classmethod
    def after(cls, whole: Tractogram, edits: Sequence[Edit]) -> EditState:
        """Return what edits leave of streamlines.

        Raises TractographyError when they belong to others.
        """
        state = cls.of(whole)
        for edit in edits:
            state = _after(state, edit)
        return state

    @property
    def streamlines(self) -> Tractogram:
        mask = self.mask
        return self.base if mask.all() else self.base.chosen(np.flatnonzero(mask))

    def choosing(self, mask: NDArray[np.bool_]) -> EditState:
        """Keep other streamlines of the same base."""
        return EditState(self.base, self.before, np.packbits(mask))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """(n_streamlines,) bool: which of the base are kept."""
        return np.unpackbits(self.kept, count=len(self.base)).astype(bool)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All of them, those that choose as one."""
        mask = self.mask
        return self.before if mask.all() else (*self.before, Edit.keep(np.flatnonzero(mask)))


class Editor:
    """Edits of one streamlines layer, and what is filtered out of it for the time being.

    The layer makes it, and calls :meth:`begin` before it shows another tractogram.
    """

    changed = Signal()  # the selection, or what can be undone
    edited = Signal()  # the streamlines
    refused = Signal(str)  # the name of a command whose key found nothing to do

    def __init__(self, layer: Any) -> None:
        self.layer = layer  # Streamlines
        # Document that the layer belongs to, where undo and redo go; None for steps of its own.
        self.history: Any = None
        self.is_showing = Flag()  # whether the layer is being given what edits have left
        self._whole: Tractogram | None = None  # as long as nothing is edited
        self._state: EditState | None = None  # as _whole
        self._passing: NDArray[np.bool_] | None = None  # of the base; None: all
        self._past: list[EditState] = []
        self._future: list[EditState] = []
        layer.events.selected.connect(self._on_layer)
        layer.events.tractogram.connect(self._on_layer)

    def take_over(self, other: Editor) -> None:
        """Begin with the edits of another layer that shows the same, as a duplicate does."""
        self._whole, self._state, self._passing = other._whole, other._state, other._passing
        self._past, self._future = list(other._past), list(other._future)
        self.changed.emit()

    def begin(self) -> None:
        """Forget all edits: the layer is about to show something else, unless by an edit."""
        if not self.is_showing:
            self._whole = self._state = self._passing = None
            self._past, self._future = [], []

    @property
    def whole(self) -> Tractogram:
        """What the edits began with."""
        return self.layer.tractogram if self._whole is None else self._whole

    @property
    def base(self) -> Tractogram:
        """What :attr:`kept` are numbers of: the whole, until it is cut."""
        return self.layer.tractogram if self._state is None else self._state.base

    @property
    def kept(self) -> NDArray[np.int64]:
        """(n_streamlines,) int64: the numbers, in :attr:`base`, of what the layer shows."""
        if self._state is None:
            return np.arange(self.layer.n_all)
        mask = self._state.mask
        return np.flatnonzero(mask if self._passing is None else mask & self._passing)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What was done to :attr:`whole`, as data; filters are no part of it."""
        return () if self._state is None else self._state.edits

    @edits.setter
    def edits(self, edits: Sequence[Edit]) -> None:
        """Do these instead, as one step; what belongs to other streamlines raises."""
        self._go(EditState.after(self.whole, edits))

    @property
    def is_edited(self) -> bool:
        """Whether the layer shows something else than the edits began with, filters aside."""
        return self.is_cut or (self._state is not None and not self._state.mask.all())

    @property
    def is_cut(self) -> bool:
        """Whether edits did more than choose among streamlines."""
        return self._state is not None and bool(self._state.before)

    @property
    def n_selected(self) -> int:
        return len(self.layer.selected)

    @property
    def can_undo(self) -> bool:
        return bool(self._past) if self.history is None else self.history.can_undo

    @property
    def can_redo(self) -> bool:
        return bool(self._future) if self.history is None else self.history.can_redo

    @property
    def state(self) -> EditState | None:
        """What is left, filters aside; None where nothing was edited."""
        return self._state if self.is_edited else None

    def show(self, whole: Tractogram, state: EditState | None) -> None:
        """Show a result, with what was edited of it, as it was before or elsewhere.

        Filters stay where the streamlines are the same.
        """
        passing = self._passing if self._state is not None else None
        if passing is not None and (whole if state is None else state.base) is not self.base:
            passing = None
        if state is None and passing is None:
            self.layer.tractogram = whole  # which forgets all edits
            return
        self._whole, self._passing = whole, passing
        self._past, self._future = [], []
        self._state = EditState.of(whole) if state is None else state
        self._show(self._state)

    def select(self, number: int | None, *, extend: bool = False) -> None:
        """Select one streamline, or none; `extend` adds it, or takes it out again."""
        chosen = np.array([] if number is None else [number], dtype=np.int64)
        if extend:
            chosen = np.setxor1d(self.layer.selected, chosen)
        self.layer.selected = chosen

    def clear(self) -> None:
        self.select(None)

    def invert(self) -> None:
        """Select what is not selected."""
        rest = np.ones(self.layer.n_all, dtype=bool)
        rest[self.layer.selected] = False
        self.layer.selected = np.flatnonzero(rest)

    def keep_selected(self) -> None:
        selected = self.layer.selected
        if 0 < len(selected) < self.layer.n_all:
            self._choose(self.kept[selected], is_kept=True)

    def show_some(self, numbers: ArrayLike) -> None:
        """Show some of the streamlines that are shown, by number, and no others."""
        self._choose(self.kept[np.asarray(numbers, dtype=np.int64)], is_kept=True)

    def delete_selected(self) -> None:
        """Show all but the selected streamlines."""
        if self.n_selected:
            self._choose(self.kept[self.layer.selected], is_kept=False)

    def cut(self, point_mm: Sequence[float], normal: Sequence[float]) -> None:
        """Cut off what lies beyond a plane; see :meth:`Edit.cut`."""
        self.take_cut(self.after_cut(point_mm, normal)())

    def after_cut(
        self, point_mm: Sequence[float], normal: Sequence[float]
    ) -> Callable[[], EditState]:
        """Return what works out such a cut, in any thread: of millions of points it takes seconds.

        What it returns is for :meth:`take_cut`, as long as the layer shows the same streamlines.
        """
        return partial(_after, self._begun(), Edit.cut(point_mm, normal))

    def take_cut(self, cut: EditState) -> None:
        """Show what a cut has left, unless it cut nothing."""
        if cut.base is not self._begun().base:
            self._passing = None  # of other streamlines
            self._go(cut)

    def filter(self, passing: NDArray[np.bool_] | None) -> None:
        """Show only some streamlines of :attr:`base` for the time being; None shows all.

        This is no edit: it is neither undone nor forgotten by undo.
        """
        if passing is not None and passing.all():
            passing = None
        before = self._passing
        if passing is before:
            return
        if passing is None or before is None or not np.array_equal(passing, before):
            self._state = self._begun()
            self._passing = passing
            self._show()

    def weigh(self, weights: ArrayLike | None) -> None:
        """Give :attr:`whole` other weights, or none; edits are made again, and cannot be undone.

        Raises InvalidTractogramError when they do not fit.
        """
        whole = self.whole.with_weights(weights)
        self._state = EditState.after(whole, self.edits)
        self._whole, self._past, self._future = whole, [], []
        self._show()

    def undo(self) -> None:
        """Undo the last edit, or the last step of the document that the layer belongs to."""
        if self.history is not None:
            self.history.undo()
        elif self._past:
            self._future.append(self._begun())
            self._show(self._past.pop())

    def redo(self) -> None:
        if self.history is not None:
            self.history.redo()
        elif self._future:
            self._past.append(self._begun())
            self._show(self._future.pop())

    def summary(self, unit: str = MM) -> str:
        """Return what is left, in a line, with lengths in a unit."""
        n, n_whole = self.layer.n_all, len(self.whole)
        if not n and self._passing is not None:
            return f"None of {plural(n_whole, 'streamline')} passes the regions and lengths."
        if not n:
            return f"All of {plural(n_whole, 'streamline')} are deleted; Undo brings them back."
        mean_mm = float(self.layer.tractogram.lengths_mm.mean())
        mean = f"mean length {length_text(mean_mm, unit)}"
        if self.is_cut:
            return f"<b>{plural(n, 'streamline')}</b> after cutting, {mean}"
        if n == n_whole:
            return f"<b>All {plural(n, 'streamline')}</b> again, {mean}"
        return f"<b>{n:,} of {plural(n_whole, 'streamline')}</b> kept, {mean}"

    def selected_tractogram(self) -> Tractogram:
        selected: Tractogram = self.layer.tractogram[self.layer.selected]
        return selected

    def _begun(self) -> EditState:
        """Return the state of now, the first one where nothing was edited."""
        if self._state is None:
            self._whole = self.layer.tractogram
            self._state = EditState.of(self._whole)
        return self._state

    def _choose(self, numbers: NDArray[np.int64], *, is_kept: bool) -> None:
        state = self._begun()
        mask = np.zeros(len(state.base), dtype=bool)
        mask[numbers] = True
        self._go(state.choosing(mask if is_kept else state.mask & ~mask))

    def _go(self, state: EditState) -> None:
        before = self._begun()
        if self.history is None:
            self._past, self._future = [*self._past[-MAX_UNDO + 1 :], before], []
        self._show(state)

    def _show(self, state: EditState | None = None) -> None:
        now = self._begun()
        state = now if state is None else state
        if state.base is not now.base:
            self._passing = None
        self._state = state
        with self.is_showing:
            kept = self.kept
            whole = len(kept) == len(state.base)
            self.layer.tractogram = state.base if whole else state.base.chosen(kept)
        self.edited.emit()
        self.changed.emit()

    def _on_layer(self, _event: Any = None) -> None:
        if not self.is_showing:
            self.changed.emit()


def _after(state: EditState, edit: Edit) -> EditState:
    """Return what an edit makes of what is left."""
    if edit.kind in BY_NUMBER:
        left, chosen = np.flatnonzero(state.mask), edit.chosen
        if len(chosen) and chosen[-1] >= len(left):
            raise InvalidParameterError(
                f"The edit names streamline {chosen[-1]}, but there are {len(left)}; it belongs to "
                "other streamlines."
            )
        mask = np.zeros(len(state.base), dtype=bool)
        mask[left[chosen]] = True
        return state.choosing(mask if edit.kind == "keep" else state.mask & ~mask)
    mask = state.mask
    now = state.base if mask.all() else state.base[mask]
    created = edit.apply(now)
    if created is now:
        return state
    return EditState.of(created, (*state.edits, edit))
