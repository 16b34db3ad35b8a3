"""What is tracked in the speed comparison: a phantom, or the files that are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from napari_tractography.benchmark.cases import make_case
from napari_tractography.benchmark.peers.mrtrix import write_fod, write_mask
from napari_tractography.errors import InvalidMaskError
from napari_tractography.model.phantoms import make_phantom, phantom_mask


def test_without_files_a_phantom_is_tracked() -> None:
    case = make_case(n_threads=3)
    assert case.fod.name == "arcs"
    assert np.array_equal(case.mask, phantom_mask("arcs"))
    assert case.n_threads == 3


def test_a_named_fod_is_tracked_where_it_is_or_in_the_mask(tmp_path: Path) -> None:
    fod = make_phantom("letter", lmax=4)
    path = write_fod(fod, tmp_path / "fod.nii")
    inside = phantom_mask("letter")
    mask = write_mask(inside, fod, tmp_path / "mask.nii")
    assert np.array_equal(make_case(path).mask, fod.support)
    assert np.array_equal(make_case(path, mask).mask, inside)
    assert make_case(path, frame="voxel").fod.frame == "voxel"


def test_mask_on_another_grid_is_refused(tmp_path: Path) -> None:
    fod = make_phantom("arcs")
    shifted = np.array(fod.grid.affine)
    shifted[0, 3] += 1.0
    path = write_fod(fod, tmp_path / "fod.nii")
    mask = write_mask(
        phantom_mask("arcs"), make_phantom("arcs", affine=shifted), tmp_path / "mask.nii"
    )
    with pytest.raises(InvalidMaskError, match="resample"):
        make_case(path, mask)
