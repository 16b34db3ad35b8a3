"""Direction-encoded colours, beside MRtrix3's fod2dec."""

from __future__ import annotations

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest

import napari_tractography as nt
from napari_tractography import load_fod
from napari_tractography.errors import InvalidParameterError
from napari_tractography.fields.sh import sh_matrix
from napari_tractography.maps.direction_colours import direction_colours
from napari_tractography.model.phantoms import make_phantom


def test_fibres_have_the_colours_of_their_directions():
    """One along each axis, and none."""
    coefficients = np.zeros((4, 2, 2, 28), np.float32)
    for axis in range(3):
        coefficients[axis] = sh_matrix(np.eye(3)[axis : axis + 1], 6, "tournier07")[0]
    colours = direction_colours(nt.Fod(coefficients, np.eye(4)))
    assert colours.shape == (4, 2, 2, 3)
    assert colours.min() >= 0
    assert colours.max() <= 1
    assert not colours[3].any()
    for axis in range(3):
        others = np.delete(colours[axis], axis, axis=-1)
        assert (others < 0.5 * colours[axis][..., axis : axis + 1]).all()


def test_colours_of_an_asymmetric_fod_are_those_of_its_arms():
    """One up, the other down: the lower half of the sphere counts, too."""
    units = np.array([[0.0, 0.6, 0.8], [-0.6, 0.0, -0.8]])
    fod = nt.Fod(sh_matrix(units, 6, "tournier07", True).reshape(2, 1, 1, 49), np.eye(4))
    up, down = direction_colours(fod)[:, 0, 0]
    np.testing.assert_allclose(up, down[[1, 0, 2]], atol=0.03)
    assert up[2] > up[1] > up[0]


def test_weights_make_voxels_dark_and_bright():
    fod = make_phantom("cross", lmax=4)
    weights = np.where(np.arange(fod.grid.shape[0])[:, None, None] < 16, 0.2, 0.8)
    weights = np.broadcast_to(weights, fod.grid.shape)
    bright = np.linalg.norm(direction_colours(fod, weights), axis=-1)
    np.testing.assert_allclose(bright[:16][fod.support[:16]], 0.25, rtol=1e-4)
    np.testing.assert_allclose(bright[16:][fod.support[16:]], 1.0, rtol=1e-4)
    with pytest.raises(InvalidParameterError, match="resample the weights"):
        direction_colours(fod, weights[1:])


@pytest.mark.skipif(shutil.which("fod2dec") is None, reason="no MRtrix3 on this machine")
def test_hues_are_those_of_fod2dec(shared_data, tmp_path):
    fod = load_fod(shared_data / "brain" / "fod_template.mif.gz")
    out = tmp_path / "dec.nii.gz"
    command = ["fod2dec", "-quiet", str(shared_data / "brain" / "fod_template.mif.gz"), str(out)]
    subprocess.run([*command, "-no_weight"], check=True)
    theirs = nib.load(out).get_fdata().astype(np.float32)
    ours = direction_colours(fod)
    placed = nib.load(out).affine
    if not np.allclose(placed, fod.grid.affine, atol=1e-3):
        pytest.fail("fod2dec wrote another grid")
    both = (np.linalg.norm(ours, axis=-1) > 0.05) & (np.linalg.norm(theirs, axis=-1) > 0.05)
    a, b = ours[both], theirs[both]
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert both.sum() > 10_000
    assert np.median(cosine) > 0.9995
    assert np.quantile(cosine, 0.01) > 0.99  # other directions, and blurred edges of lobes
