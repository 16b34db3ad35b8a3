"""Recipes as JSON: what is wrong with a file is said in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import (
    FileError,
    InvalidParameterError,
    TractographyError,
)
from napari_tractography.recipes.codec import is_recipe
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, RegionSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource


def _recipe(**changes: Any) -> Recipe:
    """A recipe without files."""
    ingredients: dict[str, Any] = {
        "fod": FodSource(phantom="letter"),
        "seeds": (SeedSource("sphere", 20, 7, (10.0, 10.0, 10.0), 2.0),),
        "parameters": nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256),
    }
    return Recipe(**{**ingredients, **changes})


def _saved(path: Path, **changes: Any) -> dict[str, Any]:
    """The content of a recipe with all its parts."""
    recipe = _recipe(
        mask=VolumeSource.of_array(np.ones((2, 2, 2)), nt.Grid((2, 2, 2), np.eye(4))),
        regions=(RegionSource("include", "ball", (1.0, 2.0, 3.0), 4.0),),
        **changes,
    )
    recipe.save(path)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("versions",), None),
        (("versions",), {"numpy": 2}),
        (("backend",), 3),
        (("fod", "path"), None),
        (("fod", "sha256"), -1),
        (("fod", "path"), _nested(900)),
        (("fod",), _nested(900)),
        (("parameters", "step_mm"), "nan"),
        (("parameters", "step_mm"), float("nan")),
        (("parameters", "adaptive"), 1),
        (("parameters", "n_directions"), 724.5),
        (("parameters",), []),
        (("mask", "shape"), [float("inf")] * 3),
        (("mask", "shape"), [2, True, 2]),
        (("mask", "affine"), 1.0),
        (("mask",), "mask.nii"),
        (("seeds",), {}),
        (("seeds", 0, "n"), 1.5),
        (("seeds", 0, "radius_mm"), 10**400),
        (("seeds", 0, "center_mm"), ["a", "b", "c"]),
        (("seeds", 0, "volume"), 7),
        (("regions", 0, "role"), None),
        (("regions", 0), None),
        (("digest",), ["x"]),
        (("folder",), "elsewhere"),
    ],
)
def test_values_of_the_wrong_type_are_named(
    tmp_path: Path, place: tuple[str | int, ...], value: Any
) -> None:
    path = tmp_path / "bundle.json"
    content = _saved(path)
    part: Any = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match=f"bundle.json is a damaged recipe .*{place[0]}") as caught:
        Recipe.load(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("seeds", 0, "radius_mm"), 1e308),
        (("seeds", 0, "center_mm"), [1e308, 0.0, 0.0]),
        (("seeds", 0, "center_mm"), []),
        (("seeds", 0, "n"), -1),
        (("seeds", 0, "first"), -1),
        (("seeds", 0, "first"), 2**40),
        (("seeds", 0, "kind"), "mask"),
        (("seeds",), []),
        (("regions", 0, "radius_mm"), 1e308),
        (("regions", 0, "role"), "goal"),
        (("include_rule",), "some"),
        (("mask", "shape"), [10**30] * 3),
        (("mask", "shape"), [-1, -1, 8]),
        (("mask", "affine"), []),
        (("mask", "voxels"), "!!"),
        (("fod", "phantom"), "none of them"),
        (("fod", "phantom"), ""),
        (("fod", "basis"), "b"),
        (("fod", "path"), "a\0b"),
        (("fod", "path"), "x" * 5000),
    ],
)
def test_impossible_values_end_in_an_error_of_ours(
    tmp_path: Path, place: tuple[str | int, ...], value: Any
) -> None:
    path = tmp_path / "bundle.json"
    content = _saved(path)
    if place == ("fod", "path"):
        del content["fod"]["phantom"]
    if place[0] != "mask":
        del content["mask"]
    part: Any = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(TractographyError):
        Recipe.load(path).run(backend="cpu")


def test_json_nested_too_deep_is_no_recipe(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    for depth in (900, 100_000):
        path.write_text("[" * depth + "]" * depth)
        assert not is_recipe(path)
        with pytest.raises(FileError, match=r"deep\.json is no"):
            Recipe.load(path)


def test_recipes_of_the_first_version_are_read(tmp_path: Path) -> None:
    """Those say neither the backend nor the number of the first seed."""
    path = tmp_path / "bundle.json"
    _recipe().save(path)
    content = json.loads(path.read_text())
    content["format_version"] = 1
    del content["seeds"][0]["first"]
    assert "backend" not in content
    path.write_text(json.dumps(content))
    assert Recipe.load(path) == _recipe()  # whose parameters are all written down


@pytest.mark.parametrize("version", [1, 2])
def test_parameters_of_earlier_versions_mean_what_they_meant(tmp_path: Path, version: int) -> None:
    """Those knew another edge and a parameter more; the threshold on probability was not 0."""
    path = tmp_path / "bundle.json"
    content = _saved(path)
    content["format_version"] = version
    content["parameters"] = {"step_mm": 0.3, "evaluation": "direct"}
    path.write_text(json.dumps(content))
    parameters = Recipe.load(path).parameters
    assert parameters == nt.TrackingParameters(
        step_mm=0.3, edge="interpolated", min_probability=0.005
    )
    content["format_version"] = 3
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match=r"unknown field .*evaluation"):
        Recipe.load(path)


def test_a_recipe_that_did_not_look_back_opens_without_that_parameter(tmp_path: Path) -> None:
    path = tmp_path / "bundle.json"
    content = _saved(path)
    content["parameters"]["look_back_mm"] = 0.0
    path.write_text(json.dumps(content))
    assert Recipe.load(path).parameters == _recipe().parameters
    content["parameters"]["look_back_mm"] = 1.0
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match=r"unknown field .*look_back_mm"):
        Recipe.load(path)


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        pytest.param("{", FileError, "no JSON", id="cut short"),
        pytest.param(b"\xff\xfe\x00", FileError, "no JSON", id="binary"),
        pytest.param("[1, 2]", FileError, "is no recipe", id="another thing"),
        pytest.param('{"format": "x"}', FileError, "is no recipe", id="another format"),
        pytest.param({"format_version": 99}, FileError, "99", id="newer"),
        pytest.param({"seeds": None}, FileError, "damaged", id="no seeds"),
        pytest.param({"fod": {"colour": 1}}, FileError, "colour", id="unknown field"),
        pytest.param({"extra": 1}, FileError, "extra", id="unknown part"),
        pytest.param(
            {"parameters": {"step_mm": -1}}, InvalidParameterError, "step_mm", id="parameter"
        ),
    ],
)
def test_damaged_recipe_is_refused(
    tmp_path: Path, content: Any, error: type[Exception], words: str
) -> None:
    path = tmp_path / "bundle.json"
    _recipe().save(path)
    if isinstance(content, dict):
        path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)
    with pytest.raises(error, match=words):
        Recipe.load(path)


def test_is_recipe(tmp_path: Path) -> None:
    _recipe().save(tmp_path / "bundle.json")
    (tmp_path / "sidecar.json").write_text('{"EchoTime": 0.1}')
    assert is_recipe(tmp_path / "bundle.json")
    assert not is_recipe(tmp_path / "sidecar.json")
    assert not is_recipe(tmp_path / "absent.json")


def test_numbers_of_numpy_are_written_as_those_of_python(tmp_path: Path) -> None:
    sphere = SeedSource("sphere", np.int64(20), np.uint8(7), tuple(np.ones(3)), np.float32(2.5))
    parameters = nt.TrackingParameters(step_mm=np.float32(0.5))
    made = _recipe(seeds=(sphere,), select=np.int64(30), parameters=parameters)
    made.save(tmp_path / "r.json")
    assert Recipe.load(tmp_path / "r.json") == made


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, np.float32(np.nan)])
@pytest.mark.parametrize("name", ["radius_mm", "center_mm"])
def test_numbers_that_are_not_finite_are_not_written(
    tmp_path: Path, name: str, number: float
) -> None:
    wrong = {name: number if name == "radius_mm" else (0.0, number, 0.0)}
    for made in (
        _recipe(seeds=(SeedSource("sphere", 5, **wrong),)),
        _recipe(regions=(RegionSource("include", **wrong),)),
    ):
        with pytest.raises(InvalidParameterError, match=f"^{name} = {number} is in no recipe"):
            made.save(tmp_path / "r.json")
    assert not list(tmp_path.iterdir())


def test_the_mark_that_editors_of_windows_put_first_is_passed_over(tmp_path: Path) -> None:
    _recipe().save(tmp_path / "r.json")
    (tmp_path / "r.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "r.json").read_bytes())
    assert is_recipe(tmp_path / "r.json")
    assert Recipe.load(tmp_path / "r.json") == _recipe()
