"""The command: every sub-command, and one line and exit code 2 for every wrong input."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.cli.command import make_parser
from napari_tractography.cli.flags import SPELT, count, in_flags
from napari_tractography.files.formats import listed, tractogram_endings
from napari_tractography.files.paths import with_home
from napari_tractography.version import __version__

PROGRAM = Path(sys.executable).with_name("napari-tractography")
COMMANDS = (
    "track", "info", "select", "measure", "profile", "density", "visitation", "connectome",
    "resect", "sweep", "coherence", "cohort", "page", "replay", "bench", "demo",
)  # fmt: skip
# What stands for a path in the help.
PATHS = {
    "FILE", "FOD", "FOLDER", "IMAGE", "LABELS", "OUT", "PROJECT", "RECIPE", "REGION", "SCALAR",
    "TCK", "5TT",
}  # fmt: skip
LONG = 300 * "a"
RUN = ("--n-seeds", "50", "--n-directions", "256", "--step", "1", "--quiet")


# --------------------------------------------------------------------------------------- the flags


@pytest.mark.parametrize("command", COMMANDS)
def test_every_sub_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: napari-tractography {command}" in capsys.readouterr().out


def test_these_are_all_sub_commands() -> None:
    parser = make_parser()
    (actions,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    assert tuple(actions.choices) == COMMANDS


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom napari_tractography.cli import main\n"
        "try:\n    main(['track', '--help'])\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stderr.split()
    loaded = {name.partition(".")[0] for name in found}
    assert "napari_tractography" in loaded
    assert loaded.isdisjoint({"cupy", "dipy", "napari", "nibabel", "numba", "numpy", "qtpy"})


def test_arguments_are_named_as_flags_of_the_sub_command_alone() -> None:
    options = make_parser().parse_args(["track", "f.nii", "-o", "b.tck"])
    for said, told in {
        "min_length_mm = 9 mm exceeds max_length_mm = 8 mm.": (
            "--min-length = 9 mm exceeds --max-length = 8 mm."
        ),
        "n_threads = 0 is impossible": "--threads = 0 is impossible",
        "step_mm must be of type float, not 'a'.": "--step must be of type float, not 'a'.",
        "radius_mm = -1 mm": "radius_mm = -1 mm",  # a flag of connectome
        "a/step_mm = 1.nii and 'gamma = 1' and the start is": (
            "a/step_mm = 1.nii and 'gamma = 1' and the start is"
        ),
    }.items():
        assert in_flags(said, options) == told


def test_flags_that_stand_for_arguments_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
    told = capsys.readouterr().out
    assert [flag for flag in SPELT.values() if f"{flag} " not in told] == []


@pytest.mark.parametrize("command", ["track", "replay"])
def test_the_help_names_the_endings_that_are_written(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert f"tractogram to write: {listed(tractogram_endings())}" in told
    assert ".vtp" not in told


@pytest.mark.parametrize("command", COMMANDS)
def test_every_path_may_begin_with_the_home_folder(command: str) -> None:
    (parsers,) = [
        action for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]  # fmt: skip
    for action in parsers.choices[command]._actions:
        names_a_path = PATHS & set(re.split(r"\W", str(action.metavar)))
        assert (action.type is with_home) == bool(names_a_path), action.dest


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_of_any_flag_may_begin_with_a_minus(command: str) -> None:
    parser = make_parser()
    (parsers,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    actions = parsers.choices[command]._actions
    needed = [word for a in actions if a.required for word in (*a.option_strings[:1], "b.tck")]
    for action in actions:
        if not action.option_strings or action.nargs == 0:
            continue
        value = {int: "-12", count: "-12", float: "-.1e3"}.get(action.type, "-12,4,30,2")
        found = vars(parser.parse_args([command, *needed, action.option_strings[-1], value]))
        wanted = value if action.type in (None, with_home) else action.type(value)
        assert found[action.dest] in (wanted, [wanted], ["b.tck", wanted])


# ------------------------------------------------------------------------------------- wrong input


def _image(path: str, values: Any, affine: Any = None) -> None:
    nib.save(nib.Nifti1Image(np.asarray(values, np.float32), affine), path)


def _wrong_files(folder: Path) -> None:
    """Files that are not what they should be, in the current folder."""
    eye = np.eye(4)
    _image("3d.nii", np.ones((4, 4, 4)), eye)
    _image("5d.nii", np.ones((4, 4, 4, 15, 2)), eye)
    _image("seven.nii", np.ones((4, 4, 4, 7)), eye)
    _image("masks.nii", np.ones((4, 4, 4, 6)), eye)
    _image("zeros.nii", np.zeros((4, 4, 4, 15)), eye)
    _image("nan.nii", np.full((4, 4, 4, 15), np.nan), eye)
    away = eye.copy()
    away[:3, 3] = 500
    _image("small.nii", np.ones((4, 4, 4)), away)
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
    nt.Tractogram.from_streamlines([[(0, 0, 0), (4, 0, 0)]]).save("one.tck")
    Path("page.html").write_text("<html>")
    Path("other.json").write_text("{}")


TRACK = ["track", "fod.nii.gz", "-o", "out.tck", *RUN]
SEEDED = [*TRACK, "--seed-mask", "mask.nii.gz"]
ENDLESS = ["track", "fod.nii.gz", "-o", "out.tck", "--seed-mask", "mask.nii.gz"]


WRONG = {
    "3-D FOD": (["info", "3d.nii"], ["has shape", "image layer"]),
    "5-D FOD": (["info", "5d.nii"], ["5d.nii holds no FOD in its 30 volumes"]),
    "no SH count": (["info", "seven.nii"], ["7 volumes", "6, 15"]),
    "a mask in six volumes": (["info", "masks.nii"], ["masks.nii", "masks", "kind sh"]),
    "unknown kind": (["info", "fod.nii.gz", "--kind", "k"], ["'k'", "auto, sh"]),
    "peaks of 45 volumes without axes": (
        ["info", "fod.nii.gz", "--kind", "peaks", "--axes", "ras"],
        ["--axes = 'ras' is unknown", "scanner"],
    ),
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
    "mask elsewhere": ([*SEEDED, "--mask", "small.nii"], ["small.nii", "no voxel in common"]),
    "empty mask": ([*SEEDED, "--mask", "empty.nii"], ["empty.nii"]),
    "missing mask": ([*SEEDED, "--mask", "absent.nii"], ["absent.nii does not exist"]),
    "no seeds": (TRACK, ["no seeds", "--seed-mask"]),
    "zero seeds": ([*SEEDED, "--n-seeds", "0"], ["0 seeds"]),
    "negative seeds": ([*SEEDED, "--n-seeds", "-5"], ["-5 seeds"]),
    "empty seed mask": ([*TRACK, "--seed-mask", "empty.nii"], ["empty.nii"]),
    "seeds outside": ([*TRACK, "--seed-sphere", "900,0,0,1"], ["outside", "(899.7, "]),
    "sphere of three numbers": ([*TRACK, "--seed-sphere", "1,2,3"], ["'1,2,3'", "x,y,z,r"]),
    "half a streamline": ([*TRACK, "--seed-sphere", "0,0,0,1,2.5"], ["'2.5'", "how many"]),
    "sphere of words": ([*TRACK, "--seed-sphere", "a,b,c,d"], ["'a,b,c,d'"]),
    "sphere with NaN": ([*TRACK, "--seed-sphere", "nan,0,0,1"], ["nan"]),
    "negative radius": ([*TRACK, "--seed-sphere", "0,0,0,-1"], ["-1"]),
    "two kinds of seeds": ([*SEEDED, "--seed-fod"], ["--seed-fod", "--help"]),
    "step of zero": ([*SEEDED, "--step", "0"], ["--step = 0 mm", "1e-06 to 10"]),
    "step of NaN": ([*SEEDED, "--step", "nan"], ["--step = nan", "1e-06 to 10"]),
    "step of words": ([*SEEDED, "--step", "far"], ["--step", "'far'", "--help"]),
    "angle of 91": ([*SEEDED, "--max-angle", "91"], ["--max-angle = 91", "90"]),
    "negative gamma": ([*SEEDED, "--gamma", "-1"], ["--gamma = -1"]),
    "unknown algorithm": ([*SEEDED, "--algorithm", "magic"], ["'magic'", "probabilistic"]),
    "lengths the wrong way round": (
        [*SEEDED, "--min-length", "90", "--max-length", "80"],
        ["--min-length = 90 mm exceeds --max-length = 80 mm"],
    ),
    "selection of none": ([*ENDLESS, "--select", "0"], ["--select = 0 is impossible"]),
    "most seeds of none": (
        [*ENDLESS, "--select", "5", "--max-seeds", "0"], ["--max-seeds = 0 is impossible"]
    ),
    "selection to .trk": (
        ["select", "one.tck", "-o", "s.trk"], ["A .trk file needs", "reference; give it"]
    ),
    "labels at a negative distance": (
        ["connectome", "one.tck", "labels.nii.gz", "-o", "c.csv", "--radius", "-1"],
        ["--radius = -1 mm is out of range"],
    ),
    "weights of NaN": (
        ["select", "one.tck", "-o", "s.tck", "--weights", "w.txt", "--min-weight", "nan"],
        ["--min-weight nan is no number"],
    ),
    "one place": (["profile", "one.tck", "3d.nii", "-o", "p.csv", "-n", "1"], ["--n = 1 is no"]),
    "an error of NaN": (
        ["visitation", "one.tck", "-o", "v.nii", "--template", "mask.nii.gz", "--enough", "nan"],
        ["--enough = nan is out of range"],
    ),
    "a point without end": (
        ["visitation", "one.tck", "-o", "v.nii", "--template", "mask.nii.gz", "--at", "0,inf,0"],
        ["--at 0,inf,0 is no point"],
    ),
    "a tolerance of NaN": ([*SEEDED, "--compress", "nan"], ["--compress = nan mm is impossible"]),
    "no directions given": ([*SEEDED, "--start", "given"], ["given"]),
    "unknown backend": ([*SEEDED, "--backend", "abacus"], ["'abacus'", "cpu"]),
    "no threads": ([*SEEDED, "--threads", "0"], ["--threads = 0", "whole number"]),
    "negative threads": (["replay", "b.json", "--threads", "-1"], ["--threads = -1"]),
    "no memory": ([*SEEDED, "--memory-limit", "0"], ["--memory-limit = 0", "0.8"]),
    "unknown flag": ([*SEEDED, "--stride", "1"], ["--stride 1; see", "track --help."]),
    "unknown flag and a minus": ([*SEEDED, "--stride", "-1,2"], ["--stride -1,2", "--help"]),
    "unknown letter": ([*SEEDED, "-x"], ["-x", "--help"]),
    "a number as a flag": ([*SEEDED, "-5,1"], ["-5,1", "--help"]),
    "region of words": ([*SEEDED, "--include", "a,b,c,d"], ["'a,b,c,d'"]),
    "missing region": ([*SEEDED, "--include", "absent.nii"], ["absent.nii does not exist"]),
    "empty region": ([*SEEDED, "--stop", "empty.nii"], ["empty.nii"]),
    "sphere without size": ([*SEEDED, "--exclude", "0,0,0,0"], ["0.0 mm", "empty"]),
    "unknown rule": ([*SEEDED, "--include-rule", "some"], ["'some'", "ordered"]),
    "output without a folder": ([*SEEDED, "-o", "absent/x.tck"], ["absent", "does not exist"]),
    "output is a folder": ([*SEEDED, "-o", "folder.tck"], ["folder.tck is a folder"]),
    "table is the current folder": (["measure", "a.tck", "-o", "."], [". is a folder"]),
    "weights are the root folder": (
        ["select", "a.tck", "-o", "s.tck", "--out-weights", "/"], ["/ is a folder"]
    ),
    "output of unknown ending": ([*SEEDED, "-o", "out.png"], ["out.png", ".trk"]),
    "nothing found": ([*SEEDED, "--min-length", "1900"], ["No streamlines", "minimum length"]),
    "output with too long a name": ([*SEEDED, "-o", LONG + ".tck"], [LONG, "too long"]),
    "region with too long a name": ([*SEEDED, "--include", LONG + ":3"], [LONG]),
    "sphere too far away": ([*SEEDED, "--exclude", "1e39,0,0,1"], ["1e+39", "32 bits"]),
    "random seed too large": (
        [*SEEDED, "--seed", str(2**63)], [f"= {2**63} is", f"0 to {2**63 - 1}."]
    ),
    "streamlines over weights": (
        ["select", "a.tck", "-o", "s.tck", "--weights", "w.txt", "--out-weights", "s.tck"],
        ["s.tck is to be written twice"],
    ),
    "weights over those beside": (
        [
            *("select", "a.tck", "-o", "s.tck", "--weights", "w.txt", "--data-beside"),
            *("--out-weights", "s.weights.txt"),
        ],
        ["s.weights.txt is to be written twice"],
    ),
    "lengths over counts": (
        ["connectome", "a.tck", "labels.nii.gz", "-o", "c.csv", "--lengths", "./c.csv"],
        ["c.csv is to be written twice"],
    ),
    "error over probability": (
        ["visitation", "a.tck", "-o", "v.nii", "--error", "v.nii", "--template", "mask.nii.gz"],
        ["v.nii is to be written twice"],
    ),
    "asymmetry over measures": (
        ["measure", "a_left.tck", "a_right.tck", "-o", "m.csv", "--asymmetry", "m.csv"],
        ["m.csv is to be written twice"],
    ),
    "plot over table": (
        ["profile", "a.tck", "3d.nii", "-o", "p.svg", "--plot", "p.svg"],
        ["p.svg is to be written twice"],
    ),
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
    "folder without a cluster": (
        [*TRACK, "--seed-fod", "--cluster-folder", "."], ["--cluster-folder . is for a cluster"]
    ),
    "cluster without an address": (
        [*TRACK, "--seed-fod", "--cluster", "here"], ["--cluster = 'here' is no address"]
    ),
    "coherence of an image": (["coherence", "3d.nii"], ["has shape"]),
    "replay of something else": (["replay", "other.json"], ["other.json is no recipe"]),
    "selection from nothing": (["select", "absent.tck", "-o", "x.tck"], ["absent.tck"]),
    "replay of nothing": (["replay", "absent.json"], ["absent.json does not exist"]),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_line_and_leaves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    _wrong_files(folder)
    Path("folder.tck").mkdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("napari-tractography: ")
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    for word in words:
        assert word in err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_too_little_memory_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any, **_options: Any) -> None:
        raise MemoryError("Unable to allocate 1.40 TiB")

    monkeypatch.setattr(nt.Seeds, "in_mask", fail)
    assert main(SEEDED) == 2
    err = capsys.readouterr().err
    assert "the memory is not enough (Unable to allocate 1.40 TiB)" in err
    assert "fewer seeds" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("platform", ["", "xcb"])
def test_a_demo_without_a_screen_is_one_line_and_makes_no_folder(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("QT_QPA_PLATFORM", platform)
    monkeypatch.setattr(
        "napari_tractography.plugin.demo.run_demo", lambda *_: pytest.fail("a window")
    )
    assert main(["demo", "--output", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert "xvfb-run -a napari-tractography demo" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr("napari_tractography.plugin.demo.run_demo", lambda *_: 0)
    assert main(["demo"]) == 0


# ------------------------------------------------------------------------------- as its own process


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_for_what_is_printed_is_one_line(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [PROGRAM, "info", "fod.nii.gz"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert "make room" in done.stderr
    with open("/dev/full", "w") as full:  # 1 would mean that streamlines are others
        done = subprocess.run([PROGRAM, "replay", "absent.json"], stderr=full, text=True)
    assert done.returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no such shell")
@pytest.mark.parametrize(("closed", "arguments", "code"), [
    (">&-", "info fod.nii.gz", 0), ("2>&-", "info absent.nii", 2),
])  # fmt: skip
def test_closed_streams_are_no_trouble(
    folder: Path, closed: str, arguments: str, code: int
) -> None:
    line = f"{PROGRAM} {arguments} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


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


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        pytest.param(["info", "fod.nii.gz"], "", id="info"),
        pytest.param(["info", "fod.nii.gz"], "1", id="info, unbuffered"),
        pytest.param(["coherence", "fod.nii.gz", "--json"], "", id="coherence"),
        pytest.param([*TRACK[:-1], "--seed-fod"], "", id="track"),
        pytest.param(["info", "--help"], "", id="help"),
    ],
)
def test_process_whose_reader_goes_away_ends_quietly(
    folder: Path, words: list[str], unbuffered: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does when it has seen enough
    try:
        found = subprocess.run(
            [PROGRAM, *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert found.stderr == ""
    assert found.returncode == 141  # 128 and the number of SIGPIPE


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_head_takes_the_first_line_and_no_more(folder: Path) -> None:
    found = subprocess.run(
        f"{shlex.quote(str(PROGRAM))} info fod.nii.gz | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "name        fod.nii.gz\n"
    assert found.stderr == ""


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "napari_tractography", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"napari-tractography {__version__}\n")
