"""Seeds that are functions of their voxel: what a mask that changes by one voxel changes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import napari_tractography as nt
from napari_tractography.errors import InvalidParameterError
from napari_tractography.model.phantoms import make_phantom, phantom_mask
from napari_tractography.recipes.sources import FodSource, SeedSource
from napari_tractography.recipes.volume_sources import VolumeSource

GRID = nt.Grid((6, 5, 4), np.diag([2.0, 2.0, 3.0, 1.0]))


def a_mask(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(GRID.shape) < 0.4


def as_set(seeds: nt.Seeds) -> dict[int, tuple[float, ...]]:
    """Positions by stream."""
    assert seeds.streams is not None
    assert len(set(seeds.streams.tolist())) == len(seeds)
    return dict(zip(seeds.streams.tolist(), map(tuple, seeds.positions_mm.tolist()), strict=True))


def voxels(seeds: nt.Seeds) -> np.ndarray:
    return np.ravel_multi_index(tuple(GRID.nearest_voxels(seeds.positions_mm).T), GRID.shape)


def test_each_round_has_every_voxel_once_and_an_order_of_its_own() -> None:
    mask = a_mask()
    inside = np.flatnonzero(mask)
    seeds = nt.Seeds.in_mask(mask, GRID, 3 * len(inside) + 5, by="voxel")
    rounds = voxels(seeds)[: 3 * len(inside)].reshape(3, -1)
    assert (np.sort(rounds, axis=1) == inside).all()
    assert len({tuple(order) for order in rounds.tolist()}) == 3
    offsets = GRID.to_voxel(seeds.positions_mm) - np.round(GRID.to_voxel(seeds.positions_mm))
    assert (np.abs(offsets) <= 0.5).all()
    assert np.abs(offsets.mean(axis=0)).max() < 0.1


def test_rounds_differ_however_many_voxels_there_are() -> None:
    """Of a volume of 2^24 voxels 256 rounds would wrap a number of 32 bits."""
    mask = np.zeros((256, 256, 256), bool)
    mask[100, 100, 100] = True
    seeds = nt.Seeds.by_voxel(mask, np.eye(4), 1000)
    assert seeds.streams is not None
    assert len(np.unique(seeds.streams)) == len(np.unique(seeds.positions_mm, axis=0)) == 1000


def test_the_law_is_what_it_was() -> None:
    """Recipes of before make the same seeds."""
    mask = np.zeros(GRID.shape, bool)
    mask[1:4, 2:5, 1] = mask[5, 0, 3] = True
    seeds = nt.Seeds.by_voxel(mask, GRID, 25, random_seed=7)
    assert seeds.streams is not None
    assert seeds.streams[:12].tolist() == [29, 77, 53, 37, 57, 49, 33, 73, 69, 103, 174, 194]
    digest = hashlib.sha256(seeds.positions_mm.astype("<f4").tobytes()).hexdigest()
    assert digest.startswith("69a9d854e379dd85")


def test_by_the_list_nothing_has_changed() -> None:
    mask = a_mask()
    listed = nt.Seeds.in_mask(mask, GRID, 40, random_seed=3)
    assert listed.streams is None
    same = nt.Seeds.in_mask(mask, GRID, 40, random_seed=3, by="list")
    assert np.array_equal(listed.positions_mm, same.positions_mm)
    with pytest.raises(InvalidParameterError, match="list, voxel"):
        nt.Seeds.in_mask(mask, GRID, 40, by="voxels")
    with pytest.raises(InvalidParameterError, match="list, voxel"):
        nt.Seeds.in_each_voxel(mask, GRID, 1, by="")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), n_rounds=st.integers(1, 5), rest=st.integers(0, 20))
def test_a_voxel_less_takes_its_own_seeds_and_a_few_of_the_last_round(
    seed: int, n_rounds: int, rest: int
) -> None:
    mask = a_mask(seed)
    inside = np.flatnonzero(mask)
    less = mask.copy()
    gone = int(inside[len(inside) // 2])
    less.flat[gone] = False
    n = n_rounds * len(inside) + rest
    before = as_set(nt.Seeds.in_mask(mask, GRID, n, random_seed=seed, by="voxel"))
    after = as_set(nt.Seeds.in_mask(less, GRID, n, random_seed=seed, by="voxel"))
    assert all(before[stream] == after[stream] for stream in before.keys() & after.keys())
    lost, won = before.keys() - after.keys(), after.keys() - before.keys()
    assert {stream % (mask.size | 1) for stream in lost} == {gone}
    assert len(lost) == len(won) <= n_rounds + 1
    each = nt.Seeds.in_each_voxel(mask, GRID, n_rounds, random_seed=seed, by="voxel")
    others = as_set(nt.Seeds.in_each_voxel(less, GRID, n_rounds, random_seed=seed, by="voxel"))
    assert others.items() < as_set(each).items()
    assert len(each) - len(others) == n_rounds


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), first=st.integers(0, 200), n=st.integers(1, 150))
def test_any_part_of_the_endless_list_is_the_same(seed: int, first: int, n: int) -> None:
    mask = a_mask(seed)
    whole = nt.Seeds.in_mask(mask, GRID, 400, random_seed=seed, by="voxel")
    for part in (
        whole[first : first + n],
        whole[:7].more(n, first) if whole[:7].can_go_on else whole.more(n, first),
        nt.Seeds.in_mask(mask, GRID, n, random_seed=seed, first=first, by="voxel"),
    ):
        assert np.array_equal(part.positions_mm, whole.positions_mm[first : first + n])
        assert part.streams is not None
        assert np.array_equal(part.streams, whole.streams[first : first + n])


def test_parts_keep_their_streams_and_others_their_numbers() -> None:
    ball = nt.Seeds.in_sphere((4, 4, 4), 2.0, 5)
    drawn = nt.Seeds.in_mask(a_mask(), GRID, 6, by="voxel")
    joined = nt.Seeds.concatenate([ball, drawn, ball])
    assert joined.streams is not None
    assert drawn.streams is not None
    assert joined.streams.tolist() == [*range(5), *drawn.streams.tolist(), *range(11, 16)]
    more = joined.more(20, 10)
    assert more.streams is not None
    wanted = [
        *joined.streams[10:].tolist(),
        *range(16, 21),
        *drawn.more(6, 16).streams[:6].tolist(),
    ]
    assert more.streams[:17].tolist() == wanted
    assert nt.Seeds.concatenate([ball, ball]).streams is None


def lines_of(tracked: nt.Tractogram, seeds: nt.Seeds) -> dict[int, bytes]:
    assert seeds.streams is not None
    streams = seeds.streams[tracked.seed_index].tolist()
    return dict(zip(streams, (line.tobytes() for line in tracked), strict=True))


@pytest.fixture(scope="module")
def fod() -> nt.Fod:
    return make_phantom("arcs", lmax=4)


PARAMETERS = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0, n_directions=256)


def test_the_streamlines_of_the_other_voxels_stay(fod: nt.Fod) -> None:
    """Bit by bit, on any number of threads; `seed_index` stays the number in the list."""
    mask = phantom_mask("arcs")
    less = mask.copy()
    less[tuple(np.argwhere(mask)[1234])] = False
    found = []
    for used, threads in ((mask, 1), (less, 2)):
        seeds = nt.Seeds.in_each_voxel(used, fod.grid, 1, random_seed=4, by="voxel")
        tracked = nt.track(fod, seeds, PARAMETERS, n_threads=threads)
        assert (np.diff(tracked.seed_index) > 0).all()
        assert tracked.seed_index.max() < len(seeds)
        found.append(lines_of(tracked, seeds))
    assert len(found[1]) > 1000
    assert found[1].items() <= found[0].items()
    assert len(found[0]) - len(found[1]) <= 1


def test_a_run_that_selects_ends_where_one_of_as_many_seeds_does(fod: nt.Fod) -> None:
    seeds = nt.Seeds.in_mask(phantom_mask("arcs"), fod.grid, 1, by="voxel")
    selected = nt.track(fod, seeds, PARAMETERS, select=1500)
    wanted = nt.track(fod, seeds.more(selected.n_seeds, 0), PARAMETERS)
    assert len(selected) == 1500
    assert selected.digest() == wanted.digest()
    assert selected.seed_index.tolist() == wanted.seed_index.tolist()


def test_vectors_follow_the_streams_too(fod: nt.Fod) -> None:
    peaks = np.zeros((*fod.grid.shape, 6), np.float32)
    peaks[..., 0], peaks[..., 4] = 1.0, 0.8
    crossing = nt.Fod.from_peaks(peaks, fod.grid.affine)
    mask = phantom_mask("arcs")
    less = mask.copy()
    less[tuple(np.argwhere(mask)[1234])] = False
    parameters = nt.TrackingParameters(step_mm=1.0, max_length_mm=60.0)
    found = []
    for used in (mask, less):
        seeds = nt.Seeds.in_each_voxel(used, fod.grid, 1, random_seed=4, by="voxel")
        found.append(lines_of(nt.track(crossing, seeds, parameters), seeds))
    assert len(found[1]) > 1000
    assert found[1].items() <= found[0].items()


def test_recipes_keep_the_law_and_those_of_the_list_their_format(
    tmp_path: Path, fod: nt.Fod
) -> None:
    volume = VolumeSource.of_array(phantom_mask("arcs"), fod.grid)
    source = FodSource(phantom="arcs", phantom_lmax=4)
    for kind, n in (("mask", 300), ("voxels", 1)):
        texts = {}
        for by in ("", "voxel"):
            seeds = (SeedSource(kind, n, 2, volume=volume, by=by),)
            made = nt.Recipe(source, seeds, PARAMETERS)
            made.save(tmp_path / "r.json")
            texts[by] = (tmp_path / "r.json").read_text()
            again = nt.Recipe.load(tmp_path / "r.json")
            assert again == made
            draw: Any = nt.Seeds.in_mask if kind == "mask" else nt.Seeds.in_each_voxel
            drawn = draw(phantom_mask("arcs"), fod.grid, n, random_seed=2, by=by or "list")
            wanted = nt.track(fod, drawn, PARAMETERS)
            assert again.run().digest() == wanted.digest()
        assert '"format_version": 7' in texts[""]
        assert '"format_version": 8' in texts["voxel"]
        assert '"by"' not in texts[""]
