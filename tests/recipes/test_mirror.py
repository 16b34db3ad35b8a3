"""The other side of a recipe."""

from __future__ import annotations

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.model.sides import mirrored_name
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.mirror import midsagittal_x_mm, mirrored_recipe
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource

PLANE = 1.5  # mm
OBLIQUE = [[1.9, -0.6, 0.1, -14], [0.5, 2.1, -0.4, -20], [0.2, 0.3, 2.5, -18], [0, 0, 0, 1]]


def reflected(points):
    points = np.array(points, float)
    points[..., 0] = 2 * PLANE - points[..., 0]
    return points


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("CST left", "CST right"),
        ("Right arcuate", "Left arcuate"),
        ("AF_L", "AF_R"),
        ("lh.CST", "rh.CST"),
        ("left left", "right right"),
        ("Fornix", "Fornix mirrored"),
        ("Lateral Radiation", "Lateral Radiation mirrored"),
    ],
)
def test_names_change_sides(name: str, other: str) -> None:
    assert mirrored_name(name) == other


def test_the_middle_is_at_zero_or_in_the_middle_of_the_volume() -> None:
    centred = nt.Grid((10, 4, 4), [[2, 0, 0, -10], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]])
    aside = nt.Grid((10, 4, 4), np.diag([2, 2, 2, 1]))
    assert midsagittal_x_mm(centred) == 0.0
    assert midsagittal_x_mm(aside) == 9.0


def test_seeds_and_regions_are_mirrored_and_the_rest_stays() -> None:
    mask = np.zeros((6, 5, 4))
    mask[1:3, 2, 1:] = 1
    volume = VolumeSource.of_array(mask, nt.Grid(mask.shape, OBLIQUE))
    seeds = nt.Seeds.at([[1, 2, 3], [-4, 5, 6]], [[1, 0, 0], [0.6, 0.8, 0]])
    recipe = Recipe(
        FodSource(phantom="arcs"),
        (
            SeedSource("sphere", 5, 1, (10.0, 2.0, 3.0), 2.5, first=7),
            SeedSource("mask", 4, 2, volume=volume),
            SeedSource.points(seeds),
            SeedSource("fod", 3),
        ),
        regions=(
            RegionSource("include", "M1 left", (-20.0, 5.0, 6.0), 4.0),
            RegionSource("exclude", "painted", volume=volume),
            RegionSource("resect", "left tumour", (-20.0, 5.0, 6.0), 4.0),
        ),
        edits=(
            Edit.keep([1, 2]),
            Edit.cut((10, 0, 0), (1, 2, 0)),
            Edit.weights(1.0),
            Edit.lengths(20.0),
        ),
        digest="ab" * 32,
    )
    other = mirrored_recipe(recipe, PLANE)
    assert other.seeds[0].center_mm == (-7.0, 2.0, 3.0)
    assert other.seeds[0].first == 7
    assert np.allclose(other.seeds[2].positions_mm, reflected([[1, 2, 3], [-4, 5, 6]]))
    assert np.allclose(other.seeds[2].directions, [[-1, 0, 0], [-0.6, 0.8, 0]])
    assert other.seeds[3] == recipe.seeds[3]
    assert other.regions[0].center_mm == (23.0, 5.0, 6.0)
    assert other.regions[0].name == "M1 right"
    assert other.regions[2] == recipe.regions[2]  # a cavity is where it is
    assert [edit.kind for edit in other.edits] == ["cut", "lengths"]
    assert other.edits[0].point_mm == (-7.0, 0.0, 0.0)
    assert other.edits[0].normal == (-1.0, 2.0, 0.0)
    assert other.digest == ""
    assert other.fod == recipe.fod

    points = np.random.default_rng(0).uniform(-25, 10, (4000, 3))
    here, there = recipe.regions[1].make(), other.regions[1].make()
    assert here.contains(points).any()
    assert np.array_equal(there.contains(reflected(points)), here.contains(points))


def test_mirrored_twice_is_as_before() -> None:
    recipe = Recipe(
        FodSource(phantom="arcs"),
        (SeedSource("sphere", 5, 1, (10.0, 2.0, 3.0), 2.5),),
        regions=(RegionSource("include", "left", (-20.0, 5.0, 6.0), 4.0),),
    )
    assert mirrored_recipe(mirrored_recipe(recipe, PLANE), PLANE) == recipe
