"""Undo and redo of what is done to seeds and regions. A part of the session.

Each state is a picture of all seeds and regions: a few numbers, and the layers of regions, which
come back as they were. What is painted into labels has napari's own undo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal
from qtpy.QtCore import QTimer

from ..layers.region_entries import RegionState
from .region_layers import Regions
from .seed_layer import SeedLayer

MAX_STATES = 200
SETTLE_MS = 400  # after the last move, before it counts as one
TOLERANCE_MM = 1e-3  # what another display space rounds


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Seeds and regions at one time.

    Attributes
    ----------
    seeds_mm : (n, 3) float64
        RAS+ mm.
    own : dict of str to (n,) float64
        What seeds have of their own, see :attr:`.seed_layer.SeedLayer.own`.
    regions : tuple of RegionState
    rule : str
        Of the include regions.
    """

    seeds_mm: NDArray[np.float64]
    own: dict[str, NDArray[np.float64]]
    regions: tuple[RegionState, ...]
    rule: str

    def has_the_parts_of(self, other: State) -> bool:
        """Tell whether there are the same seeds and regions, wherever, and as large as may be."""
        return (
            len(self.seeds_mm) == len(other.seeds_mm)
            and self.rule == other.rule
            and [one.part for one in self.regions] == [one.part for one in other.regions]
        )

    def equals(self, other: State) -> bool:
        """Tell whether all is the same."""
        if not self.has_the_parts_of(other) or [r.is_asleep for r in self.regions] != [
            r.is_asleep for r in other.regions
        ]:
            return False
        pairs = [
            (self.seeds_mm, other.seeds_mm),
            *((values, other.own[name]) for name, values in self.own.items()),
            *((a.spheres, b.spheres) for a, b in zip(self.regions, other.regions, strict=True)),
        ]
        return all(
            a.shape == b.shape and np.allclose(a, b, rtol=0, atol=TOLERANCE_MM, equal_nan=True)
            for a, b in pairs
        )


class History:
    """The states that seeds and regions were in, and the way back.

    Adding, removing and another role are steps of their own; moves and sizes that follow each
    other closely are one, as those of a drag.

    Parameters
    ----------
    seeds : SeedLayer
    regions : Regions
    """

    changed = Signal()  # whether there is something to undo or to redo may be otherwise

    def __init__(self, seeds: SeedLayer, regions: Regions) -> None:
        self._seeds, self._regions = seeds, regions
        self._is_restoring = False
        self._settle = QTimer()
        self._settle.setSingleShot(True)
        self._settle.setInterval(SETTLE_MS)
        self._settle.timeout.connect(self.settle)
        self.begin()
        seeds.changed.connect(self._note)
        seeds.layer_changed.connect(self._note)
        regions.changed.connect(self._note)

    def begin(self) -> None:
        """Forget what was: what is now cannot be undone."""
        self._settle.stop()
        self._undone: list[State] = []
        self._done: list[State] = []
        self._last = self._now = self._state()  # the last step, and what follows it
        self.changed.emit()

    @property
    def can_undo(self) -> bool:
        """Whether there is something to undo."""
        return bool(self._done) or not self._now.equals(self._last)

    @property
    def can_redo(self) -> bool:
        """Whether something was undone and nothing done since."""
        return bool(self._undone) and self._now.equals(self._last)

    def undo(self) -> None:
        """Take the last step back."""
        self.settle()
        if self._done:
            self._undone.append(self._last)
            self._restore(self._done.pop())

    def redo(self) -> None:
        """Make the step again that was undone last."""
        self.settle()
        if self._undone:
            self._done.append(self._last)
            self._restore(self._undone.pop())

    def act(self, command: str) -> None:
        """Undo or redo, where no edit of streamlines was left to "Undo" or "Redo"."""
        if command == "Undo":
            self.undo()
        elif command == "Redo":
            self.redo()

    def settle(self) -> None:
        """Let what was moved count as one step, such as at the end of a drag."""
        self._settle.stop()
        if self._now.equals(self._last):
            return
        self._done = [*self._done[1 - MAX_STATES :], self._last]
        self._undone.clear()
        self._last = self._now
        self.changed.emit()

    def close(self) -> None:
        """Wait for nothing more."""
        self._settle.stop()

    def _note(self) -> None:
        if self._is_restoring:
            return
        now = self._state()
        if now.equals(self._now):
            return
        if now.has_the_parts_of(self._now):
            self._now = now
            self._settle.start()
            self.changed.emit()
            return
        self.settle()
        self._now = now
        self.settle()

    def _restore(self, state: State) -> None:
        self._is_restoring = True
        try:
            self._seeds.restore(state.seeds_mm, state.own)
            self._regions.restore(state.regions, state.rule)
        finally:
            self._is_restoring = False
        self._last = self._now = self._state()
        self.changed.emit()

    def _state(self) -> State:
        seeds = self._seeds
        return State(seeds.positions_mm, seeds.own, self._regions.states(), self._regions.rule)
