"""Deterministic algorithms: the largest amplitude in the cone, or the peak nearest ahead."""

from __future__ import annotations

import os
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from toys import SKEWED, BruteForce, crossing_fod, lobes, random_fod, unit_steps

from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.tracking.engine import track

BOTH_INTERPOLATIONS = pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
POSITION_VOX = (1.7, 1.1, 1.4)
# Half floats move a peak, of which the top is flat, by more than they change amplitudes.
TOLERANCE_DEG = 1.5


def first_steps(fod, position_mm, units, **parameters):
    """The tractogram of one step from each given direction."""
    settings = {
        "step_mm": 0.25,
        "max_length_mm": 0.25,
        "start": "given",
        "direction": "forward",
        "min_amplitude": 0.0,
    } | parameters
    seeds = Seeds.at(np.tile(position_mm, (len(units), 1)), units)
    return track(fod, seeds, TrackingParameters(**settings))


def steps_of(tractogram):
    lines = tractogram.points.reshape(-1, 2, 3)
    return unit_steps(lines[:, 0], lines[:, 1])


def degrees_between(a, b):
    return np.degrees(np.arccos(np.clip((a * b).sum(axis=-1), -1, 1)))


@BOTH_INTERPOLATIONS
@pytest.mark.parametrize("angle", [5.0, 20.0, 45.0, 90.0])
def test_deterministic_steps_follow_the_largest_amplitude_in_the_cone(interpolation, angle):
    """Mostly on the border of a narrow cone, mostly at a peak within a wide one."""
    fod = crossing_fod(affine=SKEWED, seed=14)
    position = fod.grid.to_mm(POSITION_VOX)
    truth = BruteForce.at(fod, position, interpolation=interpolation)
    units = direction_set(16).astype(np.float64)
    found = first_steps(
        fod,
        position,
        units,
        algorithm="deterministic",
        interpolation=interpolation,
        max_angle_deg=angle,
    )
    drawn = dict(zip(found.seed_index.tolist(), steps_of(found), strict=True))
    scale = truth.raw(direction_set(4096)).max()
    on_border = 0
    for index, unit in enumerate(units / np.linalg.norm(units, axis=1, keepdims=True)):
        at, largest = truth.peak(unit, angle)
        if index not in drawn:
            assert largest < 1e-3 * scale
            continue
        turned = degrees_between(drawn[index], unit)
        assert turned < angle + 0.01
        assert truth.raw(drawn[index][None])[0] > largest - 1e-3 * scale
        if degrees_between(at, unit) > 0.999 * angle and turned > 0.999 * angle:
            on_border += 1
    assert (on_border > 10) if angle < 10 else (on_border < 15)


@BOTH_INTERPOLATIONS
def test_of_two_lobes_the_larger_in_the_cone_is_followed(interpolation):
    """From between them, slightly nearer to the smaller."""
    axes = np.array([[np.sin(a), 0, np.cos(a)] for a in np.deg2rad([-25, 25])])
    fod = Fod(np.zeros((4, 4, 4, 45)) + lobes(axes, 8).T @ (0.8, 1.0), np.eye(4))
    ahead = np.array([[np.sin(a), 0, np.cos(a)] for a in np.deg2rad([-20.0, -5, 5])])
    for angle, wanted in ((60.0, axes[[1, 1, 1]]), (32.0, axes[[0, 1, 1]])):
        found = first_steps(
            fod,
            (1.5, 1.5, 1.5),
            ahead,
            algorithm="deterministic",
            interpolation=interpolation,
            max_angle_deg=angle,
        )
        assert degrees_between(steps_of(found), wanted).max() < 4  # each draws the other's peak


@BOTH_INTERPOLATIONS
def test_a_start_at_the_maximum_goes_along_the_largest_amplitude(interpolation):
    fod = random_fod(8, affine=SKEWED, seed=15)
    positions = fod.grid.to_mm(np.random.default_rng(0).uniform(0.6, 2.4, (10, 3)))
    for algorithm in ("deterministic", "sd_stream"):
        found = track(
            fod,
            Seeds.at(positions),
            TrackingParameters(
                algorithm=algorithm,
                start="max",
                interpolation=interpolation,
                step_mm=0.1,
                max_length_mm=0.1,
                direction="forward",
            ),
        )
        assert len(found) == 10
        for position, step in zip(positions, steps_of(found), strict=True):
            truth = BruteForce.at(fod, position, interpolation=interpolation)
            at, largest = truth.peak(np.array([0.0, 0.0, 1.0]), 180.0)
            assert truth.raw(step[None])[0] == pytest.approx(largest, rel=2e-3)
            assert degrees_between(step, np.sign(step @ at) * at) < TOLERANCE_DEG


CROSSING = np.array([[1.0, 0, 0], [np.sqrt(0.5), np.sqrt(0.5), 0]])


@pytest.fixture(scope="module")
def crossing():
    """Fibres along x everywhere; in a band of three voxels stronger ones cross them at 45 degrees.

    ::

        - - - / / / - - -
        - - - / / / - - -
    """
    along, across = lobes(CROSSING, 8, sharpness=0.01)
    values = np.zeros((13, 13, 5, 45)) + along
    values[5:8] += 1.5 * across
    return Fod(values, np.eye(4))


