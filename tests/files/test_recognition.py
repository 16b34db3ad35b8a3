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
from dipy.reconst.shm import real_sh_descoteaux_from_index
from scans import FROM_DIPY

from napari_tractography.errors import FileError, InvalidFodError, InvalidParameterError
from napari_tractography.files import recognition
from napari_tractography.files.fods import FodReader, fod_reader, load_fod
from napari_tractography.files.recognition import kind_of
from napari_tractography.files.volume_files import load_volume
from napari_tractography.model.phantoms import make_phantom

FODS = ("fibercup/fod.nii.gz", "brain/fod_template.mif.gz", "yoga/fod_sh8.nii.gz",
        "cross/fod.nii.gz", "act/fods.mif", "reference/brain_fod_as_nifti.nii.gz")  # fmt: skip


def test_an_order_that_values_do_not_tell_is_told_as_a_guess(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "noise.nii", np.tile([3.0, 2, 1, 0.1, 0.1, 0.1], (40, 1)))
    monkeypatch.setattr(recognition, "recognise", lambda values, n: None)
    load_fod(path, kind="tensor", order="mrtrix")
    assert not caplog.messages
    load_fod(path, kind="tensor")
    assert caplog.messages[0].startswith("The order of the elements in noise.nii is a guess, ")


@pytest.mark.parametrize("lmax", [2, 4, 8])
def test_an_fod_of_all_degrees_is_no_peaks(tmp_path: Path, lmax: int) -> None:
    """9 and 81 volumes are also those of 3 and 27 peaks."""
    units = np.random.default_rng(1).normal(size=(300, 3))
    x, y, z = (units / np.linalg.norm(units, axis=1, keepdims=True)).T
    matrix = real_sh_descoteaux_from_index(
        *_indices(lmax), np.arccos(z)[:, None], np.arctan2(y, x)[:, None], legacy=False
    )
    values = matrix * np.exp(-0.15 * _indices(lmax)[1] ** 2)  # of one direction a voxel
    path = save(tmp_path / "full.nii", values)
    assert name_of(path) == "sh"
    for kind in ("auto", "sh"):
        fod = load_fod(path, kind=kind, basis="descoteaux07")
        assert (fod.is_asymmetric, fod.lmax) == (True, lmax)
    units = np.stack([x, y, z], axis=1)
    amplitudes = fod.amplitudes(units)[:, 0, 0]
    assert (amplitudes.argmax(axis=1) == np.arange(len(units))).mean() > 0.9
    behind = (amplitudes.diagonal() > fod.amplitudes(-units)[:, 0, 0].diagonal()).mean()
    assert behind == 1.0


def test_what_has_as_many_volumes_as_an_asymmetric_fod_is_asked_about(tmp_path: Path) -> None:
    """Noise of nine volumes, or an FOD that is the same in all voxels and has no lobe."""
    rng = np.random.default_rng(3)
    noise = save(tmp_path / "noise.nii", rng.normal(size=(300, 25)))
    with pytest.raises(InvalidFodError, match="or read it as kind sh if it is that all the same"):
        load_fod(noise)
    assert load_fod(noise, kind="sh").is_asymmetric
    images = save(tmp_path / "dwi.nii", rng.uniform(1, 2, size=(300, 9)))
    with pytest.raises(InvalidFodError, match="but a DWI or another series"):
        load_fod(images)
    alike = np.tile([1.0, 0.5, 0, 0, 0.9, 0, -0.9, 0, 0.4], (300, 1))
    assert name_of(save(tmp_path / "alike.nii", alike * rng.uniform(1, 2, (300, 1)))) == "unclear"
    round_ones = np.concatenate([rng.uniform(1, 2, (300, 1)), np.full((300, 24), 1e-4)], axis=1)
    round_ones[:, 1:] *= rng.normal(size=(300, 24))
    assert name_of(save(tmp_path / "round.nii", round_ones)) == "isotropic"


def test_arms_to_one_side_of_fibres_along_z_are_no_images(tmp_path: Path) -> None:
    """Hardly any coefficient is negative where all fibres run up, or nearly."""
    rng = np.random.default_rng(4)
    units = np.array([0, 0, 1.0]) + 0.05 * rng.normal(size=(300, 3)) * [1, 0, 0]
    x, y, z = (units / np.linalg.norm(units, axis=1, keepdims=True)).T
    values = real_sh_descoteaux_from_index(
        *_indices(4), np.arccos(z)[:, None], np.arctan2(y, x)[:, None], legacy=False
    ) * np.exp(-0.05 * _indices(4)[1] ** 2)
    assert name_of(save(tmp_path / "up.nii", values)) == "sh"


