"""Seeds: where they are drawn, that they replay, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from napari_tractography.errors import InvalidMaskError, InvalidParameterError, InvalidSeedsError
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.fod import Fod
from napari_tractography.model.seeds import Seeds, voxels_in_turn

SKEWED = np.array(
    [[-1.9, 0.5, 0.3, 11.0], [0.4, 2.4, -0.2, -7.0], [0.2, 0.6, 1.5, 3.0], [0, 0, 0, 1.0]]
)
N = 20_000


@pytest.fixture
def fod():
    """Four voxels: twice, once, nothing and less than nothing on average."""
    values = np.zeros((4, 1, 1, 6))
    values[:, 0, 0, 0] = (2, 1, 0, -1)
    values[:, 0, 0, 3] = 0.1
    return Fod(values, SKEWED)


def test_a_sphere_is_filled_evenly():
    centre = np.array([10.0, -20, 30])
    offsets = (Seeds.in_sphere(centre, 4.0, N).positions_mm - centre) / 4.0
    radius = np.linalg.norm(offsets, axis=1)
    assert radius.max() <= 1 + 1e-5
    assert kstest(radius**3, "uniform").pvalue > 1e-3
    assert kstest((offsets / radius[:, None])[:, 2], "uniform", (-1, 2)).pvalue > 1e-3
    assert kstest(
        np.arctan2(offsets[:, 1], offsets[:, 0]), "uniform", (-np.pi, 2 * np.pi)
    ).pvalue > (1e-3)


def test_numbers_of_numpy_are_numbers():
    seeds = Seeds.in_sphere(np.float32([0, 0, 0]), np.float32(1), np.int64(5), first=np.uint8(2))
    np.testing.assert_array_equal(
        seeds.positions_mm, Seeds.in_sphere((0, 0, 0), 1.0, 5, first=2).positions_mm
    )


def test_a_sphere_without_radius_is_its_centre():
    np.testing.assert_array_equal(Seeds.in_sphere((1, 2, 3), 0, 5).positions_mm, [[1, 2, 3]] * 5)


@pytest.mark.parametrize("first", [0, 1, 40, 2**32 - 25])
def test_numbers_of_seeds_go_on_from_sphere_to_sphere(first):
    later = Seeds.in_sphere((1, 2, 3), 4.0, 25, random_seed=7, first=first).positions_mm
    if first <= 40:
        whole = Seeds.in_sphere((1, 2, 3), 4.0, first + 25, random_seed=7).positions_mm
        np.testing.assert_array_equal(later, whole[first:])
    if first:
        start = Seeds.in_sphere((1, 2, 3), 4.0, 25, random_seed=7).positions_mm
        assert not (later == start).all(axis=1).any()


def test_a_mask_is_filled_evenly_in_voxels_of_any_shape():
    mask = np.zeros((4, 3, 5))
    mask[0, 0, 0] = mask[3, 2, 4] = mask[1, 1, 2] = mask[1, 1, 3] = 0.5
    mask[2, 2, 2] = np.nan
    vox = Grid(mask.shape, SKEWED).to_voxel(Seeds.in_mask(mask, SKEWED, N).positions_mm)
    nearest = np.round(vox).astype(int)
    assert set(map(tuple, nearest)) == {(0, 0, 0), (3, 2, 4), (1, 1, 2), (1, 1, 3)}
    _, counts = np.unique(nearest, axis=0, return_counts=True)
    assert chisquare(counts).pvalue > 1e-3
    for axis in range(3):  # half a voxel to each side, through the affine
        assert kstest((vox - nearest)[:, axis], "uniform", (-0.5, 1)).pvalue > 1e-3


def test_each_voxel_of_a_mask_gets_as_many_round_after_round():
    mask = np.zeros((4, 3, 5))
    mask[0, 0, 0] = mask[3, 2, 4] = mask[1, 1, 2] = mask[1, 1, 3] = 0.5
    mask[2, 2, 2] = np.nan
    vox = Grid(mask.shape, SKEWED).to_voxel(Seeds.in_each_voxel(mask, SKEWED, N // 4).positions_mm)
    nearest = np.round(vox).astype(int)
    rounds = nearest.reshape(-1, 4, 3)
    assert set(map(tuple, rounds[0])) == {(0, 0, 0), (3, 2, 4), (1, 1, 2), (1, 1, 3)}
    assert (rounds == rounds[0]).all()
    for axis in range(3):
        assert kstest((vox - nearest)[:, axis], "uniform", (-0.5, 1)).pvalue > 1e-3


def test_the_first_seeds_of_each_voxel_are_spread_over_the_mask():
    """A preview starts from a part of them, which should not be one end of the mask."""
    seeds = Seeds.in_each_voxel(np.ones((10, 10, 100)), np.eye(4), 1)
    assert kstest(seeds.positions_mm[:500, 2], "uniform", (-0.5, 100)).pvalue > 1e-3


def test_seeds_of_each_voxel_go_on_where_they_ended():
    mask = np.ones((2, 3, 4))
    few, many = (Seeds.in_each_voxel(mask, SKEWED, n, random_seed=7) for n in (2, 5))
    np.testing.assert_array_equal(few.more(70, 10).positions_mm, many.positions_mm[10:80])
    later = Seeds.in_each_voxel(mask, SKEWED, 1, random_seed=7, first=24)
    np.testing.assert_array_equal(later.positions_mm, many.positions_mm[24:48])
    np.testing.assert_array_equal(later.more(9, 3).positions_mm, many.positions_mm[27:36])


def test_an_fod_is_filled_by_its_integral(fod):
    vox = fod.grid.to_voxel(Seeds.from_fod(fod, N).positions_mm)
    nearest = np.round(vox[:, 0]).astype(int)
    counts = np.bincount(nearest, minlength=4)
    assert counts[2:].sum() == 0
    assert chisquare(counts[:2], [N * 2 / 3, N / 3]).pvalue > 1e-3
    for axis in range(3):
        assert kstest((vox - np.round(vox))[:, axis], "uniform", (-0.5, 1)).pvalue > 1e-3


MAKERS = [
    pytest.param(lambda n, s: Seeds.in_sphere((1, 2, 3), 4, n, random_seed=s), id="sphere"),
    pytest.param(
        lambda n, s: Seeds.in_mask(np.ones((3, 4, 5)), SKEWED, n, random_seed=s), id="mask"
    ),
    pytest.param(
        lambda n, s: Seeds.in_each_voxel(np.ones((1, 2, 5)), SKEWED, n // 10, random_seed=s),
        id="each voxel",
    ),
    pytest.param(
        lambda n, s: Seeds.from_fod(Fod(np.ones((3, 4, 5, 1)), SKEWED), n, random_seed=s), id="FOD"
    ),
]


@pytest.mark.parametrize("make", MAKERS)
def test_the_first_of_twice_as_many_are_the_seeds_asked_for_before(make):
    few, many = make(100, 7).positions_mm, make(200, 7).positions_mm
    np.testing.assert_array_equal(many[:100], few)
    assert len(np.unique(many, axis=0)) == 200


@pytest.mark.parametrize("make", MAKERS)
def test_another_random_seed_gives_others(make):
    positions = [make(50, s).positions_mm for s in (0, 1, 2**32, 2**63 - 1)]
    assert len({p.tobytes() for p in positions}) == 4


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("key", [np.uint8(7), np.int32(7), np.uint64(7), np.array(7), 7.0])
def test_a_random_seed_is_a_whole_number_of_any_type(make, key):
    np.testing.assert_array_equal(make(20, key).positions_mm, make(20, 7).positions_mm)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("key", [1.5, None, "7", np.nan, True], ids=repr)
def test_another_random_seed_is_refused(make, key):
    with pytest.raises(InvalidParameterError, match=r"random_seed = .*give a whole number"):
        make(20, key)


def test_given_positions_and_directions_are_kept():
    seeds = Seeds.at([[1, 2, 3], [4, 5, 6]], [[0, 0, 2], [3, 0, 4]])
    assert seeds.positions_mm.dtype == np.float32
    np.testing.assert_array_equal(seeds.positions_mm, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_allclose(seeds.directions, [[0, 0, 1], [0.6, 0, 0.8]], rtol=1e-6)
    assert len(Seeds.at([1, 2, 3])) == 1
    np.testing.assert_array_equal(seeds[1:].directions, seeds.directions[1:])
    assert len(seeds[:1]) == 1


def test_arrays_may_be_used_again():
    """Seeds stay where they are when their arrays change, also those that are drawn later."""
    points, mask = np.zeros((2, 3), np.float32), np.zeros((4, 4, 4), np.uint8)
    mask[1] = 1
    given, drawn = Seeds.at(points), Seeds.in_mask(mask, np.eye(4), 5)
    points += 50
    mask[:] = 0
    mask[3] = 1
    assert not given.positions_mm.any()
    assert (np.abs(drawn.more(100, 0).positions_mm[:, 0] - 1) <= 0.5).all()


def test_joining_keeps_order_and_directions_only_when_all_have_them():
    a = Seeds.at([[1, 1, 1]], [[0, 0, 1]])
    b = Seeds.at([[2, 2, 2], [3, 3, 3]], [[1, 0, 0], [0, 1, 0]])
    joined = Seeds.concatenate([a, b])
    assert joined.positions_mm[:, 0].tolist() == [1, 2, 3]
    assert joined.directions.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert Seeds.concatenate([a, Seeds.at([[5, 5, 5]])]).directions is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: Seeds.at(np.empty((0, 3))), "no seeds", id="none"),
        pytest.param(lambda: Seeds.concatenate([]), "no seeds", id="no parts"),
        pytest.param(lambda: Seeds.at(np.ones((4, 2))), r"\(4, 2\)", id="2-D points"),
        pytest.param(lambda: Seeds.at([[np.nan, 0, 0], [1, 1, 1]]), "^1 seeds", id="NaN"),
        pytest.param(
            lambda: Seeds.at([[1, 2, 3]], [[0, 0, 0]]), "non-zero vector", id="zero direction"
        ),
        pytest.param(
            lambda: Seeds.at([[1, 2, 3]], [[np.inf, 0, 0]]), "finite", id="infinite direction"
        ),
        pytest.param(lambda: Seeds.at([[1j, 2, 3]]), "hold complex128", id="complex position"),
        pytest.param(lambda: Seeds.at([["1", "2", "3"]]), "hold <U1", id="text as position"),
        pytest.param(
            lambda: Seeds.at([[1, 2, 3]], [[1j, 0, 0]]), "hold complex128", id="complex direction"
        ),
        pytest.param(lambda: Seeds.at([[1, 2, 3]], [[np.nan, 0, 1]]), "finite", id="NaN direction"),
        pytest.param(
            lambda: Seeds.at([[1, 2, 3]], np.eye(3)), "for 1 seeds", id="too many directions"
        ),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), -1, 5), "-1 mm", id="negative radius"),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), np.nan, 5), "nan mm", id="NaN radius"),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), "1", 5), "'1' mm", id="text as radius"),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), None, 5), "None mm", id="no radius"),
        pytest.param(lambda: Seeds.in_sphere((0, 0), 1, 5), "no point", id="2-D centre"),
        pytest.param(lambda: Seeds.in_sphere(("1", "2", "3"), 1, 5), "no point", id="text centre"),
        pytest.param(lambda: Seeds.in_sphere(((0,), (1, 2)), 1, 5), "no point", id="ragged centre"),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), 1, 0), "^0 seeds", id="zero seeds"),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), 1, 2.5), "2.5 seeds", id="half a seed"),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), 1, 2**33), "seeds were", id="too many"),
        pytest.param(
            lambda: Seeds.in_sphere((0, 0, 0), 1, 5, first=-1), "first = -1", id="negative first"
        ),
        pytest.param(
            lambda: Seeds.in_sphere((0, 0, 0), 1, 5, first=0.5), "first = 0.5", id="half a first"
        ),
        pytest.param(
            lambda: Seeds.in_sphere((0, 0, 0), 1, 5, first=2**32 - 4), "in all", id="first too far"
        ),
        pytest.param(lambda: Seeds.in_sphere((0, 0, 0), 1e308, 5), "too far", id="huge radius"),
        pytest.param(lambda: Seeds.in_sphere((1e39, 0, 0), 1, 5), "too far", id="huge centre"),
    ],
)
def test_impossible_seeds_are_refused(make, message):
    with pytest.raises(InvalidSeedsError, match=message):
        make()


@pytest.mark.parametrize("n", [np.nan, np.inf, -3, "5", None, [5], True], ids=repr)
def test_impossible_counts_are_refused(n):
    with pytest.raises(InvalidSeedsError, match="seeds were asked for"):
        Seeds.in_sphere((0, 0, 0), 1, n)


@pytest.mark.parametrize("mask", [np.zeros((3, 3, 3)), np.full((3, 3, 3), np.nan), np.ones((3, 3))])
def test_masks_without_voxels_are_refused(mask):
    for draw in (Seeds.in_mask, Seeds.in_each_voxel):
        with pytest.raises(InvalidMaskError):
            draw(mask, np.eye(4), 5)


def test_a_mask_of_complex_numbers_or_texts_is_refused():
    for mask, dtype in ((np.full((3, 3, 3), 1j), "complex128"), (np.full((3, 3, 3), "0"), "<U1")):
        with pytest.raises(InvalidMaskError, match=f"holds {dtype} values"):
            Seeds.in_mask(mask, np.eye(4), 5)


def test_a_mask_on_a_grid_of_another_shape_is_refused():
    with pytest.raises(InvalidMaskError, match=r"\(3, 3, 3\).*\(4, 3, 3\)"):
        Seeds.in_mask(np.ones((3, 3, 3)), Grid((4, 3, 3), np.eye(4)), 5)


def test_an_fod_that_is_nowhere_positive_is_refused():
    with pytest.raises(InvalidSeedsError, match="nowhere positive"):
        Seeds.from_fod(Fod(-np.ones((2, 2, 2, 1)), np.eye(4)), 5)


@pytest.mark.parametrize("n_voxels", [*range(1, 300), 610, 987, 2**20, 10**6])
def test_a_round_has_every_voxel_once(n_voxels: int) -> None:
    """Whatever the number, those of the golden section's own sequence and powers of 2 included."""
    order = voxels_in_turn(np.arange(n_voxels, dtype=np.int64), n_voxels)
    assert (np.bincount(order, minlength=n_voxels) == 1).all()


@pytest.mark.parametrize("n_voxels", [4430, 65_536, 286_000, 10**6])
@pytest.mark.parametrize("n_first", [20, 100, 1000, 2000])
def test_the_first_leave_no_part_of_the_mask_out(n_first: int, n_voxels: int) -> None:
    first = np.sort(voxels_in_turn(np.arange(n_first, dtype=np.int64), n_voxels))
    gaps = np.diff([*first, first[0] + n_voxels])
    assert gaps.max() < max(6 * n_voxels / n_first, 3)
