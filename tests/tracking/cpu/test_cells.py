"""Rows of the table, filled by the kernel, and their interpolation; against 64 bits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kept_code import kept
from toys import SKEWED, cone_points, lobes, random_fod

from napari_tractography.fields.polynomials import polynomial_matrix
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking.codes import UNFILLED_BITS
from napari_tractography.tracking.cpu import cells
from napari_tractography.tracking.engine import track
from napari_tractography.tracking.plan import kernel_field
from napari_tractography.tracking.tables.builders import build_table
from napari_tractography.tracking.tables.cache import fod_table

SPHERE = cone_points(np.array([0.0, 0.0, 1.0]), 90.0, 30_000)  # 0.5 degrees apart


def sphere_of(fod):
    """Directions of the half sphere, where the FOD is even; else of the whole."""
    return np.concatenate([SPHERE, -SPHERE]) if fod.is_asymmetric else SPHERE


@kept(cells, nogil=True)
def fill_rows(
    shifts, values, change, table, masses, crossings, points, amplitudes, mixed, half_floats
):
    for row in range(len(values)):
        cells.fill_row(
            shifts,
            values,
            change,
            table,
            masses,
            crossings,
            row,
            points,
            amplitudes,
            mixed,
            half_floats,
        )


def fill(table):
    """Fill all rows of a table, whether they are filled or not."""
    field = kernel_field(table, TrackingParameters())
    n_points, n_padded = field.sphere_points.shape[1], table.coefficients.shape[1]
    fill_rows(
        field.shifts,
        field.values,
        field.change,
        table.coefficients,
        table.masses,
        table.crossings,
        field.sphere_points,
        np.zeros(n_points, np.float32),
        np.zeros(n_padded, np.float32),
        np.zeros(n_padded, np.uint16),
    )


def filled(fod):
    """The table of an FOD, all its rows filled; rows as float64, bounds, masses and the scale."""
    table = build_table(fod)
    fill(table)
    rows = table.coefficients[:-1].view(np.float16).astype(np.float64)
    n = fod.values.shape[1]
    return rows[:, :n], rows[:, n], table.masses[:-1].astype(np.float64), float(table.scale)


def two_lobes(angle_deg, ratio, lmax):
    """FODs of two sharp lobes at an angle, each along its own direction in every voxel."""
    rng = np.random.default_rng(lmax)
    first = rng.normal(size=(5, 5, 5, 3))
    first /= np.linalg.norm(first, axis=-1, keepdims=True)
    other = np.cross(first, rng.normal(size=3))
    other /= np.linalg.norm(other, axis=-1, keepdims=True)
    angle = np.deg2rad(angle_deg)
    second = np.cos(angle) * first + np.sin(angle) * other
    sharpness = 1.0 / max(lmax, 1) ** 2
    return Fod(lobes(first, lmax, sharpness) + ratio * lobes(second, lmax, sharpness), np.eye(4))


def one_way_lobes(lmax):
    """FODs of two lobes to opposite sides, of heights that differ by a little, and one between."""
    rng = np.random.default_rng(lmax)
    units = rng.normal(size=(5, 5, 5, 2, 3))
    units /= np.linalg.norm(units, axis=-1, keepdims=True)
    first, second, opposite = (
        lobes(some, lmax, 1.0 / lmax**2, is_asymmetric=True)
        for some in (units[..., 0, :], units[..., 1, :], -units[..., 0, :])
    )
    return Fod(first + 0.6 * second + 1.05 * opposite, np.eye(4))


FODS = [
    *[
        pytest.param(random_fod(lmax, shape=(5, 5, 5), seed=lmax), id=f"random {lmax}")
        for lmax in (0, 4, 8, 16)
    ],
    *[
        pytest.param(two_lobes(angle, ratio, 8), id=f"lobes {angle} degrees apart, {ratio}")
        for angle in (25, 45, 90)
        for ratio in (0.9, 1.0)
    ],
    pytest.param(two_lobes(14, 1.0, 16), id="lobes 14 degrees apart, lmax 16"),
    *[
        pytest.param(
            random_fod(lmax, shape=(5, 5, 5), seed=lmax, is_asymmetric=True),
            id=f"random {lmax}, asymmetric",
        )
        for lmax in (2, 4, 8, 16)
    ],
    pytest.param(one_way_lobes(8), id="lobes to one side, and one nearly as high opposite"),
]


@pytest.mark.parametrize("fod", FODS)
def test_rows_are_the_fod_within_the_rounding_of_half_floats(fod):
    rows, _, masses, scale = filled(fod)
    sphere = sphere_of(fod)
    wanted = fod.values.astype(np.float64) @ fod.sample_matrix(sphere).T
    found = rows @ polynomial_matrix(sphere, fod.lmax, fod.is_asymmetric).T / scale
    off = np.abs(found - wanted) / np.abs(wanted).max(axis=1, keepdims=True)
    # Higher degrees cancel more: their polynomials have larger coefficients.
    assert np.sqrt((off**2).mean()) < (3e-4 if fod.lmax <= 8 else 3e-3)
    assert off.max() < (2e-3 if fod.lmax <= 8 else 3e-2)
    means = np.maximum(found, 0).mean(axis=1)
    np.testing.assert_allclose(masses / scale, means, rtol=0.02, atol=2e-3 * means.max())


@pytest.mark.parametrize("fod", FODS)
def test_no_amplitude_exceeds_the_bound_of_its_row(fod):
    rows, bounds, _, _ = filled(fod)
    polynomials = polynomial_matrix(sphere_of(fod), fod.lmax, fod.is_asymmetric)
    largest = (rows @ polynomials.T).max(axis=1)
    positive = largest > 0
    assert positive.any()
    assert (bounds[positive] >= largest[positive]).all()
    # A loose bound costs tries: at most what an FOD may rise between the directions looked at.
    assert (bounds[positive] <= 1.26 * largest[positive]).all()
    assert (bounds[~positive] >= 0).all()


def test_an_fod_that_is_negative_everywhere_has_the_bound_zero():
    values = np.zeros((1, 1, 1, 15))
    values[..., 0] = -1.0
    _, bounds, masses, _ = filled(Fod(values, np.eye(4)))
    assert bounds[0] == masses[0] == 0


def test_rows_are_filled_when_a_streamline_first_comes_near():
    """One step in the middle of a voxel: its own row without interpolation, else the cell's."""
    for interpolation, n_filled in (("nearest", 1), ("trilinear", 8)):
        fod = random_fod(8, shape=(6, 6, 6), seed=3)
        position = fod.grid.to_mm([[2.3, 3.2, 2.4]])
        parameters = TrackingParameters(
            interpolation=interpolation,
            direction="forward",
            step_mm=0.05,
            max_length_mm=0.05,
            min_amplitude=0.0,
        )
        assert len(track(fod, Seeds.at(position), parameters)) == 1
        table = fod_table(fod)
        is_filled = table.coefficients[:-1, 45] != UNFILLED_BITS
        assert is_filled.sum() == n_filled
        assert is_filled[fod.voxel_rows[2, 3, 2]]
        every = filled(fod)
        there = table.coefficients[:-1][is_filled].view(np.float16)
        np.testing.assert_array_equal(there[:, :45], every[0][is_filled])
        np.testing.assert_array_equal(there[:, 45], every[1][is_filled])
        np.testing.assert_array_equal(table.masses[:-1][is_filled], every[2][is_filled])


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic"])
def test_streamlines_do_not_depend_on_the_unit_of_the_fod(factor, algorithm):
    fod = random_fod(8, shape=(7, 6, 5), affine=SKEWED, seed=21)
    seeds = Seeds.in_mask(fod.support, fod.grid, 200)
    parameters = TrackingParameters(
        algorithm=algorithm, step_mm=0.4, max_length_mm=30.0, min_amplitude=0.0625
    )
    other = Fod(fod.coefficients * np.float32(factor), fod.grid)
    one = track(fod, seeds, parameters)
    two = track(other, seeds, parameters.replace(min_amplitude=0.0625 * factor))
    assert one.n_points > 1000
    assert one.digest() == two.digest()


