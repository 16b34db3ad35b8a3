"""FODs, seeds and masks that lie on a GPU, on a stand-in for CuPy that counts what is copied."""

from __future__ import annotations

import gc
import pickle
import sys

import fake_cupy
import numpy as np
import pytest
from host import compile_for_host
from toys import SKEWED, random_fod

from napari_tractography.errors import (
    BackendError,
    InvalidFodError,
    InvalidMaskError,
    InvalidRegionError,
    InvalidSeedsError,
)
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.regions import Region
from napari_tractography.model.seeds import Seeds
from napari_tractography.model.stop import N_REASONS
from napari_tractography.runtime.arrays import as_native, host_array, on_gpu
from napari_tractography.tracking import engine, measuring
from napari_tractography.tracking.costs import PerformanceModel
from napari_tractography.tracking.cuda import device as cuda_device
from napari_tractography.tracking.cuda import tables as cuda_tables
from napari_tractography.tracking.cuda.uploads import Uploads
from napari_tractography.tracking.engine import iter_track, track
from napari_tractography.tracking.tables.builders import build_table

SHORT = TrackingParameters(step_mm=0.4, max_length_mm=30.0)
KINDS = ("cupy", "dlpack", "cuda array interface")
OWN = 3 * 8 + N_REASONS * 8  # bytes that every batch reports: points and lines, and the tally


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def machine(library, monkeypatch, tmp_path):
    """Two fake GPUs and nothing measured yet."""
    fake = fake_cupy.Machine(library, n_gpus=2)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(cuda_device, "_uploads", Uploads())
    monkeypatch.setattr(measuring, "performance", PerformanceModel(tmp_path / "costs.json"))
    monkeypatch.setattr(measuring, "started_gpus", set())
    loaders = cuda_device.load_kernels, cuda_tables.load_kernels
    for load in loaders:
        load.cache_clear()
    yield fake
    for load in loaders:
        load.cache_clear()


def there(machine, array, kind="cupy", gpu=0):
    """Return an array as it would lie on a GPU."""
    host = np.array(array, order="K")
    if kind == "cupy":
        return fake_cupy.Array(host, machine, gpu=gpu)
    return fake_cupy.Foreign(host, kind, gpu)


@pytest.fixture(scope="module")
def data():
    """Coefficients with empty and broken voxels, seeds and a mask, on the host."""
    coefficients = random_fod(6, shape=(7, 6, 5), affine=SKEWED, seed=21).coefficients
    coefficients[0] = 0
    coefficients[1, 1, 1, 3] = np.nan
    fod = Fod(coefficients, SKEWED)
    positions = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 300).positions_mm
    mask = np.ones(fod.grid.shape)
    mask[4:] = [[[np.nan]], [[0]], [[2]]]
    return fod, np.asfortranarray(coefficients), positions, np.asfortranarray(mask)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["auto", "cuda"])
@pytest.mark.filterwarnings("ignore:.*NaN or infinite")
def test_nothing_that_is_given_on_a_gpu_passes_the_host(machine, data, kind, backend):
    fod, coefficients, positions, mask = data
    wanted = track(fod, Seeds.at(positions), SHORT, mask=mask, backend="cpu")
    assert not machine.downloads
    given = Fod(there(machine, coefficients, kind, 1), SKEWED)
    seeds = Seeds.at(there(machine, positions, kind, 1))
    on_it = there(machine, mask, kind, 1)
    found = track(given, seeds, SHORT, mask=on_it, backend=backend, device_arrays=True)
    assert found.points.gpu == 1  # where the FOD lies
    assert {name for name, _, _ in machine.launches} >= set(cuda_tables.NAMES)
    assert sum(machine.downloads) == OWN
    assert machine.moves == [positions.nbytes]  # into the batch; tables are read where they are
    table = build_table(fod)
    given_there = (coefficients, fod.values, fod.voxel_rows, positions, mask, mask != 0)
    never = (*given_there, table.coefficients, table.masses)
    assert not {array.nbytes for array in never} & set(machine.uploads)
    assert found.to_host().digest() == wanted.digest()
    assert len(wanted) > 100
    # What the host reads is the same, and copied once.
    machine.downloads.clear()
    for _ in range(2):
        np.testing.assert_array_equal(given.coefficients, fod.coefficients)
        np.testing.assert_array_equal(seeds.positions_mm, positions)
    values, rows = fod.values, fod.voxel_rows
    assert machine.downloads == [values.nbytes, rows.nbytes, positions.nbytes]
    assert (given.n_voxels, given.n_invalid_voxels) == (fod.n_voxels, 1)


