"""Files that hold an FOD are told from others by header and values, before they are read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import scans
from scans import FROM_DIPY

from napari_tractography.errors import FileError, InvalidFodError, InvalidParameterError
from napari_tractography.files import recognition
from napari_tractography.files.fod_reader import FodReader
from napari_tractography.files.fods import load_fod, load_fod_hashed
from napari_tractography.files.recognition import kind_of
from napari_tractography.phantoms import make_phantom

FODS = ("fibercup/fod.nii.gz", "brain/fod_template.mif.gz", "yoga/fod_sh8.nii.gz",
        "cross/fod.nii.gz", "act/fods.mif", "reference/brain_fod_as_nifti.nii.gz")  # fmt: skip

Run = Callable[..., Path]


def save(path: Path, values: np.ndarray, intent: str = "none") -> Path:
    """Write voxels one after the other along x."""
    if values.ndim == 2:
        values = values.reshape(-1, 1, 1, values.shape[1])
    image = nib.Nifti1Image(values.astype(np.float32), np.eye(4))
    image.header.set_intent(intent)
    nib.save(image, path)
    return path


def name_of(path: Path) -> str:
    kind = kind_of(path)
    assert kind is not None
    return kind.name


@pytest.fixture
def mrtrix(tmp_path: Path) -> Run:
    """Runs a program of MRtrix3 on files; the last argument is the name of what it writes."""
    if shutil.which("mrconvert") is None:
        pytest.skip("MRtrix3 is not installed")

    def run(*arguments: object) -> Path:
        *first, last = map(str, arguments)
        command = [*first, str(tmp_path / last), "-quiet", "-force"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return tmp_path / last

    return run


@pytest.fixture
def phantom(tmp_path: Path) -> Path:
    fod = make_phantom("arcs")
    path = tmp_path / "fod.nii"
    nib.save(nib.Nifti1Image(fod.coefficients, fod.grid.affine), path)
    return path


@pytest.mark.parametrize("name", FODS)
def test_real_fods_are_told(shared_data: Path, name: str) -> None:
    assert name_of(shared_data / name) == "sh"


def test_real_peaks_and_tissues_are_told(shared_data: Path) -> None:
    for path in [*shared_data.glob("subject/tom/*"), shared_data / "subject/peaks.nii.gz"]:
        assert name_of(path) == "peaks"
    with pytest.raises(InvalidFodError, match=r"5tt\.mif holds no FOD in its 5 volumes but masks"):
        load_fod(shared_data / "act/5tt.mif")


@pytest.mark.parametrize("name", FODS[:5])
def test_what_mrtrix_makes_of_an_fod_is_told(shared_data: Path, mrtrix: Run, name: str) -> None:
    source = shared_data / name
    fixels = mrtrix("fod2fixel", source, "-peak", "peak.mif", "fixels")
    for n, ending in ((1, "nii"), (2, "mif"), (3, "mif"), (5, "nii.gz")):
        made = mrtrix("sh2peaks", source, "-num", n, f"peaks{n}.{ending}")
        assert name_of(made) in ("peaks", "unclear")
        assert name_of(mrtrix("fixel2peaks", fixels, "-number", n, f"f{n}.{ending}")) != "sh"
    for n in (6, 15, 28, 45):
        directions = mrtrix("dirgen", n, "-restarts", 1, "-niter", 100, f"{n}.txt")
        assert name_of(mrtrix("sh2amp", source, directions, f"a{n}.mif")) == "amplitudes"
        signed = mrtrix("sh2amp", source, directions, f"a{n}.nii")
        assert name_of(signed) in ("series", "unclear", "peaks")
        assert name_of(mrtrix("sh2amp", source, directions, "-nonnegative", "b.nii")) == "series"
    for changed in ("a.mif", "b.nii.gz"):
        degree_2 = mrtrix("mrconvert", source, "-coord", 3, "0:5", changed)
        assert name_of(degree_2) == "sh"
        assert name_of(mrtrix("mrcalc", degree_2, 0, "-gt", f"m{changed}")) == "masks"


def test_what_mrtrix_makes_of_a_dwi_is_told(tmp_path: Path, mrtrix: Run) -> None:
    table, data = scans.scan(1000.0, 2000.0, n=45)
    source = save(tmp_path / "source.nii", data)
    (tmp_path / "bvals").write_text(" ".join(map(str, table.bvals)))
    np.savetxt(tmp_path / "bvecs", table.bvecs.T)
    dwi = mrtrix("mrconvert", source, "-fslgrad", tmp_path / "bvecs", tmp_path / "bvals", "dwi.mif")
    assert name_of(dwi) == "dwi"
    assert name_of(source) == "series"
    assert name_of(mrtrix("dwi2tensor", dwi, "-dkt", tmp_path / "dkt.mif", "dt.mif")) == "tensor"
    assert name_of(tmp_path / "dkt.mif") == "kurtosis"
    assert name_of(mrtrix("dwiextract", dwi, "-shells", "0,1000", "shell.mif")) == "dwi"
    (tmp_path / "response.txt").write_text("1400 -700 200 -40 5\n")
    for lmax in (4, 6, 8):  # lmax 8 has 45 coefficients, the shell as many directions
        fod = mrtrix(
            "dwi2fod", "csd", dwi, "-shells", 2000, "-lmax", lmax, tmp_path / "response.txt",
            f"fod{lmax}.mif",
        )  # fmt: skip
        assert name_of(fod) == "sh"


@pytest.mark.parametrize("order", FROM_DIPY)
def test_a_tensor_is_refused_with_what_to_do(tmp_path: Path, order: str) -> None:
    path = save(tmp_path / "dt.nii.gz", scans.tensors()[:, FROM_DIPY[order]])
    message = (
        rf"dt\.nii\.gz holds no FOD in its 6 volumes but diffusion tensors.*{order}; .*dwi2fod"
    )
    for read in (load_fod, load_fod_hashed, FodReader):
        with pytest.raises(InvalidFodError, match=message):
            read(path)
    assert load_fod(path, kind="sh").lmax == 2


def test_a_header_that_says_so_counts_before_the_values(tmp_path: Path, phantom: Path) -> None:
    fod = nib.load(phantom).get_fdata()
    assert name_of(save(tmp_path / "t.nii", fod[..., :6], "symmetric matrix")) == "tensor"
    flat = save(tmp_path / "t5.nii", fod[..., np.newaxis, :6], "symmetric matrix")
    with pytest.raises(InvalidFodError, match=r"t5\.nii .* 6 volumes but diffusion tensors"):
        load_fod(flat)
    (tmp_path / "fod.bval").write_text("0 " + "1000 " * (fod.shape[3] - 1))
    assert name_of(phantom) == "dwi"
    (tmp_path / "fod.bval").write_text("0 1000 1000")  # of something else
    assert name_of(phantom) == "sh"
    (tmp_path / "fod.bval").write_bytes(b"\xff\xfe")
    assert name_of(phantom) == "sh"


LAYOUTS = ["1,2,3,4", "2,3,4,1", "-1,-2,3,-4", "1,3,4,2"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
def test_neither_layout_nor_size_matters(
    phantom: Path, mrtrix: Run, layout: str, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large file the first volumes are looked at, of a part of the voxels."""
    if is_large:
        monkeypatch.setattr(recognition, "MAX_VALUES", 1000)
        monkeypatch.setattr(recognition, "MAX_VOXELS", 300)
        monkeypatch.setattr(recognition, "CHUNK_VALUES", 2000)
    path = mrtrix("mrconvert", phantom, "-strides", layout, "turned.mif")
    assert name_of(path) == "sh"
    peaks = mrtrix("sh2peaks", phantom, "-num", 5, "peaks.mif")
    assert name_of(mrtrix("mrconvert", peaks, "-strides", layout, "p.mif")) == "peaks"


