"""Proposals of directions against the same rules by hand, number for number."""

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
from napari_tractography.tracking.cpu import llvm
from napari_tractography.tracking.cpu.lane_state import new_lane_state
from napari_tractography.tracking.cpu.rejection import draw_nearest, draw_trilinear
from napari_tractography.tracking.cpu.stepping import enter_cells
from napari_tractography.tracking.cpu.vectors import N_LANES, booleans_of, load

KEY = 0x299F31D0_A4093822
LANE_SHIFT, REST_SHIFT = 32 - codes.SLOT_BITS, 32 - codes.SLOT_BITS - codes.THRESHOLD_BITS


class Scene:
    """Lanes at random places in a random FOD, one of them in a voxel without."""

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
        self.state = new_lane_state(0, 0, 1)
        self.state.row[:] = rng.integers(0, len(self.field.quanta), N_LANES)
        self.state.row[3] = -1
        self.state.quantum[:] = self.field.quanta[np.maximum(self.state.row, 0)]
        for axis in (self.state.x, self.state.y, self.state.z):
            axis[:] = rng.uniform(-0.4, 2.9, N_LANES)
        self.state.current[:] = rng.integers(0, n_directions, N_LANES)
        self.state.stream[:] = rng.integers(0, 2**32, N_LANES, dtype=np.uint32)
        self.state.steps[:] = rng.integers(0, 2**20, N_LANES)
        self.state.purpose[:] = rng.integers(0, 3, N_LANES)
        self.one_sided = np.uint32(0 if self.field.two_sided else 0xFFFFFFFF)

    def words(self, lane: int, block: int) -> list[int]:
        w = self.state
        counter = [w.stream[lane], w.steps[lane], block, w.purpose[lane]]
        return [int(word) for word in philox4x32(counter, KEY)]

    def amplitude(self, rows, quanta, j: int) -> np.float32:
        quantised = self.field.quantised.reshape(len(self.field.quantised), -1)
        terms = [s * np.float32(quantised[row, j]) for row, s in zip(rows, quanta, strict=True)]
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
        return terms[0]

    def attempt(self, lane: int, row: int, of_patch: int, of_slot: int) -> tuple[int, bool, bool]:
        """Half-set direction, whether it is in the cone, and whether as its antipode."""
        field = self.field
        n_patches = field.alias.shape[1]
        column, rest = divmod(of_patch * n_patches, 2**32)
        entry = int(field.alias[row, column])
        own = rest >> codes.ALIAS_BITS < entry >> codes.ALIAS_BITS
        patch = column if own else entry & ((1 << codes.ALIAS_BITS) - 1)
        slot, rest = (
            of_slot >> LANE_SHIFT,
            of_slot >> REST_SHIFT & ((1 << codes.THRESHOLD_BITS) - 1),
        )
        entry = int(field.slot_alias[row, patch, slot])
        slot = slot if rest < entry >> codes.SLOT_BITS else entry & (codes.PATCH_SIZE - 1)
        assert field.quantised[row, patch, slot] > 0  # what has no amplitude is never drawn
        pair = int(field.cone[self.state.current[lane], patch]) >> slot
        ahead, back = pair & 1, pair >> codes.PATCH_SIZE & 1
        if field.two_sided:
            ahead, back = (0, back) if of_slot & 1 else (ahead, 0)
        return patch * codes.PATCH_SIZE + slot, bool(ahead or back), bool(back)

    def corners(self, lane: int):
        """Rows, masses and weighed quanta of the eight corners, as float32."""
        w = self.state
        point = np.array([w.x[lane], w.y[lane], w.z[lane]])  # the affine is the identity
        cell = np.floor(point)
        along = point - cell
        rows, masses, quanta = [], [], []
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
            quanta.append(weight * (self.field.quanta[row] if row >= 0 else np.float32(0)))
        return rows, masses, quanta


def from_bits(bits: int) -> np.ndarray:
    return (int(bits) >> np.arange(N_LANES) & 1).astype(bool)


@njit
def near(field, settings, state, one_sided):
    j, found, doubtful_mass, there = draw_nearest(
        field, settings, state, load(state.current), booleans_of(one_sided)
    )
    llvm.store(state.next_direction, j)
    return llvm.bits_of(found), llvm.bits_of(doubtful_mass), llvm.bits_of(there)