def test_chunks_of_a_run_are_the_only_thing_that_comes_back(machine, data):
    _fod, coefficients, positions, mask = data
    given = Fod(there(machine, coefficients), SKEWED)
    seeds = Seeds.at(there(machine, positions))
    chunks = list(iter_track(given, seeds, SHORT, mask=there(machine, mask), block=64))
    n_bytes = sum(
        chunk.points.nbytes + chunk.offsets.nbytes + len(chunk) * (4 + 2 + 8) for chunk in chunks
    )
    assert sum(machine.downloads) == n_bytes + len(chunks) * OWN
    assert sum(chunk.n_seeds for chunk in chunks) == 300


def test_the_cpu_tracks_what_lies_on_a_gpu(machine, data):
    fod, coefficients, positions, mask = data
    wanted = track(fod, Seeds.at(positions), SHORT, mask=mask, backend="cpu").digest()
    seeds, on_it = Seeds.at(there(machine, positions)), there(machine, mask)
    given = Fod(there(machine, coefficients), SKEWED)
    assert track(given, seeds, SHORT, mask=on_it, backend="cpu").digest() == wanted
    # Few seeds on a GPU and an FOD on the host: "auto" takes the CPU.
    assert track(fod, seeds, SHORT, mask=on_it).digest() == wanted
    assert not machine.launches


def test_another_gpu_gets_a_copy_once(machine, data):
    fod, coefficients, positions, _mask = data
    given = Fod(there(machine, coefficients), SKEWED)
    seeds = Seeds.at(there(machine, positions, gpu=1))
    wanted = track(fod, Seeds.at(positions), SHORT, backend="cpu").digest()
    for backend in ("cuda:1", "cuda:all", "cuda:0"):
        assert track(given, seeds, SHORT, backend=backend, block=50).digest() == wanted
    used = machine.used
    track(given, seeds, SHORT, backend="cuda:1")
    assert machine.used == used
    table_bytes = cuda_tables.build_table(given).n_bytes
    del given
    gc.collect()
    assert machine.used < used - table_bytes  # on both, with the FOD


