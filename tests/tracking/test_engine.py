"""Runs as a whole: output, errors, cancelling, and tckgen beside us."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading

import nibabel as nib
import numpy as np
import pytest
from toys import SKEWED, random_fod

from napari_tractography.errors import (
    BackendError,
    InvalidFodError,
    InvalidMaskError,
    InvalidParameterError,
    InvalidRegionError,
    InvalidSeedsError,
    InvalidTissuesError,
)
from napari_tractography.files.fods import load_fod
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import StopReason
from napari_tractography.model.tissues import Tissues
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import cpu_backend as cpu
from napari_tractography.tracking.engine import iter_track, track, track_ahead, track_between
from napari_tractography.tracking.tables.cache import fod_table


@pytest.fixture(scope="module")
def fod():
    return random_fod(8, shape=(7, 6, 5), affine=SKEWED, seed=21)


@pytest.fixture(scope="module")
def seeds(fod):
    return Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 500)


def short(**changes):
    return TrackingParameters(step_mm=0.4, max_length_mm=30.0).replace(**changes)


# Output


def seed_points(tractogram, seeds):
    """For each streamline, the number of its point that is its seed."""
    for line, index in zip(tractogram, tractogram.seed_index, strict=True):
        (at,) = np.flatnonzero((line == seeds.positions_mm[index]).all(axis=1))
        yield int(at)


@pytest.mark.parametrize("every", [2, 3, 10, 10_000])
@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_every_kth_point_from_the_seed_and_both_ends_are_kept(fod, seeds, every, direction):
    whole = track(fod, seeds, short(direction=direction))
    thin = track(fod, seeds, short(direction=direction, record_every=every))
    assert len(thin) == len(whole)
    for line, at, kept in zip(whole, seed_points(whole, seeds), thin, strict=True):
        number = np.arange(len(line))
        wanted = ((number - at) % every == 0) | (number == 0) | (number == len(line) - 1)
        np.testing.assert_array_equal(kept, line[wanted])
    np.testing.assert_array_equal(thin.lengths_mm, whole.lengths_mm)
    np.testing.assert_array_equal(thin.stop_reasons, whole.stop_reasons)


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_endpoints_are_the_ends_of_the_streamlines(fod, seeds, direction):
    whole = track(fod, seeds, short(direction=direction))
    ends = track(fod, seeds, short(direction=direction, output="endpoints"))
    assert len(whole) > 100
    assert (np.diff(ends.offsets) == 2).all()
    np.testing.assert_array_equal(ends.points[0::2], whole.points[whole.offsets[:-1]])
    np.testing.assert_array_equal(ends.points[1::2], whole.points[whole.offsets[1:] - 1])
    for name in ("seed_index", "stop_reasons", "lengths_mm", "tally"):
        np.testing.assert_array_equal(getattr(ends, name), getattr(whole, name))


def test_both_ways_are_the_way_back_reversed_and_the_way_ahead(fod, seeds):
    rng = np.random.default_rng(3)
    given = Seeds.at(seeds.positions_mm, rng.normal(size=(500, 3)))
    settings = short(start="given", max_length_mm=500)
    runs = {
        direction: track(fod, given, settings.replace(direction=direction))
        for direction in ("both", "forward", "backward")
    }
    lines = {
        direction: dict(zip(run.seed_index.tolist(), run, strict=True))
        for direction, run in runs.items()
    }
    assert len(lines["both"]) > 100
    assert lines["both"].keys() == lines["forward"].keys() | lines["backward"].keys()
    for index, line in lines["both"].items():
        seed = given.positions_mm[index : index + 1]
        back = lines["backward"].get(index, seed)
        ahead = lines["forward"].get(index, seed)
        np.testing.assert_array_equal(line, np.concatenate([back[:-1], ahead]))
        np.testing.assert_array_equal(back[-1:], seed)
        np.testing.assert_array_equal(ahead[:1], seed)


@pytest.mark.parametrize("start", ["sampled", "max"])
def test_the_way_ahead_is_the_same_alone_and_with_the_way_back(fod, seeds, start):
    both = track(fod, seeds, short(start=start, max_length_mm=500))
    ahead = track(fod, seeds, short(start=start, max_length_mm=500, direction="forward"))
    lines = dict(zip(both.seed_index.tolist(), both, strict=True))
    places = dict(zip(both.seed_index.tolist(), seed_points(both, seeds), strict=True))
    assert len(ahead) > 100
    for index, line in zip(ahead.seed_index.tolist(), ahead, strict=True):
        np.testing.assert_array_equal(lines[index][places[index] :], line)


def test_the_tally_adds_up(fod):
    """A streamline counts the reasons of both ends, a rejected seed its reason once.

    A seed from which neither half takes a step counts both halves' reasons, once where equal.
    """
    positions = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 1200).positions_mm
    outside = Seeds.in_sphere(fod.grid.centre_mm + 500, 1, 13).positions_mm
    mask = np.ones(fod.grid.shape, bool)
    mask[3] = False
    seeds = Seeds.at(np.concatenate([positions, outside]))
    parameters = short(min_length_mm=2.0, min_amplitude=0.5, max_angle_deg=20)
    kinds = set()
    for chunk in iter_track(fod, seeds, parameters, mask=mask, block=1):
        reasons = sorted(chunk.tally)
        if len(chunk):
            ends = chunk.stop_reasons.ravel().tolist()
            assert chunk.tally == {StopReason(reason): ends.count(reason) for reason in ends}
            assert not any(reason.rejects for reason in reasons)
        elif reasons[0].rejects:
            assert list(chunk.tally.values()) == [1]
        else:
            assert set(chunk.tally.values()) == {1}
            assert len(reasons) <= 2
        kinds.add((len(chunk), *reasons))
    assert len({reason for kind in kinds for reason in kind[1:]}) >= 6
    assert {(0, StopReason.SEED_OUTSIDE_IMAGE), (0, StopReason.TOO_SHORT)} <= kinds
    assert any(not kind[0] and not kind[1].rejects for kind in kinds)
    whole = track(fod, seeds, parameters, mask=mask)
    assert whole.n_seeds == len(seeds)
    assert whole.tally[StopReason.SEED_OUTSIDE_IMAGE] == 13
    for direction in ("both", "forward", "backward"):
        found = track(fod, seeds, parameters.replace(direction=direction), mask=mask)
        n_ends = len(found) * (2 if direction == "both" else 1)
        assert sum(count for _, count in found.ends()) == n_ends > 0
        discarded = found.discarded()
        assert sum(count for _, count in discarded) == len(seeds) - len(found)
        assert any(not reason.rejects for reason, _ in discarded)


# Bad input


def test_without_seeds_there_is_an_error():
    with pytest.raises(InvalidSeedsError, match="no seeds"):
        Seeds.at(np.empty((0, 3)))


def test_seeds_outside_the_volume_are_named_with_its_bounds(fod):
    with pytest.raises(InvalidSeedsError, match=r"All 2 seeds .*\(900\.0, 0\.0, 0\.0\) mm.*spans"):
        track(fod, Seeds.at([[900, 0, 0], [0, 900, 0]]))


def test_some_seeds_outside_are_only_counted(fod):
    tractogram = track(fod, Seeds.at([fod.grid.centre_mm, [900, 0, 0]]), short())
    assert tractogram.tally[StopReason.SEED_OUTSIDE_IMAGE] == 1
    assert len(tractogram) == 1


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        pytest.param(np.zeros((7, 6, 5)), "is empty", id="zeros"),
        pytest.param(np.full((7, 6, 5), np.nan), "is empty", id="NaN"),
        pytest.param(np.ones((5, 6, 7)), r"\(5, 6, 7\).*\(7, 6, 5\)", id="another shape"),
        pytest.param(np.ones((7, 6, 5, 1)), r"\(7, 6, 5, 1\)", id="4-D"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(fod, seeds, mask, message):
    with pytest.raises(InvalidMaskError, match=message):
        track(fod, seeds, short(), mask=mask)


def test_given_starts_need_directions(fod, seeds):
    with pytest.raises(InvalidSeedsError, match="needs a direction with every seed"):
        track(fod, seeds, short(start="given"))


def test_where_seeds_and_volume_are_is_told_in_the_volumes_unit(fod):
    small = Fod(fod.coefficients, Grid(fod.grid.shape, np.diag([0.02, 0.02, 0.02, 1]), unit="um"))
    with pytest.raises(InvalidSeedsError, match=r"at \(1000\.0, 0\.0, 0\.0\) µm; place them"):
        track(small, [[1, 0, 0]], short())


def test_a_volume_of_small_voxels_is_told_by_as_many_decimals_as_it_needs(fod):
    affine = np.diag([0.003, 0.003, 0.003, 1])
    small = Fod(fod.coefficients, Grid(fod.grid.shape, affine))
    with pytest.raises(InvalidSeedsError, match=r"at \(1\.000, 0\.000, 0\.000\) mm.*to \(0\.02"):
        track(small, [[1, 0, 0]], short())


def test_errors_come_from_the_call_and_not_with_the_first_chunk(fod, seeds):
    with pytest.raises(InvalidSeedsError):
        iter_track(fod, seeds, short(start="given"))


def test_steps_that_are_very_short_for_the_voxels_are_told(fod, seeds, caplog):
    step_mm = 0.009 * min(fod.grid.voxel_sizes_mm)
    parameters = TrackingParameters(step_mm=step_mm, max_length_mm=1.0)
    track(fod, seeds, parameters)
    assert "less than a 100th of a voxel" in caplog.text


def test_steps_that_rounding_swallows_are_refused(fod, seeds):
    far = fod.grid.affine.copy()
    far[0, 3] += 1e6
    away = Fod(fod.coefficients, far)
    there = Seeds.at(seeds.positions_mm + np.float32([1e6, 0, 0]))
    with pytest.raises(InvalidParameterError, match=r"step_mm = 0\.2 mm is lost in the rounding"):
        track(away, there, TrackingParameters(step_mm=0.2))


def test_an_unknown_backend_is_refused(fod, seeds, monkeypatch):
    with pytest.raises(BackendError, match="backend = 'abacus'"):
        track(fod, seeds, short(), backend="abacus")
    monkeypatch.setenv("NAPARI_TRACTOGRAPHY_BACKEND", "slide rule")
    with pytest.raises(BackendError, match="slide rule"):
        track(fod, seeds, short())


@pytest.mark.parametrize(
    ("cone", "message"),
    [
        pytest.param(lambda c, u: np.ones(len(u)), "float64", id="no booleans"),
        pytest.param(lambda c, u: np.ones((len(u), 1), bool), r"\(724, 1\)", id="wrong shape"),
        pytest.param(lambda c, u: True, r"\(724,\)", id="scalar"),
        pytest.param(lambda c, u: np.zeros(len(u), bool), "allows no direction", id="nothing"),
    ],
)
def test_a_cone_function_of_the_wrong_kind_is_refused(fod, seeds, cone, message):
    with pytest.raises(InvalidParameterError, match=message):
        track(fod, seeds, short(), cone=cone)


def test_an_unknown_include_rule_is_refused(fod, seeds):
    with pytest.raises(InvalidParameterError, match="include_rule = 'some'"):
        track(fod, seeds, short(), include_rule="some")


SPHERE = Region.sphere((0, 0, 0), 6.0, "include")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"fod": "wmfod.mif"}, InvalidFodError, r"of type str; give an Fod, such as load_fod"),
        ({"parameters": {"step_mm": 1}}, InvalidParameterError, "type dict; give TrackingParam"),
        ({"regions": SPHERE}, InvalidRegionError, "type Region; give a list"),
        ({"regions": [SPHERE, "AF.nii"]}, InvalidRegionError, "Among the regions is one of type s"),
        ({"mask": "mask.nii.gz"}, InvalidMaskError, "type str; give the numbers of an image"),
        ({"mask": nib.Nifti1Image(np.ones((7, 6, 5)), SKEWED)}, InvalidMaskError, "Nifti1Image"),
        ({"tissues": np.ones((7, 6, 5, 5))}, InvalidTissuesError, "ndarray; give Tissues"),
        ({"step_mm": 1.0}, TypeError, "is a parameter; give TrackingParameters"),
        ({"step": 1.0}, TypeError, "nothing named step"),
        ({"seeds": [[0, 0]]}, InvalidSeedsError, r"\(1, 2\)"),
    ],
    ids=lambda value: "" if isinstance(value, type) else str(value)[:20],
)
def test_what_is_of_another_type_is_refused_in_a_sentence(fod, seeds, given, error, message):
    with pytest.raises(error, match=message):
        track(**{"fod": fod, "seeds": seeds} | given)


def test_positions_are_seeds_and_regions_may_come_one_by_one(fod, seeds):
    whole = track(fod, seeds, short(), regions=[SPHERE])
    assert len(whole) > 0
    points = seeds.positions_mm.tolist()
    assert track(fod, points, short(), regions=iter([SPHERE])).digest() == whole.digest()


def test_without_parameters_those_that_suit_the_fod_count(fod, seeds):
    suited = TrackingParameters.for_fod(fod)
    wanted = track(fod, seeds, suited, backend="cpu")
    assert len(wanted) > 0
    assert track(fod, seeds, backend="cpu").digest() == wanted.digest()
    assert track(fod, seeds, TrackingParameters(), backend="cpu").digest() != wanted.digest()
    one, other = (Region.sphere(fod.grid.centre_mm + aside, 2, "include") for aside in (-2, 2))
    between = track_between(fod, one, other, 4, max_seeds=2000)
    assert between.digest() == track_between(fod, one, other, 4, suited, max_seeds=2000).digest()


def test_without_parameters_a_tissue_image_halves_the_floor(fod, seeds):
    grey = np.zeros((*fod.grid.shape, 5), np.float32)
    grey[..., 0] = 1
    grey[2:-2, 2:-2, 2:-2, :3] = 0, 0, 1
    tissues = Tissues(grey, fod.grid.affine)
    suited = TrackingParameters.for_fod(fod, with_tissues=True)
    assert suited != TrackingParameters.for_fod(fod)
    wanted = track(fod, seeds, suited, tissues=tissues, backend="cpu")
    assert track(fod, seeds, tissues=tissues, backend="cpu").digest() == wanted.digest()
    without = TrackingParameters.for_fod(fod)
    assert track(fod, seeds, without, tissues=tissues, backend="cpu").digest() != wanted.digest()


def test_positions_count_as_they_are_when_the_run_begins(fod, seeds):
    positions = seeds.positions_mm.copy()
    wanted = track(fod, positions, backend="cpu")
    chunks = iter_track(fod, positions, backend="cpu", block=2)
    first = next(chunks)
    positions[:] = positions[0]
    assert Tractogram.concatenate([first, *chunks]).digest() == wanted.digest()


def test_a_run_without_streamlines_says_why(fod, seeds, caplog):
    with caplog.at_level(logging.WARNING):
        track(fod, seeds, short(min_length_mm=29.9, min_amplitude=3))
    assert "No streamlines from 500 seeds" in caplog.text


# Cancelling


def tracking_threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("tractography")}


def test_closing_cancels_what_is_under_way_and_leaves_no_thread(fod, monkeypatch):
    """Blocks of 20,000 seeds: the one that comes is done, those begun behind it end early."""
    done = []
    inner = cpu.track_range

    def noted(*arguments):
        chunk, seconds = inner(*arguments)
        done.append((arguments[2] - arguments[1], chunk.n_seeds))
        return chunk, seconds

    monkeypatch.setattr(cpu, "track_range", noted)
    before = tracking_threads()
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 400_000)
    chunks = iter_track(fod, seeds, short(max_length_mm=200), n_threads=2, block=20_000)
    first = next(chunks)
    assert first.n_seeds == 20_000
    assert tracking_threads() > before
    chunks.close()
    assert tracking_threads() == before
    assert len(done) <= 6  # of 20 blocks: no further one was begun
    assert any(tracked < asked for asked, tracked in done)
    with pytest.raises(StopIteration):
        next(chunks)


def test_a_generator_that_is_never_used_starts_no_thread(fod, seeds):
    before = tracking_threads()
    chunks = iter_track(fod, seeds, short())
    assert tracking_threads() == before
    chunks.close()


def test_a_run_to_the_end_leaves_no_thread(fod, seeds):
    before = tracking_threads()
    track(fod, seeds, short(), n_threads=3)
    assert tracking_threads() == before


def test_two_runs_at_once_do_not_disturb_each_other(fod, seeds):
    """They fill the rows of one table."""
    wanted = [track(fod, seeds, short(random_seed=k)).digest() for k in range(2)]
    fresh = Fod(fod.coefficients, fod.grid)
    runs = [iter_track(fresh, seeds, short(random_seed=k), block=20) for k in range(2)]
    chunks = list(zip(*runs, strict=True))
    digests = [Tractogram.concatenate(list(parts)).digest() for parts in zip(*chunks, strict=True)]
    assert digests == wanted


# Beside MRtrix3


def visits(points_mm, grid):
    """(x, y, z): how many points lie in each voxel."""
    voxels = np.floor(grid.to_voxel(points_mm) + 0.5).astype(int)
    inside = ((voxels >= 0) & (voxels < grid.shape)).all(axis=1)
    counts = np.zeros(grid.shape)
    np.add.at(counts, tuple(voxels[inside].T), 1)
    return counts


def test_fibres_pass_where_those_of_tckgen_pass(shared_data, tmp_path):
    """iFOD1 by the same rules: points in each voxel of the FiberCup phantom correlate."""
    tckgen = shutil.which("tckgen")
    if tckgen is None:
        pytest.skip("tckgen of MRtrix3 is not installed")
    path, mask_path = shared_data / "fibercup/fod.nii.gz", shared_data / "fibercup/wm.nii.gz"
    out = tmp_path / "ifod1.tck"
    command = [tckgen, "-quiet", "-algorithm", "iFOD1", path, out, "-seed_image", mask_path]
    command += ["-mask", mask_path, "-seeds", "8000", "-select", "0", "-step", "0.5"]
    command += ["-angle", "30", "-cutoff", "0.1", "-minlength", "0", "-maxlength", "250"]
    subprocess.run(
        [*map(str, command), "-nthreads", "0"],
        check=True,
        capture_output=True,
        timeout=100,
        env=os.environ | {"MRTRIX_RNG_SEED": "1"},
    )
    theirs = nib.streamlines.load(out).streamlines.get_data()
    fod = load_fod(path)
    mask = np.asarray(nib.load(mask_path).dataobj) != 0
    tractogram = track(
        fod,
        Seeds.in_mask(mask, fod.grid, 8000),
        TrackingParameters(step_mm=0.5, max_angle_deg=30.0, min_amplitude=0.1),
        mask=mask,
    )
    ours = visits(tractogram.points, fod.grid)
    assert not ours[~mask].any()
    # Two runs of tckgen with other random numbers correlate by 0.98.
    assert np.corrcoef(ours[mask], visits(theirs, fod.grid)[mask])[0, 1] > 0.92


def test_deterministic_lines_of_real_data_stay_in_the_mask_and_replay(shared_data):
    fod = load_fod(shared_data / "fibercup/fod.nii.gz")
    mask = np.asarray(nib.load(shared_data / "fibercup/wm.nii.gz").dataobj) != 0
    seeds = Seeds.in_mask(mask, fod.grid, 500)
    parameters = TrackingParameters(algorithm="deterministic", interpolation="nearest", start="max")
    tractogram = track(fod, seeds, parameters, mask=mask)
    assert len(tractogram) > 400
    assert visits(tractogram.points, fod.grid).sum() == tractogram.n_points
    assert not visits(tractogram.points, fod.grid)[~mask].any()
    assert track(fod, seeds, parameters, mask=mask, block=3).digest() == tractogram.digest()


def test_seeds_that_lie_close_together_follow_each_other():
    rng = np.random.default_rng(3)
    positions = rng.uniform(0, 30, (500, 3)).astype(np.float32)
    order = cpu.near_order(positions, np.eye(4, dtype=np.float32)[:3])
    assert sorted(order) == list(range(500))
    strides = np.linalg.norm(np.diff(positions[order], axis=0), axis=1)
    assert np.median(strides) < 0.4 * np.median(np.linalg.norm(np.diff(positions, axis=0), axis=1))
    beyond = np.array([[-1e30, 0, 0], [1e30, 0, 0], [0, 1e9, 0]], np.float32)
    assert sorted(cpu.near_order(beyond, np.eye(4, dtype=np.float32)[:3])) == [0, 1, 2]


# Ahead of what is asked for


def what_is_known(fod):
    """Return which rows of an FOD's table are filled, and of which it is known what is around."""
    table = fod_table(fod)
    filled = table.coefficients[:-1, fod.values.shape[1]] != codes.UNFILLED_BITS
    seen = table.crossings[:-1]
    return filled, filled & (seen >= codes.NOT_AMONG) & (seen < codes.NOT_SEEN)


