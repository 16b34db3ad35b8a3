"""Histological ODFs: against sums of lobes one by one, and fibres that cross at a known angle."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from dipy.core.sphere import Sphere
from dipy.data import get_sphere
from dipy.direction import peak_directions
from numpy.polynomial import legendre
from waves import straight

from napari_tractography import Fod, Grid
from napari_tractography.errors import InvalidImageError, InvalidParameterError
from napari_tractography.fields.odfs import block_coefficients, block_odfs
from napari_tractography.fields.structure_tensors import image_source
from napari_tractography.model.defaults import strong_amplitude
from napari_tractography.model.image_phantoms import make_image_phantom

AFFINE = np.array([[0, 0, -0.4, 3], [0.5, 0, 0, -7], [0, 0.5, 0, 1], [0, 0, 0, 1.0]])


class Given:
    """Orientations that are there already."""

    def __init__(self, vectors, affine=None):
        self.all, self.name = vectors, "given"
        self.grid = Grid(vectors.shape[:3], np.eye(4) if affine is None else affine, unit="um")

    def vectors(self, first, last):
        return self.all[tuple(slice(a, b) for a, b in zip(first, last, strict=True))]


def drawn(shape, seed=0):
    """Vectors of all directions and lengths from 0 to 1, a fifth of them zero."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(*shape, 3))
    vectors *= rng.uniform(size=(*shape, 1)) / np.linalg.norm(vectors, axis=-1, keepdims=True)
    vectors[rng.uniform(size=shape) < 0.2] = 0
    return vectors.astype(np.float32)


def lobe(cosines):
    """Return the lobe, 1 at its top: the square of a delta function of degree 4."""
    return np.square(legendre.legval(cosines, [1, 0, 5, 0, 9]) / 15)


def peaks_of(fod, block):
    """Return the directions of the peaks of a voxel, as DIPY finds them on a fine sphere."""
    sphere = get_sphere(name="repulsion724").subdivide(n=2)
    units = sphere.vertices / np.linalg.norm(sphere.vertices, axis=1, keepdims=True)
    amplitudes = fod.sample_matrix(units) @ fod.coefficients[block]
    found, _, _ = peak_directions(
        amplitudes, Sphere(xyz=units, faces=sphere.faces), relative_peak_threshold=0.3
    )
    return found


def test_amplitudes_are_means_of_lobes():
    vectors = drawn((4, 4, 4))
    units = np.random.default_rng(1).normal(size=(40, 3))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    fod = Fod(block_coefficients(vectors, 2), np.eye(4))
    found = fod.amplitudes(units)
    for block in np.ndindex(2, 2, 2):
        inside = vectors[tuple(slice(2 * i, 2 * i + 2) for i in block)].reshape(-1, 3)
        lengths = np.linalg.norm(inside, axis=1)
        cosines = units @ (inside / np.maximum(lengths, 1e-9)[:, None]).T
        expected = (lobe(cosines) * lengths).mean(axis=1)
        np.testing.assert_allclose(found[block], expected, atol=1e-5)


def test_the_lobe_is_narrow_and_nowhere_negative():
    angles = np.radians(np.arange(0, 91))
    along_x = np.zeros((2, 2, 2, 3), np.float32)
    along_x[..., 0] = 1
    fod = Fod(block_coefficients(along_x, 2), np.eye(4))
    units = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    heights = fod.amplitudes(units)[0, 0, 0]
    assert heights[0] == pytest.approx(1, abs=1e-5)
    assert heights.min() > -1e-5
    assert heights[17] > 0.5 > heights[18]
    assert heights[40:].max() < 0.03
    assert np.cos(angles[23]) ** 8 > 0.5  # of the lobes that stand for peaks


def test_blocks_at_the_ends_hold_what_is_left():
    vectors = drawn((5, 4, 3))
    coefficients, grid = block_odfs(Given(vectors, AFFINE), 2)
    assert coefficients.shape == (3, 2, 2, 45)
    assert grid.unit == "um"
    alone = block_coefficients(vectors[4:, :2, 2:], 2)  # 1 x 2 x 1 voxels
    np.testing.assert_allclose(coefficients[2, 0, 1], alone[0, 0, 0], atol=1e-6)
    own = Grid((5, 4, 3), AFFINE)
    np.testing.assert_allclose(grid.to_mm([0, 0, 0]), own.to_mm([0.5, 0.5, 0.5]))
    np.testing.assert_allclose(grid.to_mm([2, 1, 1]), own.to_mm([4.5, 2.5, 2.5]))


