"""The largest amplitude in a cone, and peaks, against dense searches in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from kept_code import kept
from toys import BruteForce, crossing_fod, lobes

from napari_tractography.fields.polynomials import change_of_basis, shifts
from napari_tractography.model.fod import Fod
from napari_tractography.tracking.codes import EVERYWHERE
from napari_tractography.tracking.cpu.sphere import peaks
from napari_tractography.tracking.tables.builders import cone_points, sphere_points

N_FODS = 15


@kept(peaks)
def largest(shifts, coefficients, amplitudes, peak, points, unit, cosine, sine):
    return peaks.largest_in_cone(
        shifts, coefficients, amplitudes, peak, points, unit[0], unit[1], unit[2], cosine, sine
    )


@kept(peaks)
def climbed(shifts, coefficients, unit, to):
    value = peaks.value_at(shifts, coefficients, unit[0], unit[1], unit[2])
    zero = np.float32(0)
    to[0], to[1], to[2], to[3] = peaks.climb(
        shifts, coefficients, zero, zero, zero, EVERYWHERE, zero,
        unit[0], unit[1], unit[2], value,
    )  # fmt: skip


def truths(lmax=8, seed=0):
    """FODs of single voxels: the truth, coefficients as kernels read them, and a direction."""
    fod = crossing_fod(seed=seed)
    change = change_of_basis(fod.sample_matrix, lmax)
    axes = np.random.default_rng(seed).normal(size=(N_FODS, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    for row, axis in zip(fod.values[:N_FODS].astype(np.float64), axes, strict=True):
        yield BruteForce(fod, row), (change @ row).astype(np.float32), axis


@pytest.mark.parametrize("angle", [3.0, 30.0, 90.0, 180.0])
def test_the_largest_amplitude_of_a_cone_is_found(angle):
    lmax = 8
    cosine, sine = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    points = cone_points(angle, lmax)
    if angle == 180:
        points, cosine, sine = sphere_points(lmax), EVERYWHERE, 0.0
    on_border = 0
    for truth, mine, axis in truths():
        peak = np.zeros(4, np.float32)
        found = largest(
            tuple(shifts(lmax)),
            mine,
            np.zeros(points.shape[1], np.float32),
            peak,
            points,
            axis.astype(np.float32),
            np.float32(cosine),
            np.float32(sine),
        )
        at, wanted = truth.peak(axis, angle)
        scale = np.abs(truth.coefficients).sum()
        assert found == pytest.approx(wanted, abs=1e-3 * scale)
        assert found == peak[3]
        unit = peak[:3].astype(np.float64)
        assert np.linalg.norm(unit) == pytest.approx(1, abs=1e-6)
        assert unit @ axis > cosine - 1e-6
        assert truth.raw(unit[None])[0] == pytest.approx(found, abs=1e-5 * scale)
        on_border += angle < 180 and at @ axis < cosine + 1e-4 * (1 - cosine)
    if angle <= 3:
        assert on_border > N_FODS / 2


def uphill(truth, unit, step=0.02):
    """Follow the gradient in 64 bits from a direction to the peak of its lobe."""
    for _ in range(100):
        a, b = np.linalg.svd(unit[None])[2][1:]
        around = unit + 1e-4 * np.stack([a, -a, b, -b])
        values = truth.raw(around / np.linalg.norm(around, axis=1, keepdims=True))
        slope = (values[0] - values[1]) * a + (values[2] - values[3]) * b
        if np.linalg.norm(slope) == 0:
            break
        ahead = unit + step * slope / np.linalg.norm(slope)
        ahead /= np.linalg.norm(ahead)
        if truth.raw(ahead[None])[0] <= truth.raw(unit[None])[0]:
            step *= 0.5
            if step < 1e-3:
                break
            continue
        unit = ahead
    return unit


def test_a_climb_ends_at_the_peak_of_the_lobe_it_began_on():
    """Two lobes of lmax 8 at 60 degrees; from up to 20 degrees beside either."""
    axes = np.array([[0.0, 0.0, 1.0], [np.sin(np.pi / 3), 0.0, 0.5]])
    values = lobes(axes[0], 8) + 0.6 * lobes(axes[1], 8)
    fod = Fod(values[None, None, None], np.eye(4))
    truth = BruteForce(fod, values)
    mine = (change_of_basis(fod.sample_matrix, 8) @ values).astype(np.float32)
    rng = np.random.default_rng(5)
    for axis in np.repeat(axes, 5, axis=0):
        beside = axis + np.tan(np.deg2rad(20)) * rng.uniform(-0.7, 0.7, 3)
        beside /= np.linalg.norm(beside)
        to = np.zeros(4, np.float32)
        climbed(tuple(shifts(8)), mine, beside.astype(np.float32), to)
        wanted = uphill(truth, beside)
        assert np.degrees(np.arccos(min(to[:3] @ wanted, 1))) < 0.3
        assert to[3] == pytest.approx(truth.raw(wanted[None])[0], rel=1e-4)
        assert to[3] >= truth.raw(beside[None])[0] - 1e-6
