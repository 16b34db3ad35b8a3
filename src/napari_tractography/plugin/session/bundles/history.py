"""What was done to the list of bundles, to be undone and done again. Called by :mod:`.listing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from psygnal import Signal

MAX_UNDO = 50


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done.

    Attributes
    ----------
    text : str
        What it was, such as "Deleted CST left".
    undo, redo : callable
    """

    text: str
    undo: Callable[[], None]
    redo: Callable[[], None]


class History:
    """Steps, the newest last."""

    changed = Signal()

    def __init__(self) -> None:
        self._past: list[Step] = []
        self._future: list[Step] = []

    @property
    def last(self) -> Step | None:
        """What :meth:`undo` undoes."""
        return self._past[-1] if self._past else None

    @property
    def next(self) -> Step | None:
        """What :meth:`redo` does again."""
        return self._future[-1] if self._future else None

    def add(self, text: str, undo: Callable[[], None], redo: Callable[[], None]) -> None:
        """Note what has been done; what was undone before is forgotten."""
        self._past = [*self._past[-MAX_UNDO + 1 :], Step(text, undo, redo)]
        self._future = []
        self.changed.emit()

    def undo(self) -> None:
        """Undo the last step."""
        if self._past:
            step = self._past.pop()
            step.undo()
            self._future.append(step)
            self.changed.emit()

    def redo(self) -> None:
        """Do again what was undone last."""
        if self._future:
            step = self._future.pop()
            step.redo()
            self._past.append(step)
            self.changed.emit()

    def clear(self) -> None:
        """Forget everything, and let go of the layers that steps hold."""
        self._past, self._future = [], []
        self.changed.emit()
