"""Phantoms of many subjects in one space: the same drawing, a little different in each.

For tutorials, tests and benchmarks of :mod:`napari_tractography.recipes.cohort`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .fod import Fod
from .phantoms import PHANTOM_LMAX, drawing, fod_of_drawing

LESION_AT = 0.45  # of the first bundle, from its beginning
LESION_RADIUS_VOX = 4.5
WAVES = 1.5  # of a displacement along the volume, at most


@dataclass(frozen=True, slots=True)
class PhantomSubject:
    """A subject of a cohort of phantoms."""

    fod: Fod
    has_lesion: bool  # whether the first bundle is cut
    # (3, 3) float64 RAS+ mm: on its first bundle before the lesion, in it, and beyond.
    places_mm: NDArray[np.float64]


def make_cohort(
    n: int = 9,
    *,
    name: str = "arcs",
    displacement_vox: float = 1.0,
    lesion_every: int = 3,
    random_seed: int = 0,
    lmax: int = PHANTOM_LMAX,
) -> list[PhantomSubject]:
    """Return a drawing as it is in each of `n` subjects, on one grid.

    The drawing is one of :data:`~napari_tractography.model.phantoms.PHANTOMS`. Bundles are moved by
    a smooth displacement of their own in each subject, at most so many voxels along each axis; in
    every so many-th, 0 for none, there is a lesion, without fibres, which cuts the first bundle.
    Raises InvalidParameterError when there is no such phantom.
    """
    phantom = drawing(name)
    shape = np.array(phantom.shape)
    found = []
    for number in range(n):
        draw = np.random.default_rng([random_seed, number])
        waves = draw.uniform(-WAVES, WAVES, (3, 3)) * np.pi
        phases = draw.uniform(0, 2 * np.pi, 3)
        sizes = draw.uniform(0.5, 1, 3) * displacement_vox

        def moved(
            curve: NDArray[np.float64],
            waves: NDArray[np.float64] = waves,
            phases: NDArray[np.float64] = phases,
            sizes: NDArray[np.float64] = sizes,
        ) -> NDArray[np.float64]:
            return np.asarray(curve + sizes * np.sin(curve / shape @ waves + phases))

        bundles = tuple(
            dataclasses.replace(bundle, curves=tuple(moved(curve) for curve in bundle.curves))
            for bundle in phantom.bundles
        )
        own = dataclasses.replace(phantom, bundles=bundles)
        fod = fod_of_drawing(own, phantom.grid, f"{name}-{number + 1:02d}", lmax)
        curve = bundles[0].curves[0]
        places = np.array(
            [curve[round(at * (len(curve) - 1))] for at in (0.2, LESION_AT, 2 * LESION_AT - 0.2)]
        )
        has_lesion = bool(lesion_every) and number % lesion_every == lesion_every - 1
        if has_lesion:
            fod = _cut(fod, places[1])
        found.append(PhantomSubject(fod, has_lesion, phantom.grid.to_mm(places)))
    return found


def _cut(fod: Fod, centre_vox: NDArray[np.float64]) -> Fod:
    coefficients = fod.coefficients
    voxels = np.moveaxis(np.indices(fod.grid.shape), 0, -1)
    coefficients[((voxels - centre_vox) ** 2).sum(axis=-1) < LESION_RADIUS_VOX**2] = 0
    return Fod(coefficients, fod.grid, name=fod.name)
