"""Files of every kind, damaged in every way: each ends in a result or in one of our errors.

``FUZZ_EXAMPLES=2000`` in the environment tries as many on each kind instead of some; which ones
are tried is the same each time, and others with ``FUZZ_SEED=1``.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus import CASES, Case, describe
from guards import outcome
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy
from mutations import (
    damaged,
    damaged_archive,
    damaged_inside,
    damaged_json,
    of_archives,
    of_bytes,
    of_json,
)

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
SEED = os.environ.get("FUZZ_SEED")


def tries(damage: SearchStrategy[Any], times: int = 1) -> Callable[[Callable[[Any], None]], Any]:
    """Have a function called with many kinds of damage."""

    def many(function: Callable[[Any], None]) -> Any:
        called = settings(
            max_examples=times * EXAMPLES,
            derandomize=SEED is None,
            database=None,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        )(given(damage)(function))
        return called if SEED is None else seed(SEED)(called)

    return many


def cases(*endings: str) -> pytest.MarkDecorator:
    found = [case for case in CASES if case.name.endswith(endings)]
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in found])


def whole(case: Case, folder: Path) -> Path:
    path = folder / case.name
    case.make(path)
    return path


@cases("")
def test_the_corpus_is_whole(case: Case, tmp_path: Path) -> None:
    path = whole(case, tmp_path)
    assert "" in [outcome(load, path) for load in case.loaders]


@cases("")
def test_damaged_bytes_end_in_a_sentence(case: Case, tmp_path: Path) -> None:
    path = whole(case, tmp_path)
    raw, told = path.read_bytes(), []

    @tries(of_bytes)
    def tried(damage):
        path.write_bytes(damaged(raw, damage))
        told.extend(outcome(load, path) for load in case.loaders)

    tried()
    assert any(told)  # some of it was damage


@cases(".gz", ".mgz")
def test_damage_within_gzip_ends_in_a_sentence(case: Case, tmp_path: Path) -> None:
    path = whole(case, tmp_path)
    raw, told = path.read_bytes(), []

    @tries(of_bytes)
    def tried(damage):
        path.write_bytes(damaged_inside(raw, damage))
        told.extend(outcome(load, path) for load in case.loaders)

    tried()
    assert any(told)


@cases(".trx")
def test_damage_within_an_archive_ends_in_a_sentence(case: Case, tmp_path: Path) -> None:
    path = whole(case, tmp_path)
    raw, told = path.read_bytes(), []

    @tries(of_archives, times=2)
    def tried(damage):
        path.write_bytes(damaged_archive(raw, damage))
        told.extend(outcome(load, path) for load in case.loaders)

    tried()
    assert any(told)


@cases(".json", ".zarray")
def test_other_values_in_json_end_in_a_sentence(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = whole(case, tmp_path)
    text, told = path.read_text("utf-8"), []

    @tries(of_json, times=4)
    def tried(damage):
        path.write_text(damaged_json(text, damage), "utf-8")
        told.extend(outcome(load, path) for load in case.loaders)

    tried()
    assert any(told)


@pytest.mark.parametrize("name", ["fod.nii.gz", "fod.mif.gz"])
def test_gzip_that_is_only_zeros_or_only_claims(name: str, tmp_path: Path) -> None:
    """A hundred kilobytes that unpack to a hundred megabytes, behind a header that says nothing."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(bytes(100 << 20), 9))
    (case,) = (case for case in CASES if case.name == name)
    assert all(outcome(load, path) for load in case.loaders if load is not describe)
