"""Regions, lengths and weights filter what is there, and go on to whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from napari_tractography import Region, Tractogram
from napari_tractography.plugin.export.projects import project_of

WANTED = [4, 5, 6, 7]  # y of the lines beyond the region


@pytest.fixture
def filtered(open_model: Any, cross: Any, tmp_path: Path) -> Any:
    """A panel with eight lines along x from a file, of which a region leaves out the lower half."""
    x = np.linspace(-20, 20, 41)
    lines = Tractogram.from_streamlines([[(a * (1 + y / 10), y, 0) for a in x] for y in range(8)])
    lines.save(tmp_path / "lines.tck")
    panel = open_model(cross)
    panel.viewer.open(str(tmp_path / "lines.tck"), plugin="napari-tractography")
    panel.session.regions.add_region(Region.sphere((0, 0, 0), 3.5, "exclude"))
    assert ys(panel) == WANTED
    return panel


def ys(panel: Any) -> list[float]:
    return sorted(np.unique(panel.session.streamlines_layer.tractogram.points[:, 1]).tolist())


def cut(panel: Any) -> None:
    panel.session.streamlines_layer.editor.cut((10, 0, 0), (1, 0, 0))


def cut_and_undo(panel: Any) -> None:
    cut(panel)
    panel.session.streamlines_layer.editor.undo()


def cut_undo_and_redo(panel: Any) -> None:
    cut_and_undo(panel)
    panel.session.streamlines_layer.editor.redo()


def limit(panel: Any) -> None:
    panel.measure.limit_lengths(0.0, 65.0)


@pytest.mark.parametrize(
    ("edit", "wanted"),
    [(cut, WANTED), (cut_and_undo, WANTED), (cut_undo_and_redo, WANTED), (limit, [4, 5, 6])],
)
def test_edits_leave_the_filter_on(
    filtered: Any, edit: Callable[[Any], None], wanted: list[float]
) -> None:
    """The lines are others then; what is shown is what a project gives."""
    edit(filtered)
    assert ys(filtered) == wanted
    (bundle,) = project_of(filtered.bundles)[0].bundles.values()
    assert bundle.tractogram().digest() == bundle.digest
    assert bundle.digest == filtered.session.streamlines_layer.tractogram.digest()


def test_a_least_weight_outlives_a_cut(filtered: Any, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "weights.csv", np.arange(8.0))
    filtered.dissection.read_weights(tmp_path / "weights.csv")
    filtered.dissection.min_weight.value = 6.0
    assert ys(filtered) == [6, 7]
    cut(filtered)
    assert ys(filtered) == [6, 7]
    filtered.session.streamlines_layer.editor.undo()
    assert ys(filtered) == [6, 7]
