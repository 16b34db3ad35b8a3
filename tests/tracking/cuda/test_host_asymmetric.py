"""Asymmetric FODs: the CUDA source, compiled for the host, gives the CPU's bits.

And it compiles for a GPU.
"""

from __future__ import annotations

import ctypes
import sys

import fake_cupy
import numpy as np
import pytest
from host import compile_for_host, rows_of, track_on_host
from plans import plan_of
from test_compile import compiled, nvrtc, section_sizes
from test_host_kernel import assert_same, on_cpu, short
from test_tables import fill_all
from toys import SKEWED, random_fod

from napari_tractography.model.algorithms import BY_NAME
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.runtime.buffers import BufferPool
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu.lanes import N_LANES
from napari_tractography.tracking.cuda import cuda_backend as cuda
from napari_tractography.tracking.cuda import device as cuda_device
from napari_tractography.tracking.cuda import pinned
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables
from napari_tractography.tracking.cuda.uploads import Uploads
from napari_tractography.tracking.plan import kernel_field
from napari_tractography.tracking.tables.builders import build_table

__all__ = ["nvrtc"]  # a fixture

LMAX = 4


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("asymmetric")
    return compile_for_host(folder, f"-DLMAX={LMAX}", "-DASYMMETRIC=1")


@pytest.fixture(scope="module")
def fod() -> Fod:
    return random_fod(LMAX, shape=(7, 6, 5), affine=SKEWED, seed=21, is_asymmetric=True)


def seeds_of(fod: Fod) -> Seeds:
    inside = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 300).positions_mm
    return Seeds.at(inside, np.random.default_rng(0).normal(size=inside.shape))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"interpolation": "nearest", "start": "max", "min_probability": 0.15},
        {"start": "max", "look_ahead_mm": 1.5},
        {"start": "given", "positivity": "softplus"},
        {"algorithm": "deterministic"},
        {"algorithm": "deterministic", "start": "max", "min_probability": 0.15},
        {"algorithm": "deterministic", "positivity": "softplus", "max_angle_deg": 90.0},
        {"algorithm": "sd_stream", "interpolation": "nearest"},
        {"algorithm": "sd_stream", "interpolation": "nearest", "min_probability": 0.15},
        {"algorithm": "ifod2", "max_angle_deg": 45.0},
        {"algorithm": "ifod2", "min_probability": 0.1, "start": "max"},
        {"algorithm": "ifod2", "samples": 6, "step_mm": 4.0},
    ],
    ids=lambda changes: ", ".join(map(str, changes.values())) or "as it is",
)
def test_the_cuda_source_gives_the_bits_of_the_cpu(
    library: ctypes.CDLL, fod: Fod, changes: dict[str, object]
) -> None:
    plan = plan_of(fod, seeds_of(fod), short(**changes))
    wanted = on_cpu(plan)
    assert len(wanted) > 30
    assert_same(track_on_host(library, plan), wanted)


