"""The FOD: its harmonics, its frame, and what it does with useless voxels."""

from __future__ import annotations

import logging
import weakref

import nibabel as nib
import numpy as np
import pytest
from dipy.reconst.shm import real_sh_descoteaux, real_sh_tournier

from napari_tractography.errors import InvalidFodError, InvalidParameterError
from napari_tractography.fields.readings import BASES, FRAMES
from napari_tractography.fields.sh import FULL_COUNTS, SH_COUNTS, even_columns, sh_matrix
from napari_tractography.files.fods import load_fod
from napari_tractography.geometry.directions import direction_set
from napari_tractography.geometry.grid import Grid
from napari_tractography.model.fod import Fod

REAL_FODS = [("fibercup", "fibercup/fod.nii.gz"), ("brain", "brain/fod_template.mif.gz")]
SPACING_DEG = np.rad2deg(np.sqrt(4 * np.pi / 2000))  # between neighbours of a set of 2000


def random_units(n, seed=0):
    units = np.random.default_rng(seed).normal(size=(n, 3))
    return units / np.linalg.norm(units, axis=1, keepdims=True)


def lobe(direction):
    """Tournier07 coefficients of 1 + (3 cos^2 - 1) / 2, in closed form: a lobe of degree 2."""
    x, y, z = direction
    isotropic = 2 * np.sqrt(np.pi)
    scale = 4 * np.pi / 5
    half, quarter = np.sqrt(15 / np.pi) / 2, np.sqrt(15 / np.pi) / 4
    zonal = np.sqrt(5 / np.pi) / 4
    second = [
        half * x * y,
        -half * y * z,
        zonal * (3 * z * z - 1),
        -half * x * z,
        quarter * (x * x - y * y),
    ]
    return np.array([isotropic, *(scale * np.array(second))])


# The order m = -2 ... 2 with real parts and signs as in the papers that define the bases.
CLOSED_FORMS = {
    "tournier07": lambda x, y, z: [2 * x * y, -2 * y * z, 3 * z * z - 1, -2 * x * z, x * x - y * y],
    "descoteaux07": lambda x, y, z: [
        x * x - y * y, 2 * x * z, 3 * z * z - 1, -2 * y * z, 2 * x * y
    ],
    "descoteaux07_legacy": lambda x, y, z: [
        x * x - y * y, -2 * x * z, 3 * z * z - 1, -2 * y * z, 2 * x * y
    ],
}  # fmt: skip
CLOSED_FORMS["tournier07_legacy"] = CLOSED_FORMS["tournier07"]


