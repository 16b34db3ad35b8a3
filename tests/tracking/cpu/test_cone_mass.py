"""Whether enough of the FOD lies in the cones of lanes: decided as by the sums, mostly without."""

from __future__ import annotations

import numpy as np
import pytest
from kept_code import kept
from toys import convolved, crossing_fod, random_fod

from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import deterministic, draw, lanes
from napari_tractography.tracking.cpu.lanes import N_LANES
from napari_tractography.tracking.cpu.sphere import search
from napari_tractography.tracking.plan import kernel_field, kernel_settings
from napari_tractography.tracking.tables.builders import build_table
from napari_tractography.tracking.wasm.wasm_backend import fill_rows

EVERY = np.uint32((1 << N_LANES) - 1)
FODS = {
    "noise": random_fod(8, shape=(8, 8, 8), seed=3),
    "crossings": crossing_fod(shape=(8, 8, 8), seed=3),
}


@kept(draw, deterministic, lanes, search)
def decide(field, settings, scratch, state, rows, mixed, units, out):
    """Which lanes have too little: by the sums alone, and as kernels do; which are in doubt."""
    for k in range(len(rows)):
        for lane in range(N_LANES):
            state.lane_rows[lane, 0] = rows[k, lane]
            for c in range(mixed.shape[2]):
                state.lane_coefficients[lane, c] = mixed[k, lane, c]
                state.coefficients[c, lane] = mixed[k, lane, c]
            state.ux[lane], state.uy[lane], state.uz[lane] = units[k, lane]
        summed = np.uint32(0)
        for lane in range(N_LANES):
            if draw.below_cone_mass(field, settings, scratch, state, 1, lane):
                summed |= np.uint32(1) << np.uint32(lane)
        out[k, 0] = summed
        out[k, 1] = draw.lanes_below_cone_mass(field, settings, scratch, state, 1, EVERY)
        numbers = field.cone_mass
        doubt, little = draw.lanes_in_doubt(field, settings, scratch, state, 1, EVERY, numbers)
        out[k, 2], out[k, 5] = doubt | little, little
        ux, uy, uz = lanes.load(state.ux), lanes.load(state.uy), lanes.load(state.uz)
        search.sample_cones(field, settings, state.coefficients, scratch, ux, uy, uz)
        out[k, 3] = deterministic.little_of(field, settings, scratch, state, 1, EVERY)
        numbers = field.quadrature_mass
        doubt, little = draw.lanes_in_doubt(field, settings, scratch, state, 1, EVERY, numbers)
        out[k, 4], out[k, 6] = doubt | little, little


def decisions(fod, angle, threshold):
    """(7, n) bool, of directions that are often those of lobes."""
    parameters = TrackingParameters(max_angle_deg=angle, min_probability=threshold)
    field = kernel_field(build_table(fod), parameters)
    n = len(fod.values) // N_LANES * N_LANES
    rows = np.arange(n)
    fill_rows(field, fod.lmax)
    mixed = field.coefficients[rows].view(np.float16).astype(np.float32)
    rng = np.random.default_rng(8)
    tried = rng.normal(size=(30, n, 3))
    tried /= np.linalg.norm(tried, axis=2, keepdims=True)
    amplitudes = np.einsum("nc,knc->kn", fod.values[:n], [fod.sample_matrix(t) for t in tried])
    best = np.where(rng.random(n) < 0.6, amplitudes.argmax(0), 0)
    units = tried[best, np.arange(n)].astype(np.float32)
    n_padded = mixed.shape[1]
    n_directions = max(field.cone_points.shape[1], len(field.quadrature_neighbours))
    out = np.zeros((n // N_LANES, 7), np.uint32)
    decide(
        field,
        kernel_settings(parameters),
        codes.new_scratch(n_directions, n_padded, N_LANES),
        lanes.new_lane_state(0, 0, 10, n_padded),
        rows.reshape(-1, N_LANES),
        mixed.reshape(-1, N_LANES, n_padded),
        units.reshape(-1, N_LANES, 3),
        out,
    )
    mean, height = field.masses[rows], 1.0 - np.cos(np.deg2rad(angle))
    for k, numbers in ((2, field.cone_mass), (4, field.quadrature_mass)):
        numbers = numbers.astype(np.float64)
        bound = [
            convolved(numbers, one[None, :45], unit[None], 8)[0, 0]
            for one, unit in zip(mixed.astype(np.float64), units.astype(np.float64), strict=True)
        ]
        excess = bound - (2.002 * threshold / height + numbers[0]) * mean
        clear = np.abs(excess) > 1e-4 * mean
        is_summed = bits_of(out[:, k])
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(is_summed[clear], excess[clear] < 0)
    return np.stack([bits_of(column) for column in out.T])


def bits_of(words):
    """(n,) bool: of lanes, those in the sets."""
    return (words[:, None] >> np.arange(N_LANES, dtype=np.uint32) & 1).astype(bool).ravel()


@pytest.mark.parametrize("kind", list(FODS))
@pytest.mark.parametrize(
    ("angle", "threshold"),
    [(20.0, 0.05), (20.0, 0.08), (45.0, 0.1), (45.0, 0.15), (45.0, 0.2), (80.0, 0.4)],
)
def test_lanes_stop_where_the_sums_say_so(kind, angle, threshold):
    by_sum, little, in_doubt, by_rings, rings_in_doubt, *surely = decisions(
        FODS[kind], angle, threshold
    )
    assert 0.02 < by_sum.mean() < 0.98  # both happen
    np.testing.assert_array_equal(little, by_sum)
    assert (in_doubt >= by_sum).all()
    assert (rings_in_doubt >= by_rings).all()
    assert (surely[0] <= by_sum).all()
    assert (surely[1] <= by_rings).all()


@pytest.mark.parametrize("threshold", [0.001, 0.005, 0.02])
def test_few_lanes_are_summed_at_a_low_threshold(threshold):
    """Of those that follow a lobe none, so to speak; the others look anywhere."""
    by_sum, _, in_doubt, by_rings, rings_in_doubt, *_ = decisions(
        FODS["crossings"], 45.0, threshold
    )
    assert 0 < (in_doubt & ~by_sum).mean() < 0.1
    assert (rings_in_doubt & ~by_rings).mean() < 0.1


def test_at_a_high_threshold_the_largest_amplitude_tells():
    """A cone as full as that of the largest amplitude everywhere would hold too little."""
    by_sum, _, _, by_rings, _, *surely = decisions(FODS["crossings"], 20.0, 0.3)
    for found, summed in zip(surely, (by_sum, by_rings), strict=True):
        assert (found <= summed).all()
        assert found.mean() > 0.7
