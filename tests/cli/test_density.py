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
