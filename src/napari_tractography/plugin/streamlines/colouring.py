"""What the colours of a streamlines layer stand for: a mode, or values given by the caller.

A part of the streamlines layer; :mod:`.colours` computes the colours.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ...maps.angles import Axis
from ...streamlines.tractogram import Tractogram
from .colours import DEFAULT_COLOUR, MODES, RGBA, Colours
from .drawn_subset import DrawnSubset

VALUES = "values"  # the mode of Streamlines.colour_by_values
Values = ArrayLike | Callable[[Tractogram], ArrayLike]


Paint = Callable[..., Colours]  # of a tractogram and values, one a streamline or one a point


class Colouring:
    """How the streamlines of a layer are coloured."""

    def __init__(self, mode: str, colormap: str) -> None:
        self.mode = mode  # one of `modes`
        self.colormap = colormap  # of the modes that have numbers
        self.colour: RGBA = DEFAULT_COLOUR  # RGBA of the mode "one colour"
        self.axis: Axis | None = None  # of the modes that are angles about one
        self._values: Values | None = None
        self._paint: Paint | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        return tuple(MODES) if self._values is None else (*MODES, VALUES)

    @property
    def is_local(self) -> bool:
        """Whether the colour of a streamline does not depend on the other streamlines."""
        return self.mode in MODES and MODES[self.mode].is_local

    def set_values(self, values: Values, paint: Paint) -> None:
        """Set the values of the mode "values", and the function that colours by them."""
        self._values, self._paint = values, paint

    def drop_fixed_values(self) -> bool:
        """Drop values of streamlines that are replaced; return whether there were any."""
        if self._values is None or callable(self._values):
            return False
        self._values = self._paint = None
        if self.mode == VALUES:
            self.mode = "direction"
        return True

    def of(self, shown: DrawnSubset, part: Tractogram | None = None) -> Colours:
        """Return the colours of what is drawn, or of a part of it."""
        drawn = shown.tractogram if part is None else part
        if self.mode == VALUES and self._values is not None and self._paint is not None:
            values = self._values
            numbers = values(drawn) if callable(values) else shown.values_of(values)
            return self._paint(drawn, numbers, colormap=self.colormap)
        look = {"colour": self.colour, "colormap": self.colormap, "axis": self.axis}
        return MODES[self.mode].colours(drawn, **look)

    def copy(self, shown: DrawnSubset) -> Colouring:
        """Return a copy for another layer that shows the same.

        Values that a function gives become fixed: the function belongs to the first layer.
        """
        same = copy(self)
        if callable(self._values):
            same._values = shown.spread(self._values(shown.tractogram))
        return same

    def of_more(self, shown: DrawnSubset, before: Colours, chunk: Tractogram) -> Colours:
        """Return the colours after a chunk was added to what is drawn, colouring only that."""
        added = self.of(shown, chunk)
        if added.categories != before.categories:
            return self.of(shown)  # new kinds: the legend has more entries
        return replace(added, rgba=np.concatenate([before.rgba, added.rgba]))
