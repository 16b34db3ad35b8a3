"""What is given in place of streamlines, maps and numbers is told in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.errors import (
    InvalidMaskError,
    InvalidParameterError,
    InvalidTractogramError,
    TractographyError,
)

GRID = nt.Grid((4, 4, 4), np.eye(4))
LABELS = np.arange(64).reshape(GRID.shape)
LINES = nt.Tractogram.from_streamlines([[[0, 0, 0], [3, 3, 3]], [[0, 1, 0], [3, 1, 2]]])
FA = (np.ones(GRID.shape), np.eye(4))
BALL = nt.Region.sphere((1, 1, 1), 1, "resect")


@pytest.mark.parametrize(
    "measure",
    [
        pytest.param(lambda source: nt.density(source, GRID), id="density"),
        pytest.param(lambda source: nt.visitation(source, GRID), id="visitation"),
        pytest.param(lambda source: nt.connectome(source, LABELS, GRID), id="connectome"),
        pytest.param(lambda source: nt.measure(source, grid=GRID), id="measure"),
        pytest.param(nt.measure, id="measure without a grid"),
        pytest.param(lambda source: nt.profile(source, FA), id="profile"),
        pytest.param(lambda source: nt.resection(source, BALL), id="resection"),
        pytest.param(lambda source: nt.margin_map(source, BALL, GRID), id="margin"),
    ],
)
def test_what_is_no_streamlines_is_told(measure: Callable[[Any], object]) -> None:
    for wrong, kind in ((None, "NoneType"), (list(LINES), "ndarray"), (7, "int")):
        with pytest.raises(InvalidTractogramError, match=f"Streamlines are of type {kind}; give a"):
            measure(wrong)


def test_more_labels_than_fit_into_memory_are_told() -> None:
    voxels = np.arange(80**3).reshape(80, 80, 80)
    with pytest.raises(InvalidMaskError, match=r"511,999 different ones, whose matrix takes 1.*GB"):
        nt.connectome(LINES, voxels, np.eye(4))


def test_chunks_give_the_sums_of_all_at_once() -> None:
    rng = np.random.default_rng(0)
    lines = nt.Tractogram.from_streamlines(rng.uniform(0, 3, (500, 2, 3)))
    weights = rng.random(500)
    labels = np.ones(GRID.shape, int)
    labels[2:] = 2
    for directed in (False, True):
        whole = nt.connectome(lines, labels, GRID, weights=weights, directed=directed)
        parts = [lines[first : first + 7] for first in range(0, 500, 7)]
        found = nt.connectome(parts, labels, GRID, weights=weights, directed=directed)
        assert (found.counts == whole.counts).all()
        assert (found.mean_lengths_mm == whole.mean_lengths_mm).all()
        assert directed or (found.counts == found.counts.T).all()


def test_a_list_of_tractograms_is_read_twice() -> None:
    assert nt.measure([LINES, LINES]).n_streamlines == 4
    with pytest.raises(InvalidParameterError, match="an iterator gives them once"):
        nt.measure(iter([LINES]))


@pytest.mark.parametrize("scalars", [FA, 7, None])
def test_what_is_no_list_of_scalar_maps_is_told(scalars: Any) -> None:
    with pytest.raises(InvalidParameterError, match=r"give one, such as \[\(values, affine\)\]"):
        nt.measure(LINES, scalars)
    assert nt.measure(LINES, [FA]).scalars["scalar"].mean == 1


def test_sides_are_measures_and_not_streamlines() -> None:
    with pytest.raises(InvalidParameterError, match="of type Tractogram; give what measure return"):
        nt.asymmetry(LINES, LINES)  # type: ignore[arg-type]


def test_what_is_no_point_or_error_of_a_map_is_told() -> None:
    found = nt.visitation(LINES, GRID)
    for point in (["a", "b", "c"], [0, 1], [np.nan, 0, 0]):
        with pytest.raises(InvalidParameterError, match="is no point"):
            found.at(point)
    with pytest.raises(InvalidParameterError, match=r"standard_error = '0\.1' is out of range"):
        found.n_more("0.1")  # type: ignore[arg-type]


def test_values_to_sweep_come_in_a_list() -> None:
    fod = nt.Fod(np.ones((4, 4, 4, 6)), GRID)
    with pytest.raises(InvalidParameterError, match="values of step_mm are of type float; give a"):
        nt.sweep(fod, [[1, 1, 1]], name="step_mm", values=0.5)  # type: ignore[arg-type]


def test_what_is_no_tractogram_is_not_joined() -> None:
    with pytest.raises(InvalidTractogramError, match="one tractogram to join; give a list"):
        nt.Tractogram.concatenate(LINES)  # type: ignore[arg-type]
    with pytest.raises(InvalidTractogramError, match="type ndarray; of arrays of points from_stre"):
        nt.Tractogram.concatenate(list(LINES))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chunks", "more", "message"),
    [
        pytest.param(None, {}, "chunks are of type NoneType; give what iter_track", id="nothing"),
        pytest.param(list(LINES), {}, "chunk is of type ndarray; give Tractograms", id="arrays"),
        pytest.param(
            [LINES], {"reference": "fod.nii"}, "is of type str; give the Fod or its Grid", id="path"
        ),
        pytest.param([LINES], {"tolerance_mm": "0.1"}, "'0.1' mm is impossible", id="tolerance"),
    ],
)
def test_what_is_not_to_be_saved_is_told(
    tmp_path: Path, chunks: Any, more: dict[str, Any], message: str
) -> None:
    for ending in (".tck", ".trk"):
        with pytest.raises(TractographyError, match=message):
            nt.save_chunks(chunks, tmp_path / f"t{ending}", **{"reference": GRID, **more})
    assert not list(tmp_path.iterdir())
