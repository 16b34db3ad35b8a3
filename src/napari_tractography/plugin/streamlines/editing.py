"""Choosing among streamlines: keep only, delete, invert, with undo and redo.

Each streamlines layer has an editor; mouse, keys and the panel's buttons call it. The layer shows
the result; what it showed before is kept, as numbers in the tractogram that the edits began with.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from psygnal import Signal

from ...tractogram import Tractogram

MAX_UNDO = 50


class EditedLayer(Protocol):
    """What an editor asks of the layer that it edits.

    Attributes
    ----------
    tractogram : Tractogram
        The streamlines.
    events : napari.utils.events.EmitterGroup
        With the events ``selected`` and ``tractogram``.
    """

    tractogram: Tractogram
    events: Any

    @property
    def n_all(self) -> int:
        """Number of all streamlines."""

    @property
    def selected(self) -> NDArray[np.int64]:
        """(n_selected,) int64, rising: numbers of the selected streamlines."""

    @selected.setter
    def selected(self, numbers: ArrayLike) -> None: ...


class Editor:
    """Edits of one streamlines layer.

    Parameters
    ----------
    layer : EditedLayer
        That makes this editor, and calls :meth:`begin` before it shows another tractogram.
    """

    changed = Signal()  # the selection, or what can be undone
    edited = Signal()  # the streamlines

    def __init__(self, layer: EditedLayer) -> None:
        self.layer = layer
        self._busy = False
        self._whole: Tractogram | None = None  # as long as nothing is edited
        self._kept = np.empty(0, dtype=bool)
        self._past: list[NDArray[np.uint8]] = []  # packed: an edit of a million takes 125 kB
        self._future: list[NDArray[np.uint8]] = []
        layer.events.selected.connect(self._on_layer)
        layer.events.tractogram.connect(self._on_layer)

    def begin(self) -> None:
        """Forget all edits: the layer is about to show something else, unless by an edit."""
        if not self._busy:
            self._whole = None
            self._past, self._future = [], []

    @property
    def whole(self) -> Tractogram:
        """What the edits began with."""
        return self.layer.tractogram if self._whole is None else self._whole

    @property
    def kept(self) -> NDArray[np.int64]:
        """(n_streamlines,) int64: the numbers, in :attr:`whole`, of what the layer shows."""
        if self._whole is None:
            return np.arange(self.layer.n_all)
        return np.flatnonzero(self._kept)

    @property
    def is_edited(self) -> bool:
        """Whether the layer shows less than the edits began with."""
        return self._whole is not None and not bool(self._kept.all())

    @property
    def n_selected(self) -> int:
        """Number of selected streamlines."""
        return len(self.layer.selected)

    @property
    def can_undo(self) -> bool:
        """Whether there is an edit to undo."""
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        """Whether there is an edit to make again."""
        return bool(self._future)

    def select(self, number: int | None, *, extend: bool = False) -> None:
        """Select one streamline, or none; `extend` adds it, or takes it out again."""
        chosen = np.array([] if number is None else [number], dtype=np.int64)
        if extend:
            chosen = np.setxor1d(self.layer.selected, chosen)
        self.layer.selected = chosen

    def clear(self) -> None:
        """Select nothing."""
        self.select(None)

    def invert(self) -> None:
        """Select what is not selected."""
        rest = np.ones(self.layer.n_all, dtype=bool)
        rest[self.layer.selected] = False
        self.layer.selected = np.flatnonzero(rest)

    def keep_selected(self) -> None:
        """Show the selected streamlines only."""
        selected = self.layer.selected
        if 0 < len(selected) < self.layer.n_all:
            self._apply(self.kept[selected])

    def delete_selected(self) -> None:
        """Show all but the selected streamlines."""
        if self.n_selected:
            self._apply(np.delete(self.kept, self.layer.selected))

    def undo(self) -> None:
        """Undo the last edit."""
        if self._past:
            self._future.append(np.packbits(self._kept))
            self._show(self._past.pop())

    def redo(self) -> None:
        """Make the edit again that was undone."""
        if self._future:
            self._past.append(np.packbits(self._kept))
            self._show(self._future.pop())

    def summary(self) -> str:
        """Return what is left, in a line."""
        n, n_whole = self.layer.n_all, len(self.whole)
        if not n:
            return f"All {n_whole:,} streamlines are deleted; Undo brings them back."
        mean = f"mean length {self.layer.tractogram.lengths_mm.mean():.1f} mm"
        if n == n_whole:
            return f"<b>All {n:,} streamlines</b> again, {mean}"
        return f"<b>{n:,} of {n_whole:,} streamlines</b> kept, {mean}"

    def selected_tractogram(self) -> Tractogram:
        """Return the selected streamlines."""
        return self.layer.tractogram[self.layer.selected]

    def _apply(self, kept: NDArray[np.int64]) -> None:
        if self._whole is None:
            self._whole = self.layer.tractogram
            self._kept = np.ones(len(self._whole), dtype=bool)
        mask = np.zeros(len(self.whole), dtype=bool)
        mask[kept] = True
        self._past = [*self._past[-MAX_UNDO + 1 :], np.packbits(self._kept)]
        self._future = []
        self._show(np.packbits(mask))

    def _show(self, packed: NDArray[np.uint8]) -> None:
        self._kept = np.unpackbits(packed, count=len(self.whole)).astype(bool)
        self._busy = True
        try:
            self.layer.tractogram = self.whole[self._kept] if self.is_edited else self.whole
        finally:
            self._busy = False
        self.edited.emit()
        self.changed.emit()

    def _on_layer(self, _event: Any = None) -> None:
        if not self._busy:
            self.changed.emit()
