"""What a recipe knows of the machine that made its result, and says when the result differs."""

from __future__ import annotations

import dataclasses
import logging
import platform
from typing import Any

import pytest

import napari_tractography as nt
from napari_tractography.recipes import provenance
from napari_tractography.recipes.recipe import Recipe
from napari_tractography.recipes.sources import FodSource, SeedSource
from napari_tractography.tracking.cluster import versions


def _recipe(**changes: Any) -> Recipe:
    """A recipe without files."""
    ingredients: dict[str, Any] = {
        "fod": FodSource(phantom="letter"),
        "seeds": (SeedSource("sphere", 20, 7, (10.0, 10.0, 10.0), 2.0),),
        "parameters": nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256),
    }
    return Recipe(**{**ingredients, **changes})


@pytest.fixture
def tractogram() -> nt.Tractogram:
    return nt.Tractogram([[0, 0, 0], [1, 0, 0]], [0, 2])


OTHER = "0" * 64  # the digest of something else


def _told(
    caplog: pytest.LogCaptureFixture, recipe: Recipe, tractogram: nt.Tractogram, backend: str
) -> str:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert not recipe.check(tractogram, backend)
    return caplog.text


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every GPU is one."""
    monkeypatch.setattr(provenance, "model", lambda index: "NVIDIA H200")


def test_a_result_knows_its_backend_device_and_packages(
    tractogram: nt.Tractogram, h200: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = _recipe().with_result(tractogram, "cpu")
    assert (cpu.backend, cpu.device) == ("cpu", platform.machine())
    assert {"numpy", "numba", "llvmlite", "scipy", "dipy"} <= set(cpu.versions)
    assert not [name for name in cpu.versions if name.startswith("cupy")]
    monkeypatch.setattr(versions, "_version", lambda name: f"1 of {name}")
    gpu = _recipe().with_result(tractogram, "cuda:0 + cuda:3")
    assert (gpu.backend, gpu.device) == ("cuda:0 + cuda:3", "NVIDIA H200 + NVIDIA H200")
    assert gpu.versions["cupy-cuda12x"] == "1 of cupy-cuda12x"


def test_run_remembers_nothing_and_check_compares_the_backend(
    tractogram: nt.Tractogram, h200: None, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = _recipe().with_result(tractogram, "cuda:0")
    assert recipe.check(tractogram, "cpu")
    told = _told(caplog, dataclasses.replace(recipe, digest=OTHER), tractogram, "cpu")
    assert "tracked by cuda:0 (NVIDIA H200) then, by cpu" in told


def test_another_gpu_of_the_same_model_is_no_difference(
    tractogram: nt.Tractogram, h200: None, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = _recipe().with_result(tractogram, "cuda:0")
    told = _told(caplog, dataclasses.replace(recipe, digest=OTHER), tractogram, "cuda:1 + cuda:2")
    assert "Backend, device and versions are the same" in told


def test_recipe_without_a_backend_says_so(
    tractogram: nt.Tractogram, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = _recipe(digest=OTHER)
    told = _told(caplog, recipe, tractogram, "cpu")
    assert "does not say which backend" in told


def test_other_versions_are_named_when_the_result_differs(
    tractogram: nt.Tractogram, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = _recipe(digest=OTHER, versions={"numpy": "0.1", "lost": "3"})
    told = _told(caplog, recipe, tractogram, "cpu")
    assert "numpy 0.1 then" in told
    assert "lost 3 then, absent now" in told