@pytest.mark.parametrize("positivity", ["clip", "softplus"])
@pytest.mark.parametrize("kind", KINDS)
def test_regions_and_given_directions_stay_there(machine, data, positivity, kind):
    fod, coefficients, positions, _mask = data
    parameters = SHORT.replace(start="given", positivity=positivity)
    directions = np.random.default_rng(4).normal(size=(300, 3))
    labels = np.where(fod.support, 3, 0)
    labels[:3] = 5
    inside, ball = fod.support.astype(float), fod.grid.centre_mm
    inside[0, 0, 0] = np.nan
    other = np.ones((2, 2, 2), np.uint8)  # on a grid of its own

    def regions(lie):
        return [
            Region.mask(lie(inside), fod.grid, "include"),
            Region.sphere(ball, 40.0, "include"),
            Region.mask(lie(labels), fod.grid, "stop", label=3),
            Region.mask(lie(other), fod.grid.affine @ np.diag([1.5, 1.5, 1.5, 1]), "include"),
        ]

    def lie(array):
        return there(machine, array, kind)

    given = Fod(lie(coefficients), SKEWED)
    seeds = Seeds.at(lie(positions), lie(directions))
    there_too = regions(lie)
    machine.uploads.clear()
    machine.downloads.clear()
    found = track(given, seeds, parameters, regions=there_too, device_arrays=True)
    assert sum(machine.downloads) == OWN
    passing = {300 * 4, directions.nbytes, directions.nbytes // 2, inside.size, other.size}
    assert not (passing | {2 * inside.size + other.size}) & set(machine.uploads)
    on_host = Seeds.at(positions, directions)
    wanted = track(fod, on_host, parameters, regions=regions(np.array), backend="cpu")
    assert 20 < len(wanted) < 280
    assert found.to_host().digest() == wanted.digest()
    # The CPU tracks the same, and has its copies from then on.
    machine.downloads.clear()
    again = track(given, seeds, parameters, regions=there_too, backend="cpu")
    assert again.digest() == wanted.digest()
    np.testing.assert_array_equal(seeds.directions, on_host.directions)
    assert machine.downloads.count(inside.size) == 2


def test_masks_of_regions_may_lie_anywhere(machine, data):
    fod, _coefficients, positions, _mask = data
    lower, upper = fod.support.copy(), fod.support.copy()
    lower[2:], upper[:3] = False, False

    def run(first, second, backend):
        regions = [
            Region.mask(first, fod.grid, "include"),
            Region.mask(second, fod.grid, "include"),
        ]
        return track(fod, Seeds.at(positions), SHORT, regions=regions, backend=backend).digest()

    wanted = run(lower, upper, "cpu")
    assert run(there(machine, lower, gpu=1), there(machine, upper), "cuda:0") == wanted
    assert run(lower, there(machine, upper), "cuda:1") == wanted
    assert run(there(machine, lower), upper, "cuda:all") == wanted
    assert run(there(machine, lower), upper, "cpu") == wanted


def test_a_region_on_a_gpu_that_no_streamline_can_meet_is_named(machine, data, caplog):
    fod, coefficients, positions, _mask = data
    given = Fod(there(machine, coefficients), SKEWED)
    away = np.eye(4)
    away[:3, 3] = 1e4
    far = Region.mask(there(machine, np.ones((2, 2, 2))), away, "exclude", name="far")
    machine.downloads.clear()
    track(given, Seeds.at(positions), SHORT, regions=[far], device_arrays=True)
    assert "Region far (exclude) does not overlap the FOD" in caplog.text
    assert sum(machine.downloads) == OWN
    with pytest.raises(InvalidRegionError, match="no voxel with label 9"):
        Region.mask(there(machine, np.ones((2, 2, 2))), np.eye(4), "stop", label=9)
    with pytest.raises(InvalidRegionError, match="give a 3-D mask"):
        Region.mask(there(machine, np.ones((2, 2))), np.eye(4), "stop")
    near = Region.mask(there(machine, fod.support), fod.grid, "include")
    on_host = Region.mask(fod.support, fod.grid, "include")
    np.testing.assert_array_equal(near.contains(positions), on_host.contains(positions))


def test_seeds_are_drawn_from_what_lies_on_a_gpu(machine, data):
    fod, coefficients, _, mask = data
    given = Fod(there(machine, coefficients), SKEWED)
    region = Region.mask(there(machine, fod.support), fod.grid, "seed")
    machine.downloads.clear()
    for found, wanted in (
        (Seeds.from_fod(given, 50), Seeds.from_fod(fod, 50)),
        (Seeds.in_mask(there(machine, mask), fod.grid, 50), Seeds.in_mask(mask, fod.grid, 50)),
        (
            Seeds.in_each_voxel(there(machine, mask), fod.grid, 2),
            Seeds.in_each_voxel(mask, fod.grid, 2),
        ),
        (region.seeds(50), Seeds.in_mask(fod.support, fod.grid, 50)),
    ):
        np.testing.assert_array_equal(found.positions_mm, wanted.positions_mm)
    each = np.count_nonzero(np.nan_to_num(mask))
    assert machine.downloads == [n * 8 for n in (50, 50, each, 50)]  # the voxels that they are in


def test_wrong_input_on_a_gpu_is_refused_as_on_the_host(machine, data):
    _fod, coefficients, positions, mask = data
    with pytest.raises(InvalidFodError, match="no count of even spherical"):
        Fod(there(machine, coefficients[..., :7]), SKEWED)
    with pytest.raises(InvalidFodError, match="no voxel with finite"):
        Fod(there(machine, np.zeros((2, 2, 2, 6))), np.eye(4))
    broken = positions.copy()
    broken[[3, 5], 1] = np.inf
    with pytest.raises(InvalidSeedsError, match="2 seeds have NaN"):
        Seeds.at(there(machine, broken))
    with pytest.raises(InvalidSeedsError, match="have shape"):
        Seeds.at(there(machine, positions[:, :2]))
    given = Fod(there(machine, coefficients), SKEWED)
    machine.downloads.clear()
    with pytest.raises(InvalidMaskError, match="has shape"):
        track(given, Seeds.at(positions), SHORT, mask=there(machine, mask[1:]))
    with pytest.raises(InvalidMaskError, match="is empty"):
        track(given, Seeds.at(positions), SHORT, mask=there(machine, 0 * mask))
    assert not machine.downloads
    with pytest.raises(InvalidSeedsError, match="All 300 seeds lie outside"):
        track(given, Seeds.at(there(machine, positions + np.float32(1e4))), SHORT)


def test_a_gpu_without_room_for_the_tables_says_so(machine, data):
    given = Fod(there(machine, data[1]), SKEWED)
    machine.limit = machine.used + 10_000
    with pytest.raises(BackendError, match=r"table of FOD needs .* GB, more than cuda:0"):
        track(given, Seeds.at(data[2]), SHORT)


def test_a_gpu_that_fills_up_while_the_input_is_checked_says_so(machine, data, monkeypatch):
    def fill(*_):
        raise fake_cupy.OutOfMemoryError("Out of memory allocating 64 bytes (allocated so far: 1)")

    monkeypatch.setattr(engine, "check_mask", fill)
    given = Fod(there(machine, data[1], gpu=1), SKEWED)
    with pytest.raises(BackendError, match=r"^cuda:1 has too little free memory \(Out of "):
        track(given, Seeds.at(data[2]), SHORT)


def test_what_cupy_cannot_take_is_explained(machine):
    array = there(machine, np.zeros(3), "dlpack")

    def refuse(**_):
        raise BufferError("Can't export tensors that require gradient")

    array.__dlpack__ = refuse
    with pytest.raises(BackendError, match=r"CuPy cannot take this Foreign .*require gradient"):
        as_native(array)


def test_pickles_lie_on_the_host(machine, data):
    """As another process may have no GPU."""
    fod, coefficients, positions, _ = data
    given = Fod(there(machine, coefficients), SKEWED), Seeds.at(there(machine, positions))
    again_fod, again_seeds = pickle.loads(pickle.dumps(given))
    assert isinstance(again_fod.device_values.native, np.ndarray)
    np.testing.assert_array_equal(again_fod.values, fod.values)
    np.testing.assert_array_equal(again_seeds.positions_mm, positions)


def test_without_cupy_arrays_on_a_gpu_are_copied_to_the_host(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    array = fake_cupy.Foreign(np.arange(6.0), "dlpack")
    array.cpu = lambda: array.host
    np.testing.assert_array_equal(as_native(array), np.arange(6.0))


class OnlyDlpack:
    """An array on the host of a library that knows nothing but DLPack."""

    def __init__(self, host):
        self.__dlpack__, self.__dlpack_device__ = host.__dlpack__, host.__dlpack_device__
        self.numpy = lambda: host


@pytest.mark.parametrize("library", ["torch", "jax.numpy", "another"])
def test_arrays_of_other_libraries_on_the_host_are_taken_as_they_are(data, library):
    if library == "another":
        make = OnlyDlpack
    else:
        module = pytest.importorskip(library, reason=f"{library} is not installed")
        make = module.from_numpy if library == "torch" else module.asarray
    fod, coefficients, positions, mask = data
    positions, mask = np.array(positions), (np.nan_to_num(mask) != 0).astype(np.uint8)
    tensor = make(np.ascontiguousarray(coefficients))
    assert not on_gpu(tensor)
    if library != "jax.numpy":  # which has no writeable view to compare with
        assert np.shares_memory(host_array(tensor), tensor.numpy())
    found = track(
        Fod(tensor, SKEWED), Seeds.at(make(positions)), SHORT, mask=make(mask), backend="cpu"
    )
    wanted = track(fod, Seeds.at(positions), SHORT, mask=mask, backend="cpu")
    assert found.digest() == wanted.digest()
