"""What one step costs the kernel of the CPU: the same in a large volume as in a small one.

Counted, not timed, by counters that are compiled into a kernel of its own: that which people run
has none. See ``cuda/test_work_a_step.py`` for the CUDA source.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builds import build_folder
from counted_kernel import plan_of_bundle

import napari_tractography as nt
from napari_tractography.tracking.wasm import wasm_backend

FOLDER = Path(__file__).resolve().parents[1]
PROGRAM = FOLDER / "counted_kernel.py"
CROSSING = {"n_voxels": 26, "n_seeds": 640, "max_length_mm": 10.0, "max_angle_deg": 45.0}
CASES = {
    "small": {"n_voxels": 26, "n_seeds": 64, "max_length_mm": 10.0},
    "large": {"n_voxels": 52, "n_seeds": 64, "max_length_mm": 10.0},
    "long": {"n_voxels": 52, "n_seeds": 64, "max_length_mm": 40.0},
    "many": {"n_voxels": 26, "n_seeds": 640, "max_length_mm": 10.0},
    "narrow": {"n_voxels": 26, "n_seeds": 64, "max_length_mm": 10.0, "max_angle_deg": 8.0},
    "threshold": {"n_voxels": 26, "n_seeds": 64, "max_length_mm": 10.0, "min_probability": 0.02},
    "strict": {"n_voxels": 26, "n_seeds": 64, "max_length_mm": 10.0, "min_probability": 0.2},
    "crossing": {**CROSSING, "crossing_deg": 60.0},
    "in a lobe": {**CROSSING, "crossing_deg": 60.0, "lobe_deg": 8.0},
}
COUNTS = ("cells", "look_ups", "draws", "cone_samples")


@pytest.fixture(scope="module")
def work() -> dict[str, dict[str, Any]]:
    """What the cases cost; compiled code is kept apart from what tracks."""
    kept = build_folder() / f"counted-{zlib.crc32(PROGRAM.read_bytes()):08x}"
    package = str(Path(nt.__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(list(CASES.values()))],
        env={**os.environ, "NUMBA_CACHE_DIR": str(kept), "PYTHONPATH": package},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


def test_the_kernel_that_counts_tracks_as_the_twin_does(work: dict[str, dict[str, Any]]) -> None:
    """Bit for bit, so that what is counted is what tracks; and every counter has counted."""
    plan = plan_of_bundle(**CASES["small"])
    twin = wasm_backend.track_range(plan, 0, plan.n_seeds, np.zeros(1, np.uint8))
    assert work["small"]["digest"] == twin.digest()
    assert all(work["small"][name] > 0 for name in COUNTS[:3])


@pytest.mark.parametrize("other", ["large", "many", "long"])
def test_a_step_costs_the_same(work: dict[str, dict[str, Any]], other: str) -> None:
    """In a larger volume, of ten times as many seeds and of a line four times as long."""
    for name in COUNTS:
        # A start is work as well, of which there is less a step in long lines; with few seeds
        # more lanes are idle at the end.
        assert work[other][name] <= 1.1 * work["small"][name] + 0.05, name


def test_a_step_looks_the_fod_up_once_and_draws_a_few_times(
    work: dict[str, dict[str, Any]],
) -> None:
    small = work["small"]
    assert 1.0 <= small["look_ups"] < 1.5
    assert small["cells"] <= small["look_ups"]
    # In a cone of 30 degrees about this lobe more than a third of all tries are accepted, and a
    # draw is for two; at the end of a block most lanes are idle.
    assert 1.0 <= small["draws"] < 3.0
    assert work["narrow"]["draws"] <= 1.3 * small["draws"]
    assert small["cone_samples"] < 0.1


def test_a_step_sums_over_its_cone_near_the_threshold_only(
    work: dict[str, dict[str, Any]],
) -> None:
    assert work["small"]["cone_sums"] == 0  # there is no threshold
    assert work["threshold"]["cone_sums"] < 0.02
    assert work["strict"]["cone_sums"] > 0.1
    for name in COUNTS:
        assert work["threshold"][name] == work["small"][name], name


def test_a_lane_that_drew_from_another_lobe_draws_anew_in_the_same_pass(
    work: dict[str, dict[str, Any]],
) -> None:
    """So that a pass takes hardly fewer lanes on; a sixth fewer where they wait for the next."""
    one, free = work["in a lobe"], work["crossing"]
    assert one["draws"] > 1.2 * free["draws"]  # many do
    assert 1.0 <= one["passes"] < 1.1 * free["passes"]


def test_rows_are_filled_where_streamlines_run(work: dict[str, dict[str, Any]]) -> None:
    """About the bundle, however large the volume."""
    assert work["small"]["n_filled"] == work["large"]["n_filled"] < 26**3 / 4
