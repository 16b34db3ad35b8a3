"""Tables against the probabilities they stand for, and how long they are kept."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from toys import random_fod

from napari_tractography.directions import angle_cone, direction_set, function_cone
from napari_tractography.fod import Fod
from napari_tractography.tracking import tables
from napari_tractography.tracking.tables import (
    build_cone,
    build_rows,
    build_table,
    cone_table,
    fod_table,
)


def distribution(table, row):
    """(n_half,) float64: what drawing from an alias table gives, read off its 32-bit entries."""
    n_half = table.alias.shape[1]
    entries = table.alias[row].astype(np.int64)
    stays = (entries >> table.alias_bits) / 2.0 ** (32 - table.alias_bits)
    result = stays.copy()
    np.add.at(result, entries & ((1 << table.alias_bits) - 1), 1.0 - stays)
    return result / n_half


@pytest.mark.parametrize("n_directions", [32, 64, 66, 724, 2048, 4096])
@pytest.mark.parametrize("positivity", ["clip", "softplus"])
def test_alias_tables_stand_for_the_amplitudes(n_directions, positivity):
    fod = random_fod(8, seed=1)
    table = build_table(fod, n_directions=n_directions, positivity=positivity)
    bound = 2.0 ** -(32 - table.alias_bits)  # each entry's threshold is cut to that many bits
    assert 2**table.alias_bits >= n_directions // 2
    for row in range(fod.n_voxels):
        amplitudes = table.amplitudes[row].astype(np.float64)
        wanted = amplitudes / amplitudes.sum()
        drawn = distribution(table, row)
        np.testing.assert_allclose(drawn.sum(), 1.0, atol=1e-12)
        np.testing.assert_allclose(drawn, wanted, rtol=0, atol=bound)
        assert not drawn[amplitudes == 0].any()  # exactly never


def test_a_single_direction_is_drawn_always():
    """All of the mass in one direction: the other entries point to it with threshold zero."""
    fod = random_fod(2, shape=(1, 1, 2), seed=3)
    table = build_table(fod, n_directions=724)
    lone = np.zeros_like(table.amplitudes)
    lone[:, 17] = 0.25
    # Through the same builder, with the identity in place of the spherical harmonics.
    alias, totals = np.empty((1, 362), np.uint32), np.empty(1, np.float32)
    amplitudes = np.empty((1, 362), np.float32)
    build_rows(0, 1, lone[:1], np.eye(362, dtype=np.float32), 0.0, 9, amplitudes, alias, totals)
    np.testing.assert_array_equal(amplitudes, lone[:1])
    table = type(table)(
        voxel_rows=table.voxel_rows,
        amplitudes=amplitudes,
        alias=alias,
        totals=totals,
        directions=table.directions,
        to_voxel=table.to_voxel,
        alias_bits=9,
    )
    assert distribution(table, 0)[17] == 1.0
    assert totals[0] == 0.5


def test_amplitudes_are_clipped_at_zero():
    fod = random_fod(8, seed=2)
    table = build_table(fod)
    wanted = fod.amplitudes(direction_set(724)[:362])[fod.support]
    assert (wanted < 0).any()
    np.testing.assert_allclose(table.amplitudes, np.maximum(wanted, 0), atol=2e-6)
    assert (table.amplitudes[wanted < -1e-5] == 0).all()


def test_softplus_is_logarithm_of_one_plus_exponential():
    fod = random_fod(8, seed=2)
    table = build_table(fod, positivity="softplus")
    raw = fod.amplitudes(direction_set(724)[:362])[fod.support].astype(np.float64)
    assert raw.min() < -0.5
    np.testing.assert_allclose(table.amplitudes, np.log1p(np.exp(10 * raw)) / 10, atol=3e-6)


def test_softplus_of_large_amplitudes_does_not_overflow():
    fod = random_fod(4, seed=2)
    fod = Fod(fod.coefficients * 1000, fod.grid)
    raw = fod.amplitudes(direction_set(724)[:362])[fod.support]
    assert np.abs(raw).max() > 500
    table = build_table(fod, positivity="softplus")
    np.testing.assert_allclose(table.amplitudes, np.maximum(raw, 0), atol=0.07, rtol=1e-5)


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
    np.testing.assert_array_equal(
        table.alias[table.voxel_rows[1, 0, 1]], np.arange(362)
    )  # no threshold, no alias elsewhere: harmless should anything draw


def test_rows_do_not_depend_on_the_block_they_are_built_in(monkeypatch):
    fod = random_fod(4, seed=6)
    whole = build_table(fod)
    monkeypatch.setattr(tables, "ROWS_A_BLOCK", 5)
    progress = []
    pieces = build_table(fod, progress=lambda done, n: progress.append((done, n)))
    for name in ("amplitudes", "alias", "totals"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))
    assert progress[-1] == (fod.n_voxels, fod.n_voxels)
    assert len(progress) == -(-fod.n_voxels // 5)


def test_a_progress_callback_may_give_up():
    def stop(done, n):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        build_table(random_fod(4), progress=stop)


def test_tables_are_kept_for_the_newest_settings_and_die_with_their_fod():
    fod = random_fod(2, seed=8)
    table = fod_table(fod, 724, "clip")
    assert fod_table(fod, 724, "clip") is table
    cones = cone_table(table, 45.0)
    assert cone_table(table, 45.0) is cones
    assert cone_table(table, 30.0) is not cones
    assert cone_table(table, 45.0) is not cones  # one is kept, not all
    other = fod_table(fod, 724, "softplus")
    assert other is not table
    assert other.amplitudes.min() > 0
    gone = weakref.ref(other)
    del table, cones, other, fod
    gc.collect()
    assert gone() is None


def test_a_failed_build_leaves_the_next_one_working():
    fod = random_fod(2, seed=9)

    def stop(done, n):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fod_table(fod, 724, "clip", stop)
    assert fod_table(fod, 724, "clip").n_directions == 724


def test_cones_of_an_angle_are_folded_and_lopsided_ones_are_not():
    table = build_table(random_fod(2))
    folded = build_cone(table, angle_cone(724, 45.0))
    assert (folded.n_mass, folded.two_sided) == (362, False)
    upwards = function_cone(724, lambda current, units: units[:, 2] > 0)
    lopsided = build_cone(table, upwards)
    assert (lopsided.n_mass, lopsided.two_sided) == (724, False)
    both = build_cone(table, function_cone(724, lambda c, u: np.abs(u @ c) > 0.5))
    assert (both.n_mass, both.two_sided) == (362, True)
