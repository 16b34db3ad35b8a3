"""Tracking in an image by blocks: the same bits as in peaks that are there as a whole."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from waves import rings

from napari_tractography import (
    Fod,
    Region,
    Seeds,
    StopReason,
    TrackingParameters,
    iter_track,
    track,
)
from napari_tractography.errors import (
    BackendError,
    InvalidFodError,
    InvalidParameterError,
    UnfinishedError,
)
from napari_tractography.fields.block_store import BlockStore
from napari_tractography.fields.structure_tensors import image_source
from napari_tractography.tracking.engine import make_plan
from napari_tractography.tracking.inputs import TrackingInput

SHAPE = 40, 36, 12
AFFINE = np.diag([0.5, 0.5, 0.5, 1.0])
SEEDS = Seeds.in_sphere([14.0, 8.75, 3.0], 2.0, 60)


@pytest.fixture(scope="module")
def source():
    """Rings around the z axis: a streamline goes round, through many blocks."""
    return image_source(rings(SHAPE), AFFINE, 0.5, 1.0)


@pytest.fixture(scope="module")
def whole(source):
    """The same orientations as peaks."""
    return Fod.from_peaks(source.vectors((0, 0, 0), SHAPE), AFFINE)


def in_blocks(source, n_blocks=None, bits=3):
    limit = None if n_blocks is None else n_blocks * 12 * 8**bits
    return Fod.of_blocks(BlockStore(source, limit, block_bits=bits))


def parameters(fod, **changes):
    return TrackingParameters.for_fod(fod, min_amplitude=0.05, **changes)


def same(one, other):
    assert one.digest() == other.digest()
    assert one.tally == other.tally
    assert one.n_seeds == other.n_seeds
    assert np.array_equal(one.seed_index, other.seed_index)
    assert np.array_equal(one.stop_reasons, other.stop_reasons)


@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic", "sd_stream"])
@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_streamlines_are_those_of_peaks_to_the_bit(source, whole, algorithm, interpolation):
    fod = in_blocks(source)
    values = parameters(fod, algorithm=algorithm, interpolation=interpolation)
    expected = track(whole, SEEDS, values)
    assert len(expected) > 40
    assert expected.lengths_mm.max() > 20  # some blocks of 4 mm
    same(track(fod, SEEDS, values), expected)


@pytest.mark.parametrize(
    ("n_blocks", "bits", "n_threads", "block"),
    [
        pytest.param(None, 3, 1, None, id="one thread"),
        pytest.param(None, 2, 3, 7, id="small blocks, chunks of 7"),
        pytest.param(None, 5, 2, None, id="blocks of 32"),
        pytest.param(22, 3, 2, 20, id="room for most blocks"),
        pytest.param(18, 3, 3, 60, id="room for little more than a streamline's"),
    ],
)
def test_blocks_threads_and_limits_change_no_bit(source, whole, n_blocks, bits, n_threads, block):
    fod = in_blocks(source, n_blocks, bits)
    values = parameters(fod, max_length_mm=20.0)
    regions = [Region.sphere([10.0, 15.0, 3.0], 2.0, role="exclude")]
    expected = track(whole, SEEDS, values, regions=regions)
    assert expected.tally[StopReason.EXCLUDED]
    given = {"regions": regions, "n_threads": n_threads, "block": block}
    for _ in range(2):  # the second time with the blocks of the first
        same(track(fod, SEEDS, values, **given), expected)
    if n_blocks is not None:
        assert fod.blocks.n_kept <= n_blocks
        assert fod.blocks.n_made > n_blocks  # some were dropped


def test_only_blocks_near_streamlines_are_worked_out(source):
    fod = in_blocks(source)
    made, blocks = fod.worked_out()
    assert not made.any()
    assert made.shape == blocks.shape == (5, 5, 2)
    np.testing.assert_allclose(blocks.to_mm([0, 0, 0]), 1.75)  # the middle of voxels 0 to 7
    lines = track(fod, SEEDS, parameters(fod, max_length_mm=6.0))
    made, _ = fod.worked_out()
    came_to = np.unique(fod.grid.to_voxel(lines.points).astype(int) // 8, axis=0)
    assert made[tuple(came_to.T)].all()
    assert fod.blocks.n_made == made.sum() < made.size / 2


def test_a_streamline_that_needs_more_room_than_there_is_says_so(source):
    fod = in_blocks(source, 3)
    with pytest.raises(InvalidParameterError, match=r"comes to \d+ blocks .* is room for 3; give"):
        track(fod, SEEDS, parameters(fod))


class Failing:
    """An image of which a part cannot be read."""

    def __init__(self, image, first_bad):
        self.image, self.first_bad, self.shape, self.dtype = (
            image,
            first_bad,
            image.shape,
            image.dtype,
        )

    def __getitem__(self, box):
        if box[0].stop > self.first_bad:
            raise OSError("the connection was lost")
        return self.image[box]


def test_what_was_tracked_stays_when_the_image_can_no_longer_be_read(whole):
    image = rings(SHAPE)
    fod = in_blocks(image_source(Failing(image, 36), AFFINE, 0.5, 1.0, name="scan"))
    points = np.concatenate([np.tile([[4.0, 8.75, 3.0]], (4, 1)), [[18.0, 8.75, 3.0]]])
    values = parameters(fod, max_length_mm=3.0, min_length_mm=0.0)
    expected = track(whole, Seeds.at(points), values)
    chunks = iter_track(fod, Seeds.at(points), values, n_threads=1, block=8)
    finished = next(chunks)
    with pytest.raises(UnfinishedError, match=r"scan cannot be read .*the connection was lost"):
        next(chunks)
    assert finished.n_seeds == len(finished) == 4
    assert np.array_equal(finished.points, expected[:4].points)
    with pytest.raises(UnfinishedError) as raised:
        track(fod, Seeds.at(points), values, n_threads=1, block=2)
    assert raised.value.tractogram.digest() == finished.digest()


def test_a_defect_of_a_source_ends_the_run_and_leaves_nobody_waiting(source):
    class Defective:
        grid, name = source.grid, "defective"

        def vectors(self, first, last):
            raise ZeroDivisionError("a defect")

    fod = in_blocks(Defective())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="a defect"):
            track(fod, SEEDS, parameters(fod), n_threads=3, block=10)


def test_several_runs_share_what_is_worked_out(source, whole):
    fod = in_blocks(source)
    values = parameters(fod)
    found = {}

    def run(seed):
        found[seed] = track(fod, SEEDS, values.replace(random_seed=seed), n_threads=2)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(3):
        same(found[seed], track(whole, SEEDS, values.replace(random_seed=seed)))
    assert fod.blocks.n_made == fod.worked_out()[0].sum()  # none of them twice


def test_what_asks_for_all_of_a_small_image_gets_it(source, whole):
    fod = in_blocks(source)
    assert fod.kind == "image"
    assert np.array_equal(fod.voxel_rows, whole.voxel_rows)
    assert np.array_equal(fod.vectors.numbers, whole.vectors.numbers)
    assert "orientations of an image" in repr(fod)
    again = pickle.loads(pickle.dumps(fod))
    same(track(again, SEEDS, parameters(fod)), track(fod, SEEDS, parameters(fod)))


class Rule:
    """An image of a thousand million voxels and more that nobody has: waves along x and y."""

    shape, dtype = (2048, 2048, 2048), np.dtype(np.float32)

    def __getitem__(self, box):
        x, y, z = np.ix_(*(np.arange(part.start, part.stop) for part in box))
        return (np.cos(0.9 * x) + np.cos(0.8 * y) + 0 * z).astype(np.float32)


def test_in_a_volume_larger_than_memory_only_its_neighbourhood_counts():
    fod = Fod.from_image(Rule(), np.diag([0.01, 0.01, 0.01, 1.0]), 0.01, 0.01)
    values = TrackingParameters.for_fod(fod, max_length_mm=0.4)
    lines = track(fod, Seeds.in_sphere([10.0, 10.0, 10.0], 0.01, 20), values)
    assert len(lines) == 20
    assert np.ptp(lines.points[:, 2]) > 0.3
    assert np.abs(lines.points[:, :2] - 10.0).max() < 0.02
    assert fod.blocks.n_made <= 16
    with pytest.raises(InvalidFodError, match="too many to work out all of them"):
        _ = fod.coefficients


def test_a_gpu_is_not_asked(source):
    fod = in_blocks(source)
    lines = track(fod, SEEDS, parameters(fod, max_length_mm=6.0), backend="cuda")
    assert len(lines)
    with pytest.raises(BackendError, match="on the CPU alone so far"):
        track(fod, SEEDS, parameters(fod), device_arrays=True)


def test_nothing_is_worked_out_before_a_run(source):
    fod = in_blocks(source)
    plan = make_plan(TrackingInput(fod, SEEDS, parameters(fod)))
    assert plan.table.n_bytes == 0
    assert not fod.worked_out()[0].any()
