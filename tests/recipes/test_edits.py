"""Edits as data: each maps a tractogram to another, and comes back from JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError
from napari_tractography.recipes.edits import KINDS, Edit, edited
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, SeedSource
from napari_tractography.recipes.warp_sources import WarpFile, WarpSource

PARAMETERS = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256)
MASK = nt.Region.mask(np.ones((2, 2, 2)), np.eye(4), "exclude", name="painted")
ALL_KINDS = (
    Edit.keep(range(0, 30)),
    Edit.delete([1, 2, 3]),
    Edit.cut((1.0, 2.0, 3.0), (0.0, 0.0, 1.0)),
    Edit.outliers(12.5),
    Edit.lengths(2.0, 55.0),
    Edit.weights(0.5),
    Edit.passing([nt.Region.sphere((1, 2, 3), 40.0, "include", name="ball"), MASK], "any"),
    Edit.warped(WarpSource((WarpFile("/w.nii.gz", "ab"),), inverted=True), WarpFile("/t.nii.gz")),
)


@pytest.fixture
def rows() -> nt.Tractogram:
    """Six lines along x, 1 to 6 mm long, at y = 0 to 5."""
    return nt.Tractogram.from_streamlines([[(0, y, 0), (y + 1, y, 0)] for y in range(6)])


def heights(tractogram: nt.Tractogram) -> list[int]:
    return [round(float(line[0, 1])) for line in tractogram]


def test_numbers_are_those_that_the_edits_before_have_left(rows: nt.Tractogram) -> None:
    assert heights(edited(rows, [Edit.keep([1, 3, 5])])) == [1, 3, 5]
    assert heights(edited(rows, [Edit.keep([1, 3, 5]), Edit.delete([0])])) == [3, 5]
    assert heights(edited(rows, [Edit.delete([0]), Edit.keep([0])])) == [1]
    assert heights(edited(rows, [Edit.delete(range(6))])) == []
    assert edited(rows, []) is rows


def test_limits_and_regions(rows: nt.Tractogram) -> None:
    assert heights(edited(rows, [Edit.lengths(2.0, 4.0)])) == [1, 2, 3]
    weighted = rows.with_weights(np.arange(6.0))
    assert heights(edited(weighted, [Edit.weights(4.0)])) == [4, 5]
    region = nt.Region.sphere((4.5, 4, 0), 1.1, "include")
    assert heights(edited(rows, [Edit.passing([region])])) == [4, 5]
    cut = edited(rows, [Edit.cut((2.5, 0, 0), (1, 0, 0))])
    assert cut.lengths_mm.tolist() == [1, 2, 2.5, 2.5, 2.5, 2.5]


def test_edits_by_number_of_other_streamlines_are_refused(rows: nt.Tractogram) -> None:
    with pytest.raises(InvalidParameterError, match="streamline 6, but there are 6"):
        Edit.keep([6]).apply(rows)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Edit("bend"), id="kind"),
        pytest.param(lambda: Edit.lengths(5.0, 4.0), id="range"),
        pytest.param(lambda: Edit.outliers(np.inf), id="endless"),
        pytest.param(lambda: Edit.lengths(np.inf), id="from infinity"),
        pytest.param(lambda: Edit.weights(np.nan), id="NaN"),
        pytest.param(lambda: Edit.cut((0, 0, 0), (0, 0, 0)), id="no plane"),
        pytest.param(lambda: Edit.cut((0, 0), (1, 0, 0)), id="no point"),
        pytest.param(lambda: Edit("outliers"), id="no distance"),
        pytest.param(lambda: Edit.passing([MASK], "some"), id="rule"),
        pytest.param(lambda: Edit("warp", image=WarpFile("/t.nii.gz")), id="no warp"),
        pytest.param(lambda: Edit("warp", warp=WarpSource(())), id="no image"),
    ],
)
def test_impossible_edits_are_refused(make) -> None:
    with pytest.raises(InvalidParameterError):
        make()


def test_every_kind_says_what_it_does() -> None:
    assert {edit.kind for edit in ALL_KINDS} == set(KINDS)
    texts = [edit.text for edit in ALL_KINDS]
    assert texts[0] == "keep 30 streamlines"
    assert texts[4] == "lengths from 2 to 55 mm"
    assert len(set(texts)) == len(KINDS)


def test_a_recipe_keeps_its_edits_and_proves_the_result(tmp_path: Path) -> None:
    edits = (Edit.lengths(5.0), Edit.delete([0, 4, 5, 6]), Edit.outliers(10.0))
    recipe = Recipe(FodSource(phantom="arcs"), (SeedSource("fod", 60, 1),), PARAMETERS)
    whole = recipe.run()
    full = Recipe(recipe.fod, recipe.seeds, PARAMETERS, edits=edits)
    found = full.run()
    assert 0 < len(found) < len(whole)
    full.with_result(found).save(tmp_path / "bundle.json")
    again = nt.Recipe.load(tmp_path / "bundle.json")
    assert again.edits == edits
    assert again.check(again.run())
    assert found.digest() == edited(whole, edits).digest() != whole.digest()


def test_all_kinds_come_back_from_json(tmp_path: Path) -> None:
    recipe = Recipe(FodSource(phantom="arcs"), (SeedSource("fod", 6),), edits=ALL_KINDS)
    recipe.save(tmp_path / "bundle.json")
    assert Recipe.load(tmp_path / "bundle.json").edits == ALL_KINDS