@njit
def mixed(field, settings, state, one_sided):
    enter_cells(field, state, np.uint32(0xFFFFFFFF))
    j, found, second, doubtful_cutoff, doubtful_mass, there = draw_trilinear(
        field, settings, state, load(state.current), booleans_of(one_sided)
    )
    llvm.store(state.next_direction, j)
    bits = llvm.bits_of
    return bits(found), bits(second), bits(doubtful_cutoff), bits(doubtful_mass), bits(there)


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
def test_of_two_proposals_in_a_voxel_the_first_that_is_accepted_counts(cone, floor):
    scene = Scene("nearest", floor=floor, cone=cone)
    w, half = scene.state, len(scene.field.directions) // 2
    outcomes = set()
    for n_rejected in range(0, codes.MAX_PROPOSALS, 2):
        w.n_rejected[:] = n_rejected
        found, doubtful_mass, there = map(
            from_bits, near(scene.field, scene.settings, w, scene.one_sided)
        )
        for k in range(N_LANES):
            row = int(w.row[k])
            assert there[k] == (row >= 0)
            if row < 0:
                continue
            words = scene.words(k, n_rejected // 2)
            drawn = [scene.attempt(k, row, *words[2 * a : 2 * a + 2]) for a in range(2)]
            high = [scene.amplitude([row], [w.quantum[k]], j) >= floor for j, _, _ in drawn]
            good = [inside and ok for (_, inside, _), ok in zip(drawn, high, strict=True)]
            assert found[k] == any(good)
            if any(good):
                j, _, back = drawn[good.index(True)]
                assert w.next_direction[k] == j + half * back
            outcomes.add((good[0], good[1]))
            contained = scene.field.contained_patches[w.current[k]]
            if not doubtful_mass[k]:  # then the patch alone holds more than enough
                quantised = scene.field.quantised[row].astype(float)
                assert contained >= 0
                assert quantised[contained].sum() > 0.02 * 2 * quantised.sum()
    assert len(outcomes) == 4
    assert 0 < doubtful_mass.sum() < N_LANES


@CONES
@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_between_voxels_a_corner_is_drawn_before_the_direction(cone, floor):
    scene = Scene("trilinear", floor=floor, cone=cone)
    w, half = scene.state, len(scene.field.directions) // 2
    n_found = n_second = n_doubtful = n_beside = n_corners = 0
    for n_rejected in range(codes.MAX_PROPOSALS):
        w.n_rejected[:] = n_rejected
        found, second, doubtful_cutoff, doubtful_mass, there = map(
            from_bits, mixed(scene.field, scene.settings, w, scene.one_sided)
        )
        for k in range(N_LANES):
            rows, masses, quanta = scene.corners(k)
            running = np.cumsum(masses)
            assert there[k] == (running[-1] > 0)
            if not there[k]:
                continue
            drawn = []
            for attempt in range(n_rejected, min(n_rejected + 2, codes.MAX_PROPOSALS)):
                of_patch, of_slot, of_corner, _ = scene.words(k, attempt)
                goal = np.float32(of_corner >> 8) * np.float32(2.0**-24) * running[-1]
                corner = int((running[:-1] <= goal).sum())
                j, inside, back = scene.attempt(k, rows[corner], of_patch, of_slot)
                drawn.append((inside and masses[corner] > 0, j + half * back, j, corner))
                n_corners += corner
            good = [hit for hit, *_ in drawn]
            assert found[k] == any(good)
            np.testing.assert_array_equal(w.corner_weighted_quanta[:, k], quanta)
            if found[k]:
                which = good.index(True)
                assert second[k] == (which == 1)
                _, j, of_half, corner = drawn[which]
                assert w.next_direction[k] == j
                alone = scene.amplitude([rows[corner]], [quanta[corner]], of_half)
                if doubtful_cutoff[k]:
                    assert alone < 1.001 * floor
                else:  # as what is not checked again must be
                    assert scene.amplitude(rows, quanta, of_half) >= floor
                    n_beside += alone < floor
                n_second += second[k]
            n_found, n_doubtful = n_found + found[k], n_doubtful + doubtful_cutoff[k]
            if not doubtful_mass[
                k
            ]:  # then the patch of the largest corner alone holds more than enough
                largest = int(np.argmax(masses))
                quantised = scene.field.quantised[rows[largest]].astype(float)
                mass_fraction = quantised[scene.field.contained_patches[w.current[k]]].sum() / (
                    2 * quantised.sum()
                )
                assert mass_fraction * masses[largest] > 0.02 * running[-1]
    assert n_corners > codes.MAX_PROPOSALS * N_LANES
    assert 0 < n_second < n_found
    assert 0 < n_found < codes.MAX_PROPOSALS * N_LANES
    assert (n_doubtful > 0) == (n_beside > 0) == (floor > 0)
    assert 0 < doubtful_mass.sum() < N_LANES
