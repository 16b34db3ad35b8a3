"""No command writes over what it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from napari_tractography.cli import main

DENSITY = ["density", "one.tck", "--template", "mask.nii.gz", "-o"]
VISITATION = ["visitation", "one.tck", "--template", "mask.nii.gz", "-o", "v.nii", "--error"]
COMMANDS = {
    "a connectome over its streamlines": [
        "connectome",
        "one.tck",
        "labels.nii.gz",
        "-o",
        "one.tck",
    ],
    "a connectome over its labels": [
        "connectome",
        "one.tck",
        "labels.nii.gz",
        "-o",
        "labels.nii.gz",
    ],
    "a map over its template": [*DENSITY, "./mask.nii.gz"],
    "errors over their template": [*VISITATION, "mask.nii.gz"],
    "measures over their scalar map": ["measure", "one.tck", "--scalar", "fa.nii", "-o", "fa.nii"],
    "a profile over its streamlines": ["profile", "one.tck", "fa.nii", "-o", "one.tck"],
    "losses over their cavity": [
        *("resect", "one.tck", "--cavity", "labels.nii.gz:2", "-o", "labels.nii.gz")
    ],
    "a sweep over its recipe": ["sweep", "one.json", "--vary", "step=1,2", "-o", "one.json"],
    "weights over their streamlines": [
        *("select", "one.tck", "-o", "s.tck", "--out-weights", "one.tck")
    ],
}


@pytest.mark.parametrize("words", [pytest.param(w, id=name) for name, w in COMMANDS.items()])
def test_what_is_read_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    for name in ("one.tck", "fa.nii"):
        Path(name).write_bytes(b"never read")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{words[-1]} is read, and would be overwritten; give the output another name." in line
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
