"""The rows of a table filled by the CUDA source, compiled for the host, against the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
from host import compile_for_host, pointer, rows_of
from kept_code import kept, look_around_everywhere, scratch_for
from toys import bundles_that_cross, lobes, random_fod

from napari_tractography.fields.polynomials import shifts
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import cells
from napari_tractography.tracking.plan import kernel_field
from napari_tractography.tracking.tables.builders import build_table


@pytest.fixture(scope="module", params=[2, 8, 12])
def lmax(request):
    return request.param


@pytest.fixture(scope="module")
def library(tmp_path_factory, lmax):
    return compile_for_host(tmp_path_factory.mktemp("tables"), f"-DLMAX={lmax}")


def difficult_fod(lmax):
    """Large, small, negative and lone amplitudes."""
    values = random_fod(lmax, shape=(6, 5, 4), seed=5).coefficients
    values[0] *= 1e4
    values[1] *= 1e-6
    values[2] *= -1
    values[3, :, :, 1:] = 0
    values[4, 0] = -values[3, 0]  # nowhere positive
    return Fod(values, np.eye(4))


@kept(cells)
def fill_all(field, scratch):
    for row in range(field.values.shape[0]):
        cells.fill_row(
            field.shifts,
            field.values,
            field.change,
            field.coefficients,
            field.masses,
            field.crossings,
            row,
            field.sphere_points,
            scratch.amplitudes,
            scratch.mixed,
            scratch.half_floats,
        )


@pytest.mark.parametrize("is_asymmetric", [False, True])
def test_the_same_voxels_are_among_crossings_as_on_the_cpu(tmp_path, is_asymmetric):
    """Of voxels that are neither cubes nor along the axes, some without an FOD."""
    lmax = 4 if is_asymmetric else 8
    defines = (f"-DLMAX={lmax}", f"-DASYMMETRIC={int(is_asymmetric)}")
    fod = bundles_that_cross(20.0, lmax, is_asymmetric=is_asymmetric, noise=0.05)
    field = kernel_field(build_table(fod), TrackingParameters())
    found = rows_of(compile_for_host(tmp_path, *defines), field)
    look_around_everywhere(field, scratch_for(field))
    seen = field.crossings[:-1]
    crosses, among = seen & codes.WAYS_CROSS != 0, seen >= codes.AMONG_CROSSINGS
    states = {*zip(crosses.tolist(), among.tolist(), strict=True)}
    assert {(False, False), (False, True), (True, True)} <= states
    assert len({*(seen & codes.WIDTH).tolist()}) > 3
    assert len({*(seen & codes.PLANE).tolist()}) > 2
    np.testing.assert_array_equal(found["crossings"], field.crossings)


def test_rows_have_the_bits_of_the_cpu(library, lmax):
    field = kernel_field(build_table(difficult_fod(lmax)), TrackingParameters())
    found = rows_of(library, field)
    fill_all(field, scratch_for(field))
    bounds = field.coefficients[:, field.values.shape[1]].view(np.float16)
    assert (bounds == 0).sum() > 1  # in some voxels, and in the row without an FOD
    assert (bounds >= 0).all()
    np.testing.assert_array_equal(found["coefficients"], field.coefficients)
    np.testing.assert_array_equal(found["masses"].view(np.int32), field.masses.view(np.int32))


def test_half_floats_are_those_of_numpy(library):
    """On a GPU they are those of one instruction, which rounds as IEEE 754 says, too."""
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)].astype(np.float32)
    middle = (every[1:] + every[:-1]) / 2
    beside = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    values = np.concatenate([every, middle, *beside, [1e6, -1e6, np.inf]]).astype(np.float32)
    half_floats, read = np.zeros(len(values), np.uint16), np.zeros(len(values), np.float32)
    library.halve(pointer(values), pointer(half_floats), pointer(read), len(values))
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16)
    np.testing.assert_array_equal(half_floats, wanted.view(np.uint16))
    np.testing.assert_array_equal(read, wanted.astype(np.float32))


def test_shifts_of_the_polynomials_are_those_of_python(library, lmax):
    found = np.zeros(lmax + 1, np.float32)
    library.shifts(pointer(found))
    np.testing.assert_array_equal(found, shifts(lmax))


def test_bounds_are_within_the_range_of_half_floats(library, lmax):
    """A bound of infinity accepts nothing, and mixes with a weight of 0 to none at all."""
    units = np.random.default_rng(2).normal(size=(200, 1, 1, 3))
    units /= np.linalg.norm(units, axis=-1, keepdims=True)
    field = kernel_field(build_table(Fod(lobes(units, lmax, 0.0), np.eye(4))), TrackingParameters())
    bounds = rows_of(library, field)["coefficients"][:-1, field.values.shape[1]].view(np.float16)
    assert np.isfinite(bounds).all()
    assert bounds.min() > 100
