"""Where the command `track` starts streamlines, and how many."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.files.volume_files import load_mask, save_volume

RUN = ("--n-seeds", "50", "--n-directions", "256", "--step", "1", "--quiet")


def test_several_spheres_have_their_number_of_seeds_each_and_go_on_counting(
    folder: Path, drawing: nt.Fod
) -> None:
    inside = np.argwhere(drawing.support)[drawing.n_voxels // 2]
    x, y, z = drawing.grid.to_mm(inside[None].astype(float))[0].tolist()
    spheres = [f"--seed-sphere={x!r},{y!r},{z!r},{r}" for r in ("8", "8,20", "8")]
    assert main(["track", "fod.nii.gz", "-o", "b.trk", *spheres, *RUN]) == 0
    sources = json.loads(Path("b.json").read_text())["seeds"]
    assert [(s["n"], s["first"]) for s in sources] == [(50, 0), (20, 50), (50, 70)]
    seeds = nt.Recipe.load("b.json").inputs().seeds.positions_mm
    assert len(np.unique(seeds, axis=0)) == 120  # no seed is another's
    whole = nt.Seeds.in_sphere((x, y, z), 8.0, 120).positions_mm
    assert np.array_equal(seeds, whole)


def test_two_regions_are_tracked_between(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the function does it, and as the recipe does it again; without a number it is refused."""
    fod = nt.load_fod("fod.nii.gz")
    inside = np.argwhere(fod.support)
    places = [fod.grid.to_mm(inside[i : i + 1])[0] for i in (len(inside) // 2, len(inside) // 2)]
    places[1] = places[0] + fod.grid.axes[:, 0] * fod.grid.voxel_sizes_mm[0]
    spheres = [f"--between={x},{y},{z},4" for x, y, z in places]
    words = ["track", "fod.nii.gz", "-o", "b.tck", *spheres, *RUN[2:], "--min-length", "0"]
    assert main([*words, "--select", "9", "--max-seeds", "50000"]) == 0
    parameters = nt.TrackingParameters.for_fod(
        fod, n_directions=256, step_mm=1.0, min_length_mm=0.0
    )
    ends = [nt.Region.sphere(place, 4.0, "include") for place in places]
    wanted = nt.track_between(fod, *ends, 9, parameters, max_seeds=50_000)
    assert json.loads(Path("b.json").read_text())["digest"] == wanted.digest()
    assert nt.Recipe.load("b.json").run().digest() == wanted.digest()
    capsys.readouterr()
    assert main(words) == 2
    assert "--select not at all" in capsys.readouterr().err


def test_the_largest_random_seed_serves_both_ways_between_two_regions(
    folder: Path, drawing: nt.Fod
) -> None:
    regions = [nt.Region.mask(drawing.support, drawing.grid, "include", name="all")] * 2
    parameters = nt.TrackingParameters.for_fod(drawing, random_seed=2**63 - 1)
    inputs = nt.tracking.inputs.TrackingInput(
        drawing, regions[0].seeds(1), parameters, between=tuple(regions), select=4
    )
    assert [half.parameters.random_seed for half in inputs.halves()] == [2**63 - 1, 0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["--seed-fod", "--max-seeds", "10"], "--max-seeds 10 limits.*--select", id="max-seeds"
        ),
        pytest.param(
            ["--between", "1,2,3,4", "--between", "9,2,3,4", "--select", "3", "--n-seeds", "77"],
            "--n-seeds 77 has no meaning with --between",
            id="n-seeds",
        ),
        pytest.param(
            ["--seed-fod", "--select", "9", "--n-seeds", "77"],
            "77 seeds have no effect with --select 9.*--max-seeds",
            id="n-seeds and select",
        ),
        pytest.param(
            ["--seed-sphere", "1,2,3,4,77", "--select", "9"],
            "77 seeds have no effect with --select 9",
            id="seeds of one sphere and select",
        ),
        pytest.param(
            ["--seed-fod", "--seeds-per-voxel", "2"],
            "--seeds-per-voxel 2 .*give --seed-mask",
            id="no mask",
        ),
        pytest.param(
            ["--seed-mask", "mask.nii.gz", "--seeds-per-voxel", "2", "--n-seeds", "77"],
            "--seeds-per-voxel 2 and --n-seeds 77 both",
            id="two numbers",
        ),
        pytest.param(
            ["--seed-mask", "mask.nii.gz", "--seeds-per-voxel", "2", "--select", "7"],
            "--seeds-per-voxel 2 and --select 7 both",
            id="select",
        ),
        pytest.param(
            ["--seed-mask", "mask.nii.gz", "--seeds-per-voxel", "2", "--max-seeds", "7"],
            "--seeds-per-voxel 2 and --max-seeds 7 both",
            id="most of each voxel",
        ),
        pytest.param(
            ["--seed-mask", "mask.nii.gz", "--seeds-per-voxel", "0"], "^[^\n]*0 seeds", id="zero"
        ),
    ],
)
def test_numbers_of_seeds_without_effect_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["track", "fod.nii.gz", "-o", "b.tck", *words]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_one_label_of_an_image_is_stayed_in(folder: Path, drawing: nt.Fod) -> None:
    mask = ["--mask", "labels.nii.gz:4"]
    assert main(["track", "fod.nii.gz", "-o", "b.tck", "--seed-fod", *mask, *RUN]) == 0
    lines = nt.load_tractogram("b.tck")
    assert len(lines)
    assert (drawing.grid.nearest_voxels(lines.points)[:, 0] >= drawing.grid.shape[0] // 2).all()
    assert nt.Recipe.load("b.json").run().digest() == lines.digest()


def test_one_label_of_an_image_is_seeded(folder: Path, drawing: nt.Fod) -> None:
    assert main(["track", "fod.nii.gz", "-o", "b.tck", "--seed-mask", "labels.nii.gz:4", *RUN]) == 0
    recipe = nt.Recipe.load("b.json")
    seeds = recipe.inputs().seeds.positions_mm
    assert len(seeds) == 50
    assert (drawing.grid.nearest_voxels(seeds)[:, 0] >= drawing.grid.shape[0] // 2).all()


def test_each_voxel_of_a_mask_is_seeded(folder: Path, drawing: nt.Fod) -> None:
    mask = ["--seed-mask", "labels.nii.gz:4", "--seeds-per-voxel", "2"]
    assert main(["track", "fod.nii.gz", "-o", "b.tck", *mask, *RUN[2:]]) == 0
    recipe = nt.Recipe.load("b.json")
    seeds = drawing.grid.nearest_voxels(recipe.inputs().seeds.positions_mm)
    voxels, counts = np.unique(seeds, axis=0, return_counts=True)
    assert len(voxels) == np.prod(drawing.grid.shape) / 2
    assert (counts == 2).all()
    assert recipe.run().digest() == nt.load_tractogram("b.tck").digest() == recipe.digest


@pytest.mark.parametrize("directed", [False, True])
def test_positions_of_a_file_are_seeds(
    folder: Path, drawing: nt.Fod, capsys: pytest.CaptureFixture[str], directed: bool
) -> None:
    inside = np.argwhere(drawing.support)[[3, 40]].astype(float)
    positions = drawing.grid.to_mm(inside).astype(np.float32)
    rows = np.hstack([positions, [[1, 0, 0], [0, 1, 0]]]) if directed else positions
    Path("p.txt").write_text(
        "# x y z\n" + "\n".join(", ".join(map(repr, row.tolist())) for row in rows)
    )
    words = ["track", "fod.nii.gz", "-o", "b.tck", "--seed-points", "p.txt"]
    assert main([*words, *RUN[2:]]) == 0
    seeds = nt.Recipe.load("b.json").inputs().seeds
    np.testing.assert_array_equal(seeds.positions_mm, positions)
    assert (seeds.directions is not None) == directed
    assert main([*words, *RUN[2:], "--start", "given"]) == (0 if directed else 2)
    assert ("or a file of both" in capsys.readouterr().err) == (not directed)
    given = ["track", "fod.nii.gz", "-o", "b.tck", "--seed-mask", "mask.nii.gz", "--start", "given"]
    assert main(given) == 2
    assert "give --seed-points FILE with a direction after each" in capsys.readouterr().err
    assert main([*words, *RUN]) == 2
    assert "no meaning with --seed-points" in capsys.readouterr().err
    for text in ("1 2\n", "1 2 x\n", "", "1 2 nan\n"):
        Path("p.txt").write_text(text)
        assert main([*words, *RUN[2:]]) == 2
        assert "p.txt holds" in capsys.readouterr().err
    Path("p.txt").write_text("1 nan 3\n1 2 3\n")
    assert main([*words, *RUN[2:]]) == 2
    assert "p.txt holds NaN or infinity in 1 of 2 rows" in capsys.readouterr().err


def test_seeds_by_voxel_stay_where_the_mask_loses_another(folder: Path, drawing: nt.Fod) -> None:
    mask, grid = load_mask("mask.nii.gz")
    less = mask.copy()
    gone = np.argwhere(mask)[len(np.argwhere(mask)) // 2]
    less[tuple(gone)] = False
    save_volume(less, grid, "less.nii.gz")
    found = []
    for name in ("mask", "less"):
        words = ["--seed-mask", f"{name}.nii.gz", "--seeds-per-voxel", "1", "--seeds-by", "voxel"]
        assert main(["track", "fod.nii.gz", "-o", f"{name}.tck", *words, *RUN[2:]]) == 0
        found.append({line.tobytes() for line in nt.load_tractogram(f"{name}.tck")})
        assert json.loads(Path(f"{name}.json").read_text())["seeds"][0]["by"] == "voxel"
        assert main(["replay", f"{name}.json", "--quiet"]) == 0
    assert len(found[1]) > 100
    assert found[1] <= found[0]
    assert len(found[0] - found[1]) <= 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seed-fod --seeds-by voxel", "give --seed-mask IMAGE as well"),
        ("--seed-mask mask.nii.gz --seeds-by voxels", "choose one of list, voxel"),
    ],
)
def test_a_law_of_seeds_that_does_not_apply_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    assert main(["track", "fod.nii.gz", "-o", "b.tck", *words.split(), *RUN]) == 2
    assert said in capsys.readouterr().err