@kept(cells)
def weights_of(fractions, out):
    for k in range(8):
        out[k] = cells.corner_weight(k, fractions[0], fractions[1], fractions[2])


def test_corners_have_trilinear_weights():
    for fractions in np.random.default_rng(0).uniform(size=(5, 3)).astype(np.float32):
        found = np.zeros(8, np.float32)
        weights_of(fractions, found)
        x, y, z = ([1 - a, a] for a in fractions)
        wanted = [x[k >> 2] * y[k >> 1 & 1] * z[k & 1] for k in range(8)]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_row_that_is_filled_stays_so_while_another_thread_fills_it_too():
    table = build_table(FODS[2].values[0])
    fill(table)
    bounds = table.coefficients[:-1, 45].copy()
    with ThreadPoolExecutor(1) as pool:
        other = [pool.submit(fill, table) for _ in range(30)]
        changes = 0
        while not other[-1].done():
            changes += int((table.coefficients[:-1, 45] != bounds).sum())
        assert not [task.exception() for task in other if task.exception()]
    assert changes == 0


def test_rows_that_a_mask_keeps_streamlines_from_are_not_counted():
    table = build_table(Fod(np.ones((4, 5, 6, 6)), np.eye(4)))
    mask = np.zeros((4, 5, 6), np.uint8)
    mask[1:3, 2, :] = 1
    assert kernel_field(table, TrackingParameters()).n_entered == len(table.values) == 120
    assert kernel_field(table, TrackingParameters(), mask).n_entered == 12
    assert kernel_field(table, TrackingParameters(), np.ones_like(mask)).n_entered == 120


@kept(cells)
def rows_around(field, cells_there, rows, n):
    for lane in range(cells_there.shape[1]):
        cells.find_rows(field, cells_there, rows, n, lane)


@pytest.mark.parametrize("n", [1, 8])
def test_rows_are_those_of_the_voxels_of_each_cell(n):
    rng = np.random.default_rng(5)
    coefficients = np.where(rng.uniform(size=(5, 7, 11, 1)) < 0.6, 1.0, 0.0)
    fod = Fod(coefficients, np.eye(4))
    field = kernel_field(build_table(fod), TrackingParameters())
    first = np.stack(np.meshgrid(*(np.arange(-2, size + 2) for size in (5, 7, 11))), -1)
    first = first.reshape(-1, 3)
    found = np.full((len(first), 8), -9)
    rows_around(field, np.ascontiguousarray(first.T, np.int32), found, n)
    padded = np.pad(fod.voxel_rows, 4, constant_values=-1)
    wanted = padded[tuple((first[:, None] + [[k >> 2, k >> 1 & 1, k & 1] for k in range(n)]).T + 4)]
    wanted = np.where(wanted < 0, len(fod.values), wanted).T
    np.testing.assert_array_equal(found[:, :n], wanted)
    # Voxels are looked up by 64 at a time: some cells lie across two of these.
    inside = ((first >= 0) & (first + 1 < (5, 7, 11))).all(axis=1)
    assert (first[inside] @ [77, 11, 1] % 64 == 63).sum() > 2
