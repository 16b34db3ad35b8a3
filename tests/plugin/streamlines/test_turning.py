"""Fewer lines while the mouse turns 3-D, and all of them again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_tractography import Tractogram
from napari_tractography.plugin.streamlines import Streamlines, turning

N, POINTS = 12, 5  # lines, and points of each


@pytest.fixture
def viewer() -> ViewerModel:
    """In 3-D, with two bundles of 12 lines of 5 points and one that is hidden."""
    viewer = ViewerModel()
    lines = [np.column_stack([np.arange(POINTS), *np.full((2, POINTS), k)]) for k in range(N)]
    for visible in (True, True, False):
        viewer.add_layer(Streamlines(Tractogram.from_streamlines(lines), visible=visible))
    viewer.layers[0].without_graphics_card = True
    viewer.dims.ndisplay = 3
    return viewer


def drawn(layer: Any) -> list[int]:
    """How many steps of each line are drawn."""
    return [int(n) for n in np.asarray(layer.track_connex).reshape(N, POINTS).sum(axis=1)]


def test_an_even_part_is_drawn_from_the_first_move_to_the_release(
    viewer: ViewerModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turning, "POINTS_WITHOUT_CARD", 2 * N * POINTS // 3)
    event = SimpleNamespace(type="mouse_press", handled=False)
    drag, (one, other, hidden) = turning.fewer_while_turning(viewer, event), viewer.layers
    told: list[int] = []
    one.events.drawn_every.connect(lambda: told.append(one.drawn_every))
    next(drag)
    assert drawn(one) == [POINTS - 1] * N  # it may be a click
    event.type = "mouse_move"
    for _ in range(2):
        next(drag)
        assert drawn(one) == drawn(other) == [POINTS - 1, 0, 0] * (N // 3)
    assert hidden.drawn_every == 1
    event.type = "mouse_release"
    assert list(drag) == []
    assert drawn(one) == [POINTS - 1] * N
    assert told == [3, 1]


def test_what_a_seed_takes_and_what_is_quick_is_drawn_whole(viewer: ViewerModel) -> None:
    assert list(turning.fewer_while_turning(viewer, SimpleNamespace(handled=True))) == []
    event = SimpleNamespace(type="mouse_press", handled=False)
    drag = turning.fewer_while_turning(viewer, event)
    next(drag)
    event.type = "mouse_move"
    next(drag)
    assert drawn(viewer.layers[0]) == [POINTS - 1] * N
    viewer.dims.ndisplay = 2
    assert list(turning.fewer_while_turning(viewer, event)) == []
