"""Versions here and on workers, beside each other."""

from __future__ import annotations

from napari_tractography.tracking.cluster.versions import differing_versions, installed_versions


def test_the_same_versions_are_nothing_to_tell():
    here = installed_versions()
    assert {"python", "numpy", "numba"} <= set(here)
    assert differing_versions(here, {"tcp://a:1": dict(here), "tcp://b:2": dict(here)}) == ""


def test_others_are_named_with_one_worker_that_has_them():
    here = {"numpy": "2.1", "numba": "0.62"}
    there = {
        "tcp://a:1": {"numpy": "2.1", "numba": "0.61"},
        "tcp://b:2": {"numpy": "2.1", "numba": "0.61"},
        "tcp://c:3": {"numpy": "2.1"},
    }
    assert differing_versions(here, there) == (
        "numba 0.62 here, 0.61 on tcp://a:1 and 1 more; numba 0.62 here, absent on tcp://c:3"
    )
