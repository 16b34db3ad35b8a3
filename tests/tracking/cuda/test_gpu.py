"""The CUDA backend on a real GPU; skips without one.

Where there are only Python, NumPy, CuPy and pytest, the runs come from a file that
``benchmarks/gpu.py --export`` wrote elsewhere, named by NAPARI_TRACTOGRAPHY_GPU_BUNDLE::

    PYTHONPATH=src python -m pytest -c /dev/null -m gpu tests/tracking/cuda/test_gpu.py
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from napari_tractography.errors import BackendError
from napari_tractography.runtime.arrays import import_cupy
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import devices
from napari_tractography.tracking.cuda import cuda_backend as cuda
from napari_tractography.tracking.cuda import pinned
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.execution import Execution

pytestmark = pytest.mark.gpu
VARIABLE = "NAPARI_TRACTOGRAPHY_GPU_BUNDLE"


def bundle_module():
    folder = str(Path(__file__).resolve().parents[3] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("gpu_bundle")
    finally:
        sys.path.remove(folder)


bundle = bundle_module()


@pytest.fixture(scope="module")
def gpu() -> int:
    """The number of a GPU, or skip."""
    problem = devices.cuda_problem()
    if problem:
        pytest.skip(problem)
    return devices.choose_gpus("cuda")[0]


@pytest.fixture(scope="module")
def runs(gpu, tmp_path_factory):
    """Runs with what the CPU made of them: of the file, else made here of a phantom."""
    if os.environ.get(VARIABLE):
        return bundle.read(Path(os.environ[VARIABLE]))
    pytest.importorskip("numba", reason=f"no Numba to make runs with; name a file by {VARIABLE}")
    phantoms = importlib.import_module("napari_tractography.model.phantoms")
    path = tmp_path_factory.mktemp("bundle") / "bundle.npz"
    fod = bundle.rounded(phantoms.make_phantom("cross"))
    bundle.export(path, fod, exact=tuple(bundle.EXACT))
    return bundle.read(path)


@pytest.fixture
def run(runs):
    return runs["probabilistic, trilinear, plain"]


def together(chunks) -> Tractogram:
    return Tractogram.concatenate(list(chunks))


def used_bytes(gpu) -> int:
    gc.collect()
    cupy = import_cupy()
    with cupy.cuda.Device(gpu):
        return int(cupy.get_default_memory_pool().used_bytes())


@pytest.mark.parametrize("name", bundle.EXACT)
def test_bits_are_those_of_the_cpu(gpu, runs, name):
    run = runs[name]
    found = together(cuda.iter_chunks(run.plan, gpus=(gpu,)))
    assert {int(r): n for r, n in found.tally.items()} == {
        int(r): n for r, n in run.expected["tally"].items()
    }
    assert len(found) == run.expected["n_streamlines"]
    assert found.digest() == run.expected["digest"]


@pytest.mark.parametrize("threads", [32, 64, 256])
@pytest.mark.parametrize("block", [1, 77, None])
def test_streamlines_depend_neither_on_batches_nor_on_blocks(gpu, run, threads, block):
    plan = run.plan
    if block == 1:  # fewer: each is a batch
        plan = bundle.with_seeds(plan, 50)
        wanted = together(cuda.iter_chunks(plan, gpus=(gpu,))).digest()
    else:
        wanted = run.expected["digest"]
    how = Execution(block=block, threads_a_block=threads)
    found = together(cuda.iter_chunks(plan, how, gpus=(gpu,)))
    assert found.digest() == wanted


def test_streamlines_stay_on_the_device(gpu, runs):
    cupy = import_cupy()
    for name in ("probabilistic, nearest, plain", "deterministic, trilinear, endpoints"):
        found = cuda.track_on_device(runs[name].plan, gpu=gpu)
        assert isinstance(found.points, cupy.ndarray)
        assert isinstance(found.offsets, cupy.ndarray)
        assert found.to_host().digest() == runs[name].expected["digest"]


@pytest.fixture
def fod():
    """An FOD, where there is what makes one."""
    pytest.importorskip("numba", reason="no Numba to track with on the CPU")
    from napari_tractography.model.phantoms import make_phantom

    return make_phantom("cross")


def moved(array, through: str, gpu: int):
    """Return an array on the GPU, of CuPy or of PyTorch."""
    if through == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        return torch.from_numpy(array.copy()).to(f"cuda:{gpu}")
    cupy = import_cupy()
    with cupy.cuda.Device(gpu):
        return cupy.asarray(array)


def test_rows_filled_on_the_device_are_those_of_the_cpu(gpu, fod):
    from napari_tractography import Fod, Seeds, track
    from napari_tractography.tracking.codes import UNFILLED_BITS
    from napari_tractography.tracking.cuda import tables as cuda_tables
    from napari_tractography.tracking.tables.cache import fod_table

    track(fod, Seeds.from_fod(fod, 2000), backend="cpu")  # fills the rows that it comes near
    wanted = fod_table(fod)
    filled = wanted.coefficients[:, fod.values.shape[1]] != UNFILLED_BITS
    assert filled.mean() > 0.5
    given = Fod(moved(fod.coefficients, "cupy", gpu), fod.grid)
    found = cuda_tables.build_table(given)
    assert (found.voxel_rows.get() == wanted.voxel_rows).all()
    assert (found.coefficients.get()[filled] == wanted.coefficients[filled]).all()
    assert (found.masses.get()[filled] == wanted.masses[filled]).all()


@pytest.mark.parametrize("through", ["cupy", "torch"])
def test_what_is_given_on_the_device_gives_the_streamlines_of_the_cpu(gpu, fod, through):
    from napari_tractography import Fod, Seeds, track

    seeds = Seeds.from_fod(fod, 2000)
    wanted = track(fod, seeds, mask=fod.support, backend="cpu")
    found = track(
        Fod(moved(fod.coefficients, through, gpu), fod.grid),
        Seeds.at(moved(seeds.positions_mm, through, gpu)),
        mask=moved(fod.support, through, gpu),
        device_arrays=True,
    )
    assert found.to_host().digest() == wanted.digest()


@pytest.mark.parametrize("through", ["cupy", "torch"])
def test_regions_directions_and_drawn_seeds_are_taken_from_the_device(gpu, fod, through):
    from napari_tractography import Fod, Region, Seeds, TrackingParameters, track

    def there(array):
        return moved(array, through, gpu)

    given = Fod(there(fod.coefficients), fod.grid)
    used = fod.support.astype(np.uint8)
    seeds = Seeds.from_fod(fod, 2000)
    assert (Seeds.from_fod(given, 2000).positions_mm == seeds.positions_mm).all()
    drawn = Seeds.in_mask(there(used), fod.grid, 2000)
    assert (drawn.positions_mm == Seeds.in_mask(used, fod.grid, 2000).positions_mm).all()
    drawn = Seeds.in_each_voxel(there(used), fod.grid, 2)
    assert (drawn.positions_mm == Seeds.in_each_voxel(used, fod.grid, 2).positions_mm).all()
    directions = np.random.default_rng(3).normal(size=(2000, 3))
    used[: len(used) // 2] = 0

    def run(lie, fod, **more):
        starts = Seeds.at(lie(seeds.positions_mm), lie(directions))
        stops = [Region.mask(lie(used), fod.grid, "stop")]
        return track(fod, starts, TrackingParameters(start="given"), regions=stops, **more)

    wanted = run(np.array, fod, backend="cpu")
    assert run(there, given, device_arrays=True).to_host().digest() == wanted.digest()
    assert 0 < len(wanted) < 2000


def test_memory_is_given_back_when_a_run_ends_or_is_cancelled(gpu, run):
    together(cuda.iter_chunks(run.plan, gpus=(gpu,)))
    before = used_bytes(gpu)
    together(cuda.iter_chunks(run.plan, Execution(block=100), gpus=(gpu,)))
    assert used_bytes(gpu) == before
    chunks = cuda.iter_chunks(run.plan, Execution(block=100), gpus=(gpu,))
    next(chunks)
    chunks.close()
    assert used_bytes(gpu) == before


def test_points_that_are_kept_are_not_overwritten(gpu, run):
    before = pinned.pool.lent_bytes
    chunks = list(cuda.iter_chunks(run.plan, Execution(block=100), gpus=(gpu,)))
    together(cuda.iter_chunks(run.plan, Execution(block=100), gpus=(gpu,)))
    assert together(chunks).digest() == run.expected["digest"]
    assert pinned.pool.lent_bytes > before
    chunks.clear()
    gc.collect()
    assert pinned.pool.lent_bytes == before
    assert pinned.pool.n_bytes > 0


def test_a_small_memory_limit_gives_the_same_streamlines(gpu, run):
    chunks = list(cuda.iter_chunks(run.plan, Execution(memory_limit=1e6), gpus=(gpu,)))
    assert len(chunks) > 1
    assert together(chunks).digest() == run.expected["digest"]


def test_a_pool_that_is_full_gives_smaller_batches_of_the_same_streamlines(gpu, run, monkeypatch):
    """Points have nowhere to go then, which the host sees afterwards."""
    n_blocks = run.expected["n_streamlines"] // 2
    monkeypatch.setattr(kernels, "blocks_for", lambda *_: n_blocks)
    chunks = list(cuda.iter_chunks(run.plan, gpus=(gpu,)))
    assert len(chunks) > 1
    assert together(chunks).digest() == run.expected["digest"]


ROOTS_AND_QUOTIENTS = """
extern "C" __global__ void find(const float* a, const float* b, float* roots, float* quotients,
                                int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    roots[k] = root(b[k]);
    quotients[k] = divided(a[k], b[k]);
}
"""


def test_roots_and_quotients_are_rounded_as_those_of_the_cpu(gpu):
    cupy = import_cupy()
    rng = np.random.default_rng(4)
    n = 1 << 22
    # Squared lengths, amplitudes and tangents: neither zero nor extreme.
    a, b = np.ldexp(rng.uniform(0.5, 1.0, (2, n)), rng.integers(-30, 31, (2, n))).astype("f4")
    a[rng.random(n) < 0.5] *= -1
    head = "#define DEVICE static __device__ __forceinline__\n#define LMAX 2\n"
    with cupy.cuda.Device(gpu):
        find = cupy.RawKernel(
            head + kernels.source("evaluation.h") + ROOTS_AND_QUOTIENTS,
            "find",
            kernels.OPTIONS,
        )
        roots, quotients = cupy.zeros(n, "f4"), cupy.zeros(n, "f4")
        there = (cupy.asarray(a), cupy.asarray(b), roots, quotients, np.int32(n))
        find((-(-n // 256),), (256,), there)
        np.testing.assert_array_equal(roots.get().view("i4"), np.sqrt(b).view("i4"))
        np.testing.assert_array_equal(quotients.get().view("i4"), (a / b).view("i4"))


def test_a_refused_launch_is_explained(gpu, run):
    with pytest.raises(BackendError, match="registers"):
        together(cuda.iter_chunks(run.plan, Execution(threads_a_block=4096), gpus=(gpu,)))
    assert together(cuda.iter_chunks(run.plan, gpus=(gpu,))).digest() == run.expected["digest"]


def test_all_gpus_together_give_the_same_streamlines(gpu, run):
    gpus = devices.choose_gpus("cuda:all")
    if len(gpus) < 2:
        pytest.skip("there is one GPU only")
    found = together(cuda.iter_chunks(run.plan, Execution(block=100), gpus=gpus))
    assert found.digest() == run.expected["digest"]


def test_the_gpu_is_described(gpu):
    found = next(device for device in devices.devices() if device.name == f"cuda:{gpu}")
    assert found.model
    assert found.total_bytes >= found.free_bytes > 0
