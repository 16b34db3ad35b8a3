"""Layer data of a streamlines layer: what napari gives to writers and makes duplicates from.

napari's Duplicate, and many plugins, copy a layer by ``Layer.create`` of its layer data, which
finds the class by the type of the layer. The type must be "tracks", or there are no writers; here
that type leads ``Layer.create`` to a function of our own. Called by :mod:`.layer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import napari.layers
import numpy as np
from numpy.typing import NDArray

from ...streamlines.tractogram import Tractogram
from ..space.display import DisplaySpace
from .colouring import Colouring
from .colours import Colours
from .drawn_subset import DrawnSubset

DUPLICATE_KEY = "streamlines_look"  # state["metadata"][DUPLICATE_KEY] is a DuplicateState
CREATED = "Streamlines"  # the name in napari.layers under which Layer.create finds our function


class LayerType(str):
    """A type that equals "tracks", and for which ``Layer.create`` makes a streamlines layer.

    ``Layer.create`` looks for ``layer_type.lower().title()`` in ``napari.layers``.
    """

    __slots__ = ()

    def lower(self) -> LayerType:
        """Return itself, so that :meth:`title` is asked."""
        return self

    def title(self) -> str:
        """Return what to look for in ``napari.layers``."""
        return CREATED


LAYER_TYPE = LayerType("tracks")


def register(create: Callable[..., Any]) -> None:
    """Have ``Layer.create`` call a function for layer data of :data:`LAYER_TYPE`.

    It takes the data and, as keywords, the state of a layer; returns a layer.
    """
    setattr(napari.layers, CREATED, create)


@dataclass(frozen=True, slots=True)
class DuplicateState:
    """What a duplicate takes over that the state of the layer has under no name of its own."""

    shown: DrawnSubset  # what is drawn; it does not change, so that both layers can hold it
    colouring: Colouring  # of the first layer
    colours: Colours  # of what is drawn
    max_vertices: int  # see layer.Streamlines


class TrackRows:
    """The rows that napari's Tracks have for data, of streamlines, made when they are asked for."""

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, tractogram: Tractogram, space: DisplaySpace) -> None:
        self._tractogram, self._space = tractogram, space

    @property
    def shape(self) -> tuple[int, int]:
        """Points and columns: number of the streamline, z, y, x."""
        return self._tractogram.n_points, 4

    @property
    def size(self) -> int:
        return 4 * len(self)

    def __len__(self) -> int:
        return self._tractogram.n_points

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = self._tractogram
        rows = np.empty(self.shape, dtype=self.dtype)
        rows[:, 0] = np.repeat(np.arange(whole.n_streamlines), np.diff(whole.offsets))
        rows[:, 1:] = self._space.to_display(whole.points)
        return rows if dtype is None else rows.astype(dtype)

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]
