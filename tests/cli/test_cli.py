"""The command: every sub-command, and one line and exit code 2 for every wrong input."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import command as cli
from napari_tractography.files.volumes import save_volume
from napari_tractography.parameters import ParameterSpec, parameter_specs
from napari_tractography.phantoms import make_phantom, phantom_mask
from napari_tractography.tracking.inputs import Execution

PROGRAM = Path(sys.executable).with_name("napari-tractography")
COMMANDS = (
    "track", "info", "density", "connectome", "coherence", "replay", "bench", "demo"
)  # fmt: skip
RUN = ("--n-seeds", "50", "--n-directions", "256", "--step", "1", "--quiet")


@pytest.fixture(scope="module")
def drawing() -> nt.Fod:
    return make_phantom("arcs", lmax=4)


@pytest.fixture
def folder(tmp_path: Path, drawing: nt.Fod, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with fod.nii.gz, mask.nii.gz and labels.nii.gz."""
    nib.save(nib.Nifti1Image(drawing.coefficients, drawing.grid.affine), tmp_path / "fod.nii.gz")
    save_volume(phantom_mask("arcs"), drawing.grid, tmp_path / "mask.nii.gz")
    labels = np.ones(drawing.grid.shape, np.uint8)
    labels[drawing.grid.shape[0] // 2 :] = 4
    save_volume(labels, drawing.grid, tmp_path / "labels.nii.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _track(*arguments: str) -> int:
    return cli.main(
        ["track", "fod.nii.gz", "-o", "b.tck", "--seed-mask", "mask.nii.gz", *RUN, *arguments]
    )


# --------------------------------------------------------------------------------- the sub-commands


@pytest.mark.parametrize("ending", ["tck", "trk", "trx", "vtk"])
def test_track_writes_what_the_functions_make(
    folder: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    arguments = ["--mask", "mask.nii.gz", "--seed", "3", "-o", f"b.{ending}"]
    assert _track(*arguments) == 0
    inside, grid = np.asarray(nib.load("mask.nii.gz").dataobj), nt.load_fod("fod.nii.gz").grid
    wanted = nt.track(
        nt.load_fod("fod.nii.gz"),
        nt.Seeds.in_mask(inside, grid, 50, random_seed=3),
        nt.TrackingParameters(n_directions=256, step_mm=1.0, random_seed=3),
        mask=inside,
    )
    found = nt.load_tractogram(f"b.{ending}")
    assert np.array_equal(found.offsets, wanted.offsets)
    assert np.allclose(found.points, wanted.points, atol=1e-4)
    assert json.loads(Path("b.json").read_text())["digest"] == wanted.digest()
    assert capsys.readouterr().out == ""


def test_track_says_what_it_made_and_where(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [a for a in RUN if a != "--quiet"]
    assert cli.main(["track", "fod.nii.gz", "-o", "b.tck", "--seed-fod", *arguments]) == 0
    told = capsys.readouterr().out
    recipe = json.loads(Path("b.json").read_text())
    assert "streamlines from 50 seeds" in told
    assert "million steps/s" in told
    assert f"digest {recipe['digest']}" in told
    assert "b.tck" in told
    assert "b.json" in told


@pytest.mark.parametrize("wrong", [False, True])
def test_a_terminal_is_told_what_goes_on_and_left_tidy(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wrong: bool,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    place = ["--seed-sphere", "9999,0,0,1"] if wrong else ["--seed-fod"]
    arguments = [a for a in RUN if a != "--quiet"]
    assert cli.main(["track", "fod.nii.gz", "-o", "b.tck", *place, *arguments]) == 2 * wrong
    *told, last = capsys.readouterr().err.split("\r")
    assert told[1].startswith("Preparing the engine")
    assert told[-1].isspace()  # over what was there
    if wrong:
        assert "seeds lie outside" in last
    else:
        assert "100 %  50 of 50 seeds" in told[-3]
        assert last == ""


def test_several_balls_give_their_seeds_each(folder: Path, drawing: nt.Fod) -> None:
    x, y, z = drawing.grid.centre_mm
    balls = [f"--seed-sphere={x},{y},{z},{r}" for r in (8, 9)]
    assert cli.main(["track", "fod.nii.gz", "-o", "b.tck", *balls, *RUN]) == 0
    seeds = json.loads(Path("b.json").read_text())["seeds"]
    assert [s["radius_mm"] for s in seeds] == [8, 9]
    assert [s["n"] for s in seeds] == [50, 50]


def test_recipe_can_be_left_out(folder: Path) -> None:
    assert _track("--no-recipe") == 0
    assert not Path("b.json").exists()


def test_another_json_beside_the_output_is_not_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.json").write_text("{}")
    assert _track() == 2
    assert "b.json exists and is no recipe" in capsys.readouterr().err
    assert Path("b.json").read_text() == "{}"
    assert not Path("b.tck").exists()
    assert _track("--no-recipe") == 0


def test_regions_steer(folder: Path, drawing: nt.Fod) -> None:
    everywhere = ",".join(f"{x:.3f}" for x in [*drawing.grid.centre_mm, 500.0])
    assert _track() == 0
    all_of_them = nt.load_tractogram("b.tck")
    assert _track(f"--include={everywhere}") == 0
    assert nt.load_tractogram("b.tck").digest() == all_of_them.digest()
    assert _track(f"--exclude={everywhere}", "-o", "c.tck") == 2
    assert not Path("c.tck").exists()
    save_volume(np.arange(2).reshape(2, 1, 1), nt.Grid((2, 1, 1), np.eye(4)), "one.nii")
    assert _track("--stop", "labels.nii.gz", "--end", "one.nii", "-o", "c.tck") == 2
    regions = json.loads(Path("b.json").read_text())["regions"]
    assert [(r["role"], r["radius_mm"]) for r in regions] == [("include", 500.0)]


def test_replay_makes_the_same_streamlines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _track("--mask", "mask.nii.gz", "--algorithm", "deterministic") == 0
    assert cli.main(["replay", "b.json", "-o", "again.trk", "--threads", "1"]) == 0
    assert "the same streamlines" in capsys.readouterr().out
    assert nt.load_tractogram("again.trk").n_points == nt.load_tractogram("b.tck").n_points


def test_replay_tells_other_streamlines_by_its_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _track() == 0
    content = json.loads(Path("b.json").read_text())
    content["parameters"]["step_mm"] = 0.9
    Path("b.json").write_text(json.dumps(content))
    assert cli.main(["replay", "b.json"]) == 1
    assert "not the recipe's streamlines" in capsys.readouterr().out


def test_info_of_an_fod(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "fod.nii.gz"]) == 0
    told = capsys.readouterr().out
    assert "lmax 4, 15 coefficients, tournier07" in told
    assert "scanner axes" in told


def test_info_of_a_tractogram(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _track() == 0
    assert cli.main(["info", "b.tck"]) == 0
    assert nt.load_tractogram("b.tck").digest() in capsys.readouterr().out


def test_density(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _track() == 0
    assert cli.main(["density", "b.tck", "-o", "d.nii.gz", "--template", "fod.nii.gz"]) == 0
    image = nib.load("d.nii.gz")
    fod = nt.load_fod("fod.nii.gz")
    found = np.asarray(image.dataobj)
    assert np.array_equal(found, nt.density(nt.load_tractogram("b.tck"), fod))
    assert found.max() > 1
    assert np.allclose(image.affine, fod.grid.affine)
    assert "d.nii.gz" in capsys.readouterr().out


def test_connectome(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _track() == 0
    outputs = ["-o", "c.csv", "--lengths", "l.csv"]
    assert cli.main(["connectome", "b.tck", "labels.nii.gz", *outputs]) == 0
    rows = [line.split(",") for line in Path("c.csv").read_text().splitlines()]
    assert rows[0] == ["label", "1", "4"]
    counts = np.array([row[1:] for row in rows[1:]], int)
    assert np.triu(counts).sum() == nt.load_tractogram("b.tck").n_streamlines
    assert Path("l.csv").read_text().startswith("label,1,4\n")
    assert "of 2 in the image" in capsys.readouterr().out


def test_coherence_says_plainly_what_is_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["coherence", "fod.nii.gz"]) == 0
    assert "no other reading fits better" in capsys.readouterr().out
    assert cli.main(["coherence", "fod.nii.gz", "--basis", "descoteaux07"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "but tournier07, scanner axes fits better" in told[-1]
    assert any(line.startswith("* descoteaux07, voxel axes") for line in told)


def test_coherence_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["coherence", "fod.nii.gz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert len(found["readings"]) > 90


# --------------------------------------------------------------------------------------- the flags


def _other_value(spec: ParameterSpec) -> Any:
    """A value of a parameter that is not its default."""
    if spec.choices:
        return next(choice for choice in spec.choices if choice != spec.default)
    if isinstance(spec.default, bool):
        return not spec.default
    assert spec.minimum is not None
    if isinstance(spec.default, int):
        return spec.default + 2
    return float(spec.default) + 0.25


@pytest.mark.parametrize("spec", parameter_specs(), ids=lambda spec: spec.name)
def test_every_parameter_has_a_flag(spec: ParameterSpec) -> None:
    value = _other_value(spec)
    flag = [spec.flag] if value is True else [spec.flag, str(value)]
    # Direct evaluation is for these algorithms only.
    base = {"algorithm": "diffusion"} if spec.name == "evaluation" else {}
    algorithm = [word for name, choice in base.items() for word in (f"--{name}", choice)]
    options = cli.make_parser().parse_args(["track", "x", "-o", "y", *algorithm, *flag])
    found = cli.parameters_from(options)
    assert getattr(found, spec.name) == value
    assert found == nt.TrackingParameters(**{**base, spec.name: value})


def test_without_flags_the_defaults_hold() -> None:
    options = cli.make_parser().parse_args(["track", "x", "-o", "y"])
    assert cli.parameters_from(options) == nt.TrackingParameters()


def test_help_tells_units_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["track", "--help"])
    assert ended.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    for spec in parameter_specs():
        assert spec.flag in told
        if spec.unit:
            assert f"[{spec.unit}] (default {spec.default:g})" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_every_sub_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: napari-tractography {command}" in capsys.readouterr().out


def test_these_are_all_sub_commands() -> None:
    parser = cli.make_parser()
    (actions,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    assert tuple(actions.choices) == COMMANDS


# ------------------------------------------------------------------------------------- wrong input


def _image(path: str, values: Any, affine: Any = None) -> None:
    nib.save(nib.Nifti1Image(np.asarray(values, np.float32), affine), path)


def _wrong_files(folder: Path) -> None:
    """Files that are not what they should be, in the current folder."""
    eye = np.eye(4)
    _image("3d.nii", np.ones((4, 4, 4)), eye)
    _image("5d.nii", np.ones((4, 4, 4, 15, 2)), eye)
    _image("seven.nii", np.ones((4, 4, 4, 7)), eye)
    _image("zeros.nii", np.zeros((4, 4, 4, 15)), eye)
    _image("nan.nii", np.full((4, 4, 4, 15), np.nan), eye)
    _image("small.nii", np.ones((4, 4, 4)), eye)
    _image("empty.nii", np.zeros((4, 4, 4)), eye)
    flat = nib.Nifti1Image(np.ones((4, 4, 4, 15), np.float32), eye)
    flat.header["srow_z"] = 0
    flat.header["sform_code"] = 1
    flat.to_filename("written.nii")
    raw = bytearray(Path("written.nii").read_bytes())
    raw[312:328] = bytes(16)  # srow_z: all voxels in one plane
    Path("singular.nii").write_bytes(raw)
    Path("text.nii").write_text("no image at all")
    whole = Path("fod.nii.gz").read_bytes()
    Path("cut.nii.gz").write_bytes(whole[: len(whole) // 2])
    Path("cut.tck").write_bytes(b"mrtrix tracks\ndatatype: Float32LE\nfile: . 60\nEND\n")
    Path("page.html").write_text("<html>")
    Path("other.json").write_text("{}")


TRACK = ["track", "fod.nii.gz", "-o", "out.tck", *RUN]
SEEDED = [*TRACK, "--seed-mask", "mask.nii.gz"]
WRONG = {
    "3-D FOD": (["info", "3d.nii"], ["3 dimensions"]),
    "5-D FOD": (["info", "5d.nii"], ["5 dimensions"]),
    "no SH count": (["info", "seven.nii"], ["7 volumes", "1, 6, 15"]),
    "all zero": (["info", "zeros.nii"], ["zeros.nii", "no voxel"]),
    "all NaN": (["info", "nan.nii"], ["nan.nii", "no voxel"]),
    "singular affine": (["info", "singular.nii"], ["singular", "repair"]),
    "no image": (["info", "text.nii"], ["text.nii", "cannot be read"]),
    "truncated FOD": (["info", "cut.nii.gz"], ["cut.nii.gz", "truncated"]),
    "missing FOD": (["info", "absent.nii"], ["absent.nii does not exist"]),
    "folder as FOD": (["info", "."], ["is a folder"]),
    "unknown ending": (["info", "page.html"], ["page.html", ".nii"]),
    "unknown basis": (["info", "fod.nii.gz", "--basis", "b"], ["'b'", "descoteaux07"]),
    "unknown frame": (["info", "fod.nii.gz", "--frame", "f"], ["'f'", "voxel"]),
    "mask of another shape": ([*SEEDED, "--mask", "small.nii"], ["small.nii", "resample"]),
    "empty mask": ([*SEEDED, "--mask", "empty.nii"], ["empty.nii"]),
    "missing mask": ([*SEEDED, "--mask", "absent.nii"], ["absent.nii does not exist"]),
    "no seeds": (TRACK, ["no seeds", "--seed-mask"]),
    "zero seeds": ([*SEEDED, "--n-seeds", "0"], ["0 seeds"]),
    "negative seeds": ([*SEEDED, "--n-seeds", "-5"], ["-5 seeds"]),
    "empty seed mask": ([*TRACK, "--seed-mask", "empty.nii"], ["empty.nii"]),
    "seeds outside": ([*TRACK, "--seed-sphere", "900,0,0,1"], ["outside", "(899.7, "]),
    "ball of three numbers": ([*TRACK, "--seed-sphere", "1,2,3"], ["'1,2,3'", "x,y,z,r"]),
    "half a streamline": ([*TRACK, "--seed-sphere", "0,0,0,1,2.5"], ["'2.5'", "how many"]),
    "ball of words": ([*TRACK, "--seed-sphere", "a,b,c,d"], ["'a,b,c,d'"]),
    "ball with NaN": ([*TRACK, "--seed-sphere", "nan,0,0,1"], ["nan"]),
    "negative radius": ([*TRACK, "--seed-sphere", "0,0,0,-1"], ["-1"]),
    "two kinds of seeds": ([*SEEDED, "--seed-fod"], ["--seed-fod", "--help"]),
    "step of zero": ([*SEEDED, "--step", "0"], ["step_mm = 0 mm", "0.01 to 10"]),
    "step of NaN": ([*SEEDED, "--step", "nan"], ["step_mm = nan", "0.01 to 10"]),
    "step of words": ([*SEEDED, "--step", "far"], ["--step", "'far'", "--help"]),
    "angle of 91": ([*SEEDED, "--max-angle", "91"], ["max_angle_deg = 91", "90"]),
    "negative gamma": ([*SEEDED, "--gamma", "-1"], ["gamma = -1"]),
    "unknown algorithm": ([*SEEDED, "--algorithm", "magic"], ["'magic'", "probabilistic"]),
    "lengths the wrong way round": (
        [*SEEDED, "--min-length", "90", "--max-length", "80"], ["90", "80"]
    ),
    "no directions given": ([*SEEDED, "--start", "given"], ["given"]),
    "unknown backend": ([*SEEDED, "--backend", "abacus"], ["'abacus'", "cpu"]),
    "no threads": ([*SEEDED, "--threads", "0"], ["n_threads = 0"]),
    "no memory": ([*SEEDED, "--memory-limit", "0"], ["memory_limit = 0", "0.8"]),
    "unknown flag": ([*SEEDED, "--stride", "1"], ["--stride", "--help"]),
    "region of words": ([*SEEDED, "--include", "a,b,c,d"], ["'a,b,c,d'"]),
    "missing region": ([*SEEDED, "--include", "absent.nii"], ["absent.nii does not exist"]),
    "empty region": ([*SEEDED, "--stop", "empty.nii"], ["empty.nii"]),
    "ball without size": ([*SEEDED, "--exclude", "0,0,0,0"], ["0.0 mm", "empty"]),
    "unknown rule": ([*SEEDED, "--include-rule", "some"], ["'some'", "ordered"]),
    "output without a folder": ([*SEEDED, "-o", "absent/x.tck"], ["absent", "does not exist"]),
    "output is a folder": ([*SEEDED, "-o", "folder.tck"], ["folder.tck is a folder"]),
    "output of unknown ending": ([*SEEDED, "-o", "out.png"], ["out.png", ".trk"]),
    "nothing found": ([*SEEDED, "--min-length", "249"], ["No streamlines", "minimum length"]),
    "no command": ([], ["COMMAND", "--help"]),
    "unknown command": (["fly"], ["'fly'", "track"]),
    "no FOD": (["track", "-o", "out.tck"], ["FOD", "--help"]),
    "truncated tractogram": (
        ["density", "cut.tck", "-o", "d.nii", "--template", "mask.nii.gz"], ["cut.tck"]
    ),
    "no tractogram": (
        ["density", "absent.tck", "-o", "d.nii", "--template", "mask.nii.gz"], ["absent.tck"]
    ),
    "no template": (
        ["density", "cut.tck", "-o", "d.nii", "--template", "absent.nii"], ["absent.nii"]
    ),
    "map of unknown ending": (
        ["density", "cut.tck", "-o", "d.png", "--template", "mask.nii.gz"], ["d.png", ".nii.gz"]
    ),
    "labels are an FOD": (["connectome", "cut.tck", "fod.nii.gz", "-o", "c.csv"], ["3-D"]),
    "connectome without a folder": (
        ["connectome", "cut.tck", "labels.nii.gz", "-o", "absent/c.csv"], ["absent"]
    ),
    "coherence of an image": (["coherence", "3d.nii"], ["3 dimensions"]),
    "replay of something else": (["replay", "other.json"], ["other.json is no recipe"]),
    "replay of nothing": (["replay", "absent.json"], ["absent.json does not exist"]),
}  # fmt: skip


def test_where_and_with_how_much_memory_to_track_is_handed_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_tractography.tracking import engine

    asked = []
    track = engine.iter_chunks

    def noted(given: Any, execution: Execution, **more: Any) -> Any:
        asked.append((execution.backend, execution.memory_limit))
        return track(given, replace(execution, backend="cpu"), **more)

    monkeypatch.setattr(engine, "iter_chunks", noted)
    for limit in ([], ["--memory-limit", "0.25"]):
        assert cli.main([*SEEDED, "--n-seeds", "5", "--backend", "cuda:all", *limit]) == 0
    assert asked == [("cuda:all", 0.8), ("cuda:all", 0.25)]


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_line_and_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    _wrong_files(folder)
    Path("folder.tck").mkdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("napari-tractography: ")
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    for word in words:
        assert word in err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_older_output_survives_a_run_that_fails(folder: Path) -> None:
    assert _track() == 0
    content = Path("b.tck").read_bytes(), Path("b.json").read_bytes()
    assert _track("--min-length", "249") == 2
    assert (Path("b.tck").read_bytes(), Path("b.json").read_bytes()) == content


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_unwritable_folder_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    assert _track("-o", "locked/b.tck") == 2
    assert "locked/b.tck cannot be written" in capsys.readouterr().err


def test_interruption_is_no_traceback(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "track_with_progress", interrupted)
    assert _track() == 130
    assert capsys.readouterr().err == "napari-tractography: interrupted; nothing was written.\n"
    assert not Path("b.tck").exists()


# ------------------------------------------------------------------------------- as its own process


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def test_process_tracks_and_replays(folder: Path) -> None:
    tracked = _run("track", "fod.nii.gz", "-o", "b.trk", "--seed-mask", "mask.nii.gz", *RUN[:-1])
    assert tracked.returncode == 0
    assert tracked.stderr == ""
    replayed = _run("replay", "b.json")
    assert replayed.returncode == 0
    (digest,) = [line for line in tracked.stdout.splitlines() if line.startswith("digest ")]
    assert digest in replayed.stdout


def test_process_ends_wrong_input_with_2_and_one_line(folder: Path) -> None:
    found = _run("track", "absent.nii.gz", "-o", "b.trk", "--seed-fod")
    assert found.returncode == 2
    assert found.stderr == "napari-tractography: absent.nii.gz does not exist; check the path.\n"
    assert found.stdout == ""


def test_voxels_with_nan_are_mentioned_once(folder: Path, drawing: nt.Fod) -> None:
    coefficients = drawing.coefficients
    coefficients[0, 0] = np.nan
    _image("holes.nii.gz", coefficients, drawing.grid.affine)
    found = _run("info", "holes.nii.gz")
    assert found.returncode == 0
    assert found.stderr.count("\n") == 1
    assert "NaN or infinite" in found.stderr
