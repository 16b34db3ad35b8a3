"""The tries of the draw against the same rules by hand, number for number."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from plans import plan_of
from toys import random_fod

from napari_tractography.parameters import TrackingParameters
from napari_tractography.philox import philox4x32
from napari_tractography.seeds import Seeds
from napari_tractography.tracking import codes
from napari_tractography.tracking.cpu import vectors
from napari_tractography.tracking.cpu.lane_state import new_walkers
from napari_tractography.tracking.cpu.rejection import draw_mixed, draw_near
from napari_tractography.tracking.cpu.stepping import enter_cells
from napari_tractography.tracking.cpu.vectors import WALKERS

KEY = 0x299F31D0_A4093822
LANE_SHIFT, REST_SHIFT = 32 - codes.LANE_BITS, 32 - codes.LANE_BITS - codes.SHARE_BITS


class ViewSection:
    """Walkers all over a random FOD, one of whose voxels is empty."""

    def __init__(self, interpolation: str, *, floor: float = 0.0, cone=None) -> None:
        fod = random_fod(8, seed=3)
        parameters = TrackingParameters(
            interpolation=interpolation,
            min_amplitude=floor,
            random_seed=KEY,
            max_angle_deg=45.0,
            min_probability=0.02,
        )
        plan = plan_of(fod, Seeds.at([1.5, 1.5, 1.5]), parameters, cone=cone)
        self.field, self.settings = plan.field, plan.settings
        rng = np.random.default_rng(5)
        n_directions = len(self.field.directions)
        self.walkers = new_walkers(0, 0, 1)
        self.walkers.row[:] = rng.integers(0, len(self.field.scales), WALKERS)
        self.walkers.row[3] = -1
        self.walkers.scale[:] = self.field.scales[np.maximum(self.walkers.row, 0)]
        for axis in (self.walkers.x, self.walkers.y, self.walkers.z):
            axis[:] = rng.uniform(-0.4, 2.9, WALKERS)
        self.walkers.current[:] = rng.integers(0, n_directions, WALKERS)
        self.walkers.stream[:] = rng.integers(0, 2**32, WALKERS, dtype=np.uint32)
        self.walkers.steps[:] = rng.integers(0, 2**20, WALKERS)
        self.walkers.purpose[:] = rng.integers(0, 3, WALKERS)
        self.one_sided = np.uint32(0 if self.field.two_sided else 0xFFFFFFFF)

    def words(self, walker: int, block: int) -> list[int]:
        w = self.walkers
        counter = [w.stream[walker], w.steps[walker], block, w.purpose[walker]]
        return [int(word) for word in philox4x32(counter, KEY)]

    def amplitude(self, rows, scales, j: int) -> np.float32:
        levels = self.field.levels.reshape(len(self.field.levels), -1)
        terms = [s * np.float32(levels[row, j]) for row, s in zip(rows, scales, strict=True)]
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
        return terms[0]

    def attempt(self, walker: int, row: int, of_patch: int, of_lane: int) -> tuple[int, bool, bool]:
        """Half-set direction, whether it is in the cone, and whether as its antipode."""
        field = self.field
        n_patches = field.alias.shape[1]
        column, rest = divmod(of_patch * n_patches, 2**32)
        entry = int(field.alias[row, column])
        own = rest >> codes.ALIAS_BITS < entry >> codes.ALIAS_BITS
        patch = column if own else entry & ((1 << codes.ALIAS_BITS) - 1)
        lane, rest = of_lane >> LANE_SHIFT, of_lane >> REST_SHIFT & ((1 << codes.SHARE_BITS) - 1)
        entry = int(field.lane_alias[row, patch, lane])
        lane = lane if rest < entry >> codes.LANE_BITS else entry & (codes.LANES - 1)
        assert field.levels[row, patch, lane] > 0  # what has no amplitude is never drawn
        pair = int(field.cone[self.walkers.current[walker], patch]) >> lane
        ahead, back = pair & 1, pair >> codes.LANES & 1
        if field.two_sided:
            ahead, back = (0, back) if of_lane & 1 else (ahead, 0)
        return patch * codes.LANES + lane, bool(ahead or back), bool(back)

    def corners(self, walker: int):
        """Rows, masses and weighed scales of the eight corners, as float32."""
        w = self.walkers
        point = np.array([w.x[walker], w.y[walker], w.z[walker]])  # the affine is the identity
        cell = np.floor(point)
        along = point - cell
        rows, masses, scales = [], [], []
        for k in range(8):
            bits = [k >> 2, k >> 1 & 1, k & 1]
            weight = np.float32(1)
            for axis, bit in enumerate(bits):
                weight = weight * (along[axis] if bit else np.float32(1) - along[axis])
            voxel = cell.astype(int) + bits
            inside = ((voxel >= 0) & (voxel < self.field.voxel_rows.shape)).all()
            row = self.field.voxel_rows[tuple(voxel)] if inside else -1
            rows.append(max(row, 0))
            masses.append(weight * (self.field.totals[row] if row >= 0 else np.float32(0)))
            scales.append(weight * (self.field.scales[row] if row >= 0 else np.float32(0)))
        return rows, masses, scales


def from_bits(bits: int) -> np.ndarray:
    return (int(bits) >> np.arange(WALKERS) & 1).astype(bool)


@njit
def near(field, settings, walkers, one_sided):
    j, found, unsure, there = draw_near(
        field, settings, walkers, vectors.load(walkers.current), vectors.truths_of(one_sided)
    )
    vectors.store(walkers.drawn, j)
    return vectors.bits_of(found), vectors.bits_of(unsure), vectors.bits_of(there)


@njit
def mixed(field, settings, walkers, one_sided):
    enter_cells(field, walkers, np.uint32(0xFFFFFFFF))
    j, found, second, faint, unsure, there = draw_mixed(
        field, settings, walkers, vectors.load(walkers.current), vectors.truths_of(one_sided)
    )
    vectors.store(walkers.drawn, j)
    bits = vectors.bits_of
    return bits(found), bits(second), bits(faint), bits(unsure), bits(there)


CONES = pytest.mark.parametrize(
    "cone",
    [
        pytest.param(None, id="45 degrees"),
        pytest.param(lambda c, u: np.abs(u @ c) > 0.7, id="both ways"),
        pytest.param(lambda c, u: u[:, 2] > 0.1, id="upwards"),
    ],
)


@CONES
@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_near_tries_take_the_first_of_two_that_may_be(cone, floor):
    scene = ViewSection("nearest", floor=floor, cone=cone)
    w, half = scene.walkers, len(scene.field.directions) // 2
    outcomes = set()
    for tried in range(0, codes.TRIES, 2):
        w.tried[:] = tried
        found, unsure, there = map(from_bits, near(scene.field, scene.settings, w, scene.one_sided))
        for k in range(WALKERS):
            row = int(w.row[k])
            assert there[k] == (row >= 0)
            if row < 0:
                continue
            words = scene.words(k, tried // 2)
            drawn = [scene.attempt(k, row, *words[2 * a : 2 * a + 2]) for a in range(2)]
            high = [scene.amplitude([row], [w.scale[k]], j) >= floor for j, _, _ in drawn]
            good = [inside and ok for (_, inside, _), ok in zip(drawn, high, strict=True)]
            assert found[k] == any(good)
            if any(good):
                j, _, back = drawn[good.index(True)]
                assert w.drawn[k] == j + half * back
            outcomes.add((good[0], good[1]))
            core = scene.field.cores[w.current[k]]
            if not unsure[k]:  # then the patch alone holds more than enough
                levels = scene.field.levels[row].astype(float)
                assert core >= 0
                assert levels[core].sum() > 0.02 * 2 * levels.sum()
    assert len(outcomes) == 4
    assert 0 < unsure.sum() < WALKERS


@CONES
@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_mixed_tries_draw_a_corner_first(cone, floor):
    scene = ViewSection("trilinear", floor=floor, cone=cone)
    w, half = scene.walkers, len(scene.field.directions) // 2
    n_found = n_second = n_faint = n_beside = n_corners = 0
    for tried in range(codes.TRIES):
        w.tried[:] = tried
        found, second, faint, unsure, there = map(
            from_bits, mixed(scene.field, scene.settings, w, scene.one_sided)
        )
        for k in range(WALKERS):
            rows, masses, scales = scene.corners(k)
            running = np.cumsum(masses)
            assert there[k] == (running[-1] > 0)
            if not there[k]:
                continue
            drawn = []
            for attempt in range(tried, min(tried + 2, codes.TRIES)):
                of_patch, of_lane, of_corner, _ = scene.words(k, attempt)
                goal = np.float32(of_corner >> 8) * np.float32(2.0**-24) * running[-1]
                corner = int((running[:-1] <= goal).sum())
                j, inside, back = scene.attempt(k, rows[corner], of_patch, of_lane)
                drawn.append((inside and masses[corner] > 0, j + half * back, j, corner))
                n_corners += corner
            good = [hit for hit, *_ in drawn]
            assert found[k] == any(good)
            np.testing.assert_array_equal(w.corner_weighed[:, k], scales)
            if found[k]:
                which = good.index(True)
                assert second[k] == (which == 1)
                _, j, of_half, corner = drawn[which]
                assert w.drawn[k] == j
                alone = scene.amplitude([rows[corner]], [scales[corner]], of_half)
                if faint[k]:
                    assert alone < 1.001 * floor
                else:  # as what is not looked at again must be
                    assert scene.amplitude(rows, scales, of_half) >= floor
                    n_beside += alone < floor
                n_second += second[k]
            n_found, n_faint = n_found + found[k], n_faint + faint[k]
            if not unsure[k]:  # then the patch of the largest corner alone holds more than enough
                largest = int(np.argmax(masses))
                levels = scene.field.levels[rows[largest]].astype(float)
                share = levels[scene.field.cores[w.current[k]]].sum() / (2 * levels.sum())
                assert share * masses[largest] > 0.02 * running[-1]
    assert n_corners > codes.TRIES * WALKERS
    assert 0 < n_second < n_found
    assert 0 < n_found < codes.TRIES * WALKERS
    assert (n_faint > 0) == (n_beside > 0) == (floor > 0)
    assert 0 < unsure.sum() < WALKERS