def test_the_backend_compiles_for_odd_degrees(
    library: ctypes.CDLL, fod: Fod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with a fake GPU."""
    machine = fake_cupy.Machine(library)
    monkeypatch.setitem(sys.modules, "cupy", machine)
    monkeypatch.setattr(cuda_device, "_uploads", Uploads())
    monkeypatch.setattr(pinned, "pool", BufferPool(allocate=pinned._allocate))
    for load in (cuda_device.load_kernels, cuda_tables.load_kernels):
        load.cache_clear()
    plan = plan_of(fod, seeds_of(fod), short())
    found = Tractogram.concatenate(list(cuda.iter_chunks(plan)))
    for load in (cuda_device.load_kernels, cuda_tables.load_kernels):
        load.cache_clear()
    assert found.digest() == on_cpu(plan).digest()
    assert len(machine.modules) == 2  # that of tables, too
    for options in machine.modules:
        assert {f"-DLMAX={LMAX}", "-DASYMMETRIC=1"} <= set(options)


@pytest.mark.parametrize("algorithm", ["diffusion", "transport"])
def test_where_sines_are_the_machines_streamlines_begin_alike(
    library: ctypes.CDLL, fod: Fod, algorithm: str
) -> None:
    plan = plan_of(fod, seeds_of(fod), short(algorithm=algorithm, max_length_mm=2.0))
    wanted, found = on_cpu(plan), track_on_host(library, plan)
    np.testing.assert_array_equal(found.seed_index, wanted.seed_index)
    assert len(wanted) > 100
    same = [a.shape == b.shape for a, b in zip(found, wanted, strict=True)]
    assert np.mean(same) > 0.95
    away = [np.abs(a - b).max() for a, b, is_so in zip(found, wanted, same, strict=True) if is_so]
    assert np.median(away) < 1e-4


def test_cones_that_are_functions_are_followed_one_way(library: ctypes.CDLL, fod: Fod) -> None:
    """A symmetric FOD's peaks may be taken the other way round; these may not."""

    def cone(current: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return np.abs(candidates @ current) > 0.7

    parameters = short(algorithm="deterministic", max_length_mm=5.0)
    plan = plan_of(fod, seeds_of(fod), parameters, cone=cone)
    assert_same(track_on_host(library, plan), on_cpu(plan))


@pytest.mark.parametrize("lmax", [2, 4, 8])
def test_rows_of_the_table_have_the_bits_of_the_cpu(
    tmp_path: object, library: ctypes.CDLL, lmax: int
) -> None:
    if lmax != LMAX:
        library = compile_for_host(tmp_path, f"-DLMAX={lmax}", "-DASYMMETRIC=1")  # type: ignore[arg-type]
    values = random_fod(lmax, shape=(6, 5, 4), seed=5, is_asymmetric=True).coefficients
    values[0] *= 1e4
    values[1] *= -1
    values[2, :, :, 1:] = 0
    field = kernel_field(build_table(Fod(values, np.eye(4))), TrackingParameters())
    found = rows_of(library, field)
    scratch = codes.new_scratch(field.sphere_points.shape[1], field.coefficients.shape[1], N_LANES)
    fill_all(field, scratch)
    np.testing.assert_array_equal(found["coefficients"], field.coefficients)
    np.testing.assert_array_equal(found["masses"].view(np.int32), field.masses.view(np.int32))


@pytest.mark.parametrize("lmax", [4, 8, 16])
def test_what_lanes_of_a_warp_have_in_common_is_as_large_as_python_says(
    tmp_path: object, lmax: int
) -> None:
    library = compile_for_host(
        tmp_path,  # type: ignore[arg-type]
        f"-DLMAX={lmax}",
        "-DASYMMETRIC=1",
        f"-DALGORITHM={BY_NAME['probabilistic'].code}",
        "-DINTERPOLATION=1",
        "-DPLAIN=1",
    )
    lanes = library.lanes_of_warp()
    of_lanes = 4 * ((lmax + 1) ** 2 + 2 + 14) * (kernels.WARP - lanes)
    assert library.size_of_common() + of_lanes == kernels.common_bytes(lmax, True)


@pytest.mark.parametrize(
    ("algorithm", "n_bytes"), [("probabilistic", 160_000), ("deterministic", 190_000)]
)
def test_kernels_compile_for_a_gpu(nvrtc: object, algorithm: str, n_bytes: int) -> None:
    row = BY_NAME[algorithm]
    options = kernels.defines(row.code, codes.TRILINEAR, 8, True)
    code, _ = compiled(
        nvrtc, "sm_90", *kernels.tracking_options(row.code), *options, *kernels.usual()
    )
    assert section_sizes(code)[".text.track_streamlines"] <= n_bytes


def test_the_kernel_of_tables_compiles_for_a_gpu(nvrtc: object) -> None:
    options = (*kernels.OPTIONS, *kernels.degrees(8, True))
    code, _ = compiled(nvrtc, "sm_90", *options, name=cuda_tables.SOURCE)
    assert code.startswith(b"\x7fELF")
