"""Tractograms: arrays that belong together, lengths, pieces and digests."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import napari_tractography as nt
from napari_tractography.errors import InvalidTractogramError
from napari_tractography.model.stop import N_REASONS, StopReason
from napari_tractography.streamlines.joining import Joining
from napari_tractography.streamlines.tractogram import Tractogram, tally_from_counts

counts_lists = st.lists(st.integers(0, 6), max_size=8)


def make(counts, seed=0):
    random = np.random.default_rng(seed)
    n = len(counts)
    return Tractogram(
        random.normal(size=(sum(counts), 3)),
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]),
        seed_index=random.integers(0, 100, n),
        stop_reasons=random.integers(0, N_REASONS, (n, 2)),
    )


def assert_same(one, other):
    assert one.digest() == other.digest()
    np.testing.assert_array_equal(one.seed_index, other.seed_index)
    np.testing.assert_array_equal(one.stop_reasons, other.stop_reasons)
    np.testing.assert_allclose(one.lengths_mm, other.lengths_mm, rtol=1e-6)


def test_lengths_of_known_polylines():
    corner = [[0, 0, 0], [3, 0, 0], [3, 4, 0]]
    diagonal = [[100, 0, 0], [101, 2, 2]]
    tractogram = Tractogram.from_streamlines([corner, [[5, 5, 5]], diagonal])
    np.testing.assert_allclose(tractogram.lengths_mm, [7, 0, 3])
    assert tractogram.lengths_mm.dtype == np.float32


@given(counts_lists)
def test_lengths_equal_a_plain_loop(counts):
    tractogram = make(counts)
    expected = [sum(np.linalg.norm(b - a) for a, b in pairwise(line)) for line in tractogram]
    np.testing.assert_allclose(tractogram.lengths_mm, expected, atol=1e-5)


def test_a_point_that_is_far_away_leaves_other_lengths_alone():
    far = [[0, 0, 0], [1e20, 0, 0]]
    ends = [[-3e38, 0, 0], [3e38, 0, 0]]
    near = [[0, 0, 0], [0, 3, 0]]
    lengths = Tractogram.from_streamlines([near, far, [[1, 1, 1]], near, ends, near]).lengths_mm
    np.testing.assert_allclose(lengths, [3, 1e20, 0, 3, np.inf, 3])


@pytest.mark.parametrize("line", [np.zeros(3), np.zeros((3, 2)), np.zeros((2, 3, 3))])
def test_lines_of_another_shape_are_refused(line):
    """Two coordinates are no points in space, however many numbers there are."""
    with pytest.raises(InvalidTractogramError, match="Streamline 1 has shape"):
        Tractogram.from_streamlines([[[0, 0, 0]], line])
    assert Tractogram.from_streamlines([[], [[1, 2, 3]]]).lengths_mm.tolist() == [0, 0]


def test_given_lengths_are_kept():
    """Where points were left out the polyline is shorter than the path."""
    tractogram = Tractogram([[0, 0, 0], [1, 0, 0]], [0, 2], lengths_mm=[5.0])
    assert tractogram.lengths_mm.tolist() == [5.0]
    assert tractogram[0].lengths_mm.tolist() == [5.0]
    both = Tractogram.concatenate([tractogram, Tractogram([[0, 0, 0], [2, 0, 0]], [0, 2])])
    assert both.lengths_mm.tolist() == [5.0, 2.0]


@given(counts_lists)
def test_lines_partition_the_points(counts):
    tractogram = make(counts)
    lines = list(tractogram)
    assert [len(line) for line in lines] == counts
    assert len(tractogram) == tractogram.n_streamlines == len(counts)
    if lines:
        np.testing.assert_array_equal(np.concatenate(lines), tractogram.points)
        assert Tractogram.from_streamlines(lines).digest() == tractogram.digest()


@given(counts_lists, st.integers(0, 8))
def test_cutting_and_joining_gives_the_whole(counts, cut):
    tractogram = make(counts)
    assert_same(Tractogram.concatenate([tractogram[:cut], tractogram[cut:]]), tractogram)


@given(counts_lists.filter(len), st.data())
def test_any_index_picks_whole_streamlines(counts, data):
    tractogram = make(counts)
    lines = list(tractogram)
    chosen = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=5))
    picked = tractogram[np.array(chosen, dtype=int)]
    assert picked.seed_index.tolist() == tractogram.seed_index[chosen].tolist()
    assert picked.stop_reasons.tolist() == tractogram.stop_reasons[chosen].tolist()
    for line, number in zip(picked, chosen, strict=True):
        np.testing.assert_array_equal(line, lines[number])
    assert_same(tractogram[-1], tractogram[[len(counts) - 1]])
    mask = np.arange(len(counts)) % 2 == 0
    assert_same(tractogram[mask], tractogram[::2])


def test_joining_adds_tallies_and_seeds():
    parts = [
        Tractogram([[0, 0, 0]], [0, 1], tally={StopReason.LEFT_MASK: 2}, n_seeds=3),
        Tractogram(
            np.empty((0, 3)), [0], tally={StopReason.LEFT_MASK: 1, StopReason.NO_FOD: 5}, n_seeds=4
        ),
    ]
    joined = Tractogram.concatenate(parts)
    assert joined.tally == {StopReason.LEFT_MASK: 3, StopReason.NO_FOD: 5}
    assert joined.n_seeds == 7
    assert joined.reasons() == [(StopReason.NO_FOD, 5), (StopReason.LEFT_MASK, 3)]
    assert Tractogram.concatenate([]).n_streamlines == 0


def test_joining_keeps_the_weights_where_all_streamlines_have_them():
    bare = Tractogram(np.zeros((4, 3)), [0, 2, 4])
    weighted, empty = bare.with_weights([1, 2]), Tractogram.empty()
    for parts in ([empty, weighted], [weighted, empty], [weighted[:0], empty, weighted]):
        np.testing.assert_array_equal(Tractogram.concatenate(parts).weights, [1, 2])
        np.testing.assert_array_equal(Tractogram.concatenate(iter(parts)).weights, [1, 2])
    for parts in ([bare, weighted], [weighted[:0], bare], [empty, empty], [empty, bare]):
        assert Tractogram.concatenate(parts).weights is None


def test_a_mask_does_not_choose_by_number():
    lines = Tractogram.from_streamlines(np.arange(18.0).reshape(3, 2, 3))
    mask = lines.found_in(lines[1:])
    assert lines[mask].points[0, 0] == 6
    assert lines.chosen([1.0, 2]).points[0, 0] == 6
    for wrong in (mask, [1.5], [[1, 2]], ["1"]):
        with pytest.raises(InvalidTractogramError, match=r"give (one|whole numbers|real numbers)"):
            lines.chosen(wrong)


def test_chosen_streamlines_do_not_know_their_seeds():
    run = Tractogram(np.zeros((2, 3)), [0, 1, 2], n_seeds=40)
    assert run[:1].n_seeds == 0
    assert run[:1].summary().startswith("1 streamlines, 1 points")
    assert Tractogram.concatenate([run, run, Tractogram.empty()]).n_seeds == 80
    assert Tractogram.concatenate([run, run[:1]]).n_seeds == 0


def test_digest_is_the_documented_hash():
    points = np.array([[1.5, 2, 3], [4, 5, 6], [7, 8, 9]])
    tractogram = Tractogram(points, [0, 1, 3])
    expected = hashlib.sha256(
        points.astype("<f4").tobytes() + np.array([0, 1, 3], "<i8").tobytes()
    ).hexdigest()
    assert tractogram.digest() == expected
    assert Tractogram(points, [0, 2, 3]).digest() != expected
    assert Tractogram(points + 1e-6, [0, 1, 3]).digest() != expected


def test_arrays_have_the_documented_types():
    tractogram = Tractogram([[1, 2, 3]], [0, 1])
    assert tractogram.points.dtype == np.float32
    assert tractogram.offsets.dtype == np.int64
    assert tractogram.seed_index.tolist() == [0]
    assert tractogram.stop_reasons.tolist() == [[0, 0]]
    assert tractogram.n_seeds == 0  # nobody knows


@pytest.mark.parametrize(
    ("points", "offsets", "message"),
    [
        pytest.param(np.ones((2, 2)), [0, 2], "points has shape", id="2-D points"),
        pytest.param(np.ones(3), [0, 1], "points has shape", id="flat points"),
        pytest.param(np.ones((2, 3)), [], "offsets must rise", id="no offsets"),
        pytest.param(np.ones((2, 3)), [1, 2], "offsets must rise", id="late start"),
        pytest.param(np.ones((2, 3)), [0, 1], "number of points, 2", id="early end"),
        pytest.param(np.ones((2, 3)), [0, 2, 1, 2], "offsets must rise", id="falling"),
        pytest.param(np.ones((2, 3)), [[0, 2]], "offsets must rise", id="2-D offsets"),
        pytest.param([[1, 2, np.nan], [1, 2, 3]], [0, 2], "1 points are not finite", id="NaN"),
        pytest.param([[1j, 2, 3]], [0, 1], "points holds complex128 values", id="complex"),
        pytest.param([["1", "2", "3"]], [0, 1], "points holds <U1 values", id="texts"),
        pytest.param(np.ones((1, 3)), [0j, 1], "offsets holds complex128", id="complex offsets"),
        pytest.param(np.ones((4, 3)), [0, 1.5, 4], "offsets .* whole numbers", id="fractions"),
        pytest.param(np.ones((4, 3)), [0, np.nan, 4], "offsets .* whole numbers", id="NaN offset"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(points, offsets, message):
    with pytest.raises(InvalidTractogramError, match=message):
        Tractogram(points, offsets)


@pytest.mark.parametrize(
    "extra", [{"seed_index": [1]}, {"stop_reasons": [[1, 2]]}, {"lengths_mm": [1.0, 2.0, 3.0]}]
)
def test_per_streamline_data_of_another_length_is_refused(extra):
    with pytest.raises(InvalidTractogramError, match=f"{next(iter(extra))} has shape.* 2 stream"):
        Tractogram(np.ones((2, 3)), [0, 1, 2], **extra)


@pytest.mark.parametrize("name", ["seed_index", "stop_reasons", "lengths_mm", "weights"])
def test_complex_values_of_streamlines_are_refused(name):
    values = np.ones((1, 2) if name == "stop_reasons" else 1, complex)
    told = "no list of real" if name == "weights" else f"{name} holds complex128 values"
    with pytest.raises(InvalidTractogramError, match=told):
        Tractogram(np.ones((2, 3)), [0, 2], **{name: values})


@pytest.mark.parametrize(
    ("name", "values"), [("seed_index", [0.5]), ("stop_reasons", [[300, 0]])], ids=["half", "300"]
)
def test_values_of_streamlines_that_would_become_others_are_refused(name, values):
    with pytest.raises(InvalidTractogramError, match=f"{name} holds numbers that .* no room for"):
        Tractogram(np.ones((2, 3)), [0, 2], **{name: values})


def test_complex_streamlines_are_refused():
    with pytest.raises(InvalidTractogramError, match="Streamline 1 holds complex64 values"):
        Tractogram.from_streamlines([[[0, 0, 0]], np.ones((2, 3), np.complex64)])


def test_empty_runs_say_why_and_what_to_change():
    empty = Tractogram(
        np.empty((0, 3)),
        [0],
        tally={StopReason.SEED_OUTSIDE_MASK: 9, StopReason.SEED_OUTSIDE_IMAGE: 1},
        n_seeds=10,
    )
    assert empty.why_empty() == (
        "No streamlines from 10 seeds: 9 x seed outside the mask; move the seeds into the mask."
    )
    assert "no seeds" in Tractogram.empty().why_empty()
    assert Tractogram([[0, 0, 0]], [0, 1]).why_empty() == ""


def test_summary_gives_counts_lengths_and_reasons():
    tractogram = Tractogram(
        [[0, 0, 0], [3, 0, 0], [0, 0, 0], [5, 0, 0]],
        [0, 2, 4],
        stop_reasons=[[StopReason.SEED, StopReason.NO_FOD], [StopReason.NO_FOD] * 2],
        tally={StopReason.NO_FOD: 3, StopReason.SEED: 1, StopReason.TOO_SHORT: 4},
        n_seeds=6,
    )
    assert tractogram.ends() == [(StopReason.NO_FOD, 3)]
    assert tractogram.discarded() == [(StopReason.TOO_SHORT, 4)]
    text = tractogram.summary()
    assert text.index("ends:") < text.index("3  reached") < text.index("no streamline:")
    assert text.endswith("4  shorter than the minimum length")
    assert "2 streamlines from 6 seeds, 4 points" in text
    assert "4.0 mm on average, 3.0 to 5.0 mm" in text
    assert "3  reached a voxel without fibres" in text
    assert "starts at the seed" not in text


def test_lengths_of_micrometres_can_be_read():
    lines = [[[0, 0, 0], [0, 0, length]] for length in (0.0131, 0.0742, 0.25)]
    text = Tractogram.from_streamlines(lines).summary()
    assert "length 0.11 mm on average, 0.01 to 0.25 mm" in text


def unmoved(**more):
    """One streamline and three seeds from which no step was taken, one of two reasons."""
    return Tractogram(
        [[0, 0, 0], [3, 0, 0]],
        [0, 2],
        stop_reasons=[[StopReason.LEFT_IMAGE, StopReason.NO_FOD]],
        tally={
            StopReason.LEFT_IMAGE: 4,  # one end, and all three
            StopReason.NO_FOD: 1,
            StopReason.LEFT_MASK: 1,  # the other half of one of them
            StopReason.TOO_SHORT: 2,
        },
        **more,
    )


def test_seeds_without_a_step_are_no_ends_but_among_the_discarded():
    run = unmoved(n_seeds=6)
    assert run.ends() == [(StopReason.LEFT_IMAGE, 1), (StopReason.NO_FOD, 1)]
    assert run.discarded() == [(StopReason.LEFT_IMAGE, 3), (StopReason.TOO_SHORT, 2)]
    assert "         3  left the image, at the first step" in run.summary()
    twice = Tractogram.concatenate([run, run, Tractogram.empty()])
    assert twice.ends() == [(reason, 2 * count) for reason, count in run.ends()]
    assert twice.discarded() == [(reason, 2 * count) for reason, count in run.discarded()]


def test_what_is_chosen_tells_its_ends_and_nothing_is_told_of_unknown_seeds():
    run = unmoved(n_seeds=6)
    assert (run[:1].ends(), run[:1].discarded()) == (run.ends(), [])
    assert unmoved().discarded() == [(StopReason.TOO_SHORT, 2)]  # whatever else the tally holds
    bare = Tractogram([[0, 0, 0], [3, 0, 0]], [0, 2])  # as of a file without reasons
    assert (bare.ends(), bare.discarded()) == ([], [])


def test_a_run_without_a_step_says_why():
    tally = {StopReason.LEFT_MASK: 5, StopReason.SEED: 5}
    empty = Tractogram(np.empty((0, 3)), [0], tally=tally, n_seeds=5)
    assert empty.why_empty() == (
        "No streamlines from 5 seeds: 5 x left the mask, at the first step; use a larger mask."
    )


def test_a_run_of_too_short_streamlines_says_what_ended_them():
    short = Tractogram(np.empty((0, 3)), [0], tally={StopReason.TOO_SHORT: 5}, n_seeds=5)
    last = Tractogram(np.empty((0, 3)), [0], short_since=StopReason.LEFT_MASK)
    for parts in ([short, last], [last, short], [short, last, Tractogram.empty()]):
        assert Tractogram.concatenate(parts).why_empty() == (
            "No streamlines from 5 seeds: 5 x shorter than the minimum length, most for this "
            "reason: left the mask; use a larger mask, or lower the minimum length."
        )
    assert short.why_empty().endswith("minimum length; lower the minimum length.")


def test_tally_from_counts_leaves_zeros_out():
    counts = np.zeros(N_REASONS, np.int64)
    counts[StopReason.MAX_LENGTH] = 4
    assert tally_from_counts(counts) == {StopReason.MAX_LENGTH: 4}


# ---------------------------------------------------------------------------------------- joining


def test_parts_are_joined_as_they_come_without_keeping_them() -> None:
    alive: list[weakref.ref[np.ndarray]] = []

    def parts() -> Iterator[Tractogram]:
        for k in range(4):
            assert sum(ref() is not None for ref in alive) <= 1
            part = Tractogram(np.full((3, 3), k), [0, 1, 3], seed_index=[k, k + 10])
            alive.append(weakref.ref(part.points))
            yield part

    joined = Tractogram.concatenate(parts())
    assert joined.points[:, 1].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert joined.offsets.tolist() == [0, 1, 3, 4, 6, 7, 9, 10, 12]
    assert joined.seed_index.tolist() == [0, 10, 1, 11, 2, 12, 3, 13]


@pytest.mark.parametrize("n_seeds", [None, 1, 40, 10**4])
def test_joining_does_not_depend_on_how_many_seeds_are_expected(n_seeds: int | None) -> None:
    parts = [make([3, 0, 5], seed=k)[: k % 4] for k in range(12)]
    wanted = np.concatenate([part.points for part in parts])
    joined = Tractogram.concatenate(iter(parts), n_seeds=n_seeds)
    np.testing.assert_array_equal(joined.points, wanted)
    assert joined.n_seeds == sum(part.n_seeds for part in parts)
    assert_same(Tractogram.concatenate(parts), joined)


def test_an_iterator_without_parts_gives_no_streamlines() -> None:
    assert Tractogram.concatenate(iter([]), n_seeds=5).n_streamlines == 0


@pytest.mark.parametrize("n_seeds", [None, 400])
def test_what_is_joined_as_it_comes_lies_in_the_whole(n_seeds: int | None) -> None:
    """As by concatenate, but that the parts hold no points of their own any more."""
    rng = np.random.default_rng(0)
    parts = [
        Tractogram(rng.normal(size=(n, 3)), [0, n // 2, n], lengths_mm=[1.0, 2.0], n_seeds=n // 100)
        for n in (500, 9000, 40, 20000)
    ]
    wanted = Tractogram.concatenate(parts)
    before = [part.points.copy() for part in parts]
    joining = Joining(n_seeds)
    for part in parts:
        joining.take(part)
    columns = joining.columns()
    assert columns is not None
    whole = Tractogram(**columns)
    assert whole.digest() == wanted.digest()
    assert whole.n_seeds == wanted.n_seeds
    assert np.array_equal(whole.lengths_mm, wanted.lengths_mm)
    assert all(np.array_equal(part.points, b) for part, b in zip(parts, before, strict=True))
    assert np.shares_memory(parts[-1].points, whole.points)
    assert Joining().columns() is None


def test_the_same_streamlines_are_found_by_their_points() -> None:
    a = Tractogram.from_streamlines([[(0, 0, 0), (1, 0, 0)], [(0, 0, 0)], np.empty((0, 3))])
    backwards = Tractogram.from_streamlines([[(1, 0, 0), (0, 0, 0)], [(-0.0, 0, -0.0)]])
    assert a.found_in(backwards).tolist() == [False, True, False]
    assert a.found_in(a).all()
    assert a.found_in(Tractogram.empty()).tolist() == [False] * 3
    longer = Tractogram.from_streamlines([[(0, 0, 0), (1, 0, 0), (2, 0, 0)]])
    assert not a.found_in(longer).any()


def test_points_of_a_mapped_file_that_are_not_finite_are_told_when_they_matter(tmp_path):
    points = np.memmap(tmp_path / "points", np.float32, "w+", shape=(9, 3))
    points[:] = np.arange(27).reshape(9, 3) / 9
    points[4, 1] = np.nan
    grid = nt.Grid((4, 4, 4), np.eye(4))
    region = nt.Region.sphere((0, 0, 0), 1, "include")
    lines = Tractogram(points, [0, 3, 6, 9])
    assert len(lines[0]) == 1
    for use in (
        lines.spatial_index,
        lambda: lines.select(regions=[region]),
        lambda: lines.save(tmp_path / "t.tck"),
        lambda: Tractogram.concatenate([lines, lines]),
        lambda: nt.connectome(lines, np.ones((4, 4, 4), int), grid, radius_mm=1.0),
        lambda: nt.density(lines, grid),  # which would never end
        lambda: nt.measure([lines], grid=grid),
        lambda: nt.density(lines[1:], grid),
    ):
        with pytest.raises(InvalidTractogramError, match="1 points are not finite; remove those"):
            use()
    assert nt.density(lines[[0, 2]], grid).max() == 1