def test_three_peaks_to_one_side_are_peaks(tmp_path: Path) -> None:
    """As in a mask of the corpus callosum."""
    rng = np.random.default_rng(2)
    peaks = np.tile([1.0, -0.2, 0.1], (300, 3)) * np.repeat([0.9, 0.5, 0.3], 3)
    peaks += rng.normal(size=peaks.shape) * 0.05
    peaks[:150, 6:] = 0
    assert name_of(save(tmp_path / "peaks.nii", peaks)) == "peaks"


def _indices(lmax: int) -> tuple[np.ndarray, np.ndarray]:
    degrees = np.repeat(np.arange(lmax + 1), 2 * np.arange(lmax + 1) + 1)
    return np.concatenate([np.arange(-k, k + 1) for k in range(lmax + 1)]), degrees


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


def spiral(path: Path, n: int) -> Path:
    """Write n unit vectors spread over half the sphere; return the path."""
    z, azimuth = (np.arange(n) + 0.5) / n, np.pi * (3 - 5**0.5) * np.arange(n)
    radius = np.sqrt(1 - z * z)
    np.savetxt(path, np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), z], 1))
    return path


@pytest.mark.parametrize("name", FODS[:5])
def test_what_mrtrix_makes_of_an_fod_is_told(
    tmp_path: Path, shared_data: Path, mrtrix: Run, name: str
) -> None:
    source = shared_data / name
    fixels = mrtrix("fod2fixel", source, "-peak", "peak.mif", "fixels")
    for n, ending in ((1, "nii"), (2, "mif"), (3, "mif"), (5, "nii.gz")):
        made = mrtrix("sh2peaks", source, "-num", n, f"peaks{n}.{ending}")
        assert name_of(made) in ("peaks", "unclear")
        assert name_of(mrtrix("fixel2peaks", fixels, "-number", n, f"f{n}.{ending}")) != "sh"
    for n in (6, 15, 28, 45):
        directions = spiral(tmp_path / f"{n}.txt", n)  # the same each time: dirgen begins by chance
        assert name_of(mrtrix("sh2amp", source, directions, f"a{n}.mif")) == "amplitudes"
        signed = mrtrix("sh2amp", source, directions, f"a{n}.nii")
        assert name_of(signed) in ("series", "unclear", "peaks", "isotropic")
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
@pytest.mark.parametrize("kind", ["auto", "tensor"])
def test_a_tensor_is_read_in_the_order_that_it_is_in(tmp_path: Path, order: str, kind: str) -> None:
    path = save(tmp_path / "dt.nii.gz", scans.tensors()[:, FROM_DIPY[order]])
    first, second = load_fod(path, kind=kind), fod_reader(path, kind=kind).read(hashed=True)[0]
    for fod in (first, second):
        assert (fod.kind, fod.vectors.order) == ("tensor", order)
    reader = FodReader(path, kind=kind)
    assert reader.read()[0].kind == "tensor"
    np.testing.assert_array_equal(reader.isotropic, first.overview())
    assert load_fod(path, kind="sh").lmax == 2
    turned = load_fod(path, kind=kind, axes="scanner").vectors
    assert turned.axes == "scanner"


