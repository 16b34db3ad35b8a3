"""The CUDA source that follows peaks and tensors gives the CPU's streamlines bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from host import compile_for_host, track_on_host
from plans import plan_of
from test_host_kernel import assert_same, on_cpu
from toys import random_vectors

from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds

CASES = [
    (kind, algorithm, interpolation)
    for kind, algorithms in (
        ("peaks", ("probabilistic", "deterministic", "sd_stream", "transport")),
        ("tensor", ("deterministic", "sd_stream")),
    )
    for algorithm in algorithms
    for interpolation in ("nearest", "trilinear")
]
CHANGES = [
    pytest.param({}, id="plain"),
    pytest.param({"start": "max"}, id="from the largest"),
    pytest.param({"start": "given"}, id="from given directions"),
    pytest.param({"direction": "backward"}, id="backward"),
    pytest.param({"output": "endpoints"}, id="endpoints"),
    pytest.param({"record_every": 7}, id="every seventh point"),
    pytest.param({"min_length_mm": 5.0, "max_length_mm": 9.0}, id="lengths"),
    pytest.param({"min_amplitude": 0.5, "min_probability": 0.15}, id="strict thresholds"),
    pytest.param({"max_angle_deg": 90.0}, id="wide cone"),
    pytest.param({"edge": "interpolated"}, id="interpolated edge"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("kernels"), "-DVECTORS", "-DLMAX=2")


@pytest.fixture(scope="module")
def fods():
    return {kind: random_vectors(kind) for kind in ("peaks", "tensor")}


def seeds_of(fod) -> Seeds:
    """Some lie outside the volume, where they are rejected."""
    inside = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 200).positions_mm
    around = Seeds.in_sphere(fod.grid.centre_mm, 12.0, 50).positions_mm
    both = np.concatenate([inside, around])
    return Seeds.at(both, np.random.default_rng(0).normal(size=both.shape))


def short(**changes) -> TrackingParameters:
    given = {"step_mm": 0.4, "max_length_mm": 30.0, "max_angle_deg": 60.0, "min_amplitude": 0.2}
    return TrackingParameters(**{**given, **changes})


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize(("kind", "algorithm", "interpolation"), CASES)
def test_streamlines_are_the_same(library, fods, kind, algorithm, interpolation, changes):
    fod = fods[kind]
    given = short(algorithm=algorithm, interpolation=interpolation, **changes)
    plan = plan_of(fod, seeds_of(fod), given)
    on_host = track_on_host(library, plan)
    assert_same(on_host, on_cpu(plan))
    assert len(on_host) or "min_length_mm" in changes


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        pytest.param({"interpolation": "nearest"}, id="nearest"),
        pytest.param({"interpolation": "nearest", "start": "max"}, id="nearest, from the largest"),
        pytest.param({"look_ahead_mm": 0.0}, id="not ahead"),
        pytest.param({"look_ahead_mm": 4.0}, id="far ahead"),
        pytest.param({"min_amplitude": 0.0}, id="no floor"),
        pytest.param({"min_amplitude": 0.4}, id="high floor"),
        pytest.param({"min_probability": 0.3}, id="share of the cone"),
        pytest.param({"max_angle_deg": 3.0}, id="narrow cone"),
        pytest.param({"gamma": 0.0}, id="straight"),
        pytest.param({"gamma": 1000.0}, id="at the peak at once"),
        pytest.param({"adaptive": True}, id="adaptive"),
        pytest.param(
            {"adaptive": True, "min_length_mm": 5.0, "max_length_mm": 9.0}, id="adaptive lengths"
        ),
        pytest.param({"start": "max"}, id="from the largest"),
        pytest.param({"start": "given", "adaptive": True}, id="adaptive, from given directions"),
    ],
)
def test_peaks_are_followed_alike(library, fods, changes):
    fod = fods["peaks"]
    given = short(**{"algorithm": "transport", "look_ahead_mm": 1.0, **changes})
    plan = plan_of(fod, seeds_of(fod), given)
    on_host = track_on_host(library, plan)
    assert_same(on_host, on_cpu(plan))
    assert len(on_host) > 20


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_where_terms_cancel_peaks_are_followed_alike(library, interpolation):
    """Peaks along axes, of one length: gradients and second derivatives are zero or alike."""
    peaks = np.zeros((8, 8, 8, 3, 3))
    peaks[..., 0, 0] = peaks[..., 1, 1] = peaks[..., 2, 2] = 0.5
    peaks[::2, :, :, 2] = 0.0
    peaks[:, ::3, :, 0] *= -1.0
    fod = Fod.from_peaks(peaks, np.eye(4))
    middles = np.random.default_rng(4).integers(0, 15, (200, 3)) / 2
    axes = np.eye(3)[np.arange(200) % 3]
    for start, changes in (("sampled", {}), ("max", {}), ("given", {"look_ahead_mm": 1.0})):
        given = short(
            algorithm="transport", interpolation=interpolation, start=start, **changes
        )  # fmt: skip
        plan = plan_of(fod, Seeds.at(middles, axes), given)
        on_host = track_on_host(library, plan)
        assert len(on_host) > 50
        assert_same(on_host, on_cpu(plan))


def test_regions_and_masks_act_alike(library, fods):
    fod = fods["peaks"]
    mask = np.random.default_rng(5).random(fod.grid.shape) < 0.9
    regions = [
        Region.sphere(fod.grid.centre_mm, 4.0, "include"),
        Region.sphere(fod.grid.centre_mm + 5.0, 2.0, "exclude"),
    ]
    plan = plan_of(fod, seeds_of(fod), short(), mask=mask, regions=regions)
    on_host = track_on_host(library, plan)
    assert len(on_host) > 10
    assert_same(on_host, on_cpu(plan))
