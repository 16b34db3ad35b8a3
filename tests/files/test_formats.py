"""Formats of files: a new one is a file and a line, from which all else follows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from toy_formats import add_toys, write_toyvol

from napari_tractography.cli import main
from napari_tractography.errors import FileError
from napari_tractography.files import formats
from napari_tractography.files.fods import load_fod
from napari_tractography.files.image_files import open_image
from napari_tractography.files.volume_files import load_grid, load_mask, load_volume, save_volume
from napari_tractography.files.weights import columns_of, load_weights
from napari_tractography.geometry.grid import Grid
from napari_tractography.maps.scalar_maps import name_of
from napari_tractography.model.phantoms import make_phantom
from napari_tractography.streamlines.streaming import save_chunks
from napari_tractography.streamlines.tractogram import Tractogram, load_tractogram

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "napari_tractography"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef
GRID = Grid(
    (4, 5, 3), [[-1.9, 0.3, 0.1, 9.5], [0.4, 2.1, 0.2, -12.25], [-0.2, -0.1, 2.9, -7], [0, 0, 0, 1]]
)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    add_toys(monkeypatch)


def lines() -> Tractogram:
    points = GRID.to_mm(np.random.default_rng(7).uniform(0, 2, (17, 3)))
    return Tractogram(points, np.array([0, 5, 7, 17]))


# ------------------------------------------------------------------------ a new one for streamlines


def test_streamlines_are_written_read_and_checked(tmp_path: Path) -> None:
    lines().save(tmp_path / "t.toy", reference=GRID)
    assert (tmp_path / "t.toy").read_text().startswith("toy (4, 5, 3)\n")
    assert load_tractogram(tmp_path / "t.toy").digest() == lines().digest()
    save_chunks([lines(), lines()], tmp_path / "streamed.toy", reference=GRID)
    assert len(load_tractogram(tmp_path / "streamed.toy")) == 6
    (tmp_path / "bad.toy").write_text("toy\n1 2 x")
    with pytest.raises(FileError, match=r"bad\.toy is truncated or corrupt"):
        load_tractogram(tmp_path / "bad.toy")
    (tmp_path / "nan.toy").write_text("toy\n1 2 nan")
    with pytest.raises(FileError, match=r"nan\.toy: 1 points are not finite"):
        load_tractogram(tmp_path / "nan.toy")
    with pytest.raises(FileError, match=r"\.trx, \.vtk, \.toy\.$"):
        lines().save(tmp_path / "t.xyz")


def test_values_per_streamline_are_weights(tmp_path: Path) -> None:
    lines().save(tmp_path / "t.toy")
    assert columns_of(tmp_path / "t.toy") == ["quarters"]
    assert load_weights(tmp_path / "t.toy", "quarters").tolist() == [0, 0.25, 0.5]


def test_the_command_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, part, counts = (tmp_path / name for name in ("t.toy", "part.toy", "counts.toyvol"))
    lines().save(whole)
    assert main(["info", str(whole)]) == 0
    assert lines().digest() in capsys.readouterr().out
    weighed = ["--weights", "quarters", "--min-weight", "0.3"]
    assert main(["select", str(whole), "-o", str(part), *weighed]) == 0
    assert len(load_tractogram(part)) == 1
    write_toyvol(np.zeros(GRID.shape), GRID, tmp_path / "grid.toyvol")
    template = ["--template", str(tmp_path / "grid.toyvol")]
    assert main(["density", str(whole), "-o", str(counts), *template]) == 0
    assert load_volume(counts)[1] == GRID
    assert load_volume(counts)[0].max() >= 1


def test_the_help_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    for command, text in {
        "track": "peaks or tensors: .nii, .nii.gz, .mif, .mif.gz, .mih, .pam5 or .toyvol",
        "select": "tractogram: .tck, .tck.gz, .trk, .trk.gz, .trx, .vtk, .vtp or .toy",
        "replay": "tck|trk|trx|vtk|toy",
        "density": ".nii, .nii.gz or .toyvol",
        "connectome": "a .tck, .tck.gz, .trk, .trk.gz, .trx, .vtk, .vtp or .toy tractogram",
    }.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert text in " ".join(capsys.readouterr().out.split()), command


# ---------------------------------------------------------------------------- a new one for volumes


def test_volumes_and_fods_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "fa.toyvol"
    values = np.arange(60, dtype=np.float32).reshape(GRID.shape)
    save_volume(values, GRID, path)
    found, grid = load_volume(path)
    np.testing.assert_array_equal(found, values)
    assert grid == load_grid(path) == GRID
    assert load_mask(path)[0].sum() == 59
    np.testing.assert_array_equal(open_image(path, axes="xyz"), values)
    assert name_of(path) == "fa"
    fod = make_phantom("cross", lmax=2)
    write_toyvol(fod.coefficients, fod.grid, tmp_path / "fod.toyvol")
    np.testing.assert_array_equal(load_fod(tmp_path / "fod.toyvol").values, fod.values)
    with pytest.raises(FileError, match=r"\.nii, \.nii\.gz, \.toyvol\.$"):
        save_volume(values, GRID, tmp_path / "fa.mif")


# ------------------------------------------------------------------------------------- what is said


def test_the_manifest_asks_napari_for_them(load_script: Any) -> None:
    contributions = yaml.safe_load(load_script("docs").manifest_page())["contributions"]
    volumes, streamlines, _ = (row["filename_patterns"] for row in contributions["readers"])
    assert volumes[-2:] == ["*.pam5", "*.toyvol"]
    known = ("tck", "tck.gz", "trk", "trk.gz", "trx", "vtk", "vtp", "toy")
    assert streamlines == [f"*.{ending}" for ending in known]
    (writer,) = contributions["writers"]
    assert writer["filename_extensions"] == [".tck", ".trk", ".trx", ".vtk", ".toy"]


def test_the_page_on_files_names_each_ending() -> None:
    page = (ROOT / "docs" / "files.md").read_text("utf-8")
    named = [e for form in formats.FORMATS for e in form.endings if f"`{e}`" in page]
    assert named == [e for form in formats.FORMATS for e in form.endings if "toy" not in e]


def test_formats_know_neither_a_tractogram_nor_what_reads_them() -> None:
    """The command's help asks for endings, and loads nothing heavy."""
    code = "import sys, napari_tractography.files.formats; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "napari_tractography.files.trk" in loaded
    assert {"numpy", "nibabel", "napari_tractography.streamlines.tractogram"}.isdisjoint(loaded)


def test_no_list_of_endings_stands_elsewhere() -> None:
    """Two endings in one text, or in one tuple, list or dict, are a list."""
    known = sorted({e for form in formats.FORMATS for e in form.endings}, key=len, reverse=True)
    ending = re.compile(rf"(?:{'|'.join(map(re.escape, known))})\b")
    found = []
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Constant):
                texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                named = {e for text in texts if isinstance(text, str) for e in ending.findall(text)}
                if len(named) > 1 and id(node) not in docstrings:
                    found.append(path.relative_to(SOURCE).as_posix())
    # Those that are their own, and messages of these formats alone.
    assert set(found) == {
        *("files/nifti.py", "files/mif.py", "files/freesurfer.py"),
        *("files/sequences.py", "files/trk.py", "files/vtk.py"),
    }