@pytest.mark.parametrize("interpolation", ["trilinear", "nearest"])
def test_what_lines_find_out_is_found_ahead(interpolation):
    fod = make_phantom("arcs")
    parameters = TrackingParameters.for_fod(fod, interpolation=interpolation)
    assert not what_is_known(fod)[0].any()
    assert track_ahead(fod, parameters) == 1000
    filled, looked_around = what_is_known(fod)
    assert filled.mean() > 0.95
    assert looked_around.mean() > 0.85
    some = Seeds.in_mask(fod.support, fod.grid, 300)
    fresh = make_phantom("arcs")
    digest = track(fresh, some, parameters, backend="cpu").digest()
    assert track(fod, some, parameters, backend="cpu").digest() == digest


def test_nothing_is_found_ahead_of_peaks():
    peaks = Fod.from_peaks(np.ones((4, 4, 4, 3)), np.eye(4))
    parameters = TrackingParameters.for_fod(peaks, algorithm="sd_stream")
    assert track_ahead(peaks, parameters, heartbeat=pytest.fail) == 0


def test_to_track_ahead_ends_where_the_heartbeat_says(fod):
    beats = []

    def beat():
        beats.append(threading.active_count())
        if len(beats) == 3:
            raise InterruptedError

    before = threading.active_count()
    with pytest.raises(InterruptedError):
        track_ahead(fod, short(), beat)
    assert len(beats) == 3
    assert threading.active_count() == before