def test_a_large_file_is_not_read_to_its_end(
    tmp_path: Path, phantom: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = phantom.read_bytes()
    n_volumes = nib.load(phantom).shape[3]
    volume = (len(whole) - 352) // n_volumes
    broken = tmp_path / "broken.nii"
    broken.write_bytes(whole[: 352 + 6 * volume] + b"\xff" * (len(whole) - 352 - 6 * volume))
    monkeypatch.setattr(recognition, "MAX_VALUES", 0)
    assert name_of(broken) == "sh"


def test_fods_say_what_they_were_read_from(phantom: Path) -> None:
    assert load_fod(phantom).kind == load_fod(phantom, kind="sh").kind == "sh"
    assert make_phantom("cross").kind == "sh"


def test_other_kinds_are_refused_before_the_file_is_read(
    phantom: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recognition, "recognise", lambda *_: pytest.fail("looked"))
    for kind, message in (("peaks", "not tracked"), ("tensor", "dwi2fod"), ("dwi", "unknown")):
        with pytest.raises(InvalidParameterError, match=message):
            load_fod(phantom, kind=kind)
    assert load_fod(phantom, kind="sh").n_voxels


def test_a_single_map_an_empty_and_a_truncated_file(tmp_path: Path, phantom: Path) -> None:
    single = save(tmp_path / "fa.nii", np.random.default_rng(0).random((4, 4, 4, 1)))
    with pytest.raises(InvalidFodError, match=r"fa\.nii holds no FOD in its only volume but a si"):
        load_fod(single)
    assert load_fod(single, kind="sh").lmax == 0
    empty = save(tmp_path / "empty.nii", np.zeros((4, 4, 4, 6)))
    assert kind_of(empty) is None
    cut = tmp_path / "cut.nii"
    cut.write_bytes(phantom.read_bytes()[:5000])
    with pytest.raises(FileError, match="truncated"):
        kind_of(cut)


def test_voxels_that_are_not_finite_are_left_out(tmp_path: Path, phantom: Path) -> None:
    image = nib.load(phantom)
    values = image.get_fdata(dtype=np.float32)
    values[values[..., 0] == 0] = np.nan
    values[3, 3] = np.inf
    nib.save(nib.Nifti1Image(values, image.affine), tmp_path / "nan.nii.gz")
    assert name_of(tmp_path / "nan.nii.gz") == "sh"
