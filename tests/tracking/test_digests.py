"""Streamlines keep every bit: their digests are those that were written down.

After a change that is meant to alter streamlines, ``python scripts/digests.py --write``, and a line
in the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("digests")


@pytest.mark.parametrize("phantom", ["arcs", "cross"])
def test_streamlines_are_those_that_were_written_down(script: ModuleType, phantom: str) -> None:
    written = json.loads((ROOT / "tests" / "digests.json").read_text("utf-8"))
    known = {name: digest for name, digest in written.items() if name.startswith(f"{phantom}:")}
    assert len(known) > 100
    assert script.differences(script.digests(phantom), known) == []


def test_streamlines_among_crossings_are_those_that_were_written_down(script: ModuleType) -> None:
    written = json.loads((ROOT / "tests" / "digests.json").read_text("utf-8"))
    known = {name: digest for name, digest in written.items() if name.startswith("narrow:")}
    assert len(known) == 8
    assert script.differences(script.narrow_digests(), known) == []


def test_another_digest_is_noticed(script: ModuleType) -> None:
    assert script.differences({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ["b", "c"]
