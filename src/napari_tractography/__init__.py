"""Interactive, reproducible tractography: the public names, loaded when first used.

Importing this package loads no napari, Qt, CuPy or Numba.
"""

from __future__ import annotations

import importlib

from .version import __version__ as __version__

TYPE_CHECKING = False  # without typing: the command answers Ctrl-C when this is imported
if TYPE_CHECKING:
    from typing import Any

    from .files.fods import load_fod as load_fod
    from .files.tissue_files import load_tissues as load_tissues
    from .files.warp_files import load_warp as load_warp
    from .geometry.grid import Grid as Grid
    from .geometry.warps import Warp as Warp
    from .maps.bundle_measures import asymmetry as asymmetry
    from .maps.bundle_measures import measure as measure
    from .maps.coherence import coherence as coherence
    from .maps.connectome import connectome as connectome
    from .maps.density import density as density
    from .maps.profiles import profile as profile
    from .maps.resection import margin_map as margin_map
    from .maps.resection import resection as resection
    from .maps.sweeps import sweep as sweep
    from .maps.visitation import visitation as visitation
    from .model.fod import Fod as Fod
    from .model.parameters import TrackingParameters as TrackingParameters
    from .model.regions import Region as Region
    from .model.seeds import Seeds as Seeds
    from .model.stop import StopReason as StopReason
    from .model.tissues import Tissues as Tissues
    from .recipes.cohort import Cohort as Cohort
    from .recipes.project import Project as Project
    from .recipes.recipe import Recipe as Recipe
    from .streamlines.streaming import save_chunks as save_chunks
    from .streamlines.tractogram import Tractogram as Tractogram
    from .streamlines.tractogram import load_tractogram as load_tractogram
    from .tracking.cluster.connecting import cluster as cluster
    from .tracking.engine import iter_track as iter_track
    from .tracking.engine import track as track
    from .tracking.engine import track_between as track_between

_HOMES = {
    "Cohort": "recipes.cohort",
    "Fod": "model.fod",
    "Grid": "geometry.grid",
    "Project": "recipes.project",
    "Recipe": "recipes.recipe",
    "Region": "model.regions",
    "Seeds": "model.seeds",
    "StopReason": "model.stop",
    "TrackingParameters": "model.parameters",
    "Tissues": "model.tissues",
    "Tractogram": "streamlines.tractogram",
    "Warp": "geometry.warps",
    "asymmetry": "maps.bundle_measures",
    "cluster": "tracking.cluster.connecting",
    "coherence": "maps.coherence",
    "connectome": "maps.connectome",
    "density": "maps.density",
    "iter_track": "tracking.engine",
    "load_fod": "files.fods",
    "load_tissues": "files.tissue_files",
    "load_tractogram": "streamlines.tractogram",
    "load_warp": "files.warp_files",
    "margin_map": "maps.resection",
    "measure": "maps.bundle_measures",
    "profile": "maps.profiles",
    "resection": "maps.resection",
    "save_chunks": "streamlines.streaming",
    "sweep": "maps.sweeps",
    "track": "tracking.engine",
    "track_between": "tracking.engine",
    "visitation": "maps.visitation",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
