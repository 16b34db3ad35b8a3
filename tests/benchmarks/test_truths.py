"""The battery of ground truths: what bundles fill, where seeds lie, and scores of drawn lines."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import shutil
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import nibabel as nib
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import binom

import napari_tractography as nt

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
DATA = FOLDER.parents[1] / "shared" / "data"


@pytest.fixture
def truths(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/truths.py as a module."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "truths", raising=False)
    module = importlib.import_module("truths")
    monkeypatch.setitem(module.HALVES, "A", ((0.0, 0.0, 0.0), 1))  # bundles as they are drawn
    return module


@pytest.fixture
def battery(monkeypatch: pytest.MonkeyPatch, truths: ModuleType) -> ModuleType:
    """benchmarks/truth.py as a module."""
    for name in ("truth", "measured_truths"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("truth")


def scored(truths: ModuleType, made, *corners: list) -> object:
    """The score of lines with straight pieces between points."""
    return truths.score(made, drawn(*corners))


def drawn(*corners: list, **columns: object) -> nt.Tractogram:
    """Lines with straight pieces between points."""
    lines = []
    for points in corners:
        pieces = [np.linspace(a, b, 81) for a, b in itertools.pairwise(points)]
        lines.append(np.concatenate(pieces))
    offsets = np.cumsum([0, *map(len, lines)])
    return nt.Tractogram(np.concatenate(lines), offsets, **columns)


def test_lines_join_the_ends_of_one_bundle_or_of_two_or_none(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing90"], 40)
    west, east, south, north = [-40, 0, 0], [40, 0, 0], [0, -40, 0], [0, 40, 0]
    found = scored(
        truths,
        made,
        [west, east],  # valid
        [[-39, 3, 0], [38, -3, 1]],  # valid
        [west, [0, 0, 0], north],  # invalid
        [west, [-20, 0, 0], [-41, 1, 0]],  # invalid: back to where it came from
        [west, [30, 0, 0]],  # ends before
        [[-40, 7, 0], east],  # begins beside
        [south, [0, 0, 0]],
    )
    assert (found.n_streamlines, found.valid, found.invalid) == (7, 2, 2)
    assert found.valid_share == pytest.approx(2 / 7)
    assert (found.valid_of_seeds, found.met) == (2 / 40, 0)


def test_overlap_is_of_voxels_that_valid_lines_visit(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing90"], 40)
    assert scored(truths, made, [[-40, 0, 0], [0, 0, 0], [0, 40, 0]]).overlap == 0.0
    one = scored(truths, made, [[-40, 0, 0], [40, 0, 0]])
    n_voxels = (made.filled.max(axis=0) >= 0.5).sum()
    assert one.overlap == pytest.approx(40 / n_voxels, abs=2 / n_voxels)
    outside = scored(truths, made, [[-40, 0, 0], [-20, 20, 0], [40, 0, 0]])
    assert outside.overreach > 5 / n_voxels > one.overreach


def test_bundles_that_share_an_end_are_joined_there(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["fanning"], 40)
    assert len(made.ends) == 4
    root, left, right = (made.ends[k].centre for k in (1, 0, 3))
    assert scored(truths, made, [root, left], [root, right]).valid == 2
    assert scored(truths, made, [left, right]).invalid == 1


def test_a_lesion_lets_three_fifths_of_the_section_pass(truths: ModuleType) -> None:
    truth = truths.synthetic()["lesion"]
    made = truths.make(truth, 60)
    x = made.fod.grid.to_mm(np.indices(made.fod.grid.shape).reshape(3, -1).T)[:, 0]
    filled = made.filled.reshape(-1)
    cut, whole = (filled[np.abs(x - at) < 1.01].sum() for at in (0.0, 20.0))
    assert cut / whole == pytest.approx(0.6, abs=0.03)
    assert made.seeds_mm[:, 0].max() < -19.0
    found = scored(
        truths,
        made,
        [[-40, 0, 0], [40, 0, 0]],
        [[-40, 4, 0], [-4, 4, 0]],  # ends at the lesion
        [[-40, 4, 0], [-30, 4, 0]],  # does not come to it
    )
    assert (found.passed, found.met) == (1, 2)
    past = truths.CUT_MM  # of the section, what is on this side of it stays
    assert found.open_ways == (made.seeds_mm[:, 1] <= past).sum()
    assert 0.4 < found.open_share < 0.8


def test_seeds_lie_in_bundles_each_of_which_has_as_many(truths: ModuleType) -> None:
    truth = truths.synthetic()["kissing90"]
    made = truths.make(truth, 101)
    held = [bundle.holds(made.seeds_mm, 0.5) for bundle in truth.bundles]
    assert held[0][:51].all()
    assert held[1][51:].all()
    assert len(held[0]) == 101
    assert sum(inside.sum() for inside in held) < 110  # where they touch a seed may be in both
    other = truths.make(truths.synthetic()["kissing90"], 101, "B")
    assert other.fod.grid.shape != made.fod.grid.shape


def test_lobes_point_along_the_bundles(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing60"], 10)
    angle = np.deg2rad(60)
    along = [[1, 0, 0], [np.cos(angle), np.sin(angle), 0], [0, 1, 0], [0, 0, 1]]
    at = tuple(np.rint(made.fod.grid.to_voxel([[0.0, 0.0, 0.0]])).astype(int)[0])
    amplitudes = made.fod.amplitudes(np.array(along))[at]
    assert amplitudes[:2].min() > 0.35 > 0.2 > amplitudes[3]


@pytest.mark.filterwarnings("ignore:The legacy descoteaux07:PendingDeprecationWarning")  # DIPY's
def test_other_kinds_and_repeats_have_other_noise_and_seeds(truths: ModuleType) -> None:
    truth = replace(truths.synthetic()["arc"], voxel_mm=3.0)
    assert truth.kinds == ("exact", "csd20", "csd30", "tod")
    pairs = [("exact", 0), ("csd20", 0), ("csd30", 0), ("exact", 1), ("exact", 0)]
    made = [truth.make(20, "A", kind, repeat=repeat) for kind, repeat in pairs]
    assert [one.name for one in made[:3]] == ["arc, exact", "arc, csd20", "arc, csd30"]
    different = {one.fod.coefficients.tobytes() for one in made}
    assert len(different) == 4  # the last is as the first
    assert not np.array_equal(made[0].seeds_mm, made[3].seeds_mm)


def test_true_streamlines_stay_in_their_bundle_and_out_of_the_lesion(truths: ModuleType) -> None:
    for name in ("arc", "lesion"):
        truth = truths.synthetic()[name]
        bundle = truth.bundles[0]
        lines = truths.true_streamlines(truth, 50, np.random.default_rng(1))
        n_cut = 50 - sum(len(line) == len(bundle.curve) for line in lines)
        assert (n_cut > 0) == (name == "lesion")
        assert len(lines) == 50 + n_cut
        apart = np.concatenate([bundle.nearest(line)[0] for line in lines])
        assert apart.max() <= bundle.radius_mm + 1e-6
        assert apart.max() > 0.9 * bundle.radius_mm
        if truth.lesion is not None:
            assert not truth.lesion(np.concatenate(lines)).any()


def test_a_tangle_has_ends_on_a_sphere_and_no_sharp_bends(truths: ModuleType) -> None:
    bundles = truths.tangle(7, n=5, reach_mm=25.0)
    assert len(bundles) == 5
    tips = np.array([b.curve[at] for b in bundles for at in (0, -1)])
    radii = np.repeat([b.radius_mm for b in bundles], 2)
    np.testing.assert_allclose(np.linalg.norm(tips, axis=1), 25.0, atol=1e-9)
    apart = np.linalg.norm(tips[:, None] - tips, axis=2) - radii[:, None] - radii
    assert apart[~np.eye(10, dtype=bool)].min() >= truths.VOXEL_MM
    for bundle in bundles:
        steps = np.diff(bundle.curve[1:-1:8], axis=0)
        steps /= np.linalg.norm(steps, axis=1, keepdims=True)
        turns = np.arccos(np.einsum("ij,ij->i", steps[:-1], steps[1:]))
        assert turns.max() * 9.0 <= 8 * truths.SPACING_MM * 1.02
    again = truths.tangle(7, n=5, reach_mm=25.0)
    np.testing.assert_array_equal(again[4].curve, bundles[4].curve)


def test_true_streamlines_of_a_tangle_join_their_ends(truths: ModuleType) -> None:
    truth = truths.Truth("tangle", truths.tangle(7, n=5, reach_mm=25.0))
    made = truth.make(20)
    lines = truths.true_streamlines(truth, 10, np.random.default_rng(0))
    offsets = np.cumsum([0, *map(len, lines)])
    score = truths.score(made, nt.Tractogram(np.concatenate(lines).astype(np.float32), offsets))
    assert (score.valid, score.invalid) == (50, 0)


@pytest.mark.skipif(shutil.which("tckmap") is None, reason="MRtrix3's tckmap is not installed")
def test_a_track_orientation_density_points_along_the_bundles(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing60"], 10, kind="tod")
    turn = Rotation.from_euler("xyz", truths.HALVES["A"][0], degrees=True)
    angle = np.deg2rad(60)
    along = turn.apply([[1, 0, 0], [np.cos(angle), np.sin(angle), 0], [0, 1, 0], [0, 0, 1]])
    at = tuple(np.rint(made.fod.grid.to_voxel([[0.0, 0.0, 0.0]])).astype(int)[0])
    amplitudes = made.fod.amplitudes(along)[at]
    assert amplitudes[:2].min() > 1.5 * amplitudes[2] > 10 * amplitudes[3]


def test_repeats_are_pooled(truths: ModuleType) -> None:
    one = truths.Score(50, 40, 10, 2, 0.5, 0.1)
    found = truths.pooled([one, truths.Score(50, 40, 14, 4, 0.7, 0.1)])
    assert (found.n_seeds, found.n_streamlines, found.valid, found.invalid) == (100, 80, 24, 6)
    assert found.overlap == pytest.approx(0.6)
    assert found.spread == pytest.approx(0.05)  # shares of 25 and 35 %: half their difference
    assert found.overlap_spread == pytest.approx(0.1)
    assert math.isnan(truths.pooled([one]).spread)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [27, 120])
def test_a_share_is_mostly_within_two_errors_of_what_is_counted(
    truths: ModuleType, n: int, share: float
) -> None:
    """Also where all are counted, as happens every fourth time of 27 at 95 %."""
    counts = range(n + 1)
    covered = [abs(k / n - share) <= 2 * truths.binomial_error(k, n) for k in counts]
    assert binom.pmf(counts, n, share)[covered].sum() > 0.9


def test_a_valid_line_may_have_to_stay_in_its_bundle(truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["crossing90"], 40)
    detour = [[-40, 0, 0], [-20, 20, 0], [40, 0, 0]]
    assert scored(truths, made, detour).valid == 1
    strict = replace(made, least_inside=0.9, tells_invalid=False)
    assert scored(truths, strict, detour).valid == 0
    found = scored(truths, strict, [[-40, 0, 0], [40, 0, 0]])
    assert found.valid == 1
    assert math.isnan(found.invalid_share)


def test_where_lost_ends_lie(truths: ModuleType) -> None:
    """In one bundle of two that cross, from x = -40 to 40 and y = -40 to 40."""
    made = truths.make(truths.synthetic()["crossing90"], 40)
    tips = [
        [40.1, 0.5, 0.5],  # at its end
        [20.1, 0.5, 0.5],
        [20.1, 3.1, 0.5],  # in the last voxel
        [20.1, 5.5, 0.5],  # in a voxel that the bundle fills by less than half, and beyond it
        [0.5, 20.1, 0.5],  # in the other
        [43.5, 0.5, 0.5],
    ]
    lines = drawn(
        *([[-10, 0, 0], tip] for tip in tips),
        seed_index=[0] * len(tips),
        stop_reasons=[[0, 3 + k] for k in range(len(tips))],
    )
    found = truths.Lost.of(made, lines)
    last = found.reasons > 0
    places = dict(zip(found.reasons[last].tolist(), found.places[last].tolist(), strict=True))
    assert [truths.PLACES[places[reason]] for reason in (4, 5, 6, 7, 8)] == [
        "in its bundle",
        "in its bundle, at the FOD's edge",
        "beside it, at the FOD's edge",
        "in another bundle",
        "past its end",
    ]
    assert 3 not in places
    assert found.n_ends == 12


def test_where_tckgen_is_ahead_is_said(battery: ModuleType, truths: ModuleType) -> None:
    def score(valid: int, invalid: int, overlap: float, n: int = 100) -> object:
        return truths.Score(100, n, valid, invalid, overlap, 0.0)

    ours = battery.DEFAULT
    rows = {ours: score(60, 5, 0.8), "tckgen a": score(50, 5, 0.9), "tckgen b": score(20, 6, 0.1)}
    said = f"most valid: {ours}. tckgen is ahead of {ours} in overlap (a by 10.0)."
    assert battery.verdict(rows) == said
    rows["another"] = score(70, 5, 0.95)
    rows["tckgen c"] = score(25, 0, 0.5, n=40)
    text = battery.verdict(rows)
    assert (
        "in valid of streamlines (c by 2.5 ± 8.8, within two errors; another is not behind), "
        in text
    )
    assert text.endswith("overlap (a by 10.0; another is not behind).")
    assert battery.verdict({k: rows[k] for k in (ours, "tckgen b")}).endswith("in nothing.")
    assert battery.verdict({ours: rows[ours]}) == f"most valid: {ours}."


def test_what_a_lesion_leaves_is_best_where_as_many_pass_as_have_an_open_way(
    battery: ModuleType, truths: ModuleType
) -> None:
    few, right, all_pass = (truths.Score(10, 10, 5, 0, 0.5, 0.0, n, 10, 6) for n in (4, 6, 10))
    for own in (few, all_pass):
        assert "what a lesion leaves" in battery.ahead({battery.DEFAULT: own, "tckgen a": right})
    assert not battery.ahead({battery.DEFAULT: right, "tckgen a": all_pass})


def test_tables_have_a_row_for_each_contestant(battery: ModuleType, truths: ModuleType) -> None:
    one = truths.Score(80, 40, 20, 2, 0.5, 0.1)
    unsure = replace(one, spread=0.031, tells_invalid=False)
    found = [
        battery.Found("cup", "scan", {"a": one, battery.DEFAULT: unsure}, {}, None),
        battery.Found("arc", "exact", {"a": one}, {}, None),
    ]
    text = battery.table("cup", {"scan": found[0].scores, "again": found[1].scores})
    assert "| a | 50.0 ± 7.5 / 25 / 5 / 50 / 10 | 50.0 ± 7.5 / 25 / 5 / 50 / 10 |" in text
    assert f"| **{battery.DEFAULT}** | 50.0 ± 7.5 (± 3.1) / 25 / – / 50 / 10 |  |" in text
    assert "| mean | 50 / 25 / 5 / 50 | 50 / 25 / – / 50 |" in battery.summary(found)
    assert "| a | 50 / 25 / 5 / 50 | 2 |" in battery.means_table(found)


def test_the_page_says_where_tckgen_is_ahead(battery: ModuleType, truths: ModuleType) -> None:
    worse, better = (truths.Score(80, 80, n, 0, 0.5, 0.1) for n in (20, 60))
    scores = {battery.DEFAULT: worse, "tckgen a": better}
    options = Namespace(seeds=80, repeats=2)
    text = battery.page([battery.Found("cup", "scan", scores, {}, None)], "a command", options)
    assert "Written by `a command` on " in text
    assert "80 a truth in each of 2 repeats with other noise (5 times" in text
    assert "| cup, scan | a by 50.0 ± 6.8 | a by 50.0 ± 6.8 |  |  |  |" in text
    text = battery.page([battery.Found("cup", "scan", {"a": worse}, {}, None)], "", options)
    assert "Nowhere." in text


def test_tckgen_sits_out_where_it_was_not_tuned(battery: ModuleType, truths: ModuleType) -> None:
    made = truths.make(truths.synthetic()["arc"], 10)
    assert battery.tuned("iFOD1", {"tee, csd20": {"iFOD1": {}}})(made) is None
    known = json.loads(battery.TUNED.read_text("utf-8"))
    assert {f"{name}, csd20" for name in truths.synthetic()} <= known.keys()
    assert all(own.keys() == battery.TUNING.keys() for own in known.values())
    for own in known.values():
        for algorithm, settings in own.items():
            for option, value in settings.items():
                assert value in battery.TUNING[algorithm][option]


def test_settings_are_in_voxels(battery: ModuleType, truths: ModuleType) -> None:
    fod = truths.make(truths.synthetic()["arc"], 10).fod
    settings = {"algorithm": "transport", "look_ahead_voxels": 0.5, "gamma_voxels": 1.0}
    parameters = battery.parameters_of(fod, settings)
    assert parameters.look_ahead_mm == pytest.approx(1.0)
    assert parameters.gamma == pytest.approx(0.5)
    assert parameters.min_length_mm == 0.0


def test_the_battery_tracks_and_tells_why_lines_are_lost(
    battery: ModuleType, truths: ModuleType, tmp_path: Path
) -> None:
    rows = {"ours": battery.ours({}), "ahead": battery.ours({"algorithm": "transport"})}
    rows["absent"] = lambda made: None
    arc = truths.synthetic()["arc"]
    found = battery.measure("arc", arc, "exact", rows, n_seeds=30, repeats=2)
    ours, ahead = found.scores["ours"], found.scores["ahead"]
    assert found.scores.keys() == {"ours", "ahead"}
    assert ours.n_seeds == 60
    assert ahead.valid > ours.valid > 5
    text = battery.lost_table(found)
    all_lost = int(text.split("| ours: all |")[1].split("(")[1].split(")")[0])
    assert 0 < all_lost <= 2 * (ours.n_streamlines - ours.valid)
    maps = battery.write_maps(found, tmp_path / "maps")
    of_ours = [path for path in maps if path.name.startswith("arc-exact-ours-")]
    assert sum(int(np.sum(nib.load(path).dataobj)) for path in of_ours) == all_lost


def test_scores_of_others_are_kept_for_the_same_run(
    battery: ModuleType, truths: ModuleType, tmp_path: Path
) -> None:
    options = Namespace(peers=tmp_path / "p.json", half="B", seeds=9, repeats=1, at_ends=False)
    one = truths.Score(9, 8, 7, 1, 0.5, 0.1)
    assert battery.kept_scores(options.peers) == {}
    for label in ("tckgen a", "DIPY b", "ours"):
        battery.keep(options, battery.Found("arc", "exact", {label: one}, {}, None))
    (kept,) = battery.kept_scores(options.peers).values()
    assert kept.keys() == {"tckgen a", "DIPY b"}
    known = {label: truths.Score(**values) for label, values in kept.items()}
    rows = {"ours": battery.ours({}), "tckgen a": pytest.fail}
    arc = truths.synthetic()["arc"]
    found = battery.measure("arc", arc, "exact", rows, n_seeds=9, known=known)
    assert list(found.scores) == ["ours", "tckgen a"]
    known_spread = {"spread": 0.0, "overlap_spread": 0.0}  # else not numbers, which are not equal
    assert replace(found.scores["tckgen a"], **known_spread) == replace(one, **known_spread)
    options.seeds = 10
    key = battery.peers_key(options, "arc", "exact")
    assert key not in battery.kept_scores(options.peers)


@pytest.mark.skipif(not DATA.is_dir(), reason="no data folder beside the checkout")
@pytest.mark.parametrize("name", ["yoga", "fibercup", "subject"])
def test_truths_of_the_data_folder_have_seeds_in_their_bundles(
    name: str, battery: ModuleType, truths: ModuleType
) -> None:
    truth = battery.find([name], DATA)[name]
    made = [truth.make(40, half, truth.kinds[-1]) for half in "AB"]
    own = made[0].seeds_mm[made[0].bundle_of == made[0].bundle_of[0]]
    where, inside = made[0].voxels(own)
    assert inside.all()
    assert (made[0].filled[made[0].bundle_of[0]][where] > 0).mean() > 0.8
    assert len(made[0].seeds_mm) >= 40
    assert not np.array_equal(made[0].seeds_mm[:5], made[1].seeds_mm[:5])
    for k, pair in enumerate(made[0].ends_of):  # bundles reach their ends
        centres = made[0].fod.grid.to_mm(np.argwhere(made[0].filled[k] > 0))
        assert all(made[0].ends[end].holds(centres).any() for end in pair)


@pytest.mark.parametrize("algorithm", ["transport", "probabilistic"])
def test_ends_of_bundles_that_cross_at_a_small_angle_are_joined(
    algorithm: str, battery: ModuleType, truths: ModuleType
) -> None:
    """At 30 degrees they are one lobe, whose top leads from one to the other."""
    made = truths.make(truths.synthetic()["crossing30"], 100)
    side, top = (
        truths.score(made, battery.ours({"algorithm": algorithm, **more})(made))
        for more in ({}, {"min_roundness": 0.0})
    )
    assert side.n_streamlines > 90
    assert side.valid_share > 0.6
    assert side.invalid_share < 0.2
    assert top.valid_share < 0.3
    assert top.invalid_share > 0.5
