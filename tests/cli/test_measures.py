"""The commands `measure`, `profile` and `visitation`, and the plots."""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections.abc import Callable
from pathlib import Path

import imageio.v3 as imageio
import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.files.volume_files import save_volume
from napari_tractography.maps.scalar_maps import ScalarMap
from napari_tractography.maps.spreadsheets import measures_table, profiles_table, sweep_table

Track = Callable[..., int]


@pytest.fixture
def bundles(folder: Path, track: Track, drawing: nt.Fod) -> None:
    """CST_left.tck, and CST_right.tck with its longer half, and fa.nii.gz."""
    assert track() == 0
    whole = nt.load_tractogram("b.tck")
    whole.save("CST_left.tck")
    whole[whole.lengths_mm > np.median(whole.lengths_mm)].save("CST_right.tck")
    values = np.random.default_rng(0).random(drawing.grid.shape, np.float32)
    save_volume(values, drawing.grid, "fa.nii.gz")


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_measure(bundles: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["measure", "CST_left.tck", "CST_right.tck", "--scalar", "fa.nii.gz"]
    assert main([*words, "-o", "t.csv", "--asymmetry", "a.csv"]) == 0
    fa = ScalarMap.load("fa.nii.gz")
    found = [
        nt.measure(nt.load_tractogram(f"{name}.tck"), [fa], name=name)
        for name in ("CST_left", "CST_right")
    ]
    assert Path("t.csv").read_text("utf-8") == measures_table(found).text()
    left, right = read("t.csv")
    assert left["bundle"] == "CST_left"
    assert int(left["n_streamlines"]) == len(nt.load_tractogram("CST_left.tck"))
    assert 0 < float(left["fa_mean"]) < 1
    (pair,) = read("a.csv")
    one, other = float(left["volume_mm3"]), float(right["volume_mm3"])
    assert float(pair["volume_mm3"]) == pytest.approx((one - other) / (one + other), rel=1e-4)
    told = capsys.readouterr().out
    assert "CST_left - CST_right" in told
    assert "voxels of" in told
    assert "t.csv, a.csv" in told


def test_bundles_are_named_without_their_whole_ending(bundles: None) -> None:
    Path("CST_left.tck.gz").write_bytes(gzip.compress(Path("CST_left.tck").read_bytes()))
    words = ["measure", "CST_left.tck.gz", "CST_right.tck", "-o", "t.csv"]
    assert main([*words, "--asymmetry", "a.csv"]) == 0
    assert [row["bundle"] for row in read("t.csv")] == ["CST_left", "CST_right"]


def test_measure_on_a_template(bundles: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", "b.tck", "--template", "fa.nii.gz", "-o", "t.csv"]) == 0
    grid = ScalarMap.load("fa.nii.gz").grid
    passed = nt.density(nt.load_tractogram("b.tck"), grid) > 0
    volume = passed.sum() * np.prod(grid.voxel_sizes_mm)
    assert float(read("t.csv")[0]["volume_mm3"]) == pytest.approx(volume)


def test_profile(bundles: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["profile", "CST_left.tck", "CST_right.tck", "fa.nii.gz", "-o", "p.csv", "-n", "20"]
    assert main(words) == 0
    found = [
        nt.profile(nt.load_tractogram(f"{name}.tck"), "fa.nii.gz", 20, name=name)
        for name in ("CST_left", "CST_right")
    ]
    assert Path("p.csv").read_text("utf-8") == profiles_table(found).text()
    assert len(read("p.csv")) == 40
    assert "20 places from" in capsys.readouterr().out


def test_plots(bundles: None) -> None:
    pytest.importorskip("matplotlib", reason="no Matplotlib to draw with")
    words = ["profile", "CST_left.tck", "CST_right.tck", "fa.nii.gz", "-o", "p.csv"]
    assert main([*words, "--plot", "p.png"]) == 0
    assert imageio.imread("p.png").std() > 5
    assert main([*words, "--plot", "p.svg"]) == 0
    drawn = Path("p.svg").read_text("utf-8")
    bands = re.findall(r'<g id="(?:FillBetween)?PolyCollection', drawn)  # called so from 3.10 on
    assert len(bands) == 2
    assert main(["connectome", "b.tck", "labels.nii.gz", "-o", "c.csv", "--plot", "c.png"]) == 0
    assert imageio.imread("c.png").std() > 5


def test_a_map_without_a_value_on_the_way_is_told(
    bundles: None, drawing: nt.Fod, caplog: pytest.LogCaptureFixture
) -> None:
    away = np.eye(4)
    away[:3, 3] = 500.0
    nib.save(nib.Nifti1Image(np.ones((4, 4, 4), np.float32), away), "away.nii.gz")
    save_volume(np.full(drawing.grid.shape, np.inf, np.float32), drawing.grid, "ratio.nii.gz")
    assert main(["profile", "b.tck", "away.nii.gz", "-o", "p.csv"]) == 0
    assert "No streamline of b has a value in away; check" in caplog.text
    caplog.clear()
    words = ["measure", "b.tck", "--scalar", "away.nii.gz", "--scalar", "ratio.nii.gz"]
    assert main(words) == 0
    told = caplog.text
    assert "No streamline of b passes the voxels that volume and surface are of; check" in told
    assert "b has a value in away; " in told
    assert "b has a value in ratio; " in told
    caplog.clear()
    assert main([*words[:2], "--scalar", "fa.nii.gz"]) == 0
    assert not caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="names are text on other disks")
def test_names_may_be_of_any_bytes(bundles: None, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="no Matplotlib to draw with")
    bundle, scalar = "b\udcff$\\a$.tck", "fa\udcff.nii.gz"  # as Python has 0xff, which is no UTF-8
    Path("CST_left.tck").rename(bundle)
    Path("fa.nii.gz").rename(scalar)
    words = ["profile", bundle, scalar, "-o", "\udcff.csv"]
    assert main([*words, "--plot", "p.svg"]) == 0
    assert b"fa\xff," in Path("\udcff.csv").read_bytes()
    assert "p.svg" in capsys.readouterr().out
    assert main(["measure", bundle, "--scalar", scalar, "-o", "t.csv"]) == 0
    assert b"fa\xff_mean" in Path("t.csv").read_bytes()
    assert r"fa\udcff_mean" in capsys.readouterr().out


def test_without_matplotlib_a_sentence_says_so_before_the_work(
    bundles: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    words = ["profile", "CST_left.tck", "fa.nii.gz", "-o", "p.csv"]
    assert main([*words, "--plot", "p.png"]) == 2
    assert 'pip install "napari-tractography[plots]"' in capsys.readouterr().err
    assert not Path("p.csv").exists()
    assert main(words) == 0


def test_visitation(bundles: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["visitation", "b.tck", "--template", "fa.nii.gz", "-o", "v.nii.gz"]
    point = ",".join(map(str, nt.load_tractogram("b.tck").points[0]))
    more = ["--error", "e.nii.gz", "--enough", "0.001", f"--at={point}"]
    assert main([*words, *more]) == 0
    fod = nt.load_fod("fod.nii.gz")
    wanted = nt.visitation(nt.load_tractogram("b.tck"), fod)
    shown = nib.load("v.nii.gz")
    assert np.array_equal(shown.get_fdata(), wanted.probability.astype(np.float32))
    assert np.array_equal(
        nib.load("e.nii.gz").get_fdata(), wanted.standard_error.astype(np.float32)
    )
    assert np.allclose(shown.affine, fod.grid.affine)
    told = capsys.readouterr().out
    assert "streamlines: 0." in told or "streamlines: 1" in told
    assert "more streamlines" in told


def test_mask_of_a_bundle(bundles: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["density", "b.tck", "--template", "fa.nii.gz", "-o", "m.nii.gz", "--at-least", "3"]
    assert main(words) == 0
    fod = nt.load_fod("fod.nii.gz")
    wanted = nt.density(nt.load_tractogram("b.tck"), fod) >= 3
    assert np.array_equal(np.asarray(nib.load("m.nii.gz").dataobj), wanted)
    assert f"in {wanted.sum()} voxels" in capsys.readouterr().out


def test_mask_of_a_bundle_by_a_sum_of_weights(
    bundles: None, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, fod = nt.load_tractogram("b.tck"), nt.load_fod("fod.nii.gz")
    weights = np.linspace(0, 0.25, len(whole))
    np.savetxt("w.txt", weights)
    words = ["density", "b.tck", "--template", "fa.nii.gz", "-o", "m.nii.gz", "--weights", "w.txt"]
    assert main([*words, "--at-least", "0.4"]) == 0
    wanted = nt.density(whole, fod, weights=weights.astype(np.float32)) >= 0.4
    assert 0 < wanted.sum() < wanted.size
    assert np.array_equal(np.asarray(nib.load("m.nii.gz").dataobj), wanted)
    for impossible in ("0", "nan", "inf"):
        assert main([*words, "--at-least", impossible]) == 2
        assert "is no sum of weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(["measure", "no.tck"], "no.tck does not exist", id="missing"),
        pytest.param(["measure", "b.tck", "b.tck"], "given twice", id="twice"),
        pytest.param(
            ["measure", "b.tck", "--asymmetry", "a.csv"], "left and a right", id="no pair"
        ),
        pytest.param(["profile", "b.tck", "fa.nii.gz", "-o", "p.csv", "-n", "1"], "n = 1", id="n"),
        pytest.param(
            ["profile", "b.tck", "fa.nii.gz", "-o", "p.csv", "--plot", "p.jpeg"],
            "plot",
            id="plot",
        ),
        pytest.param(
            ["visitation", "b.tck", "--template", "fa.nii.gz", "-o", "v.nii", "--at", "1,2"],
            "--at 1,2",
            id="point",
        ),
        pytest.param(
            ["density", "b.tck", "--template", "fa.nii.gz", "-o", "v.nii", "--at-least", "0"],
            "--at-least 0",
            id="mask",
        ),
        pytest.param(
            ["density", "b.tck", "--template", "fa.nii.gz", "-o", "v.nii", "--at-least", "2.5"],
            "--at-least 2.5 is no number of streamlines; give 1 or more, whole, or --weights",
            id="half a streamline",
        ),
    ],
)
def test_mistakes_end_with_one_line(
    bundles: None, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(words) == 2
    told = capsys.readouterr()
    assert reason in told.err or "Matplotlib" in told.err
    assert told.err.count("\n") == 1
    assert not list(Path().glob("*.csv"))


def test_resect(bundles: None, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = (nt.load_tractogram(f"CST_{side}.tck") for side in ("left", "right"))
    at = left.points[len(left.points) // 2].tolist()
    sphere = ",".join(f"{x:.2f}" for x in (*at, 1.5))
    np.savetxt("w.txt", np.linspace(1, 2, len(left)))
    np.savetxt("v.txt", np.linspace(1, 2, len(right)))
    words = ["resect", "CST_left.tck", "CST_right.tck", f"--cavity={sphere}", "-o", "t.csv"]
    assert main([*words, "--weights", "w.txt", "--weights", "v.txt"]) == 0
    region = nt.Region.sphere([round(x, 2) for x in at], 1.5, "resect")
    weighted = left.with_weights(np.loadtxt("w.txt"))
    found = nt.resection(weighted, region, name="CST_left")
    row, _ = read("t.csv")
    assert 0 < found.n_lost < len(left)
    assert int(row["n_lost"]) == found.n_lost
    assert float(row["share_lost_error"]) == pytest.approx(found.standard_error, rel=1e-5)
    assert float(row["weight_lost"]) == pytest.approx(found.weight_lost, rel=1e-5)
    told = capsys.readouterr().out
    assert f"CST_left {found.text}" in told
    assert "Research only" in told


def test_resect_writes_the_map_of_one_bundle(
    bundles: None, drawing: nt.Fod, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["resect", "b.tck", "--cavity", "labels.nii.gz:4", "--cavity=0,0,0,2"]
    more = ["--map", "m.nii.gz", "--template", "fa.nii.gz"]
    assert main([*words, *more]) == 0
    labels = np.asarray(nib.load("labels.nii.gz").dataobj) == 4
    cavity = [
        nt.Region.mask(labels, drawing.grid, "resect"),
        nt.Region.sphere([0, 0, 0], 2, "resect"),
    ]
    wanted = nt.margin_map("b.tck", cavity, drawing.grid)
    np.testing.assert_array_equal(nib.load("m.nii.gz").get_fdata(), wanted)
    for wrong, why in (
        (["CST_left.tck", *more], "of one bundle"),
        (["--map", "m.nii.gz"], "--template"),
        (["--template", "fa.nii.gz"], "--template fa.nii.gz has no effect without --map"),
        (["CST_left.tck", "CST_right.tck", "--weights", "a", "--weights", "b"], "given 2 times"),
    ):
        assert main([*words[:2], *wrong, *words[2:]]) == 2
        assert why in capsys.readouterr().err


def test_track_keeps_a_cavity_and_the_streamlines(folder: Path, track: Track) -> None:
    assert track() == 0
    before = nt.load_tractogram("b.tck").digest()
    assert track("--resect=0,0,0,5", "--resect", "labels.nii.gz:4") == 0
    assert nt.load_tractogram("b.tck").digest() == before
    recipe = nt.Recipe.load("b.json")
    assert [region.role for region in recipe.regions] == ["resect", "resect"]
    assert recipe.run().digest() == recipe.digest


def test_sweep(folder: Path, track: Track, capsys: pytest.CaptureFixture[str]) -> None:
    assert track() == 0
    words = ["sweep", "b.json", "--vary", "max-angle=10:40:2", "--include=0,0,0,30"]
    assert main([*words, "-o", "t.csv", "--plot", "p.svg"]) == 0
    told = capsys.readouterr().out
    inputs = nt.Recipe.load("b.json").inputs()
    wanted = nt.sweep(
        inputs.fod,
        inputs.seeds,
        inputs.parameters,
        name="max_angle_deg",
        values=[10, 40],
        valid=[nt.Region.sphere([0, 0, 0], 30, "include")],
    )
    assert Path("t.csv").read_text("utf-8") == sweep_table(wanted).text()
    assert wanted.text in told
    assert "max_angle_deg = 10: " in told
    assert "<svg" in Path("p.svg").read_text("utf-8")
    assert len(read("t.csv")) == 3
    for vary, why in (
        ("max_angle_deg", "says no values"),
        ("max_angle_deg=1:2", "says no values"),
        ("max_angle_deg=1:inf:3", "says no values"),
        ("interpolation=1,2", "no parameter that can be swept"),
        ("step=-1", "out of range"),
        ("step=1:2:0", "no value of step_mm besides the chosen one"),
        ("step=1", "no value of step_mm besides the chosen one"),
    ):
        assert main(["sweep", "b.json", "--vary", vary, "-o", "t.csv"]) == 2
        assert why in capsys.readouterr().err
