"""Public calls with something else than they take: one sentence, with it and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import (
    FileError,
    InvalidFodError,
    InvalidParameterError,
    InvalidRegionError,
    InvalidTissuesError,
    InvalidTractogramError,
    TractographyError,
)
from napari_tractography.recipes.edits import Edit
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource

GRID = nt.Grid((4, 4, 4), np.eye(4))
LINE = nt.Tractogram.from_streamlines([[[0, 0, 0], [3, 3, 3]]])
TISSUES = np.zeros((4, 4, 4, 5))
TISSUES[:2, ..., 0] = TISSUES[2:, ..., 2] = 1


@pytest.mark.parametrize(
    "read",
    [
        nt.load_fod,
        nt.load_tissues,
        nt.load_tractogram,
        nt.load_warp,
        nt.Recipe.load,
        nt.Project.load,
        LINE.save,
        pytest.param(lambda path: nt.save_chunks([LINE], path), id="save_chunks"),
        pytest.param(nt.Project().save, id="project"),
    ],
)
@pytest.mark.parametrize(("wrong", "kind"), [(None, "NoneType"), (7, "int"), (b"t.tck", "bytes")])
def test_what_is_no_path_is_told(read: Callable[[Any], object], wrong: Any, kind: str) -> None:
    with pytest.raises(FileError, match=f"is of type {kind}; give the path of a file"):
        read(wrong)


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(nt.TrackingParameters.for_fod, id="for_fod"),
        pytest.param(lambda fod: nt.Seeds.from_fod(fod, 10), id="seeds"),
        pytest.param(nt.coherence, id="coherence"),
        pytest.param(lambda fod: nt.track(fod, [[1, 1, 1]]), id="track"),
    ],
)
def test_the_path_of_an_fod_is_no_fod(take: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidFodError, match="FOD is of type str; give an Fod, such as load_fod"):
        take("wmfod.nii.gz")


def test_the_path_of_tissues_is_none() -> None:
    with pytest.raises(InvalidTissuesError, match="of type str; give Tissues, such as load_tissue"):
        nt.Seeds.on_interface("5tt.mif", 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "inside",
    [
        nt.Region.sphere((1, 1, 1), 1, "stop").contains,
        nt.Region.mask(np.ones((4, 4, 4)), GRID, "stop").contains,
        nt.Tissues(TISSUES, GRID).at,
        nt.Warp.affine(np.eye(4)).apply,
    ],
)
def test_points_are_rows_of_three(inside: Callable[[Any], np.ndarray]) -> None:
    assert len(inside([])) == len(inside(np.empty((0, 3)))) == 0
    assert inside([1, 1, 1]).tolist() == inside([[1, 1, 1]]).tolist()
    with pytest.raises(TractographyError, match=r"Points have shape \(2, 2\); give \(n, 3\) RAS"):
        inside([[1, 1], [2, 2]])


@pytest.mark.parametrize("shape", [5, None, "abc", (4, 4), (4, 0, 4)])
def test_the_shape_of_a_grid_is_three_sizes(shape: Any) -> None:
    with pytest.raises(TractographyError, match=r"three positive sizes, not .*; give a 3-D volume"):
        nt.Grid(shape, np.eye(4))


def test_a_label_is_a_number() -> None:
    with pytest.raises(InvalidRegionError, match="label '1' of region mask is no number"):
        nt.Region.mask(np.ones((4, 4, 4)), GRID, "stop", label="1")  # type: ignore[arg-type]


def test_a_function_of_fibres_needs_a_grid() -> None:
    with pytest.raises(InvalidFodError, match="grid is of type ndarray; give a Grid"):
        nt.Fod.from_function(lambda points: points, np.eye(4))  # type: ignore[arg-type]


def test_seeds_are_joined_of_seeds() -> None:
    parts = [nt.Seeds.at([1, 1, 1]), nt.Seeds.at([[2, 2, 2]])]
    assert len(nt.Seeds.concatenate(iter(parts))) == 2
    with pytest.raises(TractographyError, match=r"type ndarray; of positions Seeds.at\(points\)"):
        nt.Seeds.concatenate([np.ones((1, 3))])  # type: ignore[list-item]


def test_what_a_tractogram_does_not_know_is_told() -> None:
    with pytest.raises(InvalidTractogramError, match="grid of type str; give StreamlineData and a"):
        nt.Tractogram(LINE.points, LINE.offsets, grid="fod.nii")  # type: ignore[arg-type]
    with pytest.raises(InvalidTractogramError, match="data is of type dict"):
        nt.Tractogram(LINE.points, LINE.offsets, data={"x": [1]})  # type: ignore[arg-type]
    with pytest.raises(TractographyError, match="of type ndarray; give a Warp, such as load_warp"):
        LINE.warped(np.eye(4))  # type: ignore[arg-type]


def test_a_bundle_is_a_file_or_a_recipe_with_a_name() -> None:
    project = nt.Project()
    with pytest.raises(InvalidParameterError, match="save the tractogram, and give its path"):
        project.add("CST", LINE)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="called 5; give it a name"):
        project.add(5, Recipe(FodSource(phantom="cross")))  # type: ignore[arg-type]
    assert not project.bundles


def test_limits_of_edits_are_numbers_or_none() -> None:
    assert Edit.lengths(20, None) == Edit.lengths(20) == Edit.lengths(20, np.inf)
    assert Edit.weights(2, None) == Edit.weights(2)
    for make in (lambda: Edit.lengths("20"), lambda: Edit.outliers("20")):  # type: ignore[arg-type]
        with pytest.raises(InvalidParameterError, match="limit '20' leaves nothing to choose"):
            make()
    for plane in (((0, 0, "a"), (0, 0, 1)), (5, (0, 0, 1))):
        with pytest.raises(InvalidParameterError, match="is no plane; give a point in mm and a di"):
            Edit.cut(*plane)  # type: ignore[arg-type]


def test_paths_may_be_of_any_kind(tmp_path: Path) -> None:
    LINE.save(str(tmp_path / "t.tck"))
    assert nt.load_tractogram(tmp_path / "t.tck").digest() == LINE.digest()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda wrong: LINE.found_in(wrong), "other is of type str; give a Tractogram, such as"),
        (lambda wrong: LINE.select(regions=np.ones(3)), "Among the regions is one of type float64"),
        (
            lambda wrong: nt.Tractogram.from_streamlines(7),
            "are of type int; give a list",
        ),
        (lambda wrong: nt.Tractogram.concatenate(None), "to be joined is of type NoneType; give a"),
        (lambda wrong: nt.Fod.from_peaks([[1, 2], [3]], np.eye(4)), "rows of several lengths"),
        (lambda wrong: nt.Fod.from_image([[1, 2], [3]], np.eye(4)), "rows of several lengths"),
        (lambda wrong: LINE.warped(wrong), "warp is of type str; give a Warp, such as load_warp"),
        (lambda wrong: nt.Seeds.at([[1, 1, 1]]).warped(wrong), "warp is of type str; give a Warp"),
        (lambda wrong: sphere().warped(wrong, GRID), "warp is of type str; give a Warp"),
        (lambda wrong: image(sigma_mm=wrong), "sigma_mm = 'b.tck' is no number; give millimetres"),
        (lambda wrong: image(min_linearity=wrong), "min_linearity = 'b.tck' is no fraction"),
    ],
)
def test_what_is_of_another_type_is_told(make: Callable[[Any], object], said: str) -> None:
    with pytest.raises(TractographyError, match=said):
        make("b.tck")


def image(**arguments: Any) -> nt.Fod:
    return nt.Fod.from_image(np.random.default_rng(0).random((9, 9, 9)), np.eye(4), **arguments)


def sphere() -> nt.Region:
    return nt.Region.sphere((1, 1, 1), 1, "include")
