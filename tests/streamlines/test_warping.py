"""Streamlines through a warp: what becomes of points, ends and values."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.files.streamline_data import StreamlineData
from napari_tractography.streamlines.streaming import save_chunks, warped_chunks

SHIFT = np.eye(4)
SHIFT[:3, 3] = 10, 20, 30


def field() -> nt.Warp:
    """A shift of 10, 20, 30 mm, known where x is from -0.5 to 3.5, y and z from -0.5 to 1.5."""
    grid = nt.Grid((4, 2, 2), np.eye(4))
    return nt.Warp.field(np.moveaxis(np.indices(grid.shape), 0, -1) + SHIFT[:3, 3], grid)


def along_x(*xs: float) -> list[tuple[float, float, float]]:
    return [(x, 0.0, 0.0) for x in xs]


def test_an_affine_takes_all_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    values = np.arange(3, dtype=np.float32)
    track = nt.Tractogram(
        along_x(0, 1, 2),
        [0, 3],
        seed_index=[7],
        stop_reasons=[[4, 6]],
        weights=[2.5],
        n_seeds=9,
        tally={nt.StopReason(4): 1},
        data=StreamlineData({"a": np.array([5])}, {"fa": values}, {"g": np.array([0])}),
        grid=nt.Grid((2, 2, 2), np.eye(4)),
    )
    other = nt.Grid((3, 3, 3), np.eye(4))
    found = track.warped(nt.Warp.affine(SHIFT @ np.diag([2.0, 2, 2, 1])), grid=other)
    assert found.points.tolist() == [[10, 20, 30], [12, 20, 30], [14, 20, 30]]
    assert found.points.dtype == np.float32
    assert (found.seed_index.tolist(), found.stop_reasons.tolist()) == ([7], [[4, 6]])
    assert (found.n_seeds, found.tally, found.grid) == (9, {nt.StopReason(4): 1}, other)
    assert found.lengths_mm.tolist() == [4.0]
    assert found.weights is not None
    assert found.weights.tolist() == [2.5]
    assert found.data.per_point["fa"].tolist() == [0, 1, 2]
    assert found.data.per_streamline["a"].tolist() == [5]
    assert found.data.groups["g"].tolist() == [0]
    assert not caplog.records
    assert track.warped(nt.Warp.affine(SHIFT)).grid is None


def test_what_leaves_a_field_is_cut_and_what_is_outside_goes_and_both_are_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    #  x   -1  0  1  2  3  4  5     known from -0.5 to 3.5
    lines = [
        along_x(0, 1, 2),
        along_x(2, 3, 4, 3, 2, 9, 1, 9),  # two pieces, and a single point, which goes
        along_x(5, 6, 7),
        along_x(-1, 0),  # one point is left of it
        along_x(1),  # a streamline of one point stays one
        along_x(9),
    ]
    whole = nt.Tractogram.from_streamlines(lines)
    data = StreamlineData({}, {"x": whole.points[:, 0].copy()})
    track = nt.Tractogram(
        whole.points, whole.offsets, data=data, stop_reasons=[[4, 6]] * 6, weights=range(6)
    )
    found = track.warped(field())
    assert [(piece[:, 0] - 10).tolist() for piece in found] == [[0, 1, 2], [2, 3], [3, 2], [1]]
    assert found.seed_index.tolist() == [0, 1, 1, 4]
    assert found.stop_reasons.tolist() == [[4, 6], [4, 0], [0, 0], [4, 6]]
    assert found.data.per_point["x"].tolist() == [0, 1, 2, 2, 3, 3, 2, 1]
    assert found.weights is not None
    assert found.weights.tolist() == [0, 1, 1, 4]
    assert [record.message for record in caplog.records] == [
        "Of 6 streamlines 1 leave the warp and were cut there, and 3 lie outside of it and were "
        "left out."
    ]


def test_chunks_are_what_the_whole_is_and_lost_ones_are_said_once(
    caplog: pytest.LogCaptureFixture, tmp_path: object
) -> None:
    rng = np.random.default_rng(0)
    lines = [rng.uniform((-1, -0.4, -0.4), (4, 1.4, 1.4), (n, 3)) for n in rng.integers(0, 9, 40)]
    track = nt.Tractogram.from_streamlines(lines)
    wanted = track.warped(field())
    said = [record.message for record in caplog.records]
    caplog.clear()
    chunks = [track[:7], track[7:7], track[7:]]
    saved = save_chunks(warped_chunks(chunks, field()), f"{tmp_path}/b.tck")
    assert saved.digest() == wanted.digest()
    assert [record.message for record in caplog.records] == said
    assert len(said) == 1


def test_streamlines_without_points_keep_their_numbers(caplog: pytest.LogCaptureFixture) -> None:
    lines = [[], along_x(9), [], [], along_x(0, 1), along_x(2, 9, 2, 3), []]
    track = nt.Tractogram.from_streamlines(
        [np.reshape(np.array(line, np.float32), (-1, 3)) for line in lines]
    ).with_weights(range(7))
    found = track.warped(nt.Warp.affine(SHIFT))
    assert found.offsets.tolist() == track.offsets.tolist()
    assert not caplog.records
    found = track.warped(field())
    assert np.diff(found.offsets).tolist() == [0, 0, 0, 2, 2, 0]
    assert found.weights is not None
    assert found.weights.tolist() == [0, 2, 3, 4, 5, 6]
    assert (
        "Of 7 streamlines 1 leave the warp and were cut there, and 1 lie outside"
        in (caplog.messages[0])
    )


def test_no_streamline_at_all() -> None:
    assert len(nt.Tractogram.empty().warped(field())) == 0
