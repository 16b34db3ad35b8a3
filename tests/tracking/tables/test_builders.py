"""Tables against the probabilities they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from toys import random_fod

from napari_tractography.directions import angle_cone, direction_set, function_cone
from napari_tractography.errors import InvalidParameterError
from napari_tractography.fod import Fod
from napari_tractography.tracking import codes
from napari_tractography.tracking.tables import builders
from napari_tractography.tracking.tables.builders import (
    build_cone,
    build_rows,
    build_table,
    fill_alias,
    fill_slot_alias,
)


@pytest.mark.parametrize("n_directions", [32, 64, 66, 724, 2048, 4096])
@pytest.mark.parametrize("positivity", ["clip", "softplus"])
def test_quantised_amplitudes_are_half_a_quantum_off_at_most(n_directions, positivity):
    fod = random_fod(8, seed=1)
    half = n_directions // 2
    table = build_table(fod, n_directions=n_directions, positivity=positivity)
    raw = fod.amplitudes(direction_set(n_directions)[:half])[fod.support].astype(np.float64)
    wanted = np.maximum(raw, 0) if positivity == "clip" else np.log1p(np.exp(10 * raw)) / 10
    off = np.abs(table.amplitudes() - wanted)
    # Half a quantum, and the rounding of the amplitudes themselves.
    assert (off <= 0.5 / 65535 * wanted.max(axis=1, keepdims=True) + 3e-6).all()
    assert (table.quantised.reshape(len(off), -1).max(axis=1) == 65535).all()
    assert not table.quantised.reshape(len(off), -1)[:, half:].any()


@pytest.mark.parametrize("n_directions", [32, 66, 724, 4096])
def test_patch_maxima_are_the_largest_quantised_amplitudes(n_directions):
    table = build_table(random_fod(8, seed=1), n_directions=n_directions)
    patch_maxima = table.patch_maxima.reshape(len(table.patch_maxima), -1)
    n = table.n_patches
    assert n == -(-n_directions // 32)
    np.testing.assert_array_equal(patch_maxima[:, :n], table.quantised.max(axis=2))
    assert not patch_maxima[:, n:].any()


def chances(alias: np.ndarray) -> np.ndarray:
    """(n,) float64: how likely an alias table of n columns gives each of them."""
    own = (alias >> codes.ALIAS_BITS) / 2.0 ** (32 - codes.ALIAS_BITS)
    other = alias & ((1 << codes.ALIAS_BITS) - 1)
    found = np.zeros(len(alias))
    np.add.at(found, np.arange(len(alias)), own)
    np.add.at(found, other, 1 - own)
    return found / len(alias)


@pytest.mark.parametrize("n_directions", [32, 66, 724, 4096])
@pytest.mark.parametrize("positivity", ["clip", "softplus"])
def test_the_alias_table_gives_patches_by_their_mass(n_directions, positivity):
    fod = random_fod(8, seed=1)
    table = build_table(fod, n_directions=n_directions, positivity=positivity)
    masses = table.quantised.astype(np.int64).sum(axis=2)
    assert table.alias.shape == masses.shape
    for alias, mass in zip(table.alias, masses, strict=True):
        found = chances(alias)
        np.testing.assert_allclose(found, mass / mass.sum(), atol=2.0**-24, rtol=0)
        assert (found[mass == 0] == 0).all()


@pytest.mark.parametrize(
    "masses",
    [
        pytest.param([7], id="one"),
        pytest.param([5, 5, 5, 5], id="equal"),
        pytest.param([0, 0, 0, 2**20 - 1, 0], id="one of many"),
        pytest.param([2**20 - 1] * 256, id="the most there are"),
        pytest.param([1, *[0] * 254, 2**20 - 1], id="very unequal"),
        pytest.param([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9], id="several"),
        pytest.param(list(range(200, 0, -1)), id="heavy ones first"),
        pytest.param(list(range(200)), id="light ones first"),
    ],
)
def test_an_alias_table_of_any_masses_is_exact(masses):
    alias = np.empty(len(masses), np.uint32)
    fill_alias(np.array(masses, np.int64), sum(masses), alias)
    found = chances(alias)
    np.testing.assert_allclose(found, np.array(masses) / sum(masses), atol=2.0**-24, rtol=0)
    assert (found[np.array(masses) == 0] == 0).all()


def chances_in_patch(slot_alias: np.ndarray) -> np.ndarray:
    """(PATCH_SIZE,) float64: how likely the alias table of a patch gives each of its directions."""
    own = (slot_alias >> codes.SLOT_BITS) / 2.0**codes.THRESHOLD_BITS
    found = own.copy()
    np.add.at(found, slot_alias & (codes.PATCH_SIZE - 1), 1 - own)
    return found / codes.PATCH_SIZE


@pytest.mark.parametrize("n_directions", [32, 66, 724, 4096])
def test_the_alias_tables_of_patches_give_slots_by_their_amplitude(n_directions):
    table = build_table(random_fod(8, seed=1), n_directions=n_directions)
    quantised = table.quantised.reshape(-1, codes.PATCH_SIZE).astype(np.int64)
    masses = quantised.sum(axis=1)
    assert (masses > 0).sum() > 10
    for slot_alias, amplitudes, mass in zip(
        table.slot_alias.reshape(quantised.shape), quantised, masses, strict=True
    ):
        if mass:
            found = chances_in_patch(slot_alias)
            np.testing.assert_allclose(found, amplitudes / mass, atol=1 / 65536, rtol=0)
            assert (found[amplitudes == 0] == 0).all()


@pytest.mark.parametrize(
    "quantised",
    [
        pytest.param([0] * 15 + [1], id="one"),
        pytest.param([65535] * 16, id="all"),
        pytest.param([65535] + [1] * 15, id="very unequal"),
        pytest.param([0, 65535] * 8, id="every other"),
        pytest.param(list(range(16)), id="rising"),
        pytest.param([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3], id="several"),
    ],
)
def test_an_alias_table_of_a_patch_is_off_by_less_than_a_65536th(quantised):
    slot_alias = np.empty(codes.PATCH_SIZE, np.uint16)
    units, entries = np.empty(codes.PATCH_SIZE, np.int64), np.empty(codes.PATCH_SIZE, np.uint32)
    fill_slot_alias(np.array(quantised, np.uint16), sum(quantised), units, entries, slot_alias)
    found = chances_in_patch(slot_alias)
    np.testing.assert_allclose(found, np.array(quantised) / sum(quantised), atol=1 / 65536, rtol=0)
    assert (found[np.array(quantised) == 0] == 0).all()


def test_mass_fractions_are_rounded_down():
    table = build_table(random_fod(8, seed=1))
    masses = table.quantised.astype(float).sum(axis=2)
    wanted = masses / (2 * masses.sum(axis=1, keepdims=True))
    off = wanted - table.mass_fractions / codes.MASS_UNITS
    assert (off >= 0).all()
    assert (off < 1 / codes.MASS_UNITS).all()
    assert wanted.max() > 0.05


def test_tables_of_more_amplitudes_than_can_be_numbered_are_refused(monkeypatch):
    fod = random_fod(4, seed=1)
    monkeypatch.setattr(builders, "MAX_AMPLITUDES", 23 * 16 * fod.n_voxels)
    build_table(fod)
    with pytest.raises(InvalidParameterError, match=r"n_directions = 752 .* lower n_directions"):
        build_table(fod, n_directions=736 + 16)


def test_a_lone_direction_has_the_whole_mass():
    """Through the builder, with the identity in place of the spherical harmonics."""
    lone = np.zeros((1, 362), np.float32)
    lone[:, 17] = 0.25
    quantised, slot_alias = np.empty((1, 368), np.uint16), np.empty((1, 368), np.uint16)
    alias, mass_fractions = np.zeros((1, 23), np.uint32), np.zeros((1, 23), np.uint16)
    patch_maxima = np.zeros((1, 32), np.uint16)
    quanta, totals = np.empty(1, np.float32), np.empty(1, np.float32)
    identity = np.eye(362, dtype=np.float32)
    build_rows(
        0,
        1,
        lone,
        identity,
        0.0,
        quantised,
        alias,
        slot_alias,
        mass_fractions,
        patch_maxima,
        quanta,
        totals,
    )
    assert np.flatnonzero(quantised) == [17]
    assert np.flatnonzero(patch_maxima) == [1]
    assert np.flatnonzero(mass_fractions) == [1]
    assert chances(alias[0])[1] == 1
    assert chances_in_patch(slot_alias[0, 16:32])[1] == 1
    assert quantised[0, 17] * quanta[0] == pytest.approx(0.25, rel=1e-6)
    assert totals[0] == pytest.approx(0.5, rel=1e-6)


def test_amplitudes_are_clipped_at_zero():
    fod = random_fod(8, seed=2)
    table = build_table(fod)
    wanted = fod.amplitudes(direction_set(724)[:362])[fod.support]
    assert (wanted < 0).any()
    assert (table.amplitudes()[wanted < -1e-5] == 0).all()
    assert (table.amplitudes()[wanted > 1e-3] > 0).all()


def test_softplus_of_large_amplitudes_does_not_overflow():
    fod = random_fod(4, seed=2)
    fod = Fod(fod.coefficients * 1000, fod.grid)
    raw = fod.amplitudes(direction_set(724)[:362])[fod.support]
    assert np.abs(raw).max() > 500
    table = build_table(fod, positivity="softplus")
    np.testing.assert_allclose(table.amplitudes(), np.maximum(raw, 0), atol=0.08, rtol=1e-4)


def test_totals_are_sums_over_the_full_set():
    fod = random_fod(8, seed=4)
    table = build_table(fod)
    full = np.maximum(fod.amplitudes(direction_set(724)).astype(np.float64), 0).sum(axis=-1)
    np.testing.assert_allclose(table.totals, full[fod.support], rtol=1e-5)


def test_only_voxels_with_an_fod_have_rows():
    values = np.zeros((3, 2, 2, 6))
    values[0, 0, 0, 0] = 1
    values[2, 1, 0, 0] = 2
    values[1, 0, 1, 0] = -1  # an FOD, but nowhere positive
    table = build_table(Fod(values, np.eye(4)))
    assert sorted(table.voxel_rows[table.voxel_rows >= 0]) == [0, 1, 2]
    assert (table.voxel_rows >= 0).sum() == 3
    totals = table.totals[table.voxel_rows[[0, 2, 1], [0, 1, 0], [0, 0, 1]]]
    assert totals[1] == 2 * totals[0] > 0
    assert totals[2] == 0
    assert not table.quantised[table.voxel_rows[1, 0, 1]].any()


def test_rows_do_not_depend_on_the_block_they_are_built_in(monkeypatch):
    fod = random_fod(4, seed=6)
    whole = build_table(fod)
    monkeypatch.setattr(builders, "ROWS_A_BLOCK", 5)
    progress = []
    pieces = build_table(fod, progress=lambda done, n: progress.append((done, n)))
    for name in (
        "quantised",
        "alias",
        "slot_alias",
        "mass_fractions",
        "patch_maxima",
        "quanta",
        "totals",
    ):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))
    assert progress[-1] == (fod.n_voxels, fod.n_voxels)
    assert len(progress) == -(-fod.n_voxels // 5)


def test_a_progress_callback_may_give_up():
    def stop(done, n):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        build_table(random_fod(4), progress=stop)


@pytest.mark.parametrize("n_directions", [32, 66, 724])
@pytest.mark.parametrize(
    ("allowed", "two_sided"),
    [
        pytest.param(lambda c, u: u @ c > 0.7, False, id="angle"),
        pytest.param(lambda c, u: u[:, 2] > 0, False, id="upwards"),
        pytest.param(lambda c, u: np.abs(u @ c) > 0.5, True, id="both ways"),
    ],
)
def test_cones_are_packed_two_bits_a_direction(n_directions, allowed, two_sided):
    table = build_table(random_fod(2), n_directions=n_directions)
    half = n_directions // 2
    cone = function_cone(n_directions, allowed)
    packed = build_cone(table, cone)
    assert packed.two_sided is two_sided
    patch, slot = np.divmod(np.arange(half), 16)
    pairs = packed.cone[:, patch] >> slot.astype(np.uint32)
    np.testing.assert_array_equal((pairs & 1) | ((pairs >> 16 & 1) << 1), [*cone, [3] * half])


@pytest.mark.parametrize("n_directions", [724, 2048])
@pytest.mark.parametrize(
    ("angle", "n_proposals"),
    [(5, 0), (15, 0), *((angle, codes.MAX_PROPOSALS) for angle in (30, 45, 180))],
)
def test_narrow_cones_are_scanned_without_rejection_sampling(n_directions, angle, n_proposals):
    table = build_table(random_fod(2), n_directions=n_directions)
    cones = build_cone(table, angle_cone(n_directions, float(angle)))
    assert cones.max_proposals == n_proposals


@pytest.mark.parametrize(("angle", "how_many"), [(5.0, "none"), (30.0, "some"), (90.0, "all")])
def test_contained_patches_lie_in_the_cone_as_a_whole(angle, how_many):
    table = build_table(random_fod(4, seed=1))
    cone = angle_cone(724, angle)
    cones = build_cone(table, cone)
    assert cones.contained_patches.shape == (725,)
    for i, contained in enumerate(cones.contained_patches[:-1]):
        if contained >= 0:
            sides = cone[i, contained * codes.PATCH_SIZE : (contained + 1) * codes.PATCH_SIZE]
            assert (sides & 1).all() or (sides & 2).all()
    there = cones.contained_patches[:-1] >= 0
    assert there.any() == (how_many != "none")
    assert there.all() == (how_many == "all")
