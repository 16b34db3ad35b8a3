"""The rows of knobs beside tckgen: both programs are asked for the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import knobs
import knobs_tckgen
import napari_tractography as nt
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.stop import StopReason
from peers import mrtrix
from peers.mrtrix import MRtrix


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, knobs_tckgen.Beside]:
    """The rows for a phantom, by name."""
    found = list(knobs_tckgen.rows_of(make_phantom("arcs"), tmp_path))
    assert len({row.name for row in found}) == len(found)
    return {row.name: row for row in found}


def test_both_programs_get_the_same_knob(rows: dict[str, knobs_tckgen.Beside]) -> None:
    floor = rows["min_amplitude 0.2"]
    assert floor.settings["min_amplitude"] == floor.options["cutoff"] == 0.2
    angle = rows["max_angle_deg 30"]
    assert angle.settings["max_angle_deg"] == angle.options["angle"] == 30.0
    for role in ("include", "exclude"):
        (region,) = rows[f"{role}, painted"].keywords["regions"]
        written = nib.load(rows[f"{role}, painted"].options[role])
        assert np.array_equal(written.dataobj, region.voxels)
        assert np.allclose(written.affine, region.grid.affine)
        (sphere,) = rows[f"{role}, a sphere"].keywords["regions"]
        numbers = [float(word) for word in rows[f"{role}, a sphere"].options[role].split(",")]
        assert np.allclose(numbers, [*sphere.center_mm, sphere.radius_mm])
    tissues = rows["tissues, backtrack"]
    written = nib.load(tissues.options["act"])
    assert np.array_equal(written.dataobj, tissues.keywords["tissues"].fractions)
    assert tissues.settings["backtrack"] is tissues.options["backtrack"] is True


def test_signals_are_those_of_the_tensors(rows: dict[str, knobs_tckgen.Beside]) -> None:
    row = rows["tensors, deterministic"]
    assert row.image is not None
    signals = np.asarray(nib.load(row.image).dataobj)[row.case.mask]
    x, y, z, b = np.loadtxt(row.options["grad"]).T
    matrix = -b[:, None] * np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z], axis=1)
    fitted = np.linalg.lstsq(matrix[1:], np.log(signals[:, 1:] / 1000).T, rcond=None)[0].T
    largest = np.array([(t[0], t[3], t[4], t[3], t[1], t[5], t[4], t[5], t[2]) for t in fitted])
    values, vectors = np.linalg.eigh(largest.reshape(-1, 3, 3))
    peak = knobs_tckgen.largest(row.case.fod)[row.case.mask]
    along = np.abs((vectors[:, :, 2] * peak).sum(axis=1)) / np.linalg.norm(peak, axis=1)
    assert along.min() > 0.999
    assert np.allclose(values[:, 2], knobs_tckgen.PARALLEL, rtol=1e-2)


def test_options_of_tckgen_are_added_called_and_left_out(
    rows: dict[str, knobs_tckgen.Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(mrtrix, "run_tckgen", lambda fod, out, words: asked.append(words) or out)
    row = rows["select"]
    peer = MRtrix("iFOD1", options={"mask": None, **row.options})
    peer.prepare(row.case)
    peer.run(7)
    (words,) = asked
    assert (words["select"], words["seeds"], words["step"]) == (7, 0, row.case.step_mm)
    assert "mask" not in words


def test_a_row_is_tracked_as_it_says(rows: dict[str, knobs_tckgen.Beside]) -> None:
    ours = knobs_tckgen.OursBeside(rows["select"])
    ours.prepare(rows["select"].case)
    ours.make_seeds(5)
    found = ours.run(5)
    assert len(found) == 5
    assert ours.steps(found) > 0
    seeds = knobs_tckgen.OurSeeds("seeds alone")
    seeds.prepare(rows["select"].case)
    assert seeds.steps(seeds.run(12)) == 12


def test_regions_change_no_step_but_end_regions_which_streamlines_reach() -> None:
    fod = make_phantom("cross")
    seeds = nt.Seeds.at(np.random.default_rng(0).normal(0, 3, (200, 3)))
    parameters = nt.TrackingParameters.for_fod(fod, min_length_mm=0.0)
    plain = nt.track(fod, seeds, parameters, backend="cpu")
    roles = set()
    for name, region in knobs.regions_of(fod):
        roles.add(region.role)
        if region.role != "end":
            found = nt.track(fod, seeds, parameters, regions=[region], backend="cpu")
            assert np.array_equal(found.points, plain.points), name
            continue
        stop = replace(region, role="stop")
        found = nt.track(fod, seeds, parameters, regions=[stop], backend="cpu")
        assert StopReason.STOP_REGION in found.stop_reasons, name
    assert roles == {"include", "exclude", "stop", "end"}
