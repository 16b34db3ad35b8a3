"""The command `density`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main

Track = Callable[..., int]


def test_density(folder: Path, track: Track, capsys: pytest.CaptureFixture[str]) -> None:
    assert track() == 0
    assert main(["density", "b.tck", "-o", "d.nii.gz", "--template", "fod.nii.gz"]) == 0
    image = nib.load("d.nii.gz")
    fod = nt.load_fod("fod.nii.gz")
    found = np.asarray(image.dataobj)
    assert np.array_equal(found, nt.density(nt.load_tractogram("b.tck"), fod))
    assert found.max() > 1
    assert np.allclose(image.affine, fod.grid.affine)
    assert "d.nii.gz" in capsys.readouterr().out


def test_ends_by_reason(folder: Path, track: Track, capsys: pytest.CaptureFixture[str]) -> None:
    assert track("-o", "b.trx") == 0
    words = ["density", "b.trx", "-o", "ends.nii.gz", "--template", "fod.nii.gz", "--by-reason"]
    assert main(words) == 0
    said = capsys.readouterr().out
    lines = nt.load_tractogram("b.trx")
    reasons = {reason for reason, _ in lines.ends()}
    assert len(reasons) > 1
    assert not Path("ends.nii.gz").exists()
    for reason in reasons:
        found = np.asarray(nib.load(f"ends_{reason.name}.nii.gz").dataobj)
        assert found.sum() == dict(lines.ends())[reason]
        assert f"{found.sum()} ends in {(found > 0).sum()} voxels: {reason.text}" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "do not tell why they ended"), (("--at-least", "2"), "leave out --weights and")],
)
def test_ends_by_reason_need_reasons_and_nothing_else(
    words: tuple[str, ...], said: str, folder: Path, track: Track, capsys: pytest.CaptureFixture
) -> None:
    assert track() == 0  # a .tck, which holds no reasons
    shared = ["density", "b.tck", "-o", "e.nii.gz", "--template", "fod.nii.gz", "--by-reason"]
    assert main([*shared, *words]) == 2
    assert said in capsys.readouterr().err
