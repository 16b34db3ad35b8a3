"""What a run asks for as a recipe: where the FOD is, and seeds, mask and regions as they are.

Called by :mod:`.projects`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from napari.layers import Layer

from ...errors import InvalidFodError
from ...model.phantoms import is_phantom
from ...recipes.edits import Edit
from ...recipes.recipe import Recipe
from ...recipes.sources import FodSource, RegionSource, SeedSource
from ...recipes.tissue_sources import TissueSource
from ...recipes.volume_sources import VolumeSource
from ..layers.volume_layers import fod_of, sha256_of_fod
from ..requests import Request
from ..run_seeding import (
    SeedBetween,
    Seeding,
    SeedInterface,
    SeedMask,
    SeedSpheres,
    SeedVoxels,
)
from .copied_scripts import given_reading, path_of_tissues
from .layer_files import image_source, is_of_image, path_of


def recipe_of(request: Request, layers: Sequence[Layer]) -> Recipe:
    """Return the recipe of a full run; the SHA-256 of its FOD is that of the file as it was read.

    One of the layers shows the FOD. Of a run that ended early it gives what had arrived, and ends
    there; between two regions, where each has seeds of its own, it goes to the end and keeps the
    first streamlines.

    Raises InvalidFodError or InvalidTissuesError when the FOD did not come from a file and is no
    phantom, or tissues are from no file; FileError when a file is gone, or does not hold the image
    that is shown.
    """
    fod, parameters = request.fod, request.parameters
    mask = None if request.mask is None else VolumeSource.of_array(request.mask, fod.grid)
    tissues = None
    if request.tissues is not None:
        file = TissueSource.file(path_of_tissues(request.tissues), hashed=False)
        tissues = replace(file, labels=request.tissues.labels)
    seeding = request.seeding
    ends = (seeding.one, seeding.other) if isinstance(seeding, SeedBetween) else ()
    select, max_seeds = request.select, None
    edits: tuple[Edit, ...] = ()
    arrived = request.arrived
    if arrived is not None and ends:
        edits = (Edit.keep(np.arange(arrived.n_streamlines)),)
    elif arrived is not None:
        select, max_seeds = max(arrived.n_streamlines, 1), arrived.n_seeds
    return Recipe(
        fod=_fod_source(request, layers),
        seeds=_seed_sources(request.seeding, parameters.random_seed),
        parameters=parameters,
        mask=mask,
        regions=tuple(RegionSource.of(region) for region in request.regions),
        include_rule=request.include_rule,
        tissues=tissues,
        select=select,
        max_seeds=max_seeds,
        edits=edits,
        between=tuple(RegionSource.of(region) for region in ends),
    )


def _fod_source(request: Request, layers: Sequence[Layer]) -> FodSource:
    fod = request.fod
    layer = next((layer for layer in layers if fod_of(layer) is fod), None)
    if layer is not None and is_of_image(layer, fod):
        return image_source(layer, fod)
    path = None if layer is None else path_of(layer)
    if layer is not None and path is not None:
        source = FodSource.file(
            path,
            kind=fod.kind,
            basis=fod.basis,
            frame=fod.frame,
            hashed=False,
            **given_reading(fod),
        )
        return replace(source, sha256=sha256_of_fod(layer))
    if is_phantom(fod):
        return FodSource.of_phantom(fod)
    if layer is None:
        raise InvalidFodError(f"The layer of the FOD {fod.name} was removed; open the FOD again.")
    raise InvalidFodError(
        f"The FOD {fod.name} did not come from a file; save it and open it from there."
    )


def _seed_sources(seeding: Seeding, random_seed: int) -> tuple[SeedSource, ...]:
    if isinstance(seeding, SeedSpheres):
        return tuple(
            SeedSource(
                "sphere",
                n=n,
                random_seed=random_seed,
                center_mm=centre,
                radius_mm=radius,
                first=first,
            )
            for centre, radius, n, first in seeding.each()
        )
    if isinstance(seeding, SeedMask | SeedVoxels):
        volume = VolumeSource.of_array(seeding.mask, seeding.grid)
        kind, n = "mask", seeding.n_seeds
        if isinstance(seeding, SeedVoxels):
            kind, n = "voxels", seeding.n_per_voxel
        by = "" if seeding.by == "list" else seeding.by
        return (SeedSource(kind, n=n, random_seed=random_seed, volume=volume, by=by),)
    if isinstance(seeding, SeedBetween):
        return ()
    kind = "interface" if isinstance(seeding, SeedInterface) else "fod"
    return (SeedSource(kind, n=seeding.n_seeds, random_seed=random_seed),)
