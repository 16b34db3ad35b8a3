"""MRtrix images against mrconvert: layouts, number types, transforms, scaling and bad headers."""

from __future__ import annotations

import functools
import gzip
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest

from napari_tractography.errors import FileError, InvalidFodError
from napari_tractography.files import fods
from napari_tractography.files.volume_files import load_mask, load_volume

load_fod = functools.partial(fods.load_fod, kind="sh")  # files of any numbers
# Oblique by less than 45 degrees about two axes, anisotropic: mrconvert keeps the order of axes.
TURN = np.array([[0.9, -0.3, 0.2], [0.35, 0.9, -0.1], [-0.15, 0.2, 0.95]])
ROTATION = np.linalg.qr(TURN)[0] * np.sign(np.diag(np.linalg.qr(TURN)[1]))
SHAPE = (5, 4, 3, 6)


@pytest.fixture(scope="module")
def mrconvert():
    program = shutil.which("mrconvert")
    if program is None:
        pytest.skip("mrconvert of MRtrix3 is not installed")

    def convert(*arguments):
        command = [program, "-quiet", "-force", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return convert


@pytest.fixture
def nifti(tmp_path):
    """A NIfTI file of distinct positive whole numbers below 128, so that every type holds them."""
    data = np.random.default_rng(2).permutation(np.prod(SHAPE)).reshape(SHAPE) % 127 + 1
    affine = np.eye(4)
    affine[:3, :3] = ROTATION * [1.5, 2.0, 3.0]
    affine[:3, 3] = [-10.0, 20.0, 5.0]
    path = tmp_path / "source.nii"
    nib.save(nib.Nifti1Image(data.astype(np.float32), affine), path)
    return path


def header(**changes):
    """Return the text of a small, valid header; a value of None leaves an entry out."""
    entries = {
        "dim": "3,2,2,6",
        "vox": "1,1,1,1",
        "layout": "+0,+1,+2,+3",
        "datatype": "Float32LE",
        "transform": "1,0,0,0\ntransform: 0,1,0,0\ntransform: 0,0,1,0",
        "file": ". 400",
    } | changes
    lines = [f"{key}: {value}" for key, value in entries.items() if value is not None]
    return "\n".join(["mrtrix image", *lines, "END", ""])


def write_mif(path, data, **changes):
    path.write_bytes(header(**changes).encode().ljust(400, b"\0") + bytes(data))
    return path


def numbers(dtype="<f4"):
    return np.arange(1, 73).astype(dtype).tobytes()


def test_template_equals_the_nifti_of_mrconvert(shared_data):
    fod = load_fod(shared_data / "brain/fod_template.mif.gz")
    image = nib.load(shared_data / "reference/brain_fod_as_nifti.nii.gz")
    expected = image.get_fdata(dtype=np.float32)
    finite = np.isfinite(expected).all(axis=3)
    assert finite.any()
    np.testing.assert_allclose(fod.coefficients[finite], expected[finite], rtol=0, atol=1e-6)
    assert not fod.coefficients[~finite].any()
    np.testing.assert_allclose(fod.grid.affine, image.affine, atol=1e-4)  # NIfTI keeps float32


@pytest.mark.parametrize(
    "strides",
    ["1,2,3,4", "2,3,4,1", "-1,2,3,4", "-1,-2,-3,4", "4,-3,2,-1", "-2,1,-4,3", "3,-4,-1,2"],
)
@pytest.mark.parametrize("ending", [".mif", ".mif.gz", ".mih"])
def test_any_layout_is_read(tmp_path, mrconvert, nifti, strides, ending):
    path = tmp_path / f"image{ending}"
    mrconvert(nifti, path, "-strides", strides)
    fod = load_fod(path)
    np.testing.assert_array_equal(fod.coefficients, nib.load(nifti).get_fdata())
    np.testing.assert_allclose(fod.grid.affine, nib.load(nifti).affine, atol=1e-5)


@pytest.mark.parametrize(
    "datatype",
    [
        "int8", "uint8", "int16le", "int16be", "uint16le", "uint16be", "int32le", "int32be",
        "uint32le", "uint32be", "int64le", "int64be", "uint64le", "uint64be", "float32le",
        "float32be", "float64le", "float64be",
    ],
)  # fmt: skip
def test_every_number_type_is_read(tmp_path, mrconvert, nifti, datatype):
    path = tmp_path / "image.mif"
    mrconvert(nifti, path, "-datatype", datatype)
    np.testing.assert_array_equal(load_fod(path).coefficients, nib.load(nifti).get_fdata())


@pytest.mark.parametrize("strides", ["1,2,3", "-3,1,-2"])
def test_bit_masks_are_read(tmp_path, mrconvert, strides):
    mask = np.random.default_rng(3).integers(0, 2, size=(5, 7, 3)).astype(np.uint8)
    nib.save(nib.Nifti1Image(mask, np.diag([2, 2, 2, 1.0])), tmp_path / "mask.nii")
    path = tmp_path / "mask.mif"
    mrconvert(tmp_path / "mask.nii", path, "-datatype", "bit", "-strides", strides)
    inside, grid = load_mask(path)
    np.testing.assert_array_equal(inside, mask == 1)
    np.testing.assert_allclose(grid.affine, np.diag([2, 2, 2, 1.0]))


def test_labels_keep_their_integers(tmp_path):
    labels = np.array([2**31 + 1] * 12, "<u4")
    path = write_mif(
        tmp_path / "l.mif", labels, dim="3,2,2", vox="1,1,1", layout="+0,+1,+2", datatype="UInt32LE"
    )
    values, _ = load_volume(path)
    assert values.dtype == np.uint32
    assert (values == 2**31 + 1).all()


def test_scaling_equals_mrconvert(tmp_path, mrconvert):
    path = write_mif(
        tmp_path / "scaled.mif", numbers("<i2"), datatype="Int16LE", scaling="-0.5,0.125"
    )
    fod = load_fod(path)
    np.testing.assert_allclose(fod.coefficients.min(), -0.375)
    mrconvert(path, tmp_path / "scaled.nii", "-datatype", "float32")
    expected = nib.load(tmp_path / "scaled.nii").get_fdata()
    np.testing.assert_allclose(fod.coefficients, expected, rtol=1e-6)


@pytest.mark.parametrize("angle_deg", [0, 100, 200])
def test_same_number_at_the_same_place_for_any_rotation(tmp_path, mrconvert, angle_deg):
    """mrconvert turns axes to the nearest canonical ones, so places in mm are compared."""
    c, s = np.cos(np.deg2rad(angle_deg)), np.sin(np.deg2rad(angle_deg))
    rotation = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ ROTATION
    rows = [
        ",".join(map(repr, map(float, [*row, t])))
        for row, t in zip(rotation, (3, -4, 5), strict=True)
    ]
    path = write_mif(
        tmp_path / "turned.mif",
        numbers(),
        vox="1.5,2,3,nan",
        layout="-1,+2,-0,+3",
        transform="\ntransform: ".join(rows),
    )
    fod = load_fod(path)
    mrconvert(path, tmp_path / "turned.nii")
    image = nib.load(tmp_path / "turned.nii")
    voxels = np.argwhere(np.ones(image.shape[:3], bool))
    places = nib.affines.apply_affine(image.affine, voxels)
    ours = np.rint(fod.grid.to_voxel(places)).astype(int)
    np.testing.assert_allclose(fod.grid.to_mm(ours), places, atol=1e-4)
    np.testing.assert_array_equal(
        fod.coefficients[tuple(ours.T)], image.get_fdata()[tuple(voxels.T)]
    )


def test_without_a_transform_the_middle_is_the_origin(tmp_path, mrconvert):
    path = write_mif(tmp_path / "plain.mif", numbers(), vox="2,3,4,1", transform=None)
    mrconvert(path, tmp_path / "plain.nii")
    fod = load_fod(path)
    np.testing.assert_allclose(fod.grid.affine, nib.load(tmp_path / "plain.nii").affine, atol=1e-6)
    np.testing.assert_allclose(fod.grid.centre_mm, 0.0, atol=1e-12)


def test_data_file_with_an_offset_and_a_space_in_its_name(tmp_path):
    (tmp_path / "my numbers.dat").write_bytes(b"12345678" + numbers())
    path = tmp_path / "image.mih"
    path.write_text(header(file="my numbers.dat 8"))
    assert load_fod(path).coefficients.ravel(order="F").tolist() == list(range(1, 73))


def test_comments_and_unknown_keys_are_skipped(tmp_path):
    path = write_mif(tmp_path / "c.mif", numbers(), comments="a: b: c # layout: 9", dw_scheme="0,0")
    assert load_fod(path).lmax == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"dim": None}, "no 'dim'", id="no dim"),
        pytest.param({"vox": None}, "no 'vox'", id="no vox"),
        pytest.param({"layout": None}, "no 'layout'", id="no layout"),
        pytest.param({"datatype": None}, "no 'datatype'", id="no datatype"),
        pytest.param({"file": None}, "no 'file'", id="no file"),
        pytest.param({"dim": "3,2,x,6"}, "dim = 'x'", id="dim is no number"),
        pytest.param({"dim": "3,2,0,6"}, "dim = '3,2,0,6'", id="dim of zero"),
        pytest.param({"dim": ""}, "dim = ''", id="empty dim"),
        pytest.param({"dim": "3,2,2,66"}, "truncated", id="dim too large"),
        pytest.param({"vox": "1,1"}, "vox = '1,1'", id="two voxel sizes"),
        pytest.param({"vox": "1,nan,1,1"}, "vox = '1,nan,1,1'", id="NaN voxel size"),
        pytest.param({"vox": "1,-2,1,1"}, "vox = '1,-2,1,1'", id="negative voxel size"),
        pytest.param({"layout": "+0,+1,+2"}, "layout = ", id="three layout axes"),
        pytest.param({"layout": "+0,+1,+1,+2"}, "layout = ", id="doubled layout axis"),
        pytest.param({"layout": "+0,+1,b,+2"}, "layout = ", id="layout is no number"),
        pytest.param({"datatype": "Float48LE"}, "datatype 'Float48LE'", id="unknown size"),
        pytest.param({"datatype": "Quaternion"}, "datatype 'Quaternion'", id="unknown type"),
        pytest.param({"datatype": "CFloat32LE"}, "complex", id="complex"),
        pytest.param({"scaling": "1"}, "scaling = '1'", id="one scaling number"),
        pytest.param({"scaling": "a,b"}, "scaling = 'a,b'", id="scaling is no number"),
        pytest.param({"transform": "1,0,0,0"}, "transform = ", id="one transform row"),
        pytest.param({"transform": "1,0,0,q"}, "transform = ", id="transform is no number"),
        pytest.param({"transform": "0,0,0,0\ntransform: 0,1,0,0\ntransform: 0,0,1,0"}, "singular",
                     id="singular"),
        pytest.param({"file": "absent.dat"}, "absent.dat, which does not exist", id="no data"),
        pytest.param({"file": ". 0"}, "file = ", id="offset inside the header"),
        pytest.param({"file": ""}, "file = ", id="empty file"),
    ],
)  # fmt: skip
def test_bad_headers_are_named(tmp_path, changes, message):
    path = write_mif(tmp_path / "bad.mif", numbers(), **changes)
    with pytest.raises(FileError, match=message) as caught:
        load_fod(path)
    assert "bad.mif" in str(caught.value)


def test_what_is_no_fod_is_refused(tmp_path):
    with pytest.raises(InvalidFodError, match="7 volumes"):
        load_fod(write_mif(tmp_path / "a.mif", bytes(400), dim="3,2,2,7"))


def test_truncated_and_foreign_files_are_refused(tmp_path):
    whole = write_mif(tmp_path / "whole.mif", numbers()).read_bytes()
    cut = tmp_path / "cut.mif"
    for kept in (0, 5, 50, 399, len(whole) - 1):
        cut.write_bytes(whole[:kept])
        with pytest.raises(FileError, match=r"cut\.mif"):
            load_fod(cut)
    packed = gzip.compress(whole)
    cut = tmp_path / "cut.mif.gz"
    for kept in (0, 5, 50, len(packed) - 30, len(packed) - 3):
        cut.write_bytes(packed[:kept])
        with pytest.raises(FileError, match=r"cut\.mif\.gz"):
            load_fod(cut)
    cut.write_bytes(whole)  # not compressed at all
    with pytest.raises(FileError, match=r"cut\.mif\.gz"):
        load_fod(cut)
