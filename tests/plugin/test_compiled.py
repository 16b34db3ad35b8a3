"""Loops over drawn points, where they are compiled, give what NumPy gives, to the bit."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from napari_tractography.geometry.grid import Grid
from napari_tractography.plugin import compiled
from napari_tractography.plugin.space.display import DisplaySpace
from napari_tractography.plugin.streamlines import colours
from napari_tractography.streamlines import compiled_loops
from napari_tractography.streamlines.tractogram import Tractogram
from napari_tractography.tracking import kernels

OBLIQUE = np.array([[1.0, 0.1, 0, 3], [0, 1.2, 0.2, 1], [0.1, 0, 0.9, 2], [0, 0, 0, 1]])


@pytest.fixture
def lines() -> Tractogram:
    """Streamlines of no point, of one and of many, some of which stand still."""
    rng = np.random.default_rng(0)
    points = np.cumsum(rng.normal(size=(3000, 3)), axis=0).astype(np.float32)
    points[1000:1003] = points[1000]
    offsets = np.sort(np.concatenate([[0, 0, 7, 8, 3000], rng.integers(9, 3000, 40)]))
    return Tractogram(points, offsets, n_seeds=len(offsets) - 1)


def both(lines: Tractogram, monkeypatch: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Colours and places by NumPy, and by loops."""
    space = DisplaySpace.of(Grid((10, 10, 10), OBLIQUE))
    assert not space.is_ras
    found = []
    for fewest in (10**9, 0):
        monkeypatch.setattr(compiled, "FEWEST", fewest)
        assert compiled.may_loop(lines.points) == (not fewest)
        made = colours.direction_colours(lines).rgba, space.to_display_xyz(lines.points)
        found.append([array.copy() for array in made])
    return found[0], found[1]


def test_colours_and_places_are_the_same(lines: Tractogram, monkeypatch: Any) -> None:
    for mine, theirs in zip(*both(lines, monkeypatch), strict=True):
        assert mine.dtype == theirs.dtype == np.float32
        np.testing.assert_array_equal(mine, theirs)


def test_what_loops_are_not_compiled_for_is_left_to_numpy(
    lines: Tractogram, monkeypatch: Any
) -> None:
    monkeypatch.setattr(compiled, "FEWEST", 0)
    assert compiled.may_loop(lines.points)
    assert not compiled.may_loop(lines.points[::2])
    lines.points.flags.writeable = False
    assert not compiled.may_loop(lines.points)


def test_they_are_compiled_after_the_kernels(lines: Tractogram, monkeypatch: Any) -> None:
    begun = threading.Event()
    monkeypatch.setattr(compiled, "FEWEST", 0)
    monkeypatch.setattr(compiled_loops, "in_a_process", True)
    monkeypatch.setattr(compiled_loops, "_found", threading.Event())
    monkeypatch.setattr(compiled_loops, "_begun", threading.Lock())
    monkeypatch.setattr(compiled_loops, "_are_missing", lambda: not begun.is_set())
    monkeypatch.setattr(compiled_loops, "_compile", begun.set)
    monkeypatch.setattr(kernels._queue, "_jobs", {"a kernel": None})
    assert not compiled.may_loop(lines.points)
    assert not begun.wait(0.05)
    monkeypatch.setattr(kernels._queue, "_jobs", {})
    assert not compiled.may_loop(lines.points)
    assert begun.wait(10)
    assert compiled.may_loop(lines.points)
