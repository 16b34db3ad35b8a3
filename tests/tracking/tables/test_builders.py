"""Tables before a streamline comes near, and the directions that kernels look at."""

from __future__ import annotations

import numpy as np
import pytest
from toys import SKEWED, farthest_deg, random_fod

from napari_tractography.fields.polynomials import change_of_basis
from napari_tractography.model.fod import Fod
from napari_tractography.runtime.buffers import CACHE_LINE, aligned
from napari_tractography.tracking.codes import NOT_AMONG, PADDING, POINTS_AT_ONCE, UNFILLED_BITS
from napari_tractography.tracking.tables.builders import (
    LARGEST_HALF,
    bits_of_voxels,
    build_table,
    cone_points,
    sphere_points,
    words_of,
)


@pytest.mark.parametrize("lmax", range(0, 17, 2))
def test_a_new_table_has_empty_rows_and_one_of_zeros_for_empty_voxels(lmax):
    fod = random_fod(lmax, seed=1)
    table = build_table(fod)
    n = fod.values.shape[1]
    assert table.coefficients.shape[0] == fod.n_voxels + 1
    assert table.coefficients.shape[1] % PADDING == 0
    assert table.coefficients.shape[1] > n  # there is room for the bound
    assert (table.coefficients[:-1, n] == UNFILLED_BITS).all()
    assert not table.coefficients[-1].any()
    assert table.masses[-1] == 0
    assert np.uint16(UNFILLED_BITS).view(np.float16) == -1
    assert not table.change[:, n:].any()
    assert table.crossings[-1] == NOT_AMONG
    arrays = table.coefficients, table.masses, table.crossings, table.words
    assert table.n_bytes == sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("lmax", [0, 4, 8, 16])
def test_the_change_of_basis_of_a_table_is_that_of_the_fod(lmax):
    fod = random_fod(lmax, seed=2, affine=SKEWED)
    table = build_table(fod)
    n = fod.values.shape[1]
    wanted = change_of_basis(fod.sample_matrix, lmax).T * float(table.scale)
    np.testing.assert_allclose(
        table.change[:, :n], wanted, rtol=1e-6, atol=5e-9 * np.abs(wanted).max()
    )


@pytest.mark.parametrize("factor", [2.0**-20, 1.0, 2.0**20, 1e6, 1e-6])
def test_coefficients_of_an_fod_in_any_unit_fit_half_floats(factor):
    fod = random_fod(8, seed=3)
    fod = Fod(fod.coefficients * factor, fod.grid)
    table = build_table(fod)
    assert np.log2(table.scale) % 1 == 0  # a power of two: amplitudes keep all their digits
    largest = np.abs(fod.values @ table.change).max()
    assert 100 < largest < LARGEST_HALF


def test_an_fod_in_another_unit_has_the_same_table():
    fod = random_fod(8, seed=3)
    other = Fod(fod.coefficients * np.float32(2.0**-20), fod.grid)
    table, scaled = build_table(fod), build_table(other)
    assert scaled.scale == table.scale * np.float32(2.0**20)
    np.testing.assert_array_equal(other.values @ scaled.change, fod.values @ table.change)


def test_only_voxels_with_an_fod_have_rows():
    values = np.zeros((3, 2, 2, 6))
    values[0, 0, 0, 0] = 1
    values[2, 1, 0, 0] = 2
    values[1, 0, 1, 0] = -1  # an FOD, but nowhere positive
    table = build_table(Fod(values, np.eye(4)))
    assert sorted(table.voxel_rows[table.voxel_rows >= 0]) == [0, 1, 2]
    assert len(table.coefficients) == 4


@pytest.mark.parametrize("n_columns", [16, 48, 160])
def test_rows_begin_where_cache_lines_do(n_columns):
    for _ in range(5):
        rows = aligned((7, n_columns), np.uint16, 3)
        assert rows.ctypes.data % CACHE_LINE == 0
        assert rows.shape == (7, n_columns)
        assert (rows == 3).all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (4, 4, 4), (2, 8, 8), (9, 11, 13)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_words_tell_the_rows_of_voxels(shape, share):
    held = np.random.default_rng(4).random(shape) < share
    rows = np.where(held, np.cumsum(held).reshape(shape) - 1, -1).astype(np.int32)
    words = words_of(rows)
    assert len(words) == -(-held.size // 64)
    for voxel, row in enumerate(rows.ravel()):
        bits, before = (int(number) for number in words[voxel // 64])
        below = bits & ((1 << voxel % 64) - 1)
        assert (bits >> voxel % 64 & 1) == (row >= 0)
        if row >= 0:
            assert before + below.bit_count() == row


def test_bits_of_a_mask_are_those_of_its_voxels_in_order():
    mask = np.zeros((5, 6, 7), np.uint8)
    mask[1, 2, 3] = mask[4, 5, 6] = 1
    words = bits_of_voxels(mask)
    assert [i for i in range(64 * len(words)) if int(words[i // 64]) >> i % 64 & 1] == [59, 209]


@pytest.mark.parametrize(("lmax", "gap_deg"), [(2, 25.0), (4, 9.5), (8, 4.5), (16, 2.3)])
def test_directions_of_the_sphere_leave_no_gap(lmax, gap_deg):
    points = sphere_points(lmax)
    assert points.dtype == np.float32
    assert points.shape[1] % POINTS_AT_ONCE == 0
    np.testing.assert_allclose(np.linalg.norm(points.astype(float), axis=0), 1, atol=1e-6)
    probes = np.random.default_rng(0).normal(size=(20_000, 3))
    probes /= np.linalg.norm(probes, axis=1, keepdims=True)
    assert farthest_deg(np.concatenate([points.T, -points.T]), probes) < gap_deg
    assert not points.flags.writeable


@pytest.mark.parametrize("angle", [1.0, 10.0, 45.0, 90.0, 180.0])
@pytest.mark.parametrize("lmax", [0, 8])
def test_directions_of_a_cone_lie_in_it_and_are_spread_evenly(angle, lmax):
    points = cone_points(angle, lmax)
    assert points.dtype == np.float32
    assert points.shape[1] % POINTS_AT_ONCE == 0
    np.testing.assert_allclose(np.linalg.norm(points.astype(float), axis=0), 1, atol=1e-6)
    height = 1 - np.cos(np.deg2rad(angle))
    down = 1 - points[2].astype(float)
    assert down.max() <= height + 1e-6
    # Rings of the same area have as many of them, and so have all sides.
    rings = np.histogram(down, bins=4, range=(0, height))[0]
    assert np.ptp(rings) <= 1
    turns = np.histogram(np.arctan2(points[1], points[0]), bins=4, range=(-np.pi, np.pi))[0]
    assert np.ptp(turns) <= max(3, 0.1 * points.shape[1])
    assert not points.flags.writeable
