"""A folder with an FOD and a mask for recipes to name."""

from __future__ import annotations

import shutil
from pathlib import Path

import nibabel as nib
import pytest

import napari_tractography as nt
from napari_tractography.files.volume_files import save_volume
from napari_tractography.model.phantoms import make_phantom, phantom_mask


@pytest.fixture(scope="session")
def drawing() -> nt.Fod:
    return make_phantom("arcs", lmax=6)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, drawing: nt.Fod) -> Path:
    """A folder with fod.nii.gz and mask.nii.gz, which takes a while to compress."""
    place = tmp_path_factory.mktemp("written")
    image = nib.Nifti1Image(drawing.coefficients, drawing.grid.affine)
    nib.save(image, place / "fod.nii.gz")
    save_volume(phantom_mask("arcs"), drawing.grid, place / "mask.nii.gz")
    return place


@pytest.fixture
def folder(tmp_path: Path, written: Path) -> Path:
    """A folder with files as in `written`."""
    return Path(shutil.copytree(written, tmp_path / "data"))
