"""The other side: seeds, regions and planes of a recipe, mirrored at the midsagittal plane.

Called by :mod:`napari_tractography.recipes.bundle` and the plugin.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from ..geometry.grid import Grid
from ..model.sides import OTHER_SIDE, SIDE
from .edits import BY_NUMBER, Edit
from .recipe import Recipe
from .sources import RegionSource, SeedSource
from .tractogram_sources import TractogramFile
from .volume_sources import VolumeSource

CENTRAL = 0.1  # of the volume's width, in which x = 0 passes for the middle of a head


def midsagittal_x_mm(grid: Grid) -> float:
    """Return where the midsagittal plane of a volume is taken to lie, RAS+ mm.

    At x = 0, where template spaces have it, if that is near the middle of the volume; else in the
    middle. Of a head that lies askew in the scanner neither is right: look, and give a number.
    """
    low, high = (float(corner[0]) for corner in grid.bounds_mm())
    middle = (low + high) / 2
    return 0.0 if abs(middle) <= CENTRAL * (high - low) else middle


def mirrored_recipe(recipe: Recipe, x_mm: float) -> Recipe:
    """Return the recipe of the other side of a midsagittal plane, RAS+ mm.

    Spheres, points, directions, masks and labels of seeds and regions are mirrored; masks become
    part of the recipe, on the mirrored grid, voxel for voxel. The FOD, the mask in which
    streamlines may run, and cavities stay. Seeds that are drawn keep their random numbers. Edits by
    streamline number and weights are left out.
    """
    return dataclasses.replace(
        recipe,
        seeds=tuple(_seeds(source, x_mm, recipe.folder) for source in recipe.seeds),
        regions=tuple(_region(source, x_mm, recipe.folder) for source in recipe.regions),
        between=tuple(_region(source, x_mm, recipe.folder) for source in recipe.between),
        weights=None,
        edits=tuple(
            edit for edit in _edits(recipe.edits, x_mm, recipe.folder) if edit.kind != "weights"
        ),
        digest="",
    )


def mirrored_streamlines(source: TractogramFile, x_mm: float) -> TractogramFile:
    """Return the same file with its regions and planes on the other side."""
    return dataclasses.replace(source, edits=_edits(source.edits, x_mm, source.folder), digest="")


def _edits(edits: tuple[Edit, ...], x_mm: float, folder: Path | None) -> tuple[Edit, ...]:
    """Mirror edits; those by number are left out."""
    found = []
    for edit in edits:
        if edit.kind in BY_NUMBER:
            continue
        if edit.kind == "cut":
            edit = dataclasses.replace(
                edit, point_mm=_point(edit.point_mm, x_mm), normal=_vector(edit.normal)
            )
        regions = tuple(_region(source, x_mm, folder) for source in edit.regions)
        found.append(dataclasses.replace(edit, regions=regions))
    return tuple(found)


def _seeds(source: SeedSource, x_mm: float, folder: Path | None) -> SeedSource:
    return dataclasses.replace(
        source,
        center_mm=_point(source.center_mm, x_mm),
        volume=_volume(source.volume, x_mm, folder),
        positions_mm=tuple(_point(point, x_mm) for point in source.positions_mm),
        directions=tuple(_vector(direction) for direction in source.directions),
    )


def _region(source: RegionSource, x_mm: float, folder: Path | None) -> RegionSource:
    if source.role == "resect":  # which is where it is
        return source
    name = SIDE.sub(lambda found: OTHER_SIDE[found[0]], source.name)
    return dataclasses.replace(
        source,
        name=name,
        center_mm=_point(source.center_mm, x_mm),
        volume=_volume(source.volume, x_mm, folder),
    )


def _volume(source: VolumeSource | None, x_mm: float, folder: Path | None) -> VolumeSource | None:
    if source is None:
        return None
    mask, grid = source.load(folder)
    reflection = np.diag([-1.0, 1.0, 1.0, 1.0])
    reflection[0, 3] = 2 * x_mm
    return VolumeSource.of_array(mask, Grid(grid.shape, reflection @ grid.affine))


def _point(point: tuple[float, ...], x_mm: float) -> tuple[float, ...]:
    return (2 * x_mm - point[0], *point[1:]) if point else point


def _vector(vector: tuple[float, ...]) -> tuple[float, ...]:
    return (-vector[0], *vector[1:]) if vector else vector
