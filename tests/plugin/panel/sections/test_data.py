"""The Data section: FODs and masks from layers and from files, and files that are neither."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from hands import save_fod
from qtpy.QtWidgets import QFileDialog

from napari_tractography.phantoms import make_phantom

MIDDLE = np.zeros((1, 3))


def test_the_mask_that_is_chosen_reaches_the_run(
    open_model: Any, cross: Any, tmp_path: Path, settle: Any
) -> None:
    """Only the right half: every streamline ends at its border at the latest."""
    half = np.zeros(cross.grid.shape, np.uint8)
    half[16:] = 1
    path = tmp_path / "right.nii.gz"
    nib.save(nib.Nifti1Image(half, cross.grid.affine), path)
    panel = open_model(cross)
    panel.session.add_seeds_mm([[8.0, 4.0, 0.0]])
    panel.add_mask(path)
    assert panel.mask_choice.value.name == "right.nii.gz"
    panel.run()
    settle(panel)
    assert panel.session.tractogram.points[:, 0].min() >= cross.grid.to_mm([15.5, 0, 0])[0]
    panel.mask_choice.value = None
    panel.run()
    settle(panel)
    assert panel.session.tractogram.points[:, 0].min() < 0


def test_the_volume_is_a_ghost_in_3d_and_each_view_keeps_its_opacity(
    open_model: Any, cross: Any
) -> None:
    panel = open_model(cross)
    layer, dims = panel.viewer.layers[0], panel.viewer.dims
    assert layer.opacity == 1
    dims.ndisplay = 3
    assert layer.opacity < 0.5
    layer.opacity = 0.7
    dims.ndisplay = 2
    assert layer.opacity == 1
    dims.ndisplay = 3
    assert layer.opacity == 0.7


def broken_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are no FOD, and what must be said."""
    cross = make_phantom("cross", lmax=2)
    good = save_fod(cross, folder / "good.nii.gz")

    def nifti(name: str, values: np.ndarray) -> Path:
        path = folder / name
        nib.save(nib.Nifti1Image(values, np.eye(4)), path)
        return path

    flat = nib.Nifti1Image(np.ones((4, 4, 4, 6), np.float32), None)
    flat.header.set_sform(np.diag([1.0, 1, 0, 1]), code=1)
    nib.save(flat, folder / "flat.nii")
    text = folder / "text.nii.gz"
    text.write_text("not an image")
    cut = folder / "cut.nii"
    cut.write_bytes(gzip.decompress(good.read_bytes())[:2000])
    return {
        "missing": (folder / "nowhere.nii.gz", "nowhere.nii.gz"),
        "unreadable": (text, "text.nii.gz"),
        "truncated": (cut, "cut.nii"),
        "3-D": (nifti("three.nii", np.ones((4, 4, 4), np.float32)), r"(4, 4, 4)"),
        "5-D": (nifti("five.nii", np.ones((4, 4, 4, 6, 2), np.float32)), "2"),
        "no SH count": (nifti("seven.nii", np.ones((4, 4, 4, 7), np.float32)), "7"),
        "zeros": (nifti("zeros.nii", np.zeros((4, 4, 4, 6), np.float32)), "zeros.nii"),
        "NaN": (nifti("nan.nii", np.full((4, 4, 4, 6), np.nan, np.float32)), "nan.nii"),
        "singular": (folder / "flat.nii", "flat.nii"),
        "ending": (folder / "good.png", "png"),
    }


def test_files_that_are_no_fod(
    open_model: Any, tmp_path: Path, notes: list[str], monkeypatch: Any
) -> None:
    panel = open_model()
    for kind, (path, says) in broken_files(tmp_path).items():
        notes.clear()
        monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *args, p=path: (str(p), ""))
        panel.open_fod.click()
        assert len(notes) == 1, kind
        assert notes[0].startswith("error: "), kind
        assert says in notes[0], kind
        assert "\n" not in notes[0], kind
    assert len(panel.viewer.layers) == 0


def test_files_that_are_no_mask(
    open_model: Any, cross: Any, tmp_path: Path, notes: list[str], monkeypatch: Any
) -> None:
    panel = open_model(cross)
    empty = tmp_path / "empty.nii"
    nib.save(nib.Nifti1Image(np.zeros(cross.grid.shape, np.uint8), cross.grid.affine), empty)
    broken = broken_files(tmp_path)
    for path in (empty, broken["missing"][0], broken["unreadable"][0], broken["no SH count"][0]):
        notes.clear()
        monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *args, p=path: (str(p), ""))
        panel.open_mask.click()
        (note,) = notes
        assert note.startswith("error: ")
        assert path.name in note
    assert panel.mask_choice.value is None


def test_voxels_that_are_not_finite_are_mentioned_once(
    open_model: Any, tmp_path: Path, notes: list[str], settle: Any
) -> None:
    fod = make_phantom("cross", lmax=2)
    values = np.array(fod.coefficients)
    values[0, :3, 0] = np.nan
    path = tmp_path / "template.nii.gz"
    nib.save(nib.Nifti1Image(values, fod.grid.affine), path)
    panel = open_model()
    panel.add_fod(path)
    panel.session.add_seeds_mm(MIDDLE)
    panel.run()
    settle(panel)
    (note,) = notes
    assert note.startswith("info: ")
    assert "3" in note