@pytest.mark.parametrize("basis", BASES)
def test_harmonics_equal_their_closed_forms(basis):
    """Degree 0 is constant, degree 2 the quadrics; old MRtrix left out the factor sqrt(2)."""
    units = random_units(200)
    x, y, z = units.T
    others = np.sqrt(15 / (16 * np.pi)) * (1 if basis != "tournier07_legacy" else np.sqrt(0.5))
    norms = np.array([others, others, np.sqrt(5 / (16 * np.pi)), others, others])
    expected = np.stack(CLOSED_FORMS[basis](x, y, z), axis=1) * norms
    matrix = sh_matrix(units, 2, basis)
    np.testing.assert_allclose(matrix[:, 0], np.sqrt(1 / (4 * np.pi)))
    np.testing.assert_allclose(matrix[:, 1:], expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
@pytest.mark.parametrize("legacy", [False, True])
def test_harmonics_equal_those_of_dipy_up_to_degree_sixteen(legacy):
    units = random_units(100)
    polar, azimuth = np.arccos(units[:, 2]), np.arctan2(units[:, 1], units[:, 0])
    ending = "_legacy" if legacy else ""
    for basis, evaluate in (("tournier07", real_sh_tournier), ("descoteaux07", real_sh_descoteaux)):
        theirs, _, _ = evaluate(16, polar, azimuth, legacy=legacy)
        np.testing.assert_allclose(sh_matrix(units, 16, basis + ending), theirs, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("lmax", [2, 8, 16])
def test_harmonics_of_all_degrees_are_those_of_dipys_full_basis(lmax, legacy):
    units = random_units(100)
    polar, azimuth = np.arccos(units[:, 2]), np.arctan2(units[:, 1], units[:, 0])
    ending = "_legacy" if legacy else ""
    for basis, evaluate in (("tournier07", real_sh_tournier), ("descoteaux07", real_sh_descoteaux)):
        theirs, _, degrees = evaluate(lmax, polar, azimuth, full_basis=True, legacy=legacy)
        mine = sh_matrix(units, lmax, basis + ending, True)
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
        even = even_columns((lmax + 1) ** 2)
        np.testing.assert_array_equal(even, np.flatnonzero(degrees % 2 == 0))
        np.testing.assert_allclose(
            mine[:, even], sh_matrix(units, lmax, basis + ending), atol=1e-12
        )


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_asymmetric_fod_has_the_amplitudes_of_dipys_full_basis(frame, dtype):
    values = np.random.default_rng(0).normal(size=(2, 3, 4, 25)).astype(dtype)
    affine = np.array([[0, -2.0, 0, 3], [1.6, 0, 1.2, 1], [-1.2, 0, 1.6, 0], [0, 0, 0, 1]])
    fod = Fod(values, affine, basis="descoteaux07", frame=frame, name="a.nii")
    assert (fod.is_asymmetric, fod.lmax) == (True, 4)
    units = random_units(50)
    own = units if frame == "scanner" else units @ fod.grid.axes
    polar, azimuth = np.arccos(own[:, 2]), np.arctan2(own[:, 1], own[:, 0])
    matrix = real_sh_descoteaux(4, polar, azimuth, full_basis=True, legacy=False)[0]
    wanted = values.astype(np.float64) @ matrix.T
    np.testing.assert_allclose(fod.amplitudes(units), wanted, atol=2e-5)
    mean = (fod.amplitudes(units) + fod.amplitudes(-units)) / 2
    symmetric = fod.symmetric()
    np.testing.assert_allclose(symmetric.amplitudes(units), mean, atol=2e-5)
    assert not symmetric.is_asymmetric
    assert symmetric.symmetric() is symmetric
    assert fod.description == "Asymmetric FOD of SH coefficients, lmax 4, descoteaux07"
    assert "asymmetric, lmax=4, descoteaux07" in repr(fod)
    assert fod.reread(basis="tournier07").is_asymmetric


@pytest.mark.parametrize("basis", BASES)
def test_harmonics_are_even_and_need_no_unit_length(basis):
    units = random_units(50)
    np.testing.assert_allclose(sh_matrix(-units, 8, basis), sh_matrix(units, 8, basis), atol=1e-12)
    np.testing.assert_allclose(
        sh_matrix(3 * units, 8, basis), sh_matrix(units, 8, basis), atol=1e-12
    )


@pytest.mark.parametrize(("name", "path"), REAL_FODS)
def test_amplitudes_equal_sh2amp(shared_data, name, path):
    units = np.loadtxt(shared_data / "reference" / "directions.txt")
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    fod = load_fod(shared_data / path)
    expected = nib.load(shared_data / "reference" / f"{name}_amplitudes.nii.gz").get_fdata()
    used = fod.support
    assert np.isfinite(expected[used]).all()
    scale = np.abs(expected[used]).max()
    np.testing.assert_allclose(fod.amplitudes(units)[used], expected[used], atol=1e-5 * scale)


@pytest.mark.parametrize(("name", "path"), REAL_FODS)
def test_largest_amplitudes_equal_sh2peaks(shared_data, name, path):
    """Almost everywhere the direction; where two peaks tie, at least the amplitude."""
    fod = load_fod(shared_data / path)
    peaks = nib.load(shared_data / "reference" / f"{name}_peaks.nii.gz").get_fdata()[fod.support]
    heights = np.linalg.norm(peaks, axis=1)
    clear = np.isfinite(heights) & (heights > 0.05)
    assert np.count_nonzero(clear) > 10_000
    units = direction_set(2000)
    amplitudes = fod.amplitudes(units[:1000])[fod.support][clear]
    peaks, heights = peaks[clear], heights[clear]
    best = units[amplitudes.argmax(axis=1)]
    cosines = np.abs((best * peaks).sum(axis=1)) / heights
    angles = np.rad2deg(np.arccos(np.clip(cosines, 0, 1)))
    assert (angles < SPACING_DEG).mean() > 0.99
    ties = amplitudes.max(axis=1)[angles >= SPACING_DEG] / heights[angles >= SPACING_DEG]
    np.testing.assert_allclose(ties, 1.0, atol=0.03)


def rigid(mirror):
    c, s = np.cos(0.6), np.sin(0.6)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ [[1, 0, 0], [0, c, -s], [0, s, c]]
    return turn @ np.diag([mirror, 1, 1])


@pytest.mark.parametrize("mirror", [1, -1], ids=["oblique", "oblique left-handed"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_frames_tell_scanner_axes_from_voxel_axes(mirror, axis):
    affine = np.eye(4)
    affine[:3, :3] = rigid(mirror) * [1.0, 2.0, 3.0]
    direction = np.eye(3)[axis] + [0.3, 0.2, -0.1]
    direction /= np.linalg.norm(direction)
    coefficients = np.broadcast_to(lobe(direction), (2, 2, 2, 6))
    scanner = Fod(coefficients, affine, frame="scanner")
    voxel = Fod(coefficients, affine, frame="voxel")
    probes = np.stack([direction, rigid(mirror) @ direction, *random_units(20)])
    cosines = probes @ direction
    expected = 1 + (3 * cosines**2 - 1) / 2
    np.testing.assert_allclose(scanner.amplitudes(probes)[0, 0, 0], expected, rtol=1e-5)
    cosines = probes @ (rigid(mirror) @ direction)
    expected = 1 + (3 * cosines**2 - 1) / 2
    np.testing.assert_allclose(voxel.amplitudes(probes)[0, 0, 0], expected, rtol=1e-5)


def test_frame_defaults_by_basis():
    ones = np.ones((2, 2, 2, 1))
    frames = {basis: Fod(ones, np.eye(4), basis=basis).frame for basis in BASES}
    assert frames == {
        "tournier07": "scanner",
        "tournier07_legacy": "scanner",
        "descoteaux07": "voxel",
        "descoteaux07_legacy": "voxel",
    }


def test_rereading_changes_the_reading_only():
    random = np.random.default_rng(1).normal(size=(3, 3, 3, 6))
    fod = Fod(random, np.eye(4), name="wm")
    other = fod.reread(basis="descoteaux07")
    assert (other.basis, other.frame, other.name) == ("descoteaux07", "voxel", "wm")
    np.testing.assert_array_equal(other.coefficients, fod.coefficients)
    assert fod.reread(frame="voxel").basis == "tournier07"
    again = other.reread(basis="tournier07")
    units = random_units(5)
    np.testing.assert_array_equal(again.amplitudes(units), fod.amplitudes(units))


def test_rereading_remembers_useless_voxels_and_copies_nothing(caplog):
    data = np.ones((4, 3, 2, 6))
    data[0, 0, 0, 3] = np.nan
    fod = Fod(data, np.eye(4), name="wm")
    caplog.clear()
    other = fod.reread(frame="voxel")
    assert other.n_invalid_voxels == 1
    assert other.invalid_voxels_message == fod.invalid_voxels_message != ""
    assert other.values is fod.values
    assert fod.frame == "scanner"
    assert caplog.text == ""


@pytest.mark.parametrize("reading", [{"basis": "b"}, {"frame": "f"}])
def test_rereading_in_an_unknown_way_is_refused(reading):
    with pytest.raises(InvalidParameterError, match="is unknown"):
        Fod(np.ones((2, 2, 2, 6)), np.eye(4)).reread(**reading)


def test_useless_voxels_are_empty_counted_and_mentioned_once(caplog):
    data = np.ones((4, 3, 2, 6))
    data[0, 0, 0, 3] = np.nan
    data[1, 0, 0, 5] = np.inf
    data[2, 0, 0, 0] = -np.inf
    data[3, 0, 0] = 0.0
    with caplog.at_level(logging.INFO):
        fod = Fod(data, np.eye(4), name="template")
    assert [r.getMessage() for r in caplog.records] == [
        "template: 3 of 24 voxels have NaN or infinite coefficients and count as empty."
    ]
    assert fod.n_invalid_voxels == 3
    assert fod.n_voxels == np.count_nonzero(fod.support) == 20
    assert not fod.support[:, 0, 0].any()
    assert not fod.coefficients[:, 0, 0].any()
    assert not fod.amplitudes(random_units(3))[:, 0, 0].any()


def test_numbers_that_float32_has_no_room_for_are_not_finite():
    data = np.ones((2, 2, 2, 6))
    data[0, 0, 0, 2], data[1, 1, 1, 0] = 1e39, -1e39
    fod = Fod(data, np.eye(4))
    assert (fod.n_voxels, fod.n_invalid_voxels) == (6, 2)
    assert np.isfinite(fod.values).all()


def test_clean_volumes_are_not_mentioned(caplog):
    with caplog.at_level(logging.INFO):
        Fod(np.ones((2, 2, 2, 1)), np.eye(4))
    assert not caplog.records


def test_coefficients_are_kept_exactly_in_any_memory_order():
    data = np.random.default_rng(4).normal(size=(3, 4, 5, 15)).astype(np.float32)
    data[1, 2] = 0
    for given in (data, np.asfortranarray(data), data[::-1][::-1], data.astype(">f4")):
        fod = Fod(given, np.eye(4))
        np.testing.assert_array_equal(fod.coefficients, data)
        np.testing.assert_array_equal(fod.isotropic(), data[..., 0])
    rows = fod.voxel_rows
    np.testing.assert_array_equal(fod.values[rows[2, 3, 4]], data[2, 3, 4])
    assert (rows[1, 2] == -1).all()


def test_fod_is_immutable_and_can_be_referred_to_weakly():
    fod = Fod(np.ones((2, 2, 2, 1)), np.eye(4))
    with pytest.raises(ValueError, match="read-only"):
        fod.values[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        fod.voxel_rows[0] = 2
    assert weakref.ref(fod)() is fod


def test_counts_of_all_degrees_are_none_of_even_ones():
    assert [n for n, lmax in FULL_COUNTS.items() if lmax <= 8] == [9, 25, 49, 81]
    assert not set(FULL_COUNTS) & set(SH_COUNTS)
    for count, lmax in FULL_COUNTS.items():
        fod = Fod(np.ones((1, 1, 1, count)), np.eye(4))
        assert (fod.lmax, fod.is_asymmetric) == (lmax, True)


def test_sh_counts_are_those_of_even_degrees():
    assert [n for n, lmax in SH_COUNTS.items() if lmax <= 12] == [1, 6, 15, 28, 45, 66, 91]
    for count, lmax in SH_COUNTS.items():
        assert count == sum(2 * degree + 1 for degree in range(0, lmax + 1, 2))
        assert Fod(np.ones((1, 1, 1, count)), np.eye(4)).lmax == lmax


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        pytest.param((3, 3, 3), r"^FOD has shape \(3, 3, 3\); .* by Fod.from_image", id="3-D"),
        pytest.param((3, 3, 3, 1, 6), "5 dimensions", id="5-D"),
        pytest.param((3, 3, 3, 7), "7 volumes", id="no SH count"),
    ],
)
def test_other_shapes_are_refused(shape, message):
    with pytest.raises(InvalidFodError, match=message):
        Fod(np.ones(shape), np.eye(4))


@pytest.mark.parametrize("fill", [1j, "1"])
def test_what_is_no_real_number_is_refused(fill):
    values = np.full((2, 2, 2, 6), fill)
    with pytest.raises(InvalidFodError, match=f"^FOD holds {values.dtype} values; give real"):
        Fod(values, np.eye(4))


@pytest.mark.parametrize("fill", [0.0, np.nan, np.inf])
def test_nothing_usable_is_refused(fill):
    with pytest.raises(InvalidFodError, match="no voxel with finite"):
        Fod(np.full((2, 2, 2, 6), fill), np.eye(4))


def test_bad_readings_are_named():
    ones = np.ones((2, 2, 2, 1))
    with pytest.raises(InvalidParameterError, match="basis = 'mrtrix'"):
        Fod(ones, np.eye(4), basis="mrtrix")
    with pytest.raises(InvalidParameterError, match="frame = 'world'"):
        Fod(ones, np.eye(4), frame="world")
    with pytest.raises(InvalidFodError, match="grid has"):
        Fod(ones, Grid((2, 2, 3), np.eye(4)))
    with pytest.raises(InvalidParameterError, match=r"shape \(3,\)"):
        Fod(ones, np.eye(4)).amplitudes([0, 0, 1])
