"""Watching the values of a layer: every change is told, and nothing that is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from napari.layers import Image, Labels

from napari_tractography.plugin.layers import layer_watch
from napari_tractography.plugin.layers.layer_watch import LayerWatch

SHAPE = (4, 5, 6)
HALF = (slice(0, 2),)


@pytest.fixture
def told(qtbot: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An entry for each time that the watch called back."""
    monkeypatch.setattr(layer_watch, "CHECK_MS", 5)
    return []


def watching(layer: Any, told: list[int]) -> LayerWatch:
    """A watch of a layer."""
    watch = LayerWatch(lambda: told.append(len(told)))
    watch.layer = layer
    return watch


def paint(layer: Labels) -> None:
    """Paint the first half, as the brush does."""
    inside = np.zeros(SHAPE, bool)
    inside[HALF] = True
    layer.data_setitem(np.nonzero(inside), 1)


def test_painting_and_undoing_it_are_told(told: list[int], qtbot: Any) -> None:
    """Napari tells of an undo by nothing but a redraw."""
    layer = Labels(np.zeros(SHAPE, np.uint8))
    watch = watching(layer, told)
    paint(layer)
    assert told
    qtbot.wait(30)
    told.clear()
    layer.undo()
    qtbot.waitUntil(lambda: len(told) == 1)
    assert watch.layer is layer
    layer.redo()
    qtbot.waitUntil(lambda: len(told) == 2)


def test_an_undo_soon_after_painting_is_told(told: list[int], qtbot: Any) -> None:
    layer = Labels(np.zeros(SHAPE, np.uint8))
    _watch = watching(layer, told)
    paint(layer)
    n = len(told)
    layer.undo()
    qtbot.waitUntil(lambda: len(told) == n + 1)


def test_values_changed_from_a_console_are_told_when_the_layer_is_refreshed(
    told: list[int], qtbot: Any
) -> None:
    layer = Image(np.zeros(SHAPE))
    _watch = watching(layer, told)
    layer.data[0, 0, 0] = 1.0
    layer.refresh()
    qtbot.waitUntil(lambda: len(told) == 1)


def test_a_redraw_that_changes_nothing_is_not_told(told: list[int], qtbot: Any) -> None:
    layer = Labels(np.ones(SHAPE, np.uint8))
    _watch = watching(layer, told)
    layer.refresh()
    qtbot.wait(50)
    assert told == []


def test_a_layer_that_is_no_longer_watched_is_not_told(told: list[int], qtbot: Any) -> None:
    layer = Labels(np.zeros(SHAPE, np.uint8))
    watch = watching(layer, told)
    paint(layer)
    layer.undo()
    watch.layer = None
    told.clear()
    layer.redo()
    qtbot.wait(50)
    assert told == []
