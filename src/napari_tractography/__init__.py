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
    from .maps.measures.bundles import asymmetry as asymmetry
    from .maps.measures.bundles import measure as measure
    from .maps.measures.profiles import profile as profile
    from .maps.measures.visitation import visitation as visitation
    from .parameters import TrackingParameters as TrackingParameters
    from .project import Project as Project
    from .recipes.recipe import Recipe as Recipe
    from .regions import Region as Region
    from .seeds import Seeds as Seeds
    from .stop import StopReason as StopReason
    from .streaming import save_chunks as save_chunks
    from .tissues import Tissues as Tissues
    from .tissues import load_tissues as load_tissues
    from .tracking.cluster.connecting import cluster as cluster
    from .tracking.engine import iter_track as iter_track
    from .tracking.engine import track as track
    from .tracking.engine import track_between as track_between
    from .tractogram import Tractogram as Tractogram
    from .tractogram import load_tractogram as load_tractogram

_HOMES = {
    "Fod": "fod",
    "Grid": "grid",
    "Project": "project",
    "Recipe": "recipes.recipe",
    "Region": "regions",
    "Seeds": "seeds",
    "StopReason": "stop",
    "TrackingParameters": "parameters",
    "Tissues": "tissues",
    "Tractogram": "tractogram",
    "asymmetry": "maps.measures.bundles",
    "cluster": "tracking.cluster.connecting",
    "coherence": "maps.coherence",
    "connectome": "maps.connectome",
    "density": "maps.density",
    "iter_track": "tracking.engine",
    "load_fod": "files.fods",
    "load_tissues": "tissues",
    "load_tractogram": "tractogram",
    "measure": "maps.measures.bundles",
    "profile": "maps.measures.profiles",
    "save_chunks": "streaming",
    "track": "tracking.engine",
    "track_between": "tracking.engine",
    "visitation": "maps.measures.visitation",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
