"""The command `info`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.fields.sh import sh_matrix

Track = Callable[..., int]


def test_info_of_an_fod(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "fod.nii.gz"]) == 0
    told = capsys.readouterr().out
    assert "lmax 6, 28 coefficients, tournier07" in told
    assert "scanner axes" in told
    assert "sh: SH coefficients, by header and values" in told
    assert main(["info", "fod.nii.gz", "--kind", "sh"]) == 0
    assert "sh: SH coefficients, as given" in capsys.readouterr().out


def test_info_of_tensors_names_order_and_axes_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = np.tile([3.0, 0.4, -0.2, 2.0, -0.1, 1.0], (4, 4, 4, 1)).astype(np.float32)
    nib.save(nib.Nifti1Image(tensors, np.eye(4)), "dti_tensor.nii")
    for asked, recognised in ([], "by header and values"), (["--order", "fsl"], "as given"):
        kind = ["--kind", "tensor"] if asked else []
        assert main(["info", "dti_tensor.nii", *kind, *asked]) == 0
        told = capsys.readouterr().out
        assert f"kind        tensor: diffusion tensors, {recognised}\n" in told
        assert "axes        fsl\norder       fsl\n" in told
    assert nt.load_fod("dti_tensor.nii").description == "Diffusion tensors, order of fsl, fsl axes"


def test_axes_of_an_fod_are_told_to_mean_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["info", "fod.nii.gz", "--axes", "fsl", "--frame", "voxel"]) == 0
    assert caplog.messages == [
        "--axes fsl has no effect in SH coefficients, but in peaks and tensors."
    ]


def test_what_nibabel_says_of_a_header_is_said_once(folder: Path) -> None:
    image = nib.load("fod.nii.gz")
    header = image.header.copy()
    header["sform_code"], header["vox_offset"] = 99, 352
    values = np.asarray(image.dataobj).astype(header.get_data_dtype())
    Path("odd.nii").write_bytes(
        header.binaryblock + bytes(4) + np.ravel(values, order="F").tobytes()
    )
    code = "import sys; from napari_tractography.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "info", "odd.nii"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert told.count("sform_code 99 not valid") == 1, told


@pytest.mark.parametrize("unit", ["mm", "micron", "meter", "unknown"])
def test_a_unit_that_is_not_heeded_is_said(
    folder: Path, caplog: pytest.LogCaptureFixture, unit: str
) -> None:
    image = nib.load("fod.nii.gz")
    image.header.set_xyzt_units(xyz=unit)
    nib.save(image, "other.nii.gz")
    assert main(["info", "other.nii.gz"]) == 0
    named = {"micron": "micrometre", "meter": "metre"}.get(unit)
    assert (f"names the {named} as its unit, but is read in mm" in caplog.text) == bool(named)


def test_info_of_a_tractogram(
    folder: Path, track: Track, capsys: pytest.CaptureFixture[str]
) -> None:
    assert track() == 0
    assert main(["info", "b.tck"]) == 0
    assert nt.load_tractogram("b.tck").digest() in capsys.readouterr().out


def test_an_asymmetric_fod_is_told_tracked_and_tracked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lobes to the one side of x, half as large ones to the other, in DIPY's basis."""
    monkeypatch.chdir(tmp_path)
    units = np.array([[1.0, 0.1, 0.0], [-1.0, 0.1, 0.0]])
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    fall = np.exp(-0.05 * np.repeat(np.arange(5), 2 * np.arange(5) + 1) ** 2)
    values = (np.array([[1.0], [0.5]]) * sh_matrix(units, 4, "descoteaux07", True) * fall).sum(0)
    volume = np.tile(values, (12, 5, 5, 1)) * np.linspace(1, 2, 25).reshape(1, 5, 5, 1)
    nib.save(nib.Nifti1Image(volume.astype(np.float32), np.eye(4)), "a.nii.gz")
    assert main(["info", "a.nii.gz", "--basis", "descoteaux07"]) == 0
    told = capsys.readouterr().out
    assert "kind        sh: SH coefficients, by header and values" in told
    assert "lmax 4, 25 coefficients, odd degrees too: asymmetric, descoteaux07" in told
    words = ["--basis", "descoteaux07", "--seed-sphere=6,2,2,1", "--n-seeds", "40", "--quiet"]
    assert main(["track", "a.nii.gz", "-o", "b.tck", *words]) == 0
    capsys.readouterr()
    assert main(["replay", "b.json", "-o", "again.tck", "--threads", "1"]) == 0
    assert "the same streamlines" in capsys.readouterr().out
    lines = nt.load_tractogram("b.tck")
    assert len(lines) == 40
