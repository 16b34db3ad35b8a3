"""Defaults of an FOD: what they are made of, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from napari_tractography import Seeds, track
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.model import defaults
from napari_tractography.model.defaults import strong_amplitude, suited_to
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom

AFFINE = np.diag([1.25, 1.25, 1.25, 1.0])


def spheres(amplitudes):
    """Voxels in a row whose FOD is the same in all directions, with these amplitudes."""
    amplitudes = np.asarray(amplitudes, dtype=float).reshape(-1, 1, 1, 1)
    return Fod(amplitudes * np.sqrt(4 * np.pi), AFFINE)


def test_the_strong_amplitude_of_an_asymmetric_fod_is_that_of_the_whole_sphere():
    unit = np.array([[0.3, 0.4, -0.866]])
    down = sh_matrix(unit / np.linalg.norm(unit), 6, "tournier07", True).reshape(1, 1, 1, 49)
    fod = Fod(np.tile(down, (3, 3, 3, 1)), np.eye(4))
    largest = fod.amplitudes(unit / np.linalg.norm(unit)).max()
    assert strong_amplitude(fod) == pytest.approx(largest, rel=0.05)


def test_the_strong_amplitude_is_a_percentile_of_the_voxels_with_an_fod():
    fod = spheres(np.linspace(0.01, 1, 100).tolist() + [0.0] * 900)
    assert strong_amplitude(fod) == pytest.approx(0.95, abs=0.01)


def test_a_part_of_many_voxels_says_as_much(monkeypatch):
    fod = make_phantom("arcs", lmax=4)
    whole = strong_amplitude(fod)
    monkeypatch.setattr(defaults, "MAX_VOXELS", 500)
    assert strong_amplitude(fod) == pytest.approx(whole, rel=0.05)


def test_an_fod_is_looked_at_once(monkeypatch):
    fod = spheres([0.5, 0.6])
    found = suited_to(fod)
    monkeypatch.setattr(defaults, "strong_amplitude", lambda _fod: pytest.fail("again"))
    assert suited_to(fod) is found


def test_the_summary_says_where_values_come_from_and_leaves_out_those_of_the_person():
    fod = spheres([0.5] * 10)
    suited = suited_to(fod)
    text = suited.summary(TrackingParameters.for_fod(fod))
    for part in (
        "voxels of 1.25 mm",
        "step 0.344 mm (0.275 voxel)",
        "smallest radius 0.625 mm (0.5 voxel)",
        "a cone of 31.9 degrees",
        "looking ahead 1.75 mm (1.4 voxels)",
        "lobes from 8 degrees on (with probabilistic)",
        "roundness 0.7 (with probabilistic)",
        "minimum amplitude 0.06 (0.12 of its strong peaks, 0.5)",
        "minimum length 6.25 mm (5 voxels)",
        "maximum length 125 mm (100 voxels)",
    ):
        assert part in text
    transport = TrackingParameters.for_fod(fod, algorithm="transport")
    text = suited_to(fod, transport.row).summary(transport)
    assert "drift 0.8 per mm (1 per voxel), looking ahead 0.625 mm (0.5 voxel)," in text
    assert (transport.gamma, transport.look_ahead_mm) == (0.8, 0.625)
    assert TrackingParameters.for_fod(fod, algorithm="transport", gamma=3.0).gamma == 3.0
    small = Fod(np.ones((3, 3, 3, 6)), np.diag([5e-4, 5e-4, 5e-4, 1.0]))
    assert TrackingParameters.for_fod(small, algorithm="transport").gamma == 2000.0
    diffusion = TrackingParameters.for_fod(fod, algorithm="diffusion")
    assert (diffusion.gamma, diffusion.look_ahead_mm) == (2.0, 0.0)
    text = suited.summary(TrackingParameters.for_fod(fod, step_mm=0.5, max_angle_deg=30.0))
    assert "step" not in text
    assert "cone" not in text
    assert "maximum length 125 mm" in text


def test_a_radius_that_no_cone_has_at_a_tiny_step_is_told():
    fod = spheres([0.5] * 10)
    text = suited_to(fod).summary(TrackingParameters.for_fod(fod, step_mm=0.0103))
    assert "radius 0.59 mm in place of 0.625, which no cone has at this step: it is 1 deg" in text
    assert "so a cone" not in text
    text = suited_to(fod).summary(TrackingParameters.for_fod(fod, min_radius_mm=1.0))
    assert "cone" not in text


def test_the_summary_names_the_amplitudes_that_a_floor_was_taken_from():
    fod = spheres([200.0] * 10)
    text = suited_to(fod).summary(TrackingParameters.for_fod(fod))
    assert "minimum amplitude 24 (0.12 of its strong peaks, 200)" in text


def test_streamlines_do_not_depend_on_the_scale_of_the_fod():
    """But for two digits of the floor; by a power of two all amplitudes are as exact as before."""
    fod = make_phantom("arcs", lmax=8)
    scaled = Fod(np.asarray(fod.coefficients) * 4, fod.grid.affine, name=fod.name)
    usual, larger = map(TrackingParameters.for_fod, (fod, scaled))
    assert usual.min_amplitude == pytest.approx(0.12 * strong_amplitude(fod), rel=0.05)
    assert larger.min_amplitude == pytest.approx(4 * usual.min_amplitude, rel=0.05)
    assert larger == replace(usual, min_amplitude=larger.min_amplitude)
    held = fod.grid.to_mm(np.argwhere(fod.support))
    seeds = Seeds.at(held[:: len(held) // 40])
    first = track(fod, seeds, usual, n_threads=1)
    second = track(
        scaled, seeds, replace(usual, min_amplitude=4 * usual.min_amplitude), n_threads=1
    )
    assert len(first) > 20
    assert first.digest() == second.digest()


def test_ifod2_keeps_the_cutoff_of_tckgen_where_the_fod_is_scaled_as_those_of_mrtrix():
    for amplitude, floor in ((0.5, 0.1), (1.7, 0.1), (200.0, 24.0), (0.01, 0.0012)):
        fod = spheres([amplitude] * 10)
        parameters = TrackingParameters.for_fod(fod, algorithm="ifod2")
        assert parameters.min_amplitude == pytest.approx(floor)
        said = suited_to(fod, parameters.row).summary(parameters)
        assert ("tckgen's cutoff" in said) == (floor == 0.1)
        assert ("of its strong peaks" in said) == (floor != 0.1)


def test_peaks_and_tensors_have_defaults_of_their_own():
    """Peaks have a lower floor; a tensor's amplitude is FA, whatever its unit."""
    peaks = Fod.from_peaks(np.full((3, 1, 1, 3), 0.4), AFFINE)
    drawn = TrackingParameters.for_fod(peaks, algorithm="probabilistic")
    assert drawn.min_amplitude == 0.042  # 0.06 of 0.4 times the root of 3
    assert "no side lobes" in suited_to(peaks, drawn.row).summary(drawn)
    parameters = TrackingParameters.for_fod(peaks)
    assert (parameters.algorithm, parameters.min_amplitude) == ("transport", 0.083)
    assert "turn to small peaks" in suited_to(peaks).summary(parameters)
    noisy = np.tile(np.float32([0.8, 0, 0, 0, 0.5, 0, 0, 0, 0.2]), (3, 1, 1, 1))
    drawn = TrackingParameters.for_fod(Fod.from_peaks(noisy, AFFINE), algorithm="probabilistic")
    assert drawn.min_amplitude == 0.048
    third = TrackingParameters.for_fod(Fod.from_peaks(noisy, AFFINE), algorithm="transport")
    assert third.min_amplitude == pytest.approx(0.2)
    noisy[1:, ..., 6:] = 0  # of most voxels
    two = TrackingParameters.for_fod(Fod.from_peaks(noisy, AFFINE), algorithm="transport")
    assert two.min_amplitude == 0.096
    unscaled = TrackingParameters.for_fod(
        Fod.from_peaks(np.full((3, 1, 1, 3), 40.0), AFFINE), algorithm="probabilistic"
    )
    assert unscaled.min_amplitude == pytest.approx(0.06 * 40 * np.sqrt(3), rel=0.02)
    round_ones = Fod.from_tensors(np.tile([1.1, 1, 1, 0, 0, 0.0], (3, 1, 1, 1)) * 1e-3, AFFINE)
    assert suited_to(round_ones).strong_amplitude < 0.1
    parameters = TrackingParameters.for_fod(round_ones)
    assert (parameters.step_mm, parameters.min_amplitude) == (0.344, 0.1)
    assert "FA" in suited_to(round_ones).summary(parameters)