def test_boxes_make_no_difference(monkeypatch):
    vectors = drawn((9, 8, 7))
    whole, _ = block_odfs(Given(vectors), 3)
    monkeypatch.setattr("napari_tractography.fields.odfs.BOX_VOXELS", 4)
    by_boxes, _ = block_odfs(Given(vectors), 3)
    assert whole.any()
    np.testing.assert_allclose(by_boxes, whole, atol=1e-6)


@pytest.mark.parametrize("angle_deg", [45, 60, 90])
def test_fibres_that_cross_are_two_peaks_at_their_angle(angle_deg):
    """Layers of two directions by turns; in oblique, anisotropic, left-handed voxels."""
    half = np.radians(angle_deg / 2)
    along = np.array([[np.cos(half), 0, np.sin(half)], [np.cos(half), 0, -np.sin(half)]])
    vectors = np.tile(along[np.arange(8) % 2, None, None].astype(np.float32), (1, 8, 8, 1))
    found, grid = block_odfs(Given(vectors, AFFINE), 8)
    peaks = peaks_of(Fod(found, grid), (0, 0, 0))
    assert len(peaks) == 2
    cosines = np.abs(peaks @ along.T)
    # Lobes that touch lean to each other.
    assert np.degrees(np.arccos(cosines.max(axis=1).min())) < (6 if angle_deg == 45 else 3)


def test_the_plies_of_a_woven_composite_are_two_peaks_at_right_angles():
    phantom = make_image_phantom("weave")
    shape = 48, 48, 24  # a tow along each axis, which cross where they touch
    image = phantom.image[tuple(slice(0, n) for n in shape)]
    fod = Fod.from_image(image, Grid(shape, phantom.grid.affine, unit="um"), odf_voxels=24)
    assert fod.kind == "sh"
    assert fod.grid.shape == (2, 2, 1)
    assert fod.grid.unit == "um"
    for block in np.ndindex(2, 2, 1):
        peaks = peaks_of(fod, block)[:2]
        assert abs(peaks[0] @ peaks[1]) < np.cos(np.radians(80))
        axes = np.abs(peaks).argmax(axis=1)
        assert set(axes.tolist()) == {0, 1}
        assert np.abs(peaks).max(axis=1).min() > np.cos(np.radians(12))


def test_odfs_follow_the_axes_of_the_image():
    along = np.array([1.0, 2.0, -0.7])
    image = straight((24, 24, 24), along)
    fod = Fod.from_image(image, AFFINE, odf_voxels=12)
    world = AFFINE[:3, :3] @ along
    (peak, *_) = peaks_of(fod, (1, 0, 1))
    assert abs(peak @ world) / np.linalg.norm(world) > np.cos(np.radians(3))
    assert 0.7 < strong_amplitude(fod) < 1.3
    source = image_source(image, AFFINE)
    raw = Fod(*block_odfs(source, 12))
    linearity = np.linalg.norm(source.vectors((12, 0, 12), (24, 12, 24)), axis=-1).mean()
    strongest = raw.amplitudes(peak[None])[1, 0, 1, 0]
    assert linearity * 0.9 < strongest <= linearity + 1e-5


def test_progress_is_told_and_work_is_given_up():
    source = Given(drawn((130, 4, 4)))
    told = []
    block_odfs(source, 4, told.append)
    assert told == pytest.approx([1 / 3, 2 / 3, 1])

    class StopError(Exception):
        pass

    def stop(_fraction):
        raise StopError

    with pytest.raises(StopError):
        block_odfs(source, 4, stop)
    assert not [t for t in threading.enumerate() if t.name.startswith("tractography-odfs")]


@pytest.mark.parametrize("odf_voxels", [1, 65, 2.5])
def test_blocks_that_cannot_be(odf_voxels):
    with pytest.raises(InvalidImageError, match=r"odf_voxels = .* is no edge of a block; give"):
        block_odfs(Given(drawn((4, 4, 4))), odf_voxels)


def test_only_images_have_odfs_of_blocks():
    fod = Fod.from_peaks(drawn((4, 4, 4))[..., None, :], np.eye(4))
    with pytest.raises(InvalidParameterError, match="holds peaks; ODFs of blocks"):
        fod.odfs(2)
