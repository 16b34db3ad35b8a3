"""`--warp`: seeds and regions of a template, streamlines in either space, and made again."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.files.volume_files import load_grid, save_volume

RUN = ("--n-seeds", "60", "--n-directions", "256", "--step", "1", "--quiet")
SHIFT = np.array([20.0, -10.0, 5.0])


def to_template(points: np.ndarray) -> np.ndarray:
    x, y, z = np.moveaxis(points, -1, 0)
    return np.stack([x, y + np.sin(x / 6), z], axis=-1) + SHIFT


def from_template(points: np.ndarray) -> np.ndarray:
    x, y, z = np.moveaxis(points - SHIFT, -1, 0)
    return np.stack([x, y - np.sin(x / 6), z], axis=-1)


def write(path: str | Path, grid: nt.Grid, values: np.ndarray) -> None:
    nib.save(nib.Nifti1Image(np.asarray(values, np.float32), grid.affine), path)


@pytest.fixture(scope="module")
def warped(written: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nt.Grid]:
    """A folder with the files of `template`, which take a while to compress, and its grid."""
    place = tmp_path_factory.mktemp("warped")
    own = load_grid(written / "fod.nii.gz")
    at = own.to_mm(np.moveaxis(np.indices(own.shape), 0, -1))
    write(place / "warp.nii.gz", own, to_template(at))
    low, high = own.bounds_mm()
    shape = np.ceil(high - low).astype(int) + 8
    affine = np.eye(4)
    affine[:3, 3] = low + SHIFT - 3.5
    grid = nt.Grid(shape, affine)
    there = grid.to_mm(np.moveaxis(np.indices(grid.shape), 0, -1))
    write(place / "back.nii.gz", grid, from_template(there))
    save_volume(np.ones(grid.shape, np.uint8), grid, place / "template.nii.gz")
    subject = nib.load(written / "mask.nii.gz").get_fdata() > 0
    voxels = own.nearest_voxels(from_template(there))
    inside = own.contains(from_template(there)) & subject[tuple(np.moveaxis(voxels, -1, 0))]
    save_volume(inside.astype(np.uint8), grid, place / "seeds.nii.gz")
    return place, grid


@pytest.fixture
def template(folder: Path, warped: tuple[Path, nt.Grid]) -> nt.Grid:
    """In the folder warp.nii.gz from subject to template, back.nii.gz, template.nii.gz, seeds."""
    shutil.copytree(warped[0], folder, dirs_exist_ok=True)
    return warped[1]


def track(out: str, *words: str) -> int:
    return main(["track", "fod.nii.gz", "-o", out, *RUN, *words])


def test_seeds_of_a_template(template: nt.Grid) -> None:
    """Those in the subject's own mask and those in the template's start in the same voxels."""
    assert track("s.tck", "--seed-mask", "seeds.nii.gz", "--warp", "warp.nii.gz") == 0
    lines = nt.load_tractogram("s.tck")
    assert len(lines) > 20
    own = load_grid("fod.nii.gz")
    assert own.contains(lines.points).mean() > 0.99
    recipe = json.loads(Path("s.json").read_text())
    assert recipe["format_version"] == 8
    assert recipe["warp"]["files"][0]["path"].endswith("warp.nii.gz")
    assert len(recipe["warp"]["files"][0]["sha256"]) == 64
    assert recipe["seeds"][0]["volume"]["path"].endswith("seeds.nii.gz")
    assert len(recipe["seeds"][0]["volume"]["sha256"]) == 64


def test_a_sphere_and_regions_are_where_they_were_in_the_subject(template: nt.Grid) -> None:
    """The file of the other way, inverted, is the same warp, but for its own grid."""
    own = load_grid("fod.nii.gz")
    inside = np.argwhere(nib.load("mask.nii.gz").get_fdata() > 0)
    centre = own.to_mm(inside[len(inside) // 3])
    here = [",".join(map(str, [*centre + move, 3])) for move in ([0, 0, 0], [4, 0, 0])]
    there = [
        ",".join(map(str, [*to_template(centre + np.array(move)), 3]))
        for move in ([0, 0, 0], [4, 0, 0])
    ]
    assert track("s.tck", f"--seed-sphere={here[0]}", f"--include={here[1]}") == 0
    for words in (["--warp", "warp.nii.gz"], ["--warp", "back.nii.gz", "--invert-warp"]):
        out = f"{len(words)}.tck"
        assert track(out, f"--seed-sphere={there[0]}", f"--include={there[1]}", *words) == 0
        found, wanted = nt.load_tractogram(out), nt.load_tractogram("s.tck")
        assert len(wanted) > 10
        # Centres differ by what interpolation is off.
        assert abs(len(found) - len(wanted)) <= 3
        middles = [np.median(lines.points, axis=0) for lines in (found, wanted)]
        assert np.abs(middles[0] - middles[1]).max() < 0.5


def test_streamlines_in_the_template_are_those_of_the_subject_warped(template: nt.Grid) -> None:
    words = ("--seed-mask", "seeds.nii.gz", "--warp", "warp.nii.gz")
    assert track("s.tck", *words) == 0
    assert track("t.trk", *words, "--to-template", "template.nii.gz") == 0
    warp = nt.load_warp("warp.nii.gz")
    subject = nt.load_tractogram("s.tck").warped(warp)
    found = nt.load_tractogram("t.trk")
    assert np.abs(found.points - subject.points).max() < 1e-3
    assert found.grid == template
    assert main(["select", "s.tck", "-o", "u.tck", "--warp", "warp.nii.gz"]) == 0
    assert nt.load_tractogram("u.tck").digest() == subject.digest()
    assert nt.Recipe.load("t.json").digest == subject.digest()


def test_a_replay_is_the_same_in_either_space(
    template: nt.Grid, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--seed-mask", "seeds.nii.gz", "--warp", "warp.nii.gz")
    assert track("s.trk", *words) == 0
    assert track("t.trk", *words, "--to-template", "template.nii.gz") == 0
    caplog.set_level(logging.WARNING)
    for name in ("s", "t"):
        assert main(["replay", f"{name}.json", "-o", "again.trk"]) == 0
        assert "the same streamlines" in capsys.readouterr().out
        ours, again = nt.load_tractogram(f"{name}.trk"), nt.load_tractogram("again.trk")
        assert ours.points.tolist() == again.points.tolist()
        assert ours.grid == again.grid
    assert not caplog.records
    write("warp.nii.gz", load_grid("fod.nii.gz"), nib.load("warp.nii.gz").get_fdata() + 1.0)
    assert main(["replay", "s.json"]) == 1
    assert "file of a warp" in caplog.text


def test_a_recipe_in_the_spaces_of_other_subjects(
    template: nt.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    """One template and a warp for each subject: where FODs lie does not matter."""
    words = ("--seed-mask", "seeds.nii.gz", "--warp", "warp.nii.gz")
    assert track("t.tck", *words, "--to-template", "template.nii.gz") == 0
    own, image = load_grid("fod.nii.gz"), nib.load("fod.nii.gz")
    for number in (1, 2):
        Path(f"sub-{number}").mkdir()
        moved = np.array(own.affine)
        moved[:3, 3] += 8.0 * number
        values = image.get_fdata(dtype=np.float32)
        nib.save(nib.Nifti1Image(values, moved), f"sub-{number}/fod.nii.gz")
        positions = nib.load("warp.nii.gz").get_fdata()
        write(f"sub-{number}/warp.nii.gz", nt.Grid(own.shape, moved), positions)
    many = ["replay", "t.json", "--fod", "sub-*/fod.nii.gz", "-o", "{subject}.tck"]
    with_warps = [*many, "--warp", "{subject}/warp.nii.gz"]
    assert main(with_warps) == 0
    wanted = nt.load_tractogram("t.tck")
    for number in (1, 2):
        found = nt.load_tractogram(f"sub-{number}.tck")
        assert abs(len(found) - len(wanted)) <= 2
        ends = [np.median(lines.points, axis=0) for lines in (found, wanted)]
        assert np.abs(ends[0] - ends[1]).max() < 1.0  # in the template: 8 mm apart without warps
    capsys.readouterr()
    assert main(with_warps) == 0
    assert "2 were there" in capsys.readouterr().out
    Path("sub-2/warp.nii.gz").write_bytes(Path("sub-1/warp.nii.gz").read_bytes())
    assert main(with_warps) == 0
    assert "1 were there" in capsys.readouterr().out
    assert main([*many, "--table", "other.csv"]) == 2
    assert "which belongs to its own FOD" in capsys.readouterr().err


def test_replay_in_one_other_fod_takes_its_warp(
    template: nt.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track("s.tck", "--seed-mask", "seeds.nii.gz", "--warp", "warp.nii.gz") == 0
    words = ["replay", "s.json", "-o", "o.tck", "--fod", "fod.nii.gz"]
    assert main(words) == 2
    assert "which belongs to its own FOD" in capsys.readouterr().err
    assert main([*words, "--warp", "warp.nii.gz"]) == 0
    assert nt.load_tractogram("o.tck").digest() == nt.load_tractogram("s.tck").digest()
    assert main(["replay", "s.json", "--warp", "warp.nii.gz"]) == 2
    assert "give --fod too" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--invert-warp", "--invert-warp has no effect without --warp"),
        ("--fsl-ref fod.nii.gz", "--fsl-ref has no effect without --warp"),
        ("--to-template template.nii.gz", "--to-template template.nii.gz has no effect without"),
        ("--warp-kind fsl", "--warp-kind has no effect without --warp"),
        ("--warp warp.nii.gz --warp-kind fsl", "give --fsl-ref = IMAGE and --fsl-in = IMAGE"),
        ("--warp warp.nii.gz --warp-kind spm", "The kind 'spm' of a warp is unknown"),
        ("--warp gone.nii.gz", "gone.nii.gz"),
    ],
)
def test_flags_that_make_no_sense(
    template: nt.Grid, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    assert track("s.tck", "--seed-mask", "seeds.nii.gz", *words.split()) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not Path("s.tck").exists()


def test_a_file_of_the_other_way_is_told(
    template: nt.Grid, caplog: pytest.LogCaptureFixture
) -> None:
    """Spaces overlap, so that it would look as if all were well."""
    words = ("--seed-mask", "seeds.nii.gz", "--warp")
    assert track("s.tck", *words, "warp.nii.gz") == 0
    assert track("s.tck", *words, "back.nii.gz", "--invert-warp") == 0
    assert "--invert-warp" not in caplog.text
    assert track("s.tck", *words, "back.nii.gz") == 0
    assert "--invert-warp" in caplog.text
    caplog.clear()
    assert track("s.tck", *words, "warp.nii.gz", "--invert-warp") in (0, 2)
    assert "--invert-warp" in caplog.text


def test_select_says_what_a_warp_needs(
    template: nt.Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    nt.Tractogram.from_streamlines([[[900, 0, 0], [901, 0, 0]]]).save("far.tck")
    words = ["select", "far.tck", "--warp", "warp.nii.gz"]
    assert main([*words, "-o", "o.trk"]) == 2
    assert "give --reference IMAGE" in capsys.readouterr().err
    assert main([*words, "-o", "o.tck"]) == 2
    assert "lies in the warp" in capsys.readouterr().err
    assert not Path("o.tck").exists()
