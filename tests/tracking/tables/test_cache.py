"""How long tables are kept: the newest of each owner, for as long as the owner lives."""

from __future__ import annotations

import gc
import weakref

import pytest
from toys import random_fod

from napari_tractography.tracking.tables.builders import build_table
from napari_tractography.tracking.tables.cache import fod_table


def test_a_table_is_kept_for_the_next_run_and_dies_with_its_fod():
    fod = random_fod(2, seed=8)
    table = fod_table(fod)
    assert fod_table(fod) is table
    assert fod_table(random_fod(2, seed=8)) is not table
    gone = weakref.ref(table)
    del table, fod
    gc.collect()
    assert gone() is None


def test_another_builder_makes_another_table():
    fod = random_fod(2, seed=8)
    table = fod_table(fod)

    def other(fod):
        return build_table(fod)

    assert fod_table(fod, other) is not table
    assert fod_table(fod, other) is fod_table(fod, other)


def test_a_failed_build_leaves_the_next_one_working():
    fod = random_fod(2, seed=9)

    def stop(fod):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fod_table(fod, stop)
    assert fod_table(fod).lmax == 2
