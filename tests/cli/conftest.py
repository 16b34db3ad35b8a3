"""A folder with small files to work on, and the command that is tried most."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography.cli import main
from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.phantoms import make_phantom, phantom_mask

RUN = ("--n-seeds", "50", "--n-directions", "256", "--step", "1", "--quiet")


@pytest.fixture(scope="session")
def drawing() -> nt.Fod:
    return make_phantom("arcs", lmax=6)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, drawing: nt.Fod) -> Path:
    """A folder with fod.nii.gz, mask.nii.gz and labels.nii.gz, which takes a while to compress."""
    place = tmp_path_factory.mktemp("written")
    nib.save(nib.Nifti1Image(drawing.coefficients, drawing.grid.affine), place / "fod.nii.gz")
    save_volume(phantom_mask("arcs"), drawing.grid, place / "mask.nii.gz")
    labels = np.ones(drawing.grid.shape, np.uint8)
    labels[drawing.grid.shape[0] // 2 :] = 4
    save_volume(labels, drawing.grid, place / "labels.nii.gz")
    return place


@pytest.fixture
def folder(tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files as in `written`."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def track(folder: Path) -> Callable[..., int]:
    """The sub-command `track` on fod.nii.gz, into b.tck; takes further words."""

    def run(*arguments: str) -> int:
        return main(
            ["track", "fod.nii.gz", "-o", "b.tck", "--seed-mask", "mask.nii.gz", *RUN, *arguments]
        )

    return run
