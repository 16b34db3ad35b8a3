"""Streamlines cut at a plane."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import napari_tractography as nt
from napari_tractography.streamlines.cutting import cut_beyond


def test_what_lies_beyond_goes_and_the_cut_end_lies_on_the_plane() -> None:
    track = nt.Tractogram.from_streamlines([[(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]])
    found = cut_beyond(track, (1.5, 9, 9), (2.0, 0, 0))
    assert found.points.tolist() == [[0, 0, 0], [1, 0, 0], [1.5, 0, 0]]
    assert found.lengths_mm.tolist() == [1.5]


def test_a_streamline_that_comes_back_becomes_two() -> None:
    #  y 1        +--+        plane x = 1.5, beyond is right of it
    #  y 0  0--1--2  |
    #  y 2  0--1-----+
    line = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (2, 2, 0), (1, 2, 0), (0, 2, 0)]
    track = nt.Tractogram(
        line, [0, 6], seed_index=[7], stop_reasons=[[4, 6]], weights=[2.5], n_seeds=9
    )
    found = cut_beyond(track, (1.5, 0, 0), (1, 0, 0))
    assert [piece.tolist() for piece in found] == [
        [[0, 0, 0], [1, 0, 0], [1.5, 0, 0]],
        [[1.5, 2, 0], [1, 2, 0], [0, 2, 0]],
    ]
    assert found.seed_index.tolist() == [7, 7]
    assert found.stop_reasons.tolist() == [[4, 0], [0, 6]]
    assert found.weights is not None
    assert found.weights.tolist() == [2.5, 2.5]


def test_a_point_on_the_plane_is_a_cut_end_itself() -> None:
    """Once; and what does no more than touch the plane goes."""
    heights = {
        (-2, 0, 1): [[-2, 0]],
        (1, 0, -2): [[0, -2]],
        (-1, 0, 1, 0, -1): [[-1, 0], [0, -1]],
        (-1, 0, 0, 1): [[-1, 0, 0]],  # along the plane, as it was tracked
        (-1, 0, -1): [[-1, 0, -1]],
        (1, 0, 1): [],
        (0, 1): [],
        (1, 0): [],
        (-1, 1, 0, 1, -1): [[-1, 0], [0, -1]],  # cut, touched, cut
    }
    for given_, wanted in heights.items():
        line = [(x, 0, z) for x, z in enumerate(given_)]
        reasons = [[4, 6]]
        track = nt.Tractogram(line, [0, len(line)], stop_reasons=reasons, n_seeds=1)
        found = cut_beyond(track, (0, 0, 0), (0, 0, 1))
        assert [piece[:, 2].tolist() for piece in found] == wanted
        starts, ends = ([p[i, 0] in (0, len(line) - 1) for p in found] for i in (0, -1))
        assert found.stop_reasons.tolist() == [
            [4 * start, 6 * end] for start, end in zip(starts, ends, strict=True)
        ]


def test_streamlines_on_one_side_stay_or_go_whole() -> None:
    lines = [[(0, 0, 0), (1, 0, 0)], [(3, 0, 0), (4, 0, 0)], [(0, 0, 0)], [(5, 0, 0)]]
    track = nt.Tractogram.from_streamlines(lines)
    track = nt.Tractogram(track.points, track.offsets, lengths_mm=[1.25, 1, 0, 0])
    found = cut_beyond(track, (2, 0, 0), (1, 0, 0))
    assert [piece.tolist() for piece in found] == [[[0, 0, 0], [1, 0, 0]], [[0, 0, 0]]]
    assert found.lengths_mm.tolist() == [1.25, 0.0]  # as tracked, not the polyline's
    assert cut_beyond(track, (9, 0, 0), (1, 0, 0)) is track
    assert len(cut_beyond(track, (-1, 0, 0), (1, 0, 0))) == 0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_both_sides_together_are_as_long_as_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = [rng.normal(size=(rng.integers(0, 12), 3)) for _ in range(8)]
    track = nt.Tractogram.from_streamlines(lines)
    normal = rng.normal(size=3)
    one, other = cut_beyond(track, (0, 0, 0), normal), cut_beyond(track, (0, 0, 0), -normal)
    total = one.lengths_mm.sum() + other.lengths_mm.sum()
    assert np.isclose(total, track.lengths_mm.sum(), rtol=1e-5)
    assert (one.points @ normal).max(initial=0) < 1e-5
    assert (other.points @ normal).min(initial=0) > -1e-5