def through_the_crossing(fod, algorithm, **changes):
    parameters = TrackingParameters(
        algorithm=algorithm, start="given", direction="forward", step_mm=0.2, max_angle_deg=60.0
    ).replace(**changes)
    return track(fod, Seeds.at([[1.0, 6.0, 2.0]], [CROSSING[0]]), parameters)


def test_sd_stream_stays_on_its_fibre_through_a_crossing_and_deterministic_changes_over(crossing):
    kept = through_the_crossing(crossing, "sd_stream")
    assert kept.stop_reasons[0, 1] == StopReason.LEFT_IMAGE
    assert kept.points[-1, 0] > 12
    assert np.ptp(kept.points[:, 1]) < 1.0
    left = through_the_crossing(crossing, "deterministic")
    assert np.ptp(left.points[:, 1]) > 1.5


def test_sd_stream_stops_where_the_nearest_peak_lies_outside_the_cone():
    """Fibres along x that bend by 25 degrees from one voxel to the next."""
    values = np.zeros((12, 5, 5, 45)) + lobes(CROSSING[0], 8)
    bend = np.array([np.cos(np.deg2rad(25)), np.sin(np.deg2rad(25)), 0])
    values[6:] = lobes(bend, 8)
    fod = Fod(values, np.eye(4))
    seeds = Seeds.at([[1.0, 2.0, 2.0]], [CROSSING[0]])
    for angle, reason in ((15.0, StopReason.SHARP_TURN), (60.0, StopReason.LEFT_IMAGE)):
        line = track(
            fod,
            seeds,
            TrackingParameters(
                algorithm="sd_stream",
                interpolation="nearest",
                start="given",
                direction="forward",
                step_mm=0.2,
                max_angle_deg=angle,
            ),
        )
        assert line.stop_reasons[0, 1] == reason
    assert StopReason.SHARP_TURN.keeps_point


@pytest.mark.parametrize("start", ["given", "sampled"])
def test_sd_stream_starts_along_the_peak_that_its_start_direction_leads_up_to(start):
    fod = Fod(np.zeros((4, 4, 4, 45)) + lobes(CROSSING[0], 8), np.eye(4))
    beside = CROSSING[0] + np.random.default_rng(0).normal(size=(20, 3)) * 0.15
    seeds = Seeds.at(np.tile((1.5, 1.5, 1.5), (20, 1)), beside)
    parameters = TrackingParameters(
        algorithm="sd_stream",
        start=start,
        step_mm=0.25,
        max_length_mm=0.25,
        direction="forward",
        min_amplitude=0.1,
    )
    found = track(fod, seeds, parameters)
    assert len(found) == 20
    assert np.degrees(np.arccos(np.abs(steps_of(found) @ CROSSING[0]))).max() < 0.5


def test_lines_of_sd_stream_are_those_of_tckgen(shared_data, tmp_path):
    """The same seeds and start directions, in the white matter of FiberCup."""
    tckgen = shutil.which("tckgen")
    if tckgen is None:
        pytest.skip("tckgen of MRtrix3 is not installed")
    from napari_tractography.files.fods import load_fod

    path = shared_data / "fibercup/fod.nii.gz"
    mask = np.asarray(nib.load(shared_data / "fibercup/wm.nii.gz").dataobj) != 0
    out, seeds_file = tmp_path / "sd.tck", tmp_path / "seeds.txt"
    command = [tckgen, "-quiet", "-algorithm", "SD_STREAM", path, out, "-nthreads", "0"]
    command += ["-seed_image", shared_data / "fibercup/wm.nii.gz", "-seeds", "400", "-select", "0"]
    command += ["-step", "0.5", "-angle", "30", "-cutoff", "0.1", "-minlength", "0"]
    command += ["-mask", shared_data / "fibercup/wm.nii.gz"]
    command += ["-maxlength", "250", "-seed_unidirectional", "-output_seeds", seeds_file]
    command += ["-seed_direction", "1,0,0"]
    subprocess.run(
        [*map(str, command)],
        check=True,
        capture_output=True,
        timeout=100,
        env=os.environ | {"MRTRIX_RNG_SEED": "1"},
    )
    theirs = [line for line in nib.streamlines.load(out).streamlines if len(line) > 4]
    fod = load_fod(path)
    positions = np.array([line[0] for line in theirs])
    first = np.array([line[1] - line[0] for line in theirs])
    ours = track(
        fod,
        Seeds.at(positions, first),
        TrackingParameters(
            algorithm="sd_stream",
            start="given",
            direction="forward",
            step_mm=0.5,
            max_angle_deg=30.0,
            min_amplitude=0.1,
        ),
        mask=mask,
    )
    lines = dict(zip(ours.seed_index.tolist(), ours, strict=True))
    assert len(theirs) > 100
    alike = []
    for index, line in enumerate(theirs):
        mine = lines.get(index, positions[index : index + 1])
        n = min(len(mine), len(line))
        apart = np.linalg.norm(mine[:n] - line[:n], axis=1).max()
        alike.append(apart < 0.3 and abs(len(mine) - len(line)) <= 2)
    assert np.mean(alike) > 0.9
