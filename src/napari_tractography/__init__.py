"""Interactive, reproducible tractography: the public names, loaded when first used.

Importing this package loads no napari, Qt, CuPy or Numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .files.fods import load_fod as load_fod
    from .fod import Fod as Fod
    from .grid import Grid as Grid
    from .maps.coherence import coherence as coherence
    from .maps.connectome import connectome as connectome
    from .maps.density import density as density
    from .parameters import TrackingParameters as TrackingParameters
    from .recipes.recipe import Recipe as Recipe
    from .regions import Region as Region
    from .seeds import Seeds as Seeds
    from .stop import StopReason as StopReason
    from .tracking.engine import iter_track as iter_track
    from .tracking.engine import track as track
    from .tractogram import Tractogram as Tractogram
    from .tractogram import load_tractogram as load_tractogram

_HOMES = {
    "Fod": "fod",
    "Grid": "grid",
    "Recipe": "recipes.recipe",
    "Region": "regions",
    "Seeds": "seeds",
    "StopReason": "stop",
    "TrackingParameters": "parameters",
    "Tractogram": "tractogram",
    "coherence": "maps.coherence",
    "connectome": "maps.connectome",
    "density": "maps.density",
    "iter_track": "tracking.engine",
    "load_fod": "files.fods",
    "load_tractogram": "tractogram",
    "track": "tracking.engine",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
