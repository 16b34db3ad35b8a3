"""Asymmetric FODs: what a cone sees ahead counts, and not what is behind.

Draws are compared with the FOD in 64 bits by DIPY's harmonics; bits with those of NumPy here, and
with those of the CUDA source in cuda/test_host_asymmetric.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from chi_square import ConeBins
from test_sampling import draw_steps
from toys import SKEWED, BruteForce, lobes, random_fod

from napari_tractography.fields.sh import even_columns
from napari_tractography.geometry.directions import direction_set
from napari_tractography.model.fod import Fod
from napari_tractography.model.parameters import TrackingParameters
from napari_tractography.model.seeds import Seeds
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking.engine import track

LMAX = 4
N_LINES = 400
STEM = np.array([-1.0, 0.0, 0.0])
ARMS = np.array([[0.8, 0.6, 0.0], [0.8, -0.6, 0.0]])


def situation(interpolation: str) -> tuple[Fod, np.ndarray, BruteForce, np.ndarray]:
    """A random FOD, a position in it, the FOD there and a direction somewhat off its peak."""
    fod = random_fod(LMAX, affine=SKEWED, seed=8, is_asymmetric=True)
    position = fod.grid.to_mm((1.3, 1.85, 2.4))
    truth = BruteForce.at(fod, position, interpolation=interpolation)
    units = direction_set(724).astype(np.float64)
    axis = units[np.argsort(truth.amplitudes(units))[-20]]
    return fod, position, truth, axis / np.linalg.norm(axis)


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
@pytest.mark.parametrize("angle", [30.0, 90.0])
def test_steps_have_the_distribution_of_the_fod_in_the_cone(
    interpolation: str, angle: float
) -> None:
    fod, position, truth, axis = situation(interpolation)
    drawn, _ = draw_steps(fod, position, axis, interpolation=interpolation, max_angle_deg=angle)
    assert ConeBins(axis, angle).p_value(drawn, truth.amplitudes) > 1e-3
    # The other way round the FOD is another.
    bins = ConeBins(axis, angle)
    assert bins.p_value(drawn, lambda u: np.maximum(truth.amplitudes(-u), 0.0) + 0.1) < 1e-9


@pytest.mark.parametrize("interpolation", ["nearest", "trilinear"])
def test_start_directions_have_the_distribution_of_the_fod_on_the_whole_sphere(
    interpolation: str,
) -> None:
    fod, position, truth, _ = situation(interpolation)
    drawn, _ = draw_steps(fod, position, interpolation=interpolation)
    bins = ConeBins(np.array([0.0, 0.0, 1.0]), 180.0)
    assert bins.p_value(drawn, truth.amplitudes) > 1e-3
    assert bins.p_value(drawn, lambda u: truth.amplitudes(-u) + 0.1) < 1e-9


def test_the_largest_start_is_that_of_the_sphere_whichever_way_it_points() -> None:
    """Of a symmetric FOD the sign is drawn; here it is known."""
    rng = np.random.default_rng(3)
    units = rng.normal(size=(40, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    for unit in units[:8]:
        fod = Fod(np.broadcast_to(lobes(unit, LMAX, is_asymmetric=True), (3, 3, 3, 25)), np.eye(4))
        drawn, _ = draw_steps(fod, (1.0, 1.0, 1.0), n=20, start="max", interpolation="nearest")
        assert (drawn @ unit > 0.9999).all()


def in_both_bases() -> tuple[Fod, Fod]:
    """A symmetric FOD with its even degrees alone, and with zeros for the odd ones."""
    even = random_fod(LMAX, shape=(6, 6, 6), seed=5)
    values = np.zeros((*even.grid.shape, (LMAX + 1) ** 2), np.float32)
    values[..., even_columns((LMAX + 1) ** 2)] = even.coefficients
    full = Fod(values, np.eye(4))
    assert full.is_asymmetric
    np.testing.assert_array_equal(full.symmetric().values, even.values)
    return even, full


@pytest.mark.parametrize(("algorithm", "share"), [("sd_stream", 0.99), ("deterministic", 0.85)])
def test_a_symmetric_fod_is_followed_alike_in_either_basis(algorithm: str, share: float) -> None:
    """Peaks are the same; which of several is found may differ, since cones are sampled elsewhere.

    Draws are others: the bound of a row is looked for on the whole sphere, and looser.
    """
    rng = np.random.default_rng(1)
    places = rng.uniform(1.0, 4.0, (200, 3))
    seeds = Seeds.at(places, rng.normal(size=places.shape))
    parameters = TrackingParameters(
        algorithm=algorithm, start="given", step_mm=0.2, max_length_mm=3.0, max_angle_deg=30.0
    )
    one, other = (track(fod, seeds, parameters, backend="cpu") for fod in in_both_bases())
    np.testing.assert_array_equal(one.seed_index, other.seed_index)
    assert len(one) > 150
    same = [
        a.shape == b.shape and np.abs(a - b).max() < 1e-3 for a, b in zip(one, other, strict=True)
    ]
    assert np.mean(same) > share


def test_a_symmetric_fod_is_drawn_from_alike_in_either_basis() -> None:
    _, full = in_both_bases()
    position = np.array([2.3, 1.6, 3.2])
    truth = BruteForce.at(full, position, interpolation="trilinear")
    axis = np.array([0.6, 0.0, 0.8])
    drawn, _ = draw_steps(full, position, axis, max_angle_deg=60.0)
    assert ConeBins(axis, 60.0).p_value(drawn, truth.amplitudes) > 1e-3
    around, _ = draw_steps(full, position)
    up = np.array([0.0, 0.0, 1.0])
    assert ConeBins(up, 180.0).p_value(around, lambda u: truth.amplitudes(-u)) > 1e-3


def y_shape(*, is_symmetric: bool = False) -> tuple[Fod, np.ndarray]:
    r"""A stem that splits into two arms, and where they meet.

    ::

                / /        where they meet, lobes lead to the stem and along either arm,
        = = = <            and nowhere else
                \ \
    """
    n = 31
    i, j, _ = np.indices((n, n, 5)) - n // 2
    values = np.zeros((n, n, 5, (LMAX + 1) ** 2))
    nearest = np.full((n, n, 5), np.inf)
    for unit in (*ARMS, STEM):
        along, across = i * unit[0] + j * unit[1], np.abs(i * unit[1] - j * unit[0])
        there = (along >= 0) & (across <= 3) & (across < nearest)
        values[there] = lobes(np.array([unit, -unit]), LMAX, is_asymmetric=True).sum(axis=0)
        nearest[there] = across[there]
    middle = np.hypot(i, j) <= 3.5
    values[middle] = lobes(np.array([*ARMS, STEM]), LMAX, is_asymmetric=True).sum(axis=0)
    fod = Fod(values, np.eye(4))
    return fod.symmetric() if is_symmetric else fod, np.array([n // 2, n // 2, 2.0])


def ends_of(fod: Fod, middle: np.ndarray, begin: np.ndarray, **changes: object) -> np.ndarray:
    """How many lines that run to the middle end in the first arm, the second, the stem, nowhere."""
    near = np.random.default_rng(0).uniform(-1, 1, (N_LINES, 3))
    seeds = Seeds.at(middle + 12 * begin + near, np.tile(-begin, (N_LINES, 1)))
    parameters = TrackingParameters(
        **{
            "start": "given",
            "direction": "forward",
            "step_mm": 0.5,
            "max_angle_deg": 40.0,
            "min_length_mm": 0.0,
            "max_length_mm": 40.0,
            "min_amplitude": 0.3,
            **changes,
        }
    )
    found = track(fod, seeds, parameters, backend="cpu")
    last = found.points[found.offsets[1:] - 1] - middle
    distance = np.linalg.norm(last, axis=1)
    which = (last @ np.stack([*ARMS, STEM]).T).argmax(axis=1)
    return np.bincount(np.where(distance < 6, 3, which), minlength=4)


@pytest.mark.parametrize("algorithm", ["probabilistic", "deterministic"])
def test_lines_from_the_stem_take_either_arm_and_lines_from_an_arm_take_the_stem(
    algorithm: str,
) -> None:
    fod, middle = y_shape()
    from_stem = ends_of(fod, middle, STEM, algorithm=algorithm)
    assert from_stem[2] == 0  # none turns back
    assert min(from_stem[:2]) > 0.1 * N_LINES
    for own in (0, 1):
        from_arm = ends_of(fod, middle, ARMS[own], algorithm=algorithm)
        assert from_arm[1 - own] == from_arm[own] == 0
        assert from_arm[2] > 0.9 * N_LINES


def test_a_symmetric_fod_leads_straight_on_where_nothing_is() -> None:
    """Its lobe along the arm has an opposite, which lines from the arm meet first."""
    straight_on = []
    for is_symmetric in (False, True):
        fod, middle = y_shape(is_symmetric=is_symmetric)
        drawn, _ = draw_steps(
            fod, middle, -ARMS[0], n=20_000, max_angle_deg=60.0, interpolation="nearest"
        )
        straight_on.append((drawn @ -ARMS[0] > drawn @ STEM).mean())
    assert straight_on[0] < 0.7 * straight_on[1]


def test_streamlines_do_not_depend_on_the_number_of_threads() -> None:
    fod = random_fod(LMAX, shape=(9, 8, 7), affine=SKEWED, seed=2, is_asymmetric=True)
    seeds = Seeds.in_mask(np.ones(fod.grid.shape), fod.grid, 600)
    parameters = TrackingParameters(step_mm=0.5, max_length_mm=30.0)

    def tracked(**execution: object) -> Tractogram:
        return track(fod, seeds, parameters, backend="cpu", **execution)

    wanted = tracked(n_threads=1)
    assert len(wanted) > 300
    assert tracked(n_threads=3).digest() == wanted.digest()
