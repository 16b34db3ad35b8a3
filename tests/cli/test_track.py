"""The command `track`: what it writes, its flags, and that a failure leaves nothing."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main, progress
from napari_tractography.cli import track as track_module
from napari_tractography.cli.command import make_parser
from napari_tractography.cli.track import chosen_parameters
from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.parameters import ParameterSpec, parameter_specs
from napari_tractography.tracking.inputs import Execution

Track = Callable[..., int]
RUN = ("--n-seeds", "50", "--n-directions", "256", "--step", "1", "--quiet")


@pytest.mark.parametrize("ending", ["tck", "trk", "trx", "vtk"])
def test_track_writes_what_the_functions_make(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    arguments = ["--mask", "mask.nii.gz", "--seed", "3", "-o", f"b.{ending}"]
    assert track(*arguments) == 0
    inside, grid = np.asarray(nib.load("mask.nii.gz").dataobj), nt.load_fod("fod.nii.gz").grid
    wanted = nt.track(
        nt.load_fod("fod.nii.gz"),
        nt.Seeds.in_mask(inside, grid, 50, random_seed=3),
        nt.TrackingParameters.for_fod(
            nt.load_fod("fod.nii.gz"), n_directions=256, step_mm=1.0, random_seed=3
        ),
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
    assert main(["track", "fod.nii.gz", "-o", "b.tck", "--seed-fod", *arguments]) == 0
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
    assert main(["track", "fod.nii.gz", "-o", "b.tck", *place, *arguments]) == 2 * wrong
    *told, last = capsys.readouterr().err.split("\r")
    assert told[1].startswith("Preparing the engine")
    assert told[-1].isspace()  # over what was there
    if wrong:
        assert "seeds lie outside" in last
    else:
        assert "100 %  50 of 50 seeds" in told[-3]
        assert last == ""


@pytest.mark.parametrize("n_wanted", [0, 30])
def test_how_far_a_run_is_is_counted_chunk_by_chunk(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    n_wanted: int,
) -> None:
    from napari_tractography.tracking import engine

    counts: list[tuple[int, int]] = []  # accepted and done, after each chunk

    def in_parts(given: Any, execution: Execution, **more: Any) -> Any:
        for chunk in iter_chunks(given, replace(execution, block=20), **more):
            last = counts[-1] if counts else (0, 0)
            counts.append((last[0] + len(chunk), last[1] + chunk.n_seeds))
            yield chunk

    iter_chunks = engine.iter_chunks
    monkeypatch.setattr(engine, "iter_chunks", in_parts)
    monkeypatch.setattr(progress, "INTERVAL_S", -1.0)  # every chunk is shown
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = ["track", "fod.nii.gz", "-o", "b.tck", "--seed-fod", *RUN[2:-1]]
    assert main([*words, *(["--select", str(n_wanted)] if n_wanted else RUN[:2])]) == 0
    told = [part.rstrip() for part in capsys.readouterr().err.split("\r") if part.strip()][1:]
    if n_wanted:
        assert told == [
            f"{100 * n // 30:3d} %  {n} of 30 streamlines, {100 * n / done:.3g} % of {done} seeds"
            for n, done in counts
        ]
    else:
        assert told == [f"{2 * done:3d} %  {done} of 50 seeds" for _, done in counts]
    assert len(told) > 1


def test_a_parameter_of_other_algorithms_is_told(
    track: Track, caplog: pytest.LogCaptureFixture
) -> None:
    assert track("--gamma", "0.3", "--samples", "5") == 0
    assert caplog.messages == [
        "--gamma has no effect with the algorithm probabilistic, but with diffusion and transport.",
        "--samples has no effect with the algorithm probabilistic, but with ifod2.",
    ]
    caplog.clear()
    assert track("--algorithm", "diffusion", "--gamma", "0.3", "--no-backtrack") == 0
    assert caplog.messages == []
    assert track("--backtrack") == 0
    assert caplog.messages == ["--backtrack has no effect without --tissues."]


def test_what_means_nothing_among_peaks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    peaks = np.broadcast_to(np.float32([1, 0, 0]), (6, 6, 6, 3))
    nib.save(nib.Nifti1Image(np.ascontiguousarray(peaks), np.eye(4)), "peaks.nii.gz")
    given = ["--kind", "peaks", "--axes", "scanner", "--seed-fod"]
    words = ["track", "peaks.nii.gz", "-o", "b.tck", *given, *RUN]
    assert main([*words, "--look-ahead", "2", "--algorithm", "probabilistic"]) == 0
    assert caplog.messages == ["--look-ahead has no effect in peaks, but in FODs."]
    caplog.clear()
    # Who means voxel axes has to say --axes; the streamlines look as plausible either way.
    reading = ["--frame", "voxel", "--order", "fsl", "--basis", "descoteaux07"]
    assert main([*words, *reading, "--algorithm", "transport"]) == 0
    assert caplog.messages == [
        "--basis descoteaux07 has no effect in peaks, but in SH coefficients.",
        "--frame voxel has no effect in peaks, but in SH coefficients.",
        "--order fsl has no effect in peaks, but in tensors.",
    ]
    caplog.clear()
    assert main([*words, "--look-ahead", "2", "--algorithm", "transport"]) == 0
    assert caplog.messages == []


def test_where_nothing_is_selected_one_sentence_says_why(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    words = ["track", "fod.nii.gz", "-o", "b.tck", "--seed-mask", "mask.nii.gz", *RUN[2:]]
    few = [*words, "--select", "20", "--max-seeds", "20"]
    assert main([*few, "--min-length", "190"]) == 2
    assert "No streamlines from 20 seeds" in capsys.readouterr().err
    assert caplog.messages == []
    assert main([*few, "--min-length", "90"]) == 0
    (told,) = caplog.messages
    assert "of 20 streamlines were accepted of 20 seeds: allow more seeds" in told


def test_recipe_can_be_left_out(folder: Path, track: Track) -> None:
    assert track("--no-recipe") == 0
    assert not Path("b.json").exists()


@pytest.mark.parametrize("out", ["b.tck", "~/b.tck"])
def test_another_json_beside_the_output_is_not_overwritten(
    folder: Path,
    track: Track,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    out: str,
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
    Path("b.json").write_text("{}")
    assert track(f"--out={out}") == 2
    assert Path("b.json").read_text() == "{}"
    assert "b.json exists and is no recipe" in capsys.readouterr().err
    assert Path("b.json").read_text() == "{}"
    assert not Path("b.tck").exists()
    assert track("--no-recipe") == 0


def test_a_recipe_of_the_same_streamlines_in_another_format_is_written_again(
    track: Track,
) -> None:
    assert track("-o", "b.trx") == 0
    before = Path("b.json").read_text()
    assert track("-o", "b.tck") == 0
    assert Path("b.json").read_text() == before


def test_a_recipe_of_other_streamlines_of_that_name_is_kept(
    track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track("-o", "b.trx") == 0
    before = Path("b.json").read_text()
    assert track("--seed", "7") == 2
    err = capsys.readouterr().err
    assert "b.json is the recipe of b.trx" in err
    assert "--no-recipe" in err
    assert Path("b.json").read_text() == before
    assert not Path("b.tck").exists()
    assert track("--seed", "7", "-o", "b.trx") == 0  # its own
    Path("b.json").write_text(json.dumps({**json.loads(before), "format_version": 99}))
    assert track() == 2
    assert "b.json is the recipe of b.trx" in capsys.readouterr().err
    assert track("--seed", "8", "--no-recipe") == 0


def test_a_recipe_that_two_files_share_is_kept_when_one_of_them_changes(
    track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track("-o", "b.trx") == 0
    assert track("-o", "b.tck") == 0
    before = Path("b.json").read_text(), Path("b.tck").read_bytes()
    assert track("-o", "b.tck", "--seed", "7") == 2
    assert "b.json is the recipe of b.trx" in capsys.readouterr().err
    assert (Path("b.json").read_text(), Path("b.tck").read_bytes()) == before
    Path("b.trx").unlink()
    assert track("-o", "b.tck", "--seed", "7") == 0


def test_regions_steer(folder: Path, track: Track, drawing: nt.Fod) -> None:
    everywhere = ",".join(f"{x:.3f}" for x in [*drawing.grid.centre_mm, 500.0])
    assert track() == 0
    all_of_them = nt.load_tractogram("b.tck")
    assert track(f"--include={everywhere}") == 0
    assert nt.load_tractogram("b.tck").digest() == all_of_them.digest()
    assert track(f"--exclude={everywhere}", "-o", "c.tck") == 2
    assert not Path("c.tck").exists()
    save_volume(np.arange(2).reshape(2, 1, 1), nt.Grid((2, 1, 1), np.eye(4)), "one.nii")
    assert track("--stop", "labels.nii.gz", "--end", "one.nii", "-o", "c.tck") == 2
    regions = json.loads(Path("b.json").read_text())["regions"]
    assert [(r["role"], r["radius_mm"]) for r in regions] == [("include", 500.0)]


def _other_value(spec: ParameterSpec) -> Any:
    """A value of a parameter that is not its default."""
    if spec.choices:
        return next(choice for choice in spec.choices if choice != spec.default)
    if isinstance(spec.default, bool):
        return not spec.default
    assert spec.minimum is not None
    if spec.default is None:
        return 2.5
    if isinstance(spec.default, int):
        return spec.default + 2
    return float(spec.default) + 0.25


@pytest.mark.parametrize("spec", parameter_specs(), ids=lambda spec: spec.name)
def test_every_parameter_has_a_flag(spec: ParameterSpec) -> None:
    value = _other_value(spec)
    flag = [spec.flag] if value is True else [spec.flag, str(value)]
    options = make_parser().parse_args(["track", "x", "-o", "y", *flag])
    assert chosen_parameters(options) == {spec.name: value}


def test_without_flags_the_parameters_suit_the_fod_and_it_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["track", "fod.nii.gz", "-o", "b.tck", "--seed-fod", "--n-seeds", "20"]
    assert main(words) == 0
    wanted = nt.TrackingParameters.for_fod(nt.load_fod("fod.nii.gz"))
    assert nt.Recipe.load("b.json").parameters == wanted
    assert "Defaults for voxels of 2 mm: step 0.55 mm (0.275 voxel)" in capsys.readouterr().out
    assert main([*words, "--max-angle", "45", "--min-amplitude", "0.05"]) == 0
    wanted = wanted.replace(max_angle_deg=45.0, min_amplitude=0.05)
    assert nt.Recipe.load("b.json").parameters == wanted
    told = capsys.readouterr().out
    assert "step 0.55 mm" in told
    assert "minimum amplitude" not in told
    assert "radius" not in told


def test_an_impossible_flag_is_told_before_anything_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["track", "absent.nii", "-o", "b.tck", "--seed-fod", "--step", "99"]) == 2
    assert "--step = 99 mm is out of range" in capsys.readouterr().err


def test_help_tells_units_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["track", "--help"])
    assert ended.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    for spec in parameter_specs():
        assert spec.flag in told
        if spec.unit:
            default = spec.by_fod or f"{spec.default:g}"
            assert f"[{spec.unit}] (default {default})" in told


def test_where_and_with_how_much_memory_to_track_is_handed_on(
    track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_tractography.tracking import engine

    asked = []
    iter_chunks = engine.iter_chunks

    def noted(given: Any, execution: Execution, **more: Any) -> Any:
        asked.append((execution.backend, execution.memory_limit))
        return iter_chunks(given, replace(execution, backend="cpu"), **more)

    monkeypatch.setattr(engine, "iter_chunks", noted)
    for limit in ([], ["--memory-limit", "0.25"]):
        assert track("--n-seeds", "5", "--backend", "cuda:all", *limit) == 0
    assert asked == [("cuda:all", 0.8), ("cuda:all", 0.25)]


def test_older_output_survives_a_run_that_fails(folder: Path, track: Track) -> None:
    assert track() == 0
    content = Path("b.tck").read_bytes(), Path("b.json").read_bytes()
    assert track("--min-length", "1900") == 2
    assert (Path("b.tck").read_bytes(), Path("b.json").read_bytes()) == content


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_unwritable_folder_is_named(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    assert track("-o", "locked/b.tck") == 2
    assert "locked/b.tck cannot be written" in capsys.readouterr().err


def test_interruption_is_no_traceback(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(track_module, "chunks_with_progress", interrupted)
    assert track() == 130
    told = capsys.readouterr().err
    assert told.startswith("napari-tractography: interrupted; files that were finished stay")
    assert told.count("\n") == 1
    assert not Path("b.tck").exists()


def test_each_file_is_read_once_and_hashed_as_it_is_read(folder: Path, track: Track) -> None:
    """Once for the header and once for the numbers; the mask once for each of its two uses.

    Of the FOD, some voxels are looked at before, to tell what it is.
    """
    code = (
        "import os, sys\n"
        "opened = []\n"
        "def note(event, arguments):\n"
        "    if event == 'open' and isinstance(arguments[0], (str, os.PathLike)):\n"
        "        opened.append(os.path.basename(arguments[0]))\n"
        "sys.addaudithook(note)\n"
        "from napari_tractography.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(opened.count('fod.nii.gz'), opened.count('mask.nii.gz'))\n"
        "sys.exit(code)\n"
    )
    words = ["track", "fod.nii.gz", "-o", "b.tck", "--seed-mask", "mask.nii.gz", *RUN]
    found = subprocess.run(
        [sys.executable, "-c", code, *words, "--mask", "mask.nii.gz"],
        capture_output=True,
        text=True,
        check=True,
    )
    n_fod, n_mask = map(int, found.stdout.split())
    assert n_fod <= 4  # nibabel looks at the first bytes before it reads the header
    assert n_mask <= 6
    recipe = json.loads(Path("b.json").read_text())
    for source, name in ((recipe["fod"], "fod"), (recipe["mask"], "mask")):
        wanted = hashlib.sha256((folder / f"{name}.nii.gz").read_bytes()).hexdigest()
        assert source["sha256"] == wanted
    assert recipe["seeds"][0]["volume"]["sha256"] == recipe["mask"]["sha256"]


def test_the_recipe_says_what_tracked(track: Track) -> None:
    assert track("--backend", "cpu") == 0
    recipe = json.loads(Path("b.json").read_text())
    assert recipe["backend"] == "cpu"
    assert recipe["device"] == platform.machine()
    assert {"numpy", "numba", "llvmlite", "scipy", "dipy"} <= set(recipe["versions"])


def test_the_recipe_may_be_a_bids_sidecar(track: Track, capsys: pytest.CaptureFixture[str]) -> None:
    assert track("--bids-sidecar") == 0
    found = json.loads(Path("b.json").read_text())
    assert found["StreamlinePropagation"]["Source"] == str(Path("fod.nii.gz").absolute())
    assert found["Recipe"]["digest"] == nt.load_tractogram("b.tck").digest()
    assert track() == 0  # it is the recipe of that file, and is written again
    assert "Recipe" not in json.loads(Path("b.json").read_text())
    assert track("--bids-sidecar", "--no-recipe") == 2
    assert "leave --no-recipe out" in capsys.readouterr().err
