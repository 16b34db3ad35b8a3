"""The largest amplitudes in the cones of all lanes, against dense searches in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from kept_code import kept
from scipy.ndimage import map_coordinates
from toys import crossing_fod, random_fod, tangents

from napari_tractography.fields.polynomials import change_of_basis
from napari_tractography.files.fods import load_fod
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import lanes, memory
from napari_tractography.tracking.cpu.lanes import N_LANES
from napari_tractography.tracking.cpu.sphere import search
from napari_tractography.tracking.engine import track
from napari_tractography.tracking.plan import kernel_field, kernel_settings
from napari_tractography.tracking.tables.builders import build_table
from napari_tractography.tracking.tables.cone_quadrature import cone_quadrature

N_DENSE = 10_000  # directions of the half sphere: 1.4 degrees apart
REFINED_DEG = (1.4, 0.5, 0.17)
SIGNS = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, 1, 1, 1]])[:, None]  # of mirror images
EVERY = np.uint32((1 << N_LANES) - 1)


@kept(search, lanes, memory)
def search_all(field, settings, scratch, state, rows, units, out, seen):
    for k in range(len(rows)):
        for lane in range(N_LANES):
            for c in range(rows.shape[2]):
                state.lane_coefficients[lane, c] = rows[k, lane, c]
                state.coefficients[c, lane] = rows[k, lane, c]
        ux, uy, uz = (
            lanes.load(units[k, 0]),
            lanes.load(units[k, 1]),
            lanes.load(units[k, 2]),
        )
        found = search.largest_in_cones(field, settings, scratch, state, ux, uy, uz, EVERY)
        for part in range(4):
            memory.store(out[k, part], found[part])
        memory.store(out[k, 4], search.mean_in_cones(field, scratch))
        for j in range(seen.shape[1]):
            for lane in range(N_LANES):
                seen[k, j, lane] = scratch.lane_amplitudes[j, lane]


def found_in_cones(fod, angle_deg, units):
    """What kernels find in the cones of voxels.

    The direction, the amplitude and the mean, and the amplitudes at all that is looked at.
    """
    parameters = TrackingParameters(algorithm="deterministic", max_angle_deg=angle_deg)
    field = kernel_field(build_table(fod), parameters)
    rows = fod.values.astype(np.float64) @ change_of_basis(fod.sample_matrix, fod.lmax).T
    n_padded = field.coefficients.shape[1]
    scratch = codes.new_scratch(len(field.quadrature_neighbours), n_padded, N_LANES)
    state = lanes.new_lane_state(0, 0, 10, n_padded)
    out = np.zeros((len(rows) // N_LANES, 5, N_LANES), np.float32)
    seen = np.zeros((len(out), len(field.quadrature_neighbours), N_LANES), np.float32)
    search_all(
        field,
        kernel_settings(parameters),
        scratch,
        state,
        rows.astype(np.float32).reshape(len(out), N_LANES, -1),
        np.swapaxes(units.astype(np.float32).reshape(len(out), N_LANES, 3), 1, 2).copy(),
        out,
        seen,
    )
    return tuple(np.swapaxes(a, 1, 2).reshape(-1, a.shape[1]).astype(float) for a in (out, seen))


def into_cones(directions, axes, angle_deg):
    """Unit vectors (n, k, 3), those outside the cones around (n, 3) moved to their borders."""
    along = np.einsum("nkc,nc->nk", directions, axes)[..., None]
    across = directions - along * axes[:, None]
    across /= np.maximum(np.linalg.norm(across, axis=-1, keepdims=True), 1e-12)
    angle = np.deg2rad(angle_deg)
    border = np.cos(angle) * axes[:, None] + np.sin(angle) * across
    return np.where(along < np.cos(angle), border, directions)


def rings_around(axes, angle_deg):
    """Unit vectors (n, k, 3) in cones around (n, 3), many of them on their borders."""
    angles = np.deg2rad(angle_deg) * np.repeat(np.arange(1, 6) / 5, 60)
    azimuths = np.tile(np.arange(60) * np.pi / 30, 5)
    frames = np.stack([tangents(axis) for axis in axes])
    around = np.stack([np.cos(azimuths), np.sin(azimuths)], axis=-1) @ frames
    return np.cos(angles)[:, None] * axes[:, None] + np.sin(angles)[:, None] * around


def amplitudes_at(fod, units):
    """Amplitudes of each voxel at directions of its own, (n, k, 3)."""
    matrix = fod.sample_matrix(units.reshape(-1, 3)).reshape(*units.shape[:2], -1)
    return np.einsum("nkc,nc->nk", matrix, fod.values.astype(np.float64))


def largest_of_all(fod, angle_deg, units):
    """The same by brute force: a dense look, then ever finer ones around the best."""
    every = np.arange(len(units))
    dense = direction_set(2 * N_DENSE)[:N_DENSE].astype(np.float64)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    amplitudes = fod.values.astype(np.float64) @ fod.sample_matrix(dense).T
    along = units @ dense.T
    amplitudes[np.abs(along) < np.cos(np.deg2rad(angle_deg))] = -np.inf
    place = amplitudes.argmax(axis=1)
    best = dense[place] * np.sign(along[every, place])[:, None]
    rings = rings_around(units, angle_deg)
    on_rings = amplitudes_at(fod, rings)
    is_higher = on_rings.max(axis=1) > amplitudes.max(axis=1)
    best[is_higher] = rings[every, on_rings.argmax(axis=1)][is_higher]
    steps = np.stack(np.meshgrid(*[np.arange(-3, 4) / 3] * 2), axis=-1).reshape(-1, 2)
    for spread_deg in REFINED_DEG:
        frames = np.stack([tangents(direction) for direction in best])
        around = best[:, None] + np.tan(np.deg2rad(spread_deg)) * (steps @ frames)
        around /= np.linalg.norm(around, axis=-1, keepdims=True)
        around = into_cones(around, units, angle_deg)
        amplitudes = amplitudes_at(fod, around)
        best = around[every, amplitudes.argmax(axis=1)]
    return amplitudes.max(axis=1)


@pytest.mark.parametrize("angle", [5.0, 20.0, 45.0, 90.0])
@pytest.mark.parametrize(
    "fod",
    [
        pytest.param(random_fod(4, shape=(9, 9, 4), seed=1), id="random 4"),
        pytest.param(random_fod(8, shape=(9, 9, 4), seed=2), id="random 8"),
        pytest.param(random_fod(16, shape=(5, 5, 4), seed=3), id="random 16"),
        pytest.param(crossing_fod(shape=(9, 9, 4), seed=4), id="crossings"),
    ],
)
def test_the_largest_amplitude_of_a_cone_is_found(fod, angle):
    fod = type(fod)(fod.coefficients[1:], fod.grid.affine)  # no voxel is empty
    n = len(fod.values) // N_LANES * N_LANES
    fod = type(fod)(fod.values[:n].reshape(n, 1, 1, -1), fod.grid.affine)
    units = np.random.default_rng(5).normal(size=(n, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    found, seen = found_in_cones(fod, angle, units)
    at, amplitudes = found[:, :3], found[:, 3]
    wanted = largest_of_all(fod, angle, units)
    dense = fod.values.astype(np.float64) @ fod.sample_matrix(direction_set(1000)).T
    counts = wanted > 0.05 * dense.max(axis=1)  # what tracking follows
    assert counts.mean() > 0.3
    short = (wanted - amplitudes)[counts] / wanted[counts]
    assert np.sum(short > 1e-3) <= n // 300
    assert short.min() > -0.02  # of two lobes the oracle may climb the lower
    # Where it is said to be found.
    np.testing.assert_allclose(np.linalg.norm(at, axis=1), 1, atol=1e-6)
    assert np.einsum("nc,nc->n", at, units).min() > np.cos(np.deg2rad(angle)) - 1e-6
    there = np.einsum("nc,nc->n", fod.sample_matrix(at), fod.values.astype(np.float64))
    scale = np.abs(fod.values).sum(axis=1).max()
    np.testing.assert_allclose(amplitudes, there, atol=1e-5 * scale)
    # What is seen on the way, on rings around the axis: in what order, their azimuth aside.
    np.testing.assert_allclose(seen[:, -1], amplitudes_at(fod, units[:, None])[:, 0], atol=1e-4)
    points = cone_quadrature(angle, fod.lmax).points.astype(float)
    x, y, z = (points[:3, :, None] * SIGNS).reshape(3, -1)
    east = np.stack([units[:, 0] * units[:, 2], units[:, 1] * units[:, 2], units[:, 2] ** 2 - 1])
    east = (east / np.linalg.norm(east, axis=0)).T
    north = np.cross(units, east)
    around = east[:, None] * x[:, None] + north[:, None] * y[:, None] + units[:, None] * z[:, None]
    np.testing.assert_allclose(seen[:, :-1], amplitudes_at(fod, around), atol=3e-5 * scale)


def test_steps_in_a_brain_of_low_degree_take_the_largest_amplitude(shared_data):
    """In cones as narrow as a lobe, of which the border is a large part."""
    angle = 25.7
    fod = load_fod(shared_data / "reference" / "brain_fod_as_nifti.nii.gz")
    parameters = TrackingParameters.for_fod(
        fod, algorithm="deterministic", start="max", direction="forward", max_angle_deg=angle
    )
    tractogram = track(fod, Seeds.from_fod(fod, 100, random_seed=3), parameters, backend="cpu")
    points = tractogram.points.astype(np.float64)
    arrived = np.setdiff1d(np.arange(1, len(points)), tractogram.offsets)
    arrived = arrived[: len(arrived) // 1664 * 1664]
    axes = points[arrived] - points[arrived - 1]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    volumes = np.moveaxis(fod.coefficients, -1, 0)
    where = fod.grid.to_voxel(points[arrived]).T
    mixed = np.stack([map_coordinates(v, where, order=1) for v in volumes], axis=-1)
    short = []
    for rows, units in zip(mixed.reshape(-1, 1664, 15), axes.reshape(-1, 1664, 3), strict=True):
        here = Fod(rows[:, None, None], np.eye(4))
        found = found_in_cones(here, angle, units)[0][:, 3]
        wanted = largest_of_all(here, angle, units)
        short += list((wanted - found) / wanted)
    assert len(short) > 3000
    assert np.sum(np.array(short) > 1e-3) <= 1
    assert max(short) < 0.01


def test_the_mean_over_a_cone_is_that_of_many_directions():
    fod = crossing_fod(shape=(4, 4, 4), seed=6)
    units = np.random.default_rng(7).normal(size=(64, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    means = found_in_cones(fod, 45.0, units)[0][:, 4]
    dense = direction_set(2 * N_DENSE).astype(np.float64)
    for row, unit, mean in zip(fod.values.astype(np.float64), units, means, strict=True):
        inside = dense[dense @ unit > np.cos(np.pi / 4)]
        wanted = np.maximum(fod.sample_matrix(inside) @ row, 0).mean()
        assert mean == pytest.approx(wanted, rel=0.05, abs=0.01)
