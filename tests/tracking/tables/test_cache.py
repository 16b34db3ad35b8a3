"""How long tables are kept: the newest of each owner, for as long as the owner lives."""

from __future__ import annotations

import gc
import weakref

import pytest
from toys import random_fod

from napari_tractography.tracking.tables.cache import cone_table, fod_table


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
    assert other.amplitudes().sum() > table.amplitudes().sum()
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
