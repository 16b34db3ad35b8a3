"""Choosing among streamlines: select, keep only, delete, invert, with undo and redo.

Called by the panel and by key bindings of the layer. The layer shows the result; what it showed
before is kept, as indices into the tractogram that the edits began with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from ..tractogram import Tractogram
from .streamlines import Streamlines

SELECTED_COLOUR = (1.0, 1.0, 1.0)
MAX_UNDO = 50


class Editor:
    """Edits of one streamlines layer.

    Parameters
    ----------
    layer : Streamlines
        A new tractogram that somebody else sets on it begins afresh.

    Attributes
    ----------
    selected : frozenset of int
        Selected streamlines, as numbers in the layer's tractogram.
    """

    changed = Signal()

    def __init__(self, layer: Streamlines) -> None:
        self.layer = layer
        self._busy = False
        layer.events.tractogram.connect(self._on_tractogram)
        self._begin()

    def _begin(self) -> None:
        self.whole: Tractogram = self.layer.tractogram
        self.selected: frozenset[int] = frozenset()
        self._kept = np.arange(len(self.whole))
        self._past: list[NDArray[np.int64]] = []
        self._future: list[NDArray[np.int64]] = []

    def close(self) -> None:
        """Let go of the layer."""
        self.layer.events.tractogram.disconnect(self._on_tractogram)

    @property
    def can_undo(self) -> bool:
        """Whether there is an edit to take back."""
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        """Whether there is an edit to make again."""
        return bool(self._future)

    def select(self, index: int | None, *, extend: bool = False) -> None:
        """Select one streamline, or none; `extend` adds it, or takes it out again."""
        if index is None:
            chosen: frozenset[int] = self.selected if extend else frozenset()
        elif extend:
            chosen = self.selected ^ {index}
        else:
            chosen = frozenset({index})
        self._set_selected(chosen)

    def invert(self) -> None:
        """Select what is not selected."""
        self._set_selected(frozenset(range(len(self._kept))) - self.selected)

    def keep_selected(self) -> None:
        """Show the selected streamlines only."""
        if self.selected:
            self._apply(self._kept[sorted(self.selected)])

    def delete_selected(self) -> None:
        """Show all but the selected streamlines."""
        if self.selected:
            self._apply(np.delete(self._kept, sorted(self.selected)))

    def undo(self) -> None:
        """Take the last edit back."""
        if self._past:
            self._future.append(self._kept)
            self._show(self._past.pop())

    def redo(self) -> None:
        """Make the edit again that was taken back."""
        if self._future:
            self._past.append(self._kept)
            self._show(self._future.pop())

    def selected_tractogram(self) -> Tractogram:
        """Return the selected streamlines."""
        return self.layer.tractogram[sorted(self.selected)]

    def _apply(self, kept: NDArray[np.int64]) -> None:
        self._past = [*self._past[-MAX_UNDO + 1 :], self._kept]
        self._future = []
        self._show(kept)

    def _show(self, kept: NDArray[np.int64]) -> None:
        self._kept = kept
        self.selected = frozenset()
        self._busy = True
        try:
            self.layer.tractogram = self.whole[kept]
        finally:
            self._busy = False
        self.changed.emit()

    def _set_selected(self, chosen: frozenset[int]) -> None:
        if chosen != self.selected:
            self.selected = chosen
            self.changed.emit()

    def _on_tractogram(self, _event: Any = None) -> None:
        if not self._busy:
            self._begin()
            self.changed.emit()
