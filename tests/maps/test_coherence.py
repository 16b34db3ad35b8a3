"""Which reading of an FOD is right: real files, flipped and written in other bases by hand."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from dipy.reconst.shm import real_sh_descoteaux, real_sh_tournier
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation
from scipy.spatial.transform import Rotation

import napari_tractography as nt
from napari_tractography.errors import InvalidFodError
from napari_tractography.fields.readings import BASES
from napari_tractography.fields.sh import even_columns
from napari_tractography.geometry.directions import direction_set
from napari_tractography.maps.coherence import coherence
from napari_tractography.maps.fod_readings import PERMUTATIONS
from napari_tractography.model.fod import Fod
from napari_tractography.model.phantoms import make_phantom

FILES = {
    "fibercup": "fibercup/fod.nii.gz",
    "brain": "brain/fod_template.mif.gz",
    "yoga": "yoga/fod_sh8.nii.gz",
}


@pytest.fixture(scope="module", params=FILES)
def real_fod(request: pytest.FixtureRequest, shared_data: Path) -> Fod:
    with pytest.MonkeyPatch.context() as patch:
        # The template's empty voxels are mentioned as they should be.
        patch.setattr("napari_tractography.model.fod.logger.disabled", True)
        return nt.load_fod(shared_data / FILES[request.param])


def _on_files(values: Iterable[str]) -> list[Any]:
    """Each value with one of the files in turn, and with the others in make test-all."""
    return [
        pytest.param(
            name, value, id=f"{name}-{value}", marks=() if k % len(FILES) == n else pytest.mark.slow
        )
        for k, value in enumerate(values)
        for n, name in enumerate(FILES)
    ]


def _orders(lmax: int) -> NDArray[np.int64]:
    return np.array([m for degree in range(0, lmax + 1, 2) for m in range(-degree, degree + 1)])


def _flip_signs(lmax: int, axis: str) -> NDArray[np.float32]:
    """Signs of tournier07 coefficients under a mirror, from cos and sin of m times the azimuth.

    x -> -x: azimuth -> pi - azimuth. y -> -y: azimuth -> -azimuth. z -> -z: with even degrees,
    the harmonics of odd order are odd in z. Orders below 0 are sines, the others cosines.
    """
    order = _orders(lmax)
    odd = np.where(order % 2, -1.0, 1.0)
    sine = np.where(order < 0, -1.0, 1.0)
    return {"x": odd * sine, "y": sine, "z": odd}[axis].astype(np.float32)


def _recoded(fod: Fod, basis: str) -> NDArray[np.float32]:
    """The coefficients of the same amplitudes in another basis, by DIPY's own harmonics."""
    units = np.random.default_rng(3).normal(size=(600, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    polar, azimuth = np.arccos(units[:, 2]), np.arctan2(units[:, 1], units[:, 0])
    evaluate = real_sh_tournier if basis.startswith("tournier") else real_sh_descoteaux
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # DIPY's remark on its legacy forms
        target = evaluate(fod.lmax, polar, azimuth, legacy="legacy" in basis)[0]
    source = real_sh_tournier(fod.lmax, polar, azimuth, legacy=False)[0]
    change = np.linalg.lstsq(target, source, rcond=None)[0]
    return np.asarray(fod.coefficients @ change.T, dtype=np.float32)


def test_right_reading_of_real_files_fits(real_fod: Fod) -> None:
    found = coherence(real_fod)
    assert found.fits
    assert found.best is found.in_use
    assert (found.best.basis, found.best.frame, found.best.axes) == (
        "tournier07",
        "scanner",
        "+x+y+z",
    )
    assert "no other reading fits better" in found.verdict


@pytest.mark.parametrize(("real_fod", "axis"), _on_files("zxy"), indirect=["real_fod"])
def test_flipped_directions_of_real_files_are_caught(real_fod: Fod, axis: str) -> None:
    flipped = real_fod.coefficients * _flip_signs(real_fod.lmax, axis)
    found = coherence(Fod(flipped, real_fod.grid, name="flipped"))
    wanted = {"x": "-x+y+z", "y": "+x-y+z", "z": "+x+y-z"}[axis]
    tied = {(r.basis, r.axes) for r in found.readings if r.is_tied}
    assert ("tournier07", wanted) in tied
    thin = real_fod.grid.shape[2] == 3
    if thin and axis == "z":  # three slices of fibres within the slices: both look the same
        assert ("tournier07", "+x+y+z") in tied
        assert "z flipped" in found.verdict
    else:
        assert not found.fits
        assert "fits better" in found.verdict
        assert f"{axis} flipped" in found.verdict
    # Fibres in a plane are flipped alike along its two axes; nothing else is confused.
    assert {basis for basis, _ in tied} == {"tournier07"}
    assert len({axes for _, axes in tied}) <= (2 if thin else 1)


@pytest.mark.parametrize(("real_fod", "basis"), _on_files(BASES), indirect=["real_fod"])
def test_basis_of_real_files_is_found(real_fod: Fod, basis: str) -> None:
    # Read as the basis that is nearest to the true one, and hence hardest to tell from it.
    used = basis.removesuffix("_legacy") if "legacy" in basis else f"{basis}_legacy"
    coefficients = _recoded(real_fod, basis)
    found = coherence(Fod(coefficients, real_fod.grid, basis=used, frame="scanner"))
    assert not found.fits
    assert found.best.basis == basis
    assert found.best.axes == "+x+y+z"
    assert {r.basis for r in found.ambiguous} <= {basis}


def test_swapped_axes_are_named_by_what_they_are() -> None:
    # x y z of the file are truly y x z: the coefficients of the mirror at the plane x = y, whose
    # azimuth is pi / 2 - azimuth.
    fod = make_phantom("letter", affine=np.diag([2.0, 2.0, 2.0, 1.0]), lmax=4)
    units = np.random.default_rng(1).normal(size=(400, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    matrix = fod.sample_matrix(units)
    change = np.linalg.lstsq(matrix, fod.sample_matrix(units[:, [1, 0, 2]]), rcond=None)[0]
    found = coherence(Fod(fod.coefficients @ change.T.astype(np.float32), fod.grid))
    assert "+y+x+z" in {r.axes for r in found.readings if r.is_tied}
    assert not found.fits


@pytest.mark.parametrize(
    "linear",
    [
        pytest.param(np.diag([2.0, 2.0, 2.0]), id="straight"),
        pytest.param(np.diag([-2.0, 2.0, 2.0]), id="left-handed"),
        pytest.param(np.diag([1.5, 2.0, 3.5]), id="anisotropic"),
        pytest.param(np.array([[1.6, -1.2, 0.0], [1.2, 1.6, 0.0], [0.0, 0.0, 2.0]]), id="oblique"),
        pytest.param(np.array([[2.0, 0.3, 0.0], [0.0, 2.0, 0.0], [0.2, 0.0, 2.0]]), id="sheared"),
    ],
)
def test_any_affine_is_read_rightly(linear: NDArray[np.float64]) -> None:
    affine = np.eye(4)
    affine[:3, :3] = linear
    fod = make_phantom("arcs", affine=affine, lmax=4)
    found = coherence(fod)
    assert found.fits
    assert str(found.best.deficit) == "0.0"  # and not -0.0, which the command would print
    assert all(r.basis == "tournier07" and r.axes == "+x+y+z" for r in found.ambiguous)
    flipped = coherence(Fod(fod.coefficients * _flip_signs(fod.lmax, "x"), fod.grid))
    assert not flipped.fits


def test_wrong_frame_of_an_oblique_image_is_caught() -> None:
    affine = np.eye(4)
    affine[:3, :3] = 2.0 * np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    fod = make_phantom("arcs", affine=affine, lmax=4)  # its directions are the scanner's
    found = coherence(fod.reread(frame="voxel"))
    assert not found.fits
    assert found.best.frame == "scanner"


def test_readings_of_the_identical_fod_are_one() -> None:
    straight = make_phantom("letter", affine=np.diag([2.0, 2.0, 2.0, 1.0]), lmax=4)
    found = coherence(straight)
    assert len(found.readings) == len(BASES) * len(PERMUTATIONS)
    assert found.in_use.same_as == ("tournier07, voxel axes",)
    mirrored = make_phantom("letter", affine=np.diag([-2.0, 2.0, 2.0, 1.0]), lmax=4)
    assert coherence(mirrored).in_use.same_as == ("tournier07, voxel axes, x flipped",)


def test_reading_in_use_goes_by_the_name_it_was_given() -> None:
    fod = make_phantom("letter", affine=np.diag([2.0, 2.0, 2.0, 1.0]), lmax=4).reread(frame="voxel")
    found = coherence(fod)
    assert found.in_use.text == "tournier07, voxel axes"
    assert found.in_use.same_as == ("tournier07, scanner axes",)


@pytest.mark.parametrize("kind", ["peaks", "tensors in the order dipy"])
def test_axes_of_peaks_and_tensors_are_named_as_they_were_given(kind: str) -> None:
    turn = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    fod = make_phantom("letter", affine=np.block([[2 * turn, np.zeros((3, 1))], [0, 0, 0, 1]]))
    along = np.linalg.eigh(_second_moments(fod))[1][..., 2]  # RAS+, of a voxel
    in_voxels = np.zeros((*fod.grid.shape, 3), np.float32)
    in_voxels[fod.support] = along @ fod.grid.axes

    def read(axes: str) -> Fod:
        if kind == "peaks":
            return Fod.from_peaks(in_voxels, fod.grid, axes=axes)
        x, y, z = np.moveaxis(in_voxels, -1, 0)
        elements = np.stack([x * x, x * y, y * y, x * z, y * z, z * z], axis=-1)
        elements[fod.support] += [0.2, 0, 0.2, 0, 0, 0.2]
        return Fod.from_tensors(elements, fod.grid, order="dipy", axes=axes)

    found = coherence(read("voxel"))
    assert found.in_use.text == f"{kind}, voxel axes"
    assert found.fits
    wrong = coherence(read("scanner"))
    assert wrong.in_use.text == f"{kind}, scanner axes"
    assert not wrong.fits
    assert wrong.best.text == f"{kind}, voxel axes"
    assert {reading.basis for reading in wrong.readings} == {kind}


def _second_moments(fod: Fod) -> NDArray[np.float64]:
    """The (n, 3, 3) second moments of the amplitudes of each voxel, RAS+."""
    units = direction_set(64).astype(np.float64)
    return np.einsum(
        "nk,ki,kj->nij", np.clip(fod.amplitudes(units)[fod.support], 0, None), units, units
    )


def _noisy(fod: Fod, level: float, random_seed: int) -> NDArray[np.float32]:
    """Coefficients with white noise, relative to their root mean square, in and at the bundles."""
    sigma = level * np.sqrt(np.square(fod.values[:, 1:]).mean())
    noise = sigma * np.random.default_rng(random_seed).normal(size=fod.coefficients.shape)
    around = binary_dilation(fod.support)[..., None]
    return np.asarray((fod.coefficients + noise) * around, dtype=np.float32)


def _with_axes(fod: Fod, matrix: NDArray[np.float64]) -> Fod:
    """The same amplitudes, by coefficients whose directions are turned by a matrix."""
    units = np.random.default_rng(1).normal(size=(400, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    change = np.linalg.lstsq(
        fod.sample_matrix(units @ matrix.T), fod.sample_matrix(units), rcond=None
    )[0]
    return Fod(fod.coefficients @ change.T.astype(np.float32), fod.grid, name="turned")


def _turned_affine(random_seed: int) -> NDArray[np.float64]:
    affine = np.eye(4)
    affine[:3, :3] = 2.0 * Rotation.random(random_state=random_seed).as_matrix()
    return affine


@pytest.mark.parametrize("random_seed", [4, 10])
def test_noise_does_not_make_another_basis_fit(random_seed: int) -> None:
    # White noise read in the legacy form is stronger in lobes along z than in others.
    fod = make_phantom("letter", affine=np.diag([2.0, 2.0, 2.0, 1.0]), lmax=4)
    swapped = _with_axes(fod, PERMUTATIONS["+x+z+y"])
    found = coherence(Fod(_noisy(swapped, 1.0, random_seed), fod.grid))
    assert not found.fits
    tied = {(r.basis, r.axes) for r in found.readings if r.is_tied}
    assert ("tournier07", "+x+z+y") in tied
    assert {basis for basis, _ in tied} <= {"tournier07", "tournier07_legacy"}


@pytest.mark.parametrize("random_seed", [5, 7])
def test_noise_on_a_turned_grid_does_not_make_another_basis_fit(random_seed: int) -> None:
    fod = make_phantom("arcs", affine=_turned_affine(random_seed), lmax=6)
    found = coherence(Fod(_noisy(fod, 1.0, random_seed), fod.grid))
    assert found.fits
    assert found.best.basis == "tournier07"


def test_directions_turned_by_an_odd_angle_fit_no_reading() -> None:
    fod = make_phantom("arcs", affine=np.diag([2.0, 2.0, 2.0, 1.0]), lmax=4)
    turn = Rotation.from_rotvec(np.deg2rad(42.0) * np.array([0.6, 0.0, 0.8])).as_matrix()
    found = coherence(_with_axes(fod, turn))
    assert "turned by other angles" in found.doubt
    assert found.doubt in found.verdict
    assert found.fits


def test_peaks_are_called_undecidable(shared_data: Path) -> None:
    image = nib.load(shared_data / "subject/peaks.nii.gz")
    peaks = np.asarray(image.dataobj, dtype=np.float32)
    found = coherence(Fod(np.nan_to_num(peaks[..., :6]), image.affine, name="peaks"))
    assert "do not tell" in found.verdict
    assert "negative" in found.doubt


@pytest.mark.parametrize("n_volumes", [6, 15])
def test_diffusion_weighted_images_are_called_undecidable(n_volumes: int) -> None:
    fod = make_phantom("letter", lmax=8)
    units = np.random.default_rng(7).normal(size=(n_volumes - 1, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    bare = np.ones((*fod.grid.shape, 1), np.float32)
    weighted = np.exp(-0.3 - np.clip(fod.amplitudes(units), 0.0, None))
    images = np.concatenate([bare, weighted], axis=-1)
    noise = 0.03 * np.random.default_rng(8).normal(size=images.shape)
    assert "do not tell" in coherence(Fod(images + noise, fod.grid)).verdict


def test_tensors_are_called_undecidable() -> None:
    # A tensor per voxel, long along the fibre, upper triangle by rows.
    fod = make_phantom("letter", lmax=2)
    units = direction_set(64)[:32].astype(np.float64)
    outer = np.stack([units[:, i] * units[:, j] for i, j in zip(*np.triu_indices(3), strict=True)])
    along = fod.amplitudes(units) @ outer.T
    tensors = np.array([0.5, 0.0, 0.0, 0.5, 0.0, 0.5]) + along / 32.0
    noise = 0.01 * np.random.default_rng(9).normal(size=tensors.shape)
    assert "do not tell" in coherence(Fod(tensors + noise, fod.grid)).verdict


def test_noise_is_called_undecidable() -> None:
    noise = np.random.default_rng(0).normal(size=(12, 12, 12, 15))
    found = coherence(Fod(noise, np.eye(4), name="noise"))
    assert found.fits
    assert "do not tell" in found.verdict


def test_fod_without_directions_is_refused() -> None:
    with pytest.raises(InvalidFodError, match="lmax 0"):
        coherence(Fod(np.ones((3, 3, 3, 1)), np.eye(4)))
    with pytest.raises(InvalidFodError, match="same amplitude"):
        coherence(Fod(np.pad(np.ones((3, 3, 3, 1)), ((0, 0),) * 3 + ((0, 5),)), np.eye(4)))


def test_one_voxel_decides_nothing() -> None:
    lone = np.zeros((1, 1, 1, 15))
    lone[..., :4] = 1.0
    assert "do not tell" in coherence(Fod(lone, np.eye(4))).verdict


def lobes(directions: NDArray[np.float64]) -> Fod:
    """One sharp lobe a voxel, along (x, y, z, 3) unit vectors, as in a map of one bundle."""
    theta, phi = np.arccos(directions[..., 2]), np.arctan2(directions[..., 1], directions[..., 0])
    values = real_sh_tournier(4, theta.ravel(), phi.ravel(), legacy=False)[0]
    return Fod(values.reshape(*directions.shape[:3], -1), np.eye(4))


def test_a_few_voxels_make_no_other_reading_fit() -> None:
    """Of so few blocks another reading may be three standard errors better, by chance."""
    noise = np.random.default_rng(13).normal(0, 0.3, (12, 1, 1, 3))
    along = np.array([1.0, 0.5, 0.2]) + noise
    assert coherence(lobes(along / np.linalg.norm(along, axis=-1, keepdims=True))).fits


def test_of_many_readings_that_fit_one_bundle_alike_a_few_are_named() -> None:
    along = np.zeros((16, 4, 4, 3))
    along[..., 0] = 1.0
    found = coherence(lobes(along))
    assert found.fits
    assert len(found.ambiguous) > 3 or found.doubt
    assert found.verdict.count("tournier07") <= 4


def test_coherence_of_one_endless_bundle_is_1() -> None:
    # The same FOD in every voxel is coherent, whatever the direction.
    row = real_sh_tournier(4, np.array([1.0]), np.array([0.5]), legacy=False)[0]
    fod = Fod(np.broadcast_to(row, (6, 6, 6, 15)), np.eye(4))
    assert coherence(fod).in_use.coherence == pytest.approx(1.0)


def test_result_is_ready_for_json() -> None:
    found = coherence(make_phantom("arcs", lmax=4))
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["fits"] is True
    assert again["in_use"]["basis"] == "tournier07"
    assert len(again["readings"]) == len(found.readings)


def test_an_asymmetric_fod_is_judged_by_its_even_degrees() -> None:
    even = make_phantom("arcs", lmax=4)
    values = np.zeros((*even.grid.shape, 25), np.float32)
    values[..., even_columns(25)] = even.coefficients
    values[even.support, 1:4] = 0.05 * even.values[:, :1] * np.array([1.0, -1.0, 0.5])
    full = Fod(values, even.grid)
    assert full.is_asymmetric
    found, wanted = coherence(full), coherence(even)
    assert found.best.axes == wanted.best.axes == "+x+y+z"
    assert [reading.coherence for reading in found.readings] == pytest.approx(
        [reading.coherence for reading in wanted.readings]
    )
