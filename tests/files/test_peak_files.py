"""FSL's directions with the amplitudes beside them, and DIPY's peaks, read in one go."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.errors import FileError
from napari_tractography.files.fods import fod_reader, load_fod
from napari_tractography.files.peak_files import PeakReader
from napari_tractography.files.volume_files import load_grid
from napari_tractography.recipes.sources import FodSource

SHAPE = (4, 3, 2)
# Determinant below zero: FSL's x runs as the voxels' does, and voxels' to the left.
AFFINE = np.diag([-2.0, 2.0, 2.0, 1.0])


def save(path: Path, values: np.ndarray) -> Path:
    nib.save(nib.Nifti1Image(np.asarray(values, np.float32), AFFINE), path)
    return path


@pytest.fixture
def bedpostx(tmp_path: Path) -> Path:
    """Two fibres a voxel, 0.6 along x and 0.3 along y."""
    along = np.zeros((2, *SHAPE, 3))
    along[0, ..., 0] = along[1, ..., 1] = 1.0
    for number, (vectors, fraction) in enumerate(zip(along, (0.6, 0.3), strict=True), 1):
        save(tmp_path / f"dyads{number}.nii.gz", vectors)
        save(tmp_path / f"mean_f{number}samples.nii.gz", np.full(SHAPE, fraction))
    return tmp_path


def test_dyads_are_stacked_with_their_fractions(bedpostx: Path) -> None:
    fod = load_fod(bedpostx / "dyads1.nii.gz")
    assert (fod.kind, fod.vectors.axes) == ("peaks", "fsl")
    np.testing.assert_allclose(fod.vectors.numbers[0], [-0.6, 0, 0, 0, 0.3, 0], atol=1e-6)
    # Whichever is named; and what is missing counts as 1.
    (bedpostx / "mean_f2samples.nii.gz").unlink()
    fod = load_fod(bedpostx / "dyads2.nii.gz", kind="peaks")
    np.testing.assert_allclose(fod.vectors.numbers[0], [0, 1, 0, -0.6, 0, 0], atol=1e-6)


def test_the_main_direction_of_a_tensor_comes_with_its_fa(bedpostx: Path) -> None:
    vectors = np.zeros((*SHAPE, 3))
    vectors[..., 2] = 1.0
    path = save(bedpostx / "dti_V1.nii.gz", vectors)
    save(bedpostx / "dti_FA.nii.gz", np.full(SHAPE, 0.7))
    np.testing.assert_allclose(load_fod(path).vectors.numbers[0], [0, 0, 0.7], atol=1e-6)


def test_a_name_of_fsls_without_its_amplitudes_is_a_guess(
    tmp_path: Path, bedpostx: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of MRtrix3's ``tensor2metric -vector V1.nii.gz`` the axes would be wrong."""
    load_fod(bedpostx / "dyads1.nii.gz")
    assert not caplog.messages
    path = save(tmp_path / "V1.nii.gz", np.broadcast_to([1.0, 0, 0], (*SHAPE, 3)))
    assert load_fod(path, axes="scanner").vectors.axes == "scanner"
    assert not caplog.messages
    assert load_fod(path).vectors.axes == "fsl"
    assert "V1.nii.gz is read in FSL's axes because of its name alone" in caplog.messages[0]


def test_what_does_not_belong_together_is_named(bedpostx: Path) -> None:
    save(bedpostx / "mean_f1samples.nii.gz", np.ones((4, 3, 3)))
    with pytest.raises(FileError, match=r"mean_f1samples.nii.gz has shape .* does not belong"):
        load_fod(bedpostx / "dyads1.nii.gz")


def test_recipes_read_them_again(bedpostx: Path) -> None:
    path = bedpostx / "dyads1.nii.gz"
    fod, source = FodSource.file(path, kind="auto", hashed=False).read()
    assert (source.kind, source.axes) == ("peaks", "fsl")
    again = source.load()
    np.testing.assert_array_equal(again.vectors.numbers, fod.vectors.numbers)


def test_the_reader_knows_the_grid_before_it_reads(tmp_path: Path, bedpostx: Path) -> None:
    pytest.importorskip("h5py", reason="DIPY's .pam5 files are HDF5")
    from dipy.data import default_sphere
    from dipy.direction.peaks import PeaksAndMetrics
    from dipy.io.peaks import save_pam

    made = PeaksAndMetrics()
    made.affine, made.sphere = AFFINE, default_sphere
    made.peak_dirs = np.zeros((*SHAPE, 2, 3))
    made.peak_dirs[..., 0, 1] = 1.0
    made.peak_values = np.full((*SHAPE, 2), 0.4)
    made.peak_indices = np.zeros((*SHAPE, 2), int)
    save_pam(str(tmp_path / "peaks.pam5"), made)
    for path in (tmp_path / "peaks.pam5", bedpostx / "dyads1.nii.gz"):
        reader = fod_reader(path)
        assert isinstance(reader, PeakReader)
        assert reader.grid.shape == SHAPE
        np.testing.assert_array_equal(reader.grid.affine, AFFINE)
        assert load_grid(path) == reader.grid
        fod, sha256 = reader.read(hashed=True)
        assert reader.progress == 1.0
        assert reader.map_read.is_set()
        np.testing.assert_array_equal(reader.isotropic, fod.overview())
        assert len(sha256) == 64
    (tmp_path / "peaks.pam5").write_bytes(b"nothing")
    for read in (fod_reader, load_grid):
        with pytest.raises(FileError, match=r"peaks.pam5 is no .pam5 file"):
            read(tmp_path / "peaks.pam5")
