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

from .colouring import Colouring
from .colours import Colours
from .drawn_subset import DrawnSubset

LOOK_KEY = "streamlines_look"  # state["metadata"][LOOK_KEY] is a Look
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

    Parameters
    ----------
    create : callable
        Takes the data and, as keywords, the state of a layer; returns a layer.
    """
    setattr(napari.layers, CREATED, create)


@dataclass(frozen=True, slots=True)
class Look:
    """What a duplicate takes over besides the state that all layers of napari have.

    Attributes
    ----------
    shown : DrawnSubset
        What is drawn; it does not change, so that both layers can hold it.
    colouring : Colouring
        Of the first layer.
    colours : Colours
        Of what is drawn.
    max_vertices : int
    slab_mm : float
    clip : str
    clip_at_mm : float
        See :class:`.layer.Streamlines`.
    colormap : str
        Of colours that stand for a number.
    """

    shown: DrawnSubset
    colouring: Colouring
    colours: Colours
    max_vertices: int
    slab_mm: float
    clip: str
    clip_at_mm: float
    colormap: str
