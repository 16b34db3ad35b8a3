"""The FOD tabulated by the CUDA source, compiled for the host, against the CPU's tables."""

from __future__ import annotations

import numpy as np
import pytest
from host import compile_for_host, pointer
from toys import random_fod

from napari_tractography.fod import Fod
from napari_tractography.tracking.cuda import source as kernels
from napari_tractography.tracking.cuda import tables as cuda_tables
from napari_tractography.tracking.tables.builders import build_table, sampling_matrix, sharpness_of


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_for_host(tmp_path_factory.mktemp("tables"), entry="host_tables.cpp")


def built(library, fod, n_directions, positivity):
    """Return the arrays of the table."""
    shapes = cuda_tables.table_arrays(fod.n_voxels, n_directions)
    arrays = {name: np.zeros(*shape) for name, shape in shapes.items()}
    matrix = sampling_matrix(fod, n_directions)
    given = {**arrays, "values": fod.values, "matrix": matrix}
    addresses = {name: array.ctypes.data for name, array in given.items()}
    rows = cuda_tables.pack_rows(addresses, fod.n_voxels, *matrix.shape, sharpness_of(positivity))
    for which in range(len(cuda_tables.NAMES)):
        n = arrays["quantised"].size  # more threads than there is to do
        library.launch_tables(which, -(-n // 7), 7, pointer(rows))
    return arrays


def difficult_fod():
    """Large, small, negative and lone amplitudes."""
    values = random_fod(8, shape=(6, 5, 4), seed=5).coefficients
    values[0] *= 1e4
    values[1] *= 1e-6
    values[2] *= -1
    values[3, :, :, 1:] = 0
    values[4, 0] = -values[3, 0]  # nowhere positive
    return Fod(values, np.eye(4))


def test_rows_lie_in_memory_as_the_compiler_has_them(library):
    layout = kernels.layout_in("Rows", kernels.source(cuda_tables.SOURCE))
    assert layout.itemsize == library.size_of_rows()


@pytest.mark.parametrize("n_directions", [32, 66, 724, 1026])
def test_tables_have_the_bits_of_the_cpu(library, n_directions):
    fod = difficult_fod()
    wanted = build_table(fod, n_directions=n_directions)
    assert (wanted.totals == 0).any()
    for name, found in built(library, fod, n_directions, "clip").items():
        expected = getattr(wanted, name)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(found.view("u1"), expected.view("u1"), err_msg=name)


def test_softplus_is_that_of_the_cpu_within_the_tolerance(library):
    fod = difficult_fod()
    wanted = build_table(fod, positivity="softplus")
    found = built(library, fod, 724, "softplus")
    off = found["quantised"].astype(int) - wanted.quantised
    assert np.abs(off).max() <= 1
    np.testing.assert_allclose(found["quanta"], wanted.quanta, rtol=2**-22)
    np.testing.assert_allclose(found["totals"], wanted.totals, rtol=1e-6)