def test_peaks_are_read_as_such(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "subject/tom/CST_left.nii.gz"
    fod = load_fod(path)
    assert (fod.kind, fod.vectors.axes) == ("peaks", "scanner")
    image = nib.load(path)
    where = tuple(np.argwhere(fod.support)[100])
    np.testing.assert_allclose(fod.vectors.numbers[100], image.dataobj[where], rtol=1e-6)
    np.testing.assert_allclose(fod.overview()[where], 1.0, rtol=1e-3)
    assert load_fod(path, axes="fsl").vectors.numbers[100, 0] == -fod.vectors.numbers[100, 0]
    with pytest.raises(InvalidFodError, match="give tensors as"):
        load_fod(path, kind="tensor")
    four = save(tmp_path / "four.nii", np.ones((2, 2, 2, 4)))
    with pytest.raises(
        InvalidFodError, match=r"four\.nii has 4 volumes, which is no multiple of 3"
    ):
        load_fod(four, kind="peaks")


def test_a_header_that_says_so_counts_before_the_values(tmp_path: Path, phantom: Path) -> None:
    fod = nib.load(phantom).get_fdata()
    assert name_of(save(tmp_path / "t.nii", fod[..., :6], "symmetric matrix")) == "tensor"
    flat = save(tmp_path / "t5.nii", fod[..., np.newaxis, :6], "symmetric matrix")
    with pytest.raises(InvalidFodError, match="negative diagonal"):  # it is an FOD after all
        load_fod(flat)
    in_nifti = scans.tensors()[:, np.newaxis, np.newaxis, np.newaxis, :]
    whole = load_fod(save(tmp_path / "t6.nii", in_nifti, "symmetric matrix"))
    assert (whole.kind, whole.vectors.order) == ("tensor", "dipy")
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


def test_unknown_kinds_are_refused_before_the_file_is_read(
    phantom: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recognition, "recognise", lambda *_: pytest.fail("looked"))
    with pytest.raises(InvalidParameterError, match="unknown"):
        load_fod(phantom, kind="dwi")
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


def test_peaks_of_dipy_are_read(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="DIPY's .pam5 files are HDF5")
    from dipy.direction.peaks import PeaksAndMetrics
    from dipy.io.peaks import save_pam

    affine = np.diag([2.0, 2.0, 2.0, 1.0]) @ np.array(
        [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]
    )
    peaks = PeaksAndMetrics()
    peaks.affine = affine
    peaks.peak_dirs = np.tile([[1.0, 0, 0], [0, 0.6, 0.8]], (2, 3, 4, 1, 1))
    peaks.peak_values = np.tile([0.5, 0.25], (2, 3, 4, 1))
    peaks.peak_indices = np.zeros((2, 3, 4, 2), np.int32)
    peaks.shm_coeff = np.zeros((2, 3, 4, 45))
    peaks.sphere = None
    from dipy.data import default_sphere

    peaks.sphere = default_sphere
    peaks.B = np.zeros((45, len(default_sphere.vertices)))
    peaks.total_weight, peaks.ang_thr = 0.5, 60.0
    peaks.gfa = peaks.qa = np.zeros((2, 3, 4))
    peaks.odf = np.zeros((2, 3, 4, 1))
    path = tmp_path / "peaks.pam5"
    save_pam(str(path), peaks)
    fod, sha256 = fod_reader(path).read(hashed=True)
    assert (fod.kind, fod.vectors.axes, len(sha256)) == ("peaks", "voxel", 64)
    np.testing.assert_allclose(fod.vectors.numbers[0], [0, 0.5, 0, -0.15, 0, 0.2], atol=1e-6)
    path.write_bytes(b"none")
    with pytest.raises(FileError, match=r"peaks\.pam5 is no \.pam5 file that DIPY reads"):
        load_fod(path)


@pytest.mark.parametrize(
    ("n_volumes", "kinds"),
    [(6, ("sh", "peaks", "tensor")), (15, ("sh", "peaks")), (28, ("sh",)), (12, None)],
)
def test_what_is_unclear_names_as_what_it_may_be_read(
    tmp_path: Path, n_volumes: int, kinds: tuple[str, ...] | None
) -> None:
    """Of a DWI that is as long as an FOD; where it is not, there is nothing to choose."""
    dwi = save(tmp_path / "dwi.nii", np.random.default_rng(0).random((500, n_volumes)) + 0.1)
    with pytest.raises(InvalidFodError, match=r"dwi\.nii holds no FOD") as told:
        load_fod(dwi)
    assert getattr(told.value, "kinds", None) == kinds
    if kinds:
        assert ("or read it as kind " + kinds[0]) in str(told.value)


def test_labels_of_freesurfer_are_read_as_they_are(tmp_path: Path) -> None:
    labels = np.arange(60, dtype=np.int32).reshape(3, 4, 5) * 1001
    affine = np.diag([-1.0, 2.0, 1.0, 1.0])
    for ending in (".mgz", ".mgh"):
        path = tmp_path / f"aparc+aseg{ending}"
        nib.save(nib.MGHImage(labels, affine), path)
        found, grid = load_volume(path)
        np.testing.assert_array_equal(found, labels)
        assert found.dtype.kind == "i"
        np.testing.assert_allclose(grid.affine, affine)
    (tmp_path / "cut.mgz").write_bytes(path.with_suffix(".mgz").read_bytes()[:10])
    with pytest.raises(FileError, match="cannot be read as FreeSurfer's"):
        load_volume(tmp_path / "cut.mgz")
